//! The p-values of several comparisons → those that may be read side by side.
//!
//! Invariant: none gets smaller, and their order is kept.

/// p-values corrected for how many there are, in the same order: with all of them held against one level, the chance of any
/// false alarm among them is at most that level.
///
/// Falling back from the smallest: `p'(i) = max over j ≤ i of min(1, (m − j + 1) p(j))`.
///
/// Source: Holm, Scandinavian Journal of Statistics 6, 1979.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    let p = |index: usize| p_values.get(index).copied().unwrap_or(1.0);
    order.sort_by(|&a, &b| p(a).total_cmp(&p(b)));
    let mut corrected = vec![1.0; p_values.len()];
    let mut largest = 0.0_f64;
    for (place, &index) in order.iter().enumerate() {
        largest = largest.max(((p_values.len() - place) as f64 * p(index)).min(1.0));
        if let Some(slot) = corrected.get_mut(index) {
            *slot = largest;
        }
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The expected values are those of `statsmodels.stats.multitest.multipletests(p, method="holm")`.
    fn check(p_values: &[f64], expected: &[f64]) {
        let got = holm(p_values);
        let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
        assert!(got.len() == expected.len() && got.iter().zip(expected).all(close), "{got:?}");
    }

    #[test]
    fn the_smallest_is_corrected_most() {
        check(&[], &[]);
        check(&[0.03], &[0.03]);
        check(&[0.01, 0.04, 0.03], &[0.03, 0.06, 0.06]);
        check(&[0.5, 0.6, 0.001], &[1.0, 1.0, 0.003]);
    }

    proptest! {
        #[test]
        fn none_gets_smaller_and_none_passes_1(p_values in prop::collection::vec(0.0f64..=1.0, 0..12)) {
            for (p, corrected) in p_values.iter().zip(holm(&p_values)) {
                prop_assert!(*p <= corrected && corrected <= 1.0);
            }
        }
    }
}
