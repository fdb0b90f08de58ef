//! What came in place of embeddings → what a caller can do about it.
//!
//! Invariant: a row is named by its place in the request, since the text may be private.

use crate::remote::RemoteError;
use crate::remote::workers::Gone;

/// Why a server gave no embeddings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteEmbedError {
    /// No answer, or a refusal.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// A server with several models has to be told which.
    #[error("no model is named, and this kind of server has to be told which")]
    NoModel,
    /// The limit holds the prefix alone.
    #[error("texts of {limit} tokens leave no room beside a prefix of {taken}")]
    NoRoom {
        /// The limit.
        limit: usize,
        /// What prefix and special tokens may take.
        taken: usize,
    },
    /// Vectors are to be cut by a server that does not.
    #[error("a text-embeddings-inference server is not asked to cut vectors")]
    NoServerCut,
    /// Vectors are wanted that are longer than the model's, or a server did not cut.
    #[error("vectors of length {wanted} are wanted, got {got}")]
    Short {
        /// The length wanted.
        wanted: usize,
        /// The length that came.
        got: usize,
    },
    /// Not one row for each text.
    #[error("{wanted} texts gave {got} rows")]
    Rows {
        /// The rows that came.
        got: usize,
        /// The texts.
        wanted: usize,
    },
    /// A row that belongs to no text, or to one that has its row already.
    #[error("row {index} is not there, or there twice, for {n_texts} texts")]
    Index {
        /// What the server calls the row.
        index: usize,
        /// The texts.
        n_texts: usize,
    },
    /// A row of another length: the server runs another model than at first.
    #[error("row {position} has {got} numbers, want {wanted}")]
    Dimension {
        /// Its place, from 0.
        position: usize,
        /// Its length.
        got: usize,
        /// The length of those before.
        wanted: usize,
    },
    /// A number that is none.
    #[error("row {position} holds a number that is not finite")]
    NotFinite {
        /// Its place, from 0.
        position: usize,
    },
    /// A vector that has no direction.
    #[error("row {position} is zero")]
    NoDirection {
        /// Its place, from 0.
        position: usize,
    },
    /// No thread to speak with the server.
    #[error("no thread speaks with the server")]
    Thread {
        /// What the system said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl RemoteEmbedError {
    /// Whether the same texts may pass later.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Remote(error) => error.is_passing(),
            Self::Thread { .. } => true,
            _ => false,
        }
    }

    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Remote(error) => error.hint(),
            Self::NoModel => Some("name the model".to_owned()),
            Self::NoRoom { .. } => Some("give the model more tokens, or no prefix".to_owned()),
            Self::NoServerCut => Some("leave the cutting to the client".to_owned()),
            Self::Short { got, .. } => Some(format!("ask for at most {got}")),
            Self::Dimension { .. } => Some("embed everything again with one model".to_owned()),
            _ => None,
        }
    }
}

impl From<Gone> for RemoteEmbedError {
    fn from(gone: Gone) -> Self {
        Self::Thread { source: gone.into() }
    }
}

impl From<std::io::Error> for RemoteEmbedError {
    fn from(source: std::io::Error) -> Self {
        Self::Thread { source: source.into() }
    }
}
