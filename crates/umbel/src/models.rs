//! Settings → the models they name, fetched or connected to.
//!
//! Invariant: what a setting leaves open is what the model or its server says.

use crate::config::{EmbedBackend, EmbedSettings, GenerateSettings, RerankBackend, RerankSettings};
use crate::embed::local::LocalEmbedder;
use crate::embed::remote::{self as embed_remote, RemoteEmbedder};
use crate::embed::{EmbedError, Embedder};
use crate::generate::remote::{self as generate_remote, RemoteGenerator};
use crate::generate::{GenerateError, Generator};
use crate::local::LocalOptions;
use crate::model::{FetchOptions, ModelError, ModelSpec, Progress, fetch};
use crate::remote::Endpoint;
use crate::rerank::local::LocalReranker;
use crate::rerank::remote::{self as rerank_remote, RemoteReranker};
use crate::rerank::{RerankError, Reranker};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Receives the progress of a download.
pub type OnFetch<'a> = &'a mut (dyn FnMut(Progress) + Send);

/// The model that embeds.
///
/// # Errors
/// It cannot be fetched or loaded, or its server does not answer as it should.
pub async fn embedder(
    settings: &EmbedSettings,
    progress: OnFetch<'_>,
) -> Result<Arc<dyn Embedder>, ModelsError> {
    let api = match settings.backend {
        EmbedBackend::Local => {
            let options = LocalOptions { int8: settings.int8, ..LocalOptions::default() };
            let folder = folder(&settings.model, progress)?;
            return Ok(Arc::new(LocalEmbedder::load(&folder, &options)?));
        }
        EmbedBackend::OpenAi => embed_remote::Api::OpenAi,
        EmbedBackend::Tei => embed_remote::Api::Tei,
    };
    let options = embed_remote::RemoteOptions {
        api,
        endpoint: endpoint(
            &settings.url,
            &settings.key_variable,
            settings.timeout_seconds,
            settings.retries,
        ),
        model: (api == embed_remote::Api::OpenAi).then(|| settings.model.clone()),
        batch_texts: at_least_one(settings.batch),
        concurrency: at_least_one(settings.concurrency),
        query_prefix: EmbedSettings::prefix(&settings.query_prefix),
        passage_prefix: EmbedSettings::prefix(&settings.passage_prefix),
        dimension: NonZero::new(settings.dimension),
        max_tokens: NonZero::new(settings.max_tokens).map(NonZero::get),
        ..embed_remote::RemoteOptions::tei("")
    };
    Ok(Arc::new(RemoteEmbedder::connect(options).await?))
}

/// The model that reranks; `None` where the settings want none.
///
/// # Errors
/// It cannot be fetched or loaded, or its server does not answer as it should.
pub async fn reranker(
    settings: &RerankSettings,
    progress: OnFetch<'_>,
) -> Result<Option<Arc<dyn Reranker>>, ModelsError> {
    let api = match settings.backend {
        RerankBackend::None => return Ok(None),
        RerankBackend::Local => {
            let folder = folder(&settings.model, progress)?;
            return Ok(Some(Arc::new(LocalReranker::load(&folder, &LocalOptions::default())?)));
        }
        RerankBackend::Cohere => rerank_remote::Api::Cohere,
        RerankBackend::Jina => rerank_remote::Api::Jina,
        RerankBackend::Tei => rerank_remote::Api::Tei,
    };
    let model = (!settings.model.is_empty()).then(|| settings.model.clone());
    let options = rerank_remote::RemoteOptions {
        endpoint: endpoint(
            &settings.url,
            &settings.key_variable,
            settings.timeout_seconds,
            settings.retries,
        ),
        ..rerank_remote::RemoteOptions::new(api, "", model)
    };
    Ok(Some(Arc::new(RemoteReranker::connect(options).await?)))
}

/// The model that answers; `None` where the settings name none.
///
/// # Errors
/// The address is none, or there is no key where one is said to be.
pub fn generator(settings: &GenerateSettings) -> Result<Option<Arc<dyn Generator>>, ModelsError> {
    if settings.url.is_empty() {
        return Ok(None);
    }
    let options = generate_remote::RemoteOptions {
        endpoint: endpoint(
            &settings.url,
            &settings.key_variable,
            settings.timeout_seconds,
            Endpoint::new("").retries,
        ),
        first_token_timeout: Duration::from_secs(settings.first_token_seconds),
        next_token_timeout: Duration::from_secs(settings.next_token_seconds),
        ..generate_remote::RemoteOptions::new("", settings.model.as_str())
    };
    Ok(Some(Arc::new(RemoteGenerator::new(options)?)))
}

/// The folder of a model, fetched if need be.
fn folder(model: &str, progress: OnFetch<'_>) -> Result<PathBuf, ModelsError> {
    let (spec, options) = (ModelSpec::parse(model)?, FetchOptions::from_env()?);
    Ok(fetch(&spec, &options, &mut |step| progress(step))?)
}

fn endpoint(url: &str, key_variable: &str, timeout_seconds: u64, retries: u32) -> Endpoint {
    Endpoint {
        key_variable: (!key_variable.is_empty()).then(|| key_variable.to_owned()),
        timeout: Duration::from_secs(timeout_seconds),
        retries,
        ..Endpoint::new(url)
    }
}

fn at_least_one(n: usize) -> NonZero<usize> {
    NonZero::new(n).unwrap_or(NonZero::<usize>::MIN)
}

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelsError {
    /// It cannot be fetched.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model that embeds.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// The model that reranks.
    #[error(transparent)]
    Rerank(#[from] RerankError),
    /// The model that answers.
    #[error(transparent)]
    Generate(#[from] GenerateError),
}

impl ModelsError {
    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            ModelsError::Model(error) => error.hint().map(str::to_owned),
            ModelsError::Embed(error) => error.hint(),
            ModelsError::Rerank(error) => error.hint(),
            ModelsError::Generate(error) => error.hint(),
        }
    }
}
