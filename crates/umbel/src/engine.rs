//! The engine: documents in, context out.
//!
//! Invariant: the catalog is committed before the index, and the index is repaired from the catalog on opening.

mod opening;
mod source;
mod reader;
pub mod ingest;
mod apply;
pub mod inspect;
pub mod repair;
pub mod dupes;
pub mod answer;
pub mod wire;
pub mod log;
mod clock;
mod retrieve;
mod refine;
pub mod observe;
mod cursor;
mod error;
mod search;
pub mod policies;
pub mod prompt;
mod ask;

use crate::catalog::sqlite::SqliteCatalog;
use crate::catalog::{Catalog, CatalogError, CatalogInfo, StoredDocument};
use crate::config::Config;
use crate::embed::Embedder;
use crate::generate::Generator;
use crate::index::edge::{EdgeIndex, EdgeOptions};
use crate::index::lexical::LexicalEncoder;
use crate::index::{Index, IndexError, Kept};
use crate::rerank::{RerankError, Reranker};
use crate::store::{Layout, StoreError, StoreLock, lock};
use crate::tokens::counter;
use apply::{Steps, clustered_records, facets, texts_to_embed};
pub use cursor::CursorError;
pub use error::EngineError;
use lru::LruCache;
use opening::{STORE_ID, agree, name_store, open_index};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use umbel_core::hit::LeafRecord;
use umbel_core::id::{DocId, LeafId};
use umbel_core::leaf::EmbedLimit;
use umbel_core::offsets::TokenCounter;

/// Documents that are kept in memory between searches.
const DOCUMENTS_KEPT: NonZeroUsize = NonZeroUsize::new(512).expect("512 is not 0");

/// Setting that is `no` from when a store is given a model until its documents are cut to fit it.
const CUT_FOR_MODEL: &str = "cut_for_model";

/// Setting that holds the tokens that the model takes, counted by itself.
const MODEL_LIMIT: &str = "model_max_tokens";

/// What a long call is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Looking for files.
    Scanning,
    /// Reading files: so many of so many.
    Reading(usize, usize),
    /// Embedding and indexing leaves: so many of so many.
    Indexing(usize, usize),
    /// Comparing leaves to find duplicates: so many of so many.
    Comparing(usize, usize),
    /// Bringing the index into its best shape.
    Optimizing,
}

/// Takes steps of progress, and says whether to go on; called often.
pub type OnProgress<'a> = &'a (dyn Fn(Progress) -> ControlFlow<()> + Sync);

/// A store that is open for indexing and searching.
pub struct Engine {
    config: Config,
    catalog: Box<dyn Catalog>,
    index: Box<dyn Index>,
    embedder: Option<Arc<dyn Embedder>>,
    reranker: Option<Arc<dyn Reranker>>,
    generator: Option<Arc<dyn Generator>>,
    lexical: LexicalEncoder,
    counter: Arc<dyn TokenCounter>,
    layout: Layout,
    documents: Mutex<LruCache<DocId, (u64, Arc<StoredDocument>)>>,
    warnings: Vec<String>,
    /// Texts embedded while opening, until a report takes them.
    embedded_on_opening: AtomicUsize,
    _lock: StoreLock,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("layout", &self.layout)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// What a store was made with, read without opening it for writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreInfo {
    /// Counts, generation and settings.
    pub catalog: CatalogInfo,
    /// The model of its vectors; `None` for a store that searches by words only.
    pub model: Option<String>,
}

/// Reads what a store was made with; works beside a process that holds it.
///
/// # Errors
/// No store there, or a catalog that does not open.
pub async fn peek(dir: &Path) -> Result<StoreInfo, EngineError> {
    let layout = Layout::new(dir);
    if !layout.exists() {
        return Err(StoreError::Missing { dir: dir.to_owned() }.into());
    }
    let catalog = read_catalog(&layout)?.describe().await?;
    let model = catalog.settings.get("model").filter(|model| !model.is_empty()).cloned();
    Ok(StoreInfo { catalog, model })
}

/// The catalog of a store, for reading; one of an older format is brought up to date first, if nobody holds the store.
fn read_catalog(layout: &Layout) -> Result<SqliteCatalog, EngineError> {
    match SqliteCatalog::open_read_only(&layout.catalog()) {
        Err(outdated @ CatalogError::Outdated { .. }) => {
            match lock(layout) {
                // A folder that cannot be written stays as it is.
                Err(StoreError::Unusable { .. }) => return Err(outdated.into()),
                other => drop((other?, SqliteCatalog::open(&layout.catalog())?)),
            }
            Ok(SqliteCatalog::open_read_only(&layout.catalog())?)
        }
        other => Ok(other?),
    }
}

/// Removes a store: catalog and index.
///
/// # Errors
/// Another process holds it, or the files cannot be removed.
pub fn wipe(dir: &Path) -> Result<(), EngineError> {
    let layout = Layout::new(dir);
    let _lock = lock(&layout)?;
    let unusable = |source| StoreError::Unusable { dir: dir.to_owned(), source };
    // The catalog goes last: a folder with a catalog is known to be a store.
    remove(&layout.index()).map_err(unusable)?;
    for suffix in ["-wal", "-shm", ""] {
        let mut path = layout.catalog().into_os_string();
        path.push(suffix);
        remove(&PathBuf::from(path)).map_err(unusable)?;
    }
    Ok(())
}

/// How the index compares to the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexCheck {
    /// Leaves of the catalog that the index lacks.
    pub missing: usize,
    /// Leaves of the index that the catalog does not know.
    pub unknown: usize,
}

/// Compares the index with the catalog, leaf by leaf. What a crash left to be applied counts as neither missing nor unknown.
/// `None` where the index cannot be opened beside another process, or without the right to write.
///
/// # Errors
/// A catalog or an index that does not open.
pub async fn check_index(dir: &Path) -> Result<Option<IndexCheck>, EngineError> {
    let layout = Layout::new(dir);
    let _lock = match lock(&layout) {
        Err(StoreError::Held { .. } | StoreError::Unusable { .. }) => return Ok(None),
        other => other?,
    };
    let catalog = read_catalog(&layout)?;
    let dimension =
        catalog.describe().await?.settings.get("dimension").and_then(|d| d.parse().ok());
    let index = match EdgeIndex::open(&layout.index(), &EdgeOptions { dimension }) {
        Err(IndexError::Dimension { .. }) => return Ok(Some(IndexCheck::default())),
        // A crash can leave one that does not open: it holds nothing, and is made anew on the next opening.
        Err(IndexError::Corrupt { .. }) => {
            let entries = catalog.list().await?;
            let missing = entries.iter().filter(|e| e.indexed).map(|e| e.leaves).sum();
            return Ok(Some(IndexCheck { missing, unknown: 0 }));
        }
        other => other?,
    };
    let pending = catalog.pending(usize::MAX >> 1).await?;
    let unassigned: BTreeSet<LeafId> = pending.clusters.iter().map(|&(leaf, _)| leaf).collect();
    let (mut found, mut missing) = (0, 0);
    for entry in catalog.list().await? {
        let stored = match catalog.load(&[entry.id]).await {
            // Its leaves count as unknown: the catalog does not say which they are.
            Err(CatalogError::Corrupt { .. }) => continue,
            other => other?,
        };
        for stored in stored.into_iter().flatten() {
            let kept = index.fetch(&stored.leaf_ids).await?;
            found += kept.iter().flatten().count();
            if stored.entry.indexed {
                let facets = facets(&stored.entry);
                let records = clustered_records(&catalog, &stored).await?.into_iter();
                let agrees = |(record, kept): &(LeafRecord, &Option<Kept>)| {
                    kept.as_ref().is_some_and(|kept| {
                        let either = unassigned.contains(&record.leaf);
                        let cluster = if either { kept.record.cluster } else { record.cluster };
                        let record = LeafRecord { cluster, ..record.clone() };
                        *kept == Kept { record, facets: facets.clone() }
                    })
                };
                missing += records.zip(&kept).filter(|pair| !agrees(pair)).count();
            }
        }
    }
    found += index.fetch(&pending.deletes).await?.iter().flatten().count();
    let unknown = index.describe().await?.points.saturating_sub(found);
    Ok(Some(IndexCheck { missing, unknown }))
}

fn remove(path: &Path) -> std::io::Result<()> {
    let removed =
        if path.is_dir() { fs_err::remove_dir_all(path) } else { fs_err::remove_file(path) };
    match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl Engine {
    /// Opens a store, or makes one, and repairs its index from the catalog.
    ///
    /// With an embedder, a store that had no vectors gets them. Without one, a new store searches by words only, and a store
    /// with vectors can be shrunk, not searched or added to.
    ///
    /// # Errors
    /// The store is held by another process, was made with another model or language, or its catalog does not open.
    pub async fn open(
        dir: &Path,
        config: Config,
        embedder: Option<Arc<dyn Embedder>>,
        progress: OnProgress<'_>,
    ) -> Result<Engine, EngineError> {
        let layout = Layout::new(dir);
        let store_lock = lock(&layout)?;
        let lexical = LexicalEncoder::new(
            &config.settings().lexical.language,
            config.settings().leaf.target as u32,
        )?;
        let catalog = SqliteCatalog::open(&layout.catalog())?;
        let counter = counter(&config.settings().leaf.tokenizer)?;
        name_store(&catalog, &layout).await?;
        let agreed = agree(&catalog, &config, embedder.as_deref()).await?;
        let (index, mut warnings) = open_index(&catalog, &layout, agreed).await?;
        let stored = inspect::leaf_settings(&catalog.describe().await?).tokenizer;
        if stored != config.settings().leaf.tokenizer {
            warnings.push(format!(
                "budgets are in tokens of `{stored}`, which this store was indexed with: `umbel index` counts it anew"
            ));
        }
        let documents = Mutex::new(LruCache::new(DOCUMENTS_KEPT));
        let engine = Engine {
            config,
            catalog: Box::new(catalog),
            index: Box::new(index),
            embedder,
            reranker: None,
            generator: None,
            lexical,
            counter,
            layout,
            documents,
            warnings,
            embedded_on_opening: AtomicUsize::new(0),
            _lock: store_lock,
        };
        if agreed.gained_vectors {
            engine.build_again(progress).await?;
            engine.catalog.set(&[(CUT_FOR_MODEL, "")]).await?;
        }
        let applied = engine.apply_pending(progress).await?;
        if applied.interrupted {
            return Err(EngineError::Interrupted);
        }
        engine.embedded_on_opening.store(applied.embedded, Ordering::Relaxed);
        Ok(engine)
    }

    /// The same engine with a reranker, which searches use from now on.
    #[must_use]
    pub fn with_reranker(mut self, reranker: Arc<dyn Reranker>) -> Engine {
        self.reranker = Some(reranker);
        self
    }

    /// The same engine, whose searches say that there is no reranker, and why.
    #[must_use]
    pub fn without_reranker(mut self, error: &RerankError) -> Engine {
        self.warnings.push(format!("the order is that of fusion: {}", wire::with_causes(error)));
        self
    }

    /// The same engine with a generator, which answers questions from now on.
    #[must_use]
    pub fn with_generator(mut self, generator: Arc<dyn Generator>) -> Engine {
        self.generator = Some(generator);
        self
    }

    /// The configuration it was opened with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What had to be repaired on opening, in words.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Documents by id as of a generation, kept in memory between searches.
    async fn documents(
        &self,
        ids: &[DocId],
        generation: u64,
    ) -> Result<BTreeMap<DocId, Arc<StoredDocument>>, EngineError> {
        let mut found = BTreeMap::new();
        let mut missing = Vec::new();
        {
            let mut kept = self.documents.lock().unwrap_or_else(PoisonError::into_inner);
            for &id in ids {
                match kept.get(&id).filter(|(kept_at, _)| *kept_at == generation) {
                    Some((_, document)) => {
                        found.insert(id, Arc::clone(document));
                    }
                    None => missing.push(id),
                }
            }
        }
        let loaded = self.catalog.load(&missing).await?;
        let mut kept = self.documents.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, document) in missing.into_iter().zip(loaded) {
            if let Some(document) = document.map(Arc::new) {
                kept.put(id, (generation, Arc::clone(&document)));
                found.insert(id, document);
            }
        }
        Ok(found)
    }
}

/// An embedder's limit, as leaf building asks for it.
struct ModelLimit<'a>(&'a dyn Embedder);

impl EmbedLimit for ModelLimit<'_> {
    fn max_tokens(&self) -> usize {
        self.0.describe().max_tokens
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.0.count_tokens(text)
    }
}
