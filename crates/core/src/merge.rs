//! Retrieved leaves → the same list with siblings replaced by their parent where enough of them were retrieved.
//!
//! Invariant: a node fires only on children that were retrieved or merged just below it; nothing is in the list twice.

mod budget;
mod grove;
mod ratio;
mod satisfy;

use crate::collapse::{Collapsed, Voice};
use crate::document::Library;
use crate::hit::{Hit, Scores};
use crate::id::{ClusterId, DocId, LeafId};
use crate::span::Span;
use crate::tree::NodeKind;
use grove::Grove;
use std::collections::BTreeMap;

pub use satisfy::{Satisfiability, need, satisfiable, share_of_list};

/// When siblings are merged.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeConfig {
    /// Whether anything is merged at all.
    pub enabled: bool,
    /// What share of a node must have been retrieved.
    pub rule: Rule,
    /// How many children must have been retrieved, at the least.
    pub min_siblings: usize,
    /// Larger nodes are not merged.
    pub max_merge_tokens: usize,
    /// Whether the root may fire.
    pub merge_root: bool,
}

/// What share of a node must have been retrieved before it replaces its children.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// A fixed share, decided level by level from the leaves up.
    Ratio {
        /// The share, at the least: 0 to 1.
        ratio: f64,
        /// What it is a share of.
        by: RatioBy,
    },
    /// A share of the node's tokens that grows as the budget fills, from a base to twice that; decided in rank order, and only
    /// for nodes that still fit.
    ///
    /// Source: Lu et al., HiChunk, arXiv 2509.11552, 2025, whose base is 1/3 everywhere. That of flat text is ours: what stands
    /// under one heading is about one thing, what stands under none is held together by its place alone.
    Budget {
        /// The share while nothing is used, for a section and what lies in one: 0 to 1.
        base: f64,
        /// The same for the whole document, and for parts of a text without sections.
        flat_base: f64,
    },
}

/// What a share of a node is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RatioBy {
    /// Its children.
    Children,
    /// Its budget tokens.
    Tokens,
}

impl Default for MergeConfig {
    fn default() -> MergeConfig {
        MergeConfig {
            enabled: true,
            rule: Rule::Ratio { ratio: 0.5, by: RatioBy::Children },
            min_siblings: 2,
            max_merge_tokens: 800,
            merge_root: true,
        }
    }
}

/// A leaf that was retrieved, as evidence for what is delivered.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The leaf.
    pub leaf: LeafId,
    /// Its bytes.
    pub span: Span,
    /// Its place in the ranked list, from 0.
    pub rank: usize,
    /// Its scores.
    pub scores: Scores,
    /// Its cluster, and how many members the list held.
    pub cluster: (ClusterId, usize),
    /// What the cluster is ranked by: above the leaf's own score where a better member does not speak.
    pub cluster_score: f32,
}

/// What an item of the list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ItemKind {
    /// A retrieved leaf.
    Leaf,
    /// A node that replaced its retrieved children.
    Merged,
    /// The node above a retrieved leaf.
    Parent,
    /// A retrieved leaf with the leaves beside it.
    Siblings,
    /// A retrieved leaf with the sentences or tokens around it.
    Window,
    /// A window of a node, or its evidence only, because the whole was too large.
    Cropped,
}

/// Something to deliver: a span, and the evidence for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// What it is.
    pub kind: ItemKind,
    /// The document.
    pub doc: DocId,
    /// The bytes to deliver.
    pub span: Span,
    /// The tree node that the span is, or is cut from.
    pub node: u32,
    /// The retrieved leaves in it, best first; never empty.
    pub evidence: Vec<Evidence>,
}

impl Item {
    /// Its place in the ranked list: that of its best evidence.
    pub fn rank(&self) -> usize {
        self.evidence.iter().map(|e| e.rank).min().unwrap_or(usize::MAX)
    }

    /// Its score: the greatest of its evidence.
    pub fn score(&self) -> f32 {
        self.evidence.iter().map(|e| e.scores.final_score()).fold(f32::NEG_INFINITY, f32::max)
    }
}

/// A node of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeRef {
    /// The document.
    pub doc: DocId,
    /// The index in its tree.
    pub node: u32,
}

/// What the rule saw of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// The node.
    pub node: NodeRef,
    /// What it is; `None` where the catalog lacks it.
    pub kind: Option<NodeKind>,
    /// Its bytes; `None` where the catalog lacks it.
    pub span: Option<Span>,
    /// Children that were retrieved, or merged just below.
    pub matched: usize,
    /// Children in all.
    pub of: usize,
    /// What the rule counts shares in.
    pub by: RatioBy,
    /// The share that was retrieved, 0 to 1.
    pub ratio: f64,
    /// The share that the rule wanted, 0 and up.
    pub wanted: f64,
}

/// A node that fired.
#[derive(Debug, Clone, PartialEq)]
pub struct Fire {
    /// What the rule saw.
    pub share: Share,
    /// Tokens of the matched children.
    pub tokens_before: usize,
    /// Tokens of the node.
    pub tokens_after: usize,
    /// The topmost fired node above that took this one in.
    pub absorbed_by: Option<NodeRef>,
}

/// Why a node that met both conditions was not merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockedBy {
    /// Larger than `max_merge_tokens`.
    MaxMergeTokens,
    /// Larger than the budget, or, for the budget rule, than what is left of it.
    Budget,
    /// The root, and `merge_root` is off.
    Root,
    /// The catalog has no such node.
    ParentMissing,
    /// Another document holds the same clusters, and its node fired.
    Rival,
}

/// What merging did, and nearly did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MergeTrace {
    /// Every node that fired, the topmost ones with `absorbed_by: None`.
    pub fires: Vec<Fire>,
    /// Nodes with at least two matched children that met one condition and missed the other.
    pub near_misses: Vec<Share>,
    /// Nodes that met both conditions and were not merged.
    pub blocked: Vec<(Share, BlockedBy)>,
    /// Whether any node above the list could have fired, had more of its children been retrieved.
    pub could_fire: bool,
}

/// What a rule decided, by node: a later decision on a node replaces an earlier one.
#[derive(Debug, Default)]
struct Record {
    fires: Vec<Fire>,
    near_misses: BTreeMap<NodeRef, Share>,
    blocked: BTreeMap<NodeRef, (Share, BlockedBy)>,
}

impl Record {
    fn forget(&mut self, node: NodeRef) {
        self.near_misses.remove(&node);
        self.blocked.remove(&node);
    }

    fn note(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Fire(fire) => {
                self.forget(fire.share.node);
                self.fires.push(fire);
            }
            Verdict::Nearly(share) => {
                self.forget(share.node);
                self.near_misses.insert(share.node, share);
            }
            Verdict::Blocked(share, reason) => {
                self.forget(share.node);
                self.blocked.insert(share.node, (share, reason));
            }
            Verdict::No => {}
        }
    }
}

/// What a rule says of one node.
#[derive(Debug)]
enum Verdict {
    Fire(Fire),
    Nearly(Share),
    Blocked(Share, BlockedBy),
    No,
}

/// Merges retrieved leaves into the nodes above them.
///
/// The list is in rank order, `depth` clusters were asked for. A merged node stands at the rank of its best evidence and takes in every leaf below it. A child
/// counts as retrieved if a fetched member of a cluster of the list is that child; a node that fires takes the clusters it
/// counted out of the list, in whatever document they speak. Of nodes that count the same clusters one fires: that with most
/// speakers, then that of the document that stands highest, then that with the best score, then that of the smallest id.
pub fn merge(
    list: &Collapsed,
    library: &Library<'_>,
    config: &MergeConfig,
    depth: usize,
    budget_tokens: usize,
) -> (Vec<Item>, MergeTrace) {
    let mut grove = Grove::new(list, library);
    let mut record = Record::default();
    if config.enabled {
        match config.rule {
            Rule::Ratio { ratio, by } => {
                ratio::decide(&mut grove, config, ratio, by, budget_tokens, &mut record);
            }
            Rule::Budget { base, flat_base } => {
                let base = |is_flat: bool| if is_flat { flat_base } else { base };
                budget::decide(&mut grove, config, base, budget_tokens, &mut record);
            }
        }
    }
    for fire in &mut record.fires {
        fire.absorbed_by = grove.topmost_above(fire.share.node);
    }
    let trace = MergeTrace {
        fires: record.fires,
        near_misses: record.near_misses.into_values().collect(),
        blocked: record.blocked.into_values().collect(),
        could_fire: grove.could_fire(config, depth, budget_tokens),
    };
    (items(&list.voices, &grove), trace)
}

/// The list with each voice that a node took in replaced by that node.
fn items(voices: &[Voice], grove: &Grove<'_>) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut places: BTreeMap<NodeRef, usize> = BTreeMap::new();
    for (rank, voice) in voices.iter().enumerate() {
        let evidence = |hit: &Hit| Evidence {
            leaf: hit.record.leaf,
            span: hit.record.span,
            rank,
            scores: hit.scores,
            cluster: (hit.record.cluster, voice.seen()),
            cluster_score: voice.score,
        };
        let merged = grove.owner(rank).and_then(|node| Some((node, grove.span(node)?)));
        let Some((node, span)) = merged else {
            let record = &voice.hit.record;
            items.push(Item {
                kind: ItemKind::Leaf,
                doc: record.doc,
                span: record.span,
                node: record.node,
                evidence: vec![evidence(&voice.hit)],
            });
            continue;
        };
        let member = voice.members().find(|hit| grove::is_below(hit, node)).unwrap_or(&voice.hit);
        match places.get(&node).and_then(|&place| items.get_mut(place)) {
            Some(item) => item.evidence.push(evidence(member)),
            None => {
                places.insert(node, items.len());
                items.push(Item {
                    kind: ItemKind::Merged,
                    doc: node.doc,
                    span,
                    node: node.node,
                    evidence: vec![evidence(member)],
                });
            }
        }
    }
    items
}

#[cfg(test)]
mod tests;
