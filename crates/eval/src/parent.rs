//! A parent and the relevant spans → how much of the parent is relevant.
//!
//! Invariant: overlapping spans count once, so a ratio is never above 1.

use umbel_core::span::{Span, SpanSet};

/// The parent relevance ratio in bytes, 0 to 1: bytes of the union of the relevant spans within the parent / bytes of the parent.
///
/// The spans are of the parent's document, in any order, and may overlap or leave the parent. `None` for an empty parent.
/// Averaged over the parents that the judged queries expand to, it says how much of what is added is wanted.
pub fn relevance_ratio(parent: Span, relevant: impl IntoIterator<Item = Span>) -> Option<f64> {
    relevance_ratio_by(parent, relevant, Span::len)
}

/// The parent relevance ratio in a size of the caller's choice, such as tokens; 0 to 1.
///
/// A token that two spans share may be counted for both: the ratio is held at 1. `None` for a parent of size 0.
pub fn relevance_ratio_by(
    parent: Span,
    relevant: impl IntoIterator<Item = Span>,
    size: impl Fn(Span) -> usize,
) -> Option<f64> {
    let union: SpanSet = relevant.into_iter().collect();
    let inside: usize = union.intersect(parent).into_iter().map(&size).sum();
    let whole = size(parent);
    (whole > 0).then(|| (inside as f64 / whole as f64).min(1.0))
}

/// How many of a parent's children a ratio amounts to, 0 to `children`: they are of nearly one size.
pub fn relevant_children(ratio: f64, children: usize) -> f64 {
    ratio * children as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::points;
    use proptest::prelude::*;

    fn check(parent: (usize, usize), relevant: &[(usize, usize)], expected: Option<f64>) {
        let spans = relevant.iter().map(|&(start, end)| Span::new(start, end));
        assert_eq!(relevance_ratio(Span::new(parent.0, parent.1), spans), expected);
    }

    #[test]
    fn overlapping_children_count_once() {
        check((0, 100), &[(0, 60), (40, 100)], Some(1.0));
        check((0, 100), &[(0, 60), (40, 80)], Some(0.8));
        check((0, 100), &[(10, 30), (10, 30)], Some(0.2));
    }

    #[test]
    fn what_lies_outside_the_parent_does_not_count() {
        check((100, 200), &[(50, 150), (190, 400)], Some(0.6));
        check((100, 200), &[(0, 100), (200, 300)], Some(0.0));
        check((100, 200), &[], Some(0.0));
        check((100, 100), &[(0, 200)], None);
    }

    #[test]
    fn a_ratio_reads_as_children() {
        assert_eq!(format!("{:.1}", relevant_children(0.62, 4)), "2.5");
        assert_eq!(format!("{:.1}", relevant_children(0.11, 11)), "1.2");
        assert_eq!(points(0.62), "62.0");
    }

    #[test]
    fn tokens_that_two_spans_share_do_not_lift_it_above_1() {
        let tokens = |span: Span| span.end.div_ceil(10) - span.start / 10;
        let spans = [Span::new(0, 14), Span::new(16, 20)];
        assert_eq!(relevance_ratio_by(Span::new(0, 20), spans, tokens), Some(1.0));
        assert_eq!(relevance_ratio_by(Span::new(0, 40), [Span::new(0, 14)], tokens), Some(0.5));
    }

    proptest! {
        #[test]
        fn it_is_a_share_and_rises_with_what_is_relevant(
            spans in prop::collection::vec((0usize..90, 0usize..30), 0..10), more in 0usize..90,
        ) {
            let parent = Span::new(20, 70);
            let spans: Vec<Span> = spans.iter().map(|&(start, len)| Span::new(start, start + len)).collect();
            let ratio = relevance_ratio(parent, spans.iter().copied()).unwrap();
            let larger = relevance_ratio(parent, spans.into_iter().chain([Span::new(more, more + 5)])).unwrap();
            prop_assert!((0.0..=1.0).contains(&ratio) && ratio <= larger && larger <= 1.0);
        }
    }
}
