//! Similar pairs → clusters in which any two members are a pair.
//!
//! Invariant: no chain is closed by likeness of likeness, so a cluster is never wider than the threshold; the order of the
//! pairs changes nothing.

use std::collections::{BTreeMap, BTreeSet};

/// Two things, the smaller one first, and how similar they are, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair<T> {
    /// One.
    pub a: T,
    /// The other.
    pub b: T,
    /// How similar they are.
    pub similarity: f32,
}

impl<T: Ord> Pair<T> {
    /// A pair of two different things.
    pub fn new(a: T, b: T, similarity: f32) -> Pair<T> {
        if a <= b { Pair { a, b, similarity } } else { Pair { a: b, b: a, similarity } }
    }
}

/// Groups of at least two things of which any two are one of these pairs, in rising order, each group rising.
///
/// The most similar pairs are joined first, ties by their names; two groups are joined where all their members are pairs:
/// complete linkage. Each pair costs at most the product of the sizes of the two groups that it would join.
///
/// Source: Defays, "An efficient algorithm for a complete link method", 1977, gives the same groups from a whole matrix.
pub fn cluster<T: Copy + Ord>(pairs: &[Pair<T>]) -> Vec<Vec<T>> {
    let mut order: Vec<&Pair<T>> = pairs.iter().collect();
    order.sort_by(|one, other| {
        let by_similarity = other.similarity.total_cmp(&one.similarity);
        by_similarity.then_with(|| (one.a, one.b).cmp(&(other.a, other.b)))
    });
    let similar: BTreeSet<(T, T)> = pairs.iter().map(|pair| (pair.a, pair.b)).collect();
    let are_similar = |a: T, b: T| similar.contains(&(a.min(b), a.max(b)));
    // A group is known by the first of its members that was seen.
    let mut group_of: BTreeMap<T, T> = BTreeMap::new();
    let mut groups: BTreeMap<T, Vec<T>> = BTreeMap::new();
    for pair in order {
        let [one, other] = [pair.a, pair.b].map(|member| {
            let name = *group_of.entry(member).or_insert(member);
            groups.entry(name).or_insert_with(|| vec![member]);
            name
        });
        if one == other {
            continue;
        }
        let members = |name: T| groups.get(&name).map(Vec::as_slice).unwrap_or_default();
        let joins = members(one).iter().all(|&a| members(other).iter().all(|&b| are_similar(a, b)));
        if joins {
            let moved = groups.remove(&other).unwrap_or_default();
            group_of.extend(moved.iter().map(|&member| (member, one)));
            groups.entry(one).or_default().extend(moved);
        }
    }
    let mut clusters: Vec<Vec<T>> = groups.into_values().filter(|group| group.len() > 1).collect();
    for cluster in &mut clusters {
        cluster.sort_unstable();
    }
    clusters.sort_unstable();
    clusters
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(pairs: &[(u32, u32, f32)], expected: &[&[u32]]) {
        let mut pairs: Vec<Pair<u32>> =
            pairs.iter().map(|&(a, b, similarity)| Pair::new(a, b, similarity)).collect();
        assert_eq!(cluster(&pairs), expected);
        pairs.reverse();
        assert_eq!(cluster(&pairs), expected);
    }

    #[test]
    fn any_two_members_are_a_pair() {
        check(&[], &[]);
        check(&[(1, 2, 0.9)], &[&[1, 2]]);
        check(&[(1, 2, 0.9), (2, 3, 0.9), (1, 3, 0.8)], &[&[1, 2, 3]]);
        check(
            &[(1, 2, 0.9), (3, 4, 0.9), (1, 3, 0.8), (1, 4, 0.8), (2, 3, 0.8)],
            &[&[1, 2], &[3, 4]],
        );
    }

    #[test]
    fn d12_a_chain_is_not_one_cluster() {
        check(&[(1, 2, 0.9), (2, 3, 0.9), (3, 4, 0.9)], &[&[1, 2], &[3, 4]]);
        check(&[(1, 2, 0.8), (2, 3, 0.9), (3, 4, 0.8)], &[&[2, 3]]);
    }

    proptest! {
        #[test]
        fn clusters_are_disjoint_and_no_wider_than_the_threshold(
            pairs in prop::collection::btree_map((0u32..14, 0u32..14), 0u8..4, 0..60),
            seed in any::<u64>(),
        ) {
            let mut known: BTreeMap<(u32, u32), u8> = BTreeMap::new();
            for ((a, b), similarity) in pairs {
                if a != b {
                    known.insert((a.min(b), a.max(b)), similarity);
                }
            }
            let mut pairs: Vec<Pair<u32>> =
                known.iter().map(|(&(a, b), &s)| Pair::new(a, b, f32::from(s))).collect();
            let clusters = cluster(&pairs);
            let mut members: Vec<u32> = clusters.concat();
            members.sort_unstable();
            prop_assert!(members.windows(2).all(|two| two[0] != two[1]));
            for cluster in &clusters {
                prop_assert!(cluster.len() > 1);
                for (at, a) in cluster.iter().enumerate() {
                    prop_assert!(cluster[at + 1..].iter().all(|b| known.contains_key(&(*a, *b))));
                }
            }
            // Whatever could still be joined was: no two clusters are pairs throughout.
            for (at, one) in clusters.iter().enumerate() {
                for other in &clusters[at + 1..] {
                    let all = one.iter().all(|a| {
                        other.iter().all(|b| known.contains_key(&(*a.min(b), *a.max(b))))
                    });
                    prop_assert!(!all);
                }
            }
            // Another order of the pairs gives the same clusters.
            let n = pairs.len().max(1);
            pairs.rotate_left(seed as usize % n);
            prop_assert_eq!(cluster(&pairs), clusters);
        }
    }
}
