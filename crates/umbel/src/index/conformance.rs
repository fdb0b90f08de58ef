//! An empty index → a panic that says which promise of [`Index`] it breaks, or none.
//!
//! Invariant: the suite knows no back end; [`ExactIndex`] is right by definition. It is for whoever writes an `Index`.

use super::exact::ExactIndex;
use super::{
    Clause, Facet, Facets, Index, IndexError, Kept, Leg, Point, Scored, SearchRequest,
    SparseVector, Test,
};
use fastrand::Rng;
use std::collections::BTreeMap;
use umbel_core::hit::{Ancestor, LeafRecord};
use umbel_core::id::{ClusterId, DocId, LeafId};
use umbel_core::span::Span;

/// Scores of two back ends may differ by this much.
const TOLERANCE: f32 = 1e-4;
/// Length of the dense vectors of the suite.
pub(super) const DIMENSION: usize = 8;
/// Random sequences in one run, and operations in each.
const SEQUENCES: u64 = 4;
const OPERATIONS: usize = 60;

/// Runs the whole suite. `make` gives a new, empty index for vectors of this length, or for leaves without.
///
/// The random sequences start at the number in `UMBEL_SEED`, or at 0; every failure names its seed.
///
/// # Panics
/// If the index breaks a promise.
pub async fn run<M: AsyncFn(Option<usize>) -> Box<dyn Index>>(make: M) {
    an_empty_index_finds_nothing(&*make(Some(DIMENSION)).await).await;
    a_record_comes_back_as_it_was(&*make(Some(DIMENSION)).await).await;
    an_upsert_replaces(&*make(Some(DIMENSION)).await).await;
    a_deleted_leaf_is_gone(&*make(Some(DIMENSION)).await).await;
    clusters_are_assigned_and_nothing_else_changes(&*make(Some(DIMENSION)).await).await;
    what_does_not_fit_is_refused_whole(&*make(Some(DIMENSION)).await, Some(DIMENSION)).await;
    what_does_not_fit_is_refused_whole(&*make(None).await, None).await;
    a_limit_is_a_limit(&*make(Some(DIMENSION)).await).await;
    ties_are_in_order_of_the_leaf(&*make(Some(DIMENSION)).await).await;
    documents_can_be_left_out(&*make(Some(DIMENSION)).await).await;
    conditions_hold_inside_the_search(&*make(Some(DIMENSION)).await).await;
    clusters_can_be_left_out(&*make(Some(DIMENSION)).await).await;
    a_leaf_without_terms_is_not_counted(&*make(Some(DIMENSION)).await).await;
    leaves_without_vectors_are_found_by_terms(&*make(None).await).await;
    let first = std::env::var("UMBEL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    for seed in first..first + SEQUENCES {
        a_random_sequence_ends_as_in_exact(&*make(Some(DIMENSION)).await, seed).await;
    }
}

async fn an_empty_index_finds_nothing(index: &dyn Index) {
    let info = index.describe().await.expect("an empty index is described");
    assert_eq!((info.dimension, info.points), (Some(DIMENSION), 0));
    assert_eq!(search(index, dense(0), 10, &[]).await, []);
    assert_eq!(search(index, lexical(&[1]), 10, &[]).await, []);
    assert_eq!(
        index.fetch(&[leaf(1), leaf(2)]).await.expect("unknown leaves are no error"),
        [None, None]
    );
    assert_eq!(index.fetch(&[]).await.expect("no leaves are no error"), []);
    index.upsert(Vec::new()).await.expect("no points are no error");
    index.delete(&[]).await.expect("no leaves are no error");
    index.delete(&[leaf(1)]).await.expect("an unknown leaf is no error");
    index.flush().await.expect("there is nothing to flush");
    index.optimize().await.expect("there is nothing to optimize");
    assert_eq!(n_points(index).await, 0);
}

async fn a_record_comes_back_as_it_was(index: &dyn Index) {
    let mut points = vec![point(1, 1, &[1]), point(2, 1, &[1])];
    points[0].record = LeafRecord {
        leaf: LeafId([255; 16]),
        doc: DocId(u64::MAX),
        span: Span::new(usize::MAX >> 1, usize::MAX >> 1),
        ordinal: u32::MAX,
        tokens: u32::MAX,
        node: u32::MAX,
        ancestors: (0..40).map(|node| Ancestor { node, children: u32::MAX - node }).collect(),
        cluster: ClusterId([254; 16]),
    };
    points[1].record.ancestors.clear();
    points[1].facets = Facets {
        source: "a/ä \"b\"".to_owned(),
        connector: String::new(),
        language: "pt-br".to_owned(),
        labels: vec!["x".to_owned(), String::new(), "*".to_owned()],
        updated_at: Some(-(1 << 40)),
    };
    let kept: Vec<Kept> = points.iter().map(kept).collect();
    let records: Vec<LeafRecord> = points.iter().map(|point| point.record.clone()).collect();
    index.upsert(points).await.expect("points are stored");
    let asked = [records[1].leaf, leaf(9), records[0].leaf, records[1].leaf];
    let fetched = index.fetch(&asked).await.expect("leaves are fetched");
    assert_eq!(
        fetched,
        [Some(kept[1].clone()), None, Some(kept[0].clone()), Some(kept[1].clone())]
    );
    let found = search(index, lexical(&[1]), 10, &[]).await;
    assert_eq!(found.iter().map(|hit| &hit.record).collect::<Vec<_>>(), [&records[1], &records[0]]);
}

async fn an_upsert_replaces(index: &dyn Index) {
    index.upsert(vec![point(1, 1, &[1]), point(2, 1, &[2])]).await.expect("points are stored");
    index.optimize().await.expect("the index is optimized");
    let mut new = point(1, 7, &[3]);
    new.dense = Some(direction(5));
    // Twice in one call: the last one counts.
    index.upsert(vec![point(1, 8, &[4]), new.clone()]).await.expect("points are stored");
    assert_eq!(n_points(index).await, 2);
    assert_eq!(index.fetch(&[leaf(1)]).await.expect("leaves are fetched"), [Some(kept(&new))]);
    assert_eq!(search(index, lexical(&[1, 4]), 10, &[]).await, []);
    assert_eq!(search(index, lexical(&[3]), 10, &[]).await[0].record, new.record);
    assert_eq!(search(index, dense(5), 1, &[]).await[0].record, new.record);
    // Without terms now: those it had are gone.
    new.lexical = SparseVector::default();
    index.upsert(vec![new]).await.expect("points are stored");
    assert_eq!(search(index, lexical(&[3]), 10, &[]).await, []);
}

async fn a_deleted_leaf_is_gone(index: &dyn Index) {
    index.upsert((0..6).map(|n| point(n, 1, &[1])).collect()).await.expect("points are stored");
    index.delete(&[leaf(2), leaf(2), leaf(77)]).await.expect("leaves are deleted");
    assert_eq!(n_points(index).await, 5);
    assert_eq!(index.fetch(&[leaf(2)]).await.expect("leaves are fetched"), [None]);
    for leg in [dense(2), lexical(&[1])] {
        assert!(search(index, leg, 10, &[]).await.iter().all(|hit| hit.record.leaf != leaf(2)));
    }
    index.upsert(vec![point(2, 3, &[1])]).await.expect("a deleted leaf may come back");
    assert_eq!(search(index, dense(2), 1, &[]).await[0].record, point(2, 3, &[1]).record);
    index.delete(&(0..6).map(leaf).collect::<Vec<_>>()).await.expect("leaves are deleted");
    index.optimize().await.expect("an index that became empty is optimized");
    assert_eq!(n_points(index).await, 0);
    assert_eq!(search(index, lexical(&[1]), 10, &[]).await, []);
}

async fn clusters_are_assigned_and_nothing_else_changes(index: &dyn Index) {
    index.upsert((0..8).map(|n| point(n, 1, &[n, 99])).collect()).await.expect("points are stored");
    for optimized in [false, true] {
        if optimized {
            index.optimize().await.expect("the index is optimized");
        }
        index.assign(&[]).await.expect("no leaves are no error");
        index.assign(&[(leaf(77), ClusterId([1; 16]))]).await.expect("an unknown leaf is no error");
        let [one, other] = [3, 4].map(|n| ClusterId([n + u8::from(optimized); 16]));
        let clusters =
            [(leaf(2), other), (leaf(1), one), (leaf(2), one), (leaf(7), other), (leaf(77), one)];
        index.assign(&clusters).await.expect("clusters are assigned");
        assert_eq!(n_points(index).await, 8);
        let mut wanted: Vec<Option<Kept>> =
            (0..8).map(|n| Some(kept(&point(n, 1, &[n, 99])))).collect();
        for (n, cluster) in [(1, one), (2, one), (7, other)] {
            if let Some(kept) = &mut wanted[n] {
                kept.record.cluster = cluster;
            }
        }
        let leaves: Vec<LeafId> = (0..8).map(leaf).collect();
        let fetched = index.fetch(&leaves).await.expect("leaves are fetched");
        assert_eq!(fetched, wanted, "optimized: {optimized}");
        // Vectors and terms are as before, and a search sees the cluster.
        for leg in [dense(7), lexical(&[7])] {
            let hit = search(index, leg, 1, &[]).await.remove(0);
            assert_eq!((hit.record.leaf, hit.record.cluster), (leaf(7), other));
        }
        index.flush().await.expect("the index is flushed");
    }
    index.upsert(vec![point(1, 1, &[1])]).await.expect("points are stored");
    let fetched = index.fetch(&[leaf(1)]).await.expect("leaves are fetched");
    assert_eq!(fetched, [Some(kept(&point(1, 1, &[1])))], "an upsert brings its own cluster");
}

async fn what_does_not_fit_is_refused_whole(index: &dyn Index, dimension: Option<usize>) {
    let fitting = |n| Point { dense: dimension.map(|_| direction(n)), ..point(n, 1, &[1]) };
    let mut others = vec![Some(vec![1.0; DIMENSION + 1]), Some(Vec::new())];
    others.push(if dimension.is_some() { None } else { Some(direction(1)) });
    for other in others {
        let got = other.as_ref().map_or(0, Vec::len);
        let call =
            index.upsert(vec![fitting(1), Point { dense: other, ..point(2, 1, &[1]) }]).await;
        check_dimension(&call, dimension, got);
        assert_eq!(n_points(index).await, 0, "a call that is refused stores nothing");
    }
    let request =
        SearchRequest { leg: Leg::Dense(vec![1.0; DIMENSION + 1]), limit: 1, filter: Vec::new() };
    check_dimension(&index.search(&request).await, dimension, DIMENSION + 1);

    let not_a_number = SparseVector { indices: vec![1], values: vec![f32::NAN] };
    let unordered = SparseVector { indices: vec![2, 1], values: vec![1.0, 1.0] };
    let uneven = SparseVector { indices: vec![1, 2], values: vec![1.0] };
    for terms in [not_a_number, unordered, uneven] {
        let call =
            index.upsert(vec![fitting(1), Point { lexical: terms.clone(), ..fitting(2) }]).await;
        assert!(call.is_err(), "{terms:?} is no lexical vector");
        let request = SearchRequest { leg: Leg::Lexical(terms), limit: 1, filter: Vec::new() };
        assert!(index.search(&request).await.is_err(), "{:?} is no query", request.leg);
    }
    assert_eq!(n_points(index).await, 0, "a call that is refused stores nothing");
}

fn check_dimension<T: std::fmt::Debug>(
    call: &Result<T, IndexError>,
    dimension: Option<usize>,
    got: usize,
) {
    let refused = matches!(call, Err(IndexError::Dimension { wanted, got: other })
        if *wanted == dimension.unwrap_or(0) && *other == got);
    assert!(refused, "{got} components in an index of {dimension:?} gave {call:?}");
}

async fn a_limit_is_a_limit(index: &dyn Index) {
    index.upsert((0..20).map(|n| point(n, 1, &[1])).collect()).await.expect("points are stored");
    for leg in [dense(3), lexical(&[1])] {
        for (limit, wanted) in [(0, 0), (1, 1), (7, 7), (20, 20), (21, 20), (usize::MAX, 20)] {
            assert_eq!(
                search(index, leg.clone(), limit, &[]).await.len(),
                wanted,
                "{leg:?} with limit {limit}"
            );
        }
    }
}

async fn ties_are_in_order_of_the_leaf(index: &dyn Index) {
    for n in [5, 3, 9, 1, 7] {
        let tied = Point { dense: Some(direction(0)), ..point(n, 1, &[1]) };
        index.upsert(vec![tied]).await.expect("points are stored");
    }
    for leg in [dense(0), lexical(&[1])] {
        let leaves: Vec<LeafId> =
            search(index, leg, 10, &[]).await.iter().map(|hit| hit.record.leaf).collect();
        assert_eq!(leaves, [1, 3, 5, 7, 9].map(leaf));
    }
}

async fn documents_can_be_left_out(index: &dyn Index) {
    index
        .upsert((0..12).map(|n| point(n, u64::from(n % 4), &[1])).collect())
        .await
        .expect("points are stored");
    for leg in [dense(3), lexical(&[1])] {
        let docs = |hits: &[Scored]| hits.iter().map(|hit| hit.record.doc.0).collect::<Vec<_>>();
        let found = docs(
            &search(index, leg.clone(), 20, &[DocId(1), DocId(3), DocId(99), DocId(u64::MAX)])
                .await,
        );
        assert_eq!(found.len(), 6, "{leg:?} found {found:?}");
        assert!(found.iter().all(|doc| [0, 2].contains(doc)), "{leg:?} found {found:?}");
        // The filter is applied inside the search: the limit is filled from what is left.
        assert_eq!(search(index, leg.clone(), 3, &[DocId(0), DocId(1), DocId(2)]).await.len(), 3);
        assert_eq!(search(index, leg, 3, &[0, 1, 2, 3].map(DocId)).await, []);
    }
}

async fn conditions_hold_inside_the_search(index: &dyn Index) {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let point = |n: u32, connector: &str, labels: &[&str], updated_at| {
        let labels = words(labels);
        let facets = Facets {
            source: "docs".to_owned(),
            connector: connector.to_owned(),
            language: "en".to_owned(),
            labels,
            updated_at,
        };
        Point { facets, ..point(n, u64::from(n), &[1]) }
    };
    let points = vec![
        point(1, "wiki", &["staff", "hr"], Some(100)),
        point(2, "wiki", &[""], Some(200)),
        point(3, "", &["legal"], None),
        point(4, "policy", &["hr"], Some(-50)),
    ];
    index.upsert(points).await.expect("points are stored");
    let is = |test| Clause { test, negated: false };
    let is_not = |test| Clause { test, negated: true };
    let facet = |facet, any: &[&str]| Test::Facet(facet, words(any));
    let updated = |from, to| Test::Updated { from, to };
    let cases: Vec<(Vec<Clause>, &[u32])> = vec![
        (vec![is(facet(Facet::Connector, &["wiki"]))], &[1, 2]),
        (vec![is(facet(Facet::Connector, &["policy", "", "other"]))], &[3, 4]),
        (vec![is(facet(Facet::Connector, &["WIKI"]))], &[]),
        (vec![is(facet(Facet::Connector, &[]))], &[]),
        (vec![is_not(facet(Facet::Connector, &["wiki"]))], &[3, 4]),
        (vec![is(facet(Facet::Label, &["hr"]))], &[1, 4]),
        (vec![is(facet(Facet::Label, &["", "staff"]))], &[1, 2]),
        (vec![is_not(facet(Facet::Label, &["hr"]))], &[2, 3]),
        (vec![is(facet(Facet::Source, &["docs"]))], &[1, 2, 3, 4]),
        (vec![is(facet(Facet::Language, &["de"]))], &[]),
        (vec![is(updated(Some(100), None))], &[1, 2]),
        (vec![is(updated(Some(101), Some(200)))], &[]),
        (vec![is(updated(None, Some(100)))], &[4]),
        (vec![is_not(updated(None, Some(100)))], &[1, 2, 3]),
        (vec![is(Test::Docs(vec![DocId(2), DocId(3)]))], &[2, 3]),
        (vec![is(Test::Docs(Vec::new()))], &[]),
        (vec![is(facet(Facet::Label, &["hr"])), is_not(facet(Facet::Connector, &["wiki"]))], &[4]),
    ];
    for optimized in [false, true] {
        if optimized {
            index.optimize().await.expect("the index is optimized");
        }
        for (filter, wanted) in &cases {
            for leg in [dense(3), lexical(&[1])] {
                let request = SearchRequest { leg, limit: 10, filter: filter.clone() };
                let hits = index.search(&request).await.expect("a filtered search answers");
                let mut found: Vec<u32> = hits.iter().map(|hit| hit.record.ordinal).collect();
                found.sort_unstable();
                assert_eq!(found, *wanted, "{request:?}");
            }
        }
    }
}

async fn clusters_can_be_left_out(index: &dyn Index) {
    // Leaves 0 to 9 are one cluster, 10 and 11 another, and 12 is alone.
    let cluster = |n: u32| match n {
        0..10 => ClusterId([9; 16]),
        10 | 11 => ClusterId([255; 16]),
        alone => leaf(alone).into(),
    };
    let points = (0..13).map(|n| {
        let mut point = point(n, 1, &[1]);
        point.record.cluster = cluster(n);
        Point { dense: Some(direction(0)), ..point }
    });
    index.upsert(points.collect()).await.expect("points are stored");
    for optimized in [false, true] {
        if optimized {
            index.optimize().await.expect("the index is optimized");
        }
        for leg in [dense(0), lexical(&[1])] {
            let found = async |clusters: &[ClusterId], negated, limit| {
                let test = Test::Clusters(clusters.to_vec());
                let filter = vec![Clause { test, negated }];
                let request = SearchRequest { leg: leg.clone(), limit, filter };
                let hits = index.search(&request).await.expect("a filtered search answers");
                hits.iter().map(|hit| hit.record.ordinal).collect::<Vec<_>>()
            };
            assert_eq!(found(&[cluster(0)], true, 3).await, [10, 11, 12], "the limit is filled");
            assert_eq!(found(&[cluster(0), cluster(10)], true, 20).await, [12]);
            assert_eq!(found(&[cluster(12), ClusterId([1; 16])], true, 20).await.len(), 12);
            assert_eq!(found(&[cluster(10), cluster(12)], false, 20).await, [10, 11, 12]);
            assert_eq!(found(&[], true, 20).await.len(), 13);
            assert!(found(&[], false, 20).await.is_empty());
        }
    }
}

async fn a_leaf_without_terms_is_not_counted(index: &dyn Index) {
    index
        .upsert(vec![point(1, 1, &[1, 2]), point(2, 1, &[2]), point(3, 1, &[])])
        .await
        .expect("points are stored");
    assert_eq!(n_points(index).await, 3);
    assert_eq!(search(index, lexical(&[]), 10, &[]).await, [], "no term finds nothing");
    assert_eq!(search(index, lexical(&[8]), 10, &[]).await, [], "an unknown term finds nothing");
    let found = search(index, lexical(&[1, 8]), 10, &[]).await;
    assert_eq!(found.len(), 1);
    // N = 2, n = 1, and term 1 weighs 1.5 in the passage.
    assert!(
        (found[0].score - 1.5 * 2_f32.ln()).abs() < TOLERANCE,
        "the score is {}",
        found[0].score
    );
}

async fn leaves_without_vectors_are_found_by_terms(index: &dyn Index) {
    let points: Vec<Point> =
        (0..6).map(|n| Point { dense: None, ..point(n, 1, &[n, 7]) }).collect();
    index.upsert(points).await.expect("points without vectors are stored");
    assert_eq!(index.describe().await.expect("it is described").dimension, None);
    let found = search(index, lexical(&[4, 7]), 10, &[]).await;
    assert_eq!((found.len(), found[0].record.leaf), (6, leaf(4)));
    index.optimize().await.expect("the index is optimized");
    assert_eq!(search(index, lexical(&[4, 7]), 10, &[]).await.len(), 6);
}

/// Random upserts, deletes and searches on both; lexical scores are compared while nothing deleted is still counted.
async fn a_random_sequence_ends_as_in_exact(index: &dyn Index, seed: u64) {
    let exact = ExactIndex::new(Some(DIMENSION));
    let mut random = Random::new(seed);
    let mut counts_deleted = false;
    for step in 0..=OPERATIONS {
        let place = format!("seed {seed}, step {step}");
        match random.below(11) {
            0..=4 => {
                let points: Vec<Point> = (0..=random.below(12)).map(|_| random.point()).collect();
                let leaves: Vec<LeafId> = points.iter().map(|point| point.record.leaf).collect();
                let before = exact.fetch(&leaves).await.expect("exact fetches");
                counts_deleted |= before.iter().any(Option::is_some);
                exact.upsert(points.clone()).await.expect("exact stores");
                index.upsert(points).await.unwrap_or_else(|error| panic!("{place}: {error:?}"));
            }
            5 | 6 => {
                let leaves: Vec<LeafId> = (0..random.below(4)).map(|_| random.leaf()).collect();
                counts_deleted |= !leaves.is_empty();
                exact.delete(&leaves).await.expect("exact deletes");
                index.delete(&leaves).await.unwrap_or_else(|error| panic!("{place}: {error:?}"));
            }
            7 => {
                let clusters: Vec<(LeafId, ClusterId)> = (0..random.below(6))
                    .map(|_| (random.leaf(), ClusterId([random.below(4) as u8; 16])))
                    .collect();
                counts_deleted |= !clusters.is_empty();
                exact.assign(&clusters).await.expect("exact assigns");
                index.assign(&clusters).await.unwrap_or_else(|error| panic!("{place}: {error:?}"));
            }
            8 => index.flush().await.unwrap_or_else(|error| panic!("{place}: {error:?}")),
            _ => {
                index.optimize().await.unwrap_or_else(|error| panic!("{place}: {error:?}"));
                counts_deleted = false;
            }
        }
        if step == OPERATIONS {
            index.optimize().await.unwrap_or_else(|error| panic!("{place}: {error:?}"));
            counts_deleted = false;
        }
        assert_eq!(n_points(index).await, n_points(&exact).await, "{place}");
        let filter: Vec<Clause> = (0..random.below(3)).map(|_| random.clause()).collect();
        let limit = 1 + random.below(30);
        let mut legs = vec![Leg::Dense(random.direction())];
        if !counts_deleted {
            legs.push(Leg::Lexical(SparseVector {
                values: vec![1.0; 3],
                indices: random.terms(3),
            }));
        }
        for leg in legs {
            let request = SearchRequest { leg, limit, filter: filter.clone() };
            assert_agrees(index, &exact, &request, &place).await;
        }
        let leaves: Vec<LeafId> = (0..5).map(|_| random.leaf()).collect();
        let fetched =
            index.fetch(&leaves).await.unwrap_or_else(|error| panic!("{place}: {error:?}"));
        assert_eq!(fetched, exact.fetch(&leaves).await.expect("exact fetches"), "{place}");
    }
}

/// Checks that `index` and the exact one give the same list: the same scores at each rank, and each leaf with the score that it
/// has in the exact one. So two leaves change places, or one falls off the end for another, only where their scores tie.
///
/// # Panics
/// If they do not; the message begins with `place`.
pub async fn assert_agrees(
    index: &dyn Index,
    exact: &ExactIndex,
    request: &SearchRequest,
    place: &str,
) {
    let found = index.search(request).await.unwrap_or_else(|error| panic!("{place}: {error:?}"));
    let all = SearchRequest { limit: usize::MAX, ..request.clone() };
    let wanted = exact.search(&all).await.expect("exact searches");
    let scores: BTreeMap<LeafId, f32> =
        wanted.iter().map(|hit| (hit.record.leaf, hit.score)).collect();
    let report = || format!("{place}, {request:?}\nfound {found:?}\nwanted {wanted:?}\n");
    assert_eq!(found.len(), wanted.len().min(request.limit), "{}", report());
    for (hit, wanted) in found.iter().zip(&wanted) {
        let off = (hit.score - wanted.score).abs();
        assert!(off < TOLERANCE, "{}: a score of {}", report(), hit.score);
        let own = scores.get(&hit.record.leaf);
        let fits = own.is_some_and(|own| (own - hit.score).abs() < TOLERANCE);
        assert!(fits, "{}: {own:?} is its score, not {}", report(), hit.score);
    }
    assert_ordered(&found, place);
}

fn assert_ordered(found: &[Scored], place: &str) {
    let ordered = found.is_sorted_by(|a, b| match b.score.partial_cmp(&a.score) {
        Some(order) => order.then(a.record.leaf.cmp(&b.record.leaf)).is_lt(),
        None => false,
    });
    assert!(ordered, "{place} is not in falling score, ties by leaf: {found:?}");
}

async fn search(index: &dyn Index, leg: Leg, limit: usize, without_docs: &[DocId]) -> Vec<Scored> {
    let filter = vec![Clause { test: Test::Docs(without_docs.to_vec()), negated: true }];
    let request = SearchRequest { leg, limit, filter };
    let found = index
        .search(&request)
        .await
        .unwrap_or_else(|error| panic!("{request:?} failed: {error:?}"));
    assert_ordered(&found, "a list");
    found
}

async fn n_points(index: &dyn Index) -> usize {
    index.describe().await.expect("an index is described").points
}

pub(super) fn leaf(n: u32) -> LeafId {
    let mut id = [0; 16];
    id[..4].copy_from_slice(&n.to_be_bytes());
    LeafId(id)
}

/// The axis `n`; all that is not parallel to it is at a right angle.
fn direction(n: u32) -> Vec<f32> {
    (0..DIMENSION).map(|axis| f32::from(axis == n as usize % DIMENSION)).collect()
}

fn dense(n: u32) -> Leg {
    Leg::Dense(direction(n))
}

fn lexical(terms: &[u32]) -> Leg {
    Leg::Lexical(SparseVector { indices: terms.to_vec(), values: vec![1.0; terms.len()] })
}

pub(super) fn point(n: u32, doc: u64, terms: &[u32]) -> Point {
    Point {
        record: LeafRecord {
            leaf: leaf(n),
            doc: DocId(doc),
            span: Span::new(n as usize, n as usize + 10),
            ordinal: n,
            tokens: 3,
            node: n + 1,
            ancestors: vec![Ancestor { node: 0, children: 9 }],
            cluster: leaf(n).into(),
        },
        facets: Facets::default(),
        dense: Some(direction(n)),
        lexical: SparseVector { indices: terms.to_vec(), values: vec![1.5; terms.len()] },
    }
}

/// What an index keeps of a point.
pub(super) fn kept(point: &Point) -> Kept {
    Kept { record: point.record.clone(), facets: point.facets.clone() }
}

/// Random numbers that a seed repeats, and what the suite makes of them.
pub(super) struct Random(Rng);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(Rng::with_seed(seed))
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.0.u8(..)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0.usize(..n)
    }

    pub(super) fn unit(&mut self) -> f32 {
        self.0.f32()
    }

    fn leaf(&mut self) -> LeafId {
        leaf(self.below(80) as u32)
    }

    fn cluster(&mut self) -> ClusterId {
        ClusterId([self.below(8) as u8; 16])
    }

    fn doc(&mut self) -> DocId {
        DocId(self.below(6) as u64)
    }

    fn word(&mut self) -> String {
        ["", "wiki", "policy", "ä b"][self.below(4)].to_owned()
    }

    fn clause(&mut self) -> Clause {
        let facets = [Facet::Source, Facet::Connector, Facet::Language, Facet::Label];
        let at = i64::from(self.below(6) as u32);
        let (from, to) =
            [(Some(at), None), (None, Some(at)), (Some(at), Some(at + 2))][self.below(3)];
        let test = match self.below(4) {
            3 => Test::Clusters((0..self.below(4)).map(|_| self.cluster()).collect()),
            0 => Test::Docs((0..self.below(4)).map(|_| self.doc()).collect()),
            1 => Test::Facet(
                facets[self.below(4)],
                (0..self.below(3)).map(|_| self.word()).collect(),
            ),
            _ => Test::Updated { from, to },
        };
        Clause { test, negated: self.below(2) == 0 }
    }

    fn facets(&mut self) -> Facets {
        Facets {
            source: self.word(),
            connector: self.word(),
            language: self.word(),
            labels: (0..=self.below(2)).map(|_| self.word()).collect(),
            updated_at: (self.below(3) > 0).then(|| i64::from(self.below(6) as u32)),
        }
    }

    /// A vector of norm 1.
    pub(super) fn direction(&mut self) -> Vec<f32> {
        let vector: Vec<f32> = (0..DIMENSION).map(|_| self.unit() - 0.5).collect();
        let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        vector.iter().map(|x| x / norm).collect()
    }

    /// `n` different terms, small ones oftener.
    pub(super) fn terms(&mut self, n: usize) -> Vec<u32> {
        let mut terms: Vec<u32> = Vec::new();
        while terms.len() < n {
            let term = (self.unit() * self.unit() * 40.0) as u32 * 77_777;
            if let Err(place) = terms.binary_search(&term) {
                terms.insert(place, term);
            }
        }
        terms
    }

    fn point(&mut self) -> Point {
        let n = self.below(80) as u32;
        let n_terms = self.below(6);
        let indices = self.terms(n_terms);
        let values = indices.iter().map(|_| 0.2 + 2.0 * self.unit()).collect();
        let mut point = point(n, 0, &[]);
        point.record.doc = self.doc();
        point.record.cluster = self.cluster();
        point.record.tokens = self.below(1000) as u32;
        point.facets = self.facets();
        Point { dense: Some(self.direction()), lexical: SparseVector { indices, values }, ..point }
    }
}
