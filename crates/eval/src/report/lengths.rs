//! Lengths in tokens → how many fall in which class.

use serde::Serialize;

/// Where the first class ends.
const FIRST: usize = 32;

/// Lengths from a bound to below the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Class {
    /// The smallest length, in tokens.
    pub from: usize,
    /// One above the largest.
    pub below: usize,
    /// How many are of it.
    pub count: u64,
}

/// Counts lengths in classes that double: below 32 tokens, below 64, and so on to the longest one. None for no length.
pub fn lengths(tokens: impl IntoIterator<Item = usize>) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    for length in tokens {
        while classes.last().is_none_or(|last| last.below <= length) {
            let from = classes.last().map_or(0, |last| last.below);
            classes.push(Class { from, below: (2 * from).max(FIRST), count: 0 });
        }
        if let Some(class) = classes.iter_mut().find(|class| length < class.below) {
            class.count += 1;
        }
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(tokens: &[usize], expected: &[(usize, usize, u64)]) {
        let got = lengths(tokens.iter().copied());
        let got: Vec<_> = got.iter().map(|class| (class.from, class.below, class.count)).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn classes_double() {
        check(&[], &[]);
        check(&[0], &[(0, 32, 1)]);
        check(&[32, 31], &[(0, 32, 1), (32, 64, 1)]);
        check(&[200, 1, 5], &[(0, 32, 2), (32, 64, 0), (64, 128, 0), (128, 256, 1)]);
    }

    proptest! {
        #[test]
        fn each_length_is_in_one_class(tokens in prop::collection::vec(0_usize..100_000, 0..40)) {
            let classes = lengths(tokens.iter().copied());
            for class in &classes {
                let within = tokens.iter().filter(|t| (class.from..class.below).contains(t)).count();
                prop_assert_eq!(within as u64, class.count);
            }
            prop_assert_eq!(classes.iter().map(|class| class.count).sum::<u64>(), tokens.len() as u64);
        }
    }
}
