//! Comparisons → verdicts in words, and each part of the queries with its interval.

use super::{badge, between, cell, estimate, figure, letter, table};
use crate::commands::eval::report::OfRun;
use crate::commands::eval::report::chart::{Group, Value, dots};
use crate::commands::eval::score::{amount, change, is_share};
use maud::{Markup, html};
use umbel_eval::compare::{Comparison, Figure, Stratum, Verdict};
use umbel_eval::measure::Measure;
use umbel_eval::share::points;

/// What each comparison comes to where it is decided.
pub(super) fn verdicts(comparisons: &[Comparison]) -> Markup {
    html! {
        section.verdicts {
            h2 { "In short" }
            @if comparisons.is_empty() {
                p { "One run, and nothing to compare it with." }
            }
            ul {
                @for comparison in comparisons {
                    @for stratum in comparison.strata.iter().filter(|s| s.name != "unfired") {
                        li { (verdict(comparison, stratum)) }
                    }
                }
            }
        }
    }
}

fn verdict(comparison: &Comparison, stratum: &Stratum) -> Markup {
    let Ok(measure) = comparison.measure.parse::<Measure>() else { return html! {} };
    let part = match stratum.name.as_str() {
        "fired" => "where the rule fired".to_owned(),
        "all" => "on all queries".to_owned(),
        group => format!("in {group}"),
    };
    let value = |figure: &Figure| figure.value().map(|value| amount(value, measure));
    html! {
        span class={"verdict " (tone(stratum.verdict))} { (stratum.verdict) }
        " " strong { (measure) } " " (part) ", n = " (stratum.n)
        @if let (Some(a), Some(b)) = (value(&stratum.a), value(&stratum.b)) {
            ": " (a) " → " (b)
        }
        span.quiet { " " (comparison.b) }
    }
}

/// The class that a verdict is coloured by.
fn tone(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "good",
        Verdict::Worse => "bad",
        Verdict::Higher | Verdict::Lower => "other",
        _ => "open",
    }
}

/// A comparison: every part of the queries under both runs.
pub(super) fn strata(comparison: &Comparison, runs: &[OfRun]) -> anyhow::Result<Markup> {
    let Ok(measure) = comparison.measure.parse::<Measure>() else { return Ok(html! {}) };
    let place = |name: &str| runs.iter().position(|run| run.name == name).unwrap_or_default();
    let (a, b) = (place(&comparison.a), place(&comparison.b));
    let parts: Vec<&Stratum> = comparison.strata.iter().chain([&comparison.pooled]).collect();
    let scale = if is_share(measure) { 100.0 } else { 1.0 };
    let value = |figure: &Figure| {
        let between = figure.interval().map(|i| (scale * i.low, scale * i.high));
        figure.value().map(|at| Value { at: scale * at, between })
    };
    let group = |part: &&Stratum| Group {
        name: format!("{} ({})", part.name, part.n),
        values: vec![(a, value(&part.a)), (b, value(&part.b))],
    };
    let groups: Vec<Group> = parts.iter().map(group).collect();
    let (unit, most) =
        if is_share(measure) { ("per cent", Some(100.0)) } else { ("a query", None) };
    let chart = dots(&groups, unit, most)?;
    let caption = format!(
        "{measure} under {} and {}, by part of the queries (how many), with their intervals.",
        letter(a),
        letter(b)
    );
    let rows: Vec<Vec<Markup>> = parts.iter().map(|part| row(part, measure)).collect();
    let (name_a, name_b) = (letter(a).to_string(), letter(b).to_string());
    let head = ["part", "same passages", &name_a, &name_b, "difference", "p", "verdict"];
    Ok(html! {
        section {
            h2 { (measure) ": " (badge(a)) " and " (badge(b)) }
            p.quiet { (measure.describe().what) }
            (figure(&chart, &caption, &table(&head, &rows)))
            @if let Some(effect) = &comparison.effect {
                p {
                    "Fire rate " (effect.fire_rate) " × difference where it fired "
                    (effect.on_fired.map_or_else(|| "none".to_owned(), points))
                    " = difference overall " (points(effect.overall)) " points."
                }
            }
            @match comparison.closes {
                Some(true) => { p.quiet { "The parts rebuild the pooled counts to the query." } }
                Some(false) => { p { strong { "The parts do not rebuild the pooled counts." } } }
                None => {}
            }
            @for note in &comparison.notes { p.note { (note) "." } }
        }
    })
}

fn row(part: &Stratum, measure: Measure) -> Vec<Markup> {
    let identical = part.verdict == Verdict::Identical;
    let difference = part.difference.as_ref().filter(|_| !identical);
    let interval = difference.and_then(|d| d.exact.or(d.bootstrap));
    let p = difference.map(|d| match d.p_corrected {
        Some(corrected) => html! { (format!("{:.4}", d.p)) br; span.quiet { (format!("{corrected:.4} corrected")) } },
        None => cell(format!("{:.4}", d.p)),
    });
    vec![
        html! { strong { (part.name) } },
        cell(format!("{} of {}", part.identical, part.n + part.without_figure)),
        estimate(&part.a, measure),
        estimate(&part.b, measure),
        html! {
            @if let Some(difference) = difference { (change(difference.mean, measure)) }
            @if let Some(interval) = interval { br; span.quiet { (between(&interval, measure)) } }
        },
        html! { @if let Some(p) = p { (p) } },
        html! { span class={"verdict " (tone(part.verdict))} { (part.verdict) } },
    ]
}
