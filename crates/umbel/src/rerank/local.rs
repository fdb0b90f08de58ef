//! A model folder → a cross-encoder that runs in this process: `tokenizers` before, `rten` after.
//!
//! Invariant: the logit of a pair depends on the pair alone: padding is masked, and logits come back in the order given.
//!
//! Pairs wait in one queue that a thread per two cores empties; the caller's executor is not blocked.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rten::ThreadPool;
use rten_tensor::prelude::*;
use tokenizers::{Tokenizer, TruncationDirection, TruncationParams, TruncationStrategy};

use super::{RerankError, RerankRequest, Reranker, RerankerInfo};
use crate::local::bert::Head;
use crate::local::network::Network;
use crate::local::pool::{Pool, Shares};
use crate::local::{self, Broken, LocalModel, Tokens};
pub use crate::local::{LocalError, LocalOptions};

/// A cross-encoder in this process.
pub struct LocalReranker {
    info: RerankerInfo,
    max_tokens: usize,
    /// Truncates pairs to `max_tokens`.
    tokenizer: Tokenizer,
    pairs: Pool<f32>,
}

impl fmt::Debug for LocalReranker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalReranker")
            .field("info", &self.info)
            .field("max_tokens", &self.max_tokens)
            .finish_non_exhaustive()
    }
}

impl LocalReranker {
    /// Loads the cross-encoder in `folder`: `config.json`, `tokenizer.json`, and a `model.safetensors` of the kind
    /// `BertForSequenceClassification` with one label, or an ONNX file with an output `logits` of shape `[pairs, 1]`.
    ///
    /// For weights of another architecture, as RoBERTa's, no graph is written: an ONNX export of them is run.
    ///
    /// # Errors
    /// [`RerankError::Model`] names the file that is missing, broken or of a kind that cannot be run.
    pub fn load(folder: &Path, options: &LocalOptions) -> Result<Self, RerankError> {
        let LocalModel { name, max_tokens, mut tokenizer, network, .. } =
            LocalModel::load(folder, options, Head::Score)?;
        let in_tokenizer =
            |source| Broken::at(&folder.join("tokenizer.json"))(LocalError::Tokenizer { source });
        let truncation = TruncationParams {
            direction: TruncationDirection::Right,
            max_length: max_tokens,
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
        };
        tokenizer.with_truncation(Some(truncation)).map_err(in_tokenizer)?;

        let score = Arc::new(move |pairs: &[Tokens], runtime: &Arc<ThreadPool>| {
            scores(&network, pairs, runtime)
        });
        // A network that gives something else than a score is refused now, not at the first query.
        let blank = tokenizer.encode_fast(("", ""), true).map_err(in_tokenizer)?;
        score(&[Tokens::from(&blank)], &local::one_thread()).map_err(Broken::at(folder))?;

        let shares = Shares::many(options.n_threads(), options.precision());
        let pairs = Pool::start(&score, "umbel-pairs", shares)
            .map_err(|error| Broken::at(folder)(error.into()))?;
        Ok(Self { info: RerankerInfo { model: name }, max_tokens, tokenizer, pairs })
    }

    /// Names the model and its weights, as `ms-marco-MiniLM-L6-v2@1a2b3c4d`.
    pub fn model(&self) -> &str {
        &self.info.model
    }

    /// The model's own tokens that one pair may have, special tokens included.
    ///
    /// It is `max_position_embeddings` of `config.json`, or `max_seq_length` of `sentence_bert_config.json` if that is less.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// The logit of each `(query, text)`, in the order of `texts`: any finite number, higher is better; its sigmoid is the
    /// probability that the model was trained to give. No texts give no logits.
    ///
    /// A pair above [`max_tokens`](Self::max_tokens) is truncated from the end of the longer of its two texts until both
    /// are equally long, then of both: the `longest_first` of Hugging Face tokenizers. So a short query is kept whole.
    /// A pair's logit does not depend on the other texts, to 1e-3.
    ///
    /// # Errors
    /// [`RerankError::Run`] if tokenizer or network failed on a pair, or gave a number that is not finite.
    pub async fn score(&self, query: &str, texts: &[&str]) -> Result<Vec<f32>, RerankError> {
        let pairs = texts.iter().map(|text| self.encode(query, text));
        let pairs = pairs.collect::<Result<Vec<_>, _>>().map_err(run_error)?;
        self.pairs.run(pairs).await.map_err(run_error)
    }

    /// The pair as the model's own tokens, truncated, special tokens included.
    fn encode(&self, query: &str, text: &str) -> Result<Tokens, LocalError> {
        let encoding = self.tokenizer.encode_fast((query, text), true);
        let encoding = encoding.map_err(|source| LocalError::Tokenizer { source })?;
        Ok(Tokens::from(&encoding))
    }
}

#[async_trait::async_trait]
impl Reranker for LocalReranker {
    fn describe(&self) -> &RerankerInfo {
        &self.info
    }

    async fn rerank(&self, request: &RerankRequest<'_>) -> Result<Vec<f32>, RerankError> {
        self.score(request.query(), &request.texts()).await
    }
}

/// Runs a batch of pairs.
fn scores(
    network: &Network,
    pairs: &[Tokens],
    runtime: &Arc<ThreadPool>,
) -> Result<Vec<f32>, LocalError> {
    let output = network.run(pairs, runtime)?;
    if output.ndim() > 2 || output.len() != pairs.len() {
        return Err(LocalError::NoScore);
    }
    let scores: Vec<f32> = output.iter().copied().collect();
    match scores.iter().find(|score| !score.is_finite()) {
        Some(&score) => Err(LocalError::Score { score }),
        None => Ok(scores),
    }
}

impl From<Broken> for RerankError {
    fn from(Broken { path, source }: Broken) -> Self {
        Self::Model { path, source: source.into() }
    }
}

fn run_error(source: LocalError) -> RerankError {
    RerankError::Run { source: source.into() }
}

#[cfg(test)]
mod tests;
