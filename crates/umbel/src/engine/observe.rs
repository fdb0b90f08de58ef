//! A question → the answer with the lists behind it: what an evaluation stores, to replay collapse, merge, expand and pack later.
//!
//! Invariant: the answer is the one that a search gives; it is not logged.

use super::answer::{SearchRequest, SearchResponse};
use super::{Engine, EngineError};
use umbel_core::collapse::Collapsed;
use umbel_core::hit::{Hit, LeafRecord};
use umbel_core::id::LeafId;

/// A search and the lists behind it.
#[derive(Debug)]
pub struct Observed {
    /// The answer.
    pub response: SearchResponse,
    /// The lists.
    pub lists: Lists,
}

/// What a search's passages were made of.
#[derive(Debug, Default)]
pub struct Lists {
    /// All leaves that the legs of the first search found, fused, with the score of each leg, before any is cut off.
    pub candidates: Vec<Hit>,
    /// One voice a cluster, reranked where a reranker is configured: what merging saw.
    pub collapsed: Collapsed,
}

impl Engine {
    /// Searches, and hands out the fused candidates and the collapsed list too.
    ///
    /// # Errors
    /// As [`Engine::search`].
    pub async fn observe(&self, request: &SearchRequest) -> Result<Observed, EngineError> {
        let mut lists = Lists::default();
        let response = self.search_within(request, 0, None, Some(&mut lists)).await?;
        Ok(Observed { response, lists })
    }

    /// What the index knows of leaves, in their order; `None` for those that it does not hold.
    ///
    /// # Errors
    /// The index fails.
    pub async fn leaf_records(
        &self,
        leaves: &[LeafId],
    ) -> Result<Vec<Option<LeafRecord>>, EngineError> {
        let kept = self.index.fetch(leaves).await?;
        Ok(kept.into_iter().map(|kept| kept.map(|kept| kept.record)).collect())
    }
}
