//! A ranked list of leaves and the leaves of the judged documents → nDCG, recall and reciprocal rank.
//!
//! Invariant: a leaf earns its gain once; the ideal list holds every leaf that earns one, so no figure is above 1.

use crate::judgment::Reference;
use crate::metric::Place;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use umbel_core::span::Span;

/// The gains of a ranked list beside those of the best list possible.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// The gain at each rank; 0 for what is not relevant, or stood higher up already.
    gains: Vec<f64>,
    /// The gains of all relevant leaves, falling; never empty.
    ideal: Vec<f64>,
}

/// Compares a ranked list of leaves with the best one possible; `None` where no leaf is relevant, for then nothing can be said.
///
/// `ranked` is in falling score; `leaves` are all leaves of the documents that the references name. Leaves of the ranked list
/// that are missing there are added, so that no list beats the ideal one. A leaf's gain is the largest of the references to
/// which it is relevant. O(n m) for n leaves and m references.
pub fn rank(ranked: &[Place<'_>], leaves: &[Place<'_>], relevant: &[Reference]) -> Option<Ranking> {
    let mut left: BTreeMap<Place<'_>, f64> = leaves
        .iter()
        .chain(ranked)
        .filter_map(|&leaf| gain(leaf, relevant).map(|gain| (leaf, gain)))
        .collect();
    let mut ideal: Vec<f64> = left.values().copied().collect();
    ideal.sort_by(|a, b| b.total_cmp(a));
    let gains = ranked.iter().map(|leaf| left.remove(leaf).unwrap_or(0.0)).collect();
    (!ideal.is_empty()).then_some(Ranking { gains, ideal })
}

/// Whether a leaf is relevant to a reference of the same document: it holds at least half of the reference's bytes, or is at
/// least half inside it.
pub fn is_relevant(leaf: Span, reference: Span) -> bool {
    leaf.intersection(reference)
        .is_some_and(|both| 2 * both.len() >= reference.len() || 2 * both.len() >= leaf.len())
}

impl Ranking {
    /// Normalised discounted cumulative gain of the first k, 0 to 1: Σ gain / log2(1 + rank) over the same sum for the ideal
    /// list. The gain is the grade itself.
    ///
    /// Source: Järvelin and Kekäläinen, ACM TOIS 20(4), 2002, with the discount of Burges et al., ICML 2005.
    pub fn ndcg(&self, k: NonZeroUsize) -> f64 {
        discounted(&self.gains, k) / discounted(&self.ideal, k)
    }

    /// Recall of the first k, 0 to 1: relevant leaves among them / all relevant leaves.
    pub fn recall(&self, k: NonZeroUsize) -> f64 {
        let found = self.gains.iter().take(k.get()).filter(|&&gain| gain > 0.0).count();
        found as f64 / self.ideal.len() as f64
    }

    /// 1 / rank of the first relevant leaf, 0 to 1; 0 if the list holds none. MRR is its mean over queries.
    ///
    /// Source: Voorhees, TREC-8 Question Answering Track, 1999.
    pub fn reciprocal_rank(&self) -> f64 {
        let first = self.gains.iter().position(|&gain| gain > 0.0);
        first.map_or(0.0, |index| 1.0 / (index + 1) as f64)
    }
}

/// The largest gain of the references to which the leaf is relevant.
fn gain(leaf: Place<'_>, relevant: &[Reference]) -> Option<f64> {
    let of_leaf = relevant.iter().filter(|r| r.doc == leaf.doc && is_relevant(leaf.span, r.span()));
    of_leaf.map(Reference::gain).max_by(f64::total_cmp)
}

fn discounted(gains: &[f64], k: NonZeroUsize) -> f64 {
    let terms = gains.iter().take(k.get()).enumerate();
    terms.map(|(index, gain)| gain / (index as f64 + 2.0).log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Leaves of ten bytes each, by number.
    fn leaf(number: usize) -> Place<'static> {
        Place { doc: "a", span: Span::new(10 * number, 10 * number + 10) }
    }

    fn list(numbers: &[usize]) -> Vec<Place<'static>> {
        numbers.iter().map(|&number| leaf(number)).collect()
    }

    fn reference(start: usize, end: usize, grade: Option<f64>) -> Reference {
        Reference { doc: "a".to_owned(), start, end, grade }
    }

    /// Ten leaves; leaves 2 and 5 are relevant with grades 3 and 1.
    fn ranked(numbers: &[usize]) -> Ranking {
        let relevant = [reference(20, 30, Some(3.0)), reference(50, 60, None)];
        rank(&list(numbers), &list(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), &relevant).unwrap()
    }

    /// nDCG, recall and reciprocal rank.
    fn check(numbers: &[usize], k: usize, expected: (f64, f64, f64)) {
        let got = ranked(numbers);
        let k = NonZeroUsize::new(k).unwrap();
        let got = [got.ndcg(k), got.recall(k), got.reciprocal_rank()];
        for (got, expected) in got.into_iter().zip([expected.0, expected.1, expected.2]) {
            assert!((got - expected).abs() < 1e-12, "{got} is not {expected} at {k}");
        }
    }

    fn check_relevant(leaf: (usize, usize), reference: (usize, usize), expected: bool) {
        let (leaf, reference) = (Span::new(leaf.0, leaf.1), Span::new(reference.0, reference.1));
        assert_eq!(is_relevant(leaf, reference), expected, "{leaf} {reference}");
    }

    #[test]
    fn a_leaf_is_relevant_from_half_of_either() {
        check_relevant((0, 100), (90, 110), true); // 10 of 20 bytes of the reference
        check_relevant((0, 100), (91, 111), false); // 9 of 20, and 9 of 100 of the leaf
        check_relevant((0, 10), (5, 500), true); // half of the leaf
        check_relevant((0, 10), (6, 500), false);
        check_relevant((0, 10), (10, 20), false); // contact is no overlap
    }

    #[test]
    fn gains_are_discounted_by_rank() {
        let log3 = 3f64.log2();
        let ideal = 3.0 + 1.0 / log3;
        check(&[2, 5], 2, (1.0, 1.0, 1.0));
        check(&[5, 2], 2, ((1.0 + 3.0 / log3) / ideal, 1.0, 1.0));
        check(&[0, 2, 5], 2, (3.0 / log3 / ideal, 0.5, 0.5));
        check(&[0, 2, 5], 3, ((3.0 / log3 + 0.5) / ideal, 1.0, 0.5));
        check(&[0, 1, 3, 2], 1, (0.0, 0.0, 0.25));
        check(&[0, 1], 10, (0.0, 0.0, 0.0));
        check(&[], 10, (0.0, 0.0, 0.0));
    }

    #[test]
    fn a_leaf_that_is_listed_twice_earns_once() {
        check(&[2, 2, 2], 3, (3.0 / (3.0 + 1.0 / 3f64.log2()), 0.5, 1.0));
    }

    #[test]
    fn a_relevant_leaf_that_only_the_ranked_list_knows_is_in_the_ideal_list_too() {
        let relevant = [reference(20, 30, None), reference(50, 60, None)];
        let got = rank(&list(&[2, 5]), &list(&[0, 2]), &relevant).unwrap();
        let k = NonZeroUsize::new(2).unwrap();
        assert!((got.ndcg(k) - 1.0).abs() < 1e-12);
        assert!((got.recall(NonZeroUsize::MIN) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_leaf_takes_its_largest_gain() {
        let relevant = [reference(0, 5, Some(1.0)), reference(5, 10, Some(2.0))];
        assert_eq!(gain(leaf(0), &relevant), Some(2.0));
        assert_eq!(gain(leaf(1), &relevant), None);
        assert_eq!(gain(Place { doc: "b", ..leaf(0) }, &relevant), None);
    }

    #[test]
    fn without_a_relevant_leaf_nothing_is_said() {
        assert_eq!(rank(&list(&[0]), &list(&[0, 1]), &[reference(90, 95, None)]), None);
        assert_eq!(rank(&list(&[0]), &list(&[0, 1]), &[]), None);
    }

    proptest! {
        #[test]
        fn no_list_beats_the_ideal_one(
            numbers in prop::collection::vec(0usize..12, 0..20), k in 1usize..15,
        ) {
            let got = ranked(&numbers);
            let k = NonZeroUsize::new(k).unwrap();
            for figure in [got.ndcg(k), got.recall(k), got.reciprocal_rank()] {
                prop_assert!((0.0..=1.0 + 1e-12).contains(&figure));
            }
        }

        #[test]
        fn recall_rises_with_k(numbers in prop::collection::vec(0usize..12, 0..20), k in 1usize..15) {
            let got = ranked(&numbers);
            let k = NonZeroUsize::new(k).unwrap();
            prop_assert!(got.recall(k) <= got.recall(k.saturating_add(1)));
        }

        #[test]
        fn some_leaf_is_relevant_to_any_reference(start in 0usize..95, len in 1usize..40) {
            let relevant = [reference(start, (start + len).min(100), None)];
            prop_assert!(rank(&[], &list(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), &relevant).is_some());
        }
    }
}
