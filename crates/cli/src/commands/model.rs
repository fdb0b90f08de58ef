//! `umbel model`.

use super::configuration;
use crate::args::{self, Args, ModelCommand};
use crate::output::Output;
use umbel::embed::Embedder as _;
use umbel::embed::local::{LocalEmbedder, LocalOptions};
use umbel::model::{FetchOptions, ModelSpec, fetch};

pub(crate) fn run(args: &Args, model: &args::Model, output: &Output) -> anyhow::Result<u8> {
    let ModelCommand::Pull { model } = &model.command;
    let configured = configuration(args, &[])?.settings().embed.model.clone();
    let spec = ModelSpec::parse(model.as_deref().unwrap_or(&configured))?;
    let bar = output.progress();
    let folder = fetch(&spec, &FetchOptions::from_env()?, &mut |progress| {
        bar.download(progress.done_bytes, progress.total_bytes);
    })?;
    let embedder = LocalEmbedder::load(&folder, &LocalOptions::default())?;
    drop(bar);
    let info = embedder.describe();
    if output.is_json() {
        output.json(&serde_json::json!({
            "model": info.model,
            "dimension": info.dimension,
            "max_tokens": info.max_tokens,
            "folder": folder.display().to_string(),
        }))?;
    } else {
        output.line(format!(
            "{}: {} dimensions, texts of up to {} tokens",
            info.model, info.dimension, info.max_tokens
        ));
        output.line(format!("in {}", folder.display()));
    }
    Ok(0)
}
