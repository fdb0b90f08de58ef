//! `umbel eval bench`: the tables of public benchmarks.

use crate::cli::{Place, list, number, shared, text};
use serde_json::Value;

const DATA: &str = "data/chroma-chunking-eval";

/// Chunks and PrecisionΩ by chunker: with chunks where their text stands first, as published, and where they were cut.
const PUBLISHED: [(&str, u64, &str, &str); 8] = [
    ("TokenText 800/400", 819, "4.7 ± 3.1", "4.7 ± 3.1"),
    ("TokenText 400/200", 1639, "8.4 ± 5.1", "8.5 ± 5.1"),
    ("TokenText 400/0", 824, "12.5 ± 8.1", "12.7 ± 8.3"),
    ("TokenText 200/0", 1644, "21.0 ± 11.9", "21.4 ± 12.0"),
    ("Recursive 800/400", 704, "6.7 ± 5.2", "6.7 ± 5.2"),
    ("Recursive 400/200", 1412, "13.9 ± 10.4", "13.9 ± 10.4"),
    ("Recursive 400/0", 1187, "17.7 ± 14.0", "17.7 ± 14.0"),
    ("Recursive 200/0", 2386, "29.9 ± 18.4", "29.9 ± 18.4"),
];

fn percent(spread: &Value) -> String {
    let of = |name: &str| spread[name].as_f64().unwrap() * 100.0;
    format!("{:.1} ± {:.1}", of("mean"), of("sd"))
}

#[test]
fn chromas_table_of_what_cutting_allows_is_reproduced_to_the_digit() {
    let Some(data) = shared(DATA) else { return };
    let place = Place::new();
    let data = data.to_str().unwrap();
    for (locate, first) in [("first", true), ("exact", false)] {
        let args = ["eval", "bench", "chroma", "--data", data, "--no-model", "--locate", locate];
        let found = place.run(&[&args[..], &["--json"]].concat()).succeeds().json();
        let rows = list(&found, "/rows");
        for (row, (name, chunks, at_first, exact)) in rows.iter().zip(PUBLISHED) {
            assert_eq!((text(row, "/name"), number(row, "/chunks")), (name, chunks));
            let expected = if first { at_first } else { exact };
            assert_eq!(percent(&row["precision_omega"]), expected, "{name}, {locate}");
        }
        assert_eq!((rows.len(), text(&rows[8], "/name")), (9, "Umbel leaves"));
        assert!(rows[8]["precision_omega"]["mean"].as_f64().unwrap() > 0.25, "{}", rows[8]);
        assert_eq!(number(&found, "/questions"), 472);
    }
}

#[test]
fn chromas_rows_of_a_small_model_are_reproduced() {
    let Some(data) = shared(DATA) else { return };
    let args =
        ["eval", "bench", "chroma", "--locate", "first", "--only", "TokenText 250/0", "--json"];
    let data = ["--data", data.to_str().unwrap()];
    let found = Place::new().run(&[&args[..], &data].concat()).succeeds().json();
    let row = &list(&found, "/rows")[0];
    for (figure, expected) in [("recall", 78.9), ("precision", 3.8), ("iou", 3.8)] {
        let mean = row["retrieval"][figure]["mean"].as_f64().unwrap() * 100.0;
        assert!((mean - expected).abs() <= 1.5, "{figure}: {mean}, published by others {expected}");
    }
}

/// A folder with two texts and two questions.
fn small(questions: &str) -> Place {
    let place = Place::new();
    place.write(
        "data/corpus/birds.md",
        "The pelican sleeps. The heron wakes.\n\nThe stork eats frogs.",
    );
    place.write("data/corpus/fish.md", "The carp hides. The pike hunts.");
    place.write("data/queries.jsonl", questions);
    place
}

const HERON: &str =
    r#"{"id":"a","query":"who wakes?","relevant":[{"doc":"birds.md","start":20,"end":36}]}"#;

#[test]
fn a_folder_of_ones_own_is_cut_alike_and_twice_the_same_bytes() {
    let place = small(HERON);
    let args = ["eval", "bench", "chroma", "--data", "data", "--no-model"];
    let first = place.run(&args).succeeds().stdout();
    assert!(first.contains("TokenText 200/0"), "{first}");
    assert_eq!(place.run(&args).succeeds().stdout(), first);
    let only = place.run(&[&args[..], &["--only", "umbel", "--json"]].concat()).succeeds().json();
    assert_eq!(list(&only, "/rows").len(), 1);
    // One leaf holds the text: 16 of its 59 characters are relevant.
    assert_eq!(percent(&list(&only, "/rows")[0]["precision_omega"]), "27.1 ± 0.0");
}

#[test]
fn what_is_no_benchmark_is_refused() {
    let bench = |place: &Place, more: &[&str]| {
        let args = ["eval", "bench", "chroma", "--data", "data", "--no-model"];
        place.run(&[&args[..], more].concat())
    };
    bench(&Place::new(), &[]).fails(2, "data/corpus");
    bench(&small(HERON), &["--only", "nobody"]).fails(2, "no row is called `nobody`");
    let strange = HERON.replace("birds.md", "mice.md");
    bench(&small(&strange), &[]).fails(2, "mice.md");
    let two = HERON.replace("}]}", r#"},{"doc":"fish.md","start":0,"end":5}]}"#);
    bench(&small(&two), &[]).fails(2, "references in 2 texts");
    bench(&small(""), &[]).fails(2, "no judgment in it");
}
