//! Ingestion in numbers: how fast, and how much memory of its own a process takes that indexes large folders.
//!
//! The work is done in a child of this program, so that each row starts with no memory; it does what `umbel index` does.

use super::{markdown, row};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use umbel::config::Config;
use umbel::embed::Embedder;
use umbel::embed::local::{LocalEmbedder, LocalOptions};
use umbel::engine::Engine;
use umbel::engine::ingest::IngestRequest;
use umbel::model::{FetchOptions, ModelSpec, fetch};

/// Set in the child: the folder, the store and the way, one to a line.
const JOB: &str = "UMBEL_BENCH_INGEST";

/// What the child says of its work.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Ingested {
    seconds: f64,
    /// The most memory of its own that the process had, in bytes (`RssAnon` of Linux).
    peak_bytes: u64,
    documents: usize,
    unchanged: usize,
    leaves: usize,
    embedded: usize,
}

/// Does the work of a child, if this process is one.
pub(crate) fn serve() -> bool {
    let Ok(job) = std::env::var(JOB) else { return false };
    let parts: Vec<&str> = job.lines().collect();
    let [folder, store, way] = parts[..] else { panic!("{JOB} is `{job}`") };
    let ingested = ingest(Path::new(folder), Path::new(store), way == "vectors");
    super::print(&serde_json::to_string(&ingested).unwrap());
    true
}

fn ingest(folder: &Path, store: &Path, vectors: bool) -> Ingested {
    let work = || {
        let embedder = vectors.then(|| {
            let options = FetchOptions::from_env().unwrap();
            let model = fetch(&ModelSpec::default(), &options, &mut |_| {}).unwrap();
            Arc::new(LocalEmbedder::load(&model, &LocalOptions::default()).unwrap())
                as Arc<dyn Embedder>
        });
        let request = IngestRequest { path: folder.to_owned(), ..IngestRequest::default() };
        super::block_on(async {
            let go_on = |_| ControlFlow::Continue(());
            let engine = Engine::open(store, Config::default(), embedder, &go_on).await.unwrap();
            engine.ingest(&[request], &go_on).await.unwrap()
        })
    };
    let (report, seconds, peak_bytes) = measured(work);
    Ingested {
        seconds,
        peak_bytes,
        documents: report.documents,
        unchanged: report.unchanged,
        leaves: report.leaves,
        embedded: report.embedded,
    }
}

/// What some work gives, how many seconds it takes, and the most memory of its own that the process has meanwhile, in bytes.
pub(crate) fn measured<T>(work: impl FnOnce() -> T) -> (T, f64, u64) {
    let (peak, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let watcher = std::thread::spawn({
        let (peak, done) = (Arc::clone(&peak), Arc::clone(&done));
        move || {
            while !done.load(Ordering::Relaxed) {
                peak.fetch_max(anonymous_bytes(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    });
    let begun = Instant::now();
    let made = work();
    let seconds = begun.elapsed().as_secs_f64();
    done.store(true, Ordering::Relaxed);
    watcher.join().unwrap();
    (made, seconds, peak.load(Ordering::Relaxed))
}

/// Memory of this process that is not that of files; 0 where the system does not tell.
fn anonymous_bytes() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

fn in_child(folder: &Path, store: &Path, way: &str) -> Ingested {
    let job = format!("{}\n{}\n{way}", folder.display(), store.display());
    let output = Command::new(std::env::current_exe().unwrap()).env(JOB, job).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A folder of so many bytes: the corpora again and again, each time with other words in some paragraphs.
pub(crate) fn grow(folder: &Path, bytes: usize) {
    let pages = markdown();
    let (mut written, mut round) = (0, 0);
    while written < bytes {
        for (at, page) in pages.iter().enumerate() {
            if written >= bytes {
                return;
            }
            let mut paragraphs: Vec<String> = page.split("\n\n").map(str::to_owned).collect();
            let edited = (round * 31 + at * 7) % paragraphs.len();
            paragraphs[edited] += format!(" Edition {round}, page {at}.").as_str();
            let text = paragraphs.join("\n\n");
            let dir = folder.join(format!("{round}/{}", at / 100));
            fs_err::create_dir_all(&dir).unwrap();
            fs_err::write(dir.join(format!("{at}.md")), &text).unwrap();
            written += text.len();
        }
        round += 1;
    }
}

pub(crate) fn ingestion() {
    let dir = tempfile::tempdir().unwrap();
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let run = |megabytes: usize, way: &str| {
        let (folder, store) = (
            dir.path().join(format!("{megabytes}")),
            dir.path().join(format!("{megabytes}-{way}")),
        );
        if !folder.exists() {
            grow(&folder, megabytes * 1_000_000);
        }
        let first = in_child(&folder, &store, way);
        row(
            &format!("index {megabytes} MB by {way}"),
            &format!(
                "{:.1} MB/s, {} leaves, {} embedded, at most {:.0} MB of its own",
                megabytes as f64 / first.seconds,
                first.leaves,
                first.embedded,
                mb(first.peak_bytes)
            ),
        );
        let again = in_child(&folder, &store, way);
        assert_eq!((again.unchanged, again.embedded), (first.documents, 0));
        row(
            "  again, unchanged",
            &format!("{:.1} MB/s, {} embedded", megabytes as f64 / again.seconds, again.embedded),
        );
        first.peak_bytes as f64
    };
    let growth = |small: f64, large: f64| format!("{:+.1} %", (large / small - 1.0) * 100.0);
    let (small, large) = (run(100, "words"), run(200, "words"));
    row("memory from 100 to 200 MB by words", &growth(small, large));
    let (small, large) = (run(10, "vectors"), run(20, "vectors"));
    row("memory from 10 to 20 MB by vectors", &growth(small, large));
}
