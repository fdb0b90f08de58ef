//! `umbel eval report`: runs and the store's texts → one page of HTML, or all that is on it as JSON.
//!
//! Invariant: the same runs give the same bytes; the page loads nothing.

mod chart;
mod page;

use super::compare::{options, print, resampled};
use super::diagnose::{kind, misses_of};
use super::read_run;
use super::replay::{Shelf, changed, delivers, outcome, replayed};
use super::sweep::{on_all_cores, rows, setting};
use crate::args::Args;
use crate::args::eval::{EvalReport, KindBy};
use crate::output::{Output, counted, usage};
use serde::Serialize;
use umbel_eval::compare::{Comparison, Figure, Named, Options, compare, figure, paired};
use umbel_eval::judgment::Judgment;
use umbel_eval::locate::is_for;
use umbel_eval::measure::Measure;
use umbel_eval::misses::Misses;
use umbel_eval::relevance::{Relevance, relevance};
use umbel_eval::report::{Class, Point, Series, Told, frontier, lengths, told};
use umbel_eval::run::{Entry, Identity, Run};
use umbel_eval::share::Share;
use umbel_eval::sweep::{Row, Setting, Success};

/// What is compared if nothing else is asked for.
const USUAL: [Measure; 4] =
    [Measure::FULL, Measure::EvidenceRecall, Measure::Precision, Measure::Tokens];
/// The shares of a parent that the curve shows.
const RATIOS: [&str; 7] = ["0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8"];
/// The budgets that the frontier shows, in tokens.
const BUDGETS: [usize; 4] = [500, 1_000, 2_000, 4_000];
/// Ways to deliver that the frontier shows, with what they change.
const WAYS: [(&str, &[&str]); 4] = [
    ("leaves", &["merge.enabled=false", "search.expand=none"]),
    ("merging", &["merge.enabled=true", "search.expand=none"]),
    ("siblings", &["merge.enabled=false", "search.expand=siblings:1"]),
    ("parents", &["merge.enabled=false", "search.expand=parent"]),
];
/// Pages that are named for what they bring about something else.
const WORST: usize = 10;

/// All that the page shows.
#[derive(Debug, Serialize)]
struct Report {
    title: String,
    runs: Vec<OfRun>,
    seed: u64,
    resamples: usize,
    comparisons: Vec<Comparison>,
    /// What replays of the last run came to, or why there are none.
    replays: Replays,
    relevance: Relevance,
    queries: Vec<Told>,
    queries_in_all: usize,
}

#[derive(Debug, Serialize)]
struct OfRun {
    name: String,
    identity: Identity,
    fire_rate: Share,
    figures: Vec<(String, Figure)>,
    /// Tokens of its passages.
    lengths: Vec<Class>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Replays {
    /// The run was not made by the pure core alone.
    Refused(String),
    Made(Box<Replayed>),
}

#[derive(Debug, Serialize)]
struct Replayed {
    /// Whose candidates they are.
    run: String,
    depth: usize,
    budget: usize,
    /// When a query counts as answered on the curve.
    success: String,
    /// The last run under the rule of a fixed share, by that share.
    curve: Vec<Row>,
    frontier: Vec<Series>,
    min_siblings: usize,
    misses: Misses,
    /// Queries that the run's rule is there for.
    for_the_rule: Share,
}

pub(super) async fn run(args: &Args, asked: &EvalReport, output: &Output) -> anyhow::Result<u8> {
    if !args.sets.is_empty() {
        return Err(usage(
            "a report shows runs as they were made: `--set` changes none",
            "make another run with `umbel eval replay RUN --set … --out FILE`, and name both",
        ));
    }
    let mut runs: Vec<(String, Run)> = Vec::new();
    for path in &asked.runs {
        let name = path.display().to_string();
        if runs.iter().any(|(other, _)| *other == name) {
            return Err(usage(format!("`{name}` is named twice"), "name each run once"));
        }
        runs.push((name, read_run(path)?));
    }
    let mut shelf = Shelf::default();
    for (_, run) in &runs {
        delivers(&run.identity)?;
        shelf.add(Shelf::open(&args.store, run).await?);
    }
    // Outcomes that were judged elsewhere are not those that a replay gives.
    if let [(name, run)] = runs.as_slice()
        && run.entries.iter().all(|entry| entry.outcome == outcome(entry, &entry.delivery))
        && let Ok(plain) = changed(&run.identity, &["merge.enabled=false".to_owned()])
    {
        let plain = (format!("{name} without merging"), replayed(run, &shelf, &plain));
        runs.insert(0, plain);
    }
    let options = options(&asked.how, &USUAL);
    let report = collect(asked, &runs, &shelf, &options)?;
    fs_err::write(&asked.out, page::page(&report)?)?;
    if output.is_json() {
        output.json(&report)?;
    } else {
        for comparison in &report.comparisons {
            print(comparison, output);
        }
        let queries = counted(report.queries.len(), "query", "queries");
        output.line(format!(
            "\n{}\nwritten to `{}`, with {queries} of {} in full: open it in a browser",
            resampled(&options),
            asked.out.display(),
            report.queries_in_all,
        ));
    }
    // As `compare` does.
    Ok(u8::from(report.comparisons.iter().any(|comparison| comparison.closes == Some(false))))
}

fn collect(
    asked: &EvalReport,
    runs: &[(String, Run)],
    shelf: &Shelf,
    options: &Options,
) -> anyhow::Result<Report> {
    let named: Vec<Named<'_>> = runs.iter().map(|(name, run)| (name.as_str(), run)).collect();
    let (Some((&base, others)), Some(&last)) = (named.split_first(), named.last()) else {
        return Err(usage("there is no run", "name one"));
    };
    let refused = |error: umbel_eval::compare::CompareError| usage(error.to_string(), error.hint());
    let comparisons = compare(base, others, options).map_err(refused)?;
    let mut queries: Vec<Vec<&Entry>> = base.1.entries.iter().map(|entry| vec![entry]).collect();
    for &other in others {
        let pairs = paired(base, other).map_err(refused)?;
        for (query, (_, of_other)) in queries.iter_mut().zip(pairs) {
            query.push(of_other);
        }
    }
    Ok(Report {
        title: asked.title.clone(),
        runs: named
            .iter()
            .map(|run| of_run(*run, shelf, options))
            .collect::<anyhow::Result<_>>()?,
        seed: options.bootstrap.seed,
        resamples: options.bootstrap.resamples,
        comparisons,
        replays: match changed(&last.1.identity, &[]) {
            Err(error) => Replays::Refused(error.to_string()),
            Ok(_) => Replays::Made(Box::new(replays(last, shelf, options)?)),
        },
        relevance: parents(base.1, shelf, asked.kinds),
        queries: told(&queries, |doc| shelf.document(doc), asked.limit),
        queries_in_all: queries.len(),
    })
}

fn of_run((name, run): Named<'_>, shelf: &Shelf, options: &Options) -> anyhow::Result<OfRun> {
    let figures = options.measures.iter().map(|&measure| {
        measure.supported_by(&run.identity).map_err(|e| usage(e.to_string(), e.hint()))?;
        let values = run.entries.iter().filter_map(|e| measure.value(e, &e.delivery));
        let figure = figure(&values.collect::<Vec<_>>(), measure, &options.bootstrap);
        Ok((measure.to_string(), figure))
    });
    let passages = run.entries.iter().flat_map(|entry| entry.delivered(&entry.delivery));
    let tokens = passages
        .filter_map(|place| Some(shelf.document(place.doc)?.offsets.tokens.count(place.span)));
    Ok(OfRun {
        name: name.to_owned(),
        identity: run.identity.clone(),
        fire_rate: Share::count_of(&run.entries, |entry| entry.delivery.fired()),
        figures: figures.collect::<anyhow::Result<_>>()?,
        lengths: lengths(tokens),
    })
}

/// How much of the parents of the evidence is relevant.
fn parents(run: &Run, shelf: &Shelf, by: KindBy) -> Relevance {
    let judgment = |entry: &Entry| Judgment {
        id: entry.id.clone(),
        query: entry.query.clone(),
        answers: Vec::new(),
        group: entry.group.clone(),
        relevant: entry.relevant.clone(),
    };
    let judgments: Vec<Judgment> = run.entries.iter().map(judgment).collect();
    let document_of = |doc: &str| shelf.document(doc);
    let mut found = relevance(&judgments, document_of, |doc| kind(doc, shelf.stored(doc), by));
    found.worst.truncate(WORST);
    found
}

fn replays((name, run): Named<'_>, shelf: &Shelf, options: &Options) -> anyhow::Result<Replayed> {
    let config = changed(&run.identity, &[])?;
    let mut measures = options.measures.iter().chain([&Measure::FULL]);
    let success = measures.find_map(|&measure| match measure {
        Measure::Success(wanted, covered) => Some((measure, Success { wanted, covered })),
        _ => None,
    });
    let (measure, success) = success.expect("full evidence is a success");
    let fixed_share = |ratio: &&str| {
        let varied = [("merge.enabled", "true"), ("merge.rule", "ratio"), ("merge.ratio", *ratio)];
        let varied = varied.map(|(key, value)| (key.to_owned(), value.to_owned()));
        setting(&run.identity, &[], varied.to_vec())
    };
    let settings: Vec<Setting> = RATIOS.iter().map(fixed_share).collect::<anyhow::Result<_>>()?;
    let (depth, room) = (config.settings().search.depth, config.pack(None).room());
    let merge = config.merge();
    Ok(Replayed {
        run: name.to_owned(),
        depth,
        budget: config.settings().search.budget,
        success: measure.to_string(),
        curve: rows(run, shelf, &config, &settings, success),
        frontier: costs(run, shelf, options)?,
        min_siblings: config.settings().merge.min_siblings,
        misses: misses_of(run, shelf, &config),
        for_the_rule: Share::count_of(&run.entries, |entry| {
            is_for(&entry.relevant, |doc| shelf.document(doc), &merge, depth, room)
        }),
    })
}

/// What each way to deliver costs and finds, at each budget.
fn costs(run: &Run, shelf: &Shelf, options: &Options) -> anyhow::Result<Vec<Series>> {
    let mut all = Vec::new();
    for (name, sets) in WAYS {
        let mut points = Vec::new();
        for budget in BUDGETS {
            let budgeted = format!("search.budget={budget}");
            let sets = sets.iter().copied().chain([budgeted.as_str()]).map(str::to_owned);
            let config = changed(&run.identity, &sets.collect::<Vec<_>>())?;
            let deliveries =
                on_all_cores(&run.entries, |entry| shelf.delivery(entry, &run.identity, &config));
            let deliveries: Vec<_> = run.entries.iter().zip(deliveries).collect();
            points.push(Point::of(budget, &deliveries, &options.bootstrap));
        }
        all.push(Series { name: name.to_owned(), points });
    }
    frontier(&mut all);
    Ok(all)
}
