//! Folders and files → committed documents → points in the index.
//!
//! Invariant: a batch of documents is in the catalog, or it is not; the index follows.

use super::{Engine, EngineError, ModelLimit, OnProgress, Progress};
use crate::catalog::{Change, DocumentEntry, NewDocument, Source};
use crate::read::{MAX_FILE_BYTES, ReadError, decode, document, format_of};
use ignore::WalkBuilder;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use umbel_core::document::Document;
use umbel_core::hit::{Ancestor, LeafRecord};
use umbel_core::id::{DocId, LeafId};
use umbel_core::leaf::EmbedLimit;
use umbel_core::offsets::TokenCounter as _;
use umbel_core::outline::Format;
use umbel_core::span::slice;

/// Documents that are committed together.
const DOCUMENTS_PER_COMMIT: usize = 100;
/// Bytes of text that are committed together, roughly.
const BYTES_PER_COMMIT: usize = 8 << 20;
/// Raised when the same file would give another tree, so that stores take it in again.
const READER_VERSION: u32 = 1;

/// Setting that holds how the leaves of the store were cut last.
pub(super) const LEAF_SETTINGS: &str = "leaf";

/// What is to be taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestRequest {
    /// A folder or file.
    pub path: PathBuf,
    /// The name of the source; the path as given if `None`.
    pub source: Option<String>,
}

/// A file that was not taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The file, relative to its source.
    pub path: String,
    /// Why.
    pub reason: String,
    /// Whether it was meant to be read: a broken file, not another format.
    pub broken: bool,
}

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
}

/// A file that was found.
struct Found {
    path: String,
    file: PathBuf,
    format: Format,
}

/// What a walk through a source saw.
#[derive(Default)]
struct Walked {
    /// Files that are read.
    files: Vec<Found>,
    /// Files that are not.
    skipped: Vec<Skipped>,
    /// Paths below which nothing could be seen: what is known of them is kept.
    unseen: Vec<String>,
}

/// What a file came to.
enum Outcome {
    Unchanged,
    Read(Box<NewDocument>),
    Skipped(Skipped),
}

impl Engine {
    /// Takes in folders and files. Each is a source: of its own documents, those whose file is gone are removed.
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
        let mut sources: Vec<Source> = Vec::with_capacity(requests.len());
        for request in requests {
            let source = self.source(request, &sources).await?;
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        let leaf = serde_json::to_string(&self.config.settings().leaf)
            .expect("leaf settings are plain values");
        self.catalog.set(&[(LEAF_SETTINGS, &leaf)]).await?;
        for source in sources {
            progress(Progress::Scanning);
            let walked = self.walk(&source.root);
            report.skipped.extend(walked.skipped.iter().cloned());
            self.read(&source, &walked, &mut report, progress).await?;
        }
        report.embedded = self.embedded_on_opening.swap(0, Ordering::Relaxed)
            + self.apply_pending(progress).await?;
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

    /// The source that a path is: the one that has this root already, else a new one. `also` are those of the same call.
    async fn source(
        &self,
        request: &IngestRequest,
        also: &[Source],
    ) -> Result<Source, EngineError> {
        let path = request.path.clone();
        let root = fs_err::canonicalize(&request.path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => EngineError::MissingPath { path },
            _ => EngineError::UnreachablePath { path, source },
        })?;
        let mut known = self.catalog.sources().await?;
        known.extend(also.iter().cloned());
        let same_root = known.iter().find(|source| source.root == root);
        match (&request.source, same_root) {
            (Some(name), Some(source)) if source.name != *name => {
                return Err(EngineError::SourceKnown { name: source.name.clone(), root });
            }
            (Some(name), _) => return Ok(Source { name: name.clone(), root }),
            (None, Some(source)) => return Ok(source.clone()),
            (None, None) => {}
        }
        let typed = request.path.to_string_lossy();
        let name = match typed.trim_end_matches('/').trim_start_matches("./") {
            "" | "." => root
                .file_name()
                .map_or_else(|| "root".to_owned(), |name| name.to_string_lossy().into_owned()),
            typed => typed.to_owned(),
        };
        match known.into_iter().find(|source| source.name == name) {
            Some(taken) => Err(EngineError::SourceTaken { name, known: taken.root, given: root }),
            None => Ok(Source { name, root }),
        }
    }

    /// The files of a source, in order of their paths.
    fn walk(&self, root: &Path) -> Walked {
        let store =
            fs_err::canonicalize(&self.layout.dir).unwrap_or_else(|_| self.layout.dir.clone());
        let walker = WalkBuilder::new(root)
            .standard_filters(false)
            .hidden(true)
            .follow_links(true)
            .filter_entry(move |entry| !entry.path().starts_with(&store))
            .sort_by_file_path(Path::cmp)
            .build();
        let mut walked = Walked::default();
        let skip = |path: &Path, reason: String, broken: bool| Skipped {
            path: relative(root, path).unwrap_or_else(|| path.to_string_lossy().into_owned()),
            reason,
            broken,
        };
        for entry in walker {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    let path = error_path(&error).unwrap_or(root).to_owned();
                    walked.skipped.push(skip(&path, error.to_string(), true));
                    walked.unseen.push(relative(root, &path).unwrap_or_default());
                    continue;
                }
            };
            if entry.file_type().is_some_and(|kind| kind.is_dir()) {
                continue;
            }
            let (is_file, file) =
                (entry.file_type().is_some_and(|kind| kind.is_file()), entry.into_path());
            let Some(format) = format_of(&file) else {
                walked.skipped.push(skip(&file, "this format is not read".to_owned(), false));
                continue;
            };
            match relative(root, &file) {
                None => walked.skipped.push(skip(&file, "its name is not UTF-8".to_owned(), true)),
                Some(_) if !is_file => {
                    walked.skipped.push(skip(&file, "is not a regular file".to_owned(), true));
                }
                Some(path) => walked.files.push(Found { path, file, format }),
            }
        }
        walked
    }

    /// Reads the files of a source in batches and commits each; then removes what is gone.
    async fn read(
        &self,
        source: &Source,
        walked: &Walked,
        report: &mut IngestReport,
        progress: OnProgress<'_>,
    ) -> Result<(), EngineError> {
        let mut before: BTreeMap<String, DocumentEntry> = BTreeMap::new();
        for entry in self.catalog.list().await? {
            if entry.source == source.name {
                before.insert(entry.path.clone(), entry);
            }
        }
        let files = walked.files.as_slice();
        self.catalog.commit(Change { sources: vec![source.clone()], ..Change::default() }).await?;
        let settings = self.reading_settings();
        let mut done = 0;
        for batch in batches(files) {
            progress(Progress::Reading(done, files.len()));
            let mut change = Change::default();
            for (file, outcome) in
                batch.iter().zip(self.read_batch(source, batch, &before, &settings))
            {
                let known = before.contains_key(&file.path);
                match outcome {
                    Outcome::Unchanged => report.unchanged += 1,
                    Outcome::Skipped(skipped) => {
                        // A file that cannot be read now is kept as it was: it is not gone.
                        report.skipped.push(skipped);
                    }
                    Outcome::Read(document) => {
                        report.added += usize::from(!known);
                        report.updated += usize::from(known);
                        let odd = document.document.warnings.iter().cloned();
                        report.warnings.extend(odd.map(|warning| (file.path.clone(), warning)));
                        change.put.push(*document);
                    }
                }
            }
            if !change.put.is_empty() {
                self.catalog.commit(change).await?;
            }
            done += batch.len();
        }
        progress(Progress::Reading(done, files.len()));
        for file in files {
            before.remove(&file.path);
        }
        let unseen = |path: &str| {
            walked.unseen.iter().any(|dir| {
                dir.is_empty()
                    || path
                        .strip_prefix(dir.as_str())
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        let remove: Vec<_> =
            before.values().filter(|entry| !unseen(&entry.path)).map(|entry| entry.id).collect();
        report.removed += remove.len();
        if !remove.is_empty() {
            self.catalog.commit(Change { remove, ..Change::default() }).await?;
        }
        Ok(())
    }

    /// Reads the files of a batch on all cores, in their order.
    fn read_batch(
        &self,
        source: &Source,
        batch: &[Found],
        before: &BTreeMap<String, DocumentEntry>,
        settings: &str,
    ) -> Vec<Outcome> {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let share = batch.len().div_ceil(workers).max(1);
        std::thread::scope(|scope| {
            let read = |files: &[Found]| -> Vec<Outcome> {
                files
                    .iter()
                    .map(|file| self.read_file(source, file, before.get(&file.path), settings))
                    .collect()
            };
            let handles: Vec<_> =
                batch.chunks(share).map(|files| scope.spawn(move || read(files))).collect();
            let results = handles
                .into_iter()
                .map(|handle| handle.join().expect("reading a file does not panic"));
            results.flatten().collect()
        })
    }

    fn read_file(
        &self,
        source: &Source,
        file: &Found,
        before: Option<&DocumentEntry>,
        settings: &str,
    ) -> Outcome {
        let skipped = |reason: String| {
            Outcome::Skipped(Skipped { path: file.path.clone(), reason, broken: true })
        };
        match fs_err::metadata(&file.file) {
            Ok(meta) if meta.len() > MAX_FILE_BYTES as u64 => {
                let error = ReadError::TooLarge {
                    size_bytes: meta.len() as usize,
                    limit_bytes: MAX_FILE_BYTES,
                };
                return skipped(error.to_string());
            }
            _ => {}
        }
        let bytes = match std::fs::File::open(&file.file).and_then(|mut opened| {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut opened, &mut bytes).map(|_| bytes)
        }) {
            Ok(bytes) => bytes,
            Err(error) => return skipped(format!("cannot be read: {error}")),
        };
        let fingerprint = fingerprint(&bytes, settings);
        if before.is_some_and(|entry| entry.fingerprint == fingerprint) {
            return Outcome::Unchanged;
        }
        match decode(bytes) {
            Ok(text) => Outcome::Read(Box::new(self.new_document(
                &source.name,
                &file.path,
                file.format,
                text,
                fingerprint,
            ))),
            Err(error) => skipped(error.to_string()),
        }
    }

    fn new_document(
        &self,
        source: &str,
        path: &str,
        format: Format,
        text: String,
        fingerprint: [u8; 32],
    ) -> NewDocument {
        let name = Path::new(path)
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
            .unwrap_or_default();
        let limit = self.embedder.as_deref().map(ModelLimit);
        let limit = limit.as_ref().map(|limit| limit as &dyn EmbedLimit);
        let document = document(text, &name, format, &self.config, &self.counter, limit);
        let leaf_ids = leaf_ids(source, path, &document);
        NewDocument {
            source: source.to_owned(),
            path: path.to_owned(),
            fingerprint,
            document,
            leaf_ids,
        }
    }

    /// Builds every document anew from its stored text, which for these formats is the file's bytes.
    pub(super) async fn read_again(&self, progress: OnProgress<'_>) -> Result<(), EngineError> {
        let entries = self.catalog.list().await?;
        let settings = self.reading_settings();
        for (at, some) in entries.chunks(DOCUMENTS_PER_COMMIT).enumerate() {
            progress(Progress::Reading(at * DOCUMENTS_PER_COMMIT, entries.len()));
            let ids: Vec<_> = some.iter().map(|entry| entry.id).collect();
            let mut change = Change::default();
            for stored in self.catalog.load(&ids).await?.into_iter().flatten() {
                let DocumentEntry { source, path, .. } = &stored.entry;
                let Some(format) = format_of(Path::new(path)) else { continue };
                let text = stored.document.text;
                let fingerprint = fingerprint(text.as_bytes(), &settings);
                change.put.push(self.new_document(source, path, format, text, fingerprint));
            }
            self.catalog.commit(change).await?;
        }
        Ok(())
    }

    /// Everything besides a file's bytes that its tree depends on.
    fn reading_settings(&self) -> String {
        let model = self
            .embedder
            .as_ref()
            .map(|embedder| embedder.describe().model.as_str())
            .unwrap_or_default();
        format!(
            "{READER_VERSION} {} {model} {:?}",
            self.counter.name(),
            self.config.settings().leaf
        )
    }
}

/// The id of each leaf: leaves of one document with the same text are told apart by how many came before.
pub fn leaf_ids(source: &str, path: &str, document: &Document) -> Vec<LeafId> {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let texts = document.tree.leaves.iter().map(|leaf| slice(&document.text, leaf.span));
    texts
        .map(|text| {
            let occurrence = seen.entry(text).and_modify(|n| *n += 1).or_default();
            LeafId::of(source, path, text, *occurrence)
        })
        .collect()
}

/// A path below a source's root, with `/` between the parts; the file's name where the file is the source itself. `None` for
/// one that is not UTF-8.
fn relative(root: &Path, path: &Path) -> Option<String> {
    let inside = path.strip_prefix(root).unwrap_or(path);
    if inside.as_os_str().is_empty() {
        return if path.is_dir() {
            Some(String::new())
        } else {
            path.file_name()?.to_str().map(str::to_owned)
        };
    }
    let parts: Option<Vec<&str>> =
        inside.components().map(|part| part.as_os_str().to_str()).collect();
    parts.map(|parts| parts.join("/"))
}

/// The path that a walk failed at.
fn error_path(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => {
            error_path(err)
        }
        ignore::Error::Loop { child, .. } => Some(child),
        _ => None,
    }
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

fn fingerprint(bytes: &[u8], settings: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(settings.len() as u64).to_le_bytes());
    hasher.update(settings.as_bytes());
    hasher.update(bytes);
    *hasher.finalize().as_bytes()
}

/// Runs of files that are committed together.
fn batches(files: &[Found]) -> Vec<&[Found]> {
    let mut batches = Vec::new();
    let mut rest = files;
    while !rest.is_empty() {
        let mut bytes = 0;
        let full = rest.iter().take(DOCUMENTS_PER_COMMIT).take_while(|found| {
            let fits = bytes < BYTES_PER_COMMIT;
            bytes += fs_err::metadata(&found.file).map_or(0, |meta| meta.len() as usize);
            fits
        });
        let (batch, behind) = rest.split_at(full.count().max(1));
        batches.push(batch);
        rest = behind;
    }
    batches
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
