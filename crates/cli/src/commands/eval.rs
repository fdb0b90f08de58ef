//! `umbel eval`: files and a store in, numbers out.

mod answer;
mod bench;
mod collapse;
mod compare;
mod diagnose;
mod import;
mod replay;
mod report;
mod run;
mod score;
mod sweep;

pub(super) use replay::other_index;

use crate::args::Args;
use crate::args::eval::{Benchmark, Eval, EvalCheck, EvalCommand, EvalOutcomes, Resampling};
use crate::output::{Output, counted, usage};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use umbel::catalog::StoredDocument;
use umbel::engine::inspect::Inspector;
use umbel_eval::interval::{Bootstrap, Level};
use umbel_eval::judgment::{self, Checked, Claim, Judgment, Page, excerpted};
use umbel_eval::run::{self as runs, Run};
use umbel_eval::share::Share;

pub(crate) async fn run(args: &Args, eval: &Eval, output: &Output) -> anyhow::Result<u8> {
    match &eval.what {
        EvalCommand::Check(check) => check_judgments(args, check, output).await,
        EvalCommand::Run(run) => run::run(args, run, output).await,
        EvalCommand::Replay(replay) => replay::run(args, replay, output).await,
        EvalCommand::Outcomes(outcomes) => give_outcomes(outcomes, output),
        EvalCommand::Answer(asked) => answer::run(args, asked, output).await,
        EvalCommand::Score(score) => score::run(score, output),
        EvalCommand::Compare(compare) => compare::run(compare, output),
        EvalCommand::Sweep(sweep) => sweep::run(args, sweep, output).await,
        EvalCommand::Tune(tune) => sweep::tune(args, tune, output).await,
        EvalCommand::Relevance(asked) => diagnose::relevance(args, asked, output).await,
        EvalCommand::Misses(asked) => diagnose::misses(args, asked, output).await,
        EvalCommand::Harvest(asked) => diagnose::harvest(args, asked, output).await,
        EvalCommand::FireRate(asked) => diagnose::fire_rate(args, asked, output),
        EvalCommand::Collapse(asked) => collapse::run(args, asked, output).await,
        EvalCommand::Report(asked) => report::run(args, asked, output).await,
        EvalCommand::Import(import) => import::run(import, output),
        EvalCommand::Bench(bench) => match &bench.which {
            Benchmark::Chroma(chroma) => bench::chroma(args, chroma, output).await,
        },
    }
}

/// A mistake in a file that was named: the file, what is wrong with it, and what to do.
fn refused(path: &Path, error: &dyn Error, hint: impl Into<String>) -> anyhow::Error {
    let mut words = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push(error.to_string());
        cause = error.source();
    }
    usage(format!("`{}`: {}", path.display(), words.join(": ")), hint)
}

/// The text of a file that was named.
fn read(path: &Path) -> anyhow::Result<String> {
    fs_err::read_to_string(path).map_err(|error| {
        let reason = error.to_string();
        usage(reason, "name a file of UTF-8 text that is there")
    })
}

/// 16 hexadecimal digits of a text.
fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().chars().take(16).collect()
}

fn bootstrap(resampling: Resampling) -> Bootstrap {
    let Resampling { seed, resamples } = resampling;
    Bootstrap { resamples: resamples as usize, seed, level: Level::CONFIDENCE }
}

/// The run of a file.
fn read_run(path: &Path) -> anyhow::Result<Run> {
    runs::parse(&read(path)?).map_err(|error| refused(path, &error, error.hint()))
}

/// Writes a run, whole or not at all.
fn write_run(path: &Path, run: &Run) -> anyhow::Result<()> {
    let mut text = serde_json::to_string(&run.identity)? + "\n";
    for entry in &run.entries {
        text += &serde_json::to_string(entry)?;
        text.push('\n');
    }
    let half = path.with_extension("half");
    fs_err::write(&half, text)?;
    Ok(fs_err::rename(&half, path)?)
}

/// The judgments of a file, and its text.
fn read_judgments(path: &Path) -> anyhow::Result<(String, Vec<Judgment<Claim>>)> {
    let text = read(path)?;
    let judgments = judgment::parse(&text).map_err(|error| refused(path, &error, error.hint()))?;
    Ok((text, judgments))
}

/// The documents of a store with these names, by name.
async fn documents(
    inspector: &Inspector,
    names: &BTreeSet<&str>,
) -> anyhow::Result<BTreeMap<String, StoredDocument>> {
    let entries = inspector.list().await?;
    let ids: Vec<_> =
        entries.iter().filter(|e| names.contains(e.name.as_str())).map(|e| e.id).collect();
    let loaded = inspector.documents(&ids).await?;
    Ok(loaded.into_iter().map(|stored| (stored.entry.name.clone(), stored)).collect())
}

/// The judgments of a file that can be placed in the store's documents, and these documents by name. One that cannot is an error,
/// unless it is allowed.
pub(crate) async fn judgments_in_store(
    args: &Args,
    path: &Path,
    allow_unjudged: bool,
    output: &Output,
) -> anyhow::Result<(Vec<Judgment>, BTreeMap<String, StoredDocument>)> {
    let (_, judgments) = read_judgments(path)?;
    let names = judgments.iter().flat_map(|j| &j.relevant).map(|r| r.doc.as_str()).collect();
    let documents = documents(&Inspector::open(&args.store)?, &names).await?;
    let checked = place(&judgments, &documents);
    allowed(path, &checked, allow_unjudged, output)?;
    Ok((checked.judged, documents))
}

/// Judgments beside the documents that they name.
fn place<'j>(
    judgments: &'j [Judgment<Claim>],
    documents: &BTreeMap<String, StoredDocument>,
) -> Checked<'j> {
    judgment::check(judgments, |doc| {
        let document = &documents.get(doc)?.document;
        Some(Page { text: &document.text, tree: Some(&document.tree) })
    })
}

/// Why judgments cannot be used: how many, and the first ones with their reasons.
fn unjudged(path: &Path, checked: &Checked<'_>) -> anyhow::Error {
    let share = checked.unjudged_share();
    let reasons: Vec<String> = checked.unjudged.iter().take(3).map(reason).collect();
    usage(
        format!(
            "`{}`: {share} of the judgments cannot be placed in this store: {}",
            path.display(),
            reasons.join("; ")
        ),
        if checked.judged.is_empty() {
            "index the documents that were judged, under the names that the judgments use (`umbel tree` lists them)"
        } else {
            "index the missing documents, or leave these queries out with --allow-unjudged"
        },
    )
}

fn reason(unjudged: &judgment::Unjudged<'_>) -> String {
    let faults: Vec<String> = unjudged.faults.iter().map(ToString::to_string).collect();
    format!("`{}`: {}", unjudged.judgment.id, faults.join(", "))
}

/// Refuses judgments that cannot all be placed, or says how many are left out.
fn allowed(
    path: &Path,
    checked: &Checked<'_>,
    allow_unjudged: bool,
    output: &Output,
) -> anyhow::Result<()> {
    if checked.judged.is_empty() || !(checked.unjudged.is_empty() || allow_unjudged) {
        return Err(unjudged(path, checked));
    }
    if !checked.unjudged.is_empty() {
        let left_out = counted(checked.unjudged.len(), "query is", "queries are");
        output.warning(format!("{left_out} left out: {}", checked.unjudged_share()));
    }
    Ok(())
}

#[derive(Serialize)]
struct CheckJson {
    judged: usize,
    unjudged: Share,
    moved: usize,
    reasons: Vec<ReasonJson>,
}

#[derive(Serialize)]
struct ReasonJson {
    id: String,
    reasons: Vec<String>,
}

async fn check_judgments(args: &Args, check: &EvalCheck, output: &Output) -> anyhow::Result<u8> {
    let (_, judgments) = read_judgments(&check.queries)?;
    let inspector = Inspector::open(&args.store)?;
    let names = judgments.iter().flat_map(|j| &j.relevant).map(|r| r.doc.as_str()).collect();
    let documents = documents(&inspector, &names).await?;
    let checked = place(&judgments, &documents);
    if let Some(out) = &check.out {
        let text_of = |doc: &str| documents.get(doc).map(|stored| stored.document.text.as_str());
        write_lines(out, &excerpted(&checked.judged, text_of))?;
    }
    if output.is_json() {
        let reason = |u: &judgment::Unjudged<'_>| ReasonJson {
            id: u.judgment.id.clone(),
            reasons: u.faults.iter().map(ToString::to_string).collect(),
        };
        output.json(&CheckJson {
            judged: checked.judged.len(),
            unjudged: checked.unjudged_share(),
            moved: checked.moved,
            reasons: checked.unjudged.iter().map(reason).collect(),
        })?;
    } else {
        output.line(format!("{} can be scored", counted(checked.judged.len(), "query", "queries")));
        if checked.moved > 0 {
            let moved = counted(checked.moved, "reference", "references");
            output.line(format!("{moved} found at another place, by the text"));
        }
        output.line(format!("unjudged: {}", checked.unjudged_share()));
        for unjudged in &checked.unjudged {
            output.line(format!("  {}", reason(unjudged)));
        }
    }
    Ok(u8::from(!checked.unjudged.is_empty()))
}

fn write_lines(path: &Path, lines: &[impl Serialize]) -> anyhow::Result<()> {
    let mut text = String::new();
    for line in lines {
        text += &serde_json::to_string(line)?;
        text.push('\n');
    }
    Ok(fs_err::write(path, text)?)
}

fn give_outcomes(outcomes: &EvalOutcomes, output: &Output) -> anyhow::Result<u8> {
    let mut run = read_run(&outcomes.run)?;
    let text = read(&outcomes.from)?;
    let given =
        run.give_outcomes(&text).map_err(|error| refused(&outcomes.from, &error, error.hint()))?;
    write_run(&outcomes.out, &run)?;
    if output.is_json() {
        output.json(&given)?;
    } else {
        output.line(format!("{} of the queries right", given.right));
        if given.without > 0 {
            output.warning(format!(
                "{} without an outcome: no figure is given for them",
                counted(given.without, "query", "queries")
            ));
        }
        if given.unknown > 0 {
            output.warning(format!(
                "{} of queries that the run does not hold",
                counted(given.unknown, "outcome", "outcomes")
            ));
        }
    }
    Ok(0)
}
