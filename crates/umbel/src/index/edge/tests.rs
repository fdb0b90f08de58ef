//! What the suite cannot ask of every back end: crashes, damaged files, locks, and the measurements in the documentation.

use super::*;
use crate::index::SparseVector;
use crate::index::conformance::{self, DIMENSION, Random, assert_agrees, kept, leaf, point};
use crate::index::exact::ExactIndex;
use futures_lite::future::block_on;
use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use umbel_core::hit::Ancestor;
use umbel_core::id::DocId;

const OPTIONS: EdgeOptions = EdgeOptions { dimension: Some(DIMENSION) };

fn open(path: &Path) -> EdgeIndex {
    EdgeIndex::open(path, &OPTIONS).unwrap()
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn it_keeps_every_promise_of_an_index() {
    let folder = TempDir::new().unwrap();
    let n_made = AtomicUsize::new(0);
    block_on(conformance::run(async |dimension| {
        let n = n_made.fetch_add(1, Ordering::Relaxed);
        let index = EdgeIndex::open(&folder.path().join(n.to_string()), &EdgeOptions { dimension })
            .unwrap();
        Box::new(index) as Box<dyn Index>
    }));
}

#[test]
fn it_opens_again_with_what_it_held() {
    let folder = TempDir::new().unwrap();
    let index = open(folder.path());
    block_on(index.upsert((0..50).map(|n| point(n, 1, &[n % 3])).collect())).unwrap();
    block_on(index.flush()).unwrap();
    assert_eq!(fs::read_to_string(folder.path().join(FLUSHED)).unwrap(), "50");
    drop(index);
    let index = open(folder.path());
    assert_eq!(block_on(index.describe()).unwrap().points, 50);
    assert_eq!(block_on(index.fetch(&[leaf(7)])).unwrap(), [Some(kept(&point(7, 1, &[])))]);
}

#[test]
fn vectors_of_another_length_are_not_opened() {
    let folder = TempDir::new().unwrap();
    drop(open(folder.path()));
    for (dimension, got) in [(Some(9), 9), (None, 0)] {
        let error = EdgeIndex::open(folder.path(), &EdgeOptions { dimension }).unwrap_err();
        assert!(
            matches!(error, IndexError::Dimension { wanted: DIMENSION, got: other } if other == got),
            "{error:?}"
        );
    }
}

#[test]
fn a_place_that_is_no_folder_is_an_error() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let error = EdgeIndex::open(&folder.path().join("file"), &OPTIONS).unwrap_err();
    assert!(matches!(error, IndexError::Engine { verb: "open", .. }), "{error:?}");
}

#[test]
fn an_open_index_is_not_opened_twice() {
    let folder = TempDir::new().unwrap();
    let index = open(folder.path());
    let error = EdgeIndex::open(folder.path(), &OPTIONS).unwrap_err();
    assert!(matches!(error, IndexError::Engine { verb: "lock", .. }), "{error:?}");
    let (mut child, mut lines) = spawn("open", folder.path(), 0, 0);
    assert_eq!(lines.next().unwrap(), "locked");
    child.wait().unwrap();
    drop(index);
    open(folder.path());
}

#[test]
fn the_log_stays_short() {
    let folder = TempDir::new().unwrap();
    let index = open(folder.path());
    let long = |n| {
        let mut point = point(n, 1, &[1]);
        point.record.ancestors = vec![Ancestor { node: 1, children: 2 }; 2_000];
        point
    };
    for round in 0..10 {
        block_on(index.upsert((0..200).map(|n| long(round * 200 + n)).collect())).unwrap();
        block_on(index.flush()).unwrap();
    }
    let parts = fs::read_dir(folder.path().join(LOG)).unwrap().count();
    assert!(parts <= 3, "{parts} parts");
    drop(index);
    // The numbers go on behind what is left of the log: a write with an older number would be dropped.
    let index = open(folder.path());
    block_on(index.upsert(vec![point(7, 9, &[1])])).unwrap();
    assert_eq!(block_on(index.fetch(&[leaf(7)])).unwrap(), [Some(kept(&point(7, 9, &[])))]);
}

#[test]
fn searches_run_beside_a_writer() {
    let folder = TempDir::new().unwrap();
    let index = open(folder.path());
    let written = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..20 {
                block_on(
                    index.upsert((0..200).map(|n| point(round * 200 + n, 1, &[n % 5])).collect()),
                )
                .unwrap();
                block_on(index.flush()).unwrap();
                if round % 5 == 4 {
                    block_on(index.optimize()).unwrap();
                }
            }
            written.store(true, Ordering::Relaxed);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while !written.load(Ordering::Relaxed) {
                    for leg in [
                        Leg::Dense(point(1, 0, &[]).dense.unwrap()),
                        Leg::Lexical(point(0, 0, &[1]).lexical),
                    ] {
                        block_on(index.search(&SearchRequest {
                            leg,
                            limit: 10,
                            filter: Vec::new(),
                        }))
                        .unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(block_on(index.describe()).unwrap().points, 4_000);
}

/// Every file of a small index, damaged in one of four ways: it opens or is corrupt, and never panics. With `UMBEL_REPORT` set,
/// in all four, and it says what came of each.
#[test]
fn a_damaged_folder_is_an_error_or_is_repaired() {
    let folder = TempDir::new().unwrap();
    let original = folder.path().join("original");
    let index = open(&original);
    block_on(index.upsert((0..300).map(|n| point(n, 1, &[n % 3, 5])).collect())).unwrap();
    block_on(index.flush()).unwrap();
    drop(index);
    let reports = env::var_os("UMBEL_REPORT").is_some();
    let mut random = Random::new(1);
    for file in files(&original) {
        let name = file.strip_prefix(&original).unwrap();
        let bytes = fs::read(&file).unwrap();
        let garbage: Vec<u8> = bytes.iter().map(|_| random.byte()).collect();
        let half = &bytes[..bytes.len() / 2];
        let damages = [
            ("empty", Some(&[][..])),
            ("half", Some(half)),
            ("garbage", Some(&garbage)),
            ("gone", None),
        ];
        let chosen = random.below(damages.len());
        for (damage, bytes) in if reports { &damages[..] } else { &damages[chosen..=chosen] } {
            let copy = folder.path().join("copy");
            copy_folder(&original, &copy);
            match bytes {
                Some(bytes) => fs::write(copy.join(name), bytes).unwrap(),
                None => fs::remove_file(copy.join(name)).unwrap(),
            }
            let place = format!("{} {damage}", name.display());
            let state = match EdgeIndex::open(&copy, &OPTIONS) {
                Ok(index) => use_damaged(&index, &place),
                Err(error @ IndexError::Corrupt { .. }) => chain(&error),
                Err(error) => panic!("{place}: {error:?}"),
            };
            if reports {
                eprintln!("{place}: {state}");
            }
            fs::remove_dir_all(copy).unwrap();
        }
    }
}

/// What a damaged index that opened says to searches and to a write; no write may get lost without an error.
fn use_damaged(index: &EdgeIndex, place: &str) -> String {
    let said = |error: IndexError| chain(&error);
    let legs =
        [Leg::Dense(point(1, 0, &[]).dense.unwrap()), Leg::Lexical(point(0, 0, &[5]).lexical)];
    let found = legs.map(|leg| {
        let request = SearchRequest { leg, limit: 300, filter: without(2) };
        block_on(index.search(&request)).map(|hits| hits.len()).map_err(said)
    });
    let new = point(1, 77, &[5]);
    let wanted = [Some(kept(&new))];
    let stored = block_on(index.upsert(vec![new]));
    let fetched = stored.and_then(|()| block_on(index.fetch(&[leaf(1)])));
    assert!(
        fetched.as_ref().map_or(true, |fetched| *fetched == wanted),
        "{place}: a write was lost"
    );
    format!("opens, finds {found:?}, writes {:?}", fetched.map(|_| ()).map_err(said))
}

/// Every document but this one.
fn without(doc: u64) -> Vec<Clause> {
    vec![Clause { test: Test::Docs(vec![DocId(doc)]), negated: true }]
}

fn chain(error: &dyn std::error::Error) -> String {
    let errors = std::iter::successors(Some(error), |error| error.source());
    errors.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// One step of the child that is killed.
struct Step {
    upserts: Vec<Point>,
    deletes: Vec<LeafId>,
    optimizes: bool,
}

const STEP_LEAVES: usize = 1_500;

impl Step {
    fn of(seed: u64, n: u64) -> Step {
        let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(n));
        let mut leaves = BTreeSet::new();
        while leaves.len() < 220 {
            leaves.insert(random.below(STEP_LEAVES) as u32);
        }
        let deletes = leaves.iter().copied().filter(|n| n % 11 == 0).map(leaf).collect();
        let upserts = leaves.iter().filter(|n| *n % 11 != 0).map(|leaf| {
            let n_terms = random.below(6);
            let indices = random.terms(n_terms);
            let lexical = SparseVector { values: vec![1.0; indices.len()], indices };
            Point { dense: Some(random.direction()), lexical, ..point(*leaf, n, &[]) }
        });
        Step { upserts: upserts.collect(), deletes, optimizes: n % 4 == 3 }
    }

    fn leaves(&self) -> BTreeSet<LeafId> {
        self.upserts
            .iter()
            .map(|point| point.record.leaf)
            .chain(self.deletes.iter().copied())
            .collect()
    }

    fn apply(self, index: &dyn Index) {
        block_on(index.delete(&self.deletes)).unwrap();
        block_on(index.upsert(self.upserts)).unwrap();
        if self.optimizes {
            block_on(index.optimize()).unwrap();
        }
        block_on(index.flush()).unwrap();
    }
}

/// Starts this test binary again, as the child that does what `role` says; and the lines that it writes.
fn spawn(
    role: &str,
    path: &Path,
    seed: u64,
    first: u64,
) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "index::edge::tests::the_child", "--nocapture", "--test-threads=1"])
        .env("UMBEL_CHILD", role)
        .env("UMBEL_CHILD_PATH", path)
        .env("UMBEL_CHILD_STEPS", format!("{seed} {first}"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    (child, lines.filter_map(|line| line.split_once("child: ").map(|(_, rest)| rest.to_owned())))
}

/// No test of its own: what another test starts in a second process.
#[test]
fn the_child() {
    let Some(path) = env::var_os("UMBEL_CHILD_PATH").map(PathBuf::from) else { return };
    let say = |line: String| {
        let mut out = io::stdout().lock();
        writeln!(out, "child: {line}").and_then(|()| out.flush()).unwrap();
    };
    if env::var("UMBEL_CHILD").unwrap() == "open" {
        match EdgeIndex::open(&path, &OPTIONS) {
            Err(IndexError::Engine { verb: "lock", .. }) => say("locked".to_owned()),
            other => say(format!("{other:?}")),
        }
        return;
    }
    let steps = env::var("UMBEL_CHILD_STEPS").unwrap();
    let (seed, first) = steps.split_once(' ').unwrap();
    let index = match EdgeIndex::open(&path, &OPTIONS) {
        Ok(index) => index,
        Err(error) => return say(format!("corrupt {}", chain(&error))),
    };
    say("opened".to_owned());
    for n in first.parse().unwrap().. {
        Step::of(seed.parse().unwrap(), n).apply(&index);
        say(format!("flushed {n}"));
    }
}

/// Kills a writing child at random moments. `UMBEL_KILLS` and `UMBEL_SEED` set how often, and which moments.
#[test]
fn what_was_flushed_outlives_a_kill() {
    let setting = |name: &str, default| {
        env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
    };
    let (kills, seed) = (setting("UMBEL_KILLS", 30), setting("UMBEL_SEED", 0));
    eprintln!("seed {seed}, {kills} kills");
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("index");
    let model = ExactIndex::new(Some(DIMENSION));
    let mut random = Random::new(seed);
    let (mut next, mut corrupt, mut crashed) = (0, 0, 0);
    for kill in 0..kills {
        let (mut child, lines) = spawn("write", &path, seed, next);
        // Half of the kills come soon, in the middle of opening and repairing.
        let most = if random.below(2) == 0 { 150 } else { 1_500 };
        std::thread::sleep(Duration::from_millis(random.below(most) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines {
            if let Some(n) = line.strip_prefix("flushed ") {
                assert_eq!(n.parse(), Ok(next), "seed {seed}, kill {kill}");
                Step::of(seed, next).apply(&model);
                next += 1;
            }
        }
        crashed += u32::from(!path.join(FLUSHED).exists());
        if random.below(2) == 0 {
            // The next child opens what this one left.
            continue;
        }
        match EdgeIndex::open(&path, &OPTIONS) {
            Ok(index) => check_flushed(
                &index,
                &model,
                &Step::of(seed, next),
                &format!("seed {seed}, kill {kill}, step {next}"),
            ),
            Err(IndexError::Corrupt { source, .. }) => {
                eprintln!("seed {seed}, kill {kill}, step {next}: corrupt, {}", chain(&*source));
                corrupt += 1;
                fs::remove_dir_all(&path).unwrap();
                (0..next).for_each(|n| {
                    Step { optimizes: false, ..Step::of(seed, n) }.apply(&open(&path));
                });
            }
            Err(error) => panic!("seed {seed}, kill {kill}: {error:?}"),
        }
    }
    eprintln!(
        "{next} steps flushed, {crashed} kills between a write and its flush, {corrupt} folders corrupt"
    );
    let index = open(&path);
    Step::of(seed, next).apply(&index);
    Step::of(seed, next).apply(&model);
    block_on(index.optimize()).unwrap();
    for n in 0..20 {
        let lexical = SparseVector { values: vec![1.0; 3], indices: random.terms(3) };
        for leg in [Leg::Dense(random.direction()), Leg::Lexical(lexical)] {
            let request = SearchRequest { leg, limit: 50, filter: without(n) };
            block_on(assert_agrees(
                &index,
                &model,
                &request,
                &format!("seed {seed}, after all kills"),
            ));
        }
    }
}

/// Leaves that the step behind the last flush does not touch are as they were; the others are old, new or gone.
fn check_flushed(index: &EdgeIndex, model: &ExactIndex, next: &Step, place: &str) {
    let leaves: Vec<LeafId> = (0..STEP_LEAVES as u32).map(leaf).collect();
    let fetched = block_on(index.fetch(&leaves)).unwrap();
    let before = block_on(model.fetch(&leaves)).unwrap();
    let touched = next.leaves();
    for (idx, leaf) in leaves.iter().enumerate() {
        let new = next.upserts.iter().map(kept).find(|kept| kept.record.leaf == *leaf);
        let fits = match &fetched[idx] {
            None => before[idx].is_none() || touched.contains(leaf),
            some => *some == before[idx] || *some == new,
        };
        assert!(fits, "{place}: {leaf} is {:?}, was {:?}", fetched[idx], before[idx]);
    }
    let n_found = fetched.iter().flatten().count();
    assert_eq!(block_on(index.describe()).unwrap().points, n_found, "{place}");
    let request = SearchRequest {
        leg: Leg::Dense(Random::new(7).direction()),
        limit: usize::MAX,
        filter: Vec::new(),
    };
    let untouched = |index: &dyn Index| -> Vec<(LeafId, f32)> {
        let hits = block_on(index.search(&request)).unwrap();
        let mut hits: Vec<_> = hits.into_iter().map(|hit| (hit.record.leaf, hit.score)).collect();
        hits.retain(|(leaf, _)| !touched.contains(leaf));
        hits.sort_unstable_by_key(|(leaf, _)| *leaf);
        hits
    };
    let (found, wanted) = (untouched(index), untouched(model));
    assert_eq!(found.len(), wanted.len(), "{place}");
    for (found, wanted) in found.iter().zip(&wanted) {
        assert!(
            found.0 == wanted.0 && (found.1 - wanted.1).abs() < 1e-4,
            "{place}: {found:?} was {wanted:?}"
        );
    }
}
