//! The client against a server in this process.

use serde_json::{Value, json};

use super::server::{Reply, Server};
use super::*;

/// What becomes of a request that is answered by the script: the answer, or the error in words, and how often it was asked.
fn ask(replies: Vec<Reply>, change: impl FnOnce(&mut Endpoint)) -> (Result<Value, String>, usize) {
    let server = Server::scripted(replies);
    let mut endpoint = server.endpoint();
    change(&mut endpoint);
    let answer = Client::new(endpoint).unwrap().post::<Value>("/route", &json!({"a": 1}));
    let answer = answer.map_err(|error| error.to_string().replace(&server.url, "http://host"));
    (answer, server.requests().len())
}

#[track_caller]
fn check(replies: Vec<Reply>, expected: &Result<Value, &str>, n_requests: usize) {
    let (answer, n) = ask(replies, |_| ());
    assert_eq!(answer.as_ref().map_err(String::as_str), expected.as_ref().map_err(|text| *text));
    assert_eq!(n, n_requests);
}

fn fine() -> Reply {
    Reply::json(&json!({"b": 2}))
}

#[test]
fn json_goes_there_and_json_comes_back() {
    let server = Server::scripted(vec![fine()]);
    let client = Client::new(server.endpoint()).unwrap();
    assert_eq!(client.post::<Value>("/v1/x", &json!({"a": "é"})).unwrap(), json!({"b": 2}));
    assert_eq!(client.get::<Value>("/info").unwrap(), json!({"b": 2}));
    let requests = server.requests();
    assert_eq!(requests[0].route, "POST /v1/x");
    assert_eq!(requests[0].body, json!({"a": "é"}));
    assert!(requests[0].headers.to_lowercase().contains("content-type: application/json"));
    assert!(!requests[0].headers.to_lowercase().contains("authorization"));
    assert_eq!(requests[1].route, "GET /info");
}

#[test]
fn what_may_pass_later_is_tried_again() {
    let fine = &Ok(json!({"b": 2}));
    check(vec![Reply::with("429 Busy\r\nRetry-After: 0", "slow down"), self::fine()], fine, 2);
    check(vec![Reply::with("429 Busy\r\nRetry-After: 9999", ""), self::fine()], fine, 2);
    check(vec![Reply::with("408 Slow", ""), Reply::with("502 Bad", ""), self::fine()], fine, 3);
    check(vec![self::fine().cut(3), self::fine()], fine, 2);
    check(vec![Reply::raw(""), self::fine()], fine, 2);
    let busy = &Err("`http://host/route` answered with status 503: `loading the model`");
    check(vec![Reply::with("503 Busy", "loading\n  the model")], busy, 4);
}

#[test]
fn what_would_fail_again_is_not() {
    let status = |status: &str| Reply::with(status, "{\"error\": \"no\"}");
    let wanted = |status: u16| {
        format!("`http://host/route` answered with status {status}: `{{\"error\": \"no\"}}`")
    };
    check(vec![status("401 Who"), fine()], &Err(&wanted(401)), 1);
    check(vec![status("413 Long"), fine()], &Err(&wanted(413)), 1);
    check(vec![status("307 There\r\nLocation: /x"), fine()], &Err(&wanted(307)), 1);
    check(vec![status("302 There\r\nLocation: /x"), fine()], &Err(&wanted(302)), 1);
    let nonsense = "`http://host/route` answered with something else than the JSON expected: ";
    let page = "<html> Sign in";
    check(vec![Reply::with("200 OK", page)], &Err(&format!("{nonsense}`{page}`")), 1);
    check(vec![Reply::with("200 OK", "")], &Err(&format!("{nonsense}``")), 1);
}

#[test]
fn an_error_repeats_200_characters_of_the_answer() {
    let (answer, _) = ask(vec![Reply::with("400 No", &"é".repeat(100_000))], |_| ());
    let expected = format!("`http://host/route` answered with status 400: `{}`", "é".repeat(200));
    assert_eq!(answer.unwrap_err(), expected);
}

#[test]
fn garbage_is_no_answer() {
    let (answer, _) = ask(vec![Reply::raw("SSH-2.0-OpenSSH\r\n\r\n")], |_| ());
    assert_eq!(answer.unwrap_err(), "no answer from `http://host/route`");
}

#[test]
fn a_huge_answer_is_not_read() {
    let huge = json!("x".repeat(100_000)).to_string();
    let (answer, n) = ask(vec![Reply::with("200 OK", &huge)], |endpoint| {
        endpoint.max_answer_bytes = 10_000;
    });
    assert_eq!(answer.unwrap_err(), "`http://host/route` answered with more than 10000 bytes");
    assert_eq!(n, 1);
    let (answer, _) = ask(vec![Reply::with("200 OK", &huge)], |endpoint| {
        endpoint.max_answer_bytes = huge.len() as u64;
    });
    assert!(answer.is_ok());
}

#[test]
fn a_silent_server_is_given_up_in_time_and_once() {
    let started = Instant::now();
    for silent in [fine().after(10_000), Reply::events().wait(10_000)] {
        let (answer, n) = ask(vec![silent], |endpoint| {
            endpoint.timeout = Duration::from_millis(200);
        });
        assert_eq!(answer.unwrap_err(), "`http://host/route` took too long to answer");
        assert_eq!(n, 1);
    }
    assert!(started.elapsed() < Duration::from_secs(8));
}

#[test]
fn nobody_listens() {
    let endpoint = Endpoint { backoff: Duration::ZERO, ..Endpoint::new("http://127.0.0.1:1") };
    let error = Client::new(endpoint).unwrap().get::<Value>("/info").unwrap_err();
    assert_eq!(error.to_string(), "no answer from `http://127.0.0.1:1/info`");
    assert!(error.is_passing());
    assert!(error.hint().unwrap().contains("whether the server runs"));
}

#[test]
fn nobody_waits_so_nobody_tries_again() {
    let server = Server::scripted(vec![Reply::with("503 Busy", "")]);
    let client = Client::new(server.endpoint()).unwrap();
    client.post_while::<Value>("/x", &json!({}), &|| false).unwrap_err();
    assert_eq!(server.requests().len(), 1);
}

/// A variable that is set wherever tests run.
const SET: &str = "CARGO_PKG_NAME";

#[test]
fn the_key_is_sent_and_never_shown() {
    let server =
        Server::scripted(vec![Reply::with("401 Who", "{\"error\": \"wrong key: umbel\"}")]);
    let endpoint = Endpoint { key_variable: Some(SET.to_owned()), ..server.endpoint() };
    let client = Client::new(endpoint).unwrap();
    let error = client.get::<Value>("/v1/models").unwrap_err();
    let sent = server.requests()[0].headers.to_lowercase();
    assert!(sent.contains("authorization: bearer umbel\r\n"), "{sent}");
    assert!(error.to_string().ends_with("status 401: `{\"error\": \"wrong key: [key]\"}`"));
    assert!(!format!("{error:?}{client:?}").contains("umbel"));
    assert!(error.hint().unwrap().contains("key"));
}

#[test]
fn a_key_that_is_not_there_is_said_before_anything_is_sent() {
    let variable = "UMBEL_TEST_NO_SUCH_VARIABLE".to_owned();
    let endpoint = Endpoint { key_variable: Some(variable), ..Endpoint::new("http://127.0.0.1:1") };
    let error = Client::new(endpoint).unwrap_err();
    assert_eq!(error.to_string(), "the variable `UMBEL_TEST_NO_SUCH_VARIABLE` holds no key");
    assert_eq!(error.hint().unwrap(), "set `UMBEL_TEST_NO_SUCH_VARIABLE` to the key of the server");
}

#[test]
fn a_route_is_put_behind_an_address() {
    let check = |base: &str, route: &str, expected: &str| {
        assert_eq!(Client::new(Endpoint::new(base)).unwrap().url(route), expected, "{base}");
    };
    check("http://host", "/v1/embeddings", "http://host/v1/embeddings");
    check("http://host/", "/v1/embeddings", "http://host/v1/embeddings");
    check("https://host/v1", "/v1/embeddings", "https://host/v1/embeddings");
    check("https://host/v1/", "/v1/embeddings", "https://host/v1/embeddings");
    check("https://host/v1", "/embed", "https://host/v1/embed");
    check("https://host/proxy/v2", "/v2/rerank", "https://host/proxy/v2/rerank");
    check("https://host/v1", "/v2/rerank", "https://host/v1/v2/rerank");
    check("http://[::1]:8080", "/embed", "http://[::1]:8080/embed");
}

#[test]
fn an_address_that_is_none_is_refused_without_its_secrets() {
    let check = |url: &str, shown: &str| {
        let error = Client::new(Endpoint::new(url)).unwrap_err();
        assert!(error.to_string().starts_with(&format!("`{shown}` is not an address")), "{error}");
    };
    check("", "");
    check("host:8080", "host:8080");
    check("ftp://host", "ftp://host");
    check("http://", "http:");
    check("http://user:secret@host", "host");
    check("http://host?key=secret", "http://host");
    check("http://host#secret", "http://host");
    check("not an address", "not an address");
}
