//! Counts → shares and percentages as they are printed.
//!
//! Invariant: `count <= of`; a share of nothing is no number, never zero.

use serde::Serialize;
use std::fmt;
use std::iter::Sum;
use std::ops::Add;

/// So many of so many: a proportion that keeps its counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
pub struct Share {
    count: u64,
    of: u64,
}

/// More were counted than there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`{count}` of `{of}` is no share: the count is above the whole")]
pub struct ShareError {
    /// What was counted.
    pub count: u64,
    /// The whole.
    pub of: u64,
}

impl Share {
    /// `count` of `of`; both may be zero.
    ///
    /// # Errors
    /// [`ShareError`] where `count > of`: the two come from different sets.
    pub fn new(count: u64, of: u64) -> Result<Share, ShareError> {
        if count <= of { Ok(Share { count, of }) } else { Err(ShareError { count, of }) }
    }

    /// How many of `items` pass the test.
    pub fn count_of<T>(items: impl IntoIterator<Item = T>, test: impl Fn(T) -> bool) -> Share {
        let mut share = Share::default();
        for item in items {
            share.of += 1;
            share.count += u64::from(test(item));
        }
        share
    }

    /// The count.
    pub fn count(self) -> u64 {
        self.count
    }

    /// The whole, n.
    pub fn of(self) -> u64 {
        self.of
    }

    /// The proportion, 0 to 1; `None` of nothing.
    pub fn proportion(self) -> Option<f64> {
        (self.of > 0).then(|| self.count as f64 / self.of as f64)
    }

    /// The percentage with one decimal, half away from zero: 9 of 16 is `56.3`. `None` of nothing. Exact: rounded from the
    /// counts, not from a quotient.
    pub fn percent(self) -> Option<String> {
        if self.of == 0 {
            return None;
        }
        let (count, of) = (u128::from(self.count), u128::from(self.of));
        let tenths = (2_000 * count + of) / (2 * of);
        Some(format!("{}.{}", tenths / 10, tenths % 10))
    }
}

impl Add for Share {
    type Output = Share;
    /// The share of two disjoint sets taken together.
    fn add(self, other: Share) -> Share {
        Share { count: self.count + other.count, of: self.of + other.of }
    }
}

impl Sum for Share {
    fn sum<I: Iterator<Item = Share>>(shares: I) -> Share {
        shares.fold(Share::default(), Add::add)
    }
}

impl fmt::Display for Share {
    /// Counts first: `9 of 16 = 56.3 %`, or `0 of 0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.count, self.of)?;
        self.percent().map_or(Ok(()), |percent| write!(f, " = {percent} %"))
    }
}

/// A proportion, or a difference of two, in percentage points with one decimal, half away from zero: `0.125` is `12.5`,
/// `-0.0001` is `0.0`.
///
/// The binary fraction nearest to a decimal half counts as that half, so `0.0435` is `4.4` though it lies a hair below.
pub fn points(proportion: f64) -> String {
    let tenths = (proportion * 1e12).round() / 1e9;
    let rounded = tenths.round() / 10.0;
    // Adding zero turns a negative zero into a positive one.
    format!("{:.1}", rounded + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(count: u64, of: u64, expected: &str) {
        assert_eq!(Share::new(count, of).unwrap().percent().unwrap(), expected);
    }

    #[test]
    fn percentages_round_half_away_from_zero() {
        check(9, 16, "56.3");
        check(11, 16, "68.8");
        check(285, 384, "74.2");
        check(294, 400, "73.5");
        check(296, 400, "74.0");
        check(23, 106, "21.7");
        check(0, 7, "0.0");
        check(7, 7, "100.0");
        check(1, 2000, "0.1");
        check(u64::MAX, u64::MAX, "100.0");
    }

    #[test]
    fn points_round_half_away_from_zero() {
        for (proportion, expected) in [
            (0.5625, "56.3"),
            (-0.5625, "-56.3"),
            (0.0435, "4.4"),
            (0.0048, "0.5"),
            (-0.0001, "0.0"),
            (0.0, "0.0"),
            (-0.2077, "-20.8"),
            (1.0, "100.0"),
        ] {
            assert_eq!(points(proportion), expected, "{proportion}");
        }
    }

    #[test]
    fn a_share_of_nothing_is_no_number() {
        let nothing = Share::default();
        assert_eq!((nothing.proportion(), nothing.percent()), (None, None));
        assert_eq!(nothing.to_string(), "0 of 0");
    }

    #[test]
    fn a_share_prints_its_counts_first() {
        assert_eq!(Share::new(9, 16).unwrap().to_string(), "9 of 16 = 56.3 %");
    }

    #[test]
    fn a_share_above_its_whole_is_refused() {
        assert_eq!(Share::new(3, 2), Err(ShareError { count: 3, of: 2 }));
        let share = Share::new(1, 2).unwrap();
        assert_eq!(serde_json::to_string(&share).unwrap(), r#"{"count":1,"of":2}"#);
    }

    #[test]
    fn shares_of_disjoint_sets_add() {
        let whole: Share =
            [(9, 16), (285, 384)].iter().map(|&(c, n)| Share::new(c, n).unwrap()).sum();
        assert_eq!(whole, Share::new(294, 400).unwrap());
        assert_eq!(Share::count_of([1, 2, 3], |n| n > 1), Share::new(2, 3).unwrap());
    }
}
