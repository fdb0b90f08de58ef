//! `umbel index` and `umbel remove`.

use super::{configuration, embedder, not_held};
use crate::args::{self, Args};
use crate::output::{Output, number, usage};
use crate::wire;
use umbel::engine::ingest::{IngestReport, IngestRequest};
use umbel::engine::{Engine, EngineError, peek, wipe};

pub(crate) async fn run(args: &Args, index: &args::Index, output: &Output) -> anyhow::Result<u8> {
    if index.source.is_some() && index.paths.len() > 1 {
        return Err(usage(
            "`--source` names one source, got several paths",
            "give one path, or leave `--source` out",
        ));
    }
    for path in &index.paths {
        if !path.exists() {
            return Err(EngineError::MissingPath { path: path.clone() }.into());
        }
    }
    let config = configuration(args, &[])?;
    not_held(args)?;
    let model = if index.lexical { None } else { Some(embedder(&config, output)?) };
    if index.rebuild {
        wipe(&args.store)?;
    }
    let bar = output.progress();
    let engine = Engine::open(&args.store, config, model, &|progress| bar.show(progress)).await?;
    for warning in engine.warnings() {
        output.warning(warning);
    }
    let requests: Vec<IngestRequest> = index
        .paths
        .iter()
        .map(|path| IngestRequest { path: path.clone(), source: index.source.clone() })
        .collect();
    let report = engine.ingest(&requests, &|progress| bar.show(progress)).await?;
    drop(bar);
    print(&report, output)?;
    Ok(0)
}

/// Says what ingestion did.
pub(crate) fn print(report: &IngestReport, output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        return output.json(&wire::index(report));
    }
    for skipped in report.skipped.iter().filter(|skipped| skipped.broken) {
        output.warning(format!("skipped `{}`: {}", skipped.path, skipped.reason));
    }
    for (document, warning) in &report.warnings {
        output.warning(format!("`{document}`: {warning}"));
    }
    output.line(format!(
        "{} documents, {} leaves: {} added, {} updated, {} removed, {} unchanged; {} embedded",
        number(report.documents),
        number(report.leaves),
        number(report.added),
        number(report.updated),
        number(report.removed),
        number(report.unchanged),
        number(report.embedded),
    ));
    let others: Vec<_> = report.skipped.iter().filter(|skipped| !skipped.broken).collect();
    if let Some(first) = others.first() {
        output.line(format!(
            "{} files of other formats skipped, as `{}` (`--json` lists them)",
            others.len(),
            first.path
        ));
    }
    if report.documents == 0 {
        output.warning("no document was found: `*.md`, `*.markdown` and `*.txt` are read");
    }
    Ok(())
}

pub(crate) async fn remove(
    args: &Args,
    remove: &args::Remove,
    output: &Output,
) -> anyhow::Result<u8> {
    peek(&args.store).await?;
    let bar = output.progress();
    let engine =
        Engine::open(&args.store, configuration(args, &[])?, None, &|progress| bar.show(progress))
            .await?;
    let removed = engine.remove(&remove.name, &|progress| bar.show(progress)).await?;
    if output.is_json() {
        output.json(&serde_json::json!({ "removed": removed }))?;
    } else {
        output.line(format!("{} documents removed", number(removed)));
    }
    Ok(0)
}
