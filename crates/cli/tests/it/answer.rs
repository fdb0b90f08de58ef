//! Answers that language models give and judge, as they are typed. The models are scripts, the way to them is the real one.

use crate::cli::{Place, Ran, list, number, text};
use crate::server::{Answer, Server, piece, stop};
use serde_json::Value;

const BILLING: &str = "# Billing\n\n## Invoices\n\nInvoices are sent on the first of a month.\n\n## Refunds\n\nRefunds are paid after fourteen days.\n";

/// A store of one page, two judged questions, a run and the same run with one passage at the most.
fn place() -> Place {
    let place = Place::indexed(&[("billing.md", BILLING)]);
    let line = |id: &str, query: &str, answers: &str, piece: &str| {
        let start = BILLING.find(piece).unwrap();
        let end = start + piece.len();
        format!(
            r#"{{"id":"{id}","query":"{query}","answers":{answers},"relevant":[{{"doc":"billing.md","start":{start},"end":{end}}}]}}"#
        )
    };
    let queries = [
        line(
            "sent",
            "when are invoices sent",
            r#"["on the first"]"#,
            "Invoices are sent on the first of a month.",
        ),
        line("paid", "when are refunds paid", "[]", "Refunds are paid after fourteen days."),
    ];
    place.write("q.jsonl", queries.join("\n"));
    place.run(&["eval", "run", "--queries", "q.jsonl", "--out", "run.jsonl"]).succeeds();
    place
}

/// A generator that answers `paid` rightly and `sent` wrongly, and two judges: one that knows, and one that likes all.
fn models() -> Server {
    Server::start(|_, body| {
        let asked = body["messages"].to_string();
        let said = match text(body, "/model") {
            "writer" if asked.contains("refunds paid") => "After fourteen days [1].",
            "writer" => "On the last of a month [1].",
            "kind" => "CORRECT: well put",
            "strict" if asked.contains("fourteen days [1]") => "CORRECT. It names the days.",
            "strict" => "INCORRECT. It is the first.",
            _ => "no idea",
        };
        Answer::Stream(vec![piece(said), stop()])
    })
}

fn answer(place: &Place, server: &Server, more: &[&str]) -> Ran {
    let url = format!("generate.url={}", server.url);
    let args = ["eval", "answer", "run.jsonl", "--set", &url, "--set", "generate.model=writer"];
    place.run(&[&args[..], &["--out", "answers.jsonl"], more].concat())
}

fn lines(place: &Place, path: &str) -> Vec<Value> {
    let written = fs_err::read_to_string(place.path().join(path)).unwrap();
    written.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn answers_are_judged_and_become_outcomes() {
    let (place, server) = (place(), models());
    let ran = answer(&place, &server, &["--judge", "strict"]).succeeds();
    assert!(ran.stdout().contains("pooled   1 of 2 = 50.0 % right"), "{}", ran.stdout());
    let rows = lines(&place, "answers.jsonl");
    assert_eq!((text(&rows[0], "/id"), &rows[0]["correct"]), ("sent", &Value::Bool(false)));
    assert_eq!((text(&rows[1], "/id"), &rows[1]["correct"]), ("paid", &Value::Bool(true)));
    assert_eq!(text(&rows[1], "/answers/0/text"), "After fourteen days [1].");
    assert_eq!(text(&rows[0], "/verdicts/0/reply"), "INCORRECT. It is the first.");

    // The generator saw what `umbel ask` shows it, the judge what is known.
    let requests = server.requests();
    let of =
        |model: &str| requests.iter().filter(|(_, body)| text(body, "/model") == model).count();
    assert_eq!((of("writer"), of("strict")), (2, 2));
    let told = |model: &str, words: &str| {
        requests.iter().any(|(_, body)| {
            text(body, "/model") == model && text(body, "/messages/1/content").contains(words)
        })
    };
    assert!(told("writer", "[1] Billing"));
    assert!(told("strict", "<right_answer>\non the first\n</right_answer>"));
    assert!(told("strict", "<evidence>\nRefunds are paid after fourteen days.\n</evidence>"));

    let args =
        ["eval", "outcomes", "run.jsonl", "--from", "answers.jsonl", "--out", "judged.jsonl"];
    place.run(&args).succeeds();
    let scored = place.run(&["eval", "score", "judged.jsonl", "--metric", "Outcome"]).succeeds();
    assert!(scored.stdout().contains("1 of 2 = 50.0 %"), "{}", scored.stdout());
}

#[test]
fn what_was_answered_is_not_asked_again_and_the_same_bytes_come() {
    let (place, server) = (place(), models());
    answer(&place, &server, &["--judge", "strict"]).succeeds();
    let first = lines(&place, "answers.jsonl");
    assert_eq!(server.requests().len(), 4);
    answer(&place, &server, &["--judge", "strict"]).succeeds();
    assert_eq!((server.requests().len(), lines(&place, "answers.jsonl")), (0, first));
    // A line that was cut short is asked for again, the others are not.
    let cache = fs_err::read_to_string(place.path().join("answers.cache.jsonl")).unwrap();
    place.write("answers.cache.jsonl", cache.get(..cache.len() - 20).unwrap());
    answer(&place, &server, &["--judge", "strict"]).succeeds();
    assert_eq!(server.requests().len(), 1);
    place.write("other.txt", "dear reader");
    answer(&place, &server, &["--cache", "other.txt"]).fails(2, "holds no answers");
}

#[test]
fn two_judges_who_contradict_each_other_leave_no_outcome() {
    let (place, server) = (place(), models());
    let found = answer(&place, &server, &["--judge", "strict", "--judge", "kind", "--json"]);
    let found = found.succeeds().json();
    assert_eq!((number(&found, "/split"), number(&found, "/agreement/agreed/count")), (1, 1));
    assert_eq!(found["agreement"]["kappa"], 0.0);
    assert!(lines(&place, "answers.jsonl")[0]["correct"].is_null());
    let args =
        ["eval", "outcomes", "run.jsonl", "--from", "answers.jsonl", "--out", "judged.jsonl"];
    place.run(&args).succeeds().warns("1 query without an outcome");
    let third = ["--judge", "strict", "--judge", "kind", "--judge", "kind"];
    answer(&place, &server, &third).fails(2, "3 judges are named");
}

#[test]
fn a_judge_that_cannot_be_read_gives_no_verdict_and_none_named_is_said() {
    let (place, server) = (place(), models());
    let ran = answer(&place, &server, &["--judge", "mute"]).succeeds();
    assert!(ran.stdout().contains("2 queries have replies without a label"), "{}", ran.stdout());
    answer(&place, &server, &[]).succeeds().warns("the generator judges itself");
    place.run(&["eval", "answer", "run.jsonl", "--out", "a.jsonl"]).fails(3, "no generator");
}

#[test]
fn a_model_that_fails_costs_its_queries_and_nothing_else() {
    let place = place();
    let torn = Server::start(|_, body| match text(body, "/model") {
        "writer" if body["messages"].to_string().contains("refunds paid") => {
            Answer::Torn(vec![piece("After ")])
        }
        "writer" => Answer::Stream(vec![piece("On the first [1]."), stop()]),
        _ => Answer::Stream(vec![piece("CORRECT"), stop()]),
    });
    let ran = answer(&place, &torn, &["--judge", "strict"]).code(3);
    ran.warns("1 query without a verdict").warns("ended after 6 bytes");
    let rows = lines(&place, "answers.jsonl");
    assert_eq!((rows.len(), &rows[0]["correct"]), (2, &Value::Bool(true)));
    assert!(rows[1]["correct"].is_null() && text(&rows[1], "/error").contains("ended after 6"));
    // Typed again with a server that works, only what failed is asked: the address is part of what was asked, so it is kept.
    assert!(place.path().join("answers.cache.jsonl").exists());
}

/// A run with a smaller context.
fn smaller(place: &Place) {
    let args = ["eval", "replay", "run.jsonl", "--out", "small.jsonl", "--set", "search.depth=1"];
    place.run(&args).succeeds();
}

#[test]
fn two_runs_are_compared_blindly() {
    let place = place();
    smaller(&place);
    // Answers with what stands in the context; the judge likes long answers.
    let server = Server::start(|_, body| {
        let shown = text(body, "/messages/1/content");
        let said = match text(body, "/model") {
            "writer" => format!("{} passages", shown.matches("are").count()),
            _ => {
                let answer = |tag: &str| {
                    let (_, rest) = shown.split_once(&format!("<{tag}>\n")).unwrap();
                    rest.split(' ').next().unwrap().parse::<u32>().unwrap()
                };
                let (first, second) = (answer("first_answer"), answer("second_answer"));
                if first > second { "FIRST" } else { "SECOND" }.to_owned()
            }
        };
        Answer::Stream(vec![piece(&said), stop()])
    });
    let pair = |more: &[&str]| {
        let url = format!("generate.url={}", server.url);
        let args =
            ["eval", "answer", "run.jsonl", "small.jsonl", "--out", "p.jsonl", "--set", &url];
        let model = ["--set", "generate.model=writer", "--judge", "ruler", "--json"];
        place.run(&[&args[..], &model, more].concat()).succeeds().json()
    };
    let found = pair(&[]);
    let pooled = &list(&found, "/strata")[2];
    let seen = list(&found, "/strata").len();
    assert_eq!((seen, number(pooled, "/n"), number(pooled, "/b")), (3, 2, 0));
    assert_eq!(number(pooled, "/a") + number(pooled, "/same"), 2, "{found}");
    // Whichever is shown first, the same answer is liked.
    for seed in ["1", "2", "3", "4"] {
        let other = pair(&["--seed", seed]);
        assert_eq!(number(&list(&other, "/strata")[2], "/a"), number(pooled, "/a"), "{other}");
    }
    // A run against itself needs no judge.
    let url = format!("generate.url={}", server.url);
    let args = ["eval", "answer", "run.jsonl", "run.jsonl", "--out", "p.jsonl", "--judge", "ruler"];
    let ran = place.run(&[&args[..], &["--set", &url, "--set", "generate.model=writer"]].concat());
    assert!(ran.succeeds().stdout().contains("identical by construction"));
}

#[test]
fn a_run_that_was_compressed_has_no_texts() {
    let place = Place::indexed(&[("billing.md", BILLING)]);
    place.write("q.jsonl", r#"{"id":"a","query":"refunds","relevant":[{"doc":"billing.md"}]}"#);
    let args =
        ["eval", "run", "--queries", "q.jsonl", "--out", "run.jsonl", "--set", "search.keep=0.5"];
    place.run(&args);
    let server = models();
    answer(&place, &server, &["--judge", "strict"]).fails(2, "its passages were compressed");
}
