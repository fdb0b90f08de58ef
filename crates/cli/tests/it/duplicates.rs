//! Pages, policies and over-fetch, as they are typed.

use super::cli::{Place, list, number, text};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};
use umbel::core::id::ClusterId;
use umbel::core::leaf::embedded_text;
use umbel::engine::ingest::leaf_records;
use umbel::engine::inspect::Inspector;
use umbel::index::edge::{EdgeIndex, EdgeOptions};
use umbel::index::lexical::{DEFAULT_LANGUAGE, LexicalEncoder};
use umbel::index::{Facets, Index as _, Point};
use umbel::metadata::show_date;
use umbel::store::Layout;

/// Twelve ponds with a heron each.
fn ponds() -> Place {
    let pages: Vec<(String, String)> = (0..12)
        .map(|n| (format!("{n}.md"), format!("# Pond {n}\n\nThe heron stands in pond {n}.\n")))
        .collect();
    let pages: Vec<(&str, &str)> = pages.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    Place::indexed(&pages)
}

#[test]
fn d3_the_cursor_leads_through_every_page() {
    let place = ponds();
    let mut docs: Vec<String> = Vec::new();
    let mut cursor: Option<String> = None;
    for page in 0..3 {
        let mut typed = vec!["search", "heron", "--limit", "4", "--json"];
        typed.extend(cursor.iter().flat_map(|cursor| ["--cursor", cursor.as_str()]));
        let found = place.run(&typed).succeeds().json();
        docs.extend(list(&found, "/context/passages").iter().map(|p| text(p, "/doc").to_owned()));
        assert_eq!(
            (number(&found, "/total/clusters"), text(&found, "/total/relation")),
            (12, "exact")
        );
        cursor = found["cursor"].as_str().map(str::to_owned);
        assert_eq!(cursor.is_some(), page < 2, "there is no fourth page");
    }
    docs.sort();
    docs.dedup();
    assert_eq!(docs.len(), 12);
}

#[test]
fn d5_a_cursor_that_does_not_fit_is_refused_with_a_hint() {
    let place = ponds();
    let first = place.run(&["search", "heron", "--limit", "4", "--json"]).succeeds().json();
    let cursor = text(&first, "/cursor");
    let next = |typed: &[&str]| place.run(&[typed, &["--cursor", cursor]].concat());
    next(&["search", "pond"]).fails(2, "the cursor belongs to another question");
    next(&["search", "heron", "--budget", "99"]).fails(2, "belongs to another configuration");
    place.run(&["search", "heron", "--cursor", "-x"]).fails(2, "the cursor is damaged");
    place.run(&["index", "docs", "--lexical", "--rebuild"]).succeeds();
    next(&["search", "heron"]).fails(2, "the cursor belongs to another store");
    let shown = place.run(&["search", "heron", "--limit", "4", "--explain"]).succeeds().stdout();
    assert!(shown.contains("next page: --cursor "), "{shown}");
}

/// Writes a day of the log: so many searches that each found ten clusters in so many leaves, behind a record as it is written.
fn write_log(place: &Place, record: &Value, days_ago: u64, searches: &[(usize, usize)]) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let at = show_date((now - days_ago * 86_400).cast_signed());
    let mut lines = String::new();
    for &(needed, n) in searches {
        let mut record = record.clone();
        record["at"] = json!(at);
        record["trace"]["depth"] = json!(10);
        record["trace"]["fused"] = json!(100);
        record["trace"]["exhausted"] = json!(false);
        record["trace"]["repeats"] = json!((2..needed - 8).collect::<Vec<_>>());
        lines.push_str(&format!("{record}\n").repeat(n));
    }
    let day = at.split('T').next().unwrap();
    place.write(&format!(".umbel/queries/{day}.jsonl"), lines);
}

#[test]
fn the_length_that_is_needed_comes_from_the_log_and_is_watched() {
    let place = ponds();
    place.run(&["log", "overfetch"]).code(1);
    place.run(&["search", "heron"]).succeeds();
    let record: Value = serde_json::from_str(&place.run(&["log", "export"]).stdout()).unwrap();
    // Twelve ponds are no sixty clusters, however far one reads.
    let few = place.run(&["log", "overfetch"]).code(1).stdout();
    assert!(few.contains("1 search is left out"), "{few}");

    let measured = [(10, 584), (14, 170), (16, 120), (20, 90), (24, 30), (30, 5), (60, 1)];
    write_log(&place, &record, 0, &measured);
    let typed = ["log", "overfetch", "--target", "10", "--quantile", "0.994"];
    let ran = place.run(&typed).succeeds();
    let rows =
        ["10 41.6 % 0", "14 24.6 % 4", "16 12.6 % 6", "20 3.6 % 10", "24 0.6 % 14", "30 0.1 % 20"];
    let shown: Vec<String> = ran
        .stdout()
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| words.len() == 5 && words[2] == "%")
        .map(|words| format!("{} {} % {}", words[0], words[1], words[4]))
        .collect();
    assert_eq!(shown[..6], rows, "{}", ran.stdout());
    assert!(ran.stdout().contains("k' = 24 serves 99.4 % of them; `search.k_prime` is 100"));

    // A week ago fewer leaves were enough.
    write_log(&place, &record, 8, &[(10, 990), (16, 10)]);
    let moved = place.run(&[&typed[..], &["--json"]].concat()).code(1).json();
    assert_eq!((number(&moved, "/needed/k_prime"), number(&moved, "/before/k_prime")), (24, 16));
    assert_eq!(number(&moved, "/moved"), 8);
    place.run(&[&typed[..], &["--moved", "8"]].concat()).succeeds();
    place.run(&[&typed[..], &["--quantile", "1.5"]].concat()).code(2);
}

/// Gives the leaves of these documents one cluster, as a run that marks duplicates does.
async fn mark(place: &Place, docs: &[&str]) {
    let store = place.path().join(".umbel");
    let inspector = Inspector::open(&store).unwrap();
    let encoder = LexicalEncoder::new(DEFAULT_LANGUAGE, 200).unwrap();
    let layout = Layout::new(&store);
    let index = EdgeIndex::open(&layout.index(), &EdgeOptions { dimension: None }).unwrap();
    let mut points = Vec::new();
    for doc in docs {
        let stored = inspector.document(doc).await.unwrap();
        let document = &stored.document;
        let records = leaf_records(stored.entry.id, document, &stored.leaf_ids);
        for (mut record, leaf) in records.zip(&document.tree.leaves) {
            record.cluster = ClusterId([7; 16]);
            let text = embedded_text(&document.text, &document.title, &document.tree, leaf);
            let (facets, lexical) = (Facets::default(), encoder.passage(&text));
            points.push(Point { record, facets, dense: None, lexical });
        }
    }
    index.upsert(points).await.unwrap();
    index.flush().await.unwrap();
}

#[test]
fn policies_are_compared_by_agreement_and_by_what_they_deliver() {
    let old = "---\nupdated_at: 2022-01-01\n---\nThe dispute window of invoices.\n";
    let new = "---\nupdated_at: 2025-01-01\n---\nThe dispute window of invoices takes sixty days, customers write letters and clerks read them.\n";
    let place = Place::indexed(&[("old.md", old), ("new.md", new), ("a.md", "A heron.\n")]);
    place.run(&["dupes", "policies"]).fails(2, "the log holds no question");
    place.run(&["dupes", "policies", "dispute window"]).code(1);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(mark(&place, &["old.md", "new.md"]));

    place.run(&["search", "dispute window"]).succeeds();
    let logged = place.run(&["dupes", "policies", "--days", "1"]).succeeds().stdout();
    assert!(logged.starts_with("1 cluster of several members in 1 search\n"), "{logged}");
    assert!(logged.contains("score stands alone         1 of 1 = 100.0 %"), "{logged}");
    assert!(logged.contains("fresh and authority agree  1 of 1 = 100.0 %"), "{logged}");

    let start = new.find("The").unwrap();
    let judged = |doc: &str| {
        json!({ "id": "1", "query": "dispute window of invoices",
            "relevant": [{ "doc": doc, "start": start, "end": new.len() - 1 }] })
    };
    place.write("judged.jsonl", judged("new.md").to_string());
    let typed = ["dupes", "policies", "--judgments", "judged.jsonl", "--json"];
    let report = place.run(&typed).succeeds().json();
    let outcomes = list(&report, "/outcomes").iter().map(|o| (text(o, "/policy"), &o["recall"]));
    let outcomes: Vec<(&str, f64)> =
        outcomes.map(|(policy, recall)| (policy, recall.as_f64().unwrap())).collect();
    assert_eq!(outcomes, [("score", 0.0), ("fresh", 1.0), ("authority", 1.0)]);
    place.write("judged.jsonl", judged("other.md").to_string());
    place.run(&typed).fails(2, "1 of 1 = 100.0 % of the judgments cannot be placed in this store");
}
