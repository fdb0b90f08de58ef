//! kill -9 at any moment loses no committed document and leaves no half document visible: on every path that writes, more than
//! two hundred times in all.

use super::cli::{Place, list, number, old_store, text};
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Random numbers of a seed that is printed, and taken from `UMBEL_SEED` if that is set.
fn random() -> fastrand::Rng {
    let given = std::env::var("UMBEL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("UMBEL_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

fn page(n: u64, version: u64) -> String {
    let sections: String = (0..6)
        .map(|k| {
            let sentence = format!("Word{n}x{k}v{version} is here. ");
            format!("## Section {k}\n\n{}\n\n", sentence.repeat(20))
        })
        .collect();
    format!("# Page {n}\n\n{sections}")
}

/// Documents of each place.
const DOCUMENTS: u64 = 40;

fn pages() -> Place {
    let place = Place::new();
    for n in 0..DOCUMENTS {
        place.write(&format!("docs/{n}.md"), page(n, 0));
    }
    place
}

/// How a path that writes is killed again and again.
struct Kills {
    random: fastrand::Rng,
    /// How long a whole run takes just now, so that kills land inside one. A machine is not always as fast as it was when the
    /// first run was measured, so that each round corrects it: to what a run took that ended before its kill, and to a
    /// little more after one that did not.
    whole: Duration,
    unfinished: usize,
}

impl Kills {
    /// Runs the command once to its end, to see how long it takes.
    fn of(place: &Place, args: &[&str]) -> Kills {
        let begun = Instant::now();
        place.run(args).succeeds();
        Kills { random: random(), whole: begun.elapsed(), unfinished: 0 }
    }

    /// Runs the command, and kills it at a random moment.
    fn kill(&mut self, place: &Place, args: &[&str]) {
        let mut child =
            place.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        let moment = Duration::from_micros(self.random.u64(..self.whole.as_micros() as u64));
        while begun.elapsed() < moment {
            if child.try_wait().unwrap().is_some() {
                self.whole = begun.elapsed();
                return;
            }
            std::thread::sleep(
                Duration::from_millis(1).min(moment.saturating_sub(begun.elapsed())),
            );
        }
        let _ = child.kill();
        if !child.wait().unwrap().success() {
            self.unfinished += 1;
            self.whole = self.whole * 21 / 20;
        }
    }

    /// A check of which half of the kills came too late would prove nothing.
    fn were_in_time(&self, rounds: usize) {
        eprintln!("{} of {rounds} runs were killed before their end", self.unfinished);
        assert!(self.unfinished * 3 >= rounds, "only {} of {rounds}", self.unfinished);
    }
}

/// The catalog keeps every promise, and agrees with the index; returns how many documents there are.
fn sound(place: &Place, at: &str) -> u64 {
    // Opening it applies what was left undone.
    let check = place.run(&["check", "--json"]).succeeds().json();
    assert!(list(&check, "/violations").is_empty(), "{at}: {check}");
    let disagree = [number(&check, "/index/missing"), number(&check, "/index/unknown")];
    assert_eq!(disagree, [0, 0], "{at}");
    number(&check, "/documents")
}

/// The store answers as a fresh one of the same files.
fn as_fresh(place: &Place, queries: &[&str]) {
    place.run(&["index", "docs", "--lexical"]).succeeds();
    sound(place, "at the end");
    place.run(&["--store", "fresh", "index", "docs", "--lexical"]).succeeds();
    for query in queries {
        let context = |store: &str| {
            let ran = place.run(&["--store", store, "search", query, "--json"]);
            assert!(matches!(ran.output.status.code(), Some(0 | 1)), "{}", ran.stderr());
            ran.json()
        };
        let (found, wanted) = (context(".umbel"), context("fresh"));
        assert_eq!(texts(&found), texts(&wanted), "{query}");
    }
}

fn texts(found: &Value) -> Vec<&str> {
    list(found, "/context/passages").iter().map(|passage| text(passage, "/text")).collect()
}

const INDEX: [&str; 3] = ["index", "docs", "--lexical"];

#[test]
fn killing_the_first_index_loses_nothing_committed() {
    let place = pages();
    let mut kills = Kills::of(&place, &["--store", "probe", "index", "docs", "--lexical"]);
    let rounds = 45;
    for round in 0..rounds {
        // A new store every few rounds, so that kills fall into all of its first run.
        if round % 3 == 0 {
            let _ = fs_err::remove_dir_all(place.path().join(".umbel"));
        }
        let exists = || place.path().join(".umbel/catalog.sqlite").exists();
        let before = if exists() { sound(&place, "before") } else { 0 };
        kills.kill(&place, &INDEX);
        if exists() {
            assert!(sound(&place, &format!("round {round}")) >= before);
        }
    }
    kills.were_in_time(rounds);
    as_fresh(&place, &["Word0x3v0", "Word39x5v0"]);
}

#[test]
fn killing_a_re_index_with_edits_renames_and_deletes_loses_nothing_committed() {
    let place = pages();
    let mut kills = Kills::of(&place, &INDEX);
    let rounds = 60;
    let mut extra = 0;
    for round in 1..=rounds as u64 {
        for _ in 0..20 {
            let n = kills.random.u64(..DOCUMENTS);
            place.write(&format!("docs/{n}.md"), page(n, round));
        }
        // Documents that come, move and go.
        let moved = place.path().join(format!("docs/moved-{}.md", round / 2));
        if round % 2 == 0 {
            place.write(&format!("docs/moved-{}.md", round / 2), page(1000 + round, 0));
        } else if moved.exists() {
            fs_err::rename(&moved, place.path().join("docs/moved-again.md")).unwrap();
        }
        kills.kill(&place, &INDEX);
        // All of the first documents stay, whatever the moment.
        let documents = sound(&place, &format!("round {round}"));
        assert!(documents >= DOCUMENTS, "round {round}: {documents}");
        extra = documents - DOCUMENTS;
    }
    eprintln!("{extra} more documents at the end");
    kills.were_in_time(rounds);
    as_fresh(&place, &["Word0x3v60", "Word7x1v59", "Word1060x2v0"]);
}

#[test]
fn killing_a_removal_removes_all_or_nothing() {
    let place = pages();
    place.run(&INDEX).succeeds();
    place.write("more/extra.md", page(2000, 0));
    place.write("more/other.md", page(2001, 0));
    let add = ["index", "more", "--lexical"];
    place.run(&add).succeeds();
    let mut kills = Kills::of(&place, &["remove", "more"]);
    let rounds = 36;
    for round in 0..rounds {
        place.run(&add).succeeds();
        kills.kill(&place, &["remove", "more"]);
        let documents = sound(&place, &format!("round {round}"));
        assert!([DOCUMENTS, DOCUMENTS + 2].contains(&documents), "round {round}: {documents}");
        let found = place.run(&["search", "Word2000x3v0", "--json"]);
        let there = !texts(&found.json()).is_empty();
        assert_eq!(there, documents > DOCUMENTS, "round {round}");
    }
    kills.were_in_time(rounds);
    place.run(&add).succeeds();
    place.run(&["remove", "more"]).succeeds();
    as_fresh(&place, &["Word0x3v0"]);
}

#[test]
fn killing_a_compaction_changes_nothing_that_can_be_seen() {
    let place = pages();
    place.run(&INDEX).succeeds();
    let mut kills = Kills::of(&place, &["compact"]);
    let rounds = 36;
    for round in 0..rounds as u64 {
        if round % 3 == 0 {
            let n = kills.random.u64(..DOCUMENTS);
            place.write(&format!("docs/{n}.md"), page(n, 1 + round));
            place.run(&INDEX).succeeds();
        }
        kills.kill(&place, &["compact"]);
        assert_eq!(sound(&place, &format!("round {round}")), DOCUMENTS);
    }
    kills.were_in_time(rounds);
    as_fresh(&place, &["Word0x3v0", "Word11x3v0"]);
}

#[test]
fn killing_a_cluster_run_leaves_the_run_before_or_the_new_one() {
    let place = pages();
    // Every page stands in a second place, so that there is something to mark.
    for n in 0..DOCUMENTS {
        place.write(&format!("docs/copies/{n}.md"), page(n, 0));
    }
    place.run(&INDEX).succeeds();
    let mut kills = Kills::of(&place, &["dupes", "run", "--exact"]);
    let rounds = 36;
    for round in 0..rounds as u64 {
        let n = kills.random.u64(..DOCUMENTS);
        place.write(&format!("docs/{n}.md"), page(n, round % 3));
        place.run(&INDEX).succeeds();
        let args: &[&str] = match round % 3 {
            0 => &["dupes", "run"],
            1 => &["dupes", "run", "--exact"],
            _ => &["dupes", "run", "--jaccard", "0.9"],
        };
        let runs = || {
            let listed = place.run(&["dupes", "runs", "--json"]).succeeds().json();
            list(&listed, "/runs")
                .iter()
                .map(|run| text(run, "/run").to_owned())
                .collect::<Vec<_>>()
        };
        let before = runs();
        kills.kill(&place, args);
        // The check compares the clusters in the index with those of the catalog, leaf by leaf.
        place.run(&["search", "Word0x3v0", "--json"]);
        assert_eq!(sound(&place, &format!("round {round}")), 2 * DOCUMENTS);
        let after = runs();
        let same = after == before;
        let one_more = after.iter().skip(1).zip(&before).all(|(a, b)| a == b);
        assert!(same || one_more, "round {round}: {before:?}, then {after:?}");
    }
    kills.were_in_time(rounds);
    place.run(&["dupes", "run"]).succeeds();
    sound(&place, "at the end");
}

#[test]
fn killing_a_migration_leaves_the_old_format_or_the_new_one() {
    let old = old_store("format_1");
    let probe = old_store("format_1");
    let mut kills = Kills::of(&probe, &["check", "--repair"]);
    let before = old.run(&["search", "refund", "--json"]).succeeds().json();
    let rounds = 40;
    for round in 0..rounds {
        let place = old_store("format_1");
        kills.kill(&place, &["check", "--repair"]);
        place.run(&["check", "--repair"]).succeeds();
        assert_eq!(sound(&place, &format!("round {round}")), 3);
        let found = place.run(&["search", "refund", "--json"]).succeeds().json();
        assert_eq!(texts(&found), texts(&before), "round {round}");
    }
    kills.were_in_time(rounds);
}

#[test]
fn killing_the_step_from_words_to_vectors_with_the_model_can_be_done_again() {
    let place = Place::new();
    for n in 0..12 {
        // Leaves of few budget tokens and many word pieces: they must be cut again to fit the model.
        let code: String = (0..40)
            .map(|k| {
                format!("    antidisestablishmentarianism_{n}_{k} floccinaucinihilipilification\n")
            })
            .collect();
        place
            .write(&format!("docs/{n}.md"), format!("# Page {n}\n\nText of page {n}.\n\n{code}\n"));
    }
    place.run(&INDEX).succeeds();
    let mut kills = Kills { random: random(), whole: Duration::from_secs(3), unfinished: 0 };
    for _ in 0..6 {
        kills.kill(&place, &["index", "docs"]);
    }
    let report = place.run(&["index", "docs", "--json"]).succeeds().json();
    assert_eq!((number(&report, "/documents"), number(&report, "/unchanged")), (12, 12));
    sound(&place, "at the end");
    place.run(&["search", "text of page"]).succeeds();
}
