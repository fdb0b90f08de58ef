//! The generator against servers in this process.

use std::ops::ControlFlow;

use futures_lite::future::block_on;
use serde_json::json;

use super::super::{Message, Usage};
use super::*;
use crate::remote::server::{Reply, Server};

fn delta(text: &str) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": text}}]}))
}

const STOP: &str =
    "data: {\"choices\": [{\"index\": 0, \"delta\": {}, \"finish_reason\": \"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

/// The time-outs of a test: long, where it does not say otherwise.
fn options(server: &Server) -> RemoteOptions {
    RemoteOptions { endpoint: server.endpoint(), ..RemoteOptions::new("", "model") }
}

fn request() -> GenerateRequest {
    GenerateRequest { messages: vec![Message::user("why?")], ..GenerateRequest::default() }
}

/// What comes of a request, and the pieces that were handed over.
fn ask(options: RemoteOptions) -> (Result<Generation, GenerateError>, Vec<String>) {
    let generator = RemoteGenerator::new(options).unwrap();
    let mut pieces = Vec::new();
    let mut on_delta = |piece: &str| {
        pieces.push(piece.to_owned());
        ControlFlow::Continue(())
    };
    let result = block_on(generator.generate(&request(), &mut on_delta));
    let text = match &result {
        Ok(generation) => &generation.text,
        Err(error) => error.text(),
    };
    assert_eq!(pieces.concat(), text);
    (result, pieces)
}

/// The text that an answer gives, and the pieces it is handed over in.
#[track_caller]
fn check(replies: Vec<Reply>, text: &str, pieces: &[&str], finish: &Finish) -> Generation {
    let server = Server::scripted(replies);
    let (result, got) = ask(options(&server));
    let generation = result.unwrap();
    assert_eq!((generation.text.as_str(), &generation.finish), (text, finish));
    assert_eq!(got, pieces);
    generation
}

/// The error that an answer gives, in words, with the text that came before it.
#[track_caller]
fn check_error(
    reply: Reply,
    change: impl FnOnce(&mut RemoteOptions),
    expected: &str,
    text: &str,
) -> GenerateError {
    let server = Server::scripted(vec![reply]);
    let mut options = options(&server);
    change(&mut options);
    let error = ask(options).0.unwrap_err();
    let said = error.to_string().replace(&server.url, "http://host");
    assert!(said.contains(expected), "{said}");
    assert_eq!(error.text(), text);
    error
}

fn same(_: &mut RemoteOptions) {}

#[test]
fn pieces_come_as_they_are_written() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}});
    let events = Reply::events()
        .and(delta("Hel"))
        .wait(50)
        .and(delta("lo"))
        .and(STOP)
        .and(format!("data: {usage}\n\n{DONE}"));
    let generation = check(vec![events], "Hello", &["Hel", "lo"], &Finish::Stop);
    assert_eq!(generation.usage, Some(Usage { prompt_tokens: 9, completion_tokens: 2 }));
}

#[test]
fn bytes_may_be_cut_anywhere() {
    let body = format!(": hello\r\n\r\n{}{STOP}{DONE}", delta("é漢🙂")).replace("\n\n", "\r\n\r\n");
    let at = body.find('漢').unwrap() + 1;
    let (head, tail) = body.as_bytes().split_at(at);
    let events = Reply::events().and(head).wait(50).and(tail);
    check(vec![events], "é漢🙂", &["é漢🙂"], &Finish::Stop);
}

#[test]
fn a_missing_done_is_not_missed() {
    check(vec![Reply::events().and(delta("Hi")).and(STOP)], "Hi", &["Hi"], &Finish::Stop);
    check(vec![Reply::events().and(delta("Hi")).and(DONE)], "Hi", &["Hi"], &Finish::Unstated);
}

#[test]
fn a_server_that_does_not_stream_will_do() {
    let whole = json!({
        "choices": [{"message": {"content": "Hello"}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    });
    let generation = check(vec![Reply::json(&whole)], "Hello", &["Hello"], &Finish::Length);
    assert_eq!(generation.usage, Some(Usage { prompt_tokens: 1, completion_tokens: 2 }));
}

#[test]
fn a_busy_server_is_asked_again() {
    let busy = Reply::with("429 Busy\r\nRetry-After: 0", "slow down");
    let events = Reply::events().and(delta("Hi")).and(DONE);
    check(vec![busy, events], "Hi", &["Hi"], &Finish::Unstated);
}

#[test]
fn the_request_says_what_is_wanted_and_nothing_else() {
    let server = Server::scripted(vec![Reply::events().and(delta("Hi")).and(DONE)]);
    ask(options(&server)).0.unwrap();
    let sent = server.requests().remove(0);
    assert_eq!(sent.route, "POST /v1/chat/completions");
    assert_eq!(
        sent.body,
        json!({
            "model": "model", "messages": [{"role": "user", "content": "why?"}], "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
    let headers = sent.headers.to_lowercase();
    assert!(headers.contains("accept-encoding: identity\r\n"), "{headers}");
    assert_eq!(headers.matches("accept:").count(), 1, "{headers}");

    let generator =
        RemoteGenerator::new(RemoteOptions { ask_usage: false, ..options(&server) }).unwrap();
    let request = GenerateRequest {
        messages: vec![Message::system("be brief"), Message::user("why?")],
        max_tokens: Some(10),
        temperature: Some(0.5),
        seed: Some(7),
        stop: vec!["\n".to_owned()],
    };
    block_on(generator.generate(&request, &mut |_| ControlFlow::Continue(()))).unwrap();
    assert_eq!(
        server.requests()[1].body,
        json!({
            "model": "model", "stream": true, "max_tokens": 10, "temperature": 0.5, "seed": 7, "stop": ["\n"],
            "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "why?"}],
        })
    );
}

/// A server that refuses some parameters, as hosted models do, and answers what is left.
fn picky() -> Server {
    let refuse = |message: &str| {
        Reply::with("400 Bad Request", &json!({"error": {"message": message}}).to_string())
    };
    Server::start(move |_, request| {
        let has = |name: &str| request.body.get(name).is_some();
        match () {
            () if has("max_tokens") => refuse(
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            ),
            () if has("temperature") => refuse(
                "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.",
            ),
            () => Reply::events().and(delta("Hi")).and(STOP),
        }
    })
}

#[test]
fn a_parameter_that_the_server_refuses_is_given_up_once_and_for_all() {
    let server = picky();
    let generator = RemoteGenerator::new(options(&server)).unwrap();
    let request = GenerateRequest { max_tokens: Some(9), temperature: Some(0.0), ..request() };
    for n_requests in [3, 4] {
        let mut go_on = |_: &str| ControlFlow::Continue(());
        let generation = block_on(generator.generate(&request, &mut go_on)).unwrap();
        assert_eq!(
            (generation.text.as_str(), &generation.left_out[..]),
            ("Hi", &["temperature"][..])
        );
        let requests = server.requests();
        assert_eq!(requests.len(), n_requests);
        let last = &requests[n_requests - 1].body;
        assert_eq!(last["max_completion_tokens"], 9);
        assert!(last.get("max_tokens").is_none() && last.get("temperature").is_none(), "{last}");
    }
}

#[test]
fn a_refusal_of_something_else_is_an_error_at_once() {
    let server = Server::scripted(vec![Reply::with("400 No", "max_tokens is too large: 9")]);
    let generator = RemoteGenerator::new(options(&server)).unwrap();
    let request = GenerateRequest { max_tokens: Some(9), ..request() };
    let mut go_on = |_: &str| ControlFlow::Continue(());
    let error = block_on(generator.generate(&request, &mut go_on)).unwrap_err();
    assert!(matches!(error, GenerateError::Status { status: 400, .. }), "{error:?}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_receiver_that_has_enough_ends_it() {
    let endless = (0..100).fold(Reply::events(), |reply, _| reply.and(delta("la ")).wait(100));
    let server = Server::scripted(vec![endless]);
    let generator = RemoteGenerator::new(options(&server)).unwrap();
    let mut n_pieces = 0;
    let started = Instant::now();
    let mut on_delta = |_: &str| {
        n_pieces += 1;
        if n_pieces == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let generation = block_on(generator.generate(&request(), &mut on_delta)).unwrap();
    assert_eq!((generation.text.as_str(), generation.finish), ("la la ", Finish::Broken));
    assert!(started.elapsed() < Duration::from_secs(8));
}

#[test]
fn threads_end_once_nobody_waits() {
    let endless = (0..1_000).fold(Reply::events(), |reply, _| reply.and(delta("la ")).wait(50));
    let server = Server::scripted(vec![endless]);
    let generator = RemoteGenerator::new(options(&server)).unwrap();
    let request = request();
    let (mut on_delta, mut n_polls) = (|_: &str| ControlFlow::Continue(()), 0);
    let dropped = generator.generate(&request, &mut on_delta);
    let soon = futures_lite::future::poll_fn(|context| {
        n_polls += 1;
        context.waker().wake_by_ref();
        thread::sleep(Duration::from_millis(10));
        if n_polls > 20 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    });
    block_on(futures_lite::future::or(async { drop(dropped.await) }, soon));
    let started = Instant::now();
    while Arc::strong_count(&generator.shared) > 1 {
        assert!(started.elapsed() < Duration::from_secs(8), "a thread goes on");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_server_that_is_not_there() {
    let mut options = RemoteOptions::new("http://127.0.0.1:1", "model");
    options.endpoint.backoff = Duration::ZERO;
    let error = ask(options).0.unwrap_err();
    assert!(matches!(error, GenerateError::Unreachable { .. }), "{error:?}");
    assert_eq!(error.to_string(), "no answer from `http://127.0.0.1:1/v1/chat/completions`");
}

#[test]
fn a_server_that_refuses() {
    let expected = "`http://host/v1/chat/completions` answered with status 404: `{\"error\": \"no such model\"}`";
    let refusal = Reply::with("404 No", "{\"error\": \"no such model\"}");
    let error = check_error(refusal, same, expected, "");
    assert!(matches!(error, GenerateError::Status { status: 404, .. }), "{error:?}");
}

#[test]
fn a_server_that_is_slow() {
    let started = Instant::now();
    let hasty = |options: &mut RemoteOptions| {
        options.first_token_timeout = Duration::from_millis(300);
        options.next_token_timeout = Duration::from_millis(300);
    };
    let first = "did not begin its answer within 300ms";
    check_error(Reply::events().after(10_000), hasty, first, "");
    check_error(Reply::events().wait(10_000), hasty, first, "");
    // A sign of life is no token.
    let alive = (0..200).fold(Reply::events(), |reply, _| reply.and(": wait\n\n").wait(50));
    check_error(alive, hasty, first, "");
    let next = "did not go on with its answer within 300ms";
    let error = check_error(Reply::events().and(delta("Hel")).wait(10_000), hasty, next, "Hel");
    assert!(matches!(error, GenerateError::TimedOut { wait: Wait::Next, .. }), "{error:?}");
    let whole = |options: &mut RemoteOptions| options.endpoint.timeout = Duration::from_millis(400);
    let endless = (0..200).fold(Reply::events(), |reply, _| reply.and(delta("la ")).wait(1_000));
    let server = Server::scripted(vec![endless]);
    let mut options = options(&server);
    whole(&mut options);
    let error = ask(options).0.unwrap_err();
    assert!(matches!(error, GenerateError::TimedOut { wait: Wait::End, .. }), "{error:?}");
    assert!(error.text().starts_with("la "));
    assert!(started.elapsed() < Duration::from_secs(9));
}

#[test]
fn a_server_that_says_why_it_ends_and_then_nothing_has_ended() {
    let server = Server::scripted(vec![Reply::events().and(delta("Hi")).and(STOP).wait(10_000)]);
    let mut options = options(&server);
    options.next_token_timeout = Duration::from_millis(300);
    let generation = ask(options).0.unwrap();
    assert_eq!((generation.text.as_str(), generation.finish), ("Hi", Finish::Stop));
}

#[test]
fn an_answer_that_ends_half_way_keeps_what_came() {
    let cut = |reply: Reply, text: &str| {
        let error = check_error(reply, same, "before its end", text);
        assert!(matches!(error, GenerateError::Cut { .. }), "{error:?}");
    };
    cut(Reply::events().and(delta("Hel")), "Hel");
    cut(Reply::events().and(delta("Hel")).and("data: {\"choices\": [{\"del"), "Hel");
    cut(Reply::events(), "");
    let chunk = delta("Hel");
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    cut(Reply::raw(head).and(format!("{:x}\r\n{chunk}\r\n", chunk.len())), "Hel");
    let whole = json!({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]});
    cut(Reply::json(&whole).cut(10), "");
}

#[test]
fn an_answer_in_another_language_is_nonsense() {
    let nonsense = |reply: Reply, expected: &str, text: &str| {
        let error = check_error(reply, same, expected, text);
        assert!(matches!(error, GenerateError::Nonsense { .. }), "{error:?}");
    };
    nonsense(
        Reply::with("200 OK", "<html>\n<p>Sign in"),
        "something else than a chat completion, without an event: `<html> <p>Sign in`",
        "",
    );
    nonsense(Reply::json(&json!({"object": "list"})), "without choices: `{\"object\"", "");
    nonsense(
        Reply::events().and(delta("Hel")).and("data: <oops>\n\n"),
        "whose event is not its JSON: `<oops>`",
        "Hel",
    );
}

#[test]
fn an_error_in_the_stream_is_the_servers_own() {
    let report = "data: {\"error\": {\"message\": \"out of memory\"}}\n\n";
    let expected =
        "reported an error in its answer: `{\"error\": {\"message\": \"out of memory\"}}`";
    let events = Reply::events().and(delta("Hel")).and(report).and(DONE);
    let error = check_error(events, same, expected, "Hel");
    assert!(matches!(error, GenerateError::Reported { .. }), "{error:?}");
}

#[test]
fn a_huge_answer_is_not_read() {
    let small = |options: &mut RemoteOptions| options.endpoint.max_answer_bytes = 1_000;
    let huge =
        Reply::events().and(delta("Hel")).wait(100).and("data: ".to_owned() + &"x".repeat(1 << 20));
    let error = check_error(huge, small, "answered with more than 1000 bytes", "Hel");
    assert!(matches!(error, GenerateError::TooLarge { .. }), "{error:?}");
}

#[test]
fn a_key_that_is_not_there_is_said_at_once() {
    let mut options = RemoteOptions::new("http://127.0.0.1:1", "model");
    options.endpoint.key_variable = Some("UMBEL_TEST_NO_SUCH_VARIABLE".to_owned());
    let error = RemoteGenerator::new(options).unwrap_err();
    assert!(matches!(error, GenerateError::Settings { .. }), "{error:?}");
}
