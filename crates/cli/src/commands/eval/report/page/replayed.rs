//! What replays of the last run and its evidence came to → curve, frontier, misses, relevance.

use super::{badge, cell, estimate, figure, table};
use crate::commands::eval::report::Replayed;
use crate::commands::eval::report::chart::{Axes, Line, Mark, Value, colour_name, lines};
use crate::output::number;
use maud::{Markup, html};
use umbel_eval::interval::{Interval, Level, wilson};
use umbel_eval::measure::Measure;
use umbel_eval::relevance::{Kind, Relevance};
use umbel_eval::report::Series;
use umbel_eval::share::{Share, points};
use umbel_eval::sweep::Row;

pub(super) fn replayed(made: &Replayed) -> anyhow::Result<Markup> {
    Ok(html! {
        (curve(made)?)
        (frontier(made)?)
        (misses(made))
    })
}

/// A swatch for each line of a chart that is not one of a run.
fn keys(names: &[&str]) -> Markup {
    html! {
        ul.keys {
            @for (series, name) in names.iter().enumerate() {
                li { span.swatch style={"--own:" (colour_name(series))} {} " " (name) }
            }
        }
    }
}

fn per_cent(share: Share, interval: Option<Interval>) -> Option<Value> {
    let between = interval.map(|i| (100.0 * i.low, 100.0 * i.high));
    share.proportion().map(|at| Value { at: 100.0 * at, between })
}

/// What a fixed share would do: the rule by its ratio.
fn curve(made: &Replayed) -> anyhow::Result<Markup> {
    let ratio = |row: &Row| {
        let value = row.setting.iter().find(|(key, _)| key == "merge.ratio");
        value.and_then(|(_, value)| value.parse::<f64>().ok())
    };
    let line = |series: usize, of: &dyn Fn(&Row) -> Option<Value>| Line {
        series,
        marks: made
            .curve
            .iter()
            .filter_map(|row| Some(Mark { x: ratio(row)?, y: of(row)?, strong: true }))
            .collect(),
    };
    let of_fired = |share: Share| per_cent(share, wilson(share, Level::CONFIDENCE));
    let shares = [
        line(0, &|row| of_fired(row.fired.a())),
        line(1, &|row| of_fired(row.fired.b())),
        line(2, &|row| per_cent(row.fire_rate, None)),
    ];
    let plain = |at: f64| Some(Value { at, between: None });
    let tokens =
        [line(0, &|row| plain(row.tokens - row.extra_tokens)), line(1, &|row| plain(row.tokens))];
    let axes =
        |y, most| Axes { x: "share of a parent that must be retrieved", y, most, from_zero: true };
    let share = |share: Share| cell(share.to_string());
    let rows: Vec<Vec<Markup>> = made
        .curve
        .iter()
        .map(|row| {
            vec![
                cell(ratio(row).map(|ratio| ratio.to_string()).unwrap_or_default()),
                share(row.fire_rate),
                share(row.fired.a()),
                share(row.fired.b()),
                cell(
                    row.effect
                        .map(|e| format!("{} to {}", points(e.low), points(e.high)))
                        .unwrap_or_default(),
                ),
                cell(row.verdict.to_string()),
                cell(format!("{:.0}", row.tokens)),
                cell(row.extra_per_fired.map(|t| format!("{t:.0}")).unwrap_or_default()),
                share(row.audit),
                cell(row.can_fire.percent().map(|p| format!("{p} %")).unwrap_or_default()),
            ]
        })
        .collect();
    let head = [
        "share",
        "fired",
        "without merging",
        "with merging",
        "difference, points",
        "verdict",
        "tokens",
        "extra per fired query",
        "parents mostly about something else",
        "parents that can fire",
    ];
    let caption = format!(
        "{} of the queries where the rule fires, without and with merging, and how often it fires, by the share that it asks for (depth {}, budget {}).",
        made.success,
        made.depth,
        number(made.budget)
    );
    let cost = "Tokens delivered a query, without and with merging.";
    Ok(html! {
        section {
            h2 { "If the share were fixed" }
            p.quiet { "Replays of the candidates of " code { (made.run) } " under the rule of a fixed share; each is held against the same setting without merging." }
            (keys(&["without merging, on fired queries", "with merging, on fired queries", "fire rate"]))
            (figure(&lines(&shares, axes("per cent", Some(100.0)))?, &caption, &html! {}))
            (keys(&["without merging", "with merging"]))
            (figure(&lines(&tokens, Axes { from_zero: false, ..axes("tokens", None) })?, cost, &table(&head, &rows)))
        }
    })
}

/// What each way to deliver costs and finds.
fn frontier(made: &Replayed) -> anyhow::Result<Markup> {
    let line = |(series, way): (usize, &Series)| Line {
        series,
        marks: way
            .points
            .iter()
            .filter_map(|point| {
                let (tokens, recall) = point.means()?;
                let between = point.recall.interval().map(|i| (100.0 * i.low, 100.0 * i.high));
                let y = Value { at: 100.0 * recall, between };
                Some(Mark { x: tokens, y, strong: point.unbeaten })
            })
            .collect(),
    };
    let drawn: Vec<Line> = made.frontier.iter().enumerate().map(line).collect();
    let names: Vec<&str> = made.frontier.iter().map(|way| way.name.as_str()).collect();
    let axes = Axes {
        x: "tokens delivered a query",
        y: "evidence recall, per cent",
        most: Some(100.0),
        from_zero: false,
    };
    let rows: Vec<Vec<Markup>> = made
        .frontier
        .iter()
        .flat_map(|way| way.points.iter().map(move |point| (way, point)))
        .map(|(way, point)| {
            vec![
                cell(way.name.clone()),
                cell(number(point.budget)),
                estimate(&point.tokens, Measure::Tokens),
                estimate(&point.recall, Measure::EvidenceRecall),
                cell(if point.unbeaten { "unbeaten" } else { "" }),
            ]
        })
        .collect();
    let points = made.frontier.first().map_or(&[][..], |way| &way.points);
    let budgets: Vec<String> = points.iter().map(|point| number(point.budget)).collect();
    let caption = format!(
        "What {} ways to deliver find for their tokens, at budgets of {}. Filled: no other finds as much for less.",
        made.frontier.len(),
        budgets.join(", ")
    );
    let head = ["way", "budget", "tokens", "evidence recall", ""];
    Ok(html! {
        section {
            h2 { "What recall costs" }
            (keys(&names))
            (figure(&lines(&drawn, axes)?, &caption, &table(&head, &rows)))
        }
    })
}

/// Where the evidence of badly answered queries lies.
fn misses(made: &Replayed) -> Markup {
    let misses = &made.misses;
    let rows: Vec<Vec<Markup>> = misses
        .by_spread
        .iter()
        .map(|(spread, share)| vec![cell(spread.to_string()), cell(share.to_string())])
        .collect();
    html! {
        section {
            h2 { "What was missed" }
            p { "Answered badly: " (misses.wrong) ". None of the evidence was retrieved: " (misses.not_retrieved) " of those." }
            (table(&["their evidence lies in", "queries"], &rows))
            p {
                "Missed merges, several leaves of one parent and fewer than " (made.min_siblings)
                " children retrieved: " (misses.missed_merges)
                @if misses.missed_merges.count() > 0 && made.min_siblings > 2 { "; two children would have fired on " (misses.fire_at_two) }
                "."
            }
            p { "The rule is there for " (made.for_the_rule) " of all queries: several leaves of one parent hold their evidence, and the rule can fire." }
        }
    }
}

/// How much of the parents of the evidence is relevant.
pub(super) fn relevance(found: &Relevance) -> Markup {
    // One kind alone is all of them.
    let several = if found.kinds.len() > 1 { found.kinds.as_slice() } else { &[] };
    let kinds = several.iter().chain([&found.all]);
    let row = |kind: &Kind| {
        let held = kind.held.map(|q| {
            let quantiles =
                [q.p10, q.p25, q.p50, q.p75, q.p90].map(|q| format!("{:.0}", 100.0 * q));
            (format!("{} %", points(q.mean)), quantiles.join(" "))
        });
        let (mean, quantiles) = held.unwrap_or_default();
        vec![
            html! { strong { (kind.name) } },
            cell(number(kind.queries)),
            cell(number(kind.expansions)),
            cell(mean),
            cell(quantiles),
            cell(kind.parent_tokens.map(|q| format!("{:.0}", q.mean)).unwrap_or_default()),
            cell(kind.spanning.to_string()),
            cell(kind.prediction.to_string()),
        ]
    };
    let rows: Vec<Vec<Markup>> = kinds.map(row).collect();
    let head = [
        "documents",
        "queries",
        "parents",
        "relevant",
        "p10 p25 p50 p75 p90",
        "tokens of a parent",
        "evidence crosses cuts",
        "expansion",
    ];
    let worst = found.worst.iter().map(|parent| {
        vec![
            html! { code { (parent.doc) ":" (parent.span.0) ".." (parent.span.1) } },
            cell(number(parent.tokens)),
            cell(format!("{} %", points(parent.held))),
            cell(parent.queries.iter().take(5).cloned().collect::<Vec<_>>().join(", ")),
        ]
    });
    let worst: Vec<Vec<Markup>> = worst.collect();
    html! {
        section {
            h2 { "How much of a parent is relevant" }
            p.quiet { "The parents of the leaves that hold evidence, from the judgments of " (badge(0)) ": what expanding or merging would bring." }
            (table(&head, &rows))
            @if !worst.is_empty() {
                details {
                    summary { "Parents that bring most about something else: pages to split first" }
                    (table(&["parent", "tokens", "relevant", "queries"], &worst))
                }
            }
        }
    }
}
