//! One module a command: typed words → one engine call → output.

pub(crate) mod ask;
pub(crate) mod check;
pub(crate) mod compact;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod dupes;
pub(crate) mod eval;
pub(crate) mod index;
pub(crate) mod inspect;
pub(crate) mod log;
pub(crate) mod model;
mod overfetch;
pub(crate) mod replay;
pub(crate) mod search;
mod watch;

use crate::args::Args;
use crate::output::Output;
use std::path::Path;
use std::sync::Arc;
use umbel::config::Config;
use umbel::embed::Embedder;
use umbel::engine::{Engine, EngineError, peek};
use umbel::model::Progress;
use umbel::models::{self, ModelsError};
use umbel::store::{Layout, lock};

/// The configuration that file, environment and flags give, later ones winning.
pub(crate) fn configuration(args: &Args, flags: &[String]) -> anyhow::Result<Config> {
    let sets: Vec<String> = args.sets.iter().chain(flags).cloned().collect();
    configured(args, &sets)
}

/// The same with these settings in place of those that were typed.
pub(crate) fn configured(args: &Args, sets: &[String]) -> anyhow::Result<Config> {
    let default = Path::new("umbel.toml");
    let file = args.config.as_deref().or_else(|| default.exists().then_some(default));
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    Ok(Config::load(file, &environment, sets)?)
}

/// The configured model, fetched or connected to if need be.
pub(crate) async fn embedder(
    config: &Config,
    output: &Output,
) -> anyhow::Result<Arc<dyn Embedder>> {
    let bar = output.progress();
    let mut show = |step: Progress| bar.download(step.done_bytes, step.total_bytes);
    Ok(models::embedder(&config.settings().embed, &mut show).await?)
}

/// Fails at once where another process holds the store, before a model is fetched or loaded.
pub(crate) fn not_held(args: &Args) -> anyhow::Result<()> {
    let layout = Layout::new(&args.store);
    if layout.exists() {
        lock(&layout).map_err(EngineError::from)?;
    }
    Ok(())
}

/// Opens a store for searching: with the model if it has vectors.
pub(crate) async fn open_for_search(
    args: &Args,
    config: &Config,
    output: &Output,
) -> anyhow::Result<Engine> {
    let info = peek(&args.store).await?;
    not_held(args)?;
    let embedder = match info.model {
        Some(_) => Some(embedder(config, output).await?),
        None => None,
    };
    let bar = output.progress();
    let mut show = |step: Progress| bar.download(step.done_bytes, step.total_bytes);
    let reranker = models::reranker(&config.settings().rerank, &mut show).await;
    let engine =
        Engine::open(&args.store, config.clone(), embedder, &|step| bar.show(step)).await?;
    Ok(match reranker {
        Ok(Some(reranker)) => engine.with_reranker(reranker),
        Ok(None) => engine,
        // A server that is away costs its step, as it would in the middle of a search.
        Err(ModelsError::Rerank(error)) => engine.without_reranker(&error),
        Err(error) => return Err(error.into()),
    })
}
