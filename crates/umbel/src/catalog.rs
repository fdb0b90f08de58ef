//! Documents, their trees and offsets, clusters of duplicates and the embedding cache: the port, and the back ends behind it.
//!
//! Invariant: the catalog is the truth. The index is derived from it and repaired from it.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
#[cfg(feature = "sqlite")]
mod encode;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use crate::metadata::Metadata;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use umbel_core::document::Document;
use umbel_core::id::{ClusterId, DocId, LeafId};

/// Cluster runs that are kept, the reverted ones among them.
pub const KEPT_RUNS: usize = 10;

/// What a catalog says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogInfo {
    /// Rises with every change of the documents.
    pub generation: u64,
    /// Documents committed.
    pub documents: usize,
    /// Leaves of these documents.
    pub leaves: usize,
    /// Documents that are not marked as indexed, plus leaves that are still to be deleted from the index, or to be given
    /// another cluster there.
    pub pending: usize,
    /// The cluster run in effect: the newest one that was not reverted.
    pub cluster_run: Option<RunId>,
    /// The settings that the store was made with, by key.
    pub settings: BTreeMap<String, String>,
}

/// A source: a folder or file that was given to `index`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its name, unique in the store.
    pub name: String,
    /// Where it is, as an absolute path.
    pub root: PathBuf,
    /// The rules for the metadata of its documents that it was given with, as TOML; empty for none.
    pub rules: String,
}

/// A document as the catalog lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentEntry {
    /// Its id.
    pub id: DocId,
    /// The source it belongs to.
    pub source: String,
    /// Its path relative to the source, with `/` between the parts.
    pub path: String,
    /// `path`, or `source/path` where two sources of the store hold the same path: unique in the store.
    pub name: String,
    /// The title of its document.
    pub title: String,
    /// What else is known of it.
    pub metadata: Metadata,
    /// Hash of the file's bytes and of the settings it was taken in with.
    pub fingerprint: [u8; 32],
    /// How many leaves it has.
    pub leaves: usize,
    /// Whether its leaves are in the index.
    pub indexed: bool,
}

/// A document to commit; it replaces the one of the same source and path.
#[derive(Debug, Clone)]
pub struct NewDocument {
    /// The source it belongs to.
    pub source: String,
    /// Its path relative to the source.
    pub path: String,
    /// Hash of the file's bytes and of the settings it was taken in with.
    pub fingerprint: [u8; 32],
    /// What is known of it besides its text and title.
    pub metadata: Metadata,
    /// Title, text, tree and offsets.
    pub document: Document,
    /// The id of each leaf of the tree, in order.
    pub leaf_ids: Vec<LeafId>,
}

/// A document as it is stored.
#[derive(Debug, Clone)]
pub struct StoredDocument {
    /// How the catalog lists it.
    pub entry: DocumentEntry,
    /// Title, text, tree and offsets.
    pub document: Document,
    /// The id of each leaf of the tree, in order.
    pub leaf_ids: Vec<LeafId>,
}

/// What the index still lacks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pending {
    /// Documents whose leaves are to be upserted.
    pub documents: Vec<DocId>,
    /// Leaves to be deleted.
    pub deletes: Vec<LeafId>,
    /// Leaves to be given a cluster: that of the run in effect, or their own.
    pub clusters: Vec<(LeafId, ClusterId)>,
}

/// One atomic change of the documents.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// Sources to add, or whose root and rules to replace.
    pub sources: Vec<Source>,
    /// Documents to add or replace.
    pub put: Vec<NewDocument>,
    /// Documents to remove.
    pub remove: Vec<DocId>,
    /// Sources to remove; their documents must be removed in the same change.
    pub remove_sources: Vec<String>,
}

/// A cluster run of a store: counted from 1, printed as `r1`, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// A text that names no cluster run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the id of a cluster run, as `r1`")]
pub struct RunIdError(String);

impl FromStr for RunId {
    type Err = RunIdError;
    fn from_str(text: &str) -> Result<RunId, RunIdError> {
        let number = text.strip_prefix('r').and_then(|number| number.parse().ok());
        number.map(RunId).ok_or_else(|| RunIdError(text.to_owned()))
    }
}

/// A search for duplicates, and what it came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterRun {
    /// Its id.
    pub id: RunId,
    /// How duplicates were recognised, as JSON.
    pub method: String,
    /// When it ended: seconds since 1970 in UTC.
    pub at: i64,
    /// Leaves that were looked at.
    pub leaves: usize,
    /// Clusters that were found.
    pub clusters: usize,
    /// Leaves in them.
    pub members: usize,
    /// Whether it was reverted.
    pub reverted: bool,
}

/// Clusters that a run found, to be put into effect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewRun {
    /// How duplicates were recognised, as JSON.
    pub method: String,
    /// When it ended: seconds since 1970 in UTC.
    pub at: i64,
    /// Leaves that were looked at.
    pub leaves: usize,
    /// The members of each cluster: at least two leaves of documents that are there, no leaf in two clusters.
    pub clusters: Vec<(ClusterId, Vec<(LeafId, DocId)>)>,
}

/// A leaf of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The leaf.
    pub leaf: LeafId,
    /// Its document.
    pub document: DocumentEntry,
}

/// What is kept of a leaf to find its duplicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSketch {
    /// The leaf.
    pub leaf: LeafId,
    /// Its document.
    pub doc: DocId,
    /// What tells its words from others.
    pub words: [u8; 16],
    /// The sketch, as whoever made it reads it.
    pub sketch: Vec<u8>,
    /// Whether it was compared with all others.
    pub compared: bool,
}

/// Two wordings that were found to be similar, the smaller one first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoredPair {
    /// One.
    pub a: [u8; 16],
    /// The other.
    pub b: [u8; 16],
    /// How similar they are, 0 to 1.
    pub similarity: f32,
}

/// Keeps documents. Each call is atomic and durable when it returns.
#[async_trait::async_trait]
pub trait Catalog: Send + Sync {
    /// Counts, generation and settings.
    async fn describe(&self) -> Result<CatalogInfo, CatalogError>;

    /// Replaces the value of some settings.
    async fn set(&self, settings: &[(&str, &str)]) -> Result<(), CatalogError>;

    /// The sources, by name.
    async fn sources(&self) -> Result<Vec<Source>, CatalogError>;

    /// Commits a change in one transaction and returns the ids of the documents put, in order. New documents are not
    /// marked as indexed; leaf ids that no document has any more become pending deletes and leave their clusters, where a leaf
    /// that is left alone is its own cluster again; a leaf id that comes back is no longer a pending delete. The sketches of
    /// documents put or removed are forgotten. The generation rises by one unless the change is empty.
    async fn commit(&self, change: Change) -> Result<Vec<DocId>, CatalogError>;

    /// All documents, by source, then path.
    async fn list(&self) -> Result<Vec<DocumentEntry>, CatalogError>;

    /// These documents, in the order asked; `None` for one that is not there.
    async fn load(&self, docs: &[DocId]) -> Result<Vec<Option<StoredDocument>>, CatalogError>;

    /// These documents' texts, with how the catalog lists them, in the order asked; `None` for one that is not there. They
    /// can be read where the rest of a document is damaged.
    async fn texts(
        &self,
        docs: &[DocId],
    ) -> Result<Vec<Option<(DocumentEntry, String)>>, CatalogError>;

    /// What the index still lacks: at most `limit` documents, `limit` deletes and `limit` clusters of leaves.
    async fn pending(&self, limit: usize) -> Result<Pending, CatalogError>;

    /// Says that the index durably holds these documents and clusters of leaves, and no longer holds the deleted leaves.
    async fn settle(&self, done: &Pending) -> Result<(), CatalogError>;

    /// Marks every document as not indexed, for an index that is built anew.
    async fn unsettle(&self) -> Result<(), CatalogError>;

    /// The cached vectors of these texts (by their hash) under a model, in the order asked.
    async fn cached(
        &self,
        model: &str,
        texts: &[[u8; 32]],
    ) -> Result<Vec<Option<Vec<f32>>>, CatalogError>;

    /// Caches vectors.
    async fn cache(
        &self,
        model: &str,
        vectors: &[([u8; 32], Vec<f32>)],
    ) -> Result<(), CatalogError>;

    /// Forgets the cached vectors of every other model and, of this one, those of texts that are not in `keep`. Returns how
    /// many went.
    async fn prune(&self, model: &str, keep: &BTreeSet<[u8; 32]>) -> Result<usize, CatalogError>;

    /// Puts clusters into effect, and returns the run. Leaves whose cluster changes become pending. The newest
    /// [`KEPT_RUNS`] runs are kept.
    async fn mark(&self, run: NewRun) -> Result<ClusterRun, CatalogError>;

    /// Marks a run as reverted; whether it was there and had not been. The newest run that was not is in effect afterwards, and
    /// leaves whose cluster changes become pending.
    async fn revert(&self, run: RunId) -> Result<bool, CatalogError>;

    /// The runs that are kept, newest first.
    async fn runs(&self) -> Result<Vec<ClusterRun>, CatalogError>;

    /// The clusters of these leaves in the run in effect, in the order asked; of a leaf that is in none, its own.
    async fn clusters_of(&self, leaves: &[LeafId]) -> Result<Vec<ClusterId>, CatalogError>;

    /// The members of these clusters in the run in effect, each list by leaf, in the order asked; none of a cluster that is not
    /// there.
    async fn members(&self, clusters: &[ClusterId]) -> Result<Vec<Vec<Member>>, CatalogError>;

    /// The clusters of the run in effect with their members, by cluster, then leaf.
    async fn clusters(&self) -> Result<Vec<(ClusterId, LeafId, DocId)>, CatalogError>;

    /// Keeps sketches of leaves in place of those that they had. They are not compared, whatever they say.
    async fn sketch(&self, sketches: &[StoredSketch]) -> Result<(), CatalogError>;

    /// The sketches, by leaf, `compared` under this rule.
    async fn sketches(&self, rule: &str) -> Result<Vec<StoredSketch>, CatalogError>;

    /// Adds pairs that were found under a rule, and marks all sketches as compared. Pairs and marks of another rule are
    /// forgotten first, and pairs of words that no sketch has.
    async fn compared(&self, rule: &str, pairs: &[StoredPair]) -> Result<(), CatalogError>;

    /// The pairs that were found under this rule, in rising order; none of a rule that was not the last one.
    async fn pairs(&self, rule: &str) -> Result<Vec<StoredPair>, CatalogError>;

    /// Gives unused space back to the disk. It needs about as much free space as the catalog has, and takes as long as
    /// writing it anew.
    async fn compact(&self) -> Result<(), CatalogError>;
}

/// Why the catalog did not serve a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// Written by a newer version, or in a format that no version wrote.
    #[error("the catalog `{path}` has format {found}, this version reads {oldest} to {newest}")]
    Version {
        /// The file.
        path: PathBuf,
        /// The format found.
        found: i64,
        /// The oldest format that opens.
        oldest: i64,
        /// The format that this version writes.
        newest: i64,
    },
    /// Written by an older version: open it for writing once.
    #[error(
        "the catalog `{path}` has format {found}, and is brought to format {newest} when it is opened for writing"
    )]
    Outdated {
        /// The file.
        path: PathBuf,
        /// The format found.
        found: i64,
        /// The format that this version writes.
        newest: i64,
    },
    /// Not a catalog, or damaged.
    #[error("the catalog `{path}` cannot be read: {detail}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// No space left, or the file cannot be written.
    #[error("the catalog `{path}` cannot be written")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the database said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The database failed.
    #[error("the catalog `{path}` failed")]
    Database {
        /// The file.
        path: PathBuf,
        /// What the database said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
