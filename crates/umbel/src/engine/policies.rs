//! A question → whom each policy would let speak for the clusters of duplicates that it meets.
//!
//! Invariant: nothing is delivered and nothing logged; a cluster of which one member was fetched leaves no choice, and is left out.

use super::answer::SearchRequest;
use super::clock::Clock;
use super::cursor::Cursor;
use super::retrieve::standings;
use super::{Engine, EngineError};
use umbel_core::collapse::Policy;
use umbel_core::id::{ClusterId, LeafId};

/// Whom the policies let speak for a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The cluster.
    pub cluster: ClusterId,
    /// The member that each policy chose, in the order of [`Policy::ALL`].
    pub speakers: [LeafId; Policy::ALL.len()],
}

impl Engine {
    /// The choices that each policy makes for a question, best cluster first.
    ///
    /// # Errors
    /// As [`search`](Engine::search).
    pub async fn choices(&self, request: &SearchRequest) -> Result<Vec<Choice>, EngineError> {
        let generation = self.catalog.describe().await?.generation;
        let filter = self.clauses(request, &Cursor::default()).await?;
        let mut warnings = Vec::new();
        let mut list = self.find(request, &filter, &mut Clock::start(), &mut warnings).await?.list;
        let documents = self.hydrate(&mut list, generation, &mut warnings).await?;
        let standings = standings(&documents, &request.config.settings().collapse);
        let chosen = Policy::ALL.map(|policy| {
            let mut list = list.clone();
            list.choose(policy, &standings);
            list.voices
        });
        let clusters = list.voices.iter().enumerate().filter(|(_, voice)| voice.seen() > 1);
        let choice = |at: usize| chosen.each_ref().map(|voices| voices[at].hit.record.leaf);
        Ok(clusters
            .map(|(at, voice)| Choice { cluster: voice.hit.record.cluster, speakers: choice(at) })
            .collect())
    }
}
