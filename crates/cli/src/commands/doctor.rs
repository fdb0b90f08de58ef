//! `umbel doctor`: looks at model, store and environment.

use super::configuration;
use crate::args::Args;
use crate::output::{Output, documents_and_leaves};
use umbel::config::Config;
use umbel::embed::Embedder as _;
use umbel::embed::local::{LocalEmbedder, LocalOptions};
use umbel::engine::peek;
use umbel::model::{FetchOptions, ModelSpec, fetch};

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
        state: model(&config.settings().embed.model).map_err(|e| format!("{e:#}")),
    });
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

/// The configured model, from the cache or a folder only: a doctor fetches nothing.
fn model(name: &str) -> anyhow::Result<String> {
    let spec = ModelSpec::parse(name)?;
    let mut options = FetchOptions::from_env()?;
    options.offline = true;
    let folder = fetch(&spec, &options, &mut |_| {})?;
    let embedder = LocalEmbedder::load(&folder, &LocalOptions::default())?;
    Ok(format!("{} in {}", embedder.describe().model, folder.display()))
}
