//! The reranker against servers in this process.

use futures_lite::future::block_on;
use serde_json::{Value, json};

use super::*;
use crate::remote::server::{Reply, Request, Server};

/// The worst text first, as its length says.
fn rows(texts: &Value, score: &str) -> Value {
    let texts = texts.as_array().unwrap();
    let mut rows: Vec<(usize, usize)> =
        texts.iter().map(|text| text.as_str().unwrap().len()).enumerate().collect();
    rows.sort_by_key(|&(_, length)| length);
    rows.into_iter().map(|(index, length)| json!({"index": index, score: length})).collect()
}

fn serve(_: usize, request: &Request) -> Reply {
    match request.route.as_str() {
        "GET /info" => Reply::json(&json!({
            "model_id": "BAAI/bge-reranker-base", "model_sha": "2cfc18c9415c912f9d8155881c133215df768a70",
            "max_input_length": 512, "max_client_batch_size": 2,
        })),
        "POST /rerank" => Reply::json(&rows(&request.body["texts"], "score")),
        "POST /v1/rerank" | "POST /v2/rerank" => {
            let results = rows(&request.body["documents"], "relevance_score");
            Reply::json(&json!({"results": results, "meta": {}}))
        }
        _ => Reply::with("404 Not Found", ""),
    }
}

fn connect(server: &Server, api: Api, batch_texts: usize) -> Result<RemoteReranker, RerankError> {
    let model = (api != Api::Tei).then(|| "model".to_owned());
    let batch_texts = NonZero::new(batch_texts).unwrap();
    let options = RemoteOptions::new(api, &server.url, model);
    let options = RemoteOptions { endpoint: server.endpoint(), batch_texts, ..options };
    block_on(RemoteReranker::connect(options))
}

const TEXTS: [&str; 5] = ["four", "a", "seven77", "bb", ""];

#[test]
fn scores_come_in_the_order_of_the_texts() {
    let check = |api: Api, model: &str, route: &str, batch_texts: usize, n_requests: usize| {
        let server = Server::start(serve);
        let reranker = connect(&server, api, batch_texts).unwrap();
        assert_eq!(reranker.describe().model, model);
        let request = RerankRequest::passages("how?", TEXTS);
        assert_eq!(block_on(reranker.rerank(&request)).unwrap(), [4.0, 1.0, 7.0, 2.0, 0.0]);
        let none = RerankRequest::passages("how?", []);
        assert_eq!(block_on(reranker.rerank(&none)).unwrap(), [0.0; 0]);
        let mut requests = server.requests();
        requests.retain(|request| request.route != "GET /info");
        assert_eq!(requests.len(), n_requests, "{api:?}");
        assert!(requests.iter().all(|request| request.route == route), "{api:?}");
        requests[0].body.clone()
    };
    let cohere = json!({"model": "model", "query": "how?", "documents": TEXTS, "top_n": 5});
    assert_eq!(check(Api::Cohere, "model", "POST /v2/rerank", 1000, 1), cohere);
    let jina = check(Api::Jina, "model", "POST /v1/rerank", 5, 1);
    assert_eq!(jina["return_documents"], json!(false));
    check(Api::Jina, "model", "POST /v1/rerank", 1, 5);
    // The server takes two texts at once, whatever the options say.
    let tei = check(Api::Tei, "BAAI/bge-reranker-base@2cfc18c9", "POST /rerank", 100, 3);
    assert_eq!((&tei["query"], &tei["raw_scores"]), (&json!("how?"), &json!(false)));
}

/// What the reranker makes of an answer to two texts.
#[track_caller]
fn check(answer: Reply, expected: &str) -> RerankError {
    let server = Server::scripted(vec![answer]);
    let reranker = connect(&server, Api::Cohere, 10).unwrap();
    let error = block_on(reranker.rerank(&RerankRequest::passages("q", ["a", "b"]))).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains(expected), "{source}");
    error
}

#[test]
fn an_answer_that_cannot_be_right_is_nonsense() {
    let nonsense = |rows: Value, expected: &str| {
        let error = check(Reply::json(&json!({"results": rows})), expected);
        assert!(matches!(error, RerankError::Nonsense { .. }), "{error:?}");
    };
    let row = |index: i64, score: f64| json!({"index": index, "relevance_score": score});
    nonsense(json!([row(0, 1.0), row(2, 1.0)]), "belongs to text 2 of 2");
    nonsense(json!([row(0, 1.0), row(0, 1.0)]), "text 0 has two scores");
    nonsense(json!([row(1, 1.0)]), "text 0 has no score");
    nonsense(json!([]), "text 0 has no score");
    nonsense(json!([row(0, 1.0), row(1, 1e39)]), "the score of text 1 is not finite");
    nonsense(json!([row(-1, 1.0), row(0, 1.0)]), "something else than the JSON expected");
    nonsense(json!([row(0, 1.0), {"index": 1, "relevance_score": null}]), "something else than");
    nonsense(json!("sorry"), "something else than the JSON expected");
    let error = check(Reply::with("200 OK", "<html>"), "something else than the JSON expected");
    assert!(matches!(error, RerankError::Nonsense { .. }), "{error:?}");
}

#[test]
fn a_server_that_is_away_is_told_from_one_that_refuses() {
    let error = check(Reply::with("503 Busy", "loading"), "status 503: `loading`");
    assert!(matches!(error, RerankError::Unavailable { .. }), "{error:?}");
    let error = check(Reply::with("401 Who", "no key"), "status 401: `no key`");
    assert!(matches!(error, RerankError::Server { .. }), "{error:?}");
}

#[test]
fn a_server_with_several_models_has_to_be_told_which() {
    let options = RemoteOptions::new(Api::Jina, "http://127.0.0.1:1", None);
    let error = block_on(RemoteReranker::connect(options)).unwrap_err();
    assert!(matches!(error, RerankError::Server { .. }), "{error:?}");
}
