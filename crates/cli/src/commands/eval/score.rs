//! `umbel eval score`: a run → its figures.

use super::{bootstrap, read_run, refused};
use crate::args::eval::{EvalScore, Resampling};
use crate::output::{Output, number};
use serde::Serialize;
use umbel_eval::compare::{Figure, figure};
use umbel_eval::interval::Interval;
use umbel_eval::measure::{Description, Measure};
use umbel_eval::run::{Identity, Run, Unit};
use umbel_eval::share::{Share, points};

/// What the summary of a run that has just been made resamples by.
pub(super) const FEW_RESAMPLES: Resampling = Resampling { seed: 0, resamples: 1_000 };

/// What is measured if nothing is asked for, where the run can answer it.
const USUAL: [&str; 10] = [
    "Success(all>=0.95)",
    "EvidenceRecall",
    "Precision",
    "IoU",
    "nDCG@10",
    "R@10",
    "MRR",
    "UniqueClusters@10",
    "Tokens",
    "Coherence",
];

pub(super) fn run(score: &EvalScore, output: &Output) -> anyhow::Result<u8> {
    let run = read_run(&score.run)?;
    for measure in &score.measures {
        measure
            .supported_by(&run.identity)
            .map_err(|error| refused(&score.run, &error, error.hint()))?;
    }
    print(&run, &score.measures, score.resampling, output)
}

#[derive(Serialize)]
struct ScoreJson<'r> {
    identity: &'r Identity,
    queries: usize,
    fire_rate: Share,
    metrics: Vec<MetricJson>,
}

#[derive(Serialize)]
struct MetricJson {
    metric: String,
    about: Description,
    without_figure: usize,
    figure: Figure,
}

/// Prints the figures of a run by some measures, or by the usual ones.
pub(super) fn print(
    run: &Run,
    measures: &[Measure],
    resampling: Resampling,
    output: &Output,
) -> anyhow::Result<u8> {
    let usual = USUAL.iter().filter_map(|name| name.parse::<Measure>().ok());
    let measures: Vec<Measure> = if measures.is_empty() {
        usual.filter(|measure| measure.supported_by(&run.identity).is_ok()).collect()
    } else {
        measures.to_vec()
    };
    let options = bootstrap(resampling);
    let metrics: Vec<MetricJson> = measures
        .iter()
        .map(|&measure| {
            let values: Vec<f64> =
                run.entries.iter().filter_map(|e| measure.value(e, &e.delivery)).collect();
            MetricJson {
                metric: measure.to_string(),
                about: measure.describe(),
                without_figure: run.entries.len() - values.len(),
                figure: figure(&values, measure, &options),
            }
        })
        .collect();
    let fire_rate = Share::count_of(&run.entries, |entry| entry.delivery.fired());
    if output.is_json() {
        let identity = &run.identity;
        output.json(&ScoreJson { identity, queries: run.entries.len(), fire_rate, metrics })?;
        return Ok(0);
    }
    let queries = number(run.entries.len());
    output.line(match run.identity.unit {
        Unit::Leaf => format!("{queries} queries; the rule fired on {fire_rate}"),
        Unit::Document => format!("{queries} queries, by document"),
    });
    for (MetricJson { metric, figure, without_figure, .. }, &measure) in
        metrics.iter().zip(&measures)
    {
        let left_out = if *without_figure > 0 {
            format!("  (no figure for {without_figure})")
        } else {
            String::new()
        };
        output.line(format!("{metric:<20} {}{left_out}", words(figure, measure)));
    }
    Ok(0)
}

/// A figure in words: counts first, then the share, then the interval; a mean in the unit of its measure.
pub(super) fn words(figure: &Figure, measure: Measure) -> String {
    let between = |interval: &Option<Interval>| {
        interval
            .map(|interval| format!("  {}", interval_words(&interval, measure)))
            .unwrap_or_default()
    };
    match figure {
        Figure::Count { share, interval } => format!("{share}{}", between(interval)),
        Figure::Mean { mean: None, .. } => "nothing to average".to_owned(),
        Figure::Mean { mean: Some(mean), n, interval } => {
            format!("{}  n = {n}{}", amount(*mean, measure), between(interval))
        }
    }
}

/// The difference of two values in the unit of their measure: points for shares.
pub(super) fn change(value: f64, measure: Measure) -> String {
    if is_share(measure) { format!("{} points", points(value)) } else { format!("{value:.1}") }
}

/// A value in the unit of its measure: per cent for shares.
pub(super) fn amount(value: f64, measure: Measure) -> String {
    if is_share(measure) { format!("{} %", points(value)) } else { format!("{value:.1}") }
}

/// An interval in the unit of its measure.
pub(super) fn interval_words(interval: &Interval, measure: Measure) -> String {
    if is_share(measure) {
        return interval.to_string();
    }
    let Interval { low, high, method, level } = interval;
    format!("{low:.1} to {high:.1} ({method}, {level})")
}

/// Whether a measure's values are shares.
pub(super) fn is_share(measure: Measure) -> bool {
    measure.describe().range.1 == Some(1.0)
}
