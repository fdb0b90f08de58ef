//! Items of a further page → the same without bytes that earlier pages delivered.
//!
//! Invariant: no byte of what comes out was delivered before; every item keeps evidence.

use crate::document::Library;
use crate::id::DocId;
use crate::merge::{Evidence, Item, ItemKind};
use crate::span::{Span, SpanSet};
use std::collections::BTreeMap;

/// The bytes of each document that earlier pages delivered.
pub type Delivered = BTreeMap<DocId, SpanSet>;

/// Cuts out of each item what was delivered. What is left between two such places is an item of its own where it holds evidence;
/// the rest goes. Order: by best evidence.
pub fn without_delivered(
    items: Vec<Item>,
    delivered: &Delivered,
    library: &Library<'_>,
) -> Vec<Item> {
    let mut left = Vec::new();
    for item in items {
        let gone = delivered.get(&item.doc).filter(|gone| !gone.intersect(item.span).is_empty());
        match (gone, library.get(&item.doc)) {
            (Some(gone), Some(document)) => left.extend(pieces(&item, gone, &document.text)),
            _ => left.push(item),
        }
    }
    left.sort_by_key(Item::rank);
    left
}

/// What is left of an item.
fn pieces(item: &Item, gone: &SpanSet, text: &str) -> Vec<Item> {
    let evidence: Vec<Evidence> =
        item.evidence.iter().filter_map(|e| rest(e, gone, text)).collect();
    let pieces = gone.missing_from(item.span).into_iter().map(|piece| piece.trim(text));
    let cut = pieces.filter_map(|span| {
        let inside = evidence.iter().filter(|evidence| span.contains(evidence.span));
        let inside: Vec<Evidence> = inside.cloned().collect();
        let cropped = Item { kind: ItemKind::Cropped, span, evidence: inside, ..item.clone() };
        (!cropped.evidence.is_empty()).then_some(cropped)
    });
    cut.collect()
}

/// The longest piece of a leaf that was not delivered; leaves may overlap. `None` where nothing is left.
fn rest(evidence: &Evidence, gone: &SpanSet, text: &str) -> Option<Evidence> {
    let pieces = gone.missing_from(evidence.span).into_iter().map(|piece| piece.trim(text));
    let span = pieces.max_by_key(|piece| piece.len()).filter(|piece: &Span| !piece.is_empty())?;
    Some(Evidence { span, ..evidence.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::hit::Scores;
    use crate::id::{ClusterId, LeafId};
    use crate::offsets::Offsets;
    use crate::tree::Tree;
    use proptest::prelude::*;

    const TEXT: &str = "aaaa bbbb cccc dddd eeee";

    fn document() -> Document {
        Document {
            text: TEXT.to_owned(),
            body: Span::new(0, TEXT.len()),
            title: String::new(),
            tree: Tree::default(),
            offsets: Offsets::default(),
            anchors: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn item(span: Span, evidence: &[(usize, Span)]) -> Item {
        let evidence = evidence.iter().map(|&(rank, span)| Evidence {
            leaf: LeafId([rank as u8; 16]),
            span,
            rank,
            scores: Scores::default(),
            cluster: (ClusterId([rank as u8; 16]), 1),
            cluster_score: 0.0,
        });
        let evidence = evidence.collect();
        Item { kind: ItemKind::Parent, doc: DocId(1), span, node: 0, evidence }
    }

    /// What is left of an item, as its texts and the ranks of the evidence in each.
    fn cut(
        span: Span,
        evidence: &[(usize, Span)],
        gone: &[Span],
    ) -> Vec<(&'static str, Vec<usize>)> {
        let document = document();
        let library: Library<'_> = [(DocId(1), &document)].into_iter().collect();
        let delivered = [(DocId(1), gone.iter().copied().collect())].into_iter().collect();
        without_delivered(vec![item(span, evidence)], &delivered, &library)
            .iter()
            .map(|item| {
                let ranks = item.evidence.iter().map(|e| e.rank).collect();
                (TEXT.get(item.span.start..item.span.end).unwrap(), ranks)
            })
            .collect()
    }

    #[test]
    fn what_was_delivered_is_cut_out_and_the_rest_is_by_best_evidence() {
        let (b, c, e) = (Span::new(5, 9), Span::new(10, 14), Span::new(20, 24));
        let whole = Span::new(0, 24);
        assert_eq!(cut(whole, &[(0, b)], &[]), [(TEXT, vec![0])]);
        assert_eq!(
            cut(whole, &[(3, b), (1, e)], &[c]),
            [("dddd eeee", vec![1]), ("aaaa bbbb", vec![3])]
        );
        // A piece without evidence is not delivered.
        assert_eq!(cut(whole, &[(0, b)], &[c]), [("aaaa bbbb", vec![0])]);
        assert_eq!(cut(b, &[(0, b)], &[c]), [("bbbb", vec![0])]);
        assert_eq!(cut(b, &[(0, b)], &[whole]), []);
    }

    #[test]
    fn of_a_leaf_that_overlaps_what_was_delivered_the_rest_is_left() {
        let (b_and_c, b) = (Span::new(5, 14), Span::new(5, 9));
        assert_eq!(cut(b_and_c, &[(0, b_and_c)], &[b]), [("cccc", vec![0])]);
    }

    proptest! {
        #[test]
        fn no_byte_comes_again(
            gone in prop::collection::vec((0usize..24, 1usize..8), 0..4),
            leaves in prop::collection::vec((0usize..20, 1usize..5), 1..5),
        ) {
            let gone: Vec<Span> =
                gone.iter().map(|&(start, len)| Span::new(start, (start + len).min(24))).collect();
            let leaves: Vec<(usize, Span)> = leaves
                .iter()
                .enumerate()
                .map(|(rank, &(start, len))| (rank, Span::new(start, start + len).trim(TEXT)))
                .filter(|(_, span)| !span.is_empty())
                .collect();
            prop_assume!(!leaves.is_empty());
            let document = document();
            let library: Library<'_> = [(DocId(1), &document)].into_iter().collect();
            let set: SpanSet = gone.iter().copied().collect();
            let delivered: Delivered = [(DocId(1), set.clone())].into_iter().collect();
            let whole = leaves.iter().fold(leaves[0].1, |hull, leaf| hull.hull(leaf.1));
            for item in without_delivered(vec![item(whole, &leaves)], &delivered, &library) {
                prop_assert!(set.intersect(item.span).is_empty());
                prop_assert!(!item.evidence.is_empty());
                prop_assert!(item.evidence.iter().all(|e| item.span.contains(e.span)));
            }
        }
    }
}
