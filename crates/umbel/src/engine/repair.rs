//! A store that breaks a promise → one that keeps it, and one that takes no more room than it needs.
//!
//! Invariant: only what can be derived is made anew; no text is touched.

use super::ingest::{LEAF_SETTINGS, hash};
use super::inspect::{Finding, leaf_settings};
use super::reader::Builder;
use super::{Engine, EngineError, OnProgress, Progress, read_catalog, remove, texts_to_embed};
use crate::catalog::sqlite::SqliteCatalog;
use crate::catalog::{Catalog as _, CatalogError, Change};
use crate::config::Config;
use crate::embed::Embedder;
use crate::store::{Layout, StoreError, lock};
use crate::tokens::counter;
use std::collections::BTreeSet;
use std::path::Path;
use umbel_core::id::DocId;

/// Documents that are loaded together.
const DOCUMENTS_PER_LOAD: usize = 100;

/// What compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compacted {
    /// Vectors of texts that no document holds any more.
    pub forgotten_vectors: usize,
    /// Bytes of the store before.
    pub before_bytes: u64,
    /// Bytes of the store afterwards.
    pub after_bytes: u64,
}

/// Takes away a store's index: the next opening makes it anew from the catalog.
///
/// # Errors
/// Another process holds the store, or it cannot be written.
pub fn remove_index(dir: &Path) -> Result<(), EngineError> {
    let layout = Layout::new(dir);
    let _lock = lock(&layout)?;
    let unusable = |source| StoreError::Unusable { dir: dir.to_owned(), source };
    Ok(remove(&layout.index()).map_err(unusable)?)
}

/// The configuration with the leaf settings that a store was cut with, so that a repair cuts as before.
///
/// # Errors
/// The catalog does not open.
pub async fn config_of_store(dir: &Path, config: &Config) -> Result<Config, EngineError> {
    let catalog = read_catalog(&Layout::new(dir))?;
    let info = catalog.describe().await?;
    let mut settings = config.settings().clone();
    if info.settings.contains_key(LEAF_SETTINGS) {
        settings.leaf = leaf_settings(&info);
    }
    // Settings that made a store were checked then.
    Ok(Config::check(settings).unwrap_or_else(|_| config.clone()))
}

/// Builds the documents of these findings anew from their texts, before the store is opened; returns how many. The next
/// opening brings the index up to them.
///
/// # Errors
/// Another process holds the store, or it fails.
pub async fn rebuild(
    dir: &Path,
    config: &Config,
    embedder: Option<&dyn Embedder>,
    findings: &[Finding],
) -> Result<usize, EngineError> {
    let layout = Layout::new(dir);
    let _lock = lock(&layout)?;
    let catalog = SqliteCatalog::open(&layout.catalog())?;
    let counter = counter(&config.settings().leaf.tokenizer)?;
    let builder = Builder { config, counter: counter.as_ref(), embedder };
    let broken: BTreeSet<&str> = findings.iter().map(|finding| finding.document.as_str()).collect();
    let entries = catalog.list().await?;
    let ids: Vec<DocId> = entries
        .iter()
        .filter(|entry| broken.contains(entry.name.as_str()))
        .map(|entry| entry.id)
        .collect();
    for &id in &ids {
        // One that does not decode is made of its text alone.
        let new = match catalog.load(&[id]).await {
            Ok(stored) => stored.into_iter().flatten().next().map(|stored| builder.again(stored)),
            Err(CatalogError::Corrupt { .. }) => {
                let texts = catalog.texts(&[id]).await?;
                let found = texts.into_iter().flatten().next();
                found.map(|(entry, text)| builder.of_text(entry, text))
            }
            Err(error) => return Err(error.into()),
        };
        let put = new.into_iter().collect();
        catalog.commit(Change { put, ..Change::default() }).await?;
    }
    Ok(ids.len())
}

impl Engine {
    /// Forgets cached vectors that no document needs, merges the index, and gives unused space back to the disk.
    ///
    /// # Errors
    /// The store fails, or the caller asked to stop.
    pub async fn compact(&self, progress: OnProgress<'_>) -> Result<Compacted, EngineError> {
        let before_bytes = size_of_folder(&self.layout.dir);
        let info = self.catalog.describe().await?;
        let model = info.settings.get("model").filter(|model| !model.is_empty());
        let mut forgotten_vectors = 0;
        if let Some(model) = model {
            let mut keep = BTreeSet::new();
            let ids: Vec<DocId> = self.catalog.list().await?.iter().map(|entry| entry.id).collect();
            for (at, some) in ids.chunks(DOCUMENTS_PER_LOAD).enumerate() {
                if progress(Progress::Reading(at * DOCUMENTS_PER_LOAD, ids.len())).is_break() {
                    return Err(EngineError::Interrupted);
                }
                for stored in self.catalog.load(some).await?.into_iter().flatten() {
                    keep.extend(texts_to_embed(&stored.document).map(|text| hash(&text)));
                }
            }
            forgotten_vectors = self.catalog.prune(model, &keep).await?;
        }
        if progress(Progress::Optimizing).is_break() {
            return Err(EngineError::Interrupted);
        }
        self.index.optimize().await?;
        self.index.flush().await?;
        self.catalog.compact().await?;
        let after_bytes = size_of_folder(&self.layout.dir);
        Ok(Compacted { forgotten_vectors, before_bytes, after_bytes })
    }
}

/// Bytes that a folder's files take on the disk, holes not counted where the system tells.
fn size_of_folder(dir: &Path) -> u64 {
    let Ok(entries) = fs_err::read_dir(dir) else { return 0 };
    let sizes = entries.filter_map(Result::ok).map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of_folder(&entry.path()),
        Ok(metadata) => size_on_disk(&metadata),
        Err(_) => 0,
    });
    sizes.sum()
}

#[cfg(unix)]
fn size_on_disk(metadata: &std::fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    metadata.blocks() * 512
}

#[cfg(not(unix))]
fn size_on_disk(metadata: &std::fs::Metadata) -> u64 {
    metadata.len()
}
