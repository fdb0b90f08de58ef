//! Leaves in memory → every score computed: the definition that the other back ends are held to.
//!
//! Invariant: a search looks at every leaf, and nothing is kept but the leaves, so nothing can be out of date.

use super::{
    Clause, Index, IndexError, IndexInfo, Kept, Leg, Point, Scored, SearchRequest, SparseVector,
    Test,
};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use umbel_core::hit::LeafRecord;
use umbel_core::id::{ClusterId, LeafId};

/// An index that forgets everything when it is dropped. A search costs O(leaves × dimension).
#[derive(Debug, Default)]
pub struct ExactIndex {
    dimension: Option<usize>,
    points: RwLock<BTreeMap<LeafId, Point>>,
}

impl ExactIndex {
    /// An empty index for vectors of this length; `None` for leaves without vectors.
    pub fn new(dimension: Option<usize>) -> ExactIndex {
        ExactIndex { dimension, points: RwLock::default() }
    }

    // A panic while the lock was held leaves a whole map behind: each call changes it one point at a time.
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<LeafId, Point>> {
        self.points.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<LeafId, Point>> {
        self.points.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait::async_trait]
impl Index for ExactIndex {
    async fn describe(&self) -> Result<IndexInfo, IndexError> {
        Ok(IndexInfo { back_end: "exact", dimension: self.dimension, points: self.read().len() })
    }

    async fn upsert(&self, points: Vec<Point>) -> Result<(), IndexError> {
        check_points(self.dimension, &points)?;
        self.write().extend(points.into_iter().map(|point| (point.record.leaf, point)));
        Ok(())
    }

    async fn delete(&self, leaves: &[LeafId]) -> Result<(), IndexError> {
        let mut points = self.write();
        for leaf in leaves {
            points.remove(leaf);
        }
        Ok(())
    }

    async fn assign(&self, clusters: &[(LeafId, ClusterId)]) -> Result<(), IndexError> {
        let mut points = self.write();
        for (leaf, cluster) in clusters {
            if let Some(point) = points.get_mut(leaf) {
                point.record.cluster = *cluster;
            }
        }
        Ok(())
    }

    async fn search(&self, request: &SearchRequest) -> Result<Vec<Scored>, IndexError> {
        check_leg(self.dimension, &request.leg)?;
        let points = self.read();
        let score: Box<dyn Fn(&Point) -> Option<f32> + Send> = match &request.leg {
            Leg::Dense(query) => Box::new(|point| Some(cosine(query, point.dense.as_deref()?))),
            Leg::Lexical(query) => {
                let query = weigh(query, points.values().map(|point| &point.lexical));
                Box::new(move |point| inner_product(&query, &point.lexical))
            }
        };
        let found = points
            .values()
            .filter(|point| request.filter.iter().all(|clause| holds(clause, point)))
            .filter_map(|point| Some((score(point)?, &point.record)))
            .collect();
        Ok(rank(found, request.limit)
            .into_iter()
            .map(|(score, record)| Scored { record: record.clone(), score })
            .collect())
    }

    async fn fetch(&self, leaves: &[LeafId]) -> Result<Vec<Option<Kept>>, IndexError> {
        let points = self.read();
        let kept =
            |point: &Point| Kept { record: point.record.clone(), facets: point.facets.clone() };
        Ok(leaves.iter().map(|leaf| points.get(leaf).map(kept)).collect())
    }

    async fn flush(&self) -> Result<(), IndexError> {
        Ok(())
    }

    async fn optimize(&self) -> Result<(), IndexError> {
        Ok(())
    }
}

/// Whether a condition holds for a leaf.
fn holds(clause: &Clause, point: &Point) -> bool {
    let holds = match &clause.test {
        Test::Docs(docs) => docs.contains(&point.record.doc),
        Test::Clusters(clusters) => clusters.contains(&point.record.cluster),
        Test::Facet(facet, any) => point.facets.words(*facet).iter().any(|word| any.contains(word)),
        Test::Updated { from, to } => point
            .facets
            .updated_at
            .is_some_and(|at| from.is_none_or(|from| from <= at) && to.is_none_or(|to| at < to)),
    };
    holds != clause.negated
}

/// The best `limit`, best first, ties by leaf id, without those whose score is not a number.
pub(super) fn rank<R: Borrow<LeafRecord>>(mut found: Vec<(f32, R)>, limit: usize) -> Vec<(f32, R)> {
    found.retain(|(score, _)| !score.is_nan());
    // Not `total_cmp`: 0 and -0 are a tie.
    found.sort_unstable_by(|(score, record), (other_score, other)| {
        let by_score = other_score.partial_cmp(score).expect("NaN was taken out above");
        by_score.then_with(|| record.borrow().leaf.cmp(&other.borrow().leaf))
    });
    found.truncate(limit);
    found
}

/// What is wrong with a vector, other than its dimension.
#[derive(Debug, thiserror::Error)]
pub(super) enum VectorError {
    #[error("a vector holds a component that is not a finite number")]
    NotFinite,
    #[error(
        "the terms of a lexical vector are not in rising order, or their number is not that of the weights"
    )]
    Terms,
}

/// Checks all points of a call before the first is stored.
pub(super) fn check_points(dimension: Option<usize>, points: &[Point]) -> Result<(), IndexError> {
    let refuse = |error| IndexError::Engine { verb: "store a leaf", source: Box::new(error) };
    for point in points {
        check_dimension(dimension, point.dense.as_ref().map(Vec::len))?;
        check_vector(point.dense.as_deref().unwrap_or_default()).map_err(refuse)?;
        check_terms(&point.lexical).map_err(refuse)?;
    }
    Ok(())
}

/// Checks what is searched for.
pub(super) fn check_leg(dimension: Option<usize>, leg: &Leg) -> Result<(), IndexError> {
    match leg {
        Leg::Dense(query) => {
            check_dimension(dimension, Some(query.len()))?;
            check_vector(query)
        }
        Leg::Lexical(query) => check_terms(query),
    }
    .map_err(|error| IndexError::Engine { verb: "read a query", source: Box::new(error) })
}

fn check_dimension(wanted: Option<usize>, got: Option<usize>) -> Result<(), IndexError> {
    if wanted == got {
        return Ok(());
    }
    Err(IndexError::Dimension { wanted: wanted.unwrap_or(0), got: got.unwrap_or(0) })
}

fn check_vector(vector: &[f32]) -> Result<(), VectorError> {
    if vector.iter().all(|x| x.is_finite()) { Ok(()) } else { Err(VectorError::NotFinite) }
}

fn check_terms(terms: &SparseVector) -> Result<(), VectorError> {
    if terms.indices.len() != terms.values.len() || !terms.indices.is_sorted_by(|a, b| a < b) {
        return Err(VectorError::Terms);
    }
    check_vector(&terms.values)
}

/// The cosine of two vectors of one length; 0 if one of them is all zeros.
fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| {
        a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>()
    };
    let norms = (dot(a, a) * dot(b, b)).sqrt();
    if norms == 0.0 { 0.0 } else { (dot(a, b) / norms) as f32 }
}

/// The query with each term weighted by its inverse document frequency, `ln((N - n + 0.5) / (n + 0.5) + 1)`.
///
/// N counts the passages with at least one term, n those with this term.
///
/// Source: qdrant-edge 0.7.2, `fancy_idf` and `fill_idf_statistics`; the formula is that of Lucene's `BM25Similarity`.
fn weigh<'a>(
    query: &SparseVector,
    passages: impl Iterator<Item = &'a SparseVector>,
) -> SparseVector {
    let mut n_passages = 0_u32;
    let mut n_with_term = vec![0_u32; query.indices.len()];
    for passage in passages.filter(|passage| !passage.indices.is_empty()) {
        n_passages += 1;
        for (query_idx, _) in shared_terms(query, passage) {
            n_with_term[query_idx] += 1;
        }
    }
    let idf = |n: u32| {
        let (all, n) = (n_passages as f32, n as f32);
        ((all - n + 0.5) / (n + 0.5) + 1.0).ln()
    };
    let values =
        query.values.iter().zip(&n_with_term).map(|(weight, n)| weight * idf(*n)).collect();
    SparseVector { indices: query.indices.clone(), values }
}

/// `None` if no term is shared.
fn inner_product(query: &SparseVector, passage: &SparseVector) -> Option<f32> {
    shared_terms(query, passage)
        .map(|(query_idx, passage_idx)| query.values[query_idx] * passage.values[passage_idx])
        .reduce(|sum, product| sum + product)
}

/// The places of each shared term in both vectors, in rising order of the term.
fn shared_terms(a: &SparseVector, b: &SparseVector) -> impl Iterator<Item = (usize, usize)> {
    a.indices
        .iter()
        .enumerate()
        .filter_map(|(idx, term)| Some((idx, b.indices.binary_search(term).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::conformance;
    use futures_lite::future::block_on;

    #[test]
    fn it_is_true_to_itself() {
        block_on(conformance::run(async |dimension| {
            Box::new(ExactIndex::new(dimension)) as Box<dyn Index>
        }));
    }

    #[test]
    fn a_cosine_does_not_depend_on_the_length_and_is_zero_without_one() {
        assert!((cosine(&[3.0, 4.0], &[0.6, 0.8]) - 1.0).abs() < 1e-6);
        assert!(cosine(&[0.0, 0.0], &[0.6, 0.8]).abs() < 1e-6);
    }

    #[test]
    fn a_rare_term_weighs_more_than_a_common_one() {
        let terms = |indices: &[u32]| SparseVector {
            indices: indices.to_vec(),
            values: vec![1.0; indices.len()],
        };
        let passages = [terms(&[1, 2]), terms(&[1]), terms(&[])];
        let query = weigh(&terms(&[1, 2, 3]), passages.iter());
        // N = 2, for the empty passage is not counted; n = 2, 1, 0.
        for (got, wanted) in query.values.iter().zip([1.2_f32.ln(), 2_f32.ln(), 6_f32.ln()]) {
            assert!((got - wanted).abs() < 1e-6, "{got} is not {wanted}");
        }
    }
}
