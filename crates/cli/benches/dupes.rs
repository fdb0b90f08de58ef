//! A cluster run in numbers: how long one takes over 100,000 leaves, and how much memory of its own.
//!
//! The work is done in a child of this program, so that the memory of indexing is not counted.

use super::ingest::{grow, measured};
use super::{block_on, row};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use umbel::config::Config;
use umbel::dedup::Method;
use umbel::engine::Engine;
use umbel::engine::ingest::IngestRequest;

/// Set in the child: the store.
const JOB: &str = "UMBEL_BENCH_DUPES";
/// Bytes of documents that have about 100,000 leaves, most of them copies of others.
const BYTES: usize = 57_500_000;

/// What the child says of a run.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Marked {
    seconds: f64,
    peak_bytes: u64,
    leaves: usize,
    clusters: usize,
    members: usize,
}

/// Does the work of a child, if this process is one.
pub(crate) fn serve() -> bool {
    let Ok(store) = std::env::var(JOB) else { return false };
    super::print(&serde_json::to_string(&mark(Path::new(&store))).unwrap());
    true
}

fn mark(store: &Path) -> Marked {
    let go_on = |_| ControlFlow::Continue(());
    let engine = block_on(Engine::open(store, Config::default(), None, &go_on)).unwrap();
    let (run, seconds, peak_bytes) =
        measured(|| block_on(engine.mark_duplicates(Method::default(), &go_on)).unwrap());
    let (leaves, clusters, members) = (run.leaves, run.clusters, run.members);
    Marked { seconds, peak_bytes, leaves, clusters, members }
}

fn in_child(store: &Path) -> Marked {
    let output = Command::new(std::env::current_exe().unwrap()).env(JOB, store).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(crate) fn duplicates() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, store) = (dir.path().join("docs"), dir.path().join("store"));
    grow(&folder, BYTES);
    let index = |path: &Path| {
        let go_on = |_| ControlFlow::Continue(());
        let request = IngestRequest { path: path.to_owned(), ..IngestRequest::default() };
        block_on(async {
            let engine = Engine::open(&store, Config::default(), None, &go_on).await.unwrap();
            engine.ingest(&[request], &go_on).await.unwrap();
        });
    };
    let show = |name: &str, found: Marked| {
        row(
            &format!("cluster run, near, {name}"),
            &format!(
                "{:.1} s for {} leaves, {} of them in {} clusters, at most {:.0} MB of its own",
                found.seconds,
                found.leaves,
                found.members,
                found.clusters,
                found.peak_bytes as f64 / 1e6
            ),
        );
    };
    index(&folder);
    show("the first time", in_child(&store));
    show("again, nothing new", in_child(&store));
    let more = dir.path().join("more");
    grow(&more, BYTES / 100);
    index(&more);
    show("again, one in a hundred new", in_child(&store));
}
