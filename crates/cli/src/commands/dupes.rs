//! `umbel dupes`.

mod calibrate;
mod policies;
mod show;

use super::{configuration, embedder, not_held};
use crate::args::{self, Args, DupesCommand, DupesMethod};
use crate::interrupt;
use crate::output::{Output, counted, number};
use umbel::catalog::{ClusterRun, RunId};
use umbel::dedup::Method;
use umbel::engine::inspect::Inspector;
use umbel::engine::{Engine, OnProgress, peek};
use umbel::metadata::show_date;

pub(crate) async fn run(args: &Args, dupes: &args::Dupes, output: &Output) -> anyhow::Result<u8> {
    match &dupes.what {
        DupesCommand::Run(run) => mark(args, run, output).await,
        DupesCommand::Revert { run } => revert(args, *run, output).await,
        DupesCommand::Runs => runs(args, output).await,
        DupesCommand::Show(show) => show::run(args, show, output).await,
        DupesCommand::Report => show::report(args, output).await,
        DupesCommand::Calibrate(calibrate) => calibrate::run(args, calibrate, output).await,
        DupesCommand::Policies(policies) => policies::run(args, policies, output).await,
    }
}

/// What was typed, over the defaults.
fn method(
    typed: &DupesMethod,
    jaccard: Option<f64>,
    cosine: Option<f64>,
    floor: Option<f64>,
) -> Method {
    let Method::Near { jaccard: default } = Method::default() else { return Method::Exact };
    if typed.exact {
        Method::Exact
    } else if typed.semantic {
        let (default_cosine, default_floor) = Method::SEMANTIC;
        Method::Semantic {
            cosine: cosine.unwrap_or(default_cosine),
            floor: floor.unwrap_or(default_floor),
        }
    } else {
        Method::Near { jaccard: jaccard.unwrap_or(default) }
    }
}

/// Opens a store to change its clusters: with the model where vectors are compared.
async fn open(
    args: &Args,
    method: Option<Method>,
    output: &Output,
    progress: OnProgress<'_>,
) -> anyhow::Result<Engine> {
    let info = peek(&args.store).await?;
    not_held(args)?;
    let config = configuration(args, &[])?;
    let needs_model = matches!(method, Some(Method::Semantic { .. })) && info.model.is_some();
    let model = if needs_model { Some(embedder(&config, output).await?) } else { None };
    interrupt::listen()?;
    let engine = Engine::open(&args.store, config, model, progress).await?;
    for warning in engine.warnings() {
        output.warning(warning);
    }
    Ok(engine)
}

async fn mark(args: &Args, run: &args::DupesRun, output: &Output) -> anyhow::Result<u8> {
    let method = method(&run.method, run.jaccard, run.cosine, run.floor);
    let bar = output.progress();
    let step = |step| bar.show(step);
    let engine = open(args, Some(method), output, &step).await?;
    let run = engine.mark_duplicates(method, &step).await?;
    drop(engine);
    drop(bar);
    let singletons = run.leaves.saturating_sub(run.members);
    if output.is_json() {
        output.json(&serde_json::json!({
            "run": run.id.to_string(),
            "leaves": run.leaves,
            "clusters": run.clusters,
            "members": run.members,
            "singletons": singletons,
            "method": method,
        }))?;
    } else {
        output.line(format!(
            "run {}: {method}: {} of {} in {}; {} say what no other does",
            run.id,
            number(run.members),
            counted(run.leaves, "leaf", "leaves"),
            counted(run.clusters, "cluster", "clusters"),
            number(singletons),
        ));
    }
    Ok(0)
}

async fn revert(args: &Args, run: RunId, output: &Output) -> anyhow::Result<u8> {
    let bar = output.progress();
    let step = |step| bar.show(step);
    let engine = open(args, None, output, &step).await?;
    let in_effect = engine.revert_duplicates(run, &step).await?.map(|run| run.to_string());
    drop(engine);
    drop(bar);
    if output.is_json() {
        output.json(&serde_json::json!({ "reverted": run.to_string(), "in_effect": in_effect }))?;
    } else {
        let now = in_effect.map_or_else(
            || "every leaf is its own cluster".to_owned(),
            |run| format!("run {run} is in effect"),
        );
        output.line(format!("run {run} is reverted: {now}"));
    }
    Ok(0)
}

async fn runs(args: &Args, output: &Output) -> anyhow::Result<u8> {
    let inspector = Inspector::open(&args.store)?;
    let in_effect = inspector.describe().await?.cluster_run;
    let runs = inspector.cluster_runs().await?;
    if output.is_json() {
        let row = |run: &ClusterRun| {
            let method: serde_json::Value = serde_json::from_str(&run.method).unwrap_or_default();
            serde_json::json!({
                "run": run.id.to_string(),
                "at": show_date(run.at),
                "method": method,
                "leaves": run.leaves,
                "clusters": run.clusters,
                "members": run.members,
                "reverted": run.reverted,
                "in_effect": in_effect == Some(run.id),
            })
        };
        output.json(&serde_json::json!({ "runs": runs.iter().map(row).collect::<Vec<_>>() }))?;
        return Ok(u8::from(runs.is_empty()));
    }
    for run in &runs {
        let method = serde_json::from_str::<Method>(&run.method);
        let state = match (run.reverted, in_effect == Some(run.id)) {
            (true, _) => "reverted",
            (false, true) => "in effect",
            (false, false) => "",
        };
        output.line(format!(
            "{:<5} {}  {:>9} {:>9} in clusters  {state:<9}  {}",
            run.id.to_string(),
            show_date(run.at),
            counted(run.clusters, "cluster", "clusters"),
            counted(run.members, "leaf", "leaves"),
            method.map_or_else(|_| run.method.clone(), |method| method.to_string()),
        ));
    }
    if runs.is_empty() {
        output.line("no run has looked for duplicates: `umbel dupes run` does");
    }
    Ok(u8::from(runs.is_empty()))
}
