//! Leaves with vectors → ranked leaves: the port, and the back ends behind it.
//!
//! Invariant: higher scores are better; ties break by leaf id; no `NaN` leaves a back end. [`exact`] defines the truth.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
#[cfg(feature = "edge")]
pub mod edge;
pub mod exact;
#[cfg(feature = "edge")]
pub mod lexical;
#[cfg(feature = "edge")]
mod payload;

use std::path::PathBuf;
use umbel_core::hit::LeafRecord;
use umbel_core::id::{ClusterId, DocId, LeafId};

/// What an index is and holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexInfo {
    /// The back end, as `exact` or `edge`.
    pub back_end: &'static str,
    /// Length of the dense vectors; `None` for a store without vectors.
    pub dimension: Option<usize>,
    /// How many leaves it holds.
    pub points: usize,
}

/// A weighted bag of terms: `indices` strictly rising, `values` of the same length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SparseVector {
    /// Term ids.
    pub indices: Vec<u32>,
    /// Term weights: BM25 term frequency parts for a passage, 1 for a query's term.
    pub values: Vec<f32>,
}

/// What can be asked of a leaf's document in a search, as words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Facet {
    /// The source it belongs to.
    Source,
    /// The system it comes from.
    Connector,
    /// Its language.
    Language,
    /// One of the labels of those who may read it.
    Label,
}

/// What is known of a leaf's document where it is searched. An empty word stands for none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facets {
    /// The source it belongs to.
    pub source: String,
    /// The system it comes from.
    pub connector: String,
    /// Its language.
    pub language: String,
    /// Who may read it; one empty word for everyone.
    pub labels: Vec<String>,
    /// When it was last changed: seconds since 1970 in UTC.
    pub updated_at: Option<i64>,
}

impl Facets {
    /// The words of a facet.
    pub fn words(&self, facet: Facet) -> &[String] {
        match facet {
            Facet::Source => std::slice::from_ref(&self.source),
            Facet::Connector => std::slice::from_ref(&self.connector),
            Facet::Language => std::slice::from_ref(&self.language),
            Facet::Label => &self.labels,
        }
    }
}

/// A condition on the leaves of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    /// What is tested.
    pub test: Test,
    /// Whether the test is to fail.
    pub negated: bool,
}

/// What a condition tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// The leaf belongs to one of these documents.
    Docs(Vec<DocId>),
    /// The leaf belongs to one of these clusters of duplicates.
    Clusters(Vec<ClusterId>),
    /// The facet holds one of these words.
    Facet(Facet, Vec<String>),
    /// The document was last changed in `from..to`, in seconds since 1970; one without a date was not. At least one end is
    /// given.
    Updated {
        /// This moment or later.
        from: Option<i64>,
        /// Before this moment.
        to: Option<i64>,
    },
}

/// A leaf as the index keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// What is known of the leaf.
    pub record: LeafRecord,
    /// What is known of its document.
    pub facets: Facets,
}

/// A leaf as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// What is known of the leaf.
    pub record: LeafRecord,
    /// What is known of its document.
    pub facets: Facets,
    /// Its dense vector, of L2 norm 1; `None` where the store has no vectors.
    pub dense: Option<Vec<f32>>,
    /// Its lexical vector.
    pub lexical: SparseVector,
}

/// One leg of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum Leg {
    /// By cosine to this vector.
    Dense(Vec<f32>),
    /// By BM25: inner product with the query's terms, each weighted by its inverse document frequency
    /// `ln((N - n + 0.5) / (n + 0.5) + 1)`. Only leaves with at least one term are found.
    Lexical(SparseVector),
}

/// What is searched for.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRequest {
    /// The leg.
    pub leg: Leg,
    /// How many leaves at the most.
    pub limit: usize,
    /// Only leaves for which all of these hold.
    pub filter: Vec<Clause>,
}

/// A leaf that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// What is known of the leaf.
    pub record: LeafRecord,
    /// Cosine or BM25 score; higher is better.
    pub score: f32,
}

/// Stores leaves and finds them again. Calls may come from several threads.
#[async_trait::async_trait]
pub trait Index: Send + Sync {
    /// What it is and holds.
    async fn describe(&self) -> Result<IndexInfo, IndexError>;

    /// Adds leaves, or replaces those with the same id. Durable after the next [`flush`](Index::flush), not before.
    ///
    /// # Errors
    /// [`IndexError::Dimension`]: nothing of the call was stored.
    async fn upsert(&self, points: Vec<Point>) -> Result<(), IndexError>;

    /// Removes leaves; ids that are not there are ignored. Durable after the next [`flush`](Index::flush), not before.
    async fn delete(&self, leaves: &[LeafId]) -> Result<(), IndexError>;

    /// Writes the clusters of leaves, and leaves all else of them as it is; ids that are not there are ignored, of one given
    /// twice the last counts. Durable after the next [`flush`](Index::flush), not before.
    async fn assign(&self, clusters: &[(LeafId, ClusterId)]) -> Result<(), IndexError>;

    /// The best leaves of one leg, best first, ties by id.
    async fn search(&self, request: &SearchRequest) -> Result<Vec<Scored>, IndexError>;

    /// What is kept of these leaves, in the order asked; `None` for one that is not there.
    async fn fetch(&self, leaves: &[LeafId]) -> Result<Vec<Option<Kept>>, IndexError>;

    /// Makes everything before it durable.
    async fn flush(&self) -> Result<(), IndexError>;

    /// Brings the index into its best shape after a bulk load or deletes: segments are merged, vector graphs built, and
    /// document frequencies forget what was deleted.
    async fn optimize(&self) -> Result<(), IndexError>;
}

/// Why an index did not serve a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// Vectors of two models were mixed, or a vector was given to a store without.
    #[error("the index holds {wanted}-dimensional vectors, got {got}")]
    Dimension {
        /// What the index holds; 0 where it holds none.
        wanted: usize,
        /// What came.
        got: usize,
    },
    /// The files of the index cannot be read: it is rebuilt from the catalog.
    #[error("the index in `{path}` does not open")]
    Corrupt {
        /// The folder.
        path: PathBuf,
        /// What the engine said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The engine failed.
    #[error("the index failed to {verb}")]
    Engine {
        /// What it was doing.
        verb: &'static str,
        /// What the engine said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
