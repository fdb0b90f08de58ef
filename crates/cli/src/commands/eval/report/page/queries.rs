//! Queries with their texts → a fold for each, the evidence marked.

use super::badge;
use crate::commands::eval::report::OfRun;
use crate::output::{counted, number};
use maud::{Markup, html};
use umbel_eval::report::{Change, Merge, Passage, Seen, Told};
use umbel_eval::share::points;

pub(super) fn queries(queries: &[Told], in_all: usize, runs: &[OfRun]) -> Markup {
    let left_out = in_all - queries.len();
    html! {
        section.queries {
            h2 { "Query by query" }
            p.quiet {
                "Those that the last run lost or gained come first, then those with other passages. "
                mark { "Marked" } " is the evidence."
                @if left_out > 0 {
                    " Left out here: " (counted(left_out, "query", "queries")) "; " code { "--limit " (in_all) } " shows all."
                }
            }
            @for told in queries { (query(told, runs)) }
        }
    }
}

fn query(told: &Told, runs: &[OfRun]) -> Markup {
    let (name, tone) = match told.change {
        Change::Lost => ("lost", "bad"),
        Change::Gained => ("gained", "good"),
        Change::Passages => ("other passages", "other"),
        Change::Nothing => ("no change", "open"),
    };
    html! {
        details.query {
            summary {
                @if runs.len() > 1 { span class={"verdict " (tone)} { (name) } " " }
                (told.query) " "
                span.quiet { (told.id) @if let Some(group) = &told.group { ", " (group) } }
            }
            @if !told.answers.is_empty() { p.quiet { "Right: " (told.answers.join(" / ")) } }
            div.runs {
                @for (at, seen) in told.runs.iter().enumerate() { (run(at, seen)) }
            }
        }
    }
}

fn run(at: usize, seen: &Seen) -> Markup {
    let outcome = match seen.outcome {
        Some(true) => "right",
        Some(false) => "wrong",
        None => "not judged",
    };
    html! {
        div.run {
            h3 {
                (badge(at)) " " (outcome)
                @if let Some(recall) = seen.evidence_recall { ", " (points(recall)) " % of the evidence" }
                ", " (number(seen.tokens)) " tokens"
                @if seen.fired { ", fired" }
            }
            @for passage in &seen.passages {
                // What all have is told once.
                (shown(passage, at == 0 || !passage.in_all))
            }
            @if seen.passages.is_empty() { p.quiet { "Nothing was delivered." } }
            @if !seen.missed.is_empty() {
                h4 { "Evidence that is missing" }
                @for passage in &seen.missed { (shown(passage, true)) }
            }
        }
    }
}

fn shown(passage: &Passage, with_text: bool) -> Markup {
    html! {
        div.passage {
            p.place {
                code { (passage.doc) ":" (passage.start) ".." (passage.end) }
                @if !passage.headings.is_empty() { " " (passage.headings.join(" › ")) }
                " " span.quiet { (counted(passage.tokens, "token", "tokens")) }
                @for merge in &passage.merged { " " (merged(*merge)) }
                @if !with_text { " " span.quiet { "as in " (badge(0)) } }
            }
            @if with_text {
                blockquote {
                    @for piece in &passage.pieces {
                        @if piece.relevant { mark { (piece.text) } } @else { (piece.text) }
                        @if piece.left_out > 0 { span.gap { " … " (number(piece.left_out)) " bytes … " } }
                    }
                }
            }
        }
    }
}

fn merged(merge: Merge) -> Markup {
    let Merge { matched, of, tokens_before, tokens_after } = merge;
    html! {
        span.verdict.other {
            "merged: " (matched) " of " (of) " children, " (tokens_before) " → " (tokens_after) " tokens"
        }
    }
}
