//! Texts → vectors: the port, and the models behind it.
//!
//! Invariant: rows have L2 norm 1 ± 1e-3, so an inner product is a cosine.

#[cfg(feature = "local")]
pub mod local;
#[cfg(feature = "remote")]
pub mod remote;

use std::path::PathBuf;

/// What an embedder is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbedderInfo {
    /// Names the model and its weights, as `all-MiniLM-L6-v2@53aa5117`; vectors of two different names never mix.
    pub model: String,
    /// Length of a vector.
    pub dimension: usize,
    /// The model's own tokens that one text may have, special tokens included.
    pub max_tokens: usize,
}

/// Turns texts into vectors.
#[async_trait::async_trait]
pub trait Embedder: Send + Sync {
    /// The model, its dimension and its limit.
    fn describe(&self) -> &EmbedderInfo;

    /// How many of the model's own tokens the text has, special tokens included; what `max_tokens` limits. Where the tokenizer is
    /// out of reach this is an estimate that is meant to be too high.
    fn count_tokens(&self, text: &str) -> usize;

    /// Embeds passages: shape `[n][dimension]`, n = `texts.len()`; row i is `texts[i]`. A text's row does not depend on
    /// its batch, to 1e-3.
    ///
    /// # Errors
    /// [`EmbedError::TooLong`] names the first text above the limit: nothing is truncated silently.
    async fn embed_passages(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// Embeds one query. A query above the limit is truncated by the model's own tokenizer.
    async fn embed_query(&self, text: &str) -> Result<Vec<f32>, EmbedError>;
}

impl EmbedError {
    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            #[cfg(feature = "remote")]
            EmbedError::Unavailable { source, .. } | EmbedError::Server { source, .. } => {
                source.downcast_ref::<remote::RemoteEmbedError>()?.hint()
            }
            _ => None,
        }
    }
}

/// Why texts were not embedded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// A passage exceeds the model's limit: cut it.
    #[error("text {position} has {tokens} model tokens, `{model}` takes {limit}")]
    TooLong {
        /// Its place among the texts given, from 0.
        position: usize,
        /// The tokens it has, special tokens included.
        tokens: usize,
        /// The tokens the model takes.
        limit: usize,
        /// The model.
        model: String,
    },
    /// The model's files do not load.
    #[error("the model in `{path}` does not load")]
    Model {
        /// The file or folder.
        path: PathBuf,
        /// What the runtime said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server of the model did not answer: the same texts may pass later.
    #[error("the server of `{model}` did not answer")]
    Unavailable {
        /// The model.
        model: String,
        /// What came in place of an answer.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server of the model refused, gave something that is no embedding, or was asked for what it cannot give: correct the
    /// settings.
    #[error("the server of `{model}` gave no embeddings")]
    Server {
        /// The model.
        model: String,
        /// What is wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The runtime failed on a batch.
    #[error("embedding failed")]
    Run {
        /// What the runtime said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
