//! `umbel show`, `tree` and `stats`: they need the catalog only, and work beside a process that holds the store.

use super::configuration;
use crate::args::{self, Args};
use crate::output::{Output, counted, number, usage};
use crate::wire;
use umbel::core::span::slice;
use umbel::core::tree::Tree;
use umbel::engine::inspect::{Distribution, Histogram, Inspector, Sample, Stats};
use umbel::engine::wire::{MetadataJson, level};

/// `guide/billing.md:120..980` → name and span.
fn citation(text: &str) -> (&str, Option<(usize, usize)>) {
    let parsed = text.rsplit_once(':').and_then(|(name, span)| {
        let (start, end) = span.split_once("..")?;
        Some((name, (start.parse().ok()?, end.parse().ok()?)))
    });
    parsed.map_or((text, None), |(name, span)| (name, Some(span)))
}

pub(crate) async fn show(args: &Args, show: &args::Show, output: &Output) -> anyhow::Result<u8> {
    let (name, span) = citation(&show.citation);
    let (stored, span) = Inspector::open(&args.store)?.citation(name, span).await?;
    let document = &stored.document;
    let text = slice(&document.text, span);
    if output.is_json() {
        let node = document.tree.smallest_containing(span).and_then(|at| document.tree.node(at));
        output.json(&serde_json::json!({
            "doc": stored.entry.name,
            "title": document.title,
            "heading_path": node.map(|node| document.tree.heading_texts(&node.path)).unwrap_or_default(),
            "span": { "start": span.start, "end": span.end },
            "tokens": document.offsets.tokens.count(span),
            "page": document.page_at(span.start),
            "page_end": document.page_at(span.end.saturating_sub(1)),
            "anchor": document.element_at(span.start),
            "line": document.line_at(span.start),
            "metadata": MetadataJson::from(&stored.entry.metadata),
            "text": text,
        }))?;
    } else {
        output.text(text);
        if !text.ends_with('\n') {
            output.line("");
        }
    }
    Ok(0)
}

pub(crate) async fn tree(args: &Args, tree: &args::Tree, output: &Output) -> anyhow::Result<u8> {
    let inspector = Inspector::open(&args.store)?;
    let Some(name) = &tree.document else {
        let entries = inspector.list().await?;
        if output.is_json() {
            let rows = entries.iter().map(|entry| {
                serde_json::json!({
                    "doc": entry.name,
                    "source": entry.source,
                    "path": entry.path,
                    "title": entry.title,
                    "leaves": entry.leaves,
                    "metadata": MetadataJson::from(&entry.metadata),
                })
            });
            output.json(&rows.collect::<Vec<_>>())?;
        } else {
            for entry in &entries {
                output.line(format!(
                    "{}  ({})",
                    entry.name,
                    counted(entry.leaves, "leaf", "leaves")
                ));
            }
        }
        return Ok(u8::from(entries.is_empty()));
    };
    let (name, span) = citation(name);
    if span.is_some() {
        return Err(usage(
            "a tree is that of a whole document",
            format!("write `umbel tree {name}`"),
        ));
    }
    let stored = inspector.document(name).await?;
    let document = &stored.document;
    if output.is_json() {
        let nodes = document.tree.nodes.iter().map(|node| {
            serde_json::json!({
                "level": level(node.kind),
                "span": { "start": node.span.start, "end": node.span.end },
                "tokens": node.tokens,
                "parent": node.parent,
                "children": node.children,
                "heading_path": document.tree.heading_texts(&node.path),
            })
        });
        output.json(&serde_json::json!({
            "doc": stored.entry.name,
            "title": document.title,
            "metadata": MetadataJson::from(&stored.entry.metadata),
            "nodes": nodes.collect::<Vec<_>>(),
            "warnings": document.warnings,
        }))?;
        return Ok(0);
    }
    output.line(format!("{} — {}", stored.entry.name, document.title));
    if !document.tree.nodes.is_empty() {
        print_node(&document.tree, 0, 0, output);
    }
    for warning in &document.warnings {
        output.warning(warning);
    }
    Ok(0)
}

fn print_node(tree: &Tree, at: u32, depth: usize, output: &Output) {
    let Some(node) = tree.node(at) else { return };
    let heading = node
        .path
        .last()
        .and_then(|&at| tree.headings.get(at as usize))
        .map_or("", |h| h.text.as_str());
    output.line(format!(
        "{:indent$}{} {}  {} tokens  {heading}",
        "",
        level(node.kind),
        node.span,
        node.tokens,
        indent = 2 * depth
    ));
    for &child in &node.children {
        print_node(tree, child, depth + 1, output);
    }
}

pub(crate) async fn stats(args: &Args, stats: &args::Stats, output: &Output) -> anyhow::Result<u8> {
    let inspector = Inspector::open(&args.store)?;
    if let Some(n) = stats.sample {
        let samples = inspector.sample(n as usize, stats.seed).await?;
        if output.is_json() {
            output.json(&wire::samples(&samples))?;
        } else {
            print_samples(&samples, output);
        }
        return Ok(u8::from(samples.is_empty()));
    }
    let stats = inspector.stats(&configuration(args, &[])?).await?;
    if output.is_json() {
        output.json(&wire::stats(&stats))?;
    } else {
        print_stats(&stats, output);
    }
    Ok(0)
}

fn print_samples(samples: &[Sample], output: &Output) {
    for sample in samples {
        output.line(format!(
            "── {}:{}  {} tokens, {} ──",
            sample.document,
            sample.span,
            sample.tokens,
            if sample.heading_path.is_empty() {
                "no heading".to_owned()
            } else {
                sample.heading_path.join(" > ")
            }
        ));
        output.line(&sample.text);
        output.line("");
    }
    output.line(match samples.len() {
        0 => "no leaf was merged of several sections".to_owned(),
        n => format!("{n} merged leaves: does each answer something completely?"),
    });
}

fn print_stats(stats: &Stats, output: &Output) {
    for (source, documents) in &stats.sources {
        output.line(format!(
            "source {}: {} documents in {}",
            source.name,
            number(*documents),
            source.root.display()
        ));
    }
    output.line(format!(
        "{} documents, {} tokens, {} leaves; vectors: {}",
        number(stats.documents),
        number(stats.tokens),
        number(stats.leaves),
        stats.model.as_deref().unwrap_or("none, searched by words only")
    ));
    let row = |name: &str, d: Distribution| {
        format!(
            "{name:<14} {:>8} {:>6} {:>6} {:>6} {:>6} {:>6}",
            number(d.n),
            d.min,
            d.p10,
            d.p50,
            d.p90,
            d.max
        )
    };
    output.line(format!(
        "\n{:<14} {:>8} {:>6} {:>6} {:>6} {:>6} {:>6}",
        "tokens", "chunks", "min", "p10", "p50", "p90", "max"
    ));
    output.line(row("before merging", stats.before_merge));
    output.line(row("leaves", stats.leaf_tokens));
    output.line(format!("\n{:<10} {:<30} {}", "tokens", "before merging", "leaves"));
    histograms(&stats.before_histogram, &stats.leaf_histogram, output);
    output.line(format!(
        "\nempty bodies: {}; leaves across top-level sections: {}; documents of headings only: {}; documents with warnings: {}",
        stats.empty_bodies, stats.across_top_level, stats.heading_only, stats.documents_with_warnings
    ));
    output.line(format!(
        "\n{:<14} {:>8} {:>6} {:>6} {:>6} {:>6} {:>6}",
        "tokens by level", "nodes", "min", "p10", "p50", "p90", "max"
    ));
    for (kind, tokens) in &stats.level_tokens {
        output.line(row(level(*kind), *tokens));
    }
    let depths: Vec<String> =
        stats.tree_depth.iter().map(|(n, count)| format!("{n}:{count}")).collect();
    output.line(format!("levels per document: {}", depths.join(" ")));
    if let Some(share) = stats.whole_sections_share {
        output.line(format!("top-level sections that are one leaf: {:.1} %", share * 100.0));
    }
    let branching: Vec<String> =
        stats.children_per_parent.iter().map(|(n, count)| format!("{n}:{count}")).collect();
    output.line(format!("children per parent: {}", branching.join(" ")));
    if let (Some(satisfiable), Some(can_fire)) =
        (stats.merging.satisfiable_share(), stats.merging.can_fire_share())
    {
        output.line(format!(
            "the merge rule can be met for {:.1} % of the parents, and {:.1} % are small enough as well",
            satisfiable * 100.0,
            can_fire * 100.0
        ));
    }
    for advice in &stats.advice {
        output.line(format!("advice: {advice}"));
    }
}

/// Two histograms side by side, to one scale.
fn histograms(before: &Histogram, after: &Histogram, output: &Output) {
    let most =
        before.0.iter().chain(&after.0).map(|(_, count)| *count).max().unwrap_or_default().max(1);
    let bar = |count: usize| {
        let length = (count * 20).div_ceil(most);
        format!("{} {}", "█".repeat(length), if count == 0 { String::new() } else { number(count) })
    };
    for ((class, before), (_, after)) in before.0.iter().zip(&after.0) {
        output.line(format!("{class:<10} {:<30} {}", bar(*before), bar(*after)).trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_citation_names_a_document_and_maybe_a_span() {
        assert_eq!(citation("a/b.md:12..90"), ("a/b.md", Some((12, 90))));
        assert_eq!(citation("a/b.md"), ("a/b.md", None));
        assert_eq!(citation("a:b.md"), ("a:b.md", None));
    }
}
