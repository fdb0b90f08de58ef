//! `umbel log overfetch`.

use super::configuration;
use crate::args::{self, Args};
use crate::output::{Output, counted};
use serde::Serialize;
use std::ops::ControlFlow;
use umbel::engine::log::{Days, LogRecord, QueryLog, now};
use umbel_eval::overfetch::{Needed, Query, Row, needed, table};
use umbel_eval::share::points;

/// Lengths that the table shows, in tenths of the target.
const TENTHS: [usize; 6] = [10, 14, 16, 20, 24, 30];

#[derive(Debug, Serialize)]
struct OverfetchJson {
    target: usize,
    quantile: f64,
    days: u32,
    /// What `search.k_prime` is set to.
    configured: usize,
    rows: Vec<Row>,
    needed: Needed,
    /// The same number of days before.
    before: Needed,
    /// By how much the length that is needed has moved; null where one of the two is not known.
    moved: Option<usize>,
}

/// Prints the table; the exit code, and how many lines of the log are no records.
pub(super) fn run(
    args: &Args,
    asked: &args::Overfetch,
    log: &QueryLog,
    output: &Output,
) -> anyhow::Result<(u8, usize)> {
    let config = configuration(args, &[])?;
    let search = &config.settings().search;
    let target = asked.target.map_or(search.depth, |target| target as usize);
    let (queries, unreadable) = read(log, Days::last(asked.days, now()), target)?;
    let (earlier, _) = read(log, Days::before_last(asked.days, now()), target)?;
    let (now, before) =
        (needed(&queries, target, asked.quantile), needed(&earlier, target, asked.quantile));
    let mut lengths: Vec<usize> = TENTHS.iter().map(|tenths| target * tenths / 10).collect();
    lengths.extend(now.k_prime.into_iter().chain([search.k_prime]));
    lengths.sort_unstable();
    lengths.dedup();
    let report = OverfetchJson {
        target,
        quantile: asked.quantile,
        days: asked.days,
        configured: search.k_prime,
        rows: table(&queries, target, &lengths),
        needed: now,
        before,
        moved: now.k_prime.zip(before.k_prime).map(|(now, before)| now.abs_diff(before)),
    };
    if output.is_json() {
        output.json(&report)?;
    } else {
        print(&report, output);
    }
    // A length that was known and is no longer has moved beyond every list.
    let is_lost = before.k_prime.is_some() && now.k_prime.is_none() && now.queries > 0;
    let has_moved = report.moved.is_some_and(|moved| moved > asked.moved as usize);
    Ok((u8::from(now.queries == 0 || is_lost || has_moved), unreadable))
}

/// The searches of some days, as far as their records tell how they were read.
fn read(log: &QueryLog, days: Days, target: usize) -> std::io::Result<(Vec<Query>, usize)> {
    let mut queries = Vec::new();
    let unreadable = log.read(days, &mut |record| {
        queries.extend(query(record, target));
        ControlFlow::Continue(())
    })?;
    Ok((queries, unreadable))
}

/// How a search was read; `None` for the record of a version that did not keep it.
fn query(record: LogRecord, target: usize) -> Option<Query> {
    let trace = record.trace;
    // What a second search met is not in the list, but where it met all, and too few, no list holds enough.
    let is_whole =
        trace.exhausted && (!trace.retry || trace.shortfall > 0 && target >= trace.depth);
    (trace.depth > 0).then_some(Query { read: trace.fused, repeats: trace.repeats, is_whole })
}

fn print(report: &OverfetchJson, output: &Output) {
    let OverfetchJson { target, days, needed, before, .. } = report;
    let served = points(report.quantile);
    output.line(format!(
        "{} in {}, {target} distinct clusters wanted",
        counted(needed.queries, "search", "searches"),
        counted(*days as usize, "day", "days"),
    ));
    if needed.exhausted > 0 {
        output.line(format!(
            "{} left out: all that matches holds fewer",
            counted(needed.exhausted, "search is", "searches are")
        ));
    }
    if needed.queries == 0 {
        return;
    }
    output.line(format!("{:>6} {:>10} {:>14} {:>8}", "k'", "short", "mean distinct", "wasted"));
    for Row { k_prime, short, mean_distinct, wasted } in &report.rows {
        output.line(format!(
            "{k_prime:>6} {:>8} % {:>14.2} {wasted:>8}",
            short.percent().unwrap_or_default(),
            mean_distinct.unwrap_or_default(),
        ));
    }
    let configured = report.configured;
    match needed.k_prime {
        Some(k_prime) => output.line(format!(
            "k' = {k_prime} serves {served} % of them; `search.k_prime` is {configured}"
        )),
        None => output.line(format!(
            "no k' that was read serves {served} % of them; `search.k_prime` is {configured}"
        )),
    }
    let earlier = counted(before.queries, "search", "searches");
    match (before.k_prime, report.moved) {
        (Some(k_prime), Some(moved)) => output
            .line(format!("the {days} days before: k' = {k_prime} ({earlier}), moved by {moved}")),
        (Some(k_prime), None) => {
            output.line(format!("the {days} days before: k' = {k_prime} ({earlier})"));
        }
        (None, _) => output.line(format!("the {days} days before: no k' ({earlier})")),
    }
}
