//! Questions that a language model answers, as they are typed. The model is a script, the way to it is the real one.

#[cfg(unix)]
use crate::cli::Running;
use crate::cli::{Place, Ran, list, number, text};
use crate::server::{Answer, Server, piece, stop};
use std::time::{Duration, Instant};

const BILLING: &str = "# Billing\n\n## Invoices\n\nInvoices are sent on the first of a month.\n\n## Refunds\n\nRefunds are paid after fourteen days.\n";

fn place() -> Place {
    Place::indexed(&[("billing.md", BILLING)])
}

fn ask(place: &Place, server: &Server, more: &[&str]) -> Ran {
    let (url, model) = (format!("generate.url={}", server.url), "generate.model=script");
    let mut args = vec!["ask", "when are invoices sent", "--set", &url, "--set", model];
    args.extend(more);
    place.run(&args)
}

fn says(pieces: &'static [&'static str]) -> Server {
    Server::start(|_, _| {
        Answer::Stream(pieces.iter().map(|text| piece(text)).chain([stop()]).collect())
    })
}

#[test]
fn an_answer_is_streamed_and_its_citations_are_checked() {
    let (place, server) = (place(), says(&["On the ", "first [1].", " Never [9]."]));
    let ran = ask(&place, &server, &[]).succeeds();
    assert!(
        ran.stdout().starts_with("On the first [1]. Never [9].\n[1] billing.md:"),
        "{}",
        ran.stdout()
    );
    ran.warns("[9] names no passage");

    let answer = ask(&place, &server, &["--json"]).succeeds().json();
    assert_eq!(text(&answer, "/answer"), "On the first [1]. Never [9].");
    assert_eq!((text(&answer, "/model"), text(&answer, "/finish")), ("script", "stop"));
    let citations = list(&answer, "/citations");
    assert_eq!((number(&citations[0], "/number"), number(&citations[0], "/passage")), (1, 0));
    assert_eq!(citations[0]["span"], answer["context"]["passages"][0]["span"]);
    assert!(citations[1]["passage"].is_null());
    assert!(answer["error"].is_null());
    let counts = &answer["trace"]["counts"];
    assert!(number(counts, "/children_retrieved") >= number(counts, "/after_merge"));
}

#[test]
fn the_prompt_holds_the_passages_within_the_budget() {
    let (place, server) = (place(), says(&["Yes [1]."]));
    ask(&place, &server, &["--budget", "200"]).succeeds();
    let requests = server.requests();
    let (route, body) = &requests[0];
    assert_eq!(route, "/v1/chat/completions");
    let prompt = text(body, "/messages/1/content");
    assert!(prompt.starts_with("[1] Billing"), "{prompt}");
    assert!(prompt.contains("sent on the first of a month"), "{prompt}");
    assert!(prompt.ends_with("Question: when are invoices sent"), "{prompt}");
    let words: usize = list(body, "/messages")
        .iter()
        .map(|m| text(m, "/content").split_whitespace().count())
        .sum();
    assert!(words < 200, "{words} words are more than 200 tokens");
}

#[test]
fn a_template_is_read_from_a_file() {
    let (place, server) = (place(), says(&["Yes."]));
    place.write("prompt.txt", "Q={question}\nC={context}");
    ask(&place, &server, &["--set", "generate.template=prompt.txt"])
        .succeeds()
        .warns("cites no passage");
    let (_, body) = server.requests().remove(0);
    assert!(
        text(&body, "/messages/0/content").starts_with("Q=when are invoices sent\nC=[1] Billing")
    );
    place.write("prompt.txt", "Q={question}");
    ask(&place, &server, &["--set", "generate.template=prompt.txt"]).fails(2, "no `{context}`");
    ask(&place, &server, &["--set", "generate.template=missing.txt"]).fails(2, "missing.txt");
}

#[test]
fn without_a_generator_it_says_what_to_type() {
    let place = place();
    place.run(&["ask", "when"]).fails(3, "no generator is configured");
    let named = ["ask", "when", "--set", "generate.model=m", "--set"];
    let check = |set: &[&str], words: &str| place.run(&[&named[..], set].concat()).fails(3, words);
    check(&["generate.url=nonsense"], "`nonsense` is not an address");
    let no_key = "generate.key_variable=UMBEL_TEST_NO_SUCH_VARIABLE";
    check(&["generate.url=http://127.0.0.1:9", "--set", no_key], "holds no key");
}

#[test]
fn a_generator_that_fails_costs_the_answer_and_not_the_context() {
    let place = place();
    let check = |server: Server, before: &str, words: &str| {
        let begun = Instant::now();
        let patience =
            ["--set", "generate.first_token_seconds=1", "--set", "generate.next_token_seconds=1"];
        let ran = ask(&place, &server, &patience).code(3);
        assert!(begun.elapsed() < Duration::from_secs(30), "{words}: {:?}", begun.elapsed());
        assert!(ran.stdout().starts_with(before), "{}", ran.stdout());
        assert!(ran.stdout().contains("[1] billing.md:"), "{}", ran.stdout());
        ran.warns("the answer is not complete").warns(words);
        let answer = ask(&place, &server, &[&patience[..], &["--json"]].concat()).code(3).json();
        assert!(text(&answer, "/error/message").contains(words), "{answer}");
        assert!(text(&answer, "/context/passages/0/text").contains("Invoices"));
    };
    check(
        Server::start(|_, _| Answer::Torn(vec![piece("On the ")])),
        "On the ",
        "ended after 7 bytes",
    );
    check(
        Server::start(|_, _| Answer::Bytes(b"<html>no model here</html>")),
        "",
        "something else than a chat completion",
    );
    check(
        Server::start(|_, _| Answer::Silence(Duration::from_secs(3))),
        "",
        "did not begin its answer",
    );
    let mut gone = Server::start(|_, _| Answer::Silence(Duration::ZERO));
    gone.url = "http://127.0.0.1:9".to_owned();
    check(gone, "", "no answer from");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_it_at_once_while_the_generator_is_silent_and_what_was_found_is_delivered() {
    let place = place();
    let check = |answer: fn() -> Answer, before: Option<&str>| {
        let server = Server::start(move |_, _| answer());
        let (url, model) = (format!("generate.url={}", server.url), "generate.model=script");
        let args = ["ask", "when are invoices sent", "--set", &url, "--set", model];
        let running = Running::start(&place, &args);
        server.next_request();
        assert_eq!(before.map(|_| running.line()).as_deref(), before);
        let begun = Instant::now();
        running.interrupt();
        let (code, lines) = running.end();
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        assert_eq!(code, Some(130));
        assert!(lines.contains(&"1 passage was found:".to_owned()), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("[1] billing.md:")), "{lines:?}");
    };
    check(|| Answer::Silence(Duration::from_mins(1)), None);
    let begins = || Answer::Stalled(vec![piece("On the\n")], Duration::from_mins(1));
    check(begins, Some("On the"));
}

#[cfg(unix)]
#[test]
fn an_answer_that_was_stopped_says_so_in_json() {
    let place = place();
    let server =
        Server::start(|_, _| Answer::Stalled(vec![piece("On the ")], Duration::from_mins(1)));
    let (url, model) = (format!("generate.url={}", server.url), "generate.model=script");
    let args = ["ask", "when are invoices sent", "--set", &url, "--set", model, "--json"];
    let running = Running::start(&place, &args);
    server.next_request();
    // Nothing says that the piece has come before the end does.
    std::thread::sleep(Duration::from_secs(2));
    running.interrupt();
    let answer = running.json();
    assert_eq!((text(&answer, "/answer"), text(&answer, "/finish")), ("On the ", "broken off"));
    assert!(text(&answer, "/context/passages/0/text").contains("Invoices"));
    assert_eq!(running.end().0, Some(130));
}

#[test]
fn an_answer_that_the_limit_cuts_is_said_to_be_cut() {
    let end = r#"{"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}"#;
    let server =
        Server::start(move |_, _| Answer::Stream(vec![piece("On the first [1]"), end.to_owned()]));
    let ran = ask(&place(), &server, &[]).succeeds();
    ran.warns("the answer is not complete: it came to the limit of its tokens");
}

#[test]
fn where_nothing_is_found_no_model_is_asked() {
    let (place, server) = (place(), says(&["I know."]));
    let (url, model) = (format!("generate.url={}", server.url), "generate.model=script");
    let args = ["ask", "zebra", "--set", &url, "--set", model, "--json"];
    let answer = place.run(&args).code(1).json();
    assert_eq!(text(&answer, "/answer"), "");
    assert!(server.requests().is_empty());
}

/// A reranker that likes texts with a word.
fn likes(word: &'static str) -> Server {
    Server::start(move |route, body| match route {
        "/info" => Answer::Json(
            serde_json::json!({ "model_id": "script/reranker", "max_input_length": 512, "max_client_batch_size": 32 }),
        ),
        _ => {
            let texts = list(body, "/texts").iter().enumerate();
            let scores = texts.map(|(index, found)| {
                let score = if found.as_str().unwrap().contains(word) { 0.9 } else { 0.1 };
                serde_json::json!({ "index": index, "score": score })
            });
            Answer::Json(scores.collect())
        }
    })
}

#[test]
fn a_reranker_orders_leaves_and_its_scores_stand_apart() {
    let (place, server) = (place(), likes("Refunds"));
    let url = format!("rerank.url={}", server.url);
    let args = [
        "search",
        "invoices refunds",
        "--json",
        "--set",
        "merge.enabled=false",
        "--set",
        "rerank.backend=tei",
        "--set",
        &url,
    ];
    let found = place.run(&args).succeeds().json();
    let passages = list(&found, "/context/passages");
    assert!(text(&passages[0], "/text").contains("Refunds"), "{found}");
    assert!((passages[0]["scores"]["rerank"].as_f64().unwrap() - 0.9).abs() < 1e-6);
    assert_eq!(passages[0]["scores"]["final"], passages[0]["scores"]["rerank"]);
    // The model saw leaves with their headings, not what they were delivered as.
    let (_, body) = server.requests().into_iter().find(|(route, _)| route == "/rerank").unwrap();
    assert_eq!(list(&body, "/texts").len(), 2);
    let explained: Vec<&str> =
        args.iter().map(|&arg| if arg == "--json" { "--explain" } else { arg }).collect();
    let out = place.run(&explained).succeeds().stdout();
    assert!(out.contains("rerank 0.900"), "{out}");
    // A passage is scored only where that is asked for by name.
    let args = [&args[..], &["--set", "rerank.stage=passages"]].concat();
    let found = place.run(&args).succeeds().json();
    let warnings = list(&found, "/trace/warnings");
    assert!(
        warnings.iter().any(|w| w.as_str().unwrap().contains("`rerank.stage` is `passages`")),
        "{found}"
    );
}

#[test]
fn a_reranker_that_fails_leaves_the_order_of_fusion() {
    let place = place();
    let order = |args: &[&str]| {
        let found = place.run(args).succeeds().json();
        let passages = list(&found, "/context/passages").iter();
        let spans = passages.map(|passage| passage["span"].to_string()).collect::<Vec<_>>();
        (spans, found["trace"]["warnings"].to_string())
    };
    let plain = ["search", "invoices refunds", "--json", "--set", "merge.enabled=false"];
    let (fused, _) = order(&plain);
    let check = |answer: fn() -> Answer, words: &str| {
        let server = Server::start(move |route, _| match route {
            "/info" => Answer::Json(
                serde_json::json!({ "model_id": "script/reranker", "max_input_length": 512 }),
            ),
            _ => answer(),
        });
        let url = format!("rerank.url={}", server.url);
        let patience = ["--set", "rerank.timeout_seconds=1", "--set", "rerank.retries=0"];
        let remote = ["--set", "rerank.backend=tei", "--set", &url];
        let args = [&plain[..], &patience, &remote].concat();
        let (spans, warnings) = order(&args);
        assert_eq!(spans, fused, "{words}");
        assert!(warnings.contains("the order is that of fusion"), "{warnings}");
        assert!(warnings.contains(words), "{warnings}");
    };
    let (spans, warnings) = order(
        &[
            &plain[..],
            &[
                "--set",
                "rerank.backend=tei",
                "--set",
                "rerank.url=http://127.0.0.1:9",
                "--set",
                "rerank.retries=0",
            ],
        ]
        .concat(),
    );
    assert!(spans == fused && warnings.contains("did not answer"), "{warnings}");
    check(|| Answer::Silence(Duration::from_secs(3)), "did not answer");
    check(|| Answer::Bytes(b"not JSON at all"), "nonsense");
    check(|| Answer::Json(serde_json::json!([{ "index": 7, "score": 0.5 }])), "nonsense");
}

/// An embedder of one direction for each of a few words.
fn embeds(model: &'static str) -> Server {
    Server::start(move |_, body| {
        let inputs = list(body, "/input").iter().enumerate();
        let rows = inputs.map(|(index, input)| {
            let input = input.as_str().unwrap().to_lowercase();
            let words = ["invoice", "refund", "month", "days"];
            let row: Vec<f32> =
                words.iter().map(|word| 0.1 + input.matches(word).count() as f32).collect();
            serde_json::json!({ "index": index, "embedding": row })
        });
        let rows: Vec<_> = rows.collect();
        Answer::Json(serde_json::json!({ "model": model, "data": rows }))
    })
}

#[test]
fn an_embedder_behind_http_fills_a_store_that_no_other_model_may_use() {
    let place = Place::new();
    place.write("docs/billing.md", BILLING);
    let server = embeds("small");
    let url = format!("embed.url={}", server.url);
    let remote = ["--set", "embed.backend=openai", "--set", "embed.model=small", "--set", &url];
    let index = [&["index", "docs", "--json"], &remote[..]].concat();
    let report = place.run(&index).succeeds().json();
    assert_eq!(number(&report, "/embedded"), 2);
    let doctor = place.run(&[&["doctor"], &remote[..]].concat()).stdout();
    assert!(doctor.contains(&server.url), "{doctor}");
    let search = [&["search", "refund", "--json"], &remote[..]].concat();
    let found = place.run(&search).succeeds().json();
    assert!(found["context"]["passages"][0]["scores"]["dense"].is_number(), "{found}");
    let other = ["--set", "embed.backend=openai", "--set", "embed.model=large", "--set", &url];
    place.run(&[&["search", "refund"], &other[..]].concat()).fails(3, "large");
    place.run(&["search", "refund", "--set", "embed.backend=openai"]).fails(2, "embed.url");
}

#[test]
fn l13_the_scores_of_a_hybrid_search_stand_apart_and_a_merged_one_says_whose_it_is() {
    let place = Place::new();
    place.write("docs/billing.md", BILLING);
    let server = embeds("small");
    let url = format!("embed.url={}", server.url);
    let remote = ["--set", "embed.backend=openai", "--set", "embed.model=small", "--set", &url];
    place.run(&[&["index", "docs"], &remote[..]].concat()).succeeds();
    let search = [
        "search",
        "refunds after days, invoices of a month",
        "--json",
        "--set",
        "merge.rule=ratio",
    ];
    let found = place.run(&[&search, &remote[..]].concat()).succeeds().json();
    let passage = &list(&found, "/context/passages")[0];
    assert_eq!(
        (text(passage, "/kind"), text(passage, "/score_from")),
        ("merged", "max of evidence")
    );
    let evidence = list(passage, "/evidence");
    assert_eq!(evidence.len(), 2);
    let score = |of: &serde_json::Value, name: &str| of["scores"][name].as_f64().unwrap();
    for leaf in evidence {
        let mut scores = ["dense", "lexical", "fused"].map(|name| score(leaf, name));
        scores.sort_by(f64::total_cmp);
        assert!(scores.windows(2).all(|pair| pair[0] < pair[1]), "three numbers: {leaf}");
        let both = score(leaf, "fused") + score(leaf, "support");
        assert!((score(leaf, "final") - both).abs() < 1e-6, "{leaf}");
        assert!(leaf["scores"]["rerank"].is_null());
    }
    let best = evidence.iter().map(|leaf| score(leaf, "final")).fold(f64::MIN, f64::max);
    assert!(score(passage, "final").total_cmp(&best).is_eq(), "{passage}");
}
