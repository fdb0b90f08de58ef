//! `umbel eval collapse`: a run's candidates with and without collapse, by each policy.

use super::replay::{Shelf, changed, ranker};
use super::score::{change, interval_words, words};
use super::{bootstrap, read_run};
use crate::args::Args;
use crate::args::eval::EvalCollapse;
use crate::output::{Output, number, usage};
use serde::Serialize;
use umbel::config::Config;
use umbel_eval::collapse::{Effect, Report, System, UNCOLLAPSED, Wanted, name, report};
use umbel_eval::compare::{By, Comparison, Figure, Options};
use umbel_eval::interval::Level;
use umbel_eval::measure::Measure;
use umbel_eval::replay::{Ranker, assemble, rank};
use umbel_eval::run::{Identity, Run};
use umbel_eval::share::points;

#[derive(Serialize)]
struct CollapseJson<'r> {
    identity: &'r Identity,
    queries: usize,
    /// The policy of the run.
    policy: &'static str,
    /// Leaves that a list is read to.
    k_prime: usize,
    /// Distinct clusters that are wanted of them.
    depth: usize,
    top: usize,
    report: &'r Report,
    readings: Vec<String>,
}

pub(super) async fn run(args: &Args, asked: &EvalCollapse, output: &Output) -> anyhow::Result<u8> {
    if !matches!(asked.measure, Measure::Success(..)) {
        return Err(usage(
            format!("`{}` cannot be credited to copies", asked.measure),
            "name one such as `--metric 'Success(any>=0.5)'`",
        ));
    }
    let run = read_run(&asked.run)?;
    if run.identity.clusters.is_none() {
        return Err(usage(
            "no duplicate was marked in the store of the run: there is nothing to collapse",
            "mark them with `umbel dupes run`, then make the run again with `umbel eval run`",
        ));
    }
    let config = changed(&run.identity, &[])?;
    let shelf = Shelf::open(&args.store, &run).await?;
    let (ranking, assembling) = (ranker(&config, &run.identity), config.assemble(None));
    let wanted = Wanted {
        top: asked.top,
        success: asked.measure,
        options: Options {
            measures: Vec::new(),
            by: By::Nothing,
            bootstrap: bootstrap(asked.resampling),
            power: Level::POWER,
        },
    };
    let found = report(&run, &wanted, |entry, candidates, policy| {
        let ranker = Ranker { policy, ..ranking };
        let ranked = rank(candidates, &shelf.standings(entry, &config), &ranker);
        assemble(&ranked, &shelf.library(entry), &assembling)
    })
    .map_err(|error| usage(error.to_string(), error.hint()))?;
    if output.is_json() {
        output.json(&CollapseJson {
            identity: &run.identity,
            queries: run.entries.len(),
            policy: name(ranking.policy),
            k_prime: ranking.k_prime,
            depth: ranking.depth,
            top: asked.top.get(),
            readings: found.effects.iter().map(|effect| effect.reading.to_string()).collect(),
            report: &found,
        })?;
    } else {
        print(&run, &found, &config, output);
    }
    Ok(0)
}

fn print(run: &Run, found: &Report, config: &Config, output: &Output) {
    let search = &config.settings().search;
    if let Some(clusters) = &run.identity.clusters {
        output.line(format!(
            "{} queries; cluster run {} ({}), k' = {}, depth {}, policy {}",
            number(run.entries.len()),
            clusters.run,
            clusters.method,
            search.k_prime,
            search.depth,
            name(config.settings().collapse.policy()),
        ));
    }
    output.line(row("", found.systems.iter().map(|system| system.name.as_str())));
    let measures = found.systems.first().map(|system| system.figures.len()).unwrap_or_default();
    for at in 0..measures {
        let cells: Vec<(&str, String)> =
            found.systems.iter().filter_map(|system| cell(system, at)).collect();
        let Some((measure, _)) = cells.first() else { continue };
        output.line(row(measure, cells.iter().map(|(_, value)| value.as_str())));
    }
    for effect in &found.effects {
        print_effect(effect, output);
    }
}

/// A row: what it is of, and a cell for each system.
fn row<'c>(of: &str, cells: impl Iterator<Item = &'c str>) -> String {
    format!("{of:<26}{}", cells.map(|cell| format!("{cell:>13}")).collect::<String>())
}

/// A figure of a system: shares in per cent, anything else as it is.
fn cell(system: &System, at: usize) -> Option<(&str, String)> {
    let (measure, figure) = system.figures.get(at)?;
    let parsed: Measure = measure.parse().ok()?;
    let value = match figure {
        Figure::Count { share, .. } => share.proportion().map(points),
        Figure::Mean { mean: Some(mean), .. } if parsed.describe().range.1 == Some(1.0) => {
            Some(points(*mean))
        }
        Figure::Mean { mean, .. } => mean.map(|mean| format!("{mean:.1}")),
    };
    Some((measure, value.unwrap_or_else(|| "none".to_owned())))
}

fn print_effect(effect: &Effect, output: &Output) {
    output.line(format!("\n{} against {UNCOLLAPSED}: {}", effect.policy, effect.reading));
    for (credit, comparison) in [("judged copy", &effect.judged), ("any copy", &effect.any)] {
        for line in lines(comparison) {
            output.line(format!("  {credit:<12} {line}"));
        }
    }
}

/// What came of a policy by one credit.
fn lines(comparison: &Comparison) -> Vec<String> {
    let (Some(all), Ok(measure)) =
        (comparison.strata.first(), comparison.measure.parse::<Measure>())
    else {
        return Vec::new();
    };
    let mut lines = vec![
        format!("{}", all.verdict),
        format!("{} → {}", words(&all.a, measure), words(&all.b, measure)),
    ];
    if let Some(difference) = &all.difference {
        let interval = difference.exact.or(difference.bootstrap);
        let interval =
            interval.map(|i| format!(", {}", interval_words(&i, measure))).unwrap_or_default();
        lines.push(format!("Δ {}{interval}", change(difference.mean, measure)));
    }
    lines
}
