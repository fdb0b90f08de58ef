//! `umbel eval report`: runs as one page.

use crate::cli::{Place, list, number, text};
use serde_json::Value;

/// Four sections of one leaf each; one of them would be a page of its own, were it not text.
const BIRDS: &str = "# Birds\n\n## Pelican\n\nThe pelican sleeps by the lake.\n\n## Heron\n\nThe heron wakes by the lake.\n\n\
                     ## Stork\n\n```\n</blockquote><script src=\"https://example.com/x.js\">alert(1)</script> & stork frogs\n```\n\n\
                     ## Crane\n\nThe crane dances.\n";
const HOSTILE: &str = r#"pelican heron <img src=x onerror="alert(1)"> lake"#;

fn judgment(id: &str, query: &str, piece: &str) -> String {
    let start = BIRDS.find(piece).unwrap();
    let relevant =
        serde_json::json!([{"doc": "birds.md", "start": start, "end": start + piece.len()}]);
    serde_json::json!({"id": id, "query": query, "relevant": relevant}).to_string()
}

/// A store with leaves of one section each, and a run: the rule fires on the first query and brings its evidence.
fn run_of_birds() -> Place {
    let place = Place::new();
    place.write("docs/birds.md", BIRDS);
    place.write("umbel.toml", "[leaf]\ntarget = 16\nlevels = []\n\n[merge]\nrule = \"ratio\"\n");
    place.run(&["index", "docs", "--lexical"]).succeeds();
    let queries = [
        judgment("lake", HOSTILE, "The crane dances."),
        judgment("script", "stork frogs", "alert(1)</script> & stork frogs"),
        judgment("crane", "crane", "The crane dances."),
    ];
    place.write("q.jsonl", queries.join("\n"));
    place.run(&["eval", "run", "--queries", "q.jsonl", "--out", "run.jsonl"]).succeeds();
    place
}

fn page(place: &Place, path: &str) -> String {
    fs_err::read_to_string(place.path().join(path)).unwrap()
}

/// The tags of a page, in their order, without attributes.
fn tags(page: &str) -> Vec<&str> {
    let opened = page.split('<').skip(1);
    opened.filter_map(|rest| rest.split(['>', ' ', '\n']).next()).collect()
}

#[test]
fn a_report_is_one_page_that_loads_nothing() {
    let place = run_of_birds();
    let said = place.run(&["eval", "report", "run.jsonl"]).succeeds().stdout();
    assert!(said.contains("written to `report.html`, with 3 queries of 3 in full"), "{said}");
    let html = page(&place, "report.html");
    assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>"));
    // What stands in texts and questions is text.
    let known = [
        "!DOCTYPE",
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "header",
        "h1",
        "h2",
        "h3",
        "h4",
        "p",
        "ol",
        "ul",
        "li",
        "span",
        "code",
        "main",
        "section",
        "strong",
        "em",
        "figure",
        "figcaption",
        "div",
        "svg",
        "rect",
        "text",
        "line",
        "circle",
        "polyline",
        "path",
        "polygon",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "br",
        "br/",
        "details",
        "summary",
        "blockquote",
        "mark",
        "dl",
        "dt",
        "dd",
        "pre",
    ];
    for tag in tags(&html) {
        assert!(known.contains(&tag.trim_start_matches('/')), "<{tag}>");
    }
    assert!(
        html.contains("&lt;img src=x onerror=&quot;alert(1)&quot;&gt;"),
        "the question, as text"
    );
    // Evidence is marked, and only it.
    assert!(html.contains("<mark>alert(1)&lt;/script&gt; &amp; stork frogs</mark>"));
    assert!(html.contains("<mark>The crane dances.</mark>"));
    assert!(
        html.contains("default-src 'none'") && !html.contains("url(") && !html.contains("@import")
    );
    // All that is opened is closed.
    for tag in ["section", "details", "figure", "table", "div", "span", "blockquote", "mark", "svg"]
    {
        let count = |tag: &str| tags(&html).iter().filter(|t| **t == tag).count();
        assert_eq!(count(tag), count(&format!("/{tag}")), "{tag}");
    }
}

#[test]
fn one_run_is_held_against_itself_without_merging() {
    let place = run_of_birds();
    let args = ["eval", "report", "run.jsonl", "--out", "one.html", "--json"];
    let one = place.run(&args).succeeds().json();
    let replay =
        ["eval", "replay", "run.jsonl", "--set", "merge.enabled=false", "--out", "plain.jsonl"];
    place.run(&replay).succeeds();
    let two = place
        .run(&["eval", "report", "plain.jsonl", "run.jsonl", "--out", "two.html", "--json"])
        .succeeds()
        .json();
    let compared = place
        .run(&[
            "eval",
            "compare",
            "plain.jsonl",
            "run.jsonl",
            "--json",
            "--metric",
            "Success(all>=0.95)",
            "--metric",
            "EvidenceRecall",
            "--metric",
            "Precision",
            "--metric",
            "Tokens",
        ])
        .succeeds()
        .json();
    // The figures are those of `compare`, whatever runs are called.
    assert_eq!(two["comparisons"], compared["comparisons"]);
    let pooled = |report: &Value| -> Vec<Value> {
        list(report, "/comparisons").iter().map(|c| c["pooled"].clone()).collect()
    };
    assert_eq!(pooled(&one), pooled(&two));
    assert_eq!(text(&one, "/runs/0/name"), "run.jsonl without merging");
    assert_eq!(number(&one, "/runs/1/fire_rate/count"), 2);
    // The query that merging answered comes first, with the texts of both.
    let first = &list(&one, "/queries")[0];
    assert_eq!((text(first, "/id"), text(first, "/change")), ("lake", "gained"));
    assert_eq!(first.pointer("/runs/0/outcome"), Some(&Value::Bool(false)));
    assert_eq!(text(first, "/runs/0/missed/0/pieces/0/text"), "The crane dances.");
    assert_eq!(number(first, "/runs/1/passages/0/merged/0/of"), 4);
    // A row for each share, a point for each budget, and every passage in a class.
    let made = &one["replays"]["made"];
    assert_eq!((list(made, "/curve").len(), list(made, "/frontier").len()), (7, 4));
    assert!(list(made, "/frontier").iter().all(|way| list(way, "/points").len() == 4));
    let counted: u64 =
        list(&one, "/runs/1/lengths").iter().map(|class| number(class, "/count")).sum();
    let delivered = list(&one, "/queries").iter().map(|q| list(q, "/runs/1/passages").len() as u64);
    assert_eq!(counted, delivered.sum::<u64>());
}

#[test]
fn the_same_runs_are_the_same_page() {
    let place = run_of_birds();
    for out in ["a.html", "b.html"] {
        place.run(&["eval", "report", "run.jsonl", "--out", out]).succeeds();
    }
    assert_eq!(page(&place, "a.html"), page(&place, "b.html"));
    let more = [
        "--limit",
        "1",
        "--title",
        "Birds & lakes",
        "--by",
        "nothing",
        "--metric",
        "EvidenceRecall",
    ];
    let args = ["eval", "report", "run.jsonl", "--out", "c.html"];
    place.run(&[&args[..], &more].concat()).succeeds();
    let html = page(&place, "c.html");
    assert!(html.contains("<title>Birds &amp; lakes</title>") && html.contains("on all queries"));
    assert!(
        html.contains("Left out here: 2 queries")
            && html.matches("<details class=\"query\">").count() == 1
    );
}

#[test]
fn what_a_report_cannot_show_is_said() {
    let place = run_of_birds();
    let other = Place::indexed(&[("fish.md", "# Fish\n\nThe pike hunts.\n")]);
    other.write("run.jsonl", page(&place, "run.jsonl"));
    other.run(&["eval", "report", "run.jsonl"]).fails(2, "holds other data");
    // A run that was reranked cannot be replayed: it is shown as it is.
    place
        .run(&[
            "eval",
            "run",
            "--queries",
            "q.jsonl",
            "--out",
            "reranked.jsonl",
            "--set",
            "rerank.backend=tei",
            "--set",
            "rerank.url=http://127.0.0.1:9",
            "--set",
            "rerank.retries=0",
        ])
        .succeeds();
    let said = place.run(&["eval", "report", "reranked.jsonl", "--json"]).succeeds().json();
    assert!(text(&said, "/replays/refused").contains("cannot be replayed"), "{said}");
    assert!(list(&said, "/comparisons").is_empty());
    let html = page(&place, "report.html");
    assert!(
        html.contains("nothing to compare it with")
            && html.contains("Not shown: the run cannot be replayed")
    );
    place.run(&["eval", "report", "reranked.jsonl", "reranked.jsonl"]).fails(2, "is named twice");
    // The list of another tool has no texts to show.
    place.write("run.trec", "lake Q0 birds.md 1 0.5 other\n");
    place
        .run(&[
            "eval",
            "import",
            "trec-run",
            "run.trec",
            "--queries",
            "q.jsonl",
            "--out",
            "other.jsonl",
        ])
        .code(0);
    place.run(&["eval", "report", "other.jsonl"]).fails(2, "only ranks the documents");
    // Outcomes from elsewhere are not held against those of a replay.
    let outcomes: Vec<String> = ["lake", "script", "crane"]
        .map(|id| serde_json::json!({"id": id, "correct": id != "lake"}).to_string())
        .to_vec();
    place.write("outcomes.jsonl", outcomes.join("\n"));
    let give =
        ["eval", "outcomes", "run.jsonl", "--from", "outcomes.jsonl", "--out", "given.jsonl"];
    place.run(&give).succeeds();
    let given = place.run(&["eval", "report", "given.jsonl", "--json"]).succeeds().json();
    assert_eq!((list(&given, "/runs").len(), list(&given, "/comparisons").len()), (1, 0));
    place
        .run(&["eval", "report", "run.jsonl", "--set", "merge.ratio=0.3"])
        .fails(2, "`--set` changes none");
    place.run(&["eval", "report"]).code(2);
    place
        .run(&["eval", "report", "run.jsonl", "reranked.jsonl", "--metric", "nDCG@500"])
        .fails(2, "looks at 500 leaves");
    place.run(&["eval", "report", "run.jsonl", "--out", "no/such/folder.html"]).code(3);
}
