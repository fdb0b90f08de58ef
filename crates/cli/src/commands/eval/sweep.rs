//! `umbel eval sweep` and `tune`: settings on a run's candidates → a row each, and the one to use.

use super::read_run;
use super::replay::{Shelf, changed, ranker};
use crate::args::Args;
use crate::args::eval::{EvalSweep, EvalTune, Grid, Values};
use crate::output::{Output, usage};
use serde::Serialize;
use std::num::NonZeroUsize;
use std::time::Instant;
use umbel::config::Config;
use umbel::core::merge::Satisfiability;
use umbel_eval::interval::Level;
use umbel_eval::measure::Measure;
use umbel_eval::replay::{assemble, rank};
use umbel_eval::run::{Identity, Run};
use umbel_eval::share::{Share, points};
use umbel_eval::sweep::{
    self, Recommendation, Row, Scored, Setting, Success, held_out, row, satisfiability, score,
};

const LEVELS: (Level, Level) = (Level::CONFIDENCE, Level::POWER);

pub(super) async fn run(args: &Args, asked: &EvalSweep, output: &Output) -> anyhow::Result<u8> {
    let swept = Swept::of(args, &asked.grid).await?;
    let rows: Vec<RowJson> = (0..swept.settings.len())
        .filter_map(|index| {
            let setting = swept.settings.get(index)?;
            let column = swept.scored.iter().filter_map(|query| query.get(index));
            let counted = *swept.satisfiability.get(index)?;
            let assemble_us = asked.latency.then(|| swept.latency_us(setting));
            Some(RowJson { row: row(setting, column, counted, LEVELS.0, LEVELS.1), assemble_us })
        })
        .collect();
    if output.is_json() {
        let (metric, identity) = (asked.grid.measure.to_string(), &swept.run.identity);
        output.json(&SweepJson { identity, metric, rows: &rows })?;
        return Ok(0);
    }
    output.line(format!("{}: with merging against the same setting without", asked.grid.measure));
    print_rows(&rows, output);
    for warning in rows.iter().filter_map(|row| cannot_fire(&row.row)) {
        output.warning(warning);
    }
    Ok(0)
}

#[derive(Serialize)]
struct SweepJson<'r> {
    identity: &'r Identity,
    metric: String,
    rows: &'r [RowJson],
}

#[derive(Serialize)]
struct RowJson {
    #[serde(flatten)]
    row: Row,
    #[serde(skip_serializing_if = "Option::is_none")]
    assemble_us: Option<f64>,
}

pub(super) async fn tune(args: &Args, asked: &EvalTune, output: &Output) -> anyhow::Result<u8> {
    if !(0.1..=0.9).contains(&asked.hold_out) {
        return Err(usage(
            format!("`--hold-out {}` leaves too little on one side", asked.hold_out),
            "hold out 0.1 to 0.9 of the queries",
        ));
    }
    let swept = Swept::of(args, &asked.grid).await?;
    let ids: Vec<&str> = swept.run.entries.iter().map(|entry| entry.id.as_str()).collect();
    let held = held_out(&ids, asked.hold_out, asked.seed);
    let Swept { settings, scored, satisfiability, .. } = &swept;
    let recommended = sweep::tune(settings, scored, &held, satisfiability, LEVELS);
    if output.is_json() {
        output.json(&TuneJson {
            identity: &swept.run.identity,
            metric: asked.grid.measure.to_string(),
            seed: asked.seed,
            setting: recommended.choices.first().and_then(|c| settings.get(c.setting)).map(flags),
            recommended: &recommended,
        })?;
    } else {
        print_recommendation(&recommended, settings, output);
    }
    Ok(u8::from(recommended.choices.is_empty()))
}

#[derive(Serialize)]
struct TuneJson<'r> {
    identity: &'r Identity,
    metric: String,
    seed: u64,
    setting: Option<String>,
    #[serde(flatten)]
    recommended: &'r Recommendation,
}

/// A run under each setting of a grid.
struct Swept {
    run: Run,
    shelf: Shelf,
    /// What the settings have in common.
    config: Config,
    settings: Vec<Setting>,
    /// Query by query, setting by setting.
    scored: Vec<Vec<Scored>>,
    satisfiability: Vec<Satisfiability>,
}

impl Swept {
    async fn of(args: &Args, grid: &Grid) -> anyhow::Result<Swept> {
        let Measure::Success(wanted, covered) = grid.measure else {
            return Err(usage(
                format!("`{}` is not a yes or no that a replay can give", grid.measure),
                "sweep by `Success(all>=0.95)`, `Success(any>=0.95)`, `Success(union>=0.5)` or `Success(any>0)`",
            ));
        };
        let run = read_run(&grid.run)?;
        let settings = settings(args, grid, &run.identity)?;
        let shelf = Shelf::open(&args.store, &run).await?;
        let success = Success { wanted, covered };
        let config = changed(&run.identity, &args.sets)?;
        let (scored, satisfiability) = measured(&run, &shelf, &config, &settings, success);
        Ok(Swept { run, shelf, config, settings, scored, satisfiability })
    }

    /// Microseconds that ranking and assembling take for a query, on average.
    fn latency_us(&self, setting: &Setting) -> f64 {
        let documents = |e| (self.shelf.library(e), self.shelf.standings(e, &self.config));
        let documents: Vec<_> = self.run.entries.iter().map(documents).collect();
        let start = Instant::now();
        for (entry, (library, standings)) in self.run.entries.iter().zip(&documents) {
            let ranked = rank(&entry.candidates, standings, &setting.ranker);
            assemble(&ranked, library, &setting.assemble);
        }
        start.elapsed().as_secs_f64() * 1e6 / documents.len().max(1) as f64
    }
}

/// Each query under each setting, and for how many nodes of all documents each setting's rule can fire.
fn measured(
    run: &Run,
    shelf: &Shelf,
    config: &Config,
    settings: &[Setting],
    success: Success,
) -> (Vec<Vec<Scored>>, Vec<Satisfiability>) {
    let scored = on_all_cores(&run.entries, |entry| {
        score(entry, &shelf.library(entry), &shelf.standings(entry, config), settings, success)
    });
    let trees: Vec<_> = shelf.all().map(|stored| &stored.document.tree).collect();
    let counted = on_all_cores(settings, |setting| satisfiability(trees.iter().copied(), setting));
    (scored, counted)
}

/// A run of a configuration under some settings: a row each.
pub(super) fn rows(
    run: &Run,
    shelf: &Shelf,
    config: &Config,
    settings: &[Setting],
    success: Success,
) -> Vec<Row> {
    let (scored, counted) = measured(run, shelf, config, settings, success);
    let columns = settings.iter().zip(counted).enumerate();
    let row = |(at, (setting, counted)): (usize, (&Setting, Satisfiability))| {
        let column = scored.iter().filter_map(|query| query.get(at));
        row(setting, column, counted, LEVELS.0, LEVELS.1)
    };
    columns.map(row).collect()
}

/// What comes of each item, in their order, worked out on all cores.
pub(super) fn on_all_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let part = items.len().div_ceil(cores).max(1);
    std::thread::scope(|scope| {
        let parts: Vec<_> = items
            .chunks(part)
            .map(|part| scope.spawn(|| part.iter().map(&work).collect::<Vec<R>>()))
            .collect();
        let done = parts
            .into_iter()
            .map(|part| part.join().expect("a panic of a part is one of the whole"));
        done.flatten().collect()
    })
}

/// Every combination of the values that are to be tried.
fn settings(args: &Args, grid: &Grid, run: &Identity) -> anyhow::Result<Vec<Setting>> {
    let mut settings = Vec::new();
    for varied in combinations(&axes(grid)?) {
        settings.push(setting(run, &args.sets, varied)?);
    }
    Ok(settings)
}

/// The settings of a run with some changed, and some varied.
pub(super) fn setting(
    run: &Identity,
    sets: &[String],
    varied: Vec<(String, String)>,
) -> anyhow::Result<Setting> {
    let pairs = varied.iter().map(|(key, value)| format!("{key}={value}"));
    let sets: Vec<String> = sets.iter().cloned().chain(pairs).collect();
    let config = changed(run, &sets)?;
    Ok(Setting { ranker: ranker(&config, run), assemble: config.assemble(None), varied })
}

/// What is varied: a key and its values.
type Axis = (String, Vec<String>);

fn axes(grid: &Grid) -> anyhow::Result<Vec<Axis>> {
    let mut axes: Vec<Axis> = Vec::new();
    for word in &grid.vary {
        let parsed = word.split_once('=').and_then(|(key, values)| {
            Some((key.trim().to_owned(), values.parse::<Values>().ok()?.0))
        });
        axes.push(parsed.ok_or_else(|| {
            usage(
                format!("`--vary {word}` is no key with values"),
                "write `--vary merge.max_merge_tokens=400,800`",
            )
        })?);
    }
    // A share means nothing under the other rule.
    let has_rule = axes.iter().any(|(key, _)| key == "merge.rule");
    let rule = match (&grid.ratio, &grid.base) {
        (Some(_), Some(_)) => {
            return Err(usage(
                "`--ratio` belongs to one rule and `--base` to the other",
                "sweep one after the other",
            ));
        }
        (Some(_), None) if !has_rule => Some("ratio"),
        (None, Some(_)) if !has_rule => Some("budget"),
        _ => None,
    };
    axes.extend(rule.map(|rule| ("merge.rule".to_owned(), vec![rule.to_owned()])));
    let flags = [
        ("search.fusion", &grid.fusion),
        ("search.lexical_weight", &grid.lexical_weight),
        ("search.depth", &grid.depth),
        ("search.budget", &grid.budget),
        ("merge.min_siblings", &grid.min_siblings),
        ("merge.ratio", &grid.ratio),
        ("merge.base", &grid.base),
    ];
    let flags = flags.into_iter().filter_map(|(key, values)| {
        values.as_ref().map(|Values(values)| (key.to_owned(), values.clone()))
    });
    axes.extend(flags);
    Ok(axes)
}

/// All combinations, the last axis running fastest; one without anything for no axis.
fn combinations(axes: &[Axis]) -> Vec<Vec<(String, String)>> {
    axes.iter().fold(vec![Vec::new()], |before, (key, values)| {
        let longer = |prefix: &Vec<(String, String)>| {
            let prefix = prefix.clone();
            values
                .iter()
                .map(move |value| {
                    prefix.iter().cloned().chain([(key.clone(), value.clone())]).collect()
                })
                .collect::<Vec<_>>()
        };
        before.iter().flat_map(longer).collect()
    })
}

/// A setting as it is typed: `--set merge.ratio=0.5 …`.
fn flags(setting: &Setting) -> String {
    let words: Vec<String> =
        setting.varied.iter().map(|(key, value)| format!("--set {key}={value}")).collect();
    words.join(" ")
}

/// A setting in a table: the values, with the last word of their keys.
fn short(setting: &[(String, String)]) -> String {
    if setting.is_empty() {
        return "as the run".to_owned();
    }
    let word = |(key, value): &(String, String)| {
        format!("{} {value}", key.rsplit('.').next().unwrap_or(key))
    };
    setting.iter().map(word).collect::<Vec<_>>().join(", ")
}

fn print_rows(rows: &[RowJson], output: &Output) {
    let widest =
        rows.iter().map(|row| short(&row.row.setting).len()).max().unwrap_or_default().max(7);
    output.line(format!(
        "{:<widest$} {:>14} {:>16} {:>16} {:>16} {:>7} {:>7} {:>9} {:>12} {:>9} {:>8}  on fired",
        "setting",
        "fired",
        "without",
        "with",
        "pooled",
        "tokens",
        "extra",
        "per fired",
        "audit",
        "satisfied",
        "can fire"
    ));
    for RowJson { row, assemble_us } in rows {
        let percent =
            |share: Share| share.percent().map_or_else(|| "none".to_owned(), |p| p + " %");
        let counted = |share: Share| format!("{}/{} {}", share.count(), share.of(), percent(share));
        let per_fired =
            row.extra_per_fired.map_or_else(|| "none".to_owned(), |t| format!("{t:.0}"));
        let effect = row.effect.map_or_else(String::new, |effect| {
            format!(", Δ {} to {}", points(effect.low), points(effect.high))
        });
        let took = assemble_us.map_or_else(String::new, |us| format!(", {us:.0} µs"));
        output.line(format!(
            "{:<widest$} {:>14} {:>16} {:>16} {:>16} {:>7.0} {:>7.0} {:>9} {:>12} {:>9} {:>8}  {}{effect}{took}",
            short(&row.setting),
            counted(row.fire_rate),
            counted(row.fired.a()),
            counted(row.fired.b()),
            counted(row.pooled),
            row.tokens,
            row.extra_tokens,
            per_fired,
            counted(row.audit),
            percent(row.satisfiable),
            percent(row.can_fire),
            row.verdict
        ));
    }
}

/// That a setting could not have fired, whatever was asked.
fn cannot_fire(row: &Row) -> Option<String> {
    let setting = short(&row.setting);
    match (row.satisfiable.count(), row.can_fire.count()) {
        _ if row.can_fire.of() == 0 => None,
        (0, _) => Some(format!(
            "{setting}: no parent can meet the rule in a list of this depth, so the fire rate is 0"
        )),
        (_, 0) => Some(format!(
            "{setting}: every parent that can meet the rule is too large to be merged"
        )),
        _ => None,
    }
}

fn print_recommendation(recommended: &Recommendation, settings: &[Setting], output: &Output) {
    let Recommendation { choices, chosen_on, held_out, n_choosing, n_held_out } = recommended;
    output.line(format!("{n_choosing} queries choose, {n_held_out} are held out"));
    let Some((best, setting)) =
        choices.first().and_then(|choice| Some((choice, settings.get(choice.setting)?)))
    else {
        output.line("nothing is recommended: no setting has an effect on fired queries whose lower bound is above 0");
        output.line("more fired queries would tell: raise `search.depth`, or judge queries whose evidence lies in several leaves of one parent");
        return;
    };
    output.line(format!("recommended: {}", flags(setting)));
    output.line(format!(
        "  the effect on fired queries is at least {} points, for {:.0} tokens more on each: {} points for 1,000 tokens",
        points(best.lower_bound),
        best.extra_per_fired,
        points(best.per_1000_tokens)
    ));
    for (name, row) in [("where it was chosen", chosen_on), ("held out", held_out)] {
        let Some(row) = row else { continue };
        let effect = row.effect.map_or_else(String::new, |effect| format!("  Δ {effect}"));
        output.line(format!(
            "{name}: {}, fired {}; without {}, with {}{effect}",
            row.verdict,
            row.fire_rate,
            row.fired.a(),
            row.fired.b()
        ));
    }
    if choices.len() > 1 {
        output.line("others with an effect above 0, by what they gain for each token:");
        for choice in choices.iter().skip(1).take(5) {
            let Some(setting) = settings.get(choice.setting) else { continue };
            output.line(format!(
                "  {}: at least {} points, {:.0} tokens",
                short(&setting.varied),
                points(choice.lower_bound),
                choice.extra_per_fired
            ));
        }
    }
}
