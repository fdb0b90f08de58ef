//! `umbel replay`: the questions of the log under the configuration as it is, and under a changed one.
//!
//! Invariant: a replay is no use of the store: its searches are not logged.

use super::eval::other_index;
use super::{configured, open_for_search};
use crate::args::{self, Args};
use crate::interrupt;
use crate::output::{Output, counted, usage};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::ops::ControlFlow;
use std::path::Path;
use umbel::config::Config;
use umbel::engine::answer::SearchRequest;
use umbel::engine::log::{Days, LOG_VERSION, LogRecord, QueryLog, now};
use umbel::engine::{Engine, EngineError};
use umbel::store::{Layout, StoreError};
use umbel_eval::interval::{Bootstrap, Level};
use umbel_eval::share::points;
use umbel_eval::traffic::{Asked, Change, Delivered, Did, Side, Traffic, traffic};

/// The first question is asked so often before the clock counts.
const WARM_UP: usize = 3;

/// A question of the log.
#[derive(Debug, Default)]
struct Question {
    queries: Vec<String>,
    times: u64,
    fired: u64,
    tokens: u64,
}

/// What of the log is not asked again.
#[derive(Debug, Default, Serialize)]
struct LeftOut {
    /// Searches of which only a hash was kept.
    hashed: usize,
    /// Searches of some documents only: which, is not in the log.
    filtered: usize,
    /// Lines that are no records.
    unreadable: usize,
}

#[derive(Serialize)]
struct ReplayJson<'r> {
    /// Hash of the configuration as it is.
    config_before: String,
    /// Hash of the changed one.
    config_after: String,
    set: &'r [String],
    traffic: &'r Traffic,
    left_out: &'r LeftOut,
    changes: Vec<ChangeJson<'r>>,
}

#[derive(Serialize)]
struct ChangeJson<'r> {
    queries: &'r [String],
    times: u64,
    tokens_before: usize,
    tokens_after: usize,
    fired_before: bool,
    fired_after: bool,
    #[serde(flatten)]
    change: Change,
}

pub(crate) async fn run(args: &Args, asked: &args::Replay, output: &Output) -> anyhow::Result<u8> {
    if args.sets.is_empty() {
        return Err(usage(
            "nothing is changed: both sides would be the same",
            "name settings, as `umbel replay --set merge.ratio=0.4`",
        ));
    }
    let (before, after) = (configured(args, &[])?, configured(args, &args.sets)?);
    if let Some(part) = other_index(before.settings(), after.settings()) {
        return Err(usage(
            format!("settings of `{part}` make another index: no search of this store shows them"),
            "index the documents anew in another store (--store), and compare with `umbel eval`",
        ));
    }
    let (questions, left_out) = questions(args, asked)?;
    if questions.is_empty() {
        output.line("no question of the log can be asked again");
        warn(&left_out, output);
        return Ok(1);
    }
    interrupt::listen()?;
    let of_before = search_all(args, &before, &questions, "asking as it is", output).await?;
    let of_after = search_all(args, &after, &questions, "asking with the change", output).await?;
    let rows: Vec<Asked> = questions
        .iter()
        .zip(of_before.into_iter().zip(of_after))
        .map(|(question, (before, after))| Asked {
            times: question.times,
            logged_fired: question.fired,
            logged_tokens: question.tokens,
            before,
            after,
        })
        .collect();
    let bootstrap = Bootstrap { resamples: 10_000, seed: 0, level: Level::CONFIDENCE };
    let found = traffic(&rows, &bootstrap);
    let changes = changes(&questions, &rows);
    if output.is_json() {
        output.json(&ReplayJson {
            config_before: before.hash(),
            config_after: after.hash(),
            set: &args.sets,
            traffic: &found,
            left_out: &left_out,
            changes,
        })?;
    } else {
        print(&found, &changes, asked.show, output);
    }
    warn(&left_out, output);
    Ok(0)
}

/// The distinct questions, those first that were asked most often, and what is left out.
fn questions(args: &Args, asked: &args::Replay) -> anyhow::Result<(Vec<Question>, LeftOut)> {
    let mut known: BTreeMap<Vec<String>, Question> = BTreeMap::new();
    let mut left_out = LeftOut::default();
    let mut take = |record: LogRecord| {
        match record.queries {
            _ if record.filtered => left_out.filtered += 1,
            Some(queries) if !queries.is_empty() => {
                let question = known.entry(queries.clone()).or_default();
                question.queries = queries;
                question.times += 1;
                question.fired += u64::from(record.trace.fired);
                question.tokens += record.tokens as u64;
            }
            _ => left_out.hashed += 1,
        }
        ControlFlow::Continue(())
    };
    left_out.unreadable = match &asked.log {
        Some(path) => read_exported(path, &mut take)?,
        None => {
            let layout = Layout::new(&args.store);
            if !layout.exists() {
                return Err(EngineError::from(StoreError::Missing { dir: layout.dir }).into());
            }
            let days = asked.days.days.map_or_else(Days::default, |n| Days::last(n, now()));
            QueryLog::of(&layout).read(days, &mut take)?
        }
    };
    let mut questions: Vec<Question> = known.into_values().collect();
    questions.sort_by(|a, b| b.times.cmp(&a.times).then_with(|| a.queries.cmp(&b.queries)));
    Ok((questions, left_out))
}

/// Hands over the records of a file that `umbel log export` made; how many lines are none.
fn read_exported(
    path: &Path,
    take: &mut dyn FnMut(LogRecord) -> ControlFlow<()>,
) -> anyhow::Result<usize> {
    let opened = fs_err::File::open(path);
    let file = opened.map_err(|error| {
        usage(error.to_string(), "name a file that `umbel log export` made, or leave out --log")
    })?;
    let (mut unreadable, mut records) = (0, 0);
    for line in std::io::BufReader::new(file).split(b'\n') {
        let line = line?;
        match serde_json::from_slice::<LogRecord>(&line) {
            Ok(record) if record.v <= LOG_VERSION => {
                records += 1;
                let _ = take(record);
            }
            _ => unreadable += usize::from(!line.is_empty()),
        }
    }
    if records == 0 && unreadable > 0 {
        return Err(usage(
            format!("`{}` holds no record of a search", path.display()),
            "make it with `umbel log export > FILE`",
        ));
    }
    Ok(unreadable)
}

async fn search_all(
    args: &Args,
    config: &Config,
    questions: &[Question],
    what: &'static str,
    output: &Output,
) -> anyhow::Result<Vec<Did>> {
    let engine = open_for_search(args, config, output).await?;
    for question in questions.iter().take(WARM_UP) {
        search(&engine, config, question).await?;
    }
    let bar = output.progress();
    let mut all = Vec::with_capacity(questions.len());
    for (at, question) in questions.iter().enumerate() {
        if bar.step(what, at, questions.len()).is_break() {
            return Err(EngineError::Interrupted.into());
        }
        all.push(search(&engine, config, question).await?);
    }
    Ok(all)
}

async fn search(engine: &Engine, config: &Config, question: &Question) -> anyhow::Result<Did> {
    let (query, also) = question
        .queries
        .split_first()
        .map_or((String::new(), Vec::new()), |q| (q.0.clone(), q.1.to_vec()));
    let request = SearchRequest { also, ..SearchRequest::new(query, config.clone()) };
    let observed = engine.observe(&request).await?;
    let response = &observed.response;
    let passages = response.context.passages.iter().filter_map(|passage| {
        let doc = response.documents.get(&passage.doc)?.entry.name.clone();
        Some(Delivered { doc, span: passage.span })
    });
    Ok(Did {
        fired: !response.trace.merge.fires.is_empty(),
        tokens: response.context.tokens,
        clusters: observed.lists.collapsed.voices.len(),
        passages: passages.collect(),
        took_us: response.timings.iter().map(|(_, took)| took.as_micros() as u64).sum(),
    })
}

fn changes<'q>(questions: &'q [Question], rows: &[Asked]) -> Vec<ChangeJson<'q>> {
    let changed = questions.iter().zip(rows).filter(|(_, row)| row.changed());
    changed
        .map(|(question, row)| ChangeJson {
            queries: &question.queries,
            times: question.times,
            tokens_before: row.before.tokens,
            tokens_after: row.after.tokens,
            fired_before: row.before.fired,
            fired_after: row.after.fired,
            change: row.change(),
        })
        .collect()
}

fn print(found: &Traffic, changes: &[ChangeJson<'_>], show: usize, output: &Output) {
    let questions = counted(found.questions as usize, "question", "questions");
    let searches = counted(found.searches as usize, "search", "searches");
    output.line(format!("{questions} of {searches}"));
    let tokens = found.logged_tokens.map_or_else(|| "none".to_owned(), |mean| format!("{mean:.0}"));
    output.line(format!(
        "as logged: the rule fired in {} of the searches, {tokens} tokens a search",
        found.logged_fired
    ));
    output.line(format!("{:<24} {:>20} {:>20}", "", "as it is", "with the change"));
    let (before, after) = (&found.before, &found.after);
    let row = |name: &str, of: &dyn Fn(&Side) -> String| {
        output.line(format!("{name:<24} {:>20} {:>20}", of(before), of(after)));
    };
    let mean = |value: Option<f64>| value.map_or_else(|| "none".to_owned(), |m| format!("{m:.1}"));
    row("fired", &|side| side.fired.to_string());
    row("  95 % (Wilson)", &|side| {
        side.interval
            .map_or_else(String::new, |i| format!("{} to {}", points(i.low), points(i.high)))
    });
    row("tokens", &|side| mean(side.tokens));
    row("passages", &|side| mean(side.passages));
    row("unique clusters in list", &|side| mean(side.clusters));
    row("ms p50", &|side| format!("{:.1}", side.p50_us as f64 / 1e3));
    row("ms p95", &|side| format!("{:.1}", side.p95_us as f64 / 1e3));
    output.line(format!(
        "the rule fires only as it is on {}, only with the change on {}",
        counted(found.fires_only_before as usize, "question", "questions"),
        counted(found.fires_only_after as usize, "question", "questions")
    ));
    if let (Some(added), Some(interval)) = (found.tokens_added, found.tokens_added_interval) {
        let (low, high, level) = (interval.low, interval.high, interval.level);
        output
            .line(format!("tokens added: {added:.1} ({low:.1} to {high:.1}, bootstrap, {level})"));
    }
    output.line(format!(
        "other passages on {} of the questions, {} of the searches",
        found.changed, found.changed_searches
    ));
    for change in changes.iter().take(show) {
        print_change(change, output);
    }
    if changes.len() > show {
        let more = counted(changes.len() - show, "other", "others");
        output.line(format!("and {more}: --show {}, or --json", changes.len()));
    }
}

fn print_change(row: &ChangeJson<'_>, output: &Output) {
    let times = if row.times > 1 { format!(" ({} times)", row.times) } else { String::new() };
    let fires = match (row.fired_before, row.fired_after) {
        (true, false) => ", fires no more",
        (false, true) => ", fires now",
        _ => "",
    };
    let queries = row.queries.join(" | ");
    let (before, after) = (row.tokens_before, row.tokens_after);
    output.line(format!("\n{queries}{times}: {before} to {after} tokens{fires}"));
    let line = |sign: char, place: &Delivered| {
        let Delivered { doc, span } = place;
        output.line(format!("  {sign} {doc}:{}..{}", span.start, span.end));
    };
    row.change.gone.iter().for_each(|place| line('-', place));
    row.change.new.iter().for_each(|place| line('+', place));
}

fn warn(left_out: &LeftOut, output: &Output) {
    let LeftOut { hashed, filtered, unreadable } = left_out;
    let searches = |n: usize| counted(n, "search is", "searches are");
    if *hashed > 0 {
        let left = searches(*hashed);
        output.warning(format!(
            "{left} left out: the log holds no text of the question, see `log.queries`"
        ));
    }
    if *filtered > 0 {
        let left = searches(*filtered);
        output.warning(format!("{left} left out: which documents were searched is not in the log"));
    }
    if *unreadable > 0 {
        let lines = counted(*unreadable, "line", "lines");
        output.warning(format!(
            "{lines} of the log are no records of this version, and were left out"
        ));
    }
}
