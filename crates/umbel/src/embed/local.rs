//! A model folder → an [`Embedder`] that runs in this process: `tokenizers` before, `rten` in the middle, pooling after.
//!
//! Invariant: what a text becomes depends on the text alone: padding is masked, and rows come back in the order given.
//!
//! Passages wait in one queue that a thread per core empties; queries have a thread of their own whose runtime uses all
//! cores, so a search does not wait for indexing. Neither blocks the caller's executor.

mod pooling;
mod settings;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rten::ThreadPool;
use tokenizers::{Tokenizer, TruncationDirection};

use super::{EmbedError, Embedder, EmbedderInfo};
use crate::local::bert::Head;
use crate::local::pool::{Pool, Shares};
use crate::local::{self, Broken, LocalModel, Tokens};
pub use crate::local::{LocalError, LocalOptions};

/// A model in this process.
pub struct LocalEmbedder {
    info: EmbedderInfo,
    tokenizer: Tokenizer,
    /// The tokens that frame a text, as `[CLS]` and `[SEP]`.
    n_special_tokens: usize,
    passages: Pool<Vec<f32>>,
    queries: Pool<Vec<f32>>,
}

impl fmt::Debug for LocalEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalEmbedder").field("info", &self.info).finish_non_exhaustive()
    }
}

impl From<Broken> for EmbedError {
    fn from(Broken { path, source }: Broken) -> Self {
        Self::Model { path, source: source.into() }
    }
}

/// A batch that failed.
fn run_error(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> EmbedError {
    EmbedError::Run { source: source.into() }
}

impl LocalEmbedder {
    /// Loads the model in `folder`, as [`fetch`](crate::model::fetch) gives it: well under a second for the default.
    ///
    /// # Errors
    /// [`EmbedError::Model`] names the file that is missing, broken or of a kind that cannot be run.
    pub fn load(folder: &Path, options: &LocalOptions) -> Result<Self, EmbedError> {
        let pooling = settings::read_pooling(folder).map_err(Broken::at(folder))?;
        let LocalModel { name, max_tokens, n_special_tokens, tokenizer, network } =
            LocalModel::load(folder, options, Head::States)?;
        let embed = Arc::new(move |texts: &[Tokens], runtime: &Arc<ThreadPool>| {
            pooling.rows(texts, &network.run(texts, runtime)?)
        });

        let blank = tokenizer.encode_fast("", true).map_err(|source| {
            Broken::at(&folder.join("tokenizer.json"))(LocalError::Tokenizer { source })
        })?;
        let probe = embed(&[Tokens::from(&blank)], &local::one_thread());
        let dimension = probe.map_err(Broken::at(folder))?.first().map_or(0, Vec::len);

        let start = |name: &str, shares: Shares| {
            Pool::start(&embed, name, shares).map_err(|error| Broken::at(folder)(error.into()))
        };
        let n_threads = options.n_threads();
        let passages = start("umbel-passages", Shares::many(n_threads, options.precision()))?;
        let queries = start("umbel-queries", Shares::single(n_threads))?;
        let info = EmbedderInfo { model: name, dimension, max_tokens };
        Ok(Self { info, tokenizer, n_special_tokens, passages, queries })
    }

    /// The whole text as the model's own tokens, special tokens included.
    fn encode(&self, text: &str) -> Result<Tokens, EmbedError> {
        let encoding = self.tokenizer.encode_fast(text, true).map_err(run_error)?;
        Ok(Tokens::from(&encoding))
    }

    /// As much of the text as the model takes, special tokens included.
    fn encode_truncated(&self, text: &str) -> Result<Tokens, EmbedError> {
        let mut encoding = self.tokenizer.encode_fast(text, false).map_err(run_error)?;
        let n_text_tokens = self.info.max_tokens.saturating_sub(self.n_special_tokens);
        encoding.truncate(n_text_tokens, 0, TruncationDirection::Right);
        let encoding = self.tokenizer.post_process(encoding, None, true).map_err(run_error)?;
        Ok(Tokens::from(&encoding))
    }
}

#[async_trait::async_trait]
impl Embedder for LocalEmbedder {
    fn describe(&self) -> &EmbedderInfo {
        &self.info
    }

    fn count_tokens(&self, text: &str) -> usize {
        // A text that the tokenizer refuses is counted by bytes: too many, so the caller cuts it, never too few.
        self.encode(text).map_or(text.len() + self.n_special_tokens, |tokens| tokens.ids.len())
    }

    async fn embed_passages(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut rows = Vec::with_capacity(texts.len());
        for (position, text) in texts.iter().enumerate() {
            let row = self.encode(text)?;
            let (tokens, limit) = (row.ids.len(), self.info.max_tokens);
            if tokens > limit {
                let model = self.info.model.clone();
                return Err(EmbedError::TooLong { position, tokens, limit, model });
            }
            rows.push(row);
        }
        self.passages.run(rows).await.map_err(run_error)
    }

    async fn embed_query(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        let rows = self.queries.run(vec![self.encode_truncated(text)?]).await.map_err(run_error)?;
        Ok(rows.into_iter().next().expect("a batch of one text gives one row"))
    }
}

#[cfg(test)]
mod tests;
