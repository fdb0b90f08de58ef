//! `umbel index --watch`: changes of folders and files → one run of ingestion for each burst.
//!
//! Invariant: the store is held only while a change is taken in, so that it can be searched in between.

use super::index::print_skipped;
use crate::interrupt;
use crate::output::{Output, number};
use crate::wire;
use anyhow::Context as _;
use notify::{EventKind, RecursiveMode, Watcher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use umbel::config::Config;
use umbel::embed::Embedder;
use umbel::engine::ingest::{IngestReport, IngestRequest};
use umbel::engine::{Engine, EngineError};
use umbel::store::StoreError;

/// A burst is over when nothing has changed for so long.
const QUIET: Duration = Duration::from_millis(400);
/// A burst is taken in after so long, though it goes on.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether somebody asked to stop.
const TICK: Duration = Duration::from_millis(100);
/// How long another process may hold the store before the watch ends with an error.
const HELD: Duration = Duration::from_mins(1);

/// What is watched, and where changes go.
pub(super) struct Watch<'a> {
    pub(super) store: &'a Path,
    pub(super) config: &'a Config,
    pub(super) model: Option<Arc<dyn Embedder>>,
    pub(super) requests: &'a [IngestRequest],
}

impl Watch<'_> {
    /// Takes in changes until somebody asks to stop.
    pub(super) async fn run(&self, output: &Output) -> anyhow::Result<()> {
        let (sender, changes) = channel();
        let mut watcher = notify::recommended_watcher(move |event| {
            // The receiver is gone when the watch ends.
            let _ = sender.send(event);
        })?;
        for request in self.requests {
            // An editor replaces a file: its folder is what tells.
            let folder = if request.path.is_dir() {
                Some(request.path.as_path())
            } else {
                request.path.parent()
            };
            let folder =
                folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let mode = if request.path.is_dir() {
                RecursiveMode::Recursive
            } else {
                RecursiveMode::NonRecursive
            };
            watcher
                .watch(folder, mode)
                .with_context(|| format!("`{}` cannot be watched", folder.display()))?;
        }
        output.warning("watching for changes; Ctrl-C ends it");
        let store = fs_err::canonicalize(self.store).unwrap_or_else(|_| self.store.to_owned());
        // What changed after the first run had looked and before the watch began.
        say(&self.take_in().await?, output)?;
        while interrupt::go_on().is_continue() {
            if wait_for_burst(&changes, &store)? {
                let report = self.take_in().await?;
                say(&report, output)?;
            }
        }
        Ok(())
    }

    /// One run of ingestion, waiting for another process that holds the store.
    async fn take_in(&self) -> anyhow::Result<IngestReport> {
        let begun = Instant::now();
        let step = |_| interrupt::go_on();
        let engine = loop {
            match Engine::open(self.store, self.config.clone(), self.model.clone(), &step).await {
                Err(EngineError::Store(StoreError::Held { .. }))
                    if begun.elapsed() < HELD && interrupt::go_on().is_continue() =>
                {
                    std::thread::sleep(TICK);
                }
                other => break other?,
            }
        };
        // A folder that is gone for a moment is no reason to end: what it held is kept.
        let there: Vec<IngestRequest> =
            self.requests.iter().filter(|request| request.path.exists()).cloned().collect();
        Ok(engine.ingest(&there, &step).await?)
    }
}

/// Waits for a change, then until it is quiet again. `false` where somebody asked to stop.
fn wait_for_burst(
    changes: &Receiver<notify::Result<notify::Event>>,
    store: &Path,
) -> anyhow::Result<bool> {
    let mut begun: Option<Instant> = None;
    let mut last = Instant::now();
    loop {
        if interrupt::go_on().is_break() {
            return Ok(false);
        }
        if begun.is_some_and(|begun| last.elapsed() >= QUIET || begun.elapsed() >= PATIENCE) {
            return Ok(true);
        }
        match changes.recv_timeout(TICK) {
            Ok(event) => {
                if is_change(&event?, store) {
                    last = Instant::now();
                    begun.get_or_insert(last);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the watch ended by itself"),
        }
    }
}

/// Whether something outside of the store was written. Events without a path say that some were lost.
fn is_change(event: &notify::Event, store: &Path) -> bool {
    let outside = |path: &PathBuf| !path.starts_with(store);
    let written = !matches!(event.kind, EventKind::Access(_));
    written && (event.paths.is_empty() || event.paths.iter().any(outside))
}

fn say(report: &IngestReport, output: &Output) -> anyhow::Result<()> {
    if report.added + report.updated + report.removed == 0 {
        return Ok(());
    }
    if output.is_json() {
        return output.json(&wire::index(report));
    }
    print_skipped(&report.skipped, output);
    output.line(format!(
        "{} added, {} updated, {} removed; {} embedded",
        number(report.added),
        number(report.updated),
        number(report.removed),
        number(report.embedded)
    ));
    Ok(())
}
