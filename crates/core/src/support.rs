//! One ranked list → the same leaves, each raised by the best one that was found beside it.
//!
//! Invariant: no leaf enters or leaves the list; a leaf alone in its section and document keeps its score.
//!
//! A leaf whose section holds another good one is likelier to be relevant than its own words tell: evidence seldom comes
//! alone, and a text says what it is about once. The raise depends on the whole list, so a list is raised before it is cut.
//!
//! Source: scores of passages smoothed by those around them: Callan, SIGIR 1994, for a passage and its document; Diaz,
//! CIKM 2005, for any neighbours. The weights are those of the table in `docs/expansion.md`.

use crate::hit::{Hit, sort};
use crate::id::{ClusterId, DocId};
use std::collections::BTreeMap;

/// How much a leaf is raised by others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SupportConfig {
    /// Share of the best other fused score under the node right above the leaf, from 0.
    pub section: f32,
    /// Share of the best other fused score in its document, from 0.
    pub document: f32,
}

/// Sets the support of each hit, and orders the list by what comes of it. `hits` is in falling fused score. Copies of a leaf
/// (the same cluster) do not support it.
///
/// O(n log n).
pub fn support(hits: &mut [Hit], config: SupportConfig) {
    let mut sections: BTreeMap<(DocId, u32), Best> = BTreeMap::new();
    let mut documents: BTreeMap<DocId, Best> = BTreeMap::new();
    for hit in hits.iter() {
        documents.entry(hit.record.doc).or_default().offer(hit);
        if let Some(section) = section(hit) {
            sections.entry(section).or_default().offer(hit);
        }
    }
    for hit in hits.iter_mut() {
        let in_section = section(hit).and_then(|section| sections.get(&section));
        let in_document = documents.get(&hit.record.doc);
        let best = |of: Option<&Best>| of.map_or(0.0, |best| best.other_than(hit.record.cluster));
        let support = config.section * best(in_section) + config.document * best(in_document);
        hit.scores.support = support;
    }
    sort(hits);
}

/// The node right above a leaf.
fn section(hit: &Hit) -> Option<(DocId, u32)> {
    hit.record.ancestors.first().map(|above| (hit.record.doc, above.node))
}

/// The best fused score of some leaves, and the best one of another cluster.
#[derive(Default)]
struct Best {
    first: Option<(ClusterId, f32)>,
    second: Option<f32>,
}

impl Best {
    /// Takes leaves in falling score.
    fn offer(&mut self, hit: &Hit) {
        let (cluster, score) = (hit.record.cluster, hit.scores.fused);
        match self.first {
            None => self.first = Some((cluster, score)),
            Some((first, _)) if first != cluster && self.second.is_none() => {
                self.second = Some(score);
            }
            Some(_) => {}
        }
    }

    /// The best score of another cluster, 0 where there is none.
    fn other_than(&self, cluster: ClusterId) -> f32 {
        match self.first {
            Some((first, score)) if first != cluster => score,
            _ => self.second.unwrap_or(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hit::{Ancestor, LeafRecord, Scores};
    use crate::id::LeafId;
    use crate::span::Span;
    use proptest::prelude::*;

    const WEIGHTS: SupportConfig = SupportConfig { section: 0.5, document: 0.25 };

    /// A leaf `n` in a document, under a section, of a cluster, with a score.
    fn hit((n, doc, section, cluster, fused): (u8, u64, Option<u32>, u8, f32)) -> Hit {
        let ancestors = section.map(|node| Ancestor { node, children: 4 }).into_iter().collect();
        let record = LeafRecord {
            leaf: LeafId([n; 16]),
            doc: DocId(doc),
            span: Span::new(0, 1),
            ordinal: 0,
            tokens: 1,
            node: 0,
            ancestors,
            cluster: LeafId([cluster; 16]).into(),
        };
        Hit { record, scores: Scores { fused, ..Scores::default() } }
    }

    fn check(hits: &[(u8, u64, Option<u32>, u8, f32)], expected: &[(u8, f32)]) {
        let mut hits: Vec<Hit> = hits.iter().copied().map(hit).collect();
        support(&mut hits, WEIGHTS);
        let found: Vec<_> = hits.iter().map(|h| (h.record.leaf.0[0], h.scores.support)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_leaf_alone_keeps_its_score() {
        check(&[(1, 1, Some(1), 1, 1.0), (2, 2, None, 2, 0.5)], &[(1, 0.0), (2, 0.0)]);
        check(&[], &[]);
    }

    #[test]
    fn siblings_and_leaves_of_the_document_raise_each_other() {
        // 2 and 3 share a section with each other, and the document with 1.
        check(
            &[(1, 1, Some(1), 1, 1.0), (2, 1, Some(2), 2, 0.75), (3, 1, Some(2), 3, 0.5)],
            &[(2, 0.25 + 0.25), (1, 0.1875), (3, 0.375 + 0.25)],
        );
    }

    #[test]
    fn a_leaf_right_under_the_root_has_no_section_of_others() {
        check(&[(1, 1, None, 1, 1.0), (2, 1, None, 2, 0.5)], &[(1, 0.125), (2, 0.25)]);
    }

    #[test]
    fn copies_do_not_support_each_other() {
        check(
            &[(1, 1, Some(1), 7, 1.0), (2, 1, Some(1), 7, 0.75), (3, 1, Some(1), 3, 0.5)],
            &[(1, 0.375), (3, 0.75), (2, 0.375)],
        );
    }

    proptest! {
        #[test]
        fn the_raised_list_holds_the_same_leaves_in_falling_score(
            leaves in prop::collection::btree_map(0u8..40, (0u64..4, prop::option::of(0u32..4), 0u8..6, 0.0f32..1.0), 0..40),
        ) {
            let mut hits: Vec<Hit> =
                leaves.iter().map(|(&n, &(doc, section, cluster, fused))| hit((n, doc, section, cluster, fused))).collect();
            sort(&mut hits);
            let before: BTreeMap<LeafId, f32> = hits.iter().map(|h| (h.record.leaf, h.scores.fused)).collect();
            support(&mut hits, WEIGHTS);
            let after: BTreeMap<LeafId, f32> = hits.iter().map(|h| (h.record.leaf, h.scores.fused)).collect();
            prop_assert_eq!(before, after);
            prop_assert!(hits.windows(2).all(|pair| pair[0].scores.final_score() >= pair[1].scores.final_score()));
            for hit in &hits {
                let others = hits.iter().filter(|o| o.record.doc == hit.record.doc && o.record.cluster != hit.record.cluster);
                let best = |section: bool| others.clone()
                    .filter(|o| !section || (super::section(o).is_some() && super::section(o) == super::section(hit)))
                    .map(|o| o.scores.fused).fold(0.0, f32::max);
                let expected = WEIGHTS.section * best(true) + WEIGHTS.document * best(false);
                prop_assert!((hit.scores.support - expected).abs() < 1e-6);
            }
        }
    }
}
