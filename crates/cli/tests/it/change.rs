//! What a run would do, what it leaves out, runs that are stopped, and runs that stay.

use super::cli::{Place, list, number};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
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

/// A running command, its lines of output, and a way to end it.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(place: &Place, args: &[&str]) -> Running {
        let mut child =
            place.command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Running { child, lines }
    }

    /// The next line of JSON, awaited for a minute at the most.
    fn json(&self) -> serde_json::Value {
        let line = self.lines.recv_timeout(Duration::from_mins(1)).expect("a line of output");
        serde_json::from_str(&line).unwrap()
    }

    #[cfg(unix)]
    fn interrupt(&self) {
        let pid = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
