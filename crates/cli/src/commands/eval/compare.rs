//! `umbel eval compare`: runs, or a printed table → differences, and what they come to.

use super::score::{change, interval_words, words};
use super::{bootstrap, read, read_run, refused};
use crate::args::eval::{Comparing, EvalCompare, SplitBy};
use crate::output::{Output, usage};
use serde::Serialize;
use std::path::Path;
use umbel_eval::compare::{
    By, Comparison, Difference, Named, Options, Stratum, TableDifference, TableReport, Test,
    Verdict, compare, table,
};
use umbel_eval::interval::{CONNOR, Level};
use umbel_eval::measure::Measure;
use umbel_eval::run::{Identity, Run};
use umbel_eval::share::{Share, points};
use umbel_eval::strata::Table;

pub(super) fn run(asked: &EvalCompare, output: &Output) -> anyhow::Result<u8> {
    match &asked.table {
        Some(path) => run_table(path, output),
        None => run_runs(asked, output),
    }
}

#[derive(Serialize)]
struct CompareJson<'r> {
    runs: Vec<RunJson<'r>>,
    seed: u64,
    resamples: usize,
    level: Level,
    power: Level,
    comparisons: &'r [Comparison],
    verdicts: Vec<VerdictJson<'r>>,
}

#[derive(Serialize)]
struct RunJson<'r> {
    name: &'r str,
    identity: &'r Identity,
}

#[derive(Serialize)]
struct VerdictJson<'r> {
    a: &'r str,
    b: &'r str,
    measure: &'r str,
    stratum: &'r str,
    verdict: String,
}

fn run_runs(asked: &EvalCompare, output: &Output) -> anyhow::Result<u8> {
    if asked.runs.len() < 2 {
        return Err(usage(
            "one run alone compares with nothing",
            "name two, or make the other one with `umbel eval replay RUN --set merge.enabled=false --out PLAIN`",
        ));
    }
    let runs: Vec<(String, Run)> = asked
        .runs
        .iter()
        .map(|path| Ok((path.display().to_string(), read_run(path)?)))
        .collect::<anyhow::Result<_>>()?;
    let options = options(&asked.how, &[Measure::FULL]);
    let named: Vec<Named<'_>> = runs.iter().map(|(name, run)| (name.as_str(), run)).collect();
    let Some((&base, others)) = named.split_first() else { return Ok(1) };
    let comparisons =
        compare(base, others, &options).map_err(|error| usage(error.to_string(), error.hint()))?;
    if output.is_json() {
        output.json(&CompareJson {
            runs: named
                .iter()
                .map(|(name, run)| RunJson { name, identity: &run.identity })
                .collect(),
            seed: options.bootstrap.seed,
            resamples: options.bootstrap.resamples,
            level: options.bootstrap.level,
            power: options.power,
            verdicts: comparisons.iter().flat_map(verdicts).collect(),
            comparisons: &comparisons,
        })?;
    } else {
        for comparison in &comparisons {
            print(comparison, output);
        }
        output.line(format!("\n{}", resampled(&options)));
    }
    // Strata that do not rebuild the pooled counts describe something else than these queries.
    Ok(u8::from(comparisons.iter().any(|comparison| comparison.closes == Some(false))))
}

/// How runs are compared; by `usual` where nothing is asked for.
pub(super) fn options(how: &Comparing, usual: &[Measure]) -> Options {
    Options {
        measures: if how.measures.is_empty() { usual.to_vec() } else { how.measures.clone() },
        by: match how.by {
            SplitBy::Fired => By::Fired,
            SplitBy::Group => By::Group,
            SplitBy::Nothing => By::Nothing,
        },
        bootstrap: bootstrap(how.resampling),
        power: Level::POWER,
    }
}

/// What intervals and p-values rest on.
pub(super) fn resampled(options: &Options) -> String {
    let Options { bootstrap, .. } = options;
    format!(
        "bootstrap: {} samples, seed {}; p by Holm over what is decided upon",
        bootstrap.resamples, bootstrap.seed
    )
}

fn verdicts(comparison: &Comparison) -> impl Iterator<Item = VerdictJson<'_>> {
    comparison.strata.iter().chain([&comparison.pooled]).map(|stratum| VerdictJson {
        a: &comparison.a,
        b: &comparison.b,
        measure: &comparison.measure,
        stratum: &stratum.name,
        verdict: stratum.verdict.to_string(),
    })
}

/// Prints what came of one measure.
pub(super) fn print(comparison: &Comparison, output: &Output) {
    let Ok(measure) = comparison.measure.parse::<Measure>() else { return };
    output.line(format!("\n{measure}: A {}, B {}", comparison.a, comparison.b));
    for stratum in comparison.strata.iter().chain([&comparison.pooled]) {
        print_stratum(stratum, measure, output);
    }
    if let Some(effect) = &comparison.effect {
        let on_fired = effect.on_fired.map_or_else(|| "none".to_owned(), points);
        output.line(format!(
            "fire rate {} × Δ fired {on_fired} = Δ overall {} points",
            effect.fire_rate,
            points(effect.overall)
        ));
    }
    match comparison.closes {
        Some(true) => output.line("closure: the strata rebuild the pooled counts to the query"),
        Some(false) => output.line("closure: FAILED, the strata do not rebuild the pooled counts"),
        None => {}
    }
    for note in &comparison.notes {
        output.line(format!("note: {note}"));
    }
}

fn print_stratum(stratum: &Stratum, measure: Measure, output: &Output) {
    output.line(format!("  {}: {}", stratum.name, stratum.verdict));
    if stratum.n == 0 {
        return;
    }
    if stratum.verdict == Verdict::Identical {
        output.line(format!("    both {}", words(&stratum.a, measure)));
        return;
    }
    output.line(format!("    A {}", words(&stratum.a, measure)));
    output.line(format!("    B {}", words(&stratum.b, measure)));
    let left_out = stratum.without_figure;
    let without =
        if left_out > 0 { format!(", {left_out} without a figure") } else { String::new() };
    output.line(format!(
        "    same passages on {} of {}{without}",
        stratum.identical,
        stratum.n + left_out
    ));
    if let Some(difference) = &stratum.difference {
        for line in lines(difference, measure) {
            output.line(format!("    {line}"));
        }
    }
}

/// What there is to say of a difference.
fn lines(difference: &Difference, measure: Measure) -> Vec<String> {
    let mut lines = vec![format!("Δ {}", change(difference.mean, measure))];
    for interval in difference.bootstrap.iter().chain(&difference.exact) {
        lines.push(format!("  {}", interval_words(interval, measure)));
    }
    let test = match (difference.test, difference.pairs) {
        (Test::Mcnemar, Some(pairs)) => {
            format!("McNemar, exact: only A {}, only B {}", pairs.only_a, pairs.only_b)
        }
        _ => "bootstrap".to_owned(),
    };
    let corrected =
        difference.p_corrected.map(|p| format!(", {p:.4} corrected")).unwrap_or_default();
    lines.push(format!("p = {:.4}{corrected}  ({test})", difference.p));
    let detectable = difference.detectable.map_or_else(
        || "so few queries show no difference at all".to_owned(),
        |detectable| format!("so many queries show {} or more", change(detectable, measure)),
    );
    let needed =
        difference.needed.map(|n| format!("; this difference needs n = {n}")).unwrap_or_default();
    lines.push(format!("{detectable}{needed}"));
    lines.push(format!("  {}", difference.formula));
    lines
}

#[derive(Serialize)]
struct TableJson {
    closes: bool,
    systems: Vec<SystemJson>,
    differences: Vec<TableDifference>,
    verdicts: Vec<String>,
}

#[derive(Serialize)]
struct SystemJson {
    name: String,
    fired: Option<Share>,
    unfired: Option<Share>,
    pooled: Option<String>,
    error: Option<String>,
}

fn run_table(path: &Path, output: &Output) -> anyhow::Result<u8> {
    let given: Table = serde_json::from_str(&read(path)?).map_err(|error| {
        let hint = r#"{"fired": 16, "unfired": 384, "systems": [{"name": "flat", "fired": "56.3", "unfired": "74.2", "pooled": "73.5"}]}"#;
        refused(path, &error, hint)
    })?;
    let report = table(&given, Level::CONFIDENCE, Level::POWER);
    if output.is_json() {
        output.json(&table_json(&report))?;
    } else {
        print_table(&report, output);
    }
    let first_error = report.systems.iter().find_map(|system| system.rebuilt.as_ref().err());
    if let Some(error) = first_error {
        output.warning(error.to_string());
        output.hint(error.hint());
    }
    Ok(u8::from(!report.closes()))
}

fn table_json(report: &TableReport) -> TableJson {
    let system = |system: &umbel_eval::compare::SystemReport| SystemJson {
        name: system.name.clone(),
        fired: system.strata.map(|(fired, _)| fired),
        unfired: system.strata.map(|(_, unfired)| unfired),
        pooled: system.rebuilt.as_ref().ok().map(|rebuilt| rebuilt.pooled.to_string()),
        error: system.rebuilt.as_ref().err().map(ToString::to_string),
    };
    TableJson {
        closes: report.closes(),
        systems: report.systems.iter().map(system).collect(),
        verdicts: report.differences.iter().map(|d| d.verdict.to_string()).collect(),
        differences: report.differences.clone(),
    }
}

fn print_table(report: &TableReport, output: &Output) {
    for system in &report.systems {
        match &system.rebuilt {
            Ok(rebuilt) => output.line(format!(
                "{}: closes; fired {}, unfired {}, pooled {}",
                system.name, rebuilt.fired, rebuilt.unfired, rebuilt.pooled
            )),
            Err(error) => output.line(format!("{}: DOES NOT CLOSE: {error}", system.name)),
        }
    }
    for difference in &report.differences {
        let TableDifference { a, b, fired_a, fired_b, .. } = difference;
        output.line(format!("\nfired: {a} {fired_a}, {b} {fired_b}: {}", difference.verdict));
        for interval in &difference.fired {
            output.line(format!("  Δ {interval}"));
        }
        output.line("  which query went where is not in a table: the shares count as independent");
        output.line(format!("  {CONNOR}"));
        let overall = points(difference.overall);
        output.line(match difference.by_fire_rate {
            Some(route) => format!(
                "Δ overall {overall} points by the counts, {} by fire rate × Δ fired",
                points(route)
            ),
            None => format!("Δ overall {overall} points by the counts; unfired queries differ too"),
        });
        for note in &difference.notes {
            output.line(format!("note: {note}"));
        }
    }
}
