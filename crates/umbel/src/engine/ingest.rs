//! Folders and files → committed documents → points in the index.
//!
//! Invariant: a batch of documents is in the catalog, or it is not; the index follows.

pub use super::reader::leaf_ids;
use super::reader::{Builder, Outcome, Reader};
use super::source::{Found, Walked, identify, walk};
pub use super::source::{IngestRequest, Skipped};
use super::{Engine, EngineError, OnProgress, Progress, texts_to_embed};
use crate::catalog::sqlite::SqliteCatalog;
use crate::catalog::{Catalog, CatalogError, Change, DocumentEntry, NewDocument, Source};
use crate::config::Config;
use crate::embed::Embedder;
use crate::read::dates::CommitDates;
use crate::read::rules::Rules;
use crate::store::Layout;
use crate::tokens::counter;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::Ordering;
use umbel_core::document::Document;
use umbel_core::hit::{Ancestor, LeafRecord};
use umbel_core::id::{DocId, LeafId};

/// Documents that are committed together.
const DOCUMENTS_PER_COMMIT: usize = 100;
/// Bytes of files that are committed together, roughly.
const BYTES_PER_COMMIT: u64 = 8 << 20;

/// Setting that holds how the leaves of the store were cut last.
pub(super) const LEAF_SETTINGS: &str = "leaf";

/// What ingestion did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IngestReport {
    /// Documents of the store, afterwards.
    pub documents: usize,
    /// Files that were as before.
    pub unchanged: usize,
    /// Files that were new.
    pub added: usize,
    /// Files that had changed.
    pub updated: usize,
    /// Documents whose file is gone.
    pub removed: usize,
    /// Leaves of the store, afterwards.
    pub leaves: usize,
    /// Texts that were embedded; cached ones are not counted.
    pub embedded: usize,
    /// Files that were not taken in.
    pub skipped: Vec<Skipped>,
    /// What was odd about documents, as document and warning.
    pub warnings: Vec<(String, String)>,
    /// Whether it was stopped before its end. What it had done is kept.
    pub interrupted: bool,
}

/// What ingestion would do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Documents that would be added, as their paths.
    pub added: Vec<String>,
    /// Documents that would be replaced.
    pub updated: Vec<String>,
    /// Documents that would be removed.
    pub removed: Vec<String>,
    /// Files that are as before.
    pub unchanged: usize,
    /// Leaves of the documents that would be added or replaced.
    pub leaves: usize,
    /// Texts that would be embedded; cached ones are not counted.
    pub embedded: usize,
    /// Files that would not be taken in.
    pub skipped: Vec<Skipped>,
    /// What is odd about documents, as document and warning.
    pub warnings: Vec<(String, String)>,
}

/// Says what [`Engine::ingest`] would do, and changes nothing: there need not be a store yet, another process may hold it, and
/// one of an older format is read from a copy.
///
/// # Errors
/// As [`Engine::ingest`].
pub async fn plan(
    dir: &Path,
    config: &Config,
    embedder: Option<&dyn Embedder>,
    requests: &[IngestRequest],
    progress: OnProgress<'_>,
) -> Result<Plan, EngineError> {
    let layout = Layout::new(dir);
    let catalog =
        if layout.exists() { untouched_catalog(&layout)? } else { SqliteCatalog::in_memory()? };
    let counter = counter(&config.settings().leaf.tokenizer)?;
    let builder = Builder { config, counter: counter.as_ref(), embedder };
    let mut plan = Plan::default();
    let mut to_embed: BTreeSet<[u8; 32]> = BTreeSet::new();
    for source in sources(&catalog, requests).await? {
        let Some(walked) = look(&source, dir, config, progress) else { break };
        let before = entries_of(&catalog, &source.name).await?;
        let reader = reader(builder, &source, &walked, &before)?;
        plan.skipped.extend(walked.skipped.iter().cloned());
        let mut done = 0;
        for batch in batches(&walked.files) {
            if progress(Progress::Reading(done, walked.files.len())).is_break() {
                break;
            }
            for (file, outcome) in batch.iter().zip(reader.read(batch)) {
                match outcome {
                    Outcome::Unchanged => plan.unchanged += 1,
                    Outcome::Skipped(skipped) => plan.skipped.push(skipped),
                    Outcome::Read(new) => {
                        let known = before.contains_key(&file.path);
                        let list = if known { &mut plan.updated } else { &mut plan.added };
                        list.push(file.path.clone());
                        plan.leaves += new.leaf_ids.len();
                        plan.warnings.extend(warnings(&new));
                        to_embed.extend(texts_to_embed(&new.document).map(|text| hash(&text)));
                    }
                }
            }
            done += batch.len();
        }
        plan.removed.extend(vanished(&before, &walked).map(|entry| entry.path.clone()));
    }
    if let Some(embedder) = embedder {
        let hashes: Vec<[u8; 32]> = to_embed.into_iter().collect();
        let cached = catalog.cached(&embedder.describe().model, &hashes).await?;
        plan.embedded = cached.iter().filter(|vector| vector.is_none()).count();
    }
    Ok(plan)
}

/// The catalog of a store, for reading; where it has an older format, a copy that is brought up to date.
fn untouched_catalog(layout: &Layout) -> Result<SqliteCatalog, CatalogError> {
    match SqliteCatalog::open_read_only(&layout.catalog()) {
        Err(CatalogError::Outdated { .. }) => SqliteCatalog::open_copy(&layout.catalog()),
        other => other,
    }
}

impl Engine {
    /// Takes in folders and files. Each is a source: of its own documents, those whose file is gone are removed.
    ///
    /// Where `progress` asks to stop, what was read so far is committed and the report says so; the next opening goes on.
    ///
    /// # Errors
    /// A path that does not exist (checked for all of them first), a source name that is taken, or a store that fails; what
    /// was committed before stays.
    pub async fn ingest(
        &self,
        requests: &[IngestRequest],
        progress: OnProgress<'_>,
    ) -> Result<IngestReport, EngineError> {
        if !self.can_embed().await? {
            let info = self.catalog.describe().await?;
            let model = info.settings.get("model").cloned().unwrap_or_default();
            return Err(EngineError::NoModel { model });
        }
        let mut report = IngestReport::default();
        let sources = sources(&*self.catalog, requests).await?;
        let leaf = serde_json::to_string(&self.config.settings().leaf)
            .expect("leaf settings are plain values");
        self.catalog.set(&[(LEAF_SETTINGS, &leaf)]).await?;
        for source in sources {
            let Some(walked) = look(&source, &self.layout.dir, &self.config, progress) else {
                report.interrupted = true;
                break;
            };
            report.skipped.extend(walked.skipped.iter().cloned());
            self.read(&source, &walked, &mut report, progress).await?;
        }
        report.embedded = self.embedded_on_opening.swap(0, Ordering::Relaxed);
        if !report.interrupted {
            let applied = self.apply_pending(progress).await?;
            report.embedded += applied.embedded;
            report.interrupted = applied.interrupted;
        }
        let info = self.catalog.describe().await?;
        report.documents = info.documents;
        report.leaves = info.leaves;
        Ok(report)
    }

    /// Removes a source or a document by its name, and returns how many documents went.
    ///
    /// # Errors
    /// [`EngineError::Unknown`], with names that look like it.
    pub async fn remove(&self, name: &str, progress: OnProgress<'_>) -> Result<usize, EngineError> {
        let entries = self.catalog.list().await?;
        let wanted = name.trim_end_matches('/');
        let source = self.catalog.sources().await?.into_iter().find(|source| source.name == wanted);
        let belongs = |entry: &&DocumentEntry| match &source {
            Some(source) => entry.source == source.name,
            None => entry.name == name,
        };
        let remove: Vec<_> = entries.iter().filter(belongs).map(|entry| entry.id).collect();
        if remove.is_empty() && source.is_none() {
            let names = entries.iter().map(|entry| entry.name.as_str());
            return Err(EngineError::Unknown {
                name: name.to_owned(),
                similar: similar(name, names),
            });
        }
        let count = remove.len();
        let remove_sources = source.into_iter().map(|source| source.name).collect();
        self.catalog.commit(Change { remove, remove_sources, ..Change::default() }).await?;
        self.apply_pending(progress).await?;
        Ok(count)
    }

    /// Reads the files of a source in batches and commits each; then removes what is gone.
    async fn read(
        &self,
        source: &Source,
        walked: &Walked,
        report: &mut IngestReport,
        progress: OnProgress<'_>,
    ) -> Result<(), EngineError> {
        let before = entries_of(&*self.catalog, &source.name).await?;
        let reader = reader(self.builder(), source, walked, &before)?;
        if !self.catalog.sources().await?.contains(source) {
            let sources = vec![source.clone()];
            self.catalog.commit(Change { sources, ..Change::default() }).await?;
        }
        let mut done = 0;
        for batch in batches(&walked.files) {
            if progress(Progress::Reading(done, walked.files.len())).is_break() {
                report.interrupted = true;
                return Ok(());
            }
            let mut put = Vec::new();
            for (file, outcome) in batch.iter().zip(reader.read(batch)) {
                match outcome {
                    Outcome::Unchanged => report.unchanged += 1,
                    // A file that cannot be read now is kept as it was: it is not gone.
                    Outcome::Skipped(skipped) => report.skipped.push(skipped),
                    Outcome::Read(new) => {
                        let known = before.contains_key(&file.path);
                        report.added += usize::from(!known);
                        report.updated += usize::from(known);
                        report.warnings.extend(warnings(&new));
                        put.push(*new);
                    }
                }
            }
            self.catalog.commit(Change { put, ..Change::default() }).await?;
            done += batch.len();
        }
        let remove: Vec<_> = vanished(&before, walked).map(|entry| entry.id).collect();
        report.removed += remove.len();
        self.catalog.commit(Change { remove, ..Change::default() }).await?;
        Ok(())
    }

    /// Builds every document anew from its stored text.
    pub(super) async fn build_again(&self, progress: OnProgress<'_>) -> Result<(), EngineError> {
        let entries = self.catalog.list().await?;
        let ids: Vec<DocId> = entries.iter().map(|entry| entry.id).collect();
        for (at, some) in ids.chunks(DOCUMENTS_PER_COMMIT).enumerate() {
            if progress(Progress::Reading(at * DOCUMENTS_PER_COMMIT, ids.len())).is_break() {
                return Err(EngineError::Interrupted);
            }
            let stored = self.catalog.load(some).await?.into_iter().flatten();
            let put = stored.map(|stored| self.builder().again(stored)).collect();
            self.catalog.commit(Change { put, ..Change::default() }).await?;
        }
        Ok(())
    }

    fn builder(&self) -> Builder<'_> {
        Builder {
            config: &self.config,
            counter: self.counter.as_ref(),
            embedder: self.embedder.as_deref(),
        }
    }
}

/// The sources that are asked for, each once.
async fn sources(
    catalog: &dyn Catalog,
    requests: &[IngestRequest],
) -> Result<Vec<Source>, EngineError> {
    let mut known = catalog.sources().await?;
    let mut sources: Vec<Source> = Vec::with_capacity(requests.len());
    for request in requests {
        let source = identify(request, &known)?;
        if sources.iter().all(|other| other.name != source.name) {
            known.retain(|other| other.name != source.name);
            known.push(source.clone());
            sources.push(source);
        }
    }
    Ok(sources)
}

/// Walks through a source; `None` where that was stopped.
fn look(
    source: &Source,
    store: &Path,
    config: &Config,
    progress: OnProgress<'_>,
) -> Option<Walked> {
    let go_on = progress(Progress::Scanning).is_continue();
    go_on.then(|| walk(&source.root, store, &config.settings().read))
}

async fn entries_of(
    catalog: &dyn Catalog,
    source: &str,
) -> Result<BTreeMap<String, DocumentEntry>, EngineError> {
    let entries = catalog.list().await?.into_iter().filter(|entry| entry.source == source);
    Ok(entries.map(|entry| (entry.path.clone(), entry)).collect())
}

fn reader<'a>(
    builder: Builder<'a>,
    source: &'a Source,
    walked: &Walked,
    before: &'a BTreeMap<String, DocumentEntry>,
) -> Result<Reader<'a>, EngineError> {
    let rules = Rules::parse(&source.rules)?;
    let dates = if builder.config.settings().read.git_dates {
        CommitDates::of(&source.root, walked.files.iter().map(|file| file.path.as_str()))
    } else {
        CommitDates::default()
    };
    Ok(Reader { builder, source: &source.name, rules, dates, before })
}

/// Documents whose file is gone.
fn vanished<'a>(
    before: &'a BTreeMap<String, DocumentEntry>,
    walked: &'a Walked,
) -> impl Iterator<Item = &'a DocumentEntry> {
    let there: BTreeSet<&str> = walked.files.iter().map(|file| file.path.as_str()).collect();
    before
        .values()
        .filter(move |entry| !there.contains(entry.path.as_str()) && !walked.may_hide(&entry.path))
}

fn warnings(new: &NewDocument) -> impl Iterator<Item = (String, String)> {
    new.document.warnings.iter().map(|warning| (new.path.clone(), warning.clone()))
}

/// The name of a text in the embedding cache.
pub(super) fn hash(text: &str) -> [u8; 32] {
    *blake3::hash(text.as_bytes()).as_bytes()
}

/// What the index stores of a document's leaves, in order; each is its own cluster.
pub fn leaf_records(
    doc: DocId,
    document: &Document,
    leaf_ids: &[LeafId],
) -> impl Iterator<Item = LeafRecord> {
    let tree = &document.tree;
    let ancestor =
        |node| Ancestor { node, children: tree.node(node).map_or(0, |n| n.children.len() as u32) };
    tree.leaves.iter().zip(leaf_ids).enumerate().map(move |(ordinal, (leaf, &id))| LeafRecord {
        leaf: id,
        doc,
        span: leaf.span,
        ordinal: ordinal as u32,
        tokens: leaf.tokens,
        node: leaf.node,
        ancestors: tree.ancestors(leaf.node).map(ancestor).collect(),
        cluster: id.into(),
    })
}

/// Runs of files that are committed together.
fn batches(files: &[Found]) -> impl Iterator<Item = &[Found]> {
    let mut bytes = 0;
    let mut count = 0;
    files.chunk_by(move |file, _| {
        bytes += file.size_bytes;
        count += 1;
        let full = bytes >= BYTES_PER_COMMIT || count == DOCUMENTS_PER_COMMIT;
        if full {
            (bytes, count) = (0, 0);
        }
        !full
    })
}

/// Names that share most of their letters with what was typed, the nearest first.
pub(super) fn similar<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let tail = |text: &str| text.rsplit('/').next().unwrap_or_default().to_lowercase();
    let wanted = tail(name);
    let mut found: Vec<(usize, String)> = names
        .filter_map(|other| {
            let candidate = tail(other);
            let near = candidate.contains(&wanted) || wanted.contains(&candidate);
            let common = wanted.chars().zip(candidate.chars()).take_while(|(a, b)| a == b).count();
            (near || common >= 4).then(|| (usize::MAX - common, other.to_owned()))
        })
        .collect();
    found.sort();
    found.into_iter().take(3).map(|(_, name)| name).collect()
}
