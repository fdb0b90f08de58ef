//! Files of one source → documents to commit, on all cores.
//!
//! Invariant: what a file gives depends on its bytes, its path, its date and the settings alone.

use super::ModelLimit;
use super::source::{Found, Skipped};
use crate::catalog::{DocumentEntry, NewDocument, StoredDocument};
use crate::config::Config;
use crate::embed::Embedder;
use crate::formats::Converted;
use crate::formats::worker::Limits;
use crate::metadata::{DateSource, Metadata, Updated, Voices};
use crate::read::dates::{CommitDates, file_date};
use crate::read::rules::Rules;
use crate::read::{Draft, Kind, MAX_FILE_BYTES, ReadError, detect_language, document};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use umbel_core::document::{Anchor, Document};
use umbel_core::id::LeafId;
use umbel_core::leaf::EmbedLimit;
use umbel_core::offsets::TokenCounter;
use umbel_core::outline::Format;
use umbel_core::span::slice;

/// Raised when the same file would give another document, so that stores take it in again.
const READER_VERSION: u32 = 2;

/// What documents are built with, whatever their source.
#[derive(Clone, Copy)]
pub(super) struct Builder<'a> {
    pub(super) config: &'a Config,
    pub(super) counter: &'a dyn TokenCounter,
    pub(super) embedder: Option<&'a dyn Embedder>,
}

/// Reads the files of one source.
pub(super) struct Reader<'a> {
    pub(super) builder: Builder<'a>,
    pub(super) source: &'a str,
    pub(super) rules: Rules,
    pub(super) dates: CommitDates,
    /// What the store holds of this source, by path.
    pub(super) before: &'a BTreeMap<String, DocumentEntry>,
}

/// What a file came to.
pub(super) enum Outcome {
    Unchanged,
    Read(Box<NewDocument>),
    Skipped(Skipped),
}

impl Reader<'_> {
    /// Reads files, as many at once as there are cores; the outcomes are in their order.
    pub(super) fn read(&self, files: &[Found]) -> Vec<Outcome> {
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(files.len());
        let next = AtomicUsize::new(0);
        let outcomes: Mutex<Vec<(usize, Outcome)>> = Mutex::default();
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some((at, file)) = Some(next.fetch_add(1, Ordering::Relaxed))
                        .and_then(|at| Some((at, files.get(at)?)))
                    {
                        let outcome = self.read_file(file);
                        outcomes.lock().unwrap_or_else(PoisonError::into_inner).push((at, outcome));
                    }
                });
            }
        });
        let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcomes.sort_unstable_by_key(|(at, _)| *at);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn read_file(&self, file: &Found) -> Outcome {
        let skipped = |reason: String, hint: Option<&'static str>| {
            Outcome::Skipped(Skipped { path: file.path.clone(), reason, hint, broken: true })
        };
        if file.size_bytes > MAX_FILE_BYTES as u64 {
            let error = ReadError::TooLarge {
                size_bytes: file.size_bytes as usize,
                limit_bytes: MAX_FILE_BYTES,
            };
            return skipped(error.to_string(), error.hint());
        }
        let (bytes, modified) = match contents(&file.file) {
            Ok(contents) => contents,
            Err(error) => return skipped(format!("cannot be read: {error}"), None),
        };
        let changed = self.dates.get(&file.path, &bytes).or(modified);
        let rule = self.rules.stated(&file.path);
        let default = self.rules.default(&file.path);
        let fingerprint =
            fingerprint(&bytes, &format!("{} {rule:?} {default:?}", self.builder.settings()));
        if self
            .before
            .get(&file.path)
            .is_some_and(|entry| is_unchanged(entry, &fingerprint, changed))
        {
            return Outcome::Unchanged;
        }
        let draft = match Draft::read(file.kind, bytes, &limits(self.builder.config)) {
            Ok(draft) => draft,
            Err(error) => return skipped(error.to_string(), error.hint()),
        };
        let voices = Voices {
            rule,
            front_matter: draft.front_matter.clone(),
            format: draft.format_says.clone(),
            default,
            file: changed,
        };
        let (title, mut metadata) = voices.settle();
        metadata.language = metadata.language.or_else(|| detect_language(&draft));
        let document = self.builder.document(draft, title, &file.path);
        let leaf_ids = leaf_ids(self.source, &file.path, &document);
        Outcome::Read(Box::new(NewDocument {
            source: self.source.to_owned(),
            path: file.path.clone(),
            fingerprint,
            metadata,
            document,
            leaf_ids,
        }))
    }
}

impl Builder<'_> {
    fn document(&self, draft: Draft, title: Option<String>, path: &str) -> Document {
        let name = Path::new(path)
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
            .unwrap_or_default();
        let limit = self.embedder.map(ModelLimit);
        let limit = limit.as_ref().map(|limit| limit as &dyn EmbedLimit);
        document(draft, title, &name, self.config, self.counter, limit)
    }

    /// The document anew from its stored text: what is stored of a file is enough to cut it again.
    pub(super) fn again(&self, stored: StoredDocument) -> NewDocument {
        let StoredDocument { mut entry, document, .. } = stored;
        entry.title.clone_from(&document.title);
        self.anew(entry, document.text, document.anchors)
    }

    /// The document anew where nothing but its text can be read. The next run reads its file again.
    pub(super) fn of_text(&self, entry: DocumentEntry, text: String) -> NewDocument {
        NewDocument { fingerprint: [0; 32], ..self.anew(entry, text, Vec::new()) }
    }

    fn anew(&self, entry: DocumentEntry, text: String, anchors: Vec<Anchor>) -> NewDocument {
        let DocumentEntry { source, path, fingerprint, metadata, title, .. } = entry;
        let draft = match Kind::of(Path::new(&path)) {
            Some(Kind::Converted(_)) => {
                Draft::of_converted(Converted { text, anchors, ..Converted::default() })
            }
            Some(Kind::Text(format)) => Draft::of_text(text, format),
            None => Draft::of_text(text, Format::Markdown),
        };
        let document = self.document(draft, Some(title), &path);
        let leaf_ids = leaf_ids(&source, &path, &document);
        NewDocument { source, path, fingerprint, metadata, document, leaf_ids }
    }

    /// Everything besides a file's bytes and its rules that its tree depends on. The model is not in it: a store keeps its
    /// model, and one that gets its first has its documents built again then.
    fn settings(&self) -> String {
        format!("{READER_VERSION} {} {:?}", self.counter.name(), self.config.settings().leaf)
    }
}

/// How far a converter may go.
fn limits(config: &Config) -> Limits {
    let read = &config.settings().read;
    Limits {
        time: Duration::from_secs(read.timeout_seconds),
        memory_bytes: read.memory_mb << 20,
        output_bytes: read.output_mb << 20,
    }
}

/// Whether a file is as it was taken in. A date of its own counts only where no stronger one was used.
fn is_unchanged(entry: &DocumentEntry, fingerprint: &[u8; 32], changed: Option<Updated>) -> bool {
    let Metadata { updated, .. } = &entry.metadata;
    let dated = match updated {
        Some(Updated { from: DateSource::Git | DateSource::File, .. }) | None => {
            *updated == changed
        }
        Some(_) => true,
    };
    dated && entry.fingerprint == *fingerprint
}

fn contents(path: &Path) -> std::io::Result<(Vec<u8>, Option<Updated>)> {
    let mut file = std::fs::File::open(path)?;
    let metadata = file.metadata()?;
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    std::io::Read::read_to_end(&mut file, &mut bytes)?;
    Ok((bytes, file_date(&metadata)))
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

fn fingerprint(bytes: &[u8], settings: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(settings.len() as u64).to_le_bytes());
    hasher.update(settings.as_bytes());
    hasher.update(bytes);
    *hasher.finalize().as_bytes()
}
