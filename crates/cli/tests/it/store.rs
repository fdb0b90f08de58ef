//! What changes in a store, and what does not.

use super::cli::{Place, list, number, text};

#[test]
fn an_edit_replaces_and_a_delete_leaves_nothing() {
    let place =
        Place::indexed(&[("a.md", "# A\n\nThe old otter.\n"), ("b.md", "# B\n\nA heron.\n")]);
    let before = place.run(&["stats", "--json"]).succeeds().json();
    place.write("docs/a.md", "# A\n\nThe new badger.\n");
    place.write("docs/c.md", "# C\n\nA kingfisher.\n");
    let report = place.run(&["index", "docs", "--lexical", "--json"]).succeeds().json();
    assert_eq!(
        (number(&report, "/updated"), number(&report, "/added"), number(&report, "/unchanged")),
        (1, 1, 1)
    );
    place.run(&["search", "otter"]).code(1);
    place.run(&["search", "badger"]).succeeds();
    fs_err::remove_file(place.path().join("docs/c.md")).unwrap();
    let report = place.run(&["index", "docs", "--lexical", "--json"]).succeeds().json();
    assert_eq!(number(&report, "/removed"), 1);
    place.run(&["search", "kingfisher"]).code(1);
    let after = place.run(&["stats", "--json"]).succeeds().json();
    assert_eq!(number(&before, "/leaves"), number(&after, "/leaves"));
    place.run(&["check"]).succeeds();
}

#[test]
fn sources_are_apart_and_can_be_removed() {
    let place = Place::indexed(&[("a.md", "# A\n\nAn otter.\n")]);
    place.write("more/a.md", "# A\n\nA badger.\n");
    place.run(&["index", "more", "--lexical"]).succeeds();
    let listed = place.run(&["tree", "--json"]).succeeds().json();
    let names: Vec<&str> = listed.as_array().unwrap().iter().map(|row| text(row, "/doc")).collect();
    assert_eq!(names, ["docs/a.md", "more/a.md"]);
    place.run(&["remove", "more"]).succeeds();
    place.run(&["search", "badger"]).code(1);
    let listed = place.run(&["tree", "--json"]).succeeds().json();
    assert_eq!(text(&listed, "/0/doc"), "a.md");
    place.run(&["remove", "a.md"]).succeeds();
    place.run(&["search", "otter"]).code(1);
    place.run(&["remove", "a.mdd"]).fails(2, "no source and no document `a.mdd`");
}

#[test]
fn hidden_files_and_the_store_are_left_out_and_others_are_listed() {
    let place = Place::new();
    place.write("a.md", "# A\n\nText.\n");
    place.write(".hidden/b.md", "# B\n\nText.\n");
    place.write("c.png", "x");
    let report =
        place.run(&["--store", "store", "index", ".", "--lexical", "--json"]).succeeds().json();
    assert_eq!(number(&report, "/documents"), 1);
    assert_eq!(
        list(&report, "/skipped").iter().map(|s| text(s, "/path")).collect::<Vec<_>>(),
        ["c.png"]
    );
    let again =
        place.run(&["--store", "store", "index", ".", "--lexical", "--json"]).succeeds().json();
    assert_eq!((number(&again, "/unchanged"), list(&again, "/skipped").len()), (1, 1));
}

#[test]
fn show_opens_a_citation_and_tree_prints_spans() {
    let place = Place::indexed(&[("a.md", "# A\n\nFirst.\n\n## B\n\nSecond é.\n")]);
    assert_eq!(place.run(&["show", "a.md:0..3"]).succeeds().stdout(), "# A\n");
    assert_eq!(
        place.run(&["show", "a.md"]).succeeds().stdout(),
        "# A\n\nFirst.\n\n## B\n\nSecond é.\n"
    );
    let out = place.run(&["tree", "a.md"]).succeeds().stdout();
    assert!(out.contains("leaf 0..11") && out.contains(" B\n"), "{out}");
    let end = "# A\n\nFirst.\n\n## B\n\nSecond é".len() - 1;
    place.run(&["show", &format!("a.md:0..{end}")]).fails(2, "starts and ends between characters");
    place.run(&["show", "a.md:0..999"]).fails(2, "has no span 0..999");
    place.run(&["show", "missing.md"]).fails(2, "no source and no document");
}

#[test]
fn the_example_configuration_is_what_config_show_prints() {
    let place = Place::new();
    let example = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../umbel.example.toml");
    assert_eq!(
        place.run(&["config", "show"]).succeeds().stdout(),
        fs_err::read_to_string(example).unwrap()
    );
}

#[test]
fn a_configuration_file_is_read_and_flags_win() {
    let place = Place::new();
    place.write("umbel.toml", "[search]\nbudget = 77\ndepth = 5\n");
    let config =
        place.run(&["config", "show", "--json", "--set", "search.depth=6"]).succeeds().json();
    assert_eq!((number(&config, "/search/budget"), number(&config, "/search/depth")), (77, 6));
    place.write("umbel.toml", "[search]\nbudgte = 77\n");
    place.run(&["config", "show"]).fails(2, "budgte");
    place.write("umbel.toml", "[search\n");
    place.run(&["config", "show"]).fails(2, "does not parse");
}

#[test]
fn a_store_without_vectors_gets_them_later() {
    let place = Place::indexed(&[("a.md", "# A\n\nAn otter swims.\n")]);
    place.run(&["search", "otter"]).succeeds().warns("no vectors");
    let report = place.run(&["index", "docs", "--json"]).succeeds().json();
    assert_eq!(number(&report, "/embedded"), 1);
    let found = place.run(&["search", "an animal in the water", "--json"]).succeeds().json();
    assert!(
        list(&found, "/context/passages")[0]
            .pointer("/scores/dense")
            .is_some_and(serde_json::Value::is_number)
    );
}

#[test]
fn doctor_says_what_is_missing() {
    let place = Place::new();
    let out = place.run(&["doctor"]).code(1).stdout();
    assert!(out.contains("missing  store"), "{out}");
}

#[test]
fn check_judges_by_the_settings_that_the_store_was_made_with() {
    let text = (0..200).map(|n| format!("Sentence number {n} stands here. ")).collect::<String>();
    for set in ["leaf.overlap=20", "leaf.unit=characters", "leaf.keep_whole_tokens=5000"] {
        let place = Place::new();
        place.write("docs/a.md", format!("# A\n\n## One\n\n{text}\n\n## Two\n\n{text}\n"));
        place.write("docs/todo.md", "# Todo\n");
        place.write("docs/front.md", "---\ntitle: x\n---\nSome text.\n\n# Title\n");
        place.run(&["index", "docs", "--lexical", "--set", set]).succeeds();
        place.run(&["check"]).succeeds();
    }
}
