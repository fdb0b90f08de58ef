//! The embedder against servers in this process.

use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use serde_json::{Value, json};

use super::*;
use crate::remote::server::{Reply, Request, Server};

/// Four numbers that tell one text from another.
fn numbers(text: &str) -> [f32; 4] {
    let first = text.bytes().next().unwrap_or_default();
    [f32::from(first), text.len() as f32, 1.0, -2.0]
}

fn inputs<'a>(request: &'a Request, key: &str) -> Vec<&'a str> {
    request.body[key].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// Answers as OpenAI does, the last row first.
fn openai(request: &Request) -> Value {
    let texts = inputs(request, "input");
    let rows = texts.iter().enumerate().rev().map(|(index, text)| {
        let n = request.body["dimensions"].as_u64().unwrap_or(4) as usize;
        json!({"object": "embedding", "index": index, "embedding": numbers(text)[..n]})
    });
    json!({"object": "list", "data": rows.collect::<Vec<_>>(), "usage": {"prompt_tokens": 3}})
}

fn tei(request: &Request) -> Reply {
    match request.route.as_str() {
        "GET /info" => Reply::json(&json!({
            "model_id": "intfloat/e5-small-v2", "model_sha": "fd1525a9fd15316a2d503bf26ab031a61d056e98",
            "max_input_length": 512, "max_client_batch_size": 3, "version": "1.8",
        })),
        "POST /embed" => {
            let rows: Vec<_> = inputs(request, "inputs").into_iter().map(numbers).collect();
            Reply::json(&json!(rows))
        }
        _ => Reply::with("404 Not Found", ""),
    }
}

fn options(server: &Server, options: RemoteOptions) -> RemoteOptions {
    RemoteOptions { endpoint: server.endpoint(), ..options }
}

fn connect(server: &Server, change: impl FnOnce(&mut RemoteOptions)) -> RemoteEmbedder {
    let mut options = options(server, RemoteOptions::openai("", "model"));
    change(&mut options);
    block_on(RemoteEmbedder::connect(options)).unwrap()
}

fn unit(row: &[f32]) -> Vec<f32> {
    let norm = row.iter().map(|number| number * number).sum::<f32>().sqrt();
    row.iter().map(|number| number / norm).collect()
}

#[track_caller]
fn assert_near(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    let is_near = got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6);
    assert!(is_near, "{got:?} {expected:?}");
}

#[test]
fn rows_come_in_the_order_of_the_texts_whatever_the_server_does() {
    let server = Server::start(|_, request| Reply::json(&openai(request)));
    let embedder = connect(&server, |options| {
        options.batch_texts = NonZero::new(3).unwrap();
        options.concurrency = NonZero::new(2).unwrap();
    });
    let texts: Vec<String> = ('a'..='j').map(|letter| letter.to_string()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let rows = block_on(embedder.embed_passages(&texts)).unwrap();
    assert_eq!(rows.len(), 10);
    for (row, text) in rows.iter().zip(&texts) {
        assert_near(row, &unit(&numbers(text)));
    }
    assert_near(&block_on(embedder.embed_query("q")).unwrap(), &unit(&numbers("q")));
    assert_eq!(block_on(embedder.embed_passages(&[])).unwrap().len(), 0);

    let requests = server.requests();
    let mut sizes: Vec<usize> =
        requests.iter().map(|request| inputs(request, "input").len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 1, 1, 3, 3, 3]);
    assert_eq!(requests[0].route, "POST /v1/embeddings");
    assert_eq!(
        requests[0].body,
        json!({"model": "model", "input": ["length"], "encoding_format": "float"})
    );
    assert_eq!(embedder.describe().model, "model@4");
    assert_eq!((embedder.describe().dimension, embedder.describe().max_tokens), (4, 512));
}

#[test]
fn rows_without_an_index_are_in_order_already() {
    let server = Server::start(|_, request| {
        let rows =
            inputs(request, "input").into_iter().map(|text| json!({"embedding": numbers(text)}));
        Reply::json(&json!({"data": rows.collect::<Vec<_>>()}))
    });
    let rows = block_on(connect(&server, |_| ()).embed_passages(&["a", "b"])).unwrap();
    assert_near(&rows[1], &unit(&numbers("b")));
}

#[test]
fn a_text_embeddings_inference_server_says_what_it_runs() {
    let server = Server::start(|_, request| tei(request));
    let embedder =
        block_on(RemoteEmbedder::connect(options(&server, RemoteOptions::tei("")))).unwrap();
    let info = embedder.describe();
    assert_eq!(
        info.model,
        r#"intfloat/e5-small-v2@4:fd1525a9 query="query: " passage="passage: ""#
    );
    assert_eq!((info.dimension, info.max_tokens), (4, 512));
    let rows = block_on(embedder.embed_passages(&["a", "bb", "c", "d"])).unwrap();
    assert_near(&rows[1], &unit(&numbers("passage: bb")));
    block_on(embedder.embed_query(&"long ".repeat(1000))).unwrap();

    let requests = server.requests();
    // One request at the connection, two of at most three texts, one query.
    assert_eq!(requests.len(), 5);
    let query = &requests[4].body;
    assert!(query["inputs"][0].as_str().unwrap().starts_with("query: long long"));
    assert_eq!((&query["truncate"], &query["normalize"]), (&json!(true), &json!(true)));
    assert!(requests[1..4].iter().all(|request| request.body["truncate"] == json!(false)));
}

#[test]
fn the_name_tells_apart_what_does_not_mix() {
    let server = Server::start(|_, request| Reply::json(&openai(request)));
    let check = |expected: &str, change: fn(&mut RemoteOptions)| {
        assert_eq!(connect(&server, change).describe().model, expected);
    };
    check("model@4", |_| ());
    check("model@2", |options| options.dimension = NonZero::new(2));
    check(r#"model@4 query="q: ""#, |options| options.query_prefix = Some("q: ".to_owned()));
    check("e5@4", |options| {
        options.model = Some("e5".to_owned());
        (options.query_prefix, options.passage_prefix) = (Some(String::new()), Some(String::new()));
    });
    check(r#"nomic-embed-text@4 query="search_query: " passage="p ""#, |options| {
        options.model = Some("nomic-embed-text".to_owned());
        options.passage_prefix = Some("p ".to_owned());
    });
}

#[test]
fn vectors_are_cut_here_or_by_the_server() {
    let server = Server::start(|_, request| Reply::json(&openai(request)));
    let cut = |who| {
        let embedder = connect(&server, |options| {
            options.dimension = NonZero::new(2);
            options.cut = who;
        });
        assert_eq!(embedder.describe().dimension, 2);
        let rows = block_on(embedder.embed_passages(&["a"])).unwrap();
        assert_near(&rows[0], &unit(&numbers("a")[..2]));
        server.requests().last().unwrap().body["dimensions"].clone()
    };
    assert_eq!(cut(Cut::Here), Value::Null);
    assert_eq!(cut(Cut::Server), json!(2));
}

/// Why nothing comes of options and a server that answers the first texts well and then otherwise.
#[track_caller]
fn check_error(
    expected: &str,
    then: fn(&Request) -> Reply,
    change: fn(&mut RemoteOptions),
) -> EmbedError {
    let server = Server::start(move |before, request| match before {
        0 => Reply::json(&openai(request)),
        _ => then(request),
    });
    let mut options = options(&server, RemoteOptions::openai("", "model"));
    change(&mut options);
    let error = block_on(async {
        let embedder = RemoteEmbedder::connect(options).await?;
        embedder.embed_passages(&["a", "b"]).await
    });
    let error = error.unwrap_err();
    let said = match std::error::Error::source(&error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    };
    let said = said.replace(&server.url, "http://host");
    assert!(said.contains(expected), "{said}");
    error
}

fn rows(rows: &Value) -> Reply {
    Reply::json(&json!({"data": rows}))
}

#[test]
fn an_answer_that_cannot_be_right_is_refused() {
    let check = |expected: &str, then: fn(&Request) -> Reply| {
        let error = check_error(expected, then, |_| ());
        assert!(matches!(error, EmbedError::Server { .. }), "{error}");
    };
    check("2 texts gave 1 rows", |_| rows(&json!([{"index": 0, "embedding": [1, 2, 3, 4]}])));
    check("row 7 is not there, or there twice, for 2 texts", |_| {
        rows(&json!([{"index": 0, "embedding": [1]}, {"index": 7, "embedding": [1]}]))
    });
    check("row 0 is not there, or there twice, for 2 texts", |_| {
        rows(&json!([{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]))
    });
    check("row 1 has 3 numbers, want 4", |_| {
        rows(&json!([{"embedding": [1, 2, 3, 4]}, {"embedding": [1, 2, 3]}]))
    });
    check("row 0 holds a number that is not finite", |_| {
        rows(&json!([{"embedding": [1e39, 2, 3, 4]}, {"embedding": [1, 2, 3, 4]}]))
    });
    check("row 1 is zero", |_| {
        rows(&json!([{"embedding": [1, 2, 3, 4]}, {"embedding": [0, 0, 0, 0]}]))
    });
    check("something else than the JSON expected", |_| {
        rows(&json!([{"embedding": [null, 2, 3, 4]}, {"embedding": [1, 2, 3, 4]}]))
    });
    check("status 400: `too long`", |_| Reply::with("400 No", "too long"));
}

#[test]
fn a_server_that_is_away_is_told_from_one_that_refuses() {
    let busy = |_: &Request| Reply::with("503 Busy", "loading");
    let error = check_error("status 503: `loading`", busy, |options| options.endpoint.retries = 1);
    assert!(matches!(error, EmbedError::Unavailable { .. }));
    let error = check_error("no answer from `http://127.0.0.1:1/v1/emb", busy, |options| {
        options.endpoint.url = "http://127.0.0.1:1".to_owned();
    });
    assert!(matches!(error, EmbedError::Unavailable { .. }));
}

#[test]
fn a_busy_server_is_asked_again() {
    let server = Server::start(|before, request| match before {
        1 => Reply::with("429 Busy\r\nRetry-After: 0", ""),
        _ => Reply::json(&openai(request)),
    });
    let rows = block_on(connect(&server, |_| ()).embed_passages(&["a"])).unwrap();
    assert_near(&rows[0], &unit(&numbers("a")));
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn options_that_cannot_be_met_are_refused_at_once() {
    let never = |_: &Request| Reply::with("500 Never", "");
    check_error("no model is named", never, |options| options.model = None);
    check_error("vectors of length 5 are wanted, got 4", never, |options| {
        options.dimension = NonZero::new(5);
    });
    check_error("texts of 2 tokens leave no room", never, |options| options.max_tokens = Some(2));
    check_error("is not asked to cut", never, |options| {
        (options.api, options.cut) = (Api::OpenAi, Cut::Server);
        options.dimension = NonZero::new(4);
        options.api = Api::Tei;
    });
}

#[test]
fn a_passage_that_may_be_too_long_is_named_and_a_query_is_cut() {
    let server = Server::start(|_, request| Reply::json(&openai(request)));
    let embedder = connect(&server, |options| options.max_tokens = Some(20));
    let long = "one two three four five six seven eight nine ten eleven twelve thirteen";
    let error = block_on(embedder.embed_passages(&["short", long])).unwrap_err();
    let EmbedError::TooLong { position, tokens, limit, .. } = error else { panic!("{error}") };
    assert_eq!((position, limit), (1, 20));
    assert_eq!(tokens, embedder.count_tokens(long));
    assert!(tokens > 20);
    assert_eq!(server.requests().len(), 1);

    block_on(embedder.embed_query(long)).unwrap();
    let requests = server.requests();
    let sent = inputs(&requests[1], "input")[0];
    assert!(long.starts_with(sent) && sent.starts_with("one two three four"), "{sent}");
    assert!(embedder.count_tokens(sent) <= 20);
}

#[test]
fn a_query_does_not_wait_for_passages() {
    let server = Server::start(|before, request| {
        let is_passage = before > 0 && inputs(request, "input")[0] == "passage";
        Reply::json(&openai(request)).after(if is_passage { 3_000 } else { 0 })
    });
    let embedder = connect(&server, |options| {
        options.batch_texts = NonZero::<usize>::MIN;
        options.concurrency = NonZero::<usize>::MIN;
    });
    let started = Instant::now();
    let passages = embedder.embed_passages(&["passage"; 20]);
    let query = async {
        let row = embedder.embed_query("q").await.unwrap();
        assert_near(&row, &unit(&numbers("q")));
        Ok(Vec::new())
    };
    // The passages are dropped with their future.
    block_on(futures_lite::future::or(query, passages)).unwrap();
    assert!(started.elapsed() < Duration::from_millis(2_900));
}
