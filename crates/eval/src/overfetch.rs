//! How far lists had to be read until enough distinct clusters had come → the length to read them to, and what it costs.
//!
//! Invariant: a query counts as served at a length if that many of its leaves held enough distinct clusters; one whose list ended
//! before is never served, whatever the length.

use crate::share::Share;
use serde::Serialize;

/// One query: how its ranked list, read to its end, runs through clusters of duplicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Leaves in the list.
    pub read: usize,
    /// The places, from 1 and rising, whose cluster stands before.
    pub repeats: Vec<usize>,
    /// Whether the list holds every leaf that matches.
    pub is_whole: bool,
}

/// What reading every list to one length would have come to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The length, k'.
    pub k_prime: usize,
    /// Queries that would have been left short.
    pub short: Share,
    /// Distinct clusters delivered, the mean over the queries: at most the target. `None` without queries.
    pub mean_distinct: Option<f64>,
    /// Leaves read beyond the target: `k_prime - target`, whatever the queries.
    pub wasted: usize,
}

/// The lengths that would have served a share of the queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Needed {
    /// Queries that it was computed from.
    pub queries: usize,
    /// Queries left out: everything that matches them holds fewer clusters than the target, and no length helps.
    pub exhausted: usize,
    /// The smallest length that serves the share; `None` without queries, or where too many lists end before.
    pub k_prime: Option<usize>,
}

impl Query {
    /// How many distinct clusters the first leaves hold.
    pub fn distinct(&self, k_prime: usize) -> usize {
        let read = k_prime.min(self.read);
        read - self.repeats.partition_point(|&place| place <= read)
    }

    /// How many leaves must be read until so many distinct clusters have come, at least `target`; `None` where the list ends
    /// before.
    pub fn needed(&self, target: usize) -> Option<usize> {
        // Each repeat at or before the place that is wanted moves it by one.
        let needed = self
            .repeats
            .iter()
            .fold(target, |needed, &place| needed + usize::from(place <= needed));
        (needed <= self.read).then_some(needed)
    }

    /// Whether everything that matches holds fewer distinct clusters than the target.
    fn is_exhausted(&self, target: usize) -> bool {
        self.is_whole && self.needed(target).is_none()
    }
}

/// The rows of a table, one for each length. Queries for which no length helps are left out.
pub fn table(queries: &[Query], target: usize, k_primes: &[usize]) -> Vec<Row> {
    let counted: Vec<&Query> = queries.iter().filter(|q| !q.is_exhausted(target)).collect();
    let row = |&k_prime: &usize| {
        let distinct = counted.iter().map(|query| query.distinct(k_prime).min(target));
        let sum: usize = distinct.sum();
        Row {
            k_prime,
            short: Share::count_of(&counted, |query| query.distinct(k_prime) < target),
            mean_distinct: (!counted.is_empty()).then(|| sum as f64 / counted.len() as f64),
            wasted: k_prime.saturating_sub(target),
        }
    };
    k_primes.iter().map(row).collect()
}

/// The smallest length at which at least this share of the queries holds `target` distinct clusters. Queries for which no length
/// helps are left out.
pub fn needed(queries: &[Query], target: usize, quantile: f64) -> Needed {
    let (exhausted, counted): (Vec<_>, Vec<_>) =
        queries.iter().partition(|query| query.is_exhausted(target));
    let mut lengths: Vec<usize> = counted.iter().filter_map(|q| q.needed(target)).collect();
    lengths.sort_unstable();
    // As many as the share asks for; a hair less, so that 0.994 of 1,000 is 994 and not 995.
    let wanted = (quantile * counted.len() as f64 - 1e-9).ceil().max(1.0) as usize;
    Needed {
        queries: counted.len(),
        exhausted: exhausted.len(),
        k_prime: lengths.get(wanted - 1).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A query whose list must be read this far for ten clusters: its second leaf comes again until then.
    fn query(needed: usize) -> Query {
        Query { read: 200, repeats: (2..needed - 8).collect(), is_whole: false }
    }

    /// 1,000 queries whose shortfall falls by 17, 12, 9, 3 and 0.5 points between k' = 10, 14, 16, 20, 24 and 30.
    fn measured() -> Vec<Query> {
        let counts = [(10, 584), (14, 170), (16, 120), (20, 90), (24, 30), (30, 5), (60, 1)];
        counts.iter().flat_map(|&(needed, n)| vec![query(needed); n]).collect()
    }

    #[test]
    fn steps_of_shortfall_end_where_the_quantile_says() {
        let rows = table(&measured(), 10, &[10, 14, 16, 20, 24, 30]);
        let short: Vec<String> = rows.iter().map(|row| row.short.percent().unwrap()).collect();
        assert_eq!(short, ["41.6", "24.6", "12.6", "3.6", "0.6", "0.1"]);
        assert!(rows.iter().all(|row| row.wasted == row.k_prime - 10));
        let mean: Vec<f64> = rows.iter().map(|row| row.mean_distinct.unwrap()).collect();
        assert!(mean.is_sorted() && mean[4] > 9.9 && mean[5] <= 10.0, "{mean:?}");
        let needed = needed(&measured(), 10, 0.994);
        assert_eq!(needed, Needed { queries: 1000, exhausted: 0, k_prime: Some(24) });
    }

    #[test]
    fn a_list_without_duplicates_needs_what_is_asked_for() {
        let alone = Query { read: 20, repeats: Vec::new(), is_whole: true };
        assert_eq!(
            (alone.needed(10), alone.needed(20), alone.needed(21)),
            (Some(10), Some(20), None)
        );
        let check = |repeats: &[usize], target, expected| {
            let query = Query { read: 9, repeats: repeats.to_vec(), is_whole: false };
            assert_eq!(query.needed(target), expected, "{repeats:?}, {target}");
        };
        check(&[2, 3], 1, Some(1));
        check(&[2, 3], 2, Some(4));
        check(&[3, 4, 6], 3, Some(5));
        check(&[3, 4, 6], 4, Some(7));
        check(&[3, 4, 6], 6, Some(9));
        check(&[3, 4, 6], 7, None);
    }

    #[test]
    fn what_no_length_serves_is_left_out_and_what_a_longer_list_might_is_short() {
        let few = Query { read: 8, repeats: Vec::new(), is_whole: true };
        let cut = Query { read: 100, repeats: (2..=100).collect(), is_whole: false };
        let queries = [vec![few; 5], vec![query(10); 3], vec![cut]].concat();
        let of = |quantile| needed(&queries, 10, quantile);
        assert_eq!(of(0.75), Needed { queries: 4, exhausted: 5, k_prime: Some(10) });
        assert_eq!(of(0.9).k_prime, None, "the list of one query ends before");
        assert_eq!(table(&queries, 10, &[400])[0].short.to_string(), "1 of 4 = 25.0 %");
        assert_eq!(needed(&[], 10, 0.9), Needed { queries: 0, exhausted: 0, k_prime: None });
        assert_eq!(table(&[], 10, &[10])[0].mean_distinct, None);
    }

    proptest! {
        #[test]
        fn the_length_that_is_needed_is_the_first_that_holds_enough(
            clusters in prop::collection::vec(0u8..12, 0..60),
            target in 1usize..14,
            quantile in 0.01f64..1.0,
        ) {
            let mut seen = std::collections::BTreeSet::new();
            let repeats = clusters
                .iter()
                .enumerate()
                .filter(|(_, cluster)| !seen.insert(**cluster))
                .map(|(at, _)| at + 1);
            let query = Query { read: clusters.len(), repeats: repeats.collect(), is_whole: false };
            let first = (0..=clusters.len()).find(|&k_prime| query.distinct(k_prime) >= target);
            prop_assert_eq!(query.needed(target), first);
            let queries = [query.clone(), super::tests::query(10), super::tests::query(40)];
            if let Some(k_prime) = needed(&queries, target, quantile).k_prime {
                let short = |k_prime| table(&queries, target, &[k_prime])[0].short;
                let served = |k_prime| 1.0 - short(k_prime).proportion().unwrap();
                prop_assert!(served(k_prime) >= quantile - 1e-6);
                prop_assert!(served(k_prime - 1) < quantile);
            }
        }
    }
}
