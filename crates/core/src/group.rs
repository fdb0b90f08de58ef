//! Sizes of neighbours → where to cut between them.
//!
//! Invariant: every group holds at least one item, and groups follow each other without a gap.

use std::ops::Range;

/// Cuts `n` neighbours into the fewest groups of at most `capacity`, the largest group as small as possible, earlier cuts
/// on ties. An item above the capacity is a group of its own.
///
/// `size(i, j)` is the size of the items `i..j` together; it must not fall when the range grows. O(n log capacity) calls.
pub fn balance(
    n: usize,
    capacity: usize,
    size: impl Fn(usize, usize) -> usize,
) -> Vec<Range<usize>> {
    let fewest = from_the_end(n, capacity, &size).count();
    let items = (0..n).map(|at| size(at, at + 1));
    let largest = items.filter(|&item| item <= capacity).max().unwrap_or_default();
    smallest_largest(n, fewest, largest, capacity, &size)
}

/// Cuts `n` neighbours into at most `count` groups, the largest one as small as possible, earlier cuts on ties.
pub fn balance_into(
    n: usize,
    count: usize,
    size: impl Fn(usize, usize) -> usize,
) -> Vec<Range<usize>> {
    if n == 0 || count == 0 {
        return Vec::new();
    }
    let largest = (0..n).map(|at| size(at, at + 1)).max().unwrap_or_default();
    smallest_largest(n, count, largest, size(0, n).max(largest), &size)
}

/// Finds by bisection the smallest capacity between `low` and `high` that needs at most `count` groups, and cuts by it.
fn smallest_largest(
    n: usize,
    count: usize,
    mut low: usize,
    mut high: usize,
    size: &impl Fn(usize, usize) -> usize,
) -> Vec<Range<usize>> {
    // One group of all is the same whatever the capacity.
    while low < high && count > 1 {
        let middle = low + (high - low) / 2;
        if from_the_end(n, middle, size).nth(count).is_none() {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let mut groups: Vec<_> = from_the_end(n, high, size).collect();
    groups.reverse();
    groups
}

/// Fills groups from the last item backwards, which makes every cut as early as the capacity allows.
fn from_the_end(
    n: usize,
    capacity: usize,
    size: &impl Fn(usize, usize) -> usize,
) -> impl Iterator<Item = Range<usize>> {
    let mut end = n;
    std::iter::from_fn(move || {
        let mut start = end.checked_sub(1)?;
        while start > 0 && size(start - 1, end) <= capacity {
            start -= 1;
        }
        Some(start..std::mem::replace(&mut end, start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn groups(sizes: &[usize], capacity: usize) -> Vec<Range<usize>> {
        balance(sizes.len(), capacity, |i, j| sizes[i..j].iter().sum())
    }

    fn check(sizes: &[usize], capacity: usize, expected: &[&[usize]]) {
        let found: Vec<&[usize]> =
            groups(sizes, capacity).into_iter().map(|range| &sizes[range]).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn six_of_200_at_512_are_three_pairs() {
        check(&[200; 6], 512, &[&[200, 200], &[200, 200], &[200, 200]]);
    }

    #[test]
    fn ties_cut_early() {
        check(&[1, 1, 1], 2, &[&[1], &[1, 1]]);
        check(&[3, 1, 1, 3], 4, &[&[3, 1], &[1, 3]]);
    }

    #[test]
    fn an_item_above_the_capacity_stands_alone() {
        check(&[1, 9, 1], 4, &[&[1], &[9], &[1]]);
        check(&[3, 3, 9, 3, 3], 4, &[&[3], &[3], &[9], &[3], &[3]]);
        check(&[2, 2, 9, 2, 2], 4, &[&[2, 2], &[9], &[2, 2]]);
        check(&[], 4, &[]);
    }

    /// The best cut by trying all of them.
    fn by_force(sizes: &[usize], capacity: usize) -> Vec<Vec<usize>> {
        let n = sizes.len();
        let all = (0u32..1 << (n - 1)).map(|mask| {
            let mut groups = vec![vec![sizes[0]]];
            for (at, &size) in sizes.iter().enumerate().skip(1) {
                if mask >> (at - 1) & 1 == 1 {
                    groups.push(Vec::new());
                }
                groups.last_mut().unwrap().push(size);
            }
            groups
        });
        let cuts = |groups: &Vec<Vec<usize>>| groups.iter().map(Vec::len).collect::<Vec<_>>();
        all.filter(|groups| groups.iter().all(|g| g.iter().sum::<usize>() <= capacity))
            .min_by_key(|g| (g.len(), g.iter().map(|g| g.iter().sum::<usize>()).max(), cuts(g)))
            .unwrap()
    }

    proptest! {
        #[test]
        fn it_finds_what_trying_everything_finds(sizes in prop::collection::vec(1usize..20, 1..9), slack in 0usize..30) {
            let capacity = sizes.iter().max().unwrap() + slack;
            let found: Vec<Vec<usize>> = groups(&sizes, capacity).into_iter().map(|r| sizes[r].to_vec()).collect();
            prop_assert_eq!(found, by_force(&sizes, capacity));
        }
    }
}
