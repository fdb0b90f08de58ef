//! A query and texts → a score for each text, from a model that reads both at once.
//!
//! Invariant: a higher score is better, and no `NaN` leaves a reranker.

#[cfg(feature = "local")]
pub mod local;
