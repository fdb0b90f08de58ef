//! The engine: documents in, context out.
//!
//! Invariant: the catalog is committed before the index, and the index is repaired from the catalog on opening.

mod source;
mod reader;
pub mod ingest;
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
mod search;
pub mod policies;
mod ask;

use crate::catalog::sqlite::SqliteCatalog;
use crate::catalog::{
    Catalog, CatalogError, CatalogInfo, DocumentEntry, Pending, RunId, StoredDocument,
};
use crate::config::Config;
use crate::embed::{EmbedError, Embedder};
use crate::filter::FilterError;
use crate::generate::Generator;
use crate::index::edge::{EdgeIndex, EdgeOptions};
use crate::index::lexical::{LexicalEncoder, LexicalError};
use crate::index::{Facets, Index, IndexError, Kept, Point};
use crate::metadata::Metadata;
use crate::read::rules::RulesError;
use crate::rerank::{RerankError, Reranker};
use crate::store::{Layout, StoreError, StoreLock, lock};
use crate::tokens::{TokensError, counter};
pub use cursor::CursorError;
use ingest::{hash, leaf_records};
use lru::LruCache;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use umbel_core::document::Document;
use umbel_core::hit::LeafRecord;
use umbel_core::id::{DocId, LeafId};
use umbel_core::leaf::{EmbedLimit, embedded_text};
use umbel_core::offsets::TokenCounter;

/// Documents that are applied to the index between two flushes.
const DOCUMENTS_PER_FLUSH: usize = 200;
/// Leaves that are deleted, or given another cluster, between two flushes where no document waits.
const LEAVES_PER_FLUSH: usize = 10_000;
/// Leaves that are handed to the index at once, or those of one large document: a call has its costs, whatever it brings.
const LEAVES_PER_UPSERT: usize = 1000;
/// Texts that are embedded between two steps of the progress.
const TEXTS_PER_STEP: usize = 64;
/// The index is optimized when at least one in so many of its leaves changed.
const OPTIMIZE_SHARE: usize = 10;
/// Documents that are kept in memory between searches.
const DOCUMENTS_KEPT: NonZeroUsize = NonZeroUsize::new(512).expect("512 is not 0");

/// Setting that is `no` from when a store is given a model until its documents are cut to fit it.
const CUT_FOR_MODEL: &str = "cut_for_model";

/// Setting that holds the tokens that the model takes, counted by itself.
const MODEL_LIMIT: &str = "model_max_tokens";

/// Setting that tells a store from every other.
const STORE_ID: &str = "store_id";

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

    /// Brings the index up to the catalog: upserts and deletes what is marked, flushes, then settles. Where it is asked to
    /// stop, it settles what it has done.
    async fn apply_pending(&self, progress: OnProgress<'_>) -> Result<Applied, EngineError> {
        let mut applied = Applied::default();
        let mut changed = 0;
        let mut steps = Steps { done: 0, total: self.pending_leaves().await?, progress };
        while !applied.interrupted {
            let mut pending = self.catalog.pending(DOCUMENTS_PER_FLUSH).await?;
            if pending.documents.is_empty() {
                pending = self.catalog.pending(LEAVES_PER_FLUSH).await?;
            }
            if !self.can_embed().await? {
                // Without the model, what is gone is still taken out; the rest waits.
                pending.documents.clear();
            }
            if pending == Pending::default() {
                break;
            }
            let Pending { deletes, clusters, documents } = pending;
            let mut done = Pending { documents: Vec::new(), deletes, clusters };
            let mut batch = Vec::new();
            for id in documents {
                // One at a time: a batch of large documents would hold all of their texts and offsets.
                for document in self.catalog.load(&[id]).await?.into_iter().flatten() {
                    let Some((points, fresh)) = self.points(&document, &mut steps).await? else {
                        applied.interrupted = true;
                        break;
                    };
                    applied.embedded += fresh;
                    changed += points.len();
                    batch.extend(points);
                }
                if applied.interrupted {
                    break;
                }
                done.documents.push(id);
                if batch.len() >= LEAVES_PER_UPSERT {
                    self.index.upsert(std::mem::take(&mut batch)).await?;
                }
            }
            self.index.upsert(batch).await?;
            changed += done.deletes.len() + done.clusters.len();
            self.index.delete(&done.deletes).await?;
            self.index.assign(&done.clusters).await?;
            self.index.flush().await?;
            self.catalog.settle(&done).await?;
        }
        // Optimizing rebuilds whole segments: a small edit does not pay for it.
        let worth = changed * OPTIMIZE_SHARE >= self.index.describe().await?.points.max(1);
        if worth && !applied.interrupted && progress(Progress::Optimizing).is_continue() {
            self.index.optimize().await?;
            self.index.flush().await?;
        }
        Ok(applied)
    }

    /// Whether leaves can be added: there is an embedder, or the store has no vectors.
    async fn can_embed(&self) -> Result<bool, EngineError> {
        Ok(self.embedder.is_some() || self.index.describe().await?.dimension.is_none())
    }

    async fn pending_leaves(&self) -> Result<usize, EngineError> {
        Ok(self
            .catalog
            .list()
            .await?
            .iter()
            .filter(|entry| !entry.indexed)
            .map(|entry| entry.leaves)
            .sum())
    }

    /// The points of a document's leaves, and how many vectors were not in the cache; `None` where it was stopped.
    async fn points(
        &self,
        stored: &StoredDocument,
        steps: &mut Steps<'_>,
    ) -> Result<Option<(Vec<Point>, usize)>, EngineError> {
        let document = &stored.document;
        let texts: Vec<String> = texts_to_embed(document).collect();
        let Some((vectors, fresh)) = self.vectors(&texts, steps).await? else { return Ok(None) };
        let mut vectors = vectors.into_iter();
        let facets = facets(&stored.entry);
        let records = clustered_records(&*self.catalog, stored).await?;
        let points = records.into_iter().zip(&texts).map(|(record, text)| Point {
            record,
            facets: facets.clone(),
            dense: vectors.next(),
            lexical: self.lexical.passage(text),
        });
        Ok(Some((points.collect(), fresh)))
    }

    /// One vector a text, from the cache where it has it; none at all for a store without vectors. `None` where it was stopped.
    async fn vectors(
        &self,
        texts: &[String],
        steps: &mut Steps<'_>,
    ) -> Result<Option<(Vec<Vec<f32>>, usize)>, EngineError> {
        let Some(embedder) = &self.embedder else {
            return Ok(steps.take(texts.len()).is_continue().then_some((Vec::new(), 0)));
        };
        let model = &embedder.describe().model;
        let hashes: Vec<[u8; 32]> = texts.iter().map(|text| hash(text)).collect();
        let cached = self.catalog.cached(model, &hashes).await?;
        let mut known: BTreeMap<[u8; 32], Vec<f32>> = BTreeMap::new();
        let mut missing: BTreeMap<[u8; 32], &str> = BTreeMap::new();
        for ((hash, text), vector) in hashes.iter().zip(texts).zip(cached) {
            match vector {
                Some(vector) => {
                    known.insert(*hash, vector);
                }
                None => {
                    missing.insert(*hash, text);
                }
            }
        }
        let fresh = missing.len();
        if steps.take(texts.len() - fresh).is_break() {
            return Ok(None);
        }
        let missing: Vec<([u8; 32], &str)> = missing.into_iter().collect();
        for step in missing.chunks(TEXTS_PER_STEP) {
            let batch: Vec<&str> = step.iter().map(|&(_, text)| text).collect();
            let vectors = embedder.embed_passages(&batch).await?;
            let made: Vec<([u8; 32], Vec<f32>)> =
                step.iter().map(|&(hash, _)| hash).zip(vectors).collect();
            self.catalog.cache(model, &made).await?;
            known.extend(made);
            if steps.take(step.len()).is_break() {
                return Ok(None);
            }
        }
        Ok(Some((hashes.iter().filter_map(|hash| known.get(hash).cloned()).collect(), fresh)))
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

/// What bringing the index up to the catalog came to.
#[derive(Debug, Clone, Copy, Default)]
struct Applied {
    /// Texts that were embedded; cached ones are not counted.
    embedded: usize,
    /// Whether it was stopped before its end.
    interrupted: bool,
}

/// How far the leaves of a call are.
struct Steps<'a> {
    done: usize,
    total: usize,
    progress: OnProgress<'a>,
}

impl Steps<'_> {
    /// Counts leaves as done; whether to go on.
    fn take(&mut self, n_leaves: usize) -> ControlFlow<()> {
        self.done += n_leaves;
        (self.progress)(Progress::Indexing(self.done, self.total))
    }
}

/// The texts of a document that are embedded, and searched by words: one a leaf, in order.
fn texts_to_embed(document: &Document) -> impl Iterator<Item = String> {
    let Document { text, title, tree, .. } = document;
    tree.leaves.iter().map(|leaf| embedded_text(text, title, tree, leaf))
}

/// What the index stores of a document's leaves, in order, under the cluster run in effect.
async fn clustered_records(
    catalog: &dyn Catalog,
    stored: &StoredDocument,
) -> Result<Vec<LeafRecord>, CatalogError> {
    let clusters = catalog.clusters_of(&stored.leaf_ids).await?;
    let records = leaf_records(stored.entry.id, &stored.document, &stored.leaf_ids);
    Ok(records.zip(clusters).map(|(record, cluster)| LeafRecord { cluster, ..record }).collect())
}

/// What the index knows of a document.
fn facets(entry: &DocumentEntry) -> Facets {
    let Metadata { connector, language, labels, updated, .. } = &entry.metadata;
    let everyone = labels.is_empty().then(String::new);
    Facets {
        source: entry.source.clone(),
        connector: connector.clone().unwrap_or_default(),
        language: language.clone().unwrap_or_default(),
        labels: labels.iter().cloned().chain(everyone).collect(),
        updated_at: updated.map(|updated| updated.at),
    }
}

/// What store and caller agreed on.
#[derive(Debug, Clone, Copy)]
struct Agreed {
    /// Length of the vectors; `None` for a store without.
    dimension: Option<usize>,
    /// Whether the index is to be built anew.
    rebuild: bool,
    /// Whether there were documents, and no vectors: their leaves are to be cut again to fit the model.
    gained_vectors: bool,
}

/// Gives a store an id, unless it has one.
async fn name_store(catalog: &dyn Catalog, layout: &Layout) -> Result<(), EngineError> {
    if catalog.describe().await?.settings.contains_key(STORE_ID) {
        return Ok(());
    }
    let place = layout.dir.display();
    let once = format!("{} {} {place}", jiff::Timestamp::now(), std::process::id());
    let id: String = blake3::hash(once.as_bytes()).to_hex().chars().take(16).collect();
    Ok(catalog.set(&[(STORE_ID, &id)]).await?)
}

/// Compares what the store was made with to what the caller brings, and writes it down for a new one.
async fn agree(
    catalog: &dyn Catalog,
    config: &Config,
    embedder: Option<&dyn Embedder>,
) -> Result<Agreed, EngineError> {
    let info = catalog.describe().await?;
    let language = &config.settings().lexical.language;
    let setting = |key: &str| info.settings.get(key).map(String::as_str).unwrap_or_default();
    let is_new = !info.settings.contains_key("model");
    if !is_new && setting("language") != language {
        return Err(EngineError::Language {
            wanted: setting("language").to_owned(),
            got: language.clone(),
        });
    }
    let wanted = setting("model");
    let dimension = embedder.map(|embedder| embedder.describe().dimension);
    match embedder.map(|embedder| embedder.describe().model.as_str()) {
        Some(got) if !wanted.is_empty() && wanted != got => {
            Err(EngineError::Model { wanted: wanted.to_owned(), got: got.to_owned() })
        }
        Some(got) if wanted.is_empty() => {
            let dimension = dimension.unwrap_or_default();
            let cut = if info.documents > 0 { "no" } else { "" };
            let size = dimension.to_string();
            let limit = embedder.map_or(0, |embedder| embedder.describe().max_tokens).to_string();
            let settings = [
                ("model", got),
                ("dimension", &size),
                ("language", language),
                (MODEL_LIMIT, &limit),
                (CUT_FOR_MODEL, cut),
            ];
            catalog.set(&settings).await?;
            Ok(Agreed {
                dimension: Some(dimension),
                rebuild: true,
                gained_vectors: info.documents > 0,
            })
        }
        None if is_new => {
            catalog.set(&[("model", ""), ("dimension", ""), ("language", language)]).await?;
            Ok(Agreed { dimension: None, rebuild: true, gained_vectors: false })
        }
        got => Ok(Agreed {
            dimension: setting("dimension").parse().ok(),
            rebuild: false,
            gained_vectors: got.is_some() && setting(CUT_FOR_MODEL) == "no",
        }),
    }
}

/// Opens the index; builds it anew where it is damaged, or does not hold what the catalog says it does.
async fn open_index(
    catalog: &dyn Catalog,
    layout: &Layout,
    agreed: Agreed,
) -> Result<(EdgeIndex, Vec<String>), EngineError> {
    let mut warnings = Vec::new();
    let path = layout.index();
    let options = EdgeOptions { dimension: agreed.dimension };
    if !agreed.rebuild {
        match EdgeIndex::open(&path, &options) {
            Ok(index) => {
                let settled: usize =
                    catalog.list().await?.iter().filter(|e| e.indexed).map(|e| e.leaves).sum();
                if index.describe().await?.points >= settled {
                    return Ok((index, warnings));
                }
                warnings.push(
                    "the index had lost leaves and was built anew from the catalog".to_owned(),
                );
            }
            Err(IndexError::Corrupt { source, .. }) => {
                warnings.push(format!(
                    "the index was damaged and was built anew from the catalog: {source}"
                ));
            }
            // The store was given a model, and the process ended before the index was made for it.
            Err(IndexError::Dimension { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    remove(&path).map_err(|source| StoreError::Unusable { dir: layout.dir.clone(), source })?;
    catalog.unsettle().await?;
    Ok((EdgeIndex::open(&path, &options)?, warnings))
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

/// Why the engine did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The catalog.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The index.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The embedder.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// A question was to be answered, and there is no generator.
    #[error("no generator is configured")]
    NoGenerator,
    /// The template of the prompt lacks a place.
    #[error("the template has no `{missing}`")]
    Template {
        /// The place.
        missing: &'static str,
    },
    /// The tokenizer of the budget.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// The lexical leg.
    #[error(transparent)]
    Lexical(#[from] LexicalError),
    /// Metadata rules.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// Conditions of a search.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The page that is to follow another.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// The caller asked to stop.
    #[error("stopped; what was committed is kept")]
    Interrupted,
    /// Vectors of two models do not mix.
    #[error("the store holds vectors of `{wanted}`, got `{got}`")]
    Model {
        /// What the store was made with.
        wanted: String,
        /// What came.
        got: String,
    },
    /// Words of two languages do not mix.
    #[error("the store holds words stemmed as `{wanted}`, got `{got}`")]
    Language {
        /// What the store was made with.
        wanted: String,
        /// What came.
        got: String,
    },
    /// A store with vectors is searched, and no model was given.
    #[error("the store holds vectors of `{model}`, and no model is loaded")]
    NoModel {
        /// What the store was made with.
        model: String,
    },
    /// Vectors are to be compared, and the store has none.
    #[error("the store has no vectors to compare")]
    NoVectors,
    /// A cluster run that is not kept, or was reverted before.
    #[error("the store has no cluster run `{run}` that could be reverted")]
    UnknownRun {
        /// What was asked for.
        run: RunId,
        /// The runs that can be reverted, newest first.
        known: Vec<RunId>,
    },
    /// A cluster that is not there.
    #[error("the store has no cluster `{id}`")]
    UnknownCluster {
        /// What was asked for.
        id: String,
    },
    /// A path that is to be indexed does not exist.
    #[error("`{path}` does not exist")]
    MissingPath {
        /// The path.
        path: PathBuf,
    },
    /// A path that is to be indexed cannot be reached.
    #[error("`{path}` cannot be reached")]
    UnreachablePath {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A folder is indexed already, under another name.
    #[error("`{root}` is the source `{name}` already")]
    SourceKnown {
        /// The name.
        name: String,
        /// The folder.
        root: PathBuf,
    },
    /// A source's name is taken by another folder.
    #[error("the source `{name}` is `{known}`, got `{given}`")]
    SourceTaken {
        /// The name.
        name: String,
        /// The folder it stands for.
        known: PathBuf,
        /// The folder that came.
        given: PathBuf,
    },
    /// A name that is no source and no document.
    #[error("the store has no source and no document `{name}`")]
    Unknown {
        /// The name.
        name: String,
        /// Names that look like it.
        similar: Vec<String>,
    },
    /// A span that is not in its document.
    #[error(
        "`{name}` has no span {start}..{end}: its text has {len} bytes, and a span starts and ends between characters"
    )]
    NoSpan {
        /// The document.
        name: String,
        /// The span's start.
        start: usize,
        /// The span's end.
        end: usize,
        /// The bytes of the document.
        len: usize,
    },
}

impl EngineError {
    /// What to type, where there is something.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            EngineError::Store(StoreError::Missing { .. }) => "make one with `umbel index FOLDER`, or name it with `--store DIR`".to_owned(),
            EngineError::Store(StoreError::Held { pid, .. }) => {
                format!("wait for process {pid} or stop it; `umbel tree`, `stats` and `check` work beside it")
            }
            EngineError::Store(StoreError::Unusable { .. }) => "check the permissions and the space of the folder, or choose another with `--store DIR`".to_owned(),
            EngineError::Catalog(CatalogError::Version { .. }) => "use the version of umbel that wrote it, or start over with `umbel index --rebuild FOLDER`".to_owned(),
            EngineError::Catalog(CatalogError::Corrupt { .. }) => "start over with `umbel index --rebuild FOLDER`".to_owned(),
            EngineError::Catalog(CatalogError::Unwritable { .. }) => "check the permissions and the space of the folder; what was committed is safe".to_owned(),
            EngineError::Catalog(CatalogError::Outdated { .. }) => "copy the store to a folder that can be written, and open it there".to_owned(),
            EngineError::Filter(error) => error.hint(),
            EngineError::Cursor(error) => error.hint().to_owned(),
            EngineError::Embed(error) => return error.hint(),
            EngineError::Tokens(_) => "set `leaf.tokenizer` to one of these".to_owned(),
            EngineError::NoGenerator => "name one with `--set generate.url=http://localhost:11434 --set generate.model=NAME`, or look at the passages with `umbel search`".to_owned(),
            EngineError::Template { missing } => format!("write {missing} where it is to stand"),
            EngineError::Rules(_) => "correct the file given with `--meta`; `umbel index --help` shows one".to_owned(),
            EngineError::Interrupted => "run the same command again: it goes on from there".to_owned(),
            EngineError::Index(_) => "run the command again: the index is rebuilt from the catalog where it is damaged".to_owned(),
            EngineError::Lexical(_) => "set `lexical.language` to one of these".to_owned(),
            EngineError::Model { wanted, .. } => {
                let name = wanted.split('@').next().unwrap_or_default();
                format!("set `embed.model` to `{name}`, or embed everything again with `umbel index --rebuild FOLDER`")
            }
            EngineError::Language { wanted, .. } => format!("set `lexical.language` to `{wanted}`, or start over with `umbel index --rebuild FOLDER`"),
            EngineError::NoModel { .. } => "leave `--lexical` out: `umbel model pull` fetches the model".to_owned(),
            EngineError::NoVectors => "embed them with `umbel index FOLDER`, or compare words with `--near`".to_owned(),
            EngineError::UnknownRun { known, .. } if known.is_empty() => "look for duplicates with `umbel dupes run`".to_owned(),
            EngineError::UnknownRun { known, .. } => {
                let known: Vec<String> = known.iter().map(ToString::to_string).collect();
                format!("these can be reverted: `{}`", known.join("`, `"))
            }
            EngineError::UnknownCluster { .. } => "`umbel dupes show` lists the clusters".to_owned(),
            EngineError::UnreachablePath { .. } => "check the permissions of the folders above it".to_owned(),
            EngineError::SourceKnown { name, .. } => format!("leave `--source` out, or take it out first with `umbel remove {name}`"),
            EngineError::Store(StoreError::Foreign { .. }) => "give an empty or a new folder with `--store DIR`".to_owned(),
            EngineError::MissingPath { .. } => "give a folder or file that exists".to_owned(),
            EngineError::SourceTaken { name, .. } => format!("give the folder a name of its own with `--source NAME`, or say that it moved with `--source {name}`"),
            EngineError::Unknown { similar, .. } if !similar.is_empty() => format!("did you mean `{}`?", similar.join("`, `")),
            EngineError::Unknown { .. } => "`umbel stats` counts the documents, `umbel tree` lists them".to_owned(),
            EngineError::NoSpan { name, .. } => format!("`umbel tree {name}` lists spans"),
            _ => return None,
        })
    }
}
