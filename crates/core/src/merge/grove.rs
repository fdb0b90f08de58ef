//! The nodes above the leaves of a list, and which of them has taken in which cluster.
//!
//! Invariant: the owner of a cluster is the topmost node that fired on it.

use super::{BlockedBy, Fire, MergeConfig, NodeRef, RatioBy, Share, Verdict};
use crate::collapse::{Collapsed, Standing, Voice};
use crate::document::{Document, Library};
use crate::hit::Hit;
use crate::span::SpanSet;
use crate::tree::Node;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

/// A member of a cluster somewhere below a node.
#[derive(Debug, Clone, Copy)]
struct Touch {
    /// The cluster's place in the list.
    voice: usize,
    /// The node's child that the member is, or lies under.
    child: u32,
    /// Whether the child is the member itself.
    is_leaf: bool,
    /// Tokens of the member.
    tokens: u32,
    /// Whether the member is the one that speaks.
    speaks: bool,
}

/// A node above leaves of the list.
#[derive(Debug, Default)]
struct Above {
    /// Its children in all.
    n_children: u32,
    /// Its distance from the root.
    depth: usize,
    touches: Vec<Touch>,
}

/// The children of a node that count, and what they are worth.
#[derive(Debug, Default)]
pub(super) struct Matched {
    /// The children and their tokens, each once.
    children: Vec<(u32, usize)>,
    /// The places of the clusters that they stand for, each once, in rising order.
    pub(super) voices: Vec<usize>,
    /// How many of those speak through a leaf below the node.
    pub(super) n_speakers: usize,
}

impl Matched {
    /// Tokens of the children.
    fn tokens(&self) -> usize {
        self.children.iter().map(|(_, tokens)| tokens).sum()
    }
}

/// The nodes above the leaves of a list.
pub(super) struct Grove<'a> {
    list: &'a Collapsed,
    library: &'a Library<'a>,
    nodes: BTreeMap<NodeRef, Above>,
    /// By the place in the list: the node that took the cluster in.
    owners: Vec<Option<NodeRef>>,
    fired: BTreeSet<NodeRef>,
}

/// Whether a hit lies below a node.
pub(super) fn is_below(hit: &Hit, node: NodeRef) -> bool {
    hit.record.doc == node.doc && hit.record.ancestors.iter().any(|above| above.node == node.node)
}

impl<'a> Grove<'a> {
    pub(super) fn new(list: &'a Collapsed, library: &'a Library<'a>) -> Grove<'a> {
        let mut nodes: BTreeMap<NodeRef, Above> = BTreeMap::new();
        for (voice, members) in list.voices.iter().enumerate() {
            for (member, hit) in members.members().enumerate() {
                let record = &hit.record;
                let mut child = record.node;
                for (at, ancestor) in record.ancestors.iter().enumerate() {
                    let node = NodeRef { doc: record.doc, node: ancestor.node };
                    let above = nodes.entry(node).or_default();
                    above.n_children = ancestor.children;
                    above.depth = record.ancestors.len() - 1 - at;
                    let is_leaf = at == 0;
                    let (tokens, speaks) = (record.tokens, member == 0);
                    above.touches.push(Touch { voice, child, is_leaf, tokens, speaks });
                    child = ancestor.node;
                }
            }
        }
        let owners = vec![None; list.voices.len()];
        Grove { list, library, nodes, owners, fired: BTreeSet::new() }
    }

    /// The list.
    pub(super) fn voices(&self) -> &'a [Voice] {
        &self.list.voices
    }

    /// The nodes, those furthest from their roots first.
    pub(super) fn bottom_up(&self) -> Vec<NodeRef> {
        let mut nodes: Vec<(Reverse<usize>, NodeRef)> =
            self.nodes.iter().map(|(&node, above)| (Reverse(above.depth), node)).collect();
        nodes.sort_unstable();
        nodes.into_iter().map(|(_, node)| node).collect()
    }

    /// The topmost node that took in the cluster at this place of the list.
    pub(super) fn owner(&self, voice: usize) -> Option<NodeRef> {
        self.owners.get(voice).copied().flatten()
    }

    pub(super) fn has_fired(&self, node: NodeRef) -> bool {
        self.fired.contains(&node)
    }

    fn document(&self, node: NodeRef) -> Option<&'a Document> {
        self.library.get(&node.doc).copied()
    }

    /// The node, as the catalog knows it.
    pub(super) fn node(&self, node: NodeRef) -> Option<&'a Node> {
        self.document(node)?.tree.node(node.node)
    }

    /// Whether a node lies in no section.
    pub(super) fn is_flat(&self, node: NodeRef) -> bool {
        let tree = self.document(node).map(|document| &document.tree);
        tree.is_some_and(|tree| tree.node(node.node).is_some_and(|node| tree.is_flat(node)))
    }

    /// The bytes of a node.
    pub(super) fn span(&self, node: NodeRef) -> Option<crate::span::Span> {
        self.node(node).map(|node| node.span)
    }

    /// The topmost fired node above a node.
    pub(super) fn topmost_above(&self, node: NodeRef) -> Option<NodeRef> {
        let tree = &self.document(node)?.tree;
        let above = tree.ancestors(node.node).map(|above| NodeRef { doc: node.doc, node: above });
        above.filter(|above| self.fired.contains(above)).last()
    }

    /// The children of a node that were retrieved, or that fired just below it, of the clusters that are `eligible`.
    pub(super) fn matched(&self, node: NodeRef, eligible: impl Fn(usize) -> bool) -> Matched {
        let mut matched = Matched::default();
        let touches = self.nodes.get(&node).map(|above| above.touches.as_slice());
        for touch in touches.unwrap_or_default().iter().filter(|touch| eligible(touch.voice)) {
            let child = NodeRef { doc: node.doc, node: touch.child };
            let tokens = match self.owner(touch.voice) {
                None if touch.is_leaf => touch.tokens,
                Some(owner) if owner == child => self.node(child).map_or(0, |n| n.tokens),
                _ => continue,
            };
            if matched.children.iter().all(|&(other, _)| other != touch.child) {
                matched.children.push((touch.child, tokens as usize));
            }
            // A cluster's members follow each other, the one that speaks first.
            if matched.voices.last() != Some(&touch.voice) {
                matched.voices.push(touch.voice);
                matched.n_speakers += usize::from(touch.speaks);
            }
        }
        matched
    }

    /// What share of a node the matched children are.
    pub(super) fn share(&self, node: NodeRef, matched: &Matched, by: RatioBy) -> Share {
        let of = self.nodes.get(&node).map_or(0, |above| above.n_children as usize);
        let found = self.node(node);
        let ratio = if by == RatioBy::Tokens {
            let whole = found.map_or(1, |found| found.tokens.max(1) as usize);
            self.union_tokens(node, matched) as f64 / whole as f64
        } else {
            matched.children.len() as f64 / of as f64
        };
        Share {
            node,
            kind: found.map(|n| n.kind),
            span: found.map(|n| n.span),
            matched: matched.children.len(),
            of,
            by,
            ratio: ratio.min(1.0),
            wanted: 0.0,
        }
    }

    /// The tokens that the matched children overlap together: leaves may overlap each other.
    fn union_tokens(&self, node: NodeRef, matched: &Matched) -> usize {
        let Some(document) = self.document(node) else { return 0 };
        let nodes = matched.children.iter().filter_map(|&(child, _)| document.tree.node(child));
        let union: SpanSet = nodes.map(|node| node.span).collect();
        union.spans().iter().map(|&span| document.offsets.tokens.count(span)).sum()
    }

    /// What a rule says of a node of which it wants the share `wanted`, where `room` tokens are left for it.
    pub(super) fn judge(
        &self,
        matched: &Matched,
        share: &Share,
        wanted: f64,
        config: &MergeConfig,
        room: usize,
    ) -> Verdict {
        let share = Share { wanted, ..share.clone() };
        let enough = share.matched >= config.min_siblings && share.matched > 0;
        let proportionate = share.ratio >= wanted;
        if !(enough && proportionate) {
            let nearly = (enough || proportionate) && share.matched >= 2;
            return if nearly { Verdict::Nearly(share) } else { Verdict::No };
        }
        let node = self
            .node(share.node)
            .filter(|node| matched.children.iter().all(|(child, _)| node.children.contains(child)));
        let Some(node) = node else { return Verdict::Blocked(share, BlockedBy::ParentMissing) };
        let tokens = node.tokens as usize;
        let blocked = match () {
            () if node.parent.is_none() && !config.merge_root => Some(BlockedBy::Root),
            () if tokens > config.max_merge_tokens => Some(BlockedBy::MaxMergeTokens),
            () if tokens > room => Some(BlockedBy::Budget),
            () => None,
        };
        match blocked {
            Some(reason) => Verdict::Blocked(share, reason),
            None => Verdict::Fire(Fire {
                tokens_before: matched.tokens(),
                tokens_after: tokens,
                absorbed_by: None,
                share,
            }),
        }
    }

    /// Makes a node the owner of the clusters that it counted, and of all that speak below it.
    pub(super) fn fire(&mut self, node: NodeRef, matched: &Matched) {
        let touches = self.nodes.get(&node).map(|above| above.touches.as_slice());
        let below =
            touches.unwrap_or_default().iter().filter(|touch| match self.owner(touch.voice) {
                Some(owner) => self.is_under(owner, node),
                None => touch.speaks,
            });
        let taken: Vec<usize> =
            below.map(|touch| touch.voice).chain(matched.voices.iter().copied()).collect();
        for voice in taken {
            if let Some(owner) = self.owners.get_mut(voice) {
                *owner = Some(node);
            }
        }
        self.fired.insert(node);
    }

    fn is_under(&self, node: NodeRef, above: NodeRef) -> bool {
        let tree = self.document(node).map(|document| &document.tree);
        node.doc == above.doc
            && tree.is_some_and(|tree| tree.ancestors(node.node).any(|at| at == above.node))
    }

    /// The tokens of what a node would replace, of the clusters that are `eligible`: leaves of the list, and nodes that fired.
    pub(super) fn replaced_tokens(&self, node: NodeRef, eligible: impl Fn(usize) -> bool) -> usize {
        let touches = self.nodes.get(&node).map(|above| above.touches.as_slice());
        let mut leaves: BTreeMap<usize, usize> = BTreeMap::new();
        let mut nodes: BTreeMap<NodeRef, usize> = BTreeMap::new();
        for touch in touches.unwrap_or_default().iter().filter(|touch| eligible(touch.voice)) {
            match self.owner(touch.voice) {
                None if touch.speaks || touch.is_leaf => {
                    let speaker = self.list.voices.get(touch.voice).map(|voice| &voice.hit.record);
                    leaves.insert(touch.voice, speaker.map_or(0, |record| record.tokens as usize));
                }
                Some(owner) if self.is_under(owner, node) => {
                    nodes.insert(owner, self.node(owner).map_or(0, |n| n.tokens as usize));
                }
                _ => {}
            }
        }
        leaves.values().chain(nodes.values()).sum()
    }

    /// Whether any node above the list could fire.
    pub(super) fn could_fire(
        &self,
        config: &MergeConfig,
        depth: usize,
        budget_tokens: usize,
    ) -> bool {
        self.nodes.keys().any(|&node| {
            let tree = self.document(node).map(|document| &document.tree);
            let found = tree.and_then(|tree| Some((tree, tree.node(node.node)?)));
            found.is_some_and(|(tree, node)| config.can_fire(tree, node, depth, budget_tokens))
        })
    }

    /// Whether any cluster has more than one member: only then can nodes of two documents stand for the same clusters.
    pub(super) fn has_duplicates(&self) -> bool {
        self.list.voices.iter().any(|voice| !voice.others.is_empty())
    }

    /// What decides which of the nodes that count the same clusters fires, the greatest.
    pub(super) fn strength(&self, node: NodeRef, matched: &Matched) -> Strength {
        let voices = matched.voices.iter().filter_map(|&at| self.list.voices.get(at));
        Strength {
            n_speakers: matched.n_speakers,
            standing: self.list.standings.get(&node.doc).copied().unwrap_or_default(),
            score: Score(voices.map(|voice| voice.score).fold(f32::NEG_INFINITY, f32::max)),
            node: Reverse(node),
        }
    }
}

/// What decides between nodes, in this order: speakers, the document's standing, the best score, the smallest id.
#[derive(PartialEq, PartialOrd)]
pub(super) struct Strength {
    n_speakers: usize,
    standing: Standing,
    score: Score,
    node: Reverse<NodeRef>,
}

/// A score in its total order.
#[derive(PartialEq)]
struct Score(f32);

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Score) -> Option<Ordering> {
        Some(self.0.total_cmp(&other.0))
    }
}
