//! Documents, their trees and offsets, and the embedding cache: the port, and the back ends behind it.
//!
//! Invariant: the catalog is the truth. The index is derived from it and repaired from it.

#[doc(hidden)]
pub mod conformance;
#[cfg(feature = "sqlite")]
mod encode;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use crate::metadata::Metadata;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use umbel_core::document::Document;
use umbel_core::id::{DocId, LeafId};

/// What a catalog says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogInfo {
    /// Rises with every change of the documents.
    pub generation: u64,
    /// Documents committed.
    pub documents: usize,
    /// Leaves of these documents.
    pub leaves: usize,
    /// Documents that are not marked as indexed, plus leaves that are still to be deleted from the index.
    pub pending: usize,
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
    /// marked as indexed; leaf ids that no document has any more become pending deletes; a leaf id that comes back is no
    /// longer one. The generation rises by one unless the change is empty.
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

    /// What the index still lacks: at most `limit` documents and `limit` deletes.
    async fn pending(&self, limit: usize) -> Result<Pending, CatalogError>;

    /// Says that the index durably holds these documents and no longer holds these leaves.
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
