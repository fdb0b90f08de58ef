//! A reranking model behind HTTP → a [`Reranker`]: batches in flight, one checked score for each text.
//!
//! Invariant: an answer is used whole or not at all. Each text of a request has one score, and it is finite.

use std::fmt;
use std::num::NonZero;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{RerankError, RerankRequest, Reranker, RerankerInfo};
use crate::remote::workers::{Gone, Workers};
use crate::remote::{Client, Endpoint, RemoteError, Wanted, tei};

/// What a server that reranks speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// `/v2/rerank` of Cohere.
    Cohere,
    /// `/v1/rerank` of Jina, and of those that do as it does.
    Jina,
    /// `/rerank` and `/info` of text-embeddings-inference.
    Tei,
}

impl Api {
    /// Texts that one request has at the most, unless the options say otherwise.
    ///
    /// Source: Cohere asks for no more than 1,000 documents in its best practices, and Jina takes more than that;
    /// text-embeddings-inference takes 32 unless it was started with another `--max-client-batch-size`.
    pub fn batch_texts(self) -> NonZero<usize> {
        match self {
            Self::Cohere | Self::Jina => const { NonZero::new(1000).unwrap() },
            Self::Tei => const { NonZero::new(32).unwrap() },
        }
    }
}

/// Which model is asked, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteOptions {
    /// What the server speaks.
    pub api: Api,
    /// Where it is.
    pub endpoint: Endpoint,
    /// The model to ask for, and what to call it. A text-embeddings-inference server has but one, and says itself which.
    pub model: Option<String>,
    /// Texts that one request has at the most; a server that says that it takes fewer gets fewer. A model that compares the texts
    /// of a request with each other, and not each with the query alone, needs all of them in one.
    pub batch_texts: NonZero<usize>,
    /// Requests that are on their way at once.
    pub concurrency: NonZero<usize>,
}

impl RemoteOptions {
    /// As many texts a request as [the API takes](Api::batch_texts), 4 requests at once.
    pub fn new(api: Api, url: impl Into<String>, model: Option<String>) -> Self {
        let (endpoint, batch_texts) = (Endpoint::new(url), api.batch_texts());
        let concurrency = const { NonZero::new(4).unwrap() };
        Self { api, endpoint, model, batch_texts, concurrency }
    }
}

/// A reranking model behind HTTP.
pub struct RemoteReranker {
    info: RerankerInfo,
    batch_texts: usize,
    shared: Arc<Shared>,
    workers: Workers,
}

impl fmt::Debug for RemoteReranker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteReranker").field("info", &self.info).finish_non_exhaustive()
    }
}

impl RemoteReranker {
    /// Asks a text-embeddings-inference server what it runs. Nothing is sent to the others, which charge for each request.
    ///
    /// # Errors
    /// [`RerankError::Unavailable`]: the server is away, or not ready yet. [`RerankError::Server`]: it refused, or the options
    /// cannot be met.
    pub async fn connect(options: RemoteOptions) -> Result<Self, RerankError> {
        let name = options.model.clone().unwrap_or_else(|| options.endpoint.url.clone());
        let fail = |error| rerank_error(&name, error);
        let n_workers = options.concurrency.get();
        let workers =
            Workers::start("umbel-rerank", n_workers).map_err(|error| fail(error.into()))?;
        let probed = workers.submit(move |_wanted| probe(options));
        let probed = probed.get().await.unwrap_or_else(|gone| Err(gone.into()));
        let (shared, info, batch_texts) = probed.map_err(fail)?;
        Ok(Self { info, batch_texts, shared: Arc::new(shared), workers })
    }
}

fn probe(options: RemoteOptions) -> Result<(Shared, RerankerInfo, usize), RemoteRerankError> {
    let client = Client::new(options.endpoint)?;
    let served = match options.api {
        Api::Tei => Some(tei::Info::fetch(&client)?),
        Api::Cohere | Api::Jina => None,
    };
    let id = served.as_ref().map(|info| info.model_id.clone());
    let model = options.model.or(id).ok_or(RemoteRerankError::NoModel)?;
    let full_name = match served.as_ref().and_then(tei::Info::short_sha) {
        Some(sha) => format!("{model}@{sha}"),
        None => model.clone(),
    };
    let limit = served.as_ref().and_then(|info| info.max_client_batch_size);
    let batch_texts = options.batch_texts.get().min(limit.unwrap_or(usize::MAX)).max(1);
    let shared = Shared { client, api: options.api, model };
    Ok((shared, RerankerInfo { model: full_name }, batch_texts))
}

#[async_trait::async_trait]
impl Reranker for RemoteReranker {
    fn describe(&self) -> &RerankerInfo {
        &self.info
    }

    async fn rerank(&self, request: &RerankRequest<'_>) -> Result<Vec<f32>, RerankError> {
        let texts = request.texts();
        let batches = texts.chunks(self.batch_texts).map(|batch| {
            let texts: Vec<String> = batch.iter().map(|&text| text.to_owned()).collect();
            let (shared, query) = (Arc::clone(&self.shared), request.query().to_owned());
            self.workers.submit(move |wanted| shared.rerank(&query, &texts, wanted))
        });
        // All of them are in the queue before the first one is waited for. After an error the others are given up.
        let batches: Vec<_> = batches.collect();
        let mut scores = Vec::with_capacity(texts.len());
        for batch in batches {
            let rows = batch.get().await.unwrap_or_else(|gone| Err(gone.into()));
            scores.extend(rows.map_err(|error| rerank_error(&self.info.model, error))?);
        }
        Ok(scores)
    }
}

/// What the threads need.
struct Shared {
    client: Client,
    api: Api,
    model: String,
}

#[derive(Serialize)]
struct DocumentsRequest<'a> {
    model: &'a str,
    query: &'a str,
    documents: &'a [String],
    /// Without it some servers answer with the best few.
    top_n: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    return_documents: Option<bool>,
}

#[derive(Serialize)]
struct TextsRequest<'a> {
    query: &'a str,
    texts: &'a [String],
    raw_scores: bool,
    /// The beginning of a long leaf says more than an error.
    truncate: bool,
}

#[derive(Deserialize)]
struct Results {
    results: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    index: usize,
    #[serde(alias = "relevance_score")]
    score: f32,
}

impl Shared {
    /// One request: a score for each text.
    fn rerank(
        &self,
        query: &str,
        texts: &[String],
        wanted: Wanted<'_>,
    ) -> Result<Vec<f32>, RemoteRerankError> {
        let (route, return_documents) = match self.api {
            Api::Tei => {
                let request = TextsRequest { query, texts, raw_scores: false, truncate: true };
                let rows = self.client.post_while("/rerank", &request, wanted)?;
                return in_order(rows, texts.len());
            }
            Api::Cohere => ("/v2/rerank", None),
            Api::Jina => ("/v1/rerank", Some(false)),
        };
        let (model, top_n) = (self.model.as_str(), texts.len());
        let request = DocumentsRequest { model, query, documents: texts, top_n, return_documents };
        let answer: Results = self.client.post_while(route, &request, wanted)?;
        in_order(answer.results, texts.len())
    }
}

fn in_order(rows: Vec<Row>, n_texts: usize) -> Result<Vec<f32>, RemoteRerankError> {
    let mut scores: Vec<Option<f32>> = vec![None; n_texts];
    for Row { index, score } in rows {
        if !score.is_finite() {
            return Err(RemoteRerankError::NotFinite { index });
        }
        match scores.get_mut(index) {
            Some(free @ None) => *free = Some(score),
            Some(_) => return Err(RemoteRerankError::Twice { index }),
            None => return Err(RemoteRerankError::OutOfRange { index, n_texts }),
        }
    }
    let scores = scores.into_iter().enumerate();
    scores.map(|(index, score)| score.ok_or(RemoteRerankError::Missing { index })).collect()
}

/// Sorts what went wrong by what a caller can do about it.
fn rerank_error(model: &str, error: RemoteRerankError) -> RerankError {
    let model = model.to_owned();
    match &error {
        RemoteRerankError::Thread { .. } => {
            RerankError::Unavailable { model, source: error.into() }
        }
        RemoteRerankError::Remote(remote) if remote.is_passing() => {
            RerankError::Unavailable { model, source: error.into() }
        }
        RemoteRerankError::NoModel => RerankError::Server { model, source: error.into() },
        RemoteRerankError::Remote(remote) if !remote.is_nonsense() => {
            RerankError::Server { model, source: error.into() }
        }
        _ => RerankError::Nonsense { model, source: error.into() },
    }
}

/// Why a server gave no scores.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteRerankError {
    /// No answer, or a refusal.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// A server with several models has to be told which.
    #[error("no model is named, and this kind of server has to be told which")]
    NoModel,
    /// A score of a text that was not sent.
    #[error("a score belongs to text {index} of {n_texts}")]
    OutOfRange {
        /// Its place, from 0.
        index: usize,
        /// The texts.
        n_texts: usize,
    },
    /// A text with two scores.
    #[error("text {index} has two scores")]
    Twice {
        /// Its place, from 0.
        index: usize,
    },
    /// A text without a score.
    #[error("text {index} has no score")]
    Missing {
        /// Its place, from 0.
        index: usize,
    },
    /// A score that is no number.
    #[error("the score of text {index} is not finite")]
    NotFinite {
        /// Its place, from 0.
        index: usize,
    },
    /// No thread to speak with the server.
    #[error("no thread speaks with the server")]
    Thread {
        /// What the system said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl RemoteRerankError {
    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Remote(error) => error.hint(),
            Self::NoModel => Some("name the model".to_owned()),
            _ => None,
        }
    }
}

impl From<Gone> for RemoteRerankError {
    fn from(gone: Gone) -> Self {
        Self::Thread { source: gone.into() }
    }
}

impl From<std::io::Error> for RemoteRerankError {
    fn from(source: std::io::Error) -> Self {
        Self::Thread { source: source.into() }
    }
}

#[cfg(test)]
mod tests;
