//! A model behind HTTP → an [`Embedder`]: prefixes before, batches in flight, checks and norm 1 after.
//!
//! Invariant: an answer is used whole or not at all. There is one row for each text, in the order of the texts, of the length
//! that the server gave when it was first asked, finite, and with a direction.
//!
//! Passages and queries have threads of their own, so a search does not wait for indexing.

mod error;
mod estimate;
mod prefix;
mod wire;

use std::fmt;
use std::num::NonZero;
use std::sync::Arc;

pub use self::error::RemoteEmbedError;
pub use self::prefix::Prefixes;
pub use self::wire::Api;
use super::{EmbedError, Embedder, EmbedderInfo};
use crate::remote::workers::{Reply, Workers};
use crate::remote::{Client, Endpoint, Wanted, tei};

/// Tokens that a passage may have where neither server nor settings say: what BERT-like models take.
const MAX_TOKENS: usize = 512;

/// What is embedded to learn the length of the vectors.
const PROBE: &str = "length";

/// Which model is asked, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteOptions {
    /// What the server speaks.
    pub api: Api,
    /// Where it is.
    pub endpoint: Endpoint,
    /// The model to ask for, and what to call it. A text-embeddings-inference server has but one, and says itself which.
    pub model: Option<String>,
    /// Texts that one request has at the most; a server that says that it takes fewer gets fewer.
    pub batch_texts: NonZero<usize>,
    /// Requests with passages that are on their way at once. As many with queries come beside them.
    pub concurrency: NonZero<usize>,
    /// What is put before a query; by default [what the model's name says](Prefixes::of_model).
    pub query_prefix: Option<String>,
    /// What is put before a passage; by default [what the model's name says](Prefixes::of_model).
    pub passage_prefix: Option<String>,
    /// The length of the vectors, for models whose vectors may be cut; by default all that the model gives.
    pub dimension: Option<NonZero<usize>>,
    /// Who cuts them.
    pub cut: Cut,
    /// The model's own tokens that a text may have, special ones included; by default what the server says, else 512. Where both
    /// are known the smaller one counts.
    pub max_tokens: Option<usize>,
    /// How many of the model's own tokens stand for one budget token at the most, by which texts are counted: see
    /// [`count_tokens`](RemoteEmbedder::count_tokens).
    pub token_factor: f32,
}

/// Who cuts vectors to [`RemoteOptions::dimension`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cut {
    /// The client: it keeps the first numbers and brings them to norm 1.
    #[default]
    Here,
    /// The server: it is asked for `dimensions`, which only some models of [`Api::OpenAi`] understand.
    Server,
}

impl RemoteOptions {
    /// An OpenAI-compatible server: 32 texts a request, 4 requests at once.
    pub fn openai(url: impl Into<String>, model: impl Into<String>) -> Self {
        Self { model: Some(model.into()), ..Self::new(Api::OpenAi, url) }
    }

    /// A text-embeddings-inference server: 32 texts a request, 4 requests at once.
    pub fn tei(url: impl Into<String>) -> Self {
        Self::new(Api::Tei, url)
    }

    fn new(api: Api, url: impl Into<String>) -> Self {
        Self {
            api,
            endpoint: Endpoint::new(url),
            model: None,
            batch_texts: const { NonZero::new(32).unwrap() },
            concurrency: const { NonZero::new(4).unwrap() },
            query_prefix: None,
            passage_prefix: None,
            dimension: None,
            cut: Cut::Here,
            max_tokens: None,
            token_factor: estimate::FACTOR,
        }
    }
}

/// A model behind HTTP.
pub struct RemoteEmbedder {
    info: EmbedderInfo,
    prefixes: Prefixes,
    batch_texts: usize,
    token_factor: f32,
    shared: Arc<Shared>,
    passages: Workers,
    queries: Workers,
}

/// What the threads need.
struct Shared {
    client: Client,
    api: Api,
    /// What the server is to call the model.
    model: String,
    /// The length that is asked for.
    asked: Option<usize>,
    /// The length that comes; `None` before it is known.
    native: Option<usize>,
    /// The length that is kept.
    kept: usize,
}

impl fmt::Debug for RemoteEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteEmbedder").field("info", &self.info).finish_non_exhaustive()
    }
}

impl RemoteEmbedder {
    /// Asks the server what it runs, and for one vector, whose length all others must have.
    ///
    /// # Errors
    /// [`EmbedError::Unavailable`]: the server is away, or not ready yet. [`EmbedError::Server`]: it refused, is something else
    /// than was said, or cannot give what the options ask for.
    pub async fn connect(options: RemoteOptions) -> Result<Self, EmbedError> {
        let name = options.model.clone().unwrap_or_else(|| options.endpoint.url.clone());
        let fail = |error| embed_error(&name, error);
        let start = |name| Workers::start(name, options.concurrency.get());
        let passages = start("umbel-passages").map_err(|error| fail(error.into()))?;
        let queries = start("umbel-queries").map_err(|error| fail(error.into()))?;
        let probed = queries.submit(move |wanted| Probed::probe(options, wanted));
        let probed = probed.get().await.unwrap_or_else(|gone| Err(gone.into()));
        let Probed { shared, info, prefixes, batch_texts, token_factor } = probed.map_err(fail)?;
        let shared = Arc::new(shared);
        Ok(Self { info, prefixes, batch_texts, token_factor, shared, passages, queries })
    }

    fn submit(
        &self,
        workers: &Workers,
        texts: Vec<String>,
        too_long: TooLong,
    ) -> Reply<Result<Vec<Vec<f32>>, RemoteEmbedError>> {
        let shared = Arc::clone(&self.shared);
        workers.submit(move |wanted| shared.embed(&texts, too_long, wanted))
    }

    async fn receive(
        &self,
        reply: Reply<Result<Vec<Vec<f32>>, RemoteEmbedError>>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let rows = reply.get().await.unwrap_or_else(|gone| Err(gone.into()));
        rows.map_err(|error| embed_error(&self.info.model, error))
    }
}

#[async_trait::async_trait]
impl Embedder for RemoteEmbedder {
    fn describe(&self) -> &EmbedderInfo {
        &self.info
    }

    /// An estimate that is meant to be too high: [`token_factor`](RemoteOptions::token_factor) for each `o200k_base` token of
    /// prefix and text, or for each word, and one for each mark, whichever is more; and two special tokens. It is never above one
    /// token for each byte.
    ///
    /// The default factor of 1.8 is that of English text and code with a vocabulary of 30,000 pieces. Raise it for text in a
    /// language that the model's vocabulary was not made for; lower it, down to 1, for a model that counts as `o200k_base` does.
    /// Where it is too low a text-embeddings-inference server says so, since it is asked not to truncate passages; of
    /// OpenAI-compatible servers some refuse such a text, and some truncate it without a word.
    fn count_tokens(&self, text: &str) -> usize {
        estimate::tokens(&format!("{}{text}", self.prefixes.passage), self.token_factor)
    }

    async fn embed_passages(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let limit = self.info.max_tokens;
        for (position, text) in texts.iter().enumerate() {
            let tokens = self.count_tokens(text);
            if tokens > limit {
                let model = self.info.model.clone();
                return Err(EmbedError::TooLong { position, tokens, limit, model });
            }
        }
        let batches = texts.chunks(self.batch_texts).map(|batch| {
            let texts = batch.iter().map(|text| format!("{}{text}", self.prefixes.passage));
            self.submit(&self.passages, texts.collect(), TooLong::Refuse)
        });
        // All of them are in the queue before the first one is waited for. After an error the others are given up.
        let batches: Vec<_> = batches.collect();
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in batches {
            vectors.extend(self.receive(batch).await?);
        }
        Ok(vectors)
    }

    async fn embed_query(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        let text = format!("{}{text}", self.prefixes.query);
        let text = match self.shared.api {
            Api::Tei => text,
            // This API has no word for it, so the estimate decides.
            Api::OpenAi => estimate::fit(&text, self.info.max_tokens, self.token_factor).to_owned(),
        };
        let rows = self.receive(self.submit(&self.queries, vec![text], TooLong::Truncate)).await?;
        Ok(rows.into_iter().next().expect("a batch of one text gives one row"))
    }
}

/// What a server is to do with a text that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TooLong {
    Refuse,
    Truncate,
}

/// What is known once the server has answered.
struct Probed {
    shared: Shared,
    info: EmbedderInfo,
    prefixes: Prefixes,
    batch_texts: usize,
    token_factor: f32,
}

impl Probed {
    fn probe(options: RemoteOptions, wanted: Wanted<'_>) -> Result<Self, RemoteEmbedError> {
        let asked = match (options.cut, options.api, options.dimension) {
            (Cut::Server, Api::OpenAi, Some(dimension)) => Some(dimension.get()),
            (Cut::Server, Api::Tei, Some(_)) => return Err(RemoteEmbedError::NoServerCut),
            _ => None,
        };
        let client = Client::new(options.endpoint)?;
        let served = match options.api {
            Api::Tei => Some(tei::Info::fetch(&client)?),
            Api::OpenAi => None,
        };
        let id = served.as_ref().map(|info| info.model_id.clone());
        let model = options.model.or(id).ok_or(RemoteEmbedError::NoModel)?;
        let of_model = Prefixes::of_model(&model);
        let prefixes = Prefixes {
            query: options.query_prefix.unwrap_or(of_model.query),
            passage: options.passage_prefix.unwrap_or(of_model.passage),
        };

        let says = served.as_ref().map(|info| info.max_input_length);
        let max_tokens = match (options.max_tokens, says) {
            (Some(declared), Some(says)) => declared.min(says),
            (declared, says) => declared.or(says).unwrap_or(MAX_TOKENS),
        };
        for prefix in [&prefixes.query, &prefixes.passage] {
            let taken = estimate::tokens(prefix, options.token_factor);
            if max_tokens <= taken {
                return Err(RemoteEmbedError::NoRoom { limit: max_tokens, taken });
            }
        }

        let mut shared = Shared { client, api: options.api, model, asked, native: None, kept: 0 };
        let texts = [format!("{}{PROBE}", prefixes.passage)];
        let rows = shared.request(&texts, TooLong::Refuse, wanted)?;
        let native = rows.first().map_or(0, Vec::len);
        shared.native = Some(native);
        shared.kept = options.dimension.map_or(native, NonZero::get);
        if shared.kept > native || asked.is_some_and(|asked| asked != native) {
            return Err(RemoteEmbedError::Short { wanted: shared.kept, got: native });
        }
        // A vector that cannot be one is found here, not at the first passage.
        shared.check(0, rows.into_iter().next().unwrap_or_default())?;

        let limit = served.as_ref().and_then(|info| info.max_client_batch_size);
        let batch_texts = options.batch_texts.get().min(limit.unwrap_or(usize::MAX)).max(1);
        let sha = served.as_ref().and_then(tei::Info::short_sha);
        let info = EmbedderInfo {
            model: full_name(&shared.model, sha, shared.kept, &prefixes),
            dimension: shared.kept,
            max_tokens,
        };
        Ok(Self { shared, info, prefixes, batch_texts, token_factor: options.token_factor })
    }
}

/// All that a vector depends on, as `intfloat/e5-small-v2@384:fd1525a9 query="query: " passage="passage: "`. Where the server
/// runs is no part of it.
fn full_name(model: &str, sha: Option<&str>, dimension: usize, prefixes: &Prefixes) -> String {
    let mut name = format!("{model}@{dimension}");
    if let Some(sha) = sha {
        name = format!("{name}:{sha}");
    }
    for (kind, prefix) in [("query", &prefixes.query), ("passage", &prefixes.passage)] {
        if !prefix.is_empty() {
            name = format!("{name} {kind}={prefix:?}");
        }
    }
    name
}

impl Shared {
    /// One request, checked: shape `[texts][kept]`.
    fn embed(
        &self,
        texts: &[String],
        too_long: TooLong,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Vec<f32>>, RemoteEmbedError> {
        let rows = self.request(texts, too_long, wanted)?;
        rows.into_iter().enumerate().map(|(position, row)| self.check(position, row)).collect()
    }

    /// A row as it is kept: of the length that all have, cut, and of norm 1.
    fn check(&self, position: usize, mut row: Vec<f32>) -> Result<Vec<f32>, RemoteEmbedError> {
        let (got, wanted) = (row.len(), self.native.unwrap_or(row.len()));
        if got != wanted {
            return Err(RemoteEmbedError::Dimension { position, got, wanted });
        }
        if !row.iter().all(|number| number.is_finite()) {
            return Err(RemoteEmbedError::NotFinite { position });
        }
        row.truncate(self.kept);
        let norm = row.iter().map(|&number| f64::from(number).powi(2)).sum::<f64>().sqrt();
        if norm <= f64::from(f32::MIN_POSITIVE) {
            return Err(RemoteEmbedError::NoDirection { position });
        }
        for number in &mut row {
            *number = (f64::from(*number) / norm) as f32;
        }
        Ok(row)
    }
}

/// Sorts what went wrong by what a caller can do about it.
fn embed_error(model: &str, error: RemoteEmbedError) -> EmbedError {
    let (model, is_passing) = (model.to_owned(), error.is_passing());
    let source = error.into();
    if is_passing {
        EmbedError::Unavailable { model, source }
    } else {
        EmbedError::Server { model, source }
    }
}

#[cfg(test)]
mod tests;
