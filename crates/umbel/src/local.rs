//! A model folder → tokens in, numbers out: what the models that run in this process share, embedders and rerankers.
//!
//! Invariant: what a network is given depends on its text alone. Padding and truncation settings of `tokenizer.json` are
//! ignored (many ship with "truncate to 128, pad to 128"), and padding is masked.

pub(crate) mod bert;
pub(crate) mod network;
mod onnx;
pub(crate) mod pool;
pub(crate) mod settings;
pub(crate) mod weights;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;

use rten::ThreadPool;
use tokenizers::{PostProcessor as _, Tokenizer};

pub use self::bert::BertError;
use self::bert::Head;
use self::network::Network;
#[cfg(test)]
pub(crate) use self::onnx::WEIGHTS;
use self::weights::Precision;
use crate::model::{self, Weights};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How to run a model.
#[derive(Debug, Clone, Default)]
pub struct LocalOptions {
    /// What to call the model, before `@` and its digest; by default the name of its folder.
    pub name: Option<String>,
    /// The cores to use; by default all that the process may use.
    pub threads: Option<NonZero<usize>>,
    /// Whether the linear layers compute in bytes: weights rounded per output when the model is loaded, states as they come.
    ///
    /// It wants a `model.safetensors`. The model's name then ends in `+int8`, so that vectors of the two never mix.
    ///
    /// Source: measured with the default model at 125 tokens a text on two cores with VNNI: three fifths of the CPU time per
    /// passage, three quarters of the time per query; cosines to the full vectors of ten texts are 0.986 to 0.995.
    pub int8: bool,
}

impl LocalOptions {
    /// What becomes of the weights.
    pub(crate) fn precision(&self) -> Precision {
        if self.int8 { Precision::Int8 } else { Precision::Full }
    }

    /// The cores to use, at least one.
    pub(crate) fn n_threads(&self) -> usize {
        self.threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get)
    }
}

/// A text, or a pair of texts, as a network takes it: special tokens included, not padded.
pub(crate) struct Tokens {
    /// Places in the vocabulary.
    pub(crate) ids: Vec<i32>,
    /// Which text of a pair each token is of, as `token_type_ids`; as many as `ids`.
    pub(crate) types: Vec<i32>,
}

impl From<&tokenizers::Encoding> for Tokens {
    fn from(encoding: &tokenizers::Encoding) -> Self {
        let signed = |ids: &[u32]| ids.iter().map(|&id| id.cast_signed()).collect();
        Self { ids: signed(encoding.get_ids()), types: signed(encoding.get_type_ids()) }
    }
}

/// A loaded model: what it is called, what it takes, and its two halves.
pub(crate) struct LocalModel {
    /// `name@digest`, and `+int8` where that is so.
    pub(crate) name: String,
    /// The tokens that one input may have, special tokens included.
    pub(crate) max_tokens: usize,
    /// The special tokens of one input, as `[CLS]` and `[SEP]`; fewer than `max_tokens`.
    pub(crate) n_special_tokens: usize,
    /// Without truncation and padding.
    pub(crate) tokenizer: Tokenizer,
    pub(crate) network: Network,
}

impl LocalModel {
    /// Loads the model in `folder`, which is to end in `head`.
    pub(crate) fn load(folder: &Path, options: &LocalOptions, head: Head) -> Result<Self, Broken> {
        let max_tokens = settings::max_tokens(folder).map_err(Broken::at(folder))?;
        let weights =
            Weights::find(folder).ok_or(LocalError::NoWeights).map_err(Broken::at(folder))?;
        let weights_path = folder.join(weights.file_name());
        let network = Network::load(folder, weights, head, options.precision())
            .map_err(Broken::at(&weights_path))?;
        let digest = model::weights_digest(folder, weights)
            .map_err(|error| Broken::at(&weights_path)(error.into()))?;
        let base = options.name.clone().unwrap_or_else(|| folder_name(folder));
        let suffix = if options.int8 { "+int8" } else { "" };
        let name = format!("{base}@{}{suffix}", digest.get(..8).unwrap_or(&digest));

        let tokenizer_path = folder.join("tokenizer.json");
        let tokenizer = read_tokenizer(&tokenizer_path).map_err(Broken::at(&tokenizer_path))?;
        let is_pair = head == Head::Score;
        let special =
            tokenizer.get_post_processor().map_or(0, |template| template.added_tokens(is_pair));
        if max_tokens <= special {
            let error = LocalError::NoRoom { limit: max_tokens, special };
            return Err(Broken::at(folder)(error));
        }
        Ok(Self { name, max_tokens, n_special_tokens: special, tokenizer, network })
    }
}

/// A runtime that works in the thread that calls it, for the first run of a model.
pub(crate) fn one_thread() -> std::sync::Arc<ThreadPool> {
    ThreadPool::with_num_threads(1).into()
}

fn read_tokenizer(path: &Path) -> Result<Tokenizer, LocalError> {
    let failed = |source| LocalError::Tokenizer { source };
    let mut tokenizer = Tokenizer::from_bytes(fs_err::read(path)?).map_err(failed)?;
    tokenizer.with_truncation(None).map_err(failed)?;
    tokenizer.with_padding(None);
    Ok(tokenizer)
}

/// The folder's own name; `.` and the like are resolved first.
fn folder_name(folder: &Path) -> String {
    let resolved = fs_err::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    resolved
        .file_name()
        .map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// What is wrong with a model folder, and where.
pub(crate) struct Broken {
    /// The file or folder.
    pub(crate) path: PathBuf,
    pub(crate) source: LocalError,
}

impl Broken {
    /// For `map_err`.
    pub(crate) fn at(path: &Path) -> impl Fn(LocalError) -> Self {
        move |source| Self { path: path.to_owned(), source }
    }
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
    /// The network gives nothing that could be a score.
    #[error("the network has no output of shape [texts, 1] or [texts]")]
    NoScore,
    /// A score that cannot be compared.
    #[error("the network gave a score of {score}")]
    Score {
        /// The score.
        score: f32,
    },
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
    /// Weights that cannot be rounded here: quantise the ONNX file itself, or get the model's safetensors.
    #[error("int8 weights are made of a `model.safetensors`, the folder has `{file}`")]
    Int8 {
        /// The weights found.
        file: &'static str,
    },
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
pub(crate) mod testing;
