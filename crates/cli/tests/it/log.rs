//! The log of searches, as it is typed.

use crate::cli::{Place, list, number, text};
use serde_json::Value;

/// Two sections of one leaf each, of which the parent fires when both are found.
const PAGE: &str = "# Birds\n\n## Pelican\n\nThe pelican sleeps.\n\n## Heron\n\nThe heron wakes.\n";

fn export(place: &Place) -> Vec<Value> {
    let lines = place.run(&["log", "export"]).succeeds().stdout();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn searches_that_fire_and_those_that_do_not_are_logged_alike() {
    let place = Place::indexed(&[("a.md", PAGE)]);
    place.run(&["log", "stats"]).code(1);
    let fired = place.run(&["search", "pelican heron", "--json"]).succeeds().json();
    place.run(&["search", "pelican"]).succeeds();
    place.run(&["search", "zebra"]).code(1);
    let records = export(&place);
    let queries: Vec<&str> = records.iter().map(|record| text(record, "/queries/0")).collect();
    assert_eq!(queries, ["pelican heron", "pelican", "zebra"]);
    // The record holds the very trace that was printed.
    assert_eq!(records[0]["trace"], fired["trace"]);
    assert_eq!(records[0]["tokens"], fired["context"]["tokens"]);
    assert_eq!(records[1]["trace"]["fired"], false);
    assert_eq!(number(&records[2], "/passages"), 0);

    let stats = place.run(&["log", "stats", "--json"]).succeeds().json();
    let days = list(&stats, "/days");
    let count = |what: &str| days.iter().map(|day| number(day, what)).sum::<u64>();
    assert_eq!((count("/queries"), count("/empty")), (3, 1));
    assert_eq!(count("/fired"), u64::from(fired["trace"]["fired"] == true));
    place.run(&["log", "stats", "--days", "1"]);
}

#[test]
fn a_question_can_be_kept_as_a_hash_or_not_at_all() {
    let place = Place::indexed(&[("a.md", PAGE)]);
    for _ in 0..2 {
        place.run(&["search", "pelican", "--set", "log.queries=hash"]).succeeds();
    }
    place.run(&["search", "heron", "--set", "log.queries=hash"]).succeeds();
    place.run(&["search", "heron", "--set", "log.enabled=false"]).succeeds();
    let records = export(&place);
    assert!(records.iter().all(|record| record["queries"].is_null()));
    let hashes: Vec<&str> = records.iter().map(|record| text(record, "/query_hash")).collect();
    assert!(hashes.len() == 3 && hashes[0] == hashes[1] && hashes[1] != hashes[2], "{hashes:?}");
    let folder = fs_err::read_dir(place.path().join(".umbel/queries")).unwrap();
    for file in folder {
        let written = fs_err::read_to_string(file.unwrap().path()).unwrap();
        assert!(!written.contains("pelican"), "{written}");
    }
}

#[test]
fn a_line_that_was_cut_short_spoils_no_other() {
    let place = Place::indexed(&[("a.md", PAGE)]);
    place.run(&["search", "pelican"]).succeeds();
    let folder = place.path().join(".umbel/queries");
    let file = fs_err::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let line = fs_err::read_to_string(&file).unwrap();
    let cut: String = line.chars().take(line.len() / 2).collect();
    fs_err::write(&file, format!("{line}{cut}")).unwrap();
    place.run(&["search", "heron"]).succeeds();
    let ran = place.run(&["log", "export"]).succeeds();
    assert_eq!(ran.stdout().lines().count(), 2);
    ran.warns("1 line of the log are no records");
}

#[test]
fn days_beyond_those_that_are_kept_go() {
    let place = Place::indexed(&[("a.md", PAGE)]);
    let folder = place.path().join(".umbel/queries");
    fs_err::create_dir_all(&folder).unwrap();
    fs_err::write(folder.join("2020-01-01.jsonl"), "").unwrap();
    place.run(&["search", "pelican"]).succeeds();
    assert!(!folder.join("2020-01-01.jsonl").exists());
    // A store can be started over beside its log.
    place.run(&["index", "docs", "--lexical", "--rebuild"]).succeeds();
    assert_eq!(export(&place).len(), 1);
}
