//! Judgments and the trees of their documents → how much of a parent is relevant, and whether expansion will help.
//!
//! Invariant: overlapping evidence counts once, so no ratio is above 1; parents are counted once for each query that expands to them.

use crate::judgment::Judgment;
use crate::locate::{Holder, holders, shared_parents};
use crate::parent::{relevance_ratio, relevance_ratio_by};
use crate::share::Share;
use serde::Serialize;
use statrs::statistics::{Data, Distribution, OrderStatistics};
use std::collections::BTreeMap;
use std::fmt;
use umbel_core::document::Document;
use umbel_core::span::Span;

/// From this mean ratio on most of what comes with a hit is about the same question.
const TIGHT: f64 = 0.5;
/// Below this one most of it is about something else.
const SPRAWLING: f64 = 0.25;
/// From this share of queries on there is something to fix.
const MUCH: f64 = 0.2;

/// A parent that judged queries expand to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parent {
    /// The document's name.
    pub doc: String,
    /// First byte and one past the last.
    pub span: (usize, usize),
    /// Its tokens.
    pub tokens: usize,
    /// Its children.
    pub children: usize,
    /// Tokens of the leaves that hold evidence / tokens of the parent, the mean over its queries.
    pub held: f64,
    /// Bytes of evidence / bytes of the parent, the mean over its queries.
    pub judged: f64,
    /// The queries that expand to it.
    pub queries: Vec<String>,
}

/// A distribution; quantiles as type 8 of Hyndman and Fan.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantiles {
    /// The mean.
    pub mean: f64,
    /// One in ten is below.
    pub p10: f64,
    /// One in four is below.
    pub p25: f64,
    /// Half are below.
    pub p50: f64,
    /// Three in four are below.
    pub p75: f64,
    /// Nine in ten are below.
    pub p90: f64,
}

impl Quantiles {
    /// The distribution of some values; `None` of none.
    pub fn of(values: Vec<f64>) -> Option<Quantiles> {
        let mut data = Data::new(values);
        let mean = data.mean().filter(|mean| mean.is_finite())?;
        let mut at = |share| data.quantile(share);
        Some(Quantiles {
            mean,
            p10: at(0.1),
            p25: at(0.25),
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
        })
    }
}

/// What parents and boundaries say of expansion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Prediction {
    /// Parents are about one thing, and evidence crosses the cuts between leaves.
    Helps,
    /// Parents are about one thing, and hardly any evidence crosses cuts.
    NothingToFix,
    /// Parents are mostly about something else.
    Hurts,
    /// Neither is clear.
    Unclear,
    /// No evidence has a parent.
    NoParent,
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Prediction::Helps => "expansion should help: most of a parent is relevant, and evidence crosses the cuts between leaves",
            Prediction::NothingToFix => "expansion will not hurt and has little to fix: most of a parent is relevant, and one leaf mostly holds the evidence",
            Prediction::Hurts => "expansion will hurt: most of a parent is about something else; lower `search.parent_cap`, expand to `siblings:1`, or split the pages that are listed",
            Prediction::Unclear => "unclear: compare `search.expand=parent` with `none` on a run",
            Prediction::NoParent => "no evidence has a parent: these documents are of one leaf, and there is nothing to expand to",
        })
    }
}

/// What judged queries say of the parents of one kind of documents.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Kind {
    /// The kind.
    pub name: String,
    /// Queries with evidence in it.
    pub queries: usize,
    /// Parents, each as often as a query expands to it.
    pub expansions: usize,
    /// Tokens of the leaves that hold evidence / tokens of the parent.
    pub held: Option<Quantiles>,
    /// Bytes of evidence / bytes of the parent.
    pub judged: Option<Quantiles>,
    /// Tokens of the parents.
    pub parent_tokens: Option<Quantiles>,
    /// Children of the parents, on average.
    pub children: Option<f64>,
    /// Queries of whose evidence several leaves of one parent hold some.
    pub spanning: Share,
    /// What that means for expansion.
    pub prediction: Prediction,
}

/// How much of parents is relevant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Relevance {
    /// All documents.
    pub all: Kind,
    /// Each kind of them, by name.
    pub kinds: Vec<Kind>,
    /// The parents that bring most tokens about something else, worst first.
    pub worst: Vec<Parent>,
}

/// A query's expansion to a parent.
struct Expansion {
    kind: String,
    query: String,
    parent: Parent,
}

/// Measures the parents that judged queries expand to. `kind_of` groups documents by their names.
pub fn relevance<'d>(
    judgments: &[Judgment],
    document_of: impl Fn(&str) -> Option<&'d Document>,
    kind_of: impl Fn(&str) -> String,
) -> Relevance {
    let mut expansions = Vec::new();
    let mut spans: Vec<(String, bool)> = Vec::new();
    for judgment in judgments {
        let holders = holders(&judgment.relevant, &document_of);
        let shared = shared_parents(&holders);
        let mut kinds: BTreeMap<String, bool> = BTreeMap::new();
        for holder in &holders {
            let spanning = shared.keys().any(|(doc, _)| *doc == holder.doc);
            *kinds.entry(kind_of(&holder.doc)).or_default() |= spanning;
        }
        spans.extend(kinds);
        for (doc, parent) in parents(&holders) {
            let Some(document) = document_of(doc) else { continue };
            if let Some(parent) = expand(judgment, document, doc, parent, &holders) {
                let query = judgment.id.clone();
                expansions.push(Expansion { kind: kind_of(doc), query, parent });
            }
        }
    }
    let mut names: Vec<&str> = spans.iter().map(|(kind, _)| kind.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let of_kind = |name: &str| {
        let of = expansions.iter().filter(|e| e.kind == name).map(|e| &e.parent);
        let spanning = Share::count_of(spans.iter().filter(|(k, _)| k == name), |(_, s)| *s);
        kind(name, &of.collect::<Vec<_>>(), spanning)
    };
    let kinds = names.into_iter().map(of_kind).collect();
    let spanning = Share::count_of(judgments, |judgment| {
        !shared_parents(&holders(&judgment.relevant, &document_of)).is_empty()
    });
    let parents: Vec<&Parent> = expansions.iter().map(|e| &e.parent).collect();
    let all = kind("all", &parents, spanning);
    Relevance { all, kinds, worst: worst(expansions) }
}

/// The parents above some leaves, each once.
fn parents(holders: &[Holder]) -> impl Iterator<Item = (&str, u32)> {
    let mut all: Vec<(&str, u32)> =
        holders.iter().filter_map(|h| Some((h.doc.as_str(), h.parent?))).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter()
}

fn expand(
    judgment: &Judgment,
    document: &Document,
    doc: &str,
    parent: u32,
    holders: &[Holder],
) -> Option<Parent> {
    let node = document.tree.node(parent)?;
    let leaf_of = |holder: &Holder| document.tree.leaves.get(holder.leaf).map(|leaf| leaf.span);
    let leaves = holders.iter().filter(|h| h.doc == doc).filter_map(leaf_of);
    let references = judgment.relevant.iter().filter(|r| r.doc == doc);
    let tokens = |span: Span| document.offsets.tokens.count(span);
    Some(Parent {
        doc: doc.to_owned(),
        span: (node.span.start, node.span.end),
        tokens: node.tokens as usize,
        children: node.children.len(),
        held: relevance_ratio_by(node.span, leaves, tokens)?,
        judged: relevance_ratio(node.span, references.map(crate::judgment::Reference::span))?,
        queries: Vec::new(),
    })
}

fn kind(name: &str, parents: &[&Parent], spanning: Share) -> Kind {
    let quantiles = |of: fn(&Parent) -> f64| Quantiles::of(parents.iter().map(|p| of(p)).collect());
    let held = quantiles(|parent| parent.held);
    Kind {
        name: name.to_owned(),
        queries: spanning.of() as usize,
        expansions: parents.len(),
        judged: quantiles(|parent| parent.judged),
        parent_tokens: quantiles(|parent| parent.tokens as f64),
        children: quantiles(|parent| parent.children as f64).map(|children| children.mean),
        prediction: predict(held.map(|held| held.mean), spanning),
        held,
        spanning,
    }
}

/// What a mean ratio and the share of queries whose evidence crosses cuts say of expansion. The thresholds are ours, set between a
/// corpus that it helped (0.62, 34 %) and one that it hurt (0.11, 6 %).
pub fn predict(held: Option<f64>, spanning: Share) -> Prediction {
    let much = spanning.proportion().is_some_and(|share| share >= MUCH);
    match held {
        None => Prediction::NoParent,
        Some(held) if held >= TIGHT && much => Prediction::Helps,
        Some(held) if held >= TIGHT => Prediction::NothingToFix,
        Some(held) if held < SPRAWLING => Prediction::Hurts,
        Some(_) => Prediction::Unclear,
    }
}

/// Parents by the tokens about something else that they bring, over all queries that expand to them.
fn worst(expansions: Vec<Expansion>) -> Vec<Parent> {
    let mut by_place: BTreeMap<(String, (usize, usize)), Vec<Expansion>> = BTreeMap::new();
    for expansion in expansions {
        let key = (expansion.parent.doc.clone(), expansion.parent.span);
        by_place.entry(key).or_default().push(expansion);
    }
    let mut parents: Vec<Parent> = by_place
        .into_values()
        .filter_map(|of_place| {
            let n = of_place.len() as f64;
            let mean =
                |of: fn(&Parent) -> f64| of_place.iter().map(|e| of(&e.parent)).sum::<f64>() / n;
            let (held, judged) = (mean(|p| p.held), mean(|p| p.judged));
            let queries = of_place.iter().map(|e| e.query.clone()).collect();
            let parent = of_place.first()?.parent.clone();
            Some(Parent { held, judged, queries, ..parent })
        })
        .collect();
    let excess = |p: &Parent| p.tokens as f64 * (1.0 - p.held) * p.queries.len() as f64;
    parents.sort_by(|a, b| excess(b).total_cmp(&excess(a)).then_with(|| a.doc.cmp(&b.doc)));
    parents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judgment::Reference;
    use crate::run::testing::document;

    fn judgment(id: &str, spans: &[(usize, usize)]) -> Judgment {
        let reference = |&(start, end): &(usize, usize)| Reference {
            doc: "a".to_owned(),
            start,
            end,
            grade: None,
        };
        Judgment {
            id: id.to_owned(),
            query: "?".to_owned(),
            answers: Vec::new(),
            group: None,
            relevant: spans.iter().map(reference).collect(),
        }
    }

    fn measured(judgments: &[Judgment]) -> Relevance {
        let document = document();
        relevance(judgments, |doc| (doc == "a").then_some(&document), |_| "kind".to_owned())
    }

    #[test]
    fn a_parent_is_as_relevant_as_the_leaves_that_hold_the_evidence() {
        // One leaf of five tokens, then two, of twenty.
        let got = measured(&[judgment("1", &[(0, 9)]), judgment("2", &[(5, 15), (5, 15)])]);
        let held = got.all.held.unwrap();
        assert!((held.mean - 0.375).abs() < 1e-12, "{held:?}");
        let judged = got.all.judged.unwrap();
        assert!((judged.mean - 9.5 / 39.0).abs() < 1e-12, "{judged:?}");
        assert_eq!((got.all.queries, got.all.expansions), (2, 2));
        assert_eq!(got.all.spanning.to_string(), "1 of 2 = 50.0 %");
        assert_eq!(got.all.children, Some(4.0));
        assert_eq!((got.kinds.len(), got.kinds[0].name.as_str()), (1, "kind"));
        assert_eq!((got.worst.len(), got.worst[0].queries.len(), got.worst[0].tokens), (1, 2, 20));
    }

    #[test]
    fn overlapping_evidence_counts_once() {
        let got = measured(&[judgment("1", &[(0, 39), (0, 39), (10, 29)])]);
        assert!(got.all.held.unwrap().mean <= 1.0 && got.all.judged.unwrap().mean <= 1.0);
    }

    #[test]
    fn a_tight_corpus_and_a_sprawling_one_are_told_apart() {
        let check = |held, spanning, expected| {
            assert_eq!(predict(held, Share::new(spanning, 100).unwrap()), expected);
        };
        check(Some(0.62), 34, Prediction::Helps);
        check(Some(0.62), 6, Prediction::NothingToFix);
        check(Some(0.11), 6, Prediction::Hurts);
        check(Some(0.11), 34, Prediction::Hurts);
        check(Some(0.4), 34, Prediction::Unclear);
        check(None, 0, Prediction::NoParent);
    }

    #[test]
    fn without_evidence_nothing_is_said() {
        let got = measured(&[]);
        assert_eq!((got.all.held, got.all.prediction), (None, Prediction::NoParent));
        assert!(got.kinds.is_empty() && got.worst.is_empty());
    }
}
