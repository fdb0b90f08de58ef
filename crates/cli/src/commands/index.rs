//! `umbel index` and `umbel remove`.

use super::watch::Watch;
use super::{configuration, embedder, not_held};
use crate::args::{self, Args};
use crate::interrupt::{self, INTERRUPTED};
use crate::output::{Output, counted, documents_and_leaves, number, usage};
use crate::wire;
use std::path::Path;
use umbel::engine::ingest::{IngestReport, IngestRequest, Plan, Skipped, plan};
use umbel::engine::{Engine, EngineError, peek, wipe};
use umbel::read::rules::Rules;

pub(crate) async fn run(args: &Args, index: &args::Index, output: &Output) -> anyhow::Result<u8> {
    let requests = requests(index)?;
    let config = configuration(args, &[])?;
    if !index.dry_run {
        not_held(args)?;
    }
    let model = if index.lexical { None } else { Some(embedder(&config, output).await?) };
    interrupt::listen()?;
    let bar = output.progress();
    if index.dry_run {
        let plan =
            plan(&args.store, &config, model.as_deref(), &requests, &|step| bar.show(step)).await?;
        drop(bar);
        print_plan(&plan, output)?;
        return Ok(if interrupt::go_on().is_break() { INTERRUPTED } else { 0 });
    }
    if index.rebuild {
        wipe(&args.store)?;
    }
    let step = |step| bar.show(step);
    let engine = Engine::open(&args.store, config.clone(), model.clone(), &step).await?;
    for warning in engine.warnings() {
        output.warning(warning);
    }
    let report = engine.ingest(&requests, &step).await?;
    drop(engine);
    drop(bar);
    print(&report, output)?;
    if report.interrupted {
        return Ok(INTERRUPTED);
    }
    if index.watch {
        let watch = Watch { store: &args.store, config: &config, model, requests: &requests };
        watch.run(output).await?;
    }
    Ok(0)
}

/// What was typed, as sources to take in.
fn requests(index: &args::Index) -> anyhow::Result<Vec<IngestRequest>> {
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
    let rules = index.meta.as_deref().map(rules).transpose()?;
    let request = |path: &std::path::PathBuf| IngestRequest {
        path: path.clone(),
        source: index.source.clone(),
        rules: rules.clone(),
    };
    Ok(index.paths.iter().map(request).collect())
}

fn rules(file: &Path) -> anyhow::Result<Rules> {
    let text = fs_err::read_to_string(file).map_err(|error| {
        usage(format!("the rules cannot be read: {error}"), "give a file with `--meta FILE`")
    })?;
    Rules::parse(&text).map_err(|error| {
        usage(
            format!("`{}`: {error}", file.display()),
            "`umbel index --help` says what such a file holds",
        )
    })
}

/// Says what ingestion did.
pub(crate) fn print(report: &IngestReport, output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        return output.json(&wire::index(report));
    }
    print_warnings(&report.skipped, &report.warnings, output);
    output.line(format!(
        "{}: {} added, {} updated, {} removed, {} unchanged; {} embedded",
        documents_and_leaves(report.documents, report.leaves),
        number(report.added),
        number(report.updated),
        number(report.removed),
        number(report.unchanged),
        number(report.embedded),
    ));
    print_other_formats(&report.skipped, output);
    if report.interrupted {
        output.warning("stopped: what was read is committed; run the same command again to go on");
    } else if report.documents == 0 {
        output.warning(format!("no document was found: {READ} are read"));
    }
    Ok(())
}

/// What is read, by extension.
const READ: &str = "Markdown, MDX, plain text, HTML, PDF and office files";

fn print_plan(plan: &Plan, output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        return output.json(&wire::plan(plan));
    }
    print_warnings(&plan.skipped, &plan.warnings, output);
    for (sign, paths) in [("+", &plan.added), ("~", &plan.updated), ("-", &plan.removed)] {
        for path in paths {
            output.line(format!("{sign} {path}"));
        }
    }
    output.line(format!(
        "would be: {} added, {} updated, {} removed, {} unchanged; {} written, {} embedded",
        number(plan.added.len()),
        number(plan.updated.len()),
        number(plan.removed.len()),
        number(plan.unchanged),
        counted(plan.leaves, "leaf", "leaves"),
        number(plan.embedded),
    ));
    print_other_formats(&plan.skipped, output);
    Ok(())
}

/// The files that were meant to be read and are not, each with the reason.
pub(super) fn print_skipped(skipped: &[Skipped], output: &Output) {
    for Skipped { path, reason, hint, .. } in skipped.iter().filter(|skipped| skipped.broken) {
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        output.warning(format!("skipped `{path}`: {reason}{hint}"));
    }
}

fn print_warnings(skipped: &[Skipped], warnings: &[(String, String)], output: &Output) {
    print_skipped(skipped, output);
    for (document, warning) in warnings {
        output.warning(format!("`{document}`: {warning}"));
    }
}

fn print_other_formats(skipped: &[Skipped], output: &Output) {
    let others: Vec<_> = skipped.iter().filter(|skipped| !skipped.broken).collect();
    if let Some(first) = others.first() {
        output.line(format!(
            "{} files of other formats skipped, as `{}` (`--json` lists them)",
            others.len(),
            first.path
        ));
    }
}

pub(crate) async fn remove(
    args: &Args,
    remove: &args::Remove,
    output: &Output,
) -> anyhow::Result<u8> {
    peek(&args.store).await?;
    let bar = output.progress();
    let config = configuration(args, &[])?;
    let step = |step| bar.show(step);
    let engine = Engine::open(&args.store, config, None, &step).await?;
    let removed = engine.remove(&remove.name, &step).await?;
    if output.is_json() {
        output.json(&serde_json::json!({ "removed": removed }))?;
    } else {
        output.line(format!("{} documents removed", number(removed)));
    }
    Ok(0)
}
