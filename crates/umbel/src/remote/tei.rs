//! A text-embeddings-inference server → what it runs.
//!
//! Invariant: what the server does not say stays unsaid.
//!
//! Source: the `Info` schema of the server's OpenAPI description.

use serde::Deserialize;

use super::{Client, RemoteError};

/// What `/info` says.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Info {
    /// As `intfloat/e5-small-v2`.
    pub(crate) model_id: String,
    /// The commit of the model.
    #[serde(default)]
    pub(crate) model_sha: Option<String>,
    /// The model's own tokens that one text may have.
    pub(crate) max_input_length: usize,
    /// Texts that one request may have.
    #[serde(default)]
    pub(crate) max_client_batch_size: Option<usize>,
}

impl Info {
    pub(crate) fn fetch(client: &Client) -> Result<Self, RemoteError> {
        client.get("/info")
    }

    /// The beginning of the commit, as `fd1525a9`.
    pub(crate) fn short_sha(&self) -> Option<&str> {
        let sha = self.model_sha.as_deref().filter(|sha| !sha.is_empty())?;
        Some(sha.get(..8).unwrap_or(sha))
    }
}
