//! Evidence and the trees of its documents → the leaves that hold it, and how these lie to each other.
//!
//! Invariant: of each reference as few leaves are named as hold nearly all of it, so a leaf that it grazes is none of them.

use crate::judgment::Reference;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use umbel_core::document::Document;
use umbel_core::merge::MergeConfig;
use umbel_core::span::Span;

/// The share of a reference's bytes that its leaves hold.
const HELD: f64 = 0.95;

/// A leaf that holds evidence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Holder {
    /// The document's name.
    pub doc: String,
    /// The leaf's place among those of the document.
    pub leaf: usize,
    /// The node above it; `None` for a document of one leaf.
    pub parent: Option<u32>,
}

/// How the leaves that hold a query's evidence lie to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// One leaf holds it all.
    OneLeaf,
    /// Several leaves of one parent.
    OneParent,
    /// Several parents of one document.
    Parents,
    /// Several documents.
    Documents,
    /// No leaf holds any of it.
    Nowhere,
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Spread::OneLeaf => "one leaf",
            Spread::OneParent => "several leaves of one parent",
            Spread::Parents => "several parents of one document",
            Spread::Documents => "several documents",
            Spread::Nowhere => "no leaf",
        })
    }
}

/// The leaves that hold the evidence, by document and place, each once: of each reference the fewest that hold 95 % of its bytes
/// between them, or all that it has.
pub fn holders<'d>(
    relevant: &[Reference],
    document_of: impl Fn(&str) -> Option<&'d Document>,
) -> Vec<Holder> {
    let mut found = BTreeSet::new();
    for reference in relevant {
        let Some(document) = document_of(&reference.doc) else { continue };
        let tree = &document.tree;
        for leaf in fewest(document, reference.span()) {
            let node = tree.leaves.get(leaf).and_then(|leaf| tree.node(leaf.node));
            let parent = node.and_then(|node| node.parent);
            found.insert(Holder { doc: reference.doc.clone(), leaf, parent });
        }
    }
    found.into_iter().collect()
}

/// The fewest leaves that hold a span, as places; those that hold most of it come first.
fn fewest(document: &Document, span: Span) -> Vec<usize> {
    let leaves = &document.tree.leaves;
    let mut shares: Vec<(usize, usize)> = document
        .tree
        .leaves_in(span)
        .filter_map(|at| Some((leaves.get(at)?.span.intersection(span)?.len(), at)))
        .collect();
    shares.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut held = 0;
    let enough = |held: usize| held as f64 >= HELD * span.len() as f64;
    shares
        .into_iter()
        .take_while(|(bytes, _)| {
            let is_needed = !enough(held);
            held += bytes;
            is_needed
        })
        .map(|(_, at)| at)
        .collect()
}

/// How leaves lie to each other.
pub fn spread(holders: &[Holder]) -> Spread {
    let distinct = |key: &dyn Fn(&Holder) -> (String, Option<u32>)| {
        holders.iter().map(key).collect::<BTreeSet<_>>().len()
    };
    match holders.len() {
        0 => Spread::Nowhere,
        1 => Spread::OneLeaf,
        _ if distinct(&|h| (h.doc.clone(), None)) > 1 => Spread::Documents,
        _ if distinct(&|h| (h.doc.clone(), h.parent)) > 1 => Spread::Parents,
        _ => Spread::OneParent,
    }
}

/// The parents of which several leaves hold evidence, with those leaves.
pub fn shared_parents(holders: &[Holder]) -> BTreeMap<(&str, u32), Vec<usize>> {
    let mut parents: BTreeMap<(&str, u32), Vec<usize>> = BTreeMap::new();
    for holder in holders {
        if let Some(parent) = holder.parent {
            parents.entry((&holder.doc, parent)).or_default().push(holder.leaf);
        }
    }
    parents.retain(|_, leaves| leaves.len() > 1);
    parents
}

/// Whether a merge rule is there for this evidence: several leaves of one parent hold some, and the rule can fire for that parent in
/// a list of `depth`, where `budget_tokens` may be delivered.
pub fn is_for<'d>(
    relevant: &[Reference],
    document_of: impl Fn(&str) -> Option<&'d Document>,
    merge: &MergeConfig,
    depth: usize,
    budget_tokens: usize,
) -> bool {
    let holders = holders(relevant, &document_of);
    shared_parents(&holders).keys().any(|&(doc, parent)| {
        let tree = document_of(doc).map(|document| &document.tree);
        let node = tree.and_then(|tree| Some((tree, tree.node(parent)?)));
        node.is_some_and(|(tree, node)| merge.can_fire(tree, node, depth, budget_tokens))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::testing::document;

    /// The leaves that hold some spans of `a`, and how they lie; a `b` is the same document by another name.
    fn check(spans: &[(&str, usize, usize)], leaves: &[usize], expected: Spread) {
        let document = document();
        let relevant: Vec<Reference> = spans
            .iter()
            .map(|&(doc, start, end)| Reference { doc: doc.to_owned(), start, end, grade: None })
            .collect();
        let found = holders(&relevant, |doc| (doc != "gone").then_some(&document));
        assert_eq!(found.iter().map(|h| h.leaf).collect::<Vec<_>>(), leaves);
        assert_eq!(spread(&found), expected);
    }

    #[test]
    fn as_few_leaves_as_hold_the_evidence_are_named() {
        check(&[("a", 0, 9)], &[0], Spread::OneLeaf);
        check(&[("a", 2, 5), ("a", 5, 8)], &[0], Spread::OneLeaf);
        check(&[("a", 5, 15)], &[0, 1], Spread::OneParent);
        check(&[("a", 0, 39)], &[0, 1, 2, 3], Spread::OneParent);
        check(&[("a", 0, 9), ("b", 0, 9)], &[0, 0], Spread::Documents);
        check(&[("gone", 0, 9)], &[], Spread::Nowhere);
        check(&[("a", 9, 10)], &[], Spread::Nowhere);
    }

    #[test]
    fn the_leaves_that_hold_most_come_first_and_no_more_than_are_needed() {
        let document = document();
        assert_eq!(fewest(&document, Span::new(0, 9)), [0]);
        assert_eq!(fewest(&document, Span::new(7, 19)), [1, 0]);
        // 38 of the 39 bytes would be enough; each of the four leaves has nine of them.
        assert_eq!(fewest(&document, Span::new(0, 39)).len(), 4);
    }

    #[test]
    fn a_rule_is_there_for_evidence_in_several_leaves_of_one_parent() {
        let document = document();
        let is_for = |start, end, min_siblings| {
            let relevant = [Reference { doc: "a".to_owned(), start, end, grade: None }];
            let merge = MergeConfig { min_siblings, ..MergeConfig::default() };
            is_for(&relevant, |_| Some(&document), &merge, 60, 100)
        };
        assert!(is_for(0, 19, 2) && !is_for(0, 9, 2) && !is_for(0, 19, 5));
    }
}
