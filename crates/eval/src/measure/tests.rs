//! Measures by name, and what they give.

use super::*;
use crate::run::testing::{entry, run, spot};
use proptest::prelude::*;

fn measure(name: &str) -> Measure {
    name.parse().unwrap()
}

/// The figure of a query with evidence in one span and these passages.
fn check(name: &str, evidence: (usize, usize), passages: &[(usize, usize)], expected: Option<f64>) {
    let entry = entry("q", evidence, passages, false);
    let got = measure(name).value(&entry, &entry.delivery);
    let close = got.zip(expected).is_some_and(|(a, b)| (a - b).abs() < 1e-12);
    assert!(close || got == expected, "{name}: {got:?}, wanted {expected:?}");
}

const NAMES: [&str; 20] = [
    "nDCG@10",
    "R@5",
    "MRR",
    "EvidenceRecall",
    "Precision",
    "IoU",
    "PrecisionOmega",
    "Success(all>=0.95)",
    "Success(any>=0.5)",
    "Success(union>=1)",
    "Success(any>0)",
    "ClusterEvidenceRecall",
    "ClusterSuccess(all>=0.95)",
    "ClusterSuccess(any>0)",
    "Outcome",
    "UniqueClusters@10",
    "ClusterRecall@10",
    "Tokens",
    "DuplicateShare",
    "Coherence",
];

#[test]
fn a_measure_parses_as_it_prints() {
    for name in NAMES {
        assert_eq!(measure(name).to_string(), name);
        assert_eq!(measure(&format!(" {name} ")), measure(name));
    }
    assert_eq!(measure("Success(all>=0.95)"), Measure::FULL);
}

#[test]
fn what_is_no_measure_is_refused() {
    for wrong in [
        "",
        "ndcg@10",
        "nDCG",
        "nDCG@0",
        "R@-1",
        "P@5",
        "MRR@10",
        "ClusterMRR",
        "ClusterSuccess",
        "Success",
        "Success(all)",
        "Success(all>=0)",
        "Success(all>=95)",
        "Success(some>=0.5)",
        "Success(all>0.5)",
        "Tokens@3",
    ] {
        let error = wrong.parse::<Measure>().unwrap_err();
        assert_eq!(error.to_string(), format!("`{wrong}` is no measure"));
        assert!(error.hint().contains("nDCG@k"));
    }
}

#[test]
fn a_k_beyond_the_depth_of_the_run_is_refused_with_the_reason() {
    let identity = run(Vec::new()).identity;
    let error = measure("R@61").supported_by(&identity).unwrap_err();
    assert_eq!(error.to_string(), "`R@61` looks at 61 leaves, and the run ranks 60");
    assert!(error.hint().contains("search.depth=61"));
    for name in NAMES {
        assert_eq!(measure(name).supported_by(&identity), Ok(()), "{name}");
    }
}

#[test]
fn passages_are_measured_in_bytes() {
    check("EvidenceRecall", (0, 10), &[(0, 5)], Some(0.5));
    check("Precision", (0, 10), &[(0, 40)], Some(0.25));
    check("IoU", (0, 10), &[(5, 15)], Some(5.0 / 15.0));
    check("Success(all>=0.95)", (0, 10), &[(0, 9)], Some(0.0));
    check("Success(all>=0.9)", (0, 10), &[(0, 9)], Some(1.0));
    check("Success(any>0)", (0, 10), &[(9, 12)], Some(1.0));
    check("Success(any>0)", (0, 10), &[(10, 12)], Some(0.0));
    check("Tokens", (0, 10), &[(0, 10), (20, 25)], Some(8.0));
    check("DuplicateShare", (0, 10), &[(0, 10), (5, 15)], Some(0.25));
}

#[test]
fn success_asks_for_all_any_or_the_union() {
    let mut entry = entry("q", (0, 10), &[(0, 10)], false);
    let mut second = entry.relevant[0].clone();
    (second.start, second.end) = (20, 30);
    entry.relevant.push(second);
    let value = |name: &str| measure(name).value(&entry, &entry.delivery).unwrap();
    assert_eq!((value("Success(all>=0.5)"), value("Success(any>=1)")), (0.0, 1.0));
    assert_eq!((value("Success(union>=0.5)"), value("Success(union>=0.51)")), (1.0, 0.0));
}

#[test]
fn lists_are_measured_by_leaf_and_by_cluster() {
    // The second leaf alone is relevant, and stands at rank 2.
    check("MRR", (10, 19), &[], Some(0.5));
    check("R@1", (10, 19), &[], Some(0.0));
    check("R@2", (10, 19), &[], Some(1.0));
    check("nDCG@2", (10, 19), &[], Some(1.0 / 3f64.log2()));
    check("UniqueClusters@3", (10, 19), &[], Some(3.0));
    check("ClusterRecall@1", (10, 19), &[], Some(0.0));
    check("ClusterRecall@2", (10, 19), &[], Some(1.0));
    // Evidence outside of every leaf leaves nothing to rank.
    check("nDCG@2", (100, 110), &[], None);
    check("ClusterRecall@2", (100, 110), &[], None);
}

#[test]
fn a_copy_answers_for_its_cluster() {
    let mut entry = entry("q", (10, 19), &[], false);
    entry.candidates[0].record.cluster = entry.candidates[1].record.cluster;
    let value = |name: &str| measure(name).value(&entry, &entry.delivery).unwrap();
    assert_eq!(
        (value("ClusterRecall@1"), value("R@1"), value("UniqueClusters@3")),
        (1.0, 0.0, 2.0)
    );
}

#[test]
fn a_delivered_copy_stands_for_the_judged_leaf() {
    let mut entry = entry("q", (10, 14), &[(20, 29)], false);
    let copied = |entry: &Entry| {
        ["EvidenceRecall", "ClusterEvidenceRecall", "ClusterSuccess(all>=0.95)"]
            .map(|name| measure(name).value(entry, &entry.delivery))
    };
    assert_eq!(copied(&entry), [Some(0.0); 3]);
    let at = entry.leaves.iter().position(|leaf| leaf.spot == spot(10, 19)).unwrap();
    entry.leaves[at].copies = vec![spot(20, 29)];
    assert_eq!(copied(&entry), [Some(0.0), Some(1.0), Some(1.0)]);
    // A copy of which a part was delivered says nothing for sure.
    entry.delivery.passages = vec![spot(20, 28)];
    assert_eq!(copied(&entry), [Some(0.0); 3]);
}

#[test]
fn precision_omega_is_that_of_the_leaves_that_touch_evidence() {
    check("PrecisionOmega", (0, 9), &[], Some(1.0));
    check("PrecisionOmega", (0, 5), &[], Some(5.0 / 9.0));
    // Byte 9 lies between the first two leaves: in none of them, and both are touched.
    check("PrecisionOmega", (0, 10), &[], Some(9.0 / 19.0));
}

#[test]
fn coherence_counts_neighbours() {
    let mut entry = entry("q", (0, 9), &[], false);
    let coherence = measure("Coherence");
    assert_eq!(coherence.value(&entry, &entry.delivery), None);
    entry.delivery.neighbours = (4, 3);
    assert_eq!(coherence.value(&entry, &entry.delivery), Some(0.75));
}

#[test]
fn each_gives_what_it_says_where_nothing_was_returned() {
    let mut entry = entry("q", (10, 19), &[], false);
    entry.candidates.clear();
    entry.delivery.ranked.clear();
    for name in NAMES {
        let measure = measure(name);
        // The cutting is what it is, whatever is returned.
        if measure != Measure::PrecisionOmega {
            let got = measure.value(&entry, &entry.delivery);
            assert_eq!(got, measure.describe().of_nothing, "{name}");
        }
    }
}

proptest! {
    #[test]
    fn figures_stay_in_the_range_that_is_stated(
        passages in prop::collection::vec((0usize..40, 1usize..12), 0..6),
        evidence in (0usize..35, 1usize..20), which in 0..NAMES.len(),
    ) {
        let passages: Vec<(usize, usize)> = passages.iter().map(|(s, n)| (*s, s + n)).collect();
        let entry = entry("q", (evidence.0, evidence.0 + evidence.1), &passages, false);
        let measure = measure(NAMES[which]);
        let (low, high) = measure.describe().range;
        if let Some(value) = measure.value(&entry, &entry.delivery) {
            prop_assert!(low <= value && high.is_none_or(|high| value <= high + 1e-12));
            prop_assert!(!measure.is_binary() || [0.0, 1.0].contains(&value));
        }
    }
}
