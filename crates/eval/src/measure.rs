//! A query of a run and what was delivered for it → a figure, by a measure that prints and parses.
//!
//! Invariant: a measure gives what it says it gives where nothing was returned; what a run cannot answer is refused, not guessed.

mod name;

use crate::judgment::Reference;
use crate::metric::{self, COVERED_PERCENT, Evidence, Place, coverage};
use crate::ranking::{Ranking, is_relevant, rank};
use crate::run::{Delivery, Entry, Identity, Spot, Unit};
use serde::Serialize;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use umbel_core::span::{Span, SpanSet};

pub use name::MeasureError;

/// What is measured of a query. Printed and parsed as `nDCG@10` or `Success(all>=0.95)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// `nDCG@k`: discounted gain of the first k leaves of the ranked list, against the best list possible.
    Ndcg(NonZeroUsize),
    /// `R@k`: relevant leaves among the first k / relevant leaves.
    Recall(NonZeroUsize),
    /// `MRR`: 1 / rank of the first relevant leaf.
    ReciprocalRank,
    /// `EvidenceRecall`: bytes of evidence delivered / bytes of evidence.
    EvidenceRecall,
    /// `Precision`: bytes of evidence delivered / bytes delivered.
    Precision,
    /// `IoU`: bytes of evidence delivered / bytes delivered or relevant.
    Iou,
    /// `PrecisionOmega`: the precision of delivering every leaf that touches evidence; a property of the cutting alone.
    PrecisionOmega,
    /// `Success(all>=0.95)`: whether enough of the references are covered.
    Success(Wanted, Covered),
    /// `ClusterEvidenceRecall`: as `EvidenceRecall`, where a leaf of which a copy was delivered counts as delivered.
    ClusterEvidenceRecall,
    /// `ClusterSuccess(all>=0.95)`: as `Success`, where a leaf of which a copy was delivered counts as delivered.
    ClusterSuccess(Wanted, Covered),
    /// `Outcome`: whether the query was answered well, as the run says.
    Outcome,
    /// `UniqueClusters@k`: distinct clusters among the first k leaves.
    UniqueClusters(NonZeroUsize),
    /// `ClusterRecall@k`: relevant clusters among the first k leaves / relevant clusters.
    ClusterRecall(NonZeroUsize),
    /// `Tokens`: tokens delivered.
    Tokens,
    /// `DuplicateShare`: bytes delivered that had been delivered before / bytes delivered.
    DuplicateShare,
    /// `Coherence`: neighbouring delivered sentences that are neighbours in their document / neighbouring delivered sentences.
    Coherence,
}

/// How many references must be covered for a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Each of them.
    All,
    /// One of them.
    Any,
    /// All of them taken together as one.
    Union,
}

/// From when on a reference is covered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Covered {
    /// From this share of its bytes, above 0 to 1.
    From(f64),
    /// From its first byte: what judgments of whole documents can ask for.
    Touched,
}

/// What a reader should know of a measure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Description {
    /// What is counted, in one line.
    pub what: &'static str,
    /// The smallest and the largest value; `None` for no bound.
    pub range: (f64, Option<f64>),
    /// Whether more of it is better; `None` where it is a cost or a property that is neither.
    pub more_is_better: Option<bool>,
    /// The value where nothing was returned; `None` where there is none.
    pub of_nothing: Option<f64>,
}

/// Why a run cannot answer a measure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// The ranked list is shorter than k.
    #[error("`{measure}` looks at {k} leaves, and the run ranks {depth}")]
    Depth {
        /// The measure.
        measure: String,
        /// Its k.
        k: usize,
        /// `search.depth` of the run.
        depth: usize,
    },
    /// The run holds lists of documents, and nothing was delivered from them.
    #[error("`{measure}` looks at what was delivered, and the run only ranks documents")]
    NoContext {
        /// The measure.
        measure: String,
    },
}

impl Unsupported {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Unsupported::Depth { k, .. } => {
                format!(
                    "make the run with `--set search.depth={k} --set search.k_prime={k}`, or ask for less"
                )
            }
            Unsupported::NoContext { .. } => {
                "ask for `nDCG@k`, `R@k` or `MRR`, or give the run outcomes".to_owned()
            }
        }
    }
}

impl Measure {
    /// Full evidence: what a query's success is, if nothing else is said.
    pub const FULL: Measure = Measure::Success(Wanted::All, Covered::From(0.95));

    /// What is counted, in which range, and what nothing is worth.
    pub fn describe(self) -> Description {
        let of = |what, range, more_is_better, of_nothing| Description {
            what,
            range: (0.0, range),
            more_is_better,
            of_nothing,
        };
        let share = Some(1.0);
        match self {
            Measure::Ndcg(_) => of(
                "discounted gain of the first k leaves, against the best list",
                share,
                Some(true),
                Some(0.0),
            ),
            Measure::Recall(_) => {
                of("relevant leaves among the first k, of all", share, Some(true), Some(0.0))
            }
            Measure::ReciprocalRank => {
                of("1 / rank of the first relevant leaf", share, Some(true), Some(0.0))
            }
            Measure::EvidenceRecall => {
                of("bytes of evidence delivered, of all", share, Some(true), Some(0.0))
            }
            Measure::Precision => {
                of("bytes of evidence, of those delivered", share, Some(true), None)
            }
            Measure::Iou => of(
                "bytes of evidence delivered, of those delivered or relevant",
                share,
                Some(true),
                Some(0.0),
            ),
            Measure::PrecisionOmega => {
                of("precision of all leaves that touch evidence", share, None, None)
            }
            Measure::Success(..) => {
                of("whether enough of the evidence was delivered", share, Some(true), Some(0.0))
            }
            Measure::ClusterEvidenceRecall => of(
                "bytes of evidence delivered, there or in a copy, of all",
                share,
                Some(true),
                Some(0.0),
            ),
            Measure::ClusterSuccess(..) => of(
                "whether enough of the evidence was delivered, there or in a copy",
                share,
                Some(true),
                Some(0.0),
            ),
            Measure::Outcome => {
                of("whether the query was answered well, as the run says", share, Some(true), None)
            }
            Measure::UniqueClusters(k) => of(
                "distinct clusters among the first k leaves",
                Some(k.get() as f64),
                Some(true),
                Some(0.0),
            ),
            Measure::ClusterRecall(_) => of(
                "relevant clusters among the first k leaves, of all",
                share,
                Some(true),
                Some(0.0),
            ),
            Measure::Tokens => of("tokens delivered", None, Some(false), Some(0.0)),
            Measure::DuplicateShare => {
                of("bytes delivered twice, of those delivered", share, Some(false), None)
            }
            Measure::Coherence => of(
                "neighbouring sentences that are neighbours in the source",
                share,
                Some(true),
                None,
            ),
        }
    }

    /// Whether each query either has it or has it not, so that counts say more than means.
    pub fn is_binary(self) -> bool {
        matches!(self, Measure::Success(..) | Measure::ClusterSuccess(..) | Measure::Outcome)
    }

    /// The measure that credits any member of a judged leaf's cluster where this one credits the judged copy only; `None` where
    /// there is none.
    pub fn crediting_copies(self) -> Option<Measure> {
        match self {
            Measure::EvidenceRecall => Some(Measure::ClusterEvidenceRecall),
            Measure::Success(wanted, covered) => Some(Measure::ClusterSuccess(wanted, covered)),
            Measure::Recall(k) => Some(Measure::ClusterRecall(k)),
            _ => None,
        }
    }

    /// Whether a run can answer it.
    ///
    /// # Errors
    /// [`Unsupported`], with the reason.
    pub fn supported_by(self, run: &Identity) -> Result<(), Unsupported> {
        match self {
            Measure::Ndcg(_) | Measure::Recall(_) | Measure::ReciprocalRank | Measure::Outcome => {}
            _ if run.unit == Unit::Document => {
                return Err(Unsupported::NoContext { measure: self.to_string() });
            }
            _ => {}
        }
        match self {
            Measure::Ndcg(k)
            | Measure::Recall(k)
            | Measure::UniqueClusters(k)
            | Measure::ClusterRecall(k)
                if k.get() > run.depth =>
            {
                Err(Unsupported::Depth { measure: self.to_string(), k: k.get(), depth: run.depth })
            }
            _ => Ok(()),
        }
    }

    /// The figure of a query; `None` where nothing can be said.
    pub fn value(self, entry: &Entry, delivery: &Delivery) -> Option<f64> {
        let evidence = || metric::evidence(&entry.delivered(delivery), &entry.relevant);
        let share = |(of, kept): (u32, u32)| (of > 0).then(|| f64::from(kept) / f64::from(of));
        match self {
            Measure::Ndcg(k) => ranking(entry, delivery).map(|ranking| ranking.ndcg(k)),
            Measure::Recall(k) => ranking(entry, delivery).map(|ranking| ranking.recall(k)),
            Measure::ReciprocalRank => ranking(entry, delivery).map(|r| r.reciprocal_rank()),
            Measure::EvidenceRecall => evidence().map(|e| e.recall()),
            Measure::Precision => evidence().and_then(|e| e.precision()),
            Measure::Iou => evidence().map(|e| e.iou()),
            Measure::PrecisionOmega => precision_omega(entry),
            Measure::Success(wanted, covered) => {
                let delivered = entry.delivered(delivery);
                is_success(&delivered, &entry.relevant, wanted, covered)
                    .map(|yes| f64::from(u8::from(yes)))
            }
            Measure::ClusterEvidenceRecall => {
                metric::evidence(&credited(entry, delivery), &entry.relevant).map(|e| e.recall())
            }
            Measure::ClusterSuccess(wanted, covered) => {
                is_success(&credited(entry, delivery), &entry.relevant, wanted, covered)
                    .map(|yes| f64::from(u8::from(yes)))
            }
            Measure::Outcome => entry.outcome.map(|yes| f64::from(u8::from(yes))),
            Measure::UniqueClusters(k) => {
                let first = entry.ranked(delivery).take(k.get());
                let clusters: BTreeSet<_> = first.map(|leaf| leaf.record.cluster).collect();
                Some(clusters.len() as f64)
            }
            Measure::ClusterRecall(k) => cluster_recall(entry, delivery, k),
            Measure::Tokens => Some(delivery.tokens as f64),
            Measure::DuplicateShare => evidence().and_then(|e: Evidence| e.duplicated()),
            Measure::Coherence => share(delivery.neighbours),
        }
    }
}

/// Whether enough of the references are covered; `None` where there is none.
pub(crate) fn is_success(
    delivered: &[Place<'_>],
    relevant: &[Reference],
    wanted: Wanted,
    covered: Covered,
) -> Option<bool> {
    // A hair below a share is the share: three of ten bytes are 0.3, whatever the binary fraction.
    let enough = |share: f64| match covered {
        Covered::From(least) => share >= least - 1e-12,
        Covered::Touched => share > 0.0,
    };
    let shares = coverage(delivered, relevant);
    match wanted {
        _ if shares.is_empty() => None,
        Wanted::All => Some(shares.into_iter().all(enough)),
        Wanted::Any => Some(shares.into_iter().any(enough)),
        Wanted::Union => {
            metric::evidence(delivered, relevant).map(|evidence| enough(evidence.recall()))
        }
    }
}

/// What was delivered, and the judged leaves of which a copy was, to [`COVERED_PERCENT`].
fn credited<'e>(entry: &'e Entry, delivery: &Delivery) -> Vec<Place<'e>> {
    let mut places = entry.delivered(delivery);
    let is_delivered = |copy: &Spot| {
        let copy = entry.place(*copy).map(|place| Reference {
            doc: place.doc.to_owned(),
            start: place.span.start,
            end: place.span.end,
            grade: None,
        });
        let shares = coverage(&places, copy.as_slice());
        shares.iter().any(|share| 100.0 * share >= COVERED_PERCENT as f64)
    };
    let of_copies: Vec<Place<'_>> = entry
        .leaves
        .iter()
        .filter(|leaf| leaf.copies.iter().any(is_delivered))
        .filter_map(|leaf| entry.place(leaf.spot))
        .collect();
    places.extend(of_copies);
    places
}

/// The ranked list beside the best one; `None` where no leaf is relevant.
fn ranking(entry: &Entry, delivery: &Delivery) -> Option<Ranking> {
    let ranked: Vec<Place<'_>> =
        entry.ranked(delivery).filter_map(|leaf| entry.place(leaf.spot())).collect();
    let leaves: Vec<Place<'_>> =
        entry.leaves.iter().filter_map(|leaf| entry.place(leaf.spot)).collect();
    rank(&ranked, &leaves, &entry.relevant)
}

fn cluster_recall(entry: &Entry, delivery: &Delivery, k: NonZeroUsize) -> Option<f64> {
    let relevant = |place: Place<'_>| {
        let mut of_doc = entry.relevant.iter().filter(|r| r.doc == place.doc);
        of_doc.any(|reference| is_relevant(place.span, reference.span()))
    };
    let wanted: BTreeSet<&str> = entry
        .leaves
        .iter()
        .filter(|leaf| entry.place(leaf.spot).is_some_and(relevant))
        .map(|leaf| leaf.cluster.as_str())
        .collect();
    let first = entry.ranked(delivery).take(k.get());
    let found: BTreeSet<String> = first.map(|leaf| leaf.record.cluster.to_string()).collect();
    let hit = wanted.iter().filter(|cluster| found.contains(**cluster)).count();
    (!wanted.is_empty()).then(|| hit as f64 / wanted.len() as f64)
}

/// The precision of delivering every leaf that overlaps or touches evidence, each byte once: evidence in them / (bytes of them
/// + evidence in none of them). `None` where there is no evidence.
///
/// Source: Smith and Troynikov, "Evaluating Chunking Strategies for Retrieval", Chroma 2024, in bytes for tokens.
fn precision_omega(entry: &Entry) -> Option<f64> {
    let (mut hit, mut whole) = (0, 0);
    for doc in &entry.docs {
        let of_doc = entry.relevant.iter().filter(|reference| reference.doc == *doc);
        let evidence: SpanSet = of_doc.map(Reference::span).collect();
        let touches = |leaf: Span| {
            evidence.spans().iter().any(|span| leaf.start <= span.end && span.start <= leaf.end)
        };
        let places = entry.leaves.iter().filter_map(|leaf| entry.place(leaf.spot));
        let leaves: SpanSet =
            places.filter(|p| p.doc == doc && touches(p.span)).map(|p| p.span).collect();
        let inside: usize =
            evidence.spans().iter().flat_map(|&span| leaves.intersect(span)).map(Span::len).sum();
        hit += inside;
        whole += leaves.len() + evidence.len() - inside;
    }
    (whole > 0).then(|| hit as f64 / whole as f64)
}

#[cfg(test)]
mod tests;
