//! What a run would do, what it leaves out, runs that are stopped, and runs that stay.

use super::cli::{Place, Running, list, number, old_store};
use std::time::Duration;

#[test]
fn a_dry_run_says_what_would_happen_and_makes_no_store() {
    let place = Place::new();
    place.write("docs/a.md", "# A\n\ntext of a\n");
    place.write("docs/b.bin", "binary");
    let ran = place.run(&["index", "docs", "--lexical", "--dry-run"]).succeeds();
    assert!(ran.stdout().starts_with("+ a.md\nwould be: 1 added"), "{}", ran.stdout());
    assert!(!place.path().join(".umbel").exists());
    place.run(&["index", "docs", "--lexical"]).succeeds();
    place.write("docs/a.md", "# A\n\nother text\n");
    place.write("docs/c.md", "# C\n\ntext of c\n");
    let plan = place.run(&["index", "docs", "--lexical", "--dry-run", "--json"]).succeeds().json();
    assert_eq!((&plan["added"][0], &plan["updated"][0]), (&"c.md".into(), &"a.md".into()));
    let stats = place.run(&["stats", "--json"]).succeeds().json();
    assert_eq!(number(&stats, "/documents"), 1);
    place.run(&["index", "docs", "--dry-run", "--watch"]).code(2);
}

/// Every file of a store, with its bytes, but the empty log and its index that SQLite makes for whoever reads a catalog.
fn files_of(store: &std::path::Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![store.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("catalog.sqlite-shm") {
                files.push((path.clone(), fs_err::read(path).unwrap()));
            }
        }
    }
    files.retain(|(path, bytes)| !(path.ends_with("catalog.sqlite-wal") && bytes.is_empty()));
    files.sort();
    files
}

#[test]
fn a_dry_run_leaves_a_store_of_any_format_as_it_is() {
    for name in ["format_1", "format_2"] {
        let place = old_store(name);
        place.write("docs/new.md", "# New\n\nA text that the store lacks.\n");
        let store = place.path().join(".umbel");
        let before = files_of(&store);
        let dry_run = ["index", "docs", "--source", "new", "--lexical", "--dry-run", "--json"];
        let plan = place.run(&dry_run).succeeds().json();
        assert_eq!(list(&plan, "/added"), ["new.md"]);
        assert!(files_of(&store) == before, "the store of {name} was written");
    }
}

#[test]
fn ignored_files_are_not_indexed_and_go_when_they_are_ignored_later() {
    let place = Place::indexed(&[("a.md", "# A\n\ntext\n"), ("draft/b.md", "# B\n\ntext\n")]);
    place.write("docs/.umbelignore", "draft/\n");
    let report = place.run(&["index", "docs", "--lexical", "--json"]).succeeds().json();
    assert_eq!((number(&report, "/documents"), number(&report, "/removed")), (1, 1));
    let all = ["index", "docs", "--lexical", "--json", "--set", "read.respect_ignore=false"];
    assert_eq!(number(&place.run(&all).succeeds().json(), "/documents"), 2);
}

#[cfg(unix)]
#[test]
fn a_loop_of_links_is_reported_and_ends() {
    let place = Place::new();
    place.write("docs/sub/a.md", "# A\n\ntext\n");
    std::os::unix::fs::symlink(place.path().join("docs"), place.path().join("docs/sub/back"))
        .unwrap();
    let ran = place.run(&["index", "docs", "--lexical", "--json"]).succeeds();
    let report = ran.json();
    assert_eq!(number(&report, "/documents"), 1);
    assert_eq!(list(&report, "/skipped").len(), 1);
}

#[cfg(unix)]
#[test]
fn a_watch_takes_in_changes_lets_others_search_and_ends_with_ctrl_c() {
    let place = Place::new();
    place.write("docs/a.md", "# A\n\nthe first text\n");
    let mut watch = Running::start(&place, &["index", "docs", "--lexical", "--watch", "--json"]);
    assert_eq!(number(&watch.json(), "/added"), 1);
    std::thread::sleep(Duration::from_millis(500));
    place.write("docs/sub/b.md", "# B\n\nthe second text about pelicans\n");
    assert_eq!(number(&watch.json(), "/added"), 1);
    place.run(&["search", "pelicans"]).succeeds();
    place.write("docs/a.md", "# A\n\nthe first text, edited\n");
    assert_eq!(number(&watch.json(), "/updated"), 1);
    fs_err::remove_file(place.path().join("docs/sub/b.md")).unwrap();
    assert_eq!(number(&watch.json(), "/removed"), 1);
    watch.interrupt();
    assert_eq!(watch.child.wait().unwrap().code(), Some(0));
    place.run(&["search", "pelicans"]).code(1);
}

#[cfg(unix)]
#[test]
fn ctrl_c_commits_what_is_finished_and_the_next_run_goes_on() {
    let place = Place::new();
    let body =
        "Some words of a page that are repeated so that there is something to do. ".repeat(200);
    for n in 0..1500 {
        place.write(&format!("docs/{n}.md"), format!("# Page {n}\n\n{body}\n"));
    }
    let mut index = Running::start(&place, &["index", "docs", "--lexical", "--json"]);
    // Until the first batch is committed.
    let store = place.path().join(".umbel/catalog.sqlite-wal");
    let begun = std::time::Instant::now();
    while fs_err::metadata(&store).map_or(0, |log| log.len()) < 1 << 20 {
        assert!(begun.elapsed() < Duration::from_mins(1), "nothing was committed");
        std::thread::sleep(Duration::from_millis(5));
    }
    index.interrupt();
    let report = index.json();
    assert_eq!(index.child.wait().unwrap().code(), Some(130));
    assert_eq!(report["interrupted"], true);
    let committed = number(&report, "/documents");
    assert!((1..=1500).contains(&committed), "{committed}");
    place.run(&["check"]).succeeds();
    let report = place.run(&["index", "docs", "--lexical", "--json"]).succeeds().json();
    assert_eq!(
        (number(&report, "/documents"), report["interrupted"].as_bool()),
        (1500, Some(false))
    );
    assert!(number(&report, "/unchanged") >= committed, "{report}");
}
