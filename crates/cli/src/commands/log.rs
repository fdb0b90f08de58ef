//! `umbel log`.

use super::overfetch;
use crate::args::{self, Args, LogCommand};
use crate::output::{Output, counted, number};
use crate::wire;
use std::ops::ControlFlow;
use umbel::engine::EngineError;
use umbel::engine::log::{DayStats, Days, QueryLog, now};
use umbel::store::{Layout, StoreError};

pub(crate) fn run(args: &Args, log: &args::Log, output: &Output) -> anyhow::Result<u8> {
    let layout = Layout::new(&args.store);
    if !layout.exists() {
        return Err(EngineError::from(StoreError::Missing { dir: layout.dir }).into());
    }
    let queries = QueryLog::of(&layout);
    let days =
        |asked: &args::LogDays| asked.days.map_or_else(Days::default, |n| Days::last(n, now()));
    let (code, unreadable) = match &log.what {
        LogCommand::Stats(asked) => {
            let (days, unreadable) = queries.stats(days(asked))?;
            if output.is_json() {
                output.json(&wire::log(&days, unreadable))?;
            } else {
                print(&days, output);
            }
            (u8::from(days.is_empty()), unreadable)
        }
        LogCommand::Export(asked) => export(&queries, days(asked), output)?,
        LogCommand::Overfetch(asked) => overfetch::run(args, asked, &queries, output)?,
    };
    if unreadable > 0 {
        let lines = counted(unreadable, "line", "lines");
        output.warning(format!(
            "{lines} of the log are no records of this version, and were left out"
        ));
    }
    Ok(code)
}

/// Prints the records; the exit code, and how many lines are none.
fn export(queries: &QueryLog, days: Days, output: &Output) -> anyhow::Result<(u8, usize)> {
    let (mut n, mut failed) = (0, None);
    let unreadable = queries.read(days, &mut |record| {
        n += 1;
        failed = output.json(&record).err();
        if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    match failed {
        Some(error) => Err(error),
        None => Ok((u8::from(n == 0), unreadable)),
    }
}

fn print(days: &[DayStats], output: &Output) {
    if days.is_empty() {
        output.line("no search is in the log");
        return;
    }
    output.line(format!(
        "{:<10} {:>7} {:>12} {:>7} {:>7} {:>7} {:>15} {:>15}",
        "day", "queries", "fired", "nearly", "blocked", "empty", "tokens p50 p90", "ms p50 p90"
    ));
    for day in days {
        let ms = |us: u32| f64::from(us) / 1e3;
        output.line(format!(
            "{:<10} {:>7} {:>4} {:>6.1} % {:>7} {:>7} {:>7} {:>7} {:>7} {:>7.1} {:>7.1}",
            day.day.to_string(),
            number(day.queries),
            number(day.fired),
            day.fire_rate() * 100.0,
            number(day.nearly),
            number(day.blocked),
            number(day.empty),
            number(day.tokens.p50 as usize),
            number(day.tokens.p90 as usize),
            ms(day.took_us.p50),
            ms(day.took_us.p90),
        ));
    }
    let sum = |of: fn(&DayStats) -> usize| days.iter().map(of).sum::<usize>();
    let could_not = sum(|day| day.could_not_fire);
    if could_not > 0 {
        output.line(format!(
            "in {} of {} no node above the hits could have fired: `umbel stats` says why",
            number(could_not),
            counted(sum(|day| day.queries), "search", "searches")
        ));
    }
}
