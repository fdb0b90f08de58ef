//! A model folder → an [`Embedder`] that runs in this process: `tokenizers` before, `rten` in the middle, pooling after.
//!
//! Invariant: what a text becomes depends on the text alone. Padding and truncation settings of `tokenizer.json` are
//! ignored (many ship with "truncate to 128, pad to 128"), padding is masked, and rows come back in the order given.
//!
//! Passages wait in one queue that a thread per two cores empties; queries have a thread of their own whose runtime uses
//! all cores, so a search does not wait for indexing. Neither blocks the caller's executor.

mod network;
mod settings;

use std::fmt;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use futures_channel::oneshot;
use rten::ThreadPool;
use tokenizers::{PostProcessor as _, Tokenizer, TruncationDirection};

use self::network::Network;
use self::settings::Settings;
use super::bert::BertError;
use super::{EmbedError, Embedder, EmbedderInfo};
use crate::model::{self, Weights};

/// Passages that go through the model together.
///
/// Source: measured with the default model at 125 tokens a text on two busy cores, as CPU time per text in two rounds:
/// batches of 1, 2, 4, 8, 16 took 29.5, 27.3, 27.0, 28.3, 31.4 ms.
const BATCH_TEXTS: usize = 4;

/// Cores that work on one batch. More cores take more batches, since batches this small do not feed many.
///
/// Source: as above, in the better round one runtime of two threads gave 25.0 texts a second, two runtimes of one thread
/// 22.5. The cores were shared with other work, so the difference is small and worth another look on idle ones.
const BATCH_THREADS: usize = 2;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How to run a model.
#[derive(Debug, Clone, Default)]
pub struct LocalOptions {
    /// What to call the model, before `@` and its digest; by default the name of its folder.
    pub name: Option<String>,
    /// The cores to use; by default all that the process may use.
    pub threads: Option<NonZero<usize>>,
}

/// A model in this process.
pub struct LocalEmbedder {
    info: EmbedderInfo,
    tokenizer: Tokenizer,
    /// The tokens that frame a text, as `[CLS]` and `[SEP]`.
    n_special_tokens: usize,
    passages: Pool,
    queries: Pool,
}

impl fmt::Debug for LocalEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalEmbedder").field("info", &self.info).finish_non_exhaustive()
    }
}

impl LocalEmbedder {
    /// Loads the model in `folder`, as [`fetch`](crate::model::fetch) gives it: well under a second for the default.
    ///
    /// # Errors
    /// [`EmbedError::Model`] names the file that is missing, broken or of a kind that cannot be run.
    pub fn load(folder: &Path, options: &LocalOptions) -> Result<Self, EmbedError> {
        let fail = |path: &Path, source: LocalError| EmbedError::Model {
            path: path.to_owned(),
            source: source.into(),
        };
        let settings = Settings::read(folder).map_err(|error| fail(folder, error))?;
        let weights = Weights::find(folder).ok_or_else(|| fail(folder, LocalError::NoWeights))?;
        let weights_path = folder.join(weights.file_name());
        let network = Network::load(folder, weights, settings.pooling)
            .map_err(|error| fail(&weights_path, error))?;
        let digest = model::weights_digest(folder, weights)
            .map_err(|source| fail(&weights_path, source.into()))?;

        let tokenizer_path = folder.join("tokenizer.json");
        let tokenizer =
            read_tokenizer(&tokenizer_path).map_err(|error| fail(&tokenizer_path, error))?;
        let n_special_tokens =
            tokenizer.get_post_processor().map_or(0, |template| template.added_tokens(false));
        if settings.max_tokens <= n_special_tokens {
            let (limit, special) = (settings.max_tokens, n_special_tokens);
            return Err(fail(folder, LocalError::NoRoom { limit, special }));
        }
        let blank = tokenizer
            .encode_fast("", true)
            .map_err(|source| fail(&tokenizer_path, LocalError::Tokenizer { source }))?;
        let probe = network.run(&[ids(&blank)], &ThreadPool::with_num_threads(1).into());
        let dimension =
            probe.map_err(|error| fail(&weights_path, error))?.first().map_or(0, Vec::len);

        let name = options.name.clone().unwrap_or_else(|| folder_name(folder));
        let model = format!("{name}@{}", digest.get(..8).unwrap_or(&digest));
        let info = EmbedderInfo { model, dimension, max_tokens: settings.max_tokens };
        let n_threads = options
            .threads
            .or_else(|| thread::available_parallelism().ok())
            .map_or(1, NonZero::get);
        let n_workers = n_threads.div_ceil(BATCH_THREADS);
        let network = Arc::new(network);
        let passages =
            Pool::start(&network, "umbel-passages", n_workers, n_threads.min(BATCH_THREADS))
                .map_err(|source| fail(folder, source.into()))?;
        let queries = Pool::start(&network, "umbel-queries", 1, n_threads)
            .map_err(|source| fail(folder, source.into()))?;
        Ok(Self { info, tokenizer, n_special_tokens, passages, queries })
    }

    /// The whole text as the model's own tokens, special tokens included.
    fn encode(&self, text: &str) -> Result<Vec<i32>, EmbedError> {
        self.tokenizer
            .encode_fast(text, true)
            .map(|encoding| ids(&encoding))
            .map_err(|source| EmbedError::Run { source })
    }

    /// As much of the text as the model takes, special tokens included.
    fn encode_truncated(&self, text: &str) -> Result<Vec<i32>, EmbedError> {
        let run = |source| EmbedError::Run { source };
        let mut encoding = self.tokenizer.encode_fast(text, false).map_err(run)?;
        let n_text_tokens = self.info.max_tokens.saturating_sub(self.n_special_tokens);
        encoding.truncate(n_text_tokens, 0, TruncationDirection::Right);
        self.tokenizer
            .post_process(encoding, None, true)
            .map(|encoding| ids(&encoding))
            .map_err(run)
    }
}

#[async_trait::async_trait]
impl Embedder for LocalEmbedder {
    fn describe(&self) -> &EmbedderInfo {
        &self.info
    }

    fn count_tokens(&self, text: &str) -> usize {
        // A text that the tokenizer refuses is counted by bytes: too many, so the caller cuts it, never too few.
        self.encode(text).map_or(text.len() + self.n_special_tokens, |tokens| tokens.len())
    }

    async fn embed_passages(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut rows = Vec::with_capacity(texts.len());
        for (position, text) in texts.iter().enumerate() {
            let tokens = self.encode(text)?;
            if tokens.len() > self.info.max_tokens {
                let (tokens, limit) = (tokens.len(), self.info.max_tokens);
                return Err(EmbedError::TooLong {
                    position,
                    tokens,
                    limit,
                    model: self.info.model.clone(),
                });
            }
            rows.push((position, tokens));
        }
        // Neighbours of like length need little padding; the longest first, so that the cores finish together.
        rows.sort_by_key(|(position, tokens)| (std::cmp::Reverse(tokens.len()), *position));

        let mut batches = Vec::with_capacity(rows.len().div_ceil(BATCH_TEXTS));
        let mut rows = rows.into_iter().peekable();
        while rows.peek().is_some() {
            let (positions, tokens): (Vec<_>, Vec<_>) = rows.by_ref().take(BATCH_TEXTS).unzip();
            batches.push((positions, self.passages.submit(tokens)));
        }
        let mut vectors = vec![Vec::new(); texts.len()];
        for (positions, reply) in batches {
            for (position, vector) in positions.into_iter().zip(receive(reply).await?) {
                vectors[position] = vector;
            }
        }
        Ok(vectors)
    }

    async fn embed_query(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        let rows = receive(self.queries.submit(vec![self.encode_truncated(text)?])).await?;
        Ok(rows.into_iter().next().expect("a batch of one text gives one row"))
    }
}

async fn receive(reply: oneshot::Receiver<Rows>) -> Result<Vec<Vec<f32>>, EmbedError> {
    let rows = reply
        .await
        .map_err(|_canceled| EmbedError::Run { source: LocalError::WorkerGone.into() })?;
    rows.map_err(|source| EmbedError::Run { source: source.into() })
}

type Rows = Result<Vec<Vec<f32>>, LocalError>;

/// A batch on its way to a thread.
struct Job {
    texts: Vec<Vec<i32>>,
    reply: oneshot::Sender<Rows>,
}

/// Threads that empty one queue. They end when the pool is dropped.
struct Pool {
    queue: mpsc::Sender<Job>,
}

impl Pool {
    /// Starts `n_workers` threads, each with a runtime of `n_threads`.
    fn start(
        network: &Arc<Network>,
        name: &str,
        n_workers: usize,
        n_threads: usize,
    ) -> std::io::Result<Self> {
        let (queue, jobs) = mpsc::channel::<Job>();
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..n_workers {
            let (network, jobs) = (Arc::clone(network), Arc::clone(&jobs));
            let runtime = Arc::new(ThreadPool::with_num_threads(n_threads));
            thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || work(&network, &jobs, &runtime))?;
        }
        Ok(Self { queue })
    }

    fn submit(&self, texts: Vec<Vec<i32>>) -> oneshot::Receiver<Rows> {
        let (reply, receiver) = oneshot::channel();
        // If every worker is gone the job and its sender are dropped here, and the receiver says so.
        drop(self.queue.send(Job { texts, reply }));
        receiver
    }
}

fn work(network: &Network, jobs: &Mutex<mpsc::Receiver<Job>>, runtime: &Arc<ThreadPool>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { texts, reply }) = job else { return };
        // The caller may have given up meanwhile: then neither the work nor its result is wanted.
        if !reply.is_canceled() {
            drop(reply.send(network.run(&texts, runtime)));
        }
    }
}

fn read_tokenizer(path: &Path) -> Result<Tokenizer, LocalError> {
    let mut tokenizer = Tokenizer::from_bytes(fs_err::read(path)?)
        .map_err(|source| LocalError::Tokenizer { source })?;
    tokenizer.with_truncation(None).map_err(|source| LocalError::Tokenizer { source })?;
    tokenizer.with_padding(None);
    Ok(tokenizer)
}

fn ids(encoding: &tokenizers::Encoding) -> Vec<i32> {
    encoding.get_ids().iter().map(|&id| id.cast_signed()).collect()
}

/// The folder's own name; `.` and the like are resolved first.
fn folder_name(folder: &Path) -> String {
    let resolved = fs_err::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    resolved
        .file_name()
        .map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// What is wrong with a model folder, or went wrong in the runtime.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// No file that holds weights.
    #[error("neither `model.safetensors` nor `model.onnx` nor `onnx/model.onnx` is there")]
    NoWeights,
    /// Nothing says how long a text may be.
    #[error(
        "neither `sentence_bert_config.json` has `max_seq_length` nor `config.json` `max_position_embeddings`"
    )]
    NoLimit,
    /// The limit does not even hold the tokens that frame a text.
    #[error("texts of {limit} tokens leave no room beside {special} special ones")]
    NoRoom {
        /// The limit.
        limit: usize,
        /// The tokens that frame a text.
        special: usize,
    },
    /// A step between transformer and vector that is not implemented.
    #[error(
        "`modules.json` has a step `{kind}`, known are `Transformer`, `Pooling` and `Normalize`"
    )]
    Module {
        /// Its type.
        kind: String,
    },
    /// A pooling that is not implemented.
    #[error("`1_Pooling/config.json` asks for `{modes}`, known are mean alone and cls alone")]
    Pooling {
        /// The modes that are on.
        modes: String,
    },
    /// The network wants an input that a text does not give.
    #[error(
        "the network wants an input `{name}`, known are `input_ids`, `attention_mask` and `token_type_ids`"
    )]
    Input {
        /// Its name.
        name: String,
    },
    /// The network gives nothing that could be an embedding.
    #[error("the network has no output of shape [texts, tokens, hidden] or [texts, dimension]")]
    NoOutput,
    /// A vector that has no direction.
    #[error("the network gave a vector of norm {norm}")]
    Norm {
        /// Its norm.
        norm: f32,
    },
    /// A file that is not what its name says.
    #[error("`{path}` is not the JSON expected")]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A file that cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Weights for which no graph can be written.
    #[error(transparent)]
    Bert(#[from] BertError),
    /// `tokenizer.json` does not load, or failed on a text.
    #[error("the tokenizer failed")]
    Tokenizer {
        /// What it said.
        source: BoxError,
    },
    /// The runtime does not load the network.
    #[error("the network does not load")]
    Load {
        /// What the runtime said.
        source: rten::LoadError,
    },
    /// The runtime failed on a batch.
    #[error("the network failed")]
    Run {
        /// What the runtime said.
        source: BoxError,
    },
    /// The thread that ran the batch died.
    #[error("the thread that ran the model ended early")]
    WorkerGone,
}

#[cfg(test)]
mod tests;
