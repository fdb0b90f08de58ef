//! `umbel eval relevance`, `misses`, `harvest`, `fire-rate`: what judgments, a run and the log say of the rules.

use super::replay::{Shelf, changed, ranker};
use super::{judgments_in_store, read_run, write_lines};
use crate::args::Args;
use crate::args::eval::{EvalFireRate, EvalHarvest, EvalMisses, EvalRelevance, KindBy};
use crate::commands::configuration;
use crate::output::{Output, counted, number, usage};
use serde::Serialize;
use std::collections::BTreeMap;
use umbel::catalog::StoredDocument;
use umbel::config::Config;
use umbel::core::document::Document;
use umbel::engine::log::{Days, QueryLog, now};
use umbel::store::Layout;
use umbel_eval::interval::{Interval, Level, newcombe, wilson};
use umbel_eval::locate::is_for;
use umbel_eval::misses::{Misses, misses as count_misses};
use umbel_eval::relevance::{Kind, Parent, Quantiles, Relevance, relevance as measure};
use umbel_eval::replay::{assemble, rank};
use umbel_eval::run::Run;
use umbel_eval::share::{Share, points};

/// Queries that a slice should have before its verdicts say much: with half of them differing, 150 show about 16 points.
const ENOUGH: usize = 150;

pub(super) async fn relevance(
    args: &Args,
    asked: &EvalRelevance,
    output: &Output,
) -> anyhow::Result<u8> {
    let (judged, documents) =
        judgments_in_store(args, &asked.queries, asked.allow_unjudged, output).await?;
    let mut measured =
        measure(&judged, shelved(&documents), |doc| kind(doc, documents.get(doc), asked.by));
    measured.worst.truncate(asked.worst);
    if output.is_json() {
        output.json(&measured)?;
    } else {
        print_relevance(&measured, output);
    }
    Ok(0)
}

/// Documents by name.
fn shelved<'d>(
    documents: &'d BTreeMap<String, StoredDocument>,
) -> impl Fn(&str) -> Option<&'d Document> {
    move |doc| documents.get(doc).map(|stored| &stored.document)
}

/// What a document is grouped as.
pub(super) fn kind(doc: &str, stored: Option<&StoredDocument>, by: KindBy) -> String {
    let found = match by {
        KindBy::Folder => doc.rsplit_once('/').map(|(folder, _)| folder.to_owned()),
        KindBy::Connector => stored.and_then(|stored| stored.entry.metadata.connector.clone()),
    };
    found.unwrap_or_else(|| "none".to_owned())
}

fn print_relevance(measured: &Relevance, output: &Output) {
    let Relevance { all, kinds, worst } = measured;
    output.line(format!(
        "{:<16} {:>7} {:>7} {:>9} {:>25} {:>8} {:>8} {:>20}",
        "documents",
        "queries",
        "parents",
        "relevant",
        "p10 p25 p50 p75 p90",
        "tokens",
        "children",
        "evidence crosses cuts"
    ));
    for Kind { name, queries, expansions, held, parent_tokens, children, spanning, .. } in
        kinds.iter().chain([all])
    {
        let percent = |value: f64| format!("{:.0}", 100.0 * value);
        let quantiles = |q: &Quantiles| [q.p10, q.p25, q.p50, q.p75, q.p90].map(percent).join(" ");
        output.line(format!(
            "{name:<16} {queries:>7} {expansions:>7} {:>9} {:>25} {:>8} {:>8} {:>20}",
            held.map_or_else(|| "none".to_owned(), |held| format!("{} %", points(held.mean))),
            held.as_ref().map(quantiles).unwrap_or_default(),
            parent_tokens.map(|tokens| format!("{:.0}", tokens.mean)).unwrap_or_default(),
            children.map(|children| format!("{children:.1}")).unwrap_or_default(),
            spanning.to_string(),
        ));
    }
    for kind in kinds.iter().chain([all]) {
        output.line(format!("{}: {}", kind.name, kind.prediction));
    }
    if !worst.is_empty() {
        output.line("\nparents that bring most about something else; split these pages first:");
    }
    for Parent { doc, span: (start, end), tokens, held, queries, .. } in worst {
        let share = points(*held);
        let asked = counted(queries.len(), "query", "queries");
        let first: Vec<&str> = queries.iter().take(3).map(String::as_str).collect();
        output.line(format!(
            "  {doc}:{start}..{end}  {} tokens, {share} % relevant to {asked}: {}",
            number(*tokens),
            first.join(", ")
        ));
    }
}

pub(super) async fn misses(args: &Args, asked: &EvalMisses, output: &Output) -> anyhow::Result<u8> {
    let run = read_run(&asked.run)?;
    if run.entries.iter().all(|entry| entry.outcome.is_none()) {
        return Err(usage(
            "no query of the run has an outcome",
            "give it some with `umbel eval outcomes`",
        ));
    }
    let config = changed(&run.identity, &[])?;
    let shelf = Shelf::open(&args.store, &run).await?;
    let found = misses_of(&run, &shelf, &config);
    if output.is_json() {
        output.json(&found)?;
    } else {
        print_misses(&found, config.settings().merge.min_siblings, output);
    }
    Ok(0)
}

/// The badly answered queries of a run that was made with a configuration.
pub(super) fn misses_of(run: &Run, shelf: &Shelf, config: &Config) -> Misses {
    let ranker = ranker(config, &run.identity);
    let mut at_two = config.assemble(None);
    at_two.merge.min_siblings = 2;
    let min_siblings = config.settings().merge.min_siblings;
    count_misses(
        &run.entries,
        |doc| shelf.document(doc),
        min_siblings,
        |entry| {
            let ranked = rank(&entry.candidates, &shelf.standings(entry, config), &ranker);
            assemble(&ranked, &shelf.library(entry), &at_two)
        },
    )
}

fn print_misses(found: &Misses, min_siblings: usize, output: &Output) {
    let Misses { wrong, by_spread, not_retrieved, missed_merges, fire_at_two, queries } = found;
    output.line(format!("answered badly: {wrong}"));
    output.line("their evidence lies in");
    for (spread, share) in by_spread {
        output.line(format!("  {:<32} {share}", spread.to_string()));
    }
    output.line(format!("none of it was retrieved: {not_retrieved}"));
    output.line(format!(
        "missed merges, several leaves of one parent and fewer than {min_siblings} children retrieved: {missed_merges}"
    ));
    if missed_merges.count() > 0 && min_siblings > 2 {
        output.line(format!("  of these, min_siblings = 2 would have fired on {fire_at_two}"));
    }
    for miss in queries {
        let missed = if miss.missed_merge { ", missed merge" } else { "" };
        output.line(format!(
            "  {}: {}, retrieved {} of {}{missed}",
            miss.id,
            miss.spread,
            miss.retrieved.count(),
            miss.retrieved.of()
        ));
    }
}

#[derive(Serialize)]
struct HarvestJson {
    harvested: Share,
    enough: usize,
}

pub(super) async fn harvest(
    args: &Args,
    asked: &EvalHarvest,
    output: &Output,
) -> anyhow::Result<u8> {
    let (judged, documents) =
        judgments_in_store(args, &asked.queries, asked.allow_unjudged, output).await?;
    let config = configuration(args, &[])?;
    let (depth, room) = (config.settings().search.depth, config.pack(None).room());
    let merge = config.merge();
    let slice: Vec<_> = judged
        .iter()
        .filter(|j| is_for(&j.relevant, shelved(&documents), &merge, depth, room))
        .collect();
    write_lines(&asked.out, &slice)?;
    let harvested = Share::new(slice.len() as u64, judged.len() as u64)?;
    if output.is_json() {
        output.json(&HarvestJson { harvested, enough: ENOUGH })?;
    } else {
        output.line(format!("{harvested} of the judgments are for the rule"));
        if slice.len() < ENOUGH {
            output.line(format!(
                "label {} more whose evidence lies in several leaves of one parent: {ENOUGH} measure the rule directly",
                ENOUGH - slice.len()
            ));
        }
    }
    Ok(u8::from(slice.is_empty()))
}

#[derive(Serialize)]
struct FireRateJson {
    run: Share,
    run_interval: Option<Interval>,
    log: Share,
    log_interval: Option<Interval>,
    difference: Option<Interval>,
}

pub(super) fn fire_rate(args: &Args, asked: &EvalFireRate, output: &Output) -> anyhow::Result<u8> {
    let run = read_run(&asked.run)?;
    let of_run = Share::count_of(&run.entries, |entry| entry.delivery.fired());
    let days = asked.days.map_or_else(Days::default, |n| Days::last(n, now()));
    let (stats, _) = QueryLog::of(&Layout::new(&args.store)).stats(days)?;
    let sum = |of: fn(&umbel::engine::log::DayStats) -> usize| stats.iter().map(of).sum::<usize>();
    let of_log = Share::new(sum(|day| day.fired) as u64, sum(|day| day.queries) as u64)?;
    let level = Level::CONFIDENCE;
    let rates = FireRateJson {
        run: of_run,
        run_interval: wilson(of_run, level),
        log: of_log,
        log_interval: wilson(of_log, level),
        difference: newcombe(of_log, of_run, level),
    };
    if output.is_json() {
        output.json(&rates)?;
    } else {
        let interval = |interval: Option<Interval>| {
            interval.map(|interval| format!("  {interval}")).unwrap_or_default()
        };
        output.line(format!("run: fired on {of_run}{}", interval(rates.run_interval)));
        output.line(format!("log: fired on {of_log}{}", interval(rates.log_interval)));
        output.line(match rates.difference {
            Some(difference) => format!("run − log: {difference}: {}", difference.direction()),
            None => "no search is in the log: nothing to compare with".to_owned(),
        });
    }
    Ok(u8::from(of_log.of() == 0))
}
