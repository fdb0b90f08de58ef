//! A report → one page of HTML that needs nothing else: no script, no font, no picture from elsewhere.
//!
//! Invariant: texts and names are text, whatever they hold.

mod queries;
mod replayed;
mod strata;

use super::{OfRun, Replays, Report};
use crate::commands::eval::report::chart::{Axes, bars, colour_name};
use crate::commands::eval::score::{amount, is_share, words};
use crate::output::number;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use umbel::config::Config;
use umbel_eval::compare::Figure;
use umbel_eval::interval::Interval;
use umbel_eval::measure::Measure;
use umbel_eval::share::points;

const STYLE: &str = include_str!("style.css");
/// What a browser may load for the page: nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The page.
pub(super) fn page(report: &Report) -> anyhow::Result<String> {
    let Report { title, runs, comparisons, replays, relevance, queries, queries_in_all, .. } =
        report;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    p.lead { (number(*queries_in_all)) " judged queries" }
                    (legend(runs))
                }
                main {
                    (strata::verdicts(comparisons))
                    @for comparison in comparisons { (strata::strata(comparison, runs)?) }
                    @match replays {
                        Replays::Made(made) => { (replayed::replayed(made)?) }
                        Replays::Refused(reason) => {
                            section {
                                h2 { "Other settings" }
                                p.quiet { "Not shown: " (reason) "." }
                            }
                        }
                    }
                    (passages(runs)?)
                    (replayed::relevance(relevance))
                    (queries::queries(queries, *queries_in_all, runs))
                    (origin(report))
                }
            }
        }
    };
    Ok(page.into_string())
}

/// What a run is called in charts and tables.
fn letter(run: usize) -> char {
    char::from(b'A' + (run % 26) as u8)
}

/// A run's letter on its colour.
fn badge(run: usize) -> Markup {
    html! { span.badge style={"--own:" (colour_name(run))} { (letter(run)) } }
}

fn legend(runs: &[OfRun]) -> Markup {
    html! {
        ol.legend {
            @for (at, run) in runs.iter().enumerate() {
                li { (badge(at)) " " code { (run.name) } " " span.quiet { "fired on " (run.fire_rate) } }
            }
        }
    }
}

/// A chart, what it shows in words, and its numbers.
fn figure(chart: &str, caption: &str, table: &Markup) -> Markup {
    html! {
        figure {
            div.chart role="img" aria-label=(caption) { (PreEscaped(chart)) }
            figcaption { (caption) }
        }
        (table)
    }
}

/// A table that may be wider than the page.
fn table(head: &[&str], rows: &[Vec<Markup>]) -> Markup {
    html! {
        div.wide {
            table {
                thead { tr { @for cell in head { th scope="col" { (cell) } } } }
                tbody {
                    @for row in rows { tr { @for cell in row { td { (cell) } } } }
                }
            }
        }
    }
}

/// A figure, and below it where the true one plausibly lies.
fn estimate(figure: &Figure, measure: Measure) -> Markup {
    let value = match figure {
        Figure::Count { share, .. } => Some(share.to_string()),
        Figure::Mean { mean, .. } => mean.map(|mean| amount(mean, measure)),
    };
    html! {
        (value.unwrap_or_else(|| "none".to_owned()))
        @if let Some(interval) = figure.interval() { br; span.quiet { (between(&interval, measure)) } }
    }
}

/// An interval without its method, which the page names once.
fn between(interval: &Interval, measure: Measure) -> String {
    let Interval { low, high, .. } = interval;
    if is_share(measure) {
        format!("{} to {}", points(*low), points(*high))
    } else {
        format!("{low:.1} to {high:.1}")
    }
}

/// A cell.
fn cell(text: impl Into<String>) -> Markup {
    let text = text.into();
    html! { (text) }
}

fn passages(runs: &[OfRun]) -> anyhow::Result<Markup> {
    let longest = runs.iter().map(|run| &run.lengths).max_by_key(|lengths| lengths.len());
    let Some(longest) = longest.filter(|lengths| !lengths.is_empty()) else {
        return Ok(html! {});
    };
    let count = |run: &OfRun, at: usize| run.lengths.get(at).map_or(0, |class| class.count);
    let name = |at: usize| {
        longest
            .get(at)
            .map_or_else(String::new, |class| format!("{}–{}", class.from, class.below - 1))
    };
    let classes: Vec<(String, Vec<f64>)> = (0..longest.len())
        .map(|at| (name(at), runs.iter().map(|run| count(run, at) as f64).collect()))
        .collect();
    let axes = Axes { x: "tokens of a passage", y: "passages", most: None, from_zero: true };
    let mut head = vec!["tokens".to_owned()];
    head.extend((0..runs.len()).map(|run| letter(run).to_string()));
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let rows: Vec<Vec<Markup>> = (0..longest.len())
        .map(|at| {
            let counts = runs.iter().map(|run| cell(number(count(run, at) as usize)));
            std::iter::once(cell(name(at))).chain(counts).collect()
        })
        .collect();
    let caption = "How long the delivered passages are, in classes that double.";
    Ok(html! {
        section {
            h2 { "Length of the passages" }
            (figure(&bars(&classes, axes)?, caption, &table(&head, &rows)))
        }
    })
}

/// What the runs were made of, and how the numbers were made.
fn origin(report: &Report) -> Markup {
    let Report { runs, seed, resamples, .. } = report;
    html! {
        section.origin {
            h2 { "Where the numbers come from" }
            p {
                "Shares carry Wilson intervals, means bootstrap intervals of " (number(*resamples))
                " samples (seed " (seed) "). Differences of yes and no are tested by McNemar's exact test, means by the paired "
                "bootstrap; p-values are corrected by Holm over all that is decided upon. Evidence is counted in bytes."
            }
            @for (at, run) in runs.iter().enumerate() {
                details {
                    summary { (badge(at)) " " code { (run.name) } }
                    dl {
                        dt { "program" } dd { "umbel " (run.identity.code) }
                        dt { "data" } dd { code { (run.identity.data) } }
                        dt { "index" } dd { code { (run.identity.index) } }
                        dt { "model" } dd { (run.identity.model.as_deref().unwrap_or("none: by words")) }
                        dt { "judgments" } dd {
                            code { (run.identity.queries) } ", " (number(run.identity.judged)) " asked"
                            @if run.identity.unjudged > 0 { ", " (number(run.identity.unjudged)) " left out" }
                        }
                        @if let Some(clusters) = &run.identity.clusters {
                            dt { "duplicates" } dd { (clusters.run) " (" (clusters.method) ")" }
                        }
                        dt { "settings" } dd { (settings(run)) }
                        @for (name, figure) in &run.figures {
                            @if let Ok(measure) = name.parse::<Measure>() {
                                dt { (name) } dd { (words(figure, measure)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The settings of a run that are not those that a store begins with, and their hash.
fn settings(run: &OfRun) -> Markup {
    let usual = Config::default().to_toml();
    let mut section = "";
    let mut changed = Vec::new();
    let mut usual_section = "";
    let usual: Vec<(&str, &str)> = usual
        .lines()
        .map(|line| {
            if line.starts_with('[') {
                usual_section = line;
            }
            (usual_section, line)
        })
        .collect();
    for line in run.identity.settings.lines() {
        if line.starts_with('[') {
            section = line;
        } else if !line.is_empty() && !usual.contains(&(section, line)) {
            changed.push(format!("{}.{line}", section.trim_matches(['[', ']'])));
        }
    }
    html! {
        code { (run.identity.config) }
        @if changed.is_empty() { ", all as they come" } @else { ", otherwise than they come:" pre { (changed.join("\n")) } }
    }
}
