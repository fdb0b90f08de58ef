//! `[embed]`, `[rerank]` and `[generate]`: which models are asked, and where they run.
//!
//! Invariant: no key of a service is a setting: settings name the variable of the environment that holds it.

use super::{ConfigError, range};
use serde::{Deserialize, Serialize};

/// `[embed]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbedSettings {
    /// Where the model runs.
    pub backend: EmbedBackend,
    /// In this process: a model by name, a hub id `org/name`, or a folder. Behind HTTP: what the server calls it.
    pub model: String,
    /// The address of the server.
    pub url: String,
    /// The variable of the environment that holds the server's key; empty for none.
    pub key_variable: String,
    /// What is put before a question; `auto` for what the model is known to want.
    pub query_prefix: String,
    /// What is put before a leaf; `auto` for what the model is known to want.
    pub passage_prefix: String,
    /// The length of the vectors, for models whose vectors may be cut; 0 for all that the model gives.
    pub dimension: usize,
    /// The model's own tokens that a text may have, for servers that do not say; 0 for what they say, else 512.
    pub max_tokens: usize,
    /// Whether a model in this process computes in bytes: faster, and a little less exact.
    pub int8: bool,
    /// Texts in one request.
    pub batch: usize,
    /// Requests on their way at once.
    pub concurrency: usize,
    /// Seconds that one attempt may take.
    pub timeout_seconds: u64,
    /// Attempts after the first one.
    pub retries: u32,
}

/// Where a model that embeds runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EmbedBackend {
    /// In this process.
    Local,
    /// Behind `/v1/embeddings`, as OpenAI's, Ollama's, vLLM's and llama.cpp's.
    OpenAi,
    /// Behind text-embeddings-inference.
    Tei,
}

impl Default for EmbedSettings {
    fn default() -> EmbedSettings {
        EmbedSettings {
            backend: EmbedBackend::Local,
            model: "all-MiniLM-L6-v2".to_owned(),
            url: String::new(),
            key_variable: String::new(),
            query_prefix: AUTO.to_owned(),
            passage_prefix: AUTO.to_owned(),
            dimension: 0,
            max_tokens: 0,
            int8: false,
            batch: 32,
            concurrency: 4,
            timeout_seconds: 60,
            retries: 3,
        }
    }
}

/// A prefix that the model's name decides.
const AUTO: &str = "auto";

impl EmbedSettings {
    /// A prefix that was set; `None` where the model's name decides.
    pub fn prefix(prefix: &str) -> Option<String> {
        (prefix != AUTO).then(|| prefix.to_owned())
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let needs_url = self.backend != EmbedBackend::Local;
        range(!needs_url || !self.url.is_empty(), "embed.url", self.url.clone(), "an address")?;
        range(self.batch > 0, "embed.batch", self.batch.to_string(), "at least 1")?;
        range(
            self.concurrency > 0,
            "embed.concurrency",
            self.concurrency.to_string(),
            "at least 1",
        )?;
        let seconds = self.timeout_seconds;
        range(seconds > 0, "embed.timeout_seconds", seconds.to_string(), "at least 1")
    }
}

/// `[rerank]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RerankSettings {
    /// Where the model runs; `none` for no reranking.
    pub backend: RerankBackend,
    /// In this process: a hub id `org/name`, or a folder. Behind HTTP: what the server calls it.
    pub model: String,
    /// The address of the server.
    pub url: String,
    /// The variable of the environment that holds the server's key; empty for none.
    pub key_variable: String,
    /// What is scored: `leaves`, before they are merged and expanded, or, with a warning, `passages`.
    pub stage: RerankStage,
    /// Seconds that one attempt may take.
    pub timeout_seconds: u64,
    /// Attempts after the first one.
    pub retries: u32,
}

/// Where a model that reranks runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RerankBackend {
    /// Nowhere: lists keep the order of fusion.
    None,
    /// In this process.
    Local,
    /// Behind `/v2/rerank` of Cohere.
    Cohere,
    /// Behind `/v1/rerank` of Jina, and of those that do as it does.
    Jina,
    /// Behind text-embeddings-inference.
    Tei,
}

/// What is being scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RerankStage {
    /// Leaves, before merging and expansion.
    Leaves,
    /// What leaves were delivered as.
    Passages,
}

impl Default for RerankSettings {
    fn default() -> RerankSettings {
        RerankSettings {
            backend: RerankBackend::None,
            model: String::new(),
            url: String::new(),
            key_variable: String::new(),
            stage: RerankStage::Leaves,
            timeout_seconds: 10,
            retries: 1,
        }
    }
}

impl RerankSettings {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let is_remote = !matches!(self.backend, RerankBackend::None | RerankBackend::Local);
        range(!is_remote || !self.url.is_empty(), "rerank.url", self.url.clone(), "an address")?;
        let needs_model = !matches!(self.backend, RerankBackend::None | RerankBackend::Tei);
        let has_model = !needs_model || !self.model.is_empty();
        range(has_model, "rerank.model", self.model.clone(), "the name of a model")?;
        let seconds = self.timeout_seconds;
        range(seconds > 0, "rerank.timeout_seconds", seconds.to_string(), "at least 1")
    }
}

/// `[generate]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GenerateSettings {
    /// The address of a server with `/v1/chat/completions`; empty for none.
    pub url: String,
    /// What the server calls the model.
    pub model: String,
    /// The variable of the environment that holds the server's key; empty for none.
    pub key_variable: String,
    /// A file with the prompt, in which `{context}` and `{question}` are replaced; empty for the built-in one.
    pub template: String,
    /// The model's own tokens that an answer may have; 0 leaves it to the model.
    pub max_tokens: u32,
    /// How freely words are chosen: 0 for the likeliest ones, 2 at the most.
    pub temperature: f32,
    /// Seconds that the first token may take.
    pub first_token_seconds: u64,
    /// Seconds that each further token may take.
    pub next_token_seconds: u64,
    /// Seconds that the whole answer may take.
    pub timeout_seconds: u64,
}

impl Default for GenerateSettings {
    fn default() -> GenerateSettings {
        GenerateSettings {
            url: String::new(),
            model: String::new(),
            key_variable: String::new(),
            template: String::new(),
            max_tokens: 0,
            temperature: 0.0,
            first_token_seconds: 60,
            next_token_seconds: 30,
            timeout_seconds: 600,
        }
    }
}

impl GenerateSettings {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let temperature = self.temperature;
        let fits = (0.0..=2.0).contains(&temperature);
        range(fits, "generate.temperature", temperature.to_string(), "0 to 2")?;
        let has_model = self.url.is_empty() || !self.model.is_empty();
        range(has_model, "generate.model", self.model.clone(), "the name of a model")?;
        for (key, seconds) in [
            ("generate.first_token_seconds", self.first_token_seconds),
            ("generate.next_token_seconds", self.next_token_seconds),
            ("generate.timeout_seconds", self.timeout_seconds),
        ] {
            range(seconds > 0, key, seconds.to_string(), "at least 1")?;
        }
        Ok(())
    }
}
