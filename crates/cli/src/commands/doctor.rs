//! `umbel doctor`: looks at model, store and environment.

use super::configuration;
use crate::args::Args;
use crate::output::{Output, documents_and_leaves};
use umbel::config::{Config, EmbedBackend, EmbedSettings, RerankBackend, Settings};
use umbel::embed::Embedder as _;
use umbel::embed::local::{LocalEmbedder, LocalOptions};
use umbel::engine::peek;
use umbel::model::{FetchOptions, ModelSpec, fetch};
use umbel::models;

/// What was looked at, and what came of it.
struct Finding {
    what: &'static str,
    state: Result<String, String>,
}

pub(crate) async fn run(args: &Args, output: &Output) -> anyhow::Result<u8> {
    let config = configuration(args, &[]);
    let mut findings = vec![
        Finding { what: "version", state: Ok(env!("CARGO_PKG_VERSION").to_owned()) },
        Finding {
            what: "configuration",
            state: config.as_ref().map(Config::hash).map_err(|e| format!("{e:#}")),
        },
    ];
    let config = config.unwrap_or_default();
    findings.push(Finding {
        what: "model",
        state: model(&config.settings().embed).await.map_err(|e| format!("{e:#}")),
    });
    findings.extend(others(config.settings()).await);
    let store = match peek(&args.store).await {
        Ok(info) => Ok(format!(
            "{}, {} to be applied, vectors: {}",
            documents_and_leaves(info.catalog.documents, info.catalog.leaves),
            info.catalog.pending,
            info.model.as_deref().unwrap_or("none")
        )),
        Err(error) => Err(format!("{error} (`umbel index FOLDER` makes one)")),
    };
    findings.push(Finding { what: "store", state: store });
    findings.push(Finding {
        what: "cores",
        state: std::thread::available_parallelism()
            .map(|n| n.to_string())
            .map_err(|error| error.to_string()),
    });
    let broken = findings.iter().any(|finding| finding.state.is_err());
    if output.is_json() {
        let rows = findings.iter().map(|finding| {
            let (ok, text) = match &finding.state {
                Ok(text) => (true, text),
                Err(text) => (false, text),
            };
            serde_json::json!({ "what": finding.what, "ok": ok, "detail": text })
        });
        output.json(&rows.collect::<Vec<_>>())?;
    } else {
        for finding in &findings {
            match &finding.state {
                Ok(text) => output.line(format!("ok       {:<14} {text}", finding.what)),
                Err(text) => output.line(format!("missing  {:<14} {text}", finding.what)),
            }
        }
    }
    Ok(u8::from(broken))
}

/// The reranker and the generator, where there are any. A reranker behind HTTP is asked who it is; nothing else is asked or
/// fetched.
async fn others(settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    let rerank = &settings.rerank;
    if rerank.backend == RerankBackend::Local {
        findings.push(Finding { what: "reranker", state: Ok(format!("{}, local", rerank.model)) });
    } else if rerank.backend != RerankBackend::None {
        let found = models::reranker(rerank, &mut |_| {}).await;
        let state = found.map(|found| {
            let model = found.map(|found| found.describe().model.clone()).unwrap_or_default();
            format!("{model} at {}", rerank.url)
        });
        findings.push(Finding {
            what: "reranker",
            state: state.map_err(|error| format!("{:#}", anyhow::Error::from(error))),
        });
    }
    let generate = &settings.generate;
    if !generate.url.is_empty() {
        let state = models::generator(generate)
            .map(|_| format!("{} at {}, not asked", generate.model, generate.url))
            .map_err(|error| format!("{:#}", anyhow::Error::from(error)));
        findings.push(Finding { what: "generator", state });
    }
    findings
}

/// The configured model: from the cache or a folder only, as a doctor fetches nothing, or behind HTTP.
async fn model(settings: &EmbedSettings) -> anyhow::Result<String> {
    if settings.backend != EmbedBackend::Local {
        let embedder = models::embedder(settings, &mut |_| {}).await?;
        return Ok(format!("{} at {}", embedder.describe().model, settings.url));
    }
    let spec = ModelSpec::parse(&settings.model)?;
    let mut options = FetchOptions::from_env()?;
    options.offline = true;
    let folder = fetch(&spec, &options, &mut |_| {})?;
    let options = LocalOptions { int8: settings.int8, ..LocalOptions::default() };
    let embedder = LocalEmbedder::load(&folder, &options)?;
    Ok(format!("{} in {}", embedder.describe().model, folder.display()))
}
