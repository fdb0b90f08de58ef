//! `check`, `stats` and `compact`: broken promises are found and repaired, and numbers are those of the store.

use super::cli::{Place, list, number, old_store, text};

fn place() -> Place {
    Place::indexed(&[
        (
            "a.md",
            "# A\n\n## One\n\nThe pelican sleeps.\n\n### Sub\n\nIt dreams.\n\n## Two\n\nThe heron wakes.\n",
        ),
        ("b.md", "---\ntitle: Bee\n---\nOne paragraph.\n"),
    ])
}

/// Runs SQL on the catalog of the store.
fn tamper(place: &Place, sql: &str) {
    let catalog = place.path().join(".umbel/catalog.sqlite");
    let connection = rusqlite::Connection::open(catalog).unwrap();
    connection.execute_batch(sql).unwrap();
}

fn texts(found: &serde_json::Value) -> Vec<&str> {
    list(found, "/context/passages").iter().map(|passage| text(passage, "/text")).collect()
}

/// The files below a folder.
fn files_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] })
        .collect();
    files.sort();
    files
}

#[test]
fn an_index_that_lacks_any_of_its_files_is_made_anew() {
    let place = place();
    let before = place.run(&["search", "pelican", "--json"]).succeeds().json();
    let index = place.path().join(".umbel/index");
    let mut unsound = 0;
    for tenth in 0..10 {
        // Each repair gives segments new names, so files are counted off.
        let files = files_below(&index);
        let file = &files[tenth * files.len() / 10];
        fs_err::remove_file(file).unwrap();
        let checked = place.run(&["check"]);
        let code = checked.output.status.code();
        assert!(matches!(code, Some(0 | 1)), "{}: {}", file.display(), checked.stderr());
        unsound += usize::from(code == Some(1));
        place.run(&["check", "--repair"]).succeeds();
        let after = place.run(&["search", "pelican", "--json"]).succeeds().json();
        assert_eq!(texts(&after), texts(&before), "{}", file.display());
    }
    assert!(unsound > 0, "no file was needed");
}

#[test]
fn a_broken_tree_is_found_and_made_anew() {
    let place = place();
    place.run(&["check"]).succeeds();
    let before = place.run(&["search", "pelican", "--json"]).succeeds().json();
    // The text changes under the tree, and so do the spans of its words.
    tamper(&place, "UPDATE contents SET text = replace(text, 'The pelican', 'A  pelican ')");
    let broken = place.run(&["check"]).code(1);
    assert!(broken.stdout().contains("a.md"), "{}", broken.stdout());
    let repaired = place.run(&["check", "--repair"]).succeeds();
    assert!(repaired.stdout().contains("0 violations"), "{}", repaired.stdout());
    place.run(&["check"]).succeeds();
    // The file still holds the old text.
    place.run(&["index", "docs", "--lexical", "--rebuild"]).succeeds();
    let after = place.run(&["search", "pelican", "--json"]).succeeds().json();
    assert_eq!(texts(&after), texts(&before));
}

#[test]
fn a_tree_that_does_not_decode_is_made_anew_of_its_text() {
    let place = place();
    let before = place.run(&["search", "pelican", "--json"]).succeeds().json();
    tamper(&place, "UPDATE contents SET shape = x'02ff' WHERE text LIKE '%pelican%'");
    place.run(&["check"]).code(1);
    place.run(&["check", "--repair"]).succeeds();
    let after = place.run(&["search", "pelican", "--json"]).succeeds().json();
    assert_eq!(texts(&after), texts(&before));
    // The next run reads the file again, for what the text alone does not tell.
    let report = place.run(&["index", "docs", "--lexical", "--json"]).succeeds().json();
    assert_eq!((number(&report, "/updated"), number(&report, "/unchanged")), (1, 1));
}

#[test]
fn an_index_that_does_not_agree_is_made_anew() {
    let place = place();
    tamper(&place, "UPDATE documents SET labels = '[\"staff\"]' WHERE path = 'a.md'");
    place.run(&["check"]).code(1);
    let ran = place.run(&["check", "--repair", "--json"]).succeeds().json();
    assert!(number(&ran, "/repaired/index/missing") > 0, "{ran}");
    place.run(&["search", "pelican", "--filter", "label=staff"]).succeeds();
}

#[test]
fn a_repair_cuts_leaves_as_they_were_cut() {
    let place = Place::new();
    let page = format!("# A\n\n{}", "A sentence of a few words. ".repeat(60));
    place.write("docs/a.md", page);
    place.run(&["index", "docs", "--lexical", "--set", "leaf.target=60"]).succeeds();
    let leaves = || number(&place.run(&["stats", "--json"]).succeeds().json(), "/leaves");
    let before = leaves();
    tamper(&place, "UPDATE contents SET text = replace(text, 'few words', 'few wordz')");
    place.run(&["check"]).code(1);
    place.run(&["check", "--repair"]).succeeds();
    // The other words have other tokens; leaves of 200 tokens would be two.
    assert!(leaves().abs_diff(before) <= 1, "{} leaves, {before} before", leaves());
}

#[test]
fn stats_tell_levels_depths_and_whole_sections() {
    let place = place();
    let stats = place.run(&["stats", "--json"]).succeeds().json();
    assert_eq!((number(&stats, "/documents"), number(&stats, "/leaves")), (2, 3));
    assert_eq!(number(&stats, "/level_tokens/leaf/nodes"), 3);
    assert_eq!(stats.pointer("/whole_sections_share").unwrap(), 1.0);
    assert_eq!((number(&stats, "/tree_depth/1"), number(&stats, "/tree_depth/2")), (1, 1));
    let printed = place.run(&["stats"]).succeeds().stdout();
    assert!(printed.contains("top-level sections that are one leaf: 100.0 %"), "{printed}");
}

#[test]
fn a_sample_shows_merged_leaves_and_the_same_ones_again() {
    let place = place();
    let sample = place.run(&["stats", "--sample", "5", "--json"]).succeeds().json();
    let rows = list(&sample, "/sample");
    assert_eq!(rows.len(), 1);
    assert_eq!(
        text(&rows[0], "/text"),
        "# A\n\n## One\n\nThe pelican sleeps.\n\n### Sub\n\nIt dreams."
    );
    let again = place.run(&["stats", "--sample", "5", "--json"]).succeeds().json();
    assert_eq!(sample, again);
    place.run(&["stats", "--seed", "5"]).code(2);
}

#[test]
fn compaction_changes_no_answer() {
    let place = place();
    fs_err::remove_file(place.path().join("docs/b.md")).unwrap();
    place.run(&["index", "docs", "--lexical"]).succeeds();
    let before = place.run(&["search", "pelican", "--json"]).succeeds().json();
    place.run(&["compact"]).succeeds();
    let after = place.run(&["search", "pelican", "--json"]).succeeds().json();
    assert_eq!(
        after.pointer("/context/passages/0/text"),
        before.pointer("/context/passages/0/text")
    );
    place.run(&["check"]).succeeds();
}

#[test]
fn a_store_of_each_format_still_opens() {
    for name in ["format_1", "format_2", "format_3"] {
        let place = old_store(name);
        let found = place.run(&["search", "how are refunds paid", "--json"]).succeeds().json();
        assert!(text(&found, "/context/passages/0/text").contains("refund"), "{found}");
        place.run(&["check"]).succeeds();
        assert_eq!(number(&place.run(&["stats", "--json"]).succeeds().json(), "/documents"), 3);
    }
}

#[test]
fn stats_say_before_any_search_that_a_rule_can_hardly_fire_or_not_at_all() {
    let place = Place::new();
    let lines: String =
        (0..1024).map(|n| format!("Line {} is of one kind.\n\n", 100 + n % 900)).collect();
    place.write("docs/flat.md", lines);
    let levels = ["--set", "leaf.target=128", "--set", "leaf.levels=[2048]"];
    place.run(&[&["index", "docs", "--lexical"], &levels[..]].concat()).succeeds();
    // Four parents of sixteen leaves each need eight of them, the root three of its four parts.
    let rule = [
        "--set",
        "merge.rule=ratio",
        "--set",
        "merge.min_siblings=3",
        "--set",
        "merge.max_merge_tokens=3000",
    ];
    let run = |what: &[&str], depth: &str| {
        let budget = ["--set", "search.budget=4000", "--set", depth];
        place.run(&[what, &rule, &budget, &levels].concat())
    };
    let twelve = run(&["stats"], "search.depth=12").succeeds().stdout();
    assert!(twelve.contains("4 parents must take more than half of the list"), "{twelve}");
    let seven = run(&["stats"], "search.depth=7").succeeds().stdout();
    assert!(seven.contains("the merge rule cannot fire at all: 80 % of all parents"), "{seven}");
    let search = ["search", "line of one kind", "--json"];
    let found = run(&search, "search.depth=7").succeeds().json();
    assert_eq!(
        (&found["trace"]["fired"], &found["trace"]["could_fire"]),
        (&false.into(), &false.into())
    );
    assert!(found["trace"]["warnings"].to_string().contains("merging could not fire"), "{found}");
}
