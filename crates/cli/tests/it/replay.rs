//! `umbel replay`: the questions of the log under another configuration.

use crate::cli::{Place, list, number, text};

const BIRDS: &str = "# Birds\n\n## Pelican\n\nThe pelican sleeps by the lake.\n\n## Heron\n\nThe heron wakes by the lake.\n\n\
                     ## Stork\n\nThe stork eats frogs.\n\n## Crane\n\nThe crane dances.\n";

/// A store with leaves of one section each, and a log of three searches, two of them the same.
fn logged() -> Place {
    let place = Place::new();
    place.write("docs/birds.md", BIRDS);
    place.write("umbel.toml", "[leaf]\ntarget = 16\nlevels = []\n\n[merge]\nrule = \"ratio\"\n");
    place.run(&["index", "docs", "--lexical"]).succeeds();
    for query in ["pelican heron lake", "crane", "pelican heron lake"] {
        place.run(&["search", query]).succeeds();
    }
    place
}

#[test]
fn logged_questions_are_asked_under_another_configuration() {
    let place = logged();
    let args = ["replay", "--set", "merge.enabled=false"];
    let found = place.run(&[&args[..], &["--json"]].concat()).succeeds().json();
    let traffic = &found["traffic"];
    assert_eq!((number(traffic, "/questions"), number(traffic, "/searches")), (2, 3));
    assert_eq!(number(traffic, "/logged_fired/count"), 2);
    assert_eq!(
        (number(traffic, "/before/fired/count"), number(traffic, "/after/fired/count")),
        (1, 0)
    );
    assert_eq!(
        (number(traffic, "/changed/count"), number(traffic, "/changed_searches/count")),
        (1, 2)
    );
    let change = &list(&found, "/changes")[0];
    assert_eq!((text(change, "/queries/0"), number(change, "/times")), ("pelican heron lake", 2));
    assert!(!list(change, "/gone").is_empty() && !list(change, "/new").is_empty(), "{change}");

    let shown = place.run(&args).succeeds().stdout();
    for words in ["2 questions of 3 searches", "fires no more", "  - birds.md:", "ms p95"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    // It is no use of the store.
    assert_eq!(place.run(&["log", "export"]).succeeds().stdout().lines().count(), 3);
}

#[test]
fn an_exported_log_is_as_good_as_the_stores_own() {
    let place = logged();
    let exported = place.run(&["log", "export"]).succeeds().stdout();
    place.write("log.jsonl", exported + "{ torn\n");
    let args = ["replay", "--log", "log.jsonl", "--set", "search.budget=10", "--json"];
    let ran = place.run(&args).succeeds().warns("1 line of the log");
    assert_eq!(number(&ran.json(), "/traffic/searches"), 3);
    place.write("letter.txt", "dear reader\n");
    place
        .run(&["replay", "--log", "letter.txt", "--set", "search.budget=10"])
        .fails(2, "holds no record of a search");
}

#[test]
fn what_cannot_be_asked_again_is_said() {
    let place = logged();
    place.run(&["search", "stork", "--set", "log.queries=hash"]).succeeds();
    place.run(&["search", "stork", "--filter", "doc=birds.md"]).code(0);
    place
        .run(&["replay", "--set", "search.budget=10", "--json"])
        .succeeds()
        .warns("1 search is left out: the log holds no text")
        .warns("which documents were searched is not in the log");
    place.run(&["replay"]).fails(2, "nothing is changed");
    place.run(&["replay", "--set", "leaf.target=300"]).fails(2, "settings of `leaf`");
    let empty = Place::indexed(&[("birds.md", BIRDS)]);
    empty.run(&["replay", "--set", "search.budget=10"]).code(1);
    Place::new().run(&["replay", "--set", "search.budget=10"]).fails(3, "there is no store");
}
