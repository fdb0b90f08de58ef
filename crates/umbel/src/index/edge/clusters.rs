//! Clusters of leaves → the payloads of their points, in the Qdrant engine.
//!
//! Invariant: of a point nothing changes but its cluster, and what was written is read again.

use super::super::{IndexError, Kept};
use super::{DamageError, EdgeIndex, attempt, check_space, payload, point_id};
use qdrant_edge::{Payload, PayloadOps, PointId, SetPayloadOp, UpdateOperation};
use std::collections::BTreeMap;
use umbel_core::id::{ClusterId, LeafId};

impl EdgeIndex {
    /// Writes the clusters of a batch, those that differ, and looks whether they are written, as [`remove`](EdgeIndex::remove)
    /// does.
    pub(super) fn write_clusters(&self, batch: &[(LeafId, ClusterId)]) -> Result<(), IndexError> {
        check_space(&self.path)?;
        let mut changed: BTreeMap<ClusterId, Vec<PointId>> = BTreeMap::new();
        for (leaf, cluster) in self.other_clusters(batch)? {
            changed.entry(cluster).or_default().push(point_id(leaf));
        }
        if changed.is_empty() {
            return Ok(());
        }
        for (cluster, points) in changed {
            let mut fields = serde_json::Map::new();
            fields.insert(payload::CLUSTER.to_owned(), payload::cluster_key(cluster).into());
            let set = SetPayloadOp {
                payload: Payload(fields),
                points: Some(points),
                filter: None,
                key: None,
            };
            let operation = UpdateOperation::PayloadOperation(PayloadOps::SetPayload(set));
            attempt("write clusters", || self.shard().update(operation))?;
        }
        if !self.other_clusters(batch)?.is_empty() {
            return Err(self.damage(DamageError::Ignored));
        }
        self.tidy("seal a segment")
    }

    /// Those of a batch that are there with another cluster.
    fn other_clusters(
        &self,
        batch: &[(LeafId, ClusterId)],
    ) -> Result<Vec<(LeafId, ClusterId)>, IndexError> {
        let leaves: Vec<LeafId> = batch.iter().map(|&(leaf, _)| leaf).collect();
        let kept = self.fetch_now(&leaves)?;
        let differs = |kept: &Option<Kept>, cluster: ClusterId| {
            kept.as_ref().is_some_and(|kept| kept.record.cluster != cluster)
        };
        let pairs = batch.iter().zip(&kept);
        Ok(pairs
            .filter(|((_, cluster), kept)| differs(kept, *cluster))
            .map(|(&pair, _)| pair)
            .collect())
    }
}
