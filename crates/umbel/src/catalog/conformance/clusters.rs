//! A back end → a panic where its clusters, runs and sketches differ from what the catalog promises.

use super::{Random, Stored, commit, must, put, put_one, remove};
use crate::catalog::{
    Catalog, ClusterRun, KEPT_RUNS, NewRun, Pending, RunId, StoredPair, StoredSketch,
};
use std::collections::{BTreeMap, BTreeSet};
use umbel_core::id::{ClusterId, DocId, LeafId};

/// What a catalog shows of its clusters.
#[derive(Debug, PartialEq)]
pub(super) struct Clusters {
    runs: Vec<ClusterRun>,
    members: Vec<(ClusterId, LeafId, DocId)>,
}

impl Clusters {
    /// What this catalog shows; its verbs agree with each other.
    pub(super) async fn of(catalog: &dyn Catalog, stored: &[Stored]) -> Clusters {
        let members = must(catalog.clusters().await);
        let cluster_of: BTreeMap<LeafId, ClusterId> =
            members.iter().map(|&(cluster, leaf, _)| (leaf, cluster)).collect();
        assert_eq!(cluster_of.len(), members.len(), "a leaf is in one cluster");
        for (entry, _, leaves) in stored {
            let wanted: Vec<ClusterId> = leaves
                .iter()
                .map(|leaf| cluster_of.get(leaf).copied().unwrap_or_else(|| (*leaf).into()))
                .collect();
            assert_eq!(must(catalog.clusters_of(leaves).await), wanted, "{}", entry.name);
        }
        let clusters: BTreeSet<ClusterId> = cluster_of.into_values().collect();
        let clusters: Vec<ClusterId> = clusters.into_iter().collect();
        let listed = must(catalog.members(&clusters).await);
        let listed: Vec<_> = clusters
            .iter()
            .zip(listed)
            .inspect(|(cluster, members)| assert!(members.len() > 1, "{cluster:?} has one member"))
            .flat_map(|(&cluster, members)| members.into_iter().map(move |m| (cluster, m)))
            .inspect(|(_, member)| {
                assert!(stored.iter().any(|(entry, ..)| *entry == member.document));
            })
            .map(|(cluster, member)| (cluster, member.leaf, member.document.id))
            .collect();
        assert_eq!(listed, members, "`members` and `clusters` agree");
        Clusters { runs: must(catalog.runs().await), members }
    }
}

/// A run with these clusters, numbered from 1.
fn run(at: u32, clusters: &[&[(LeafId, DocId)]]) -> NewRun {
    let numbered = clusters.iter().zip(1..);
    let clusters = numbered.map(|(members, n)| (ClusterId([n; 16]), members.to_vec())).collect();
    NewRun { method: format!("{{\"n\":{at}}}"), at: at.into(), leaves: 9, clusters }
}

/// Three documents of one leaf each, settled.
async fn three(catalog: &dyn Catalog) -> [(LeafId, DocId); 3] {
    let documents = [("a", "1", "one"), ("a", "2", "two"), ("b", "3", "three")];
    let ids = commit(catalog, put(&documents)).await;
    must(catalog.settle(&must(catalog.pending(9).await)).await);
    let leaf = |n: usize| {
        let (source, path, text) = documents[n];
        (LeafId::of(source, path, text, 0), ids[n])
    };
    [leaf(0), leaf(1), leaf(2)]
}

async fn pending(catalog: &dyn Catalog) -> Vec<(LeafId, ClusterId)> {
    let mut pending = must(catalog.pending(99).await).clusters;
    pending.sort_unstable();
    pending
}

fn sorted(mut clusters: Vec<(LeafId, ClusterId)>) -> Vec<(LeafId, ClusterId)> {
    clusters.sort_unstable();
    clusters
}

pub(super) async fn a_run_is_in_effect_until_it_is_reverted(catalog: &dyn Catalog) {
    let [one, two, three] = three(catalog).await;
    assert!(!must(catalog.revert(RunId(1)).await), "there is no run yet");
    let first = must(catalog.mark(run(10, &[&[one, two]])).await);
    assert_eq!((first.leaves, first.clusters, first.members), (9, 1, 2));
    let generation = must(catalog.describe().await).generation;
    let cluster = ClusterId([1; 16]);
    assert_eq!(pending(catalog).await, sorted(vec![(one.0, cluster), (two.0, cluster)]));
    assert_eq!(must(catalog.pending(1).await).clusters.len(), 1, "a limit is a limit");
    let all = must(catalog.pending(9).await);
    // What is not what the catalog holds by now stays pending.
    let stale = Pending { clusters: vec![(one.0, one.0.into())], ..Pending::default() };
    must(catalog.settle(&stale).await);
    assert_eq!(pending(catalog).await.len(), 2);
    must(catalog.settle(&all).await);
    assert_eq!((pending(catalog).await, must(catalog.describe().await).pending), (Vec::new(), 0));

    let second = must(catalog.mark(run(20, &[&[three, two]])).await);
    assert!(second.id > first.id);
    assert_eq!(must(catalog.describe().await).cluster_run, Some(second.id));
    // `two` is in a cluster of the same name as before: the index need not hear of it.
    let wanted = sorted(vec![(one.0, one.0.into()), (three.0, cluster)]);
    assert_eq!(pending(catalog).await, wanted);
    let members = must(catalog.members(&[cluster, ClusterId([7; 16])]).await);
    let leaves: Vec<Vec<LeafId>> =
        members.iter().map(|members| members.iter().map(|member| member.leaf).collect()).collect();
    assert_eq!(leaves, [sorted_leaves(&[two.0, three.0]), Vec::new()]);

    assert!(must(catalog.revert(second.id).await));
    assert!(!must(catalog.revert(second.id).await), "it is reverted already");
    assert_eq!(must(catalog.describe().await).cluster_run, Some(first.id));
    let clusters = must(catalog.clusters_of(&[one.0, two.0, three.0]).await);
    assert_eq!(clusters, [cluster, cluster, three.0.into()]);
    assert!(must(catalog.revert(first.id).await));
    assert_eq!(must(catalog.clusters().await), []);
    assert!(must(catalog.runs().await).iter().all(|run| run.reverted));
    let info = must(catalog.describe().await);
    assert_eq!(
        (info.cluster_run, info.generation),
        (None, generation),
        "the documents are the same"
    );
    // A number is never used again.
    assert!(must(catalog.mark(run(30, &[])).await).id > second.id);
}

fn sorted_leaves(leaves: &[LeafId]) -> Vec<LeafId> {
    let mut leaves = leaves.to_vec();
    leaves.sort_unstable();
    leaves
}

pub(super) async fn a_document_that_goes_leaves_its_clusters(catalog: &dyn Catalog) {
    let [one, two, three] = three(catalog).await;
    let first = must(catalog.mark(run(10, &[&[one, three]])).await);
    let second = must(catalog.mark(run(20, &[&[one, two, three]])).await);
    must(catalog.settle(&must(catalog.pending(9).await)).await);
    // The same document again: its leaf stays.
    put_one(catalog, "a", "2", "two").await;
    assert_eq!(must(catalog.clusters().await).len(), 3);
    put_one(catalog, "a", "2", "two and more").await;
    assert_eq!(must(catalog.clusters().await).len(), 2);
    assert_eq!(pending(catalog).await, [], "those that stay keep their cluster");
    commit(catalog, remove(&[three.1])).await;
    assert_eq!(must(catalog.clusters().await), [], "a cluster of one is none");
    assert_eq!(pending(catalog).await, [(one.0, one.0.into())]);
    // It has left the clusters of the run before as well.
    must(catalog.revert(second.id).await);
    assert_eq!(must(catalog.describe().await).cluster_run, Some(first.id));
    assert_eq!(must(catalog.clusters().await), []);
    // Back again, it is in no cluster until a run finds it.
    put_one(catalog, "b", "3", "three").await;
    assert_eq!(must(catalog.clusters_of(&[three.0]).await), [three.0.into()]);
}

pub(super) async fn old_runs_are_forgotten(catalog: &dyn Catalog) {
    let [one, two, _] = three(catalog).await;
    for n in 0..KEPT_RUNS + 3 {
        must(catalog.mark(run(n as u32, &[&[one, two]])).await);
    }
    let runs = must(catalog.runs().await);
    assert_eq!(runs.len(), KEPT_RUNS);
    assert!(runs.is_sorted_by(|newer, older| newer.id > older.id));
    assert_eq!(must(catalog.describe().await).cluster_run, runs.first().map(|run| run.id));
    assert_eq!(must(catalog.clusters().await).len(), 2);
}

pub(super) async fn sketches_go_with_their_document(catalog: &dyn Catalog) {
    let leaves = three(catalog).await;
    let sketch = |n: u8| StoredSketch {
        leaf: leaves[n as usize].0,
        doc: leaves[n as usize].1,
        words: [n; 16],
        sketch: vec![n; n as usize],
        compared: false,
    };
    must(catalog.sketch(&[sketch(0), sketch(1), sketch(2)]).await);
    let known = async |rule: &str| {
        let sketches = must(catalog.sketches(rule).await);
        assert!(sketches.is_sorted_by_key(|sketch| sketch.leaf));
        sketches.iter().map(|sketch| (sketch.words[0], sketch.compared)).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(known("near").await, BTreeMap::from([(0, false), (1, false), (2, false)]));
    let pair = |a, b, similarity| StoredPair { a: [a; 16], b: [b; 16], similarity };
    must(catalog.compared("near", &[pair(0, 1, 0.5), pair(1, 2, 0.75)]).await);
    assert_eq!(known("near").await, BTreeMap::from([(0, true), (1, true), (2, true)]));
    assert_eq!(known("other").await, BTreeMap::from([(0, false), (1, false), (2, false)]));
    assert_eq!(must(catalog.pairs("near").await), [pair(0, 1, 0.5), pair(1, 2, 0.75)]);
    assert_eq!(must(catalog.pairs("other").await), []);
    // A document that is put again is to be sketched and compared again, even if it is the same.
    put_one(catalog, "a", "2", "two").await;
    commit(catalog, remove(&[leaves[2].1])).await;
    assert_eq!(known("near").await, BTreeMap::from([(0, true)]));
    must(catalog.sketch(&[sketch(1)]).await);
    assert_eq!(known("near").await, BTreeMap::from([(0, true), (1, false)]));
    must(catalog.compared("near", &[pair(0, 1, 0.25)]).await);
    assert_eq!(must(catalog.pairs("near").await), [pair(0, 1, 0.25)]);
    must(catalog.compared("other", &[pair(0, 1, 1.0)]).await);
    assert_eq!(must(catalog.pairs("near").await), []);
    assert_eq!(must(catalog.pairs("other").await), [pair(0, 1, 1.0)]);
    assert_eq!(known("other").await, BTreeMap::from([(0, true), (1, true)]));
}

/// The cluster and the document of each leaf that is in one.
type Members = BTreeMap<LeafId, (ClusterId, DocId)>;

/// What a catalog is to show of its clusters after some calls.
#[derive(Default)]
pub(super) struct ClustersModel {
    /// Oldest first.
    runs: Vec<(ClusterRun, Members)>,
    pending: BTreeSet<LeafId>,
    newest: u64,
}

impl ClustersModel {
    /// The run in effect.
    pub(super) fn run(&self) -> Option<RunId> {
        self.in_effect().map(|(run, _)| run.id)
    }

    fn in_effect(&self) -> Option<&(ClusterRun, Members)> {
        self.runs.iter().rev().find(|(run, _)| !run.reverted)
    }

    fn members(&self) -> Members {
        self.in_effect().map(|(_, members)| members.clone()).unwrap_or_default()
    }

    /// What the index lacks.
    pub(super) fn pending(&self) -> Vec<(LeafId, ClusterId)> {
        let members = self.members();
        let cluster = |leaf: LeafId| members.get(&leaf).map_or_else(|| leaf.into(), |&(of, _)| of);
        self.pending.iter().map(|&leaf| (leaf, cluster(leaf))).collect()
    }

    /// What is shown.
    pub(super) fn shown(&self) -> Clusters {
        let members = self.members().into_iter();
        let mut members: Vec<_> =
            members.map(|(leaf, (cluster, doc))| (cluster, leaf, doc)).collect();
        members.sort_unstable();
        Clusters { runs: self.runs.iter().rev().map(|(run, _)| run.clone()).collect(), members }
    }

    fn owe(&mut self, before: &Members) {
        let after = self.members();
        let differs =
            |leaf: &&LeafId| before.get(leaf).map(|m| m.0) != after.get(leaf).map(|m| m.0);
        self.pending.extend(before.keys().chain(after.keys()).filter(differs));
    }

    /// These clusters are in the index.
    pub(super) fn settle(&mut self, clusters: &[(LeafId, ClusterId)]) {
        for (leaf, _) in clusters {
            assert!(self.pending.remove(leaf), "it was pending");
        }
    }

    /// Puts some of these leaves into clusters.
    pub(super) async fn mark(
        &mut self,
        catalog: &dyn Catalog,
        leaves: Vec<(LeafId, DocId)>,
        random: &mut Random,
    ) {
        let mut clusters: BTreeMap<ClusterId, Vec<(LeafId, DocId)>> = BTreeMap::new();
        for leaf in leaves {
            let n = random.below(5) as u8;
            if n > 0 {
                clusters.entry(ClusterId([n; 16])).or_default().push(leaf);
            }
        }
        clusters.retain(|_, members| members.len() > 1);
        let new = NewRun {
            method: "{}".to_owned(),
            at: 7,
            leaves: 3,
            clusters: clusters.clone().into_iter().collect(),
        };
        let run = must(catalog.mark(new).await);
        assert!(run.id.0 > self.newest, "a number is never used again");
        self.newest = run.id.0;
        let before = self.members();
        let members = clusters.into_iter().flat_map(|(cluster, members)| {
            members.into_iter().map(move |(leaf, doc)| (leaf, (cluster, doc)))
        });
        self.runs.push((run, members.collect()));
        self.owe(&before);
        let n_forgotten = self.runs.len().saturating_sub(KEPT_RUNS);
        self.runs.drain(..n_forgotten);
    }

    /// Reverts a run, or one that is not there.
    pub(super) async fn revert(&mut self, catalog: &dyn Catalog, random: &mut Random) {
        let id = RunId(random.below(self.newest as usize + 2) as u64);
        let before = self.members();
        let run = self.runs.iter_mut().find(|(run, _)| run.id == id && !run.reverted);
        assert_eq!(must(catalog.revert(id).await), run.is_some(), "{id}");
        if let Some((run, _)) = run {
            run.reverted = true;
        }
        self.owe(&before);
    }

    /// These leaves are gone.
    pub(super) fn leave(&mut self, leaves: &[LeafId]) {
        let in_effect = self.run();
        for (run, members) in &mut self.runs {
            let before = members.clone();
            members.retain(|leaf, _| !leaves.contains(leaf));
            let mut sizes: BTreeMap<ClusterId, usize> = BTreeMap::new();
            for (cluster, _) in members.values() {
                *sizes.entry(*cluster).or_default() += 1;
            }
            let alone = |(cluster, _): &(ClusterId, DocId)| sizes.get(cluster) == Some(&1);
            if in_effect == Some(run.id) {
                let left = before.iter().filter(|(leaf, of)| !leaves.contains(leaf) && alone(of));
                self.pending.extend(left.map(|(leaf, _)| *leaf));
            }
            members.retain(|_, of| !alone(of));
        }
        self.pending.retain(|leaf| !leaves.contains(leaf));
    }
}
