//! What the engine did and knows → the JSON that commands print. Answers have theirs in the engine.
//!
//! Invariant: fields may be added, never renamed.

use serde::Serialize;
use std::collections::BTreeMap;
use umbel::engine::ingest::{IngestReport, Plan, Skipped};
use umbel::engine::inspect::{Distribution, Histogram, Sample, Stats};
use umbel::engine::log::DayStats;
use umbel::engine::wire::{SpanJson, level};

#[derive(Debug, Serialize)]
pub(crate) struct IndexJson {
    documents: usize,
    unchanged: usize,
    added: usize,
    updated: usize,
    removed: usize,
    leaves: usize,
    embedded: usize,
    skipped: Vec<SkippedJson>,
    warnings: Vec<WarningJson>,
    interrupted: bool,
}

#[derive(Debug, Serialize)]
struct SkippedJson {
    path: String,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct WarningJson {
    doc: String,
    warning: String,
}

/// What ingestion did.
pub(crate) fn index(report: &IngestReport) -> IndexJson {
    IndexJson {
        documents: report.documents,
        unchanged: report.unchanged,
        added: report.added,
        updated: report.updated,
        removed: report.removed,
        leaves: report.leaves,
        embedded: report.embedded,
        skipped: skipped(&report.skipped),
        warnings: warnings(&report.warnings),
        interrupted: report.interrupted,
    }
}

fn skipped(skipped: &[Skipped]) -> Vec<SkippedJson> {
    let row =
        |s: &Skipped| SkippedJson { path: s.path.clone(), reason: s.reason.clone(), hint: s.hint };
    skipped.iter().map(row).collect()
}

fn warnings(warnings: &[(String, String)]) -> Vec<WarningJson> {
    let row = |(doc, warning): &(String, String)| WarningJson {
        doc: doc.clone(),
        warning: warning.clone(),
    };
    warnings.iter().map(row).collect()
}

/// What ingestion would do: lists where [`IndexJson`] has counts.
#[derive(Debug, Serialize)]
pub(crate) struct PlanJson {
    added: Vec<String>,
    updated: Vec<String>,
    removed: Vec<String>,
    unchanged: usize,
    leaves: usize,
    embedded: usize,
    skipped: Vec<SkippedJson>,
    warnings: Vec<WarningJson>,
}

/// What ingestion would do.
pub(crate) fn plan(plan: &Plan) -> PlanJson {
    PlanJson {
        added: plan.added.clone(),
        updated: plan.updated.clone(),
        removed: plan.removed.clone(),
        unchanged: plan.unchanged,
        leaves: plan.leaves,
        embedded: plan.embedded,
        skipped: skipped(&plan.skipped),
        warnings: warnings(&plan.warnings),
    }
}

#[derive(Debug, Serialize)]
struct DistributionJson {
    min: u32,
    p10: u32,
    p50: u32,
    p90: u32,
    max: u32,
}

impl From<Distribution> for DistributionJson {
    fn from(Distribution { min, p10, p50, p90, max, .. }: Distribution) -> DistributionJson {
        DistributionJson { min, p10, p50, p90, max }
    }
}

#[derive(Debug, Serialize)]
struct ClassJson {
    tokens: String,
    count: usize,
}

#[derive(Debug, Serialize)]
struct BeforeMergeJson {
    chunks: usize,
    tokens: DistributionJson,
    histogram: Vec<ClassJson>,
}

#[derive(Debug, Serialize)]
struct SourceJson {
    name: String,
    root: String,
    documents: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct StatsJson {
    documents: usize,
    leaves: usize,
    tokens: usize,
    sources: Vec<SourceJson>,
    model: Option<String>,
    leaf_tokens: DistributionJson,
    leaf_histogram: Vec<ClassJson>,
    before_merge: BeforeMergeJson,
    empty_bodies: usize,
    heading_only: usize,
    across_top_level: usize,
    children_per_parent: serde_json::Map<String, serde_json::Value>,
    tree_depth: serde_json::Map<String, serde_json::Value>,
    level_tokens: BTreeMap<&'static str, LevelJson>,
    whole_sections_share: Option<f64>,
    satisfiable_share: Option<f64>,
    can_fire_share: Option<f64>,
    greedy_parents: usize,
    documents_with_warnings: usize,
    advice: Vec<String>,
}

#[derive(Debug, Serialize)]
struct LevelJson {
    nodes: usize,
    tokens: DistributionJson,
}

/// Leaves to be read.
#[derive(Debug, Serialize)]
pub(crate) struct SamplesJson {
    sample: Vec<SampleJson>,
}

#[derive(Debug, Serialize)]
struct SampleJson {
    doc: String,
    span: SpanJson,
    tokens: u32,
    heading_path: Vec<String>,
    headings: Vec<String>,
    text: String,
}

/// Leaves to be read.
pub(crate) fn samples(samples: &[Sample]) -> SamplesJson {
    let row = |sample: &Sample| SampleJson {
        doc: sample.document.clone(),
        span: sample.span.into(),
        tokens: sample.tokens,
        heading_path: sample.heading_path.clone(),
        headings: sample.headings.clone(),
        text: sample.text.clone(),
    };
    SamplesJson { sample: samples.iter().map(row).collect() }
}

fn counts(counts: &BTreeMap<usize, usize>) -> serde_json::Map<String, serde_json::Value> {
    counts.iter().map(|(n, count)| (n.to_string(), (*count).into())).collect()
}

fn classes(histogram: &Histogram) -> Vec<ClassJson> {
    histogram
        .0
        .iter()
        .map(|(tokens, count)| ClassJson { tokens: tokens.clone(), count: *count })
        .collect()
}

/// Counts over a whole store.
pub(crate) fn stats(stats: &Stats) -> StatsJson {
    let source = |(source, documents): &(umbel::catalog::Source, usize)| SourceJson {
        name: source.name.clone(),
        root: source.root.display().to_string(),
        documents: *documents,
    };
    StatsJson {
        documents: stats.documents,
        leaves: stats.leaves,
        tokens: stats.tokens,
        sources: stats.sources.iter().map(source).collect(),
        model: stats.model.clone(),
        leaf_tokens: stats.leaf_tokens.into(),
        leaf_histogram: classes(&stats.leaf_histogram),
        before_merge: BeforeMergeJson {
            chunks: stats.before_merge.n,
            tokens: stats.before_merge.into(),
            histogram: classes(&stats.before_histogram),
        },
        empty_bodies: stats.empty_bodies,
        heading_only: stats.heading_only,
        across_top_level: stats.across_top_level,
        children_per_parent: counts(&stats.children_per_parent),
        tree_depth: counts(&stats.tree_depth),
        level_tokens: stats
            .level_tokens
            .iter()
            .map(|(kind, tokens)| {
                (level(*kind), LevelJson { nodes: tokens.n, tokens: (*tokens).into() })
            })
            .collect(),
        whole_sections_share: stats.whole_sections_share,
        satisfiable_share: stats.merging.satisfiable_share(),
        can_fire_share: stats.merging.can_fire_share(),
        greedy_parents: stats.merging.greedy,
        documents_with_warnings: stats.documents_with_warnings,
        advice: stats.advice.clone(),
    }
}

/// What searches did, by day.
#[derive(Debug, Serialize)]
pub(crate) struct LogJson {
    days: Vec<DayJson>,
    unreadable_lines: usize,
}

#[derive(Debug, Serialize)]
struct DayJson {
    day: String,
    queries: usize,
    fired: usize,
    fire_rate: f64,
    could_not_fire: usize,
    near_misses: usize,
    blocked: usize,
    empty: usize,
    shortfall: usize,
    tokens: DistributionJson,
    examined: DistributionJson,
    took_us: DistributionJson,
    steps_us: BTreeMap<String, DistributionJson>,
}

/// What searches did, by day.
pub(crate) fn log(days: &[DayStats], unreadable_lines: usize) -> LogJson {
    let row = |day: &DayStats| DayJson {
        day: day.day.to_string(),
        queries: day.queries,
        fired: day.fired,
        fire_rate: day.fire_rate(),
        could_not_fire: day.could_not_fire,
        near_misses: day.nearly,
        blocked: day.blocked,
        empty: day.empty,
        shortfall: day.short,
        tokens: day.tokens.into(),
        examined: day.examined.into(),
        took_us: day.took_us.into(),
        steps_us: day.step_us.iter().map(|(step, &us)| (step.clone(), us.into())).collect(),
    };
    LogJson { days: days.iter().map(row).collect(), unreadable_lines }
}
