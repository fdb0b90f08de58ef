//! The clusters of a store → what a person wants to know of them; works beside a process that holds the store.
//!
//! Invariant: nothing here writes.

use crate::catalog::{Catalog as _, ClusterRun, DocumentEntry, Member};
use crate::dedup::words::leaf_text;
use crate::engine::EngineError;
use crate::engine::inspect::Inspector;
use std::collections::{BTreeMap, BTreeSet};
use umbel_core::id::{ClusterId, DocId, LeafId};
use umbel_core::span::Span;

/// A cluster with its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterView {
    /// Its id.
    pub id: ClusterId,
    /// Its members, the representative first.
    pub members: Vec<MemberView>,
}

/// A leaf of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberView {
    /// The leaf.
    pub leaf: LeafId,
    /// Its document.
    pub document: DocumentEntry,
    /// Its bytes in it.
    pub span: Span,
    /// What it says, the header rows that are shown before it among it.
    pub text: String,
}

/// How much of one connector is said in another one too, or twice in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redundancy {
    /// One connector; the source of documents that have none.
    pub a: String,
    /// The other one, or the same.
    pub b: String,
    /// Clusters with members in both; in one, with at least two.
    pub clusters: usize,
    /// Leaves of the one that are in these clusters, and all that it has.
    pub leaves_of_a: (usize, usize),
    /// Leaves of the other.
    pub leaves_of_b: (usize, usize),
}

impl Inspector {
    /// The cluster runs that are kept, newest first.
    ///
    /// # Errors
    /// The catalog fails.
    pub async fn cluster_runs(&self) -> Result<Vec<ClusterRun>, EngineError> {
        Ok(self.catalog.runs().await?)
    }

    /// The clusters in effect with how many members each has, largest first.
    ///
    /// # Errors
    /// The catalog fails.
    pub async fn cluster_sizes(&self) -> Result<Vec<(ClusterId, usize)>, EngineError> {
        let mut sizes: BTreeMap<ClusterId, usize> = BTreeMap::new();
        for (cluster, ..) in self.catalog.clusters().await? {
            *sizes.entry(cluster).or_default() += 1;
        }
        let mut sizes: Vec<_> = sizes.into_iter().collect();
        sizes.sort_by_key(|&(cluster, size)| (std::cmp::Reverse(size), cluster));
        Ok(sizes)
    }

    /// The clusters whose ids begin like this.
    ///
    /// # Errors
    /// [`EngineError::UnknownCluster`] where there is none; the catalog fails.
    pub async fn clusters_named(&self, prefix: &str) -> Result<Vec<ClusterId>, EngineError> {
        let all: BTreeSet<ClusterId> =
            self.catalog.clusters().await?.into_iter().map(|(cluster, ..)| cluster).collect();
        let prefix = prefix.to_lowercase();
        let named = all.into_iter().filter(|cluster| cluster.to_string().starts_with(&prefix));
        let named: Vec<ClusterId> = named.collect();
        if named.is_empty() { Err(EngineError::UnknownCluster { id: prefix }) } else { Ok(named) }
    }

    /// The members of these clusters, each list by leaf; none of a cluster that no run in effect knows.
    ///
    /// # Errors
    /// The catalog fails.
    pub async fn cluster_members(
        &self,
        clusters: &[ClusterId],
    ) -> Result<Vec<Vec<Member>>, EngineError> {
        Ok(self.catalog.members(clusters).await?)
    }

    /// These clusters with the texts of their members.
    ///
    /// # Errors
    /// The catalog fails.
    pub async fn cluster_views(
        &self,
        clusters: &[ClusterId],
    ) -> Result<Vec<ClusterView>, EngineError> {
        let members = self.catalog.members(clusters).await?;
        let mut views = Vec::with_capacity(clusters.len());
        for (&id, members) in clusters.iter().zip(members) {
            let mut shown = Vec::with_capacity(members.len());
            for member in members {
                let doc: DocId = member.document.id;
                for stored in self.catalog.load(&[doc]).await?.into_iter().flatten() {
                    let leaves = stored.document.tree.leaves.iter().zip(&stored.leaf_ids);
                    for (leaf, _) in leaves.filter(|(_, id)| **id == member.leaf) {
                        shown.push(MemberView {
                            leaf: member.leaf,
                            document: member.document.clone(),
                            span: leaf.span,
                            text: leaf_text(&stored.document, leaf),
                        });
                    }
                }
            }
            views.push(ClusterView { id, members: shown });
        }
        Ok(views)
    }

    /// How much is said twice, by pair of connectors, most clusters first.
    ///
    /// # Errors
    /// The catalog fails.
    pub async fn redundancy(&self) -> Result<Vec<Redundancy>, EngineError> {
        let mut connector: BTreeMap<DocId, String> = BTreeMap::new();
        let mut n_leaves: BTreeMap<String, usize> = BTreeMap::new();
        for entry in self.catalog.list().await? {
            let name = entry.metadata.connector.unwrap_or(entry.source);
            *n_leaves.entry(name.clone()).or_default() += entry.leaves;
            connector.insert(entry.id, name);
        }
        let mut clusters: BTreeMap<ClusterId, BTreeMap<&str, usize>> = BTreeMap::new();
        for (cluster, _, doc) in self.catalog.clusters().await? {
            if let Some(name) = connector.get(&doc) {
                *clusters.entry(cluster).or_default().entry(name).or_default() += 1;
            }
        }
        let mut pairs: BTreeMap<(&str, &str), (usize, usize, usize)> = BTreeMap::new();
        for members in clusters.values() {
            for (at, (&a, &of_a)) in members.iter().enumerate() {
                for (&b, &of_b) in members.iter().skip(at).filter(|&(&b, _)| a != b || of_a > 1) {
                    let (clusters, in_a, in_b) = pairs.entry((a, b)).or_default();
                    *clusters += 1;
                    *in_a += of_a;
                    *in_b += of_b;
                }
            }
        }
        let all = |name: &str| n_leaves.get(name).copied().unwrap_or_default();
        let mut rows: Vec<Redundancy> = pairs
            .into_iter()
            .map(|((a, b), (clusters, in_a, in_b))| Redundancy {
                a: a.to_owned(),
                b: b.to_owned(),
                clusters,
                leaves_of_a: (in_a, all(a)),
                leaves_of_b: (in_b, all(b)),
            })
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.clusters));
        Ok(rows)
    }
}
