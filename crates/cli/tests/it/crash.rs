//! kill -9 at any moment loses no committed document and leaves no half document visible.

use super::cli::{Place, list, number, text};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

/// A generator that a seed fixes; the seed is printed.
struct Random(u64);

impl Random {
    fn new() -> Random {
        let seed =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
        eprintln!("seed: {seed}");
        Random(seed | 1)
    }

    /// A number below `n`: xorshift64*.
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n
    }
}

fn page(n: usize, version: usize) -> String {
    let sections: String = (0..6)
        .map(|k| {
            format!(
                "## Section {k}\n\n{}\n\n",
                format!("Word{n}x{k}v{version} is here. ").repeat(20)
            )
        })
        .collect();
    format!("# Page {n}\n\n{sections}")
}

#[test]
fn killing_index_at_random_moments_loses_nothing_committed() {
    let mut random = Random::new();
    let place = Place::new();
    let documents = 150;
    for n in 0..documents {
        place.write(&format!("docs/{n}.md"), page(n, 0));
    }
    // How long a whole run takes, so that kills land inside one.
    let whole = Instant::now();
    place.run(&["--store", "probe", "index", "docs", "--lexical"]).succeeds();
    let whole = whole.elapsed().as_millis() as u64;
    let (mut committed, mut unfinished) = (0, 0);
    for round in 0..25 {
        // Each round changes documents, so that there is work to interrupt and old leaves are deleted too.
        for _ in 0..80 {
            let n = random.below(documents as u64) as usize;
            place.write(&format!("docs/{n}.md"), page(n, round));
        }
        let mut child = place
            .command(&["index", "docs", "--lexical"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(random.below(whole)));
        let _ = child.kill();
        unfinished += usize::from(!child.wait().unwrap().success());
        if !place.path().join(".umbel/catalog.sqlite").exists() {
            continue;
        }
        // The catalog alone keeps every promise before anything is repaired.
        let stats = place.run(&["stats", "--json"]).succeeds().json();
        let documents = number(&stats, "/documents");
        assert!(
            documents >= committed,
            "round {round}: {documents} documents, {committed} were committed before"
        );
        committed = documents;
        let check = place.run(&["check", "--json"]).succeeds().json();
        assert!(
            check
                .pointer("/violations")
                .and_then(serde_json::Value::as_array)
                .is_some_and(Vec::is_empty),
            "{check}"
        );
    }
    assert!(unfinished >= 3, "only {unfinished} of 25 runs were killed before their end");
    let report = place.run(&["index", "docs", "--lexical", "--json"]).succeeds().json();
    assert_eq!(number(&report, "/documents"), documents as u64);
    place.run(&["check"]).succeeds();
    // The store is the same as a fresh one.
    let fresh = Place::new();
    for n in 0..documents {
        let text = fs_err::read(place.path().join(format!("docs/{n}.md"))).unwrap();
        fresh.write(&format!("docs/{n}.md"), text);
    }
    fresh.run(&["index", "docs", "--lexical"]).succeeds();
    for n in [0, 77, 149] {
        let page = fs_err::read_to_string(place.path().join(format!("docs/{n}.md"))).unwrap();
        let query =
            page.split_whitespace().find(|word| word.starts_with(&format!("Word{n}x3v"))).unwrap();
        let context = |place: &Place| place.run(&["search", query, "--json"]).succeeds().json();
        let (found, wanted) = (context(&place), context(&fresh));
        assert_eq!(texts(&found), texts(&wanted), "{query}");
    }
}

fn texts(found: &serde_json::Value) -> Vec<&str> {
    list(found, "/context/passages").iter().map(|passage| text(passage, "/text")).collect()
}

#[test]
fn killing_the_step_from_words_to_vectors_with_the_model_can_be_done_again() {
    let mut random = Random::new();
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
    place.run(&["index", "docs", "--lexical"]).succeeds();
    for _ in 0..6 {
        let mut child = place
            .command(&["index", "docs"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(random.below(3000)));
        let _ = child.kill();
        child.wait().unwrap();
    }
    let report = place.run(&["index", "docs", "--json"]).succeeds().json();
    assert_eq!((number(&report, "/documents"), number(&report, "/unchanged")), (12, 12));
    place.run(&["check"]).succeeds();
    place.run(&["search", "text of page"]).succeeds();
}
