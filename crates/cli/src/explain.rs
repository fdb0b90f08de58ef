//! An answer → what a person reads.
//!
//! Invariant: every number shown stands in the answer; nothing is computed here.

use crate::output::counted;
use std::fmt::Write as _;
use umbel::core::hit::Scores;
use umbel::core::merge::{RatioBy, Share};
use umbel::core::pack::Passage;
use umbel::engine::answer::SearchResponse;
use umbel::engine::wire::{
    blocked, cluster, doc_name, drop_reason, headings, kind, node_name, ranks, removed,
};
use umbel::metadata::{Metadata, show_date};

/// Cropped and dropped spans that a person is shown, best first.
const SHOWN: usize = 5;

/// The passages, with the reasons if they are wanted.
pub(crate) fn answer(response: &SearchResponse, explain: bool) -> String {
    let mut out = String::new();
    let passages = &response.context.passages;
    for (passage, rank) in passages.iter().zip(ranks(passages)) {
        // Writing to a string cannot fail.
        let _ = write_passage(&mut out, response, passage, rank, explain);
    }
    let _ = write_summary(&mut out, response);
    if explain {
        let _ = write_trace(&mut out, response);
    }
    out
}

fn write_passage(
    out: &mut String,
    response: &SearchResponse,
    passage: &Passage,
    rank: usize,
    explain: bool,
) -> std::fmt::Result {
    let Some(stored) = response.documents.get(&passage.doc) else { return Ok(()) };
    let document = &stored.document;
    let (path, inside) = headings(document, passage);
    let place = if path.is_empty() { document.title.clone() } else { path.join(" > ") };
    writeln!(
        out,
        "{rank}. {}:{}{}  {}, {} tokens, score {:.3}",
        stored.entry.name,
        passage.span,
        document
            .page_at(passage.span.start)
            .map(|page| format!(" page {page}"))
            .unwrap_or_default(),
        kind(passage.kind),
        passage.tokens,
        passage.scores().final_score()
    )?;
    writeln!(out, "   {place}")?;
    let also_in: Vec<String> =
        cluster(response, passage).also_in.into_iter().map(|other| other.doc).collect();
    if !also_in.is_empty() {
        let more = also_in.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let shown: Vec<&str> = also_in.iter().take(SHOWN).map(String::as_str).collect();
        writeln!(out, "   also in {}{more}", shown.join(", "))?;
    }
    if explain {
        if !inside.is_empty() {
            writeln!(out, "   holds: {}", inside.join(", "))?;
        }
        if let Some(known) = known_of(&stored.entry.metadata) {
            writeln!(out, "   {known}")?;
        }
        for evidence in &passage.evidence {
            let tree = &document.tree;
            let leaf = tree.leaves_in(evidence.span).next().and_then(|at| tree.leaves.get(at));
            let section =
                leaf.map(|leaf| tree.heading_texts(&leaf.path).join(" > ")).unwrap_or_default();
            writeln!(
                out,
                "   evidence: {} > {} > leaf {}  list rank {}, {}",
                stored.entry.name,
                if section.is_empty() { "(no heading)" } else { &section },
                evidence.span,
                evidence.rank + 1,
                scores(evidence.scores)
            )?;
        }
    }
    writeln!(out)?;
    for line in passage.rendered(document).lines() {
        writeln!(out, "   {line}")?;
    }
    writeln!(out)
}

/// What is known of a document besides its text, on one line.
fn known_of(metadata: &Metadata) -> Option<String> {
    let Metadata { connector, url, updated, labels, .. } = metadata;
    let mut parts: Vec<String> = connector.iter().chain(url).cloned().collect();
    parts.extend(
        updated.map(|updated| format!("updated {} (by {})", show_date(updated.at), updated.from)),
    );
    if !labels.is_empty() {
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        parts.push(format!("for {}", labels.join(", ")));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Says that there were more than are shown.
fn write_more(out: &mut String, what: &str, count: usize) -> std::fmt::Result {
    match count.saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "{what}: {more} more (`--json` lists them)"),
    }
}

/// What each step gave a leaf; the reranker's score where one ran.
fn scores(scores: Scores) -> String {
    let leg = |name: &str, score: Option<f32>| match score {
        Some(score) => format!("{name} {score:.3}"),
        None => format!("{name} –"),
    };
    let rerank = scores.rerank.map(|score| format!(", rerank {score:.3}")).unwrap_or_default();
    format!(
        "{}, {}, fused {:.3}, support {:.3}{rerank}",
        leg("dense", scores.dense),
        leg("lexical", scores.lexical),
        scores.fused,
        scores.support
    )
}

fn write_summary(out: &mut String, response: &SearchResponse) -> std::fmt::Result {
    if response.context.passages.is_empty() {
        let dropped = response.context.dropped.len();
        return match dropped {
            0 => writeln!(out, "nothing found"),
            _ => writeln!(
                out,
                "nothing fits {} tokens: {} dropped",
                response.budget_tokens,
                counted(dropped, "hit", "hits")
            ),
        };
    }
    let compressed =
        removed(response).map(|removed| format!("; compression removed {:.0} %", removed * 100.0));
    writeln!(
        out,
        "{}, {} of {} tokens{}",
        counted(response.context.passages.len(), "passage", "passages"),
        response.context.tokens,
        response.budget_tokens,
        compressed.unwrap_or_default()
    )
}

fn write_trace(out: &mut String, response: &SearchResponse) -> std::fmt::Result {
    let trace = &response.trace;
    let counts = trace.counts;
    writeln!(
        out,
        "{} leaves retrieved, {} kept, {} after merging ({} parents substituted)",
        trace.retrieved, counts.children_retrieved, counts.after_merge, counts.parents_substituted
    )?;
    for fire in &trace.merge.fires {
        let share = &fire.share;
        write!(
            out,
            "fired: {}  {}, {} → {} tokens",
            node_name(response, share.node, share.span),
            shares(share),
            fire.tokens_before,
            fire.tokens_after
        )?;
        match fire.absorbed_by {
            Some(above) => {
                writeln!(out, ", then absorbed by {}", node_name(response, above, None))?;
            }
            None => writeln!(out)?,
        }
    }
    if trace.merge.fires.is_empty() {
        writeln!(out, "fired: nothing")?;
    }
    for share in &trace.merge.near_misses {
        let node = node_name(response, share.node, share.span);
        writeln!(out, "nearly: {node}  {}", shares(share))?;
    }
    for (share, reason) in &trace.merge.blocked {
        let node = node_name(response, share.node, share.span);
        writeln!(out, "blocked: {node}  {}, {}", shares(share), blocked(*reason))?;
    }
    for crop in trace.crops.iter().take(SHOWN) {
        let node = node_name(response, crop.node, None);
        writeln!(out, "cropped: {node}  {} tokens, to {}", crop.tokens, crop.window)?;
    }
    write_more(out, "cropped", trace.crops.len())?;
    for dropped in response.context.dropped.iter().take(SHOWN) {
        let name = doc_name(response, dropped.doc);
        writeln!(out, "dropped: {name}:{}  {}", dropped.span, drop_reason(dropped.reason))?;
    }
    write_more(out, "dropped", response.context.dropped.len())?;
    let timings: Vec<String> = response
        .timings
        .iter()
        .map(|(name, took)| format!("{name} {:.1}", took.as_secs_f64() * 1e3))
        .collect();
    writeln!(out, "ms: {}", timings.join(", "))?;
    response.cursor.as_ref().map_or(Ok(()), |cursor| writeln!(out, "next page: --cursor {cursor}"))
}

/// "3 of 4 children (0.75, wanted 0.50)", or the shares of tokens where the rule counts those.
fn shares(share: &Share) -> String {
    let Share { matched, of, ratio, wanted, .. } = share;
    let by = match share.by {
        RatioBy::Children => "",
        RatioBy::Tokens => " of the tokens",
    };
    format!("{matched} of {of} children ({ratio:.2}{by}, wanted {wanted:.2})")
}
