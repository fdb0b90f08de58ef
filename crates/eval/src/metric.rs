//! Delivered spans and relevant spans of one query → how much of the evidence was delivered, and how much else.
//!
//! Invariant: all figures are quotients of byte counts by one interval algebra; where the denominator is nothing there is no
//! figure, never a zero.

use crate::judgment::Reference;
use std::collections::BTreeMap;
use umbel_core::span::{Span, SpanSet};

/// A reference counts as covered when this share of its bytes is delivered, in per cent.
pub const COVERED_PERCENT: usize = 95;

/// A span of a document, by the document's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place<'a> {
    /// The document's name.
    pub doc: &'a str,
    /// Its bytes.
    pub span: Span,
}

/// What was delivered of one query's evidence, counted in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Evidence {
    /// Bytes of the union of the relevant spans; above 0.
    pub relevant_bytes: usize,
    /// Those of them that were delivered.
    pub hit_bytes: usize,
    /// All bytes delivered, each as often as it was.
    pub delivered_bytes: usize,
    /// All bytes delivered, each once.
    pub distinct_bytes: usize,
    /// How many references there are, overlapping ones each for itself; above 0.
    pub references: usize,
    /// How many of them are covered to [`COVERED_PERCENT`].
    pub covered: usize,
}

/// Counts what was delivered of a query's evidence; `None` where no relevant byte is named, for then nothing can be said.
///
/// Delivered spans may overlap and repeat; overlapping references count once in the bytes and each for itself in `covered`.
/// O((n + m) log n) for n delivered and m relevant spans that do not overlap.
pub fn evidence(delivered: &[Place<'_>], relevant: &[Reference]) -> Option<Evidence> {
    let got = union_by_document(delivered.iter().map(|place| (place.doc, place.span)));
    let wanted = union_by_document(relevant.iter().map(|r| (r.doc.as_str(), r.span())));
    let nothing = SpanSet::new();
    let hits = |doc: &str, span: Span| common(got.get(doc).unwrap_or(&nothing), span);

    let relevant_bytes: usize = wanted.values().map(SpanSet::len).sum();
    let pieces = wanted.iter().flat_map(|(doc, set)| set.spans().iter().map(move |s| (*doc, *s)));
    let is_covered =
        |r: &&Reference| 100 * hits(&r.doc, r.span()) >= COVERED_PERCENT * r.span().len();
    (relevant_bytes > 0).then(|| Evidence {
        relevant_bytes,
        hit_bytes: pieces.map(|(doc, span)| hits(doc, span)).sum(),
        delivered_bytes: delivered.iter().map(|place| place.span.len()).sum(),
        distinct_bytes: got.values().map(SpanSet::len).sum(),
        references: relevant.len(),
        covered: relevant.iter().filter(is_covered).count(),
    })
}

/// The share of each reference's bytes that was delivered, 0 to 1, in the order of the references; 0 for one without bytes.
pub fn coverage(delivered: &[Place<'_>], relevant: &[Reference]) -> Vec<f64> {
    let got = union_by_document(delivered.iter().map(|place| (place.doc, place.span)));
    let nothing = SpanSet::new();
    let share = |reference: &Reference| {
        let span = reference.span();
        let hit = common(got.get(reference.doc.as_str()).unwrap_or(&nothing), span);
        hit as f64 / span.len().max(1) as f64
    };
    relevant.iter().map(share).collect()
}

impl Evidence {
    /// Evidence recall, 0 to 1: relevant bytes delivered / relevant bytes.
    pub fn recall(&self) -> f64 {
        self.hit_bytes as f64 / self.relevant_bytes as f64
    }

    /// Full evidence: whether each reference is covered to [`COVERED_PERCENT`].
    pub fn is_full(&self) -> bool {
        self.covered == self.references
    }

    /// Precision, 0 to 1: relevant bytes delivered / bytes delivered, each as often as it was. `None` if nothing was.
    pub fn precision(&self) -> Option<f64> {
        (self.delivered_bytes > 0).then(|| self.hit_bytes as f64 / self.delivered_bytes as f64)
    }

    /// Intersection over union, 0 to 1: relevant bytes delivered / (bytes delivered, each as often as it was, + relevant bytes
    /// that were not). Where no byte is delivered twice it is the Jaccard index; 0 if nothing is delivered.
    ///
    /// Source: Smith and Troynikov, "Evaluating Chunking Strategies for Retrieval", Chroma 2024, in bytes for tokens.
    pub fn iou(&self) -> f64 {
        let union = self.delivered_bytes + self.relevant_bytes - self.hit_bytes;
        self.hit_bytes as f64 / union as f64
    }

    /// The share of delivered bytes that had been delivered before, 0 to 1. `None` if nothing was delivered.
    pub fn duplicated(&self) -> Option<f64> {
        let repeated = self.delivered_bytes - self.distinct_bytes;
        (self.delivered_bytes > 0).then(|| repeated as f64 / self.delivered_bytes as f64)
    }
}

fn union_by_document<'a>(
    places: impl Iterator<Item = (&'a str, Span)>,
) -> BTreeMap<&'a str, SpanSet> {
    let mut sets: BTreeMap<&str, SpanSet> = BTreeMap::new();
    for (doc, span) in places {
        sets.entry(doc).or_default().insert(span);
    }
    sets
}

/// How many bytes of the span are in the set.
fn common(set: &SpanSet, span: Span) -> usize {
    set.intersect(span).iter().map(|piece| piece.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reference(doc: &str, start: usize, end: usize) -> Reference {
        Reference { doc: doc.to_owned(), start, end, grade: None }
    }

    /// `a0-10 b5-9` → the places.
    fn places(text: &str) -> Vec<Place<'_>> {
        let place = |word: &'_ str| {
            let (start, end) = word.get(1..).unwrap().split_once('-').unwrap();
            Span::new(start.parse().unwrap(), end.parse().unwrap())
        };
        text.split_whitespace()
            .map(|word| Place { doc: word.get(..1).unwrap(), span: place(word) })
            .collect()
    }

    fn references(text: &str) -> Vec<Reference> {
        places(text).iter().map(|p| reference(p.doc, p.span.start, p.span.end)).collect()
    }

    /// Recall, full evidence, precision, duplicated share and IoU. The first four are those of a second implementation, in
    /// another language, for the same spans.
    fn check(
        delivered: &str,
        relevant: &str,
        (recall, full, precision, duplicated, iou): (f64, bool, Option<f64>, Option<f64>, f64),
    ) {
        let got = evidence(&places(delivered), &references(relevant)).unwrap();
        let close = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => (a - b).abs() < 1e-12,
            (a, b) => a == b,
        };
        assert!(close(Some(got.recall()), Some(recall)), "recall of {got:?}");
        assert_eq!(got.is_full(), full, "full evidence of {got:?}");
        assert!(close(got.precision(), precision), "precision of {got:?}");
        assert!(close(got.duplicated(), duplicated), "duplicated share of {got:?}");
        assert!(close(Some(got.iou()), Some(iou)), "intersection over union of {got:?}");
    }

    #[test]
    fn what_is_delivered_is_counted_in_bytes() {
        check("a0-100", "a0-100", (1.0, true, Some(1.0), Some(0.0), 1.0));
        check("a50-150", "a0-100", (0.5, false, Some(0.5), Some(0.0), 1.0 / 3.0));
        check("a0-100", "a20-40 a60-70", (1.0, true, Some(0.3), Some(0.0), 0.3));
    }

    #[test]
    fn each_reference_is_covered_for_itself() {
        let got = coverage(&places("a0-50 b0-10"), &references("a0-100 a40-60 b0-10 c0-5"));
        assert_eq!(got, [0.5, 0.5, 1.0, 0.0]);
    }

    #[test]
    fn nothing_delivered_has_no_precision() {
        check("", "a0-100", (0.0, false, None, None, 0.0));
        check("b0-100", "a0-100", (0.0, false, Some(0.0), Some(0.0), 0.0));
    }

    #[test]
    fn a_reference_is_covered_from_95_per_cent_of_its_bytes() {
        check("a0-95", "a0-100", (0.95, true, Some(1.0), Some(0.0), 0.95));
        check("a0-94", "a0-100", (0.94, false, Some(1.0), Some(0.0), 0.94));
        check("a0-9499", "a0-10000", (0.9499, false, Some(1.0), Some(0.0), 0.9499));
        check("a0-9500", "a0-10000", (0.95, true, Some(1.0), Some(0.0), 0.95));
        // 190 of 210 bytes in all, but one of two references only.
        check(
            "a0-190",
            "a0-190 b0-20",
            (190.0 / 210.0, false, Some(1.0), Some(0.0), 190.0 / 210.0),
        );
    }

    #[test]
    fn overlapping_references_count_once_in_bytes_and_each_in_coverage() {
        // Union 0..30; 20 of it delivered; the first reference is covered, the second to a half.
        check("a0-20", "a0-20 a10-30", (2.0 / 3.0, false, Some(1.0), Some(0.0), 2.0 / 3.0));
        check("a0-30", "a0-20 a10-30", (1.0, true, Some(1.0), Some(0.0), 1.0));
        let got = evidence(&places("a0-20"), &references("a0-20 a10-30")).unwrap();
        assert_eq!((got.references, got.covered), (2, 1));
    }

    #[test]
    fn bytes_delivered_twice_count_twice_against_precision() {
        check("a0-100 a50-150", "a0-100", (1.0, true, Some(0.5), Some(0.25), 0.5));
        check("a0-10 a0-10", "a0-10", (1.0, true, Some(0.5), Some(0.5), 0.5));
    }

    #[test]
    fn offsets_of_different_documents_do_not_meet() {
        check("a0-50 b0-50", "a0-100 b50-100", (1.0 / 3.0, false, Some(0.5), Some(0.0), 0.25));
    }

    #[test]
    fn without_a_relevant_byte_nothing_is_said() {
        assert_eq!(evidence(&places("a0-10"), &[]), None);
        assert_eq!(evidence(&places("a0-10"), &references("a5-5")), None);
    }

    fn any_places() -> impl Strategy<Value = Vec<(bool, Span)>> {
        let span = (0usize..60, 1usize..15).prop_map(|(start, len)| Span::new(start, start + len));
        prop::collection::vec((any::<bool>(), span), 0..8)
    }

    fn name(first: bool) -> &'static str {
        if first { "a" } else { "b" }
    }

    fn measured(delivered: &[(bool, Span)], relevant: &[(bool, Span)]) -> Option<Evidence> {
        let delivered: Vec<Place<'_>> =
            delivered.iter().map(|&(first, span)| Place { doc: name(first), span }).collect();
        let relevant: Vec<Reference> =
            relevant.iter().map(|&(first, s)| reference(name(first), s.start, s.end)).collect();
        evidence(&delivered, &relevant)
    }

    proptest! {
        #[test]
        fn figures_stay_in_their_range(delivered in any_places(), relevant in any_places()) {
            let unit = 0.0..=1.0;
            let got = measured(&delivered, &relevant);
            prop_assert_eq!(got.is_none(), relevant.is_empty());
            if let Some(got) = got {
                prop_assert!(unit.contains(&got.recall()) && unit.contains(&got.iou()));
                prop_assert_eq!(got.precision().is_none(), delivered.is_empty());
                for figure in [got.precision(), got.duplicated()].into_iter().flatten() {
                    prop_assert!(unit.contains(&figure));
                }
                prop_assert!(got.iou() <= got.recall());
                prop_assert!(got.iou() <= got.precision().unwrap_or(0.0));
                prop_assert!(!got.is_full() || got.recall() >= 0.9);
            }
        }

        #[test]
        fn delivering_more_never_lowers_recall(
            delivered in any_places(), more in any_places(), relevant in any_places(),
        ) {
            let all: Vec<_> = delivered.iter().chain(&more).copied().collect();
            if let (Some(less), Some(more)) = (measured(&delivered, &relevant), measured(&all, &relevant)) {
                prop_assert!(less.recall() <= more.recall());
                prop_assert!(less.covered <= more.covered);
            }
        }

        #[test]
        fn counts_agree_with_a_bit_map(delivered in any_places(), relevant in any_places()) {
            let holds = |list: &[(bool, Span)], first: bool, at: usize| {
                list.iter().any(|&(f, s)| f == first && s.start <= at && at < s.end)
            };
            let bytes: Vec<(bool, usize)> =
                [true, false].into_iter().flat_map(|first| (0..80).map(move |at| (first, at))).collect();
            let count = |test: &dyn Fn(bool, usize) -> bool| bytes.iter().filter(|b| test(b.0, b.1)).count();
            if let Some(got) = measured(&delivered, &relevant) {
                prop_assert_eq!(got.relevant_bytes, count(&|f, at| holds(&relevant, f, at)));
                prop_assert_eq!(got.distinct_bytes, count(&|f, at| holds(&delivered, f, at)));
                let both = count(&|f, at| holds(&relevant, f, at) && holds(&delivered, f, at));
                prop_assert_eq!(got.hit_bytes, both);
            }
        }

        #[test]
        fn order_and_repetition_do_not_change_recall(delivered in any_places(), relevant in any_places()) {
            let twice: Vec<_> = delivered.iter().rev().chain(&delivered).copied().collect();
            let (once, twice) = (measured(&delivered, &relevant), measured(&twice, &relevant));
            prop_assert_eq!(once.map(|e| (e.hit_bytes, e.distinct_bytes, e.covered)),
                twice.map(|e| (e.hit_bytes, e.distinct_bytes, e.covered)));
        }
    }
}
