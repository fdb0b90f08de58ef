//! Retrieved leaves → the same list with siblings replaced by their parent where enough of them were retrieved.
//!
//! Invariant: a node fires only on children that were retrieved or merged just below it; nothing is in the list twice.

use crate::collapse::Voice;
use crate::document::Library;
use crate::hit::Scores;
use crate::id::{ClusterId, DocId, LeafId};
use crate::span::Span;
use crate::tree::NodeKind;
use std::collections::{BTreeMap, BTreeSet};

/// When siblings are merged.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeConfig {
    /// Whether anything is merged at all.
    pub enabled: bool,
    /// How many children must have been retrieved, at the least.
    pub min_siblings: usize,
    /// Which share of all children must have been retrieved, at the least: 0 to 1.
    pub ratio: f64,
    /// Larger nodes are not merged.
    pub max_merge_tokens: usize,
    /// Whether the root may fire.
    pub merge_root: bool,
}

impl Default for MergeConfig {
    fn default() -> MergeConfig {
        MergeConfig {
            enabled: true,
            min_siblings: 2,
            ratio: 0.5,
            max_merge_tokens: 800,
            merge_root: true,
        }
    }
}

/// The smallest number of matched children that fires a node with so many children: at least `min_siblings`, and a share of at
/// least `ratio`. It may be more than there are children: then the rule cannot fire.
pub fn need(children: usize, min_siblings: usize, ratio: f64) -> usize {
    let share = (0..=children).find(|&matched| meets_ratio(matched, children, ratio));
    share.unwrap_or(children + 1).max(min_siblings)
}

/// Whether the rule can fire at all for a node with so many children, in a list of `depth`.
pub fn satisfiable(children: usize, min_siblings: usize, ratio: f64, depth: usize) -> bool {
    need(children, min_siblings, ratio) <= children.min(depth)
}

/// Which share of a list of `depth` one parent must take before it fires: `need / depth`. Above 1 it cannot fire.
pub fn share_of_list(children: usize, min_siblings: usize, ratio: f64, depth: usize) -> f64 {
    need(children, min_siblings, ratio) as f64 / depth as f64
}

fn meets_ratio(matched: usize, children: usize, ratio: f64) -> bool {
    matched as f64 / children as f64 >= ratio
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
}

impl Share {
    /// `matched / of`.
    pub fn ratio(&self) -> f64 {
        self.matched as f64 / self.of as f64
    }
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
    /// The fired node above that took this one in.
    pub absorbed_by: Option<NodeRef>,
}

/// Why a node that met both conditions was not merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockedBy {
    /// Larger than `max_merge_tokens`.
    MaxMergeTokens,
    /// Larger than the whole budget.
    Budget,
    /// The root, and `merge_root` is off.
    Root,
    /// The catalog has no such node.
    ParentMissing,
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
}

/// One child that counts for the node above it.
#[derive(Debug, Clone, Copy)]
struct Child {
    node: u32,
    tokens: usize,
}

/// Merges bottom-up over the levels of each document's tree.
///
/// `voices` are in rank order. A merged node stands at the rank of its best evidence and takes in every leaf below it.
pub fn merge(
    voices: &[Voice],
    library: &Library<'_>,
    config: &MergeConfig,
    budget_tokens: usize,
) -> (Vec<Item>, MergeTrace) {
    let mut trace = MergeTrace::default();
    let mut fired: BTreeSet<NodeRef> = BTreeSet::new();
    if config.enabled {
        for (level, nodes) in by_level(voices).iter().rev() {
            for (&node, &of) in nodes {
                let children = matched_children(voices, library, &fired, node);
                let share =
                    Share { matched: children.len(), of: of as usize, ..describe(library, node) };
                if let Some(fire) =
                    judge(share, &children, *level == 0, library, config, budget_tokens, &mut trace)
                {
                    fired.insert(node);
                    trace.fires.push(fire);
                }
            }
        }
    }
    let absorbers: Vec<Option<NodeRef>> = trace
        .fires
        .iter()
        .map(|fire| above(library, fire.share.node).rev().find(|node| fired.contains(node)))
        .collect();
    for (fire, absorber) in trace.fires.iter_mut().zip(absorbers) {
        fire.absorbed_by = absorber;
    }
    (replace(voices, library, &fired), trace)
}

/// The nodes above the retrieved leaves with their numbers of children, by depth, the root at 0.
fn by_level(voices: &[Voice]) -> BTreeMap<usize, BTreeMap<NodeRef, u32>> {
    let mut levels: BTreeMap<usize, BTreeMap<NodeRef, u32>> = BTreeMap::new();
    for voice in voices {
        let record = &voice.hit.record;
        for (depth, ancestor) in record.ancestors.iter().rev().enumerate() {
            let node = NodeRef { doc: record.doc, node: ancestor.node };
            levels.entry(depth).or_default().insert(node, ancestor.children);
        }
    }
    levels
}

/// The distinct children of a node that were retrieved, or that fired just below it.
fn matched_children(
    voices: &[Voice],
    library: &Library<'_>,
    fired: &BTreeSet<NodeRef>,
    node: NodeRef,
) -> Vec<Child> {
    let mut children: BTreeMap<u32, usize> = BTreeMap::new();
    for record in
        voices.iter().map(|voice| &voice.hit.record).filter(|record| record.doc == node.doc)
    {
        let Some(at) = record.ancestors.iter().position(|ancestor| ancestor.node == node.node)
        else {
            continue;
        };
        match at.checked_sub(1).and_then(|below| record.ancestors.get(below)) {
            None => {
                children.insert(record.node, record.tokens as usize);
            }
            Some(below) if fired.contains(&NodeRef { doc: node.doc, node: below.node }) => {
                let tokens = library
                    .get(&node.doc)
                    .and_then(|d| d.tree.node(below.node))
                    .map_or(0, |n| n.tokens);
                children.insert(below.node, tokens as usize);
            }
            Some(_) => {}
        }
    }
    children.into_iter().map(|(node, tokens)| Child { node, tokens }).collect()
}

fn describe(library: &Library<'_>, node: NodeRef) -> Share {
    let found = library.get(&node.doc).and_then(|document| document.tree.node(node.node));
    Share { node, kind: found.map(|n| n.kind), span: found.map(|n| n.span), matched: 0, of: 0 }
}

/// Applies the rule to one node and records what it decided.
fn judge(
    share: Share,
    children: &[Child],
    is_root: bool,
    library: &Library<'_>,
    config: &MergeConfig,
    budget_tokens: usize,
    trace: &mut MergeTrace,
) -> Option<Fire> {
    let enough = share.matched >= config.min_siblings && share.matched > 0;
    let proportionate = meets_ratio(share.matched, share.of, config.ratio);
    if !(enough && proportionate) {
        if (enough || proportionate) && share.matched >= 2 {
            trace.near_misses.push(share);
        }
        return None;
    }
    let node = library
        .get(&share.node.doc)
        .and_then(|document| document.tree.node(share.node.node))
        .filter(|node| children.iter().all(|child| node.children.contains(&child.node)));
    let blocked = match node {
        None => Some(BlockedBy::ParentMissing),
        Some(_) if is_root && !config.merge_root => Some(BlockedBy::Root),
        Some(node) if node.tokens as usize > config.max_merge_tokens => {
            Some(BlockedBy::MaxMergeTokens)
        }
        Some(node) if node.tokens as usize > budget_tokens => Some(BlockedBy::Budget),
        Some(_) => None,
    };
    match (blocked, node) {
        (None, Some(node)) => Some(Fire {
            share,
            tokens_before: children.iter().map(|child| child.tokens).sum(),
            tokens_after: node.tokens as usize,
            absorbed_by: None,
        }),
        (reason, _) => {
            trace.blocked.push((share, reason.unwrap_or(BlockedBy::ParentMissing)));
            None
        }
    }
}

/// The nodes above a node, nearest first.
fn above<'a>(
    library: &'a Library<'_>,
    node: NodeRef,
) -> impl DoubleEndedIterator<Item = NodeRef> + use<'a> {
    let tree = library.get(&node.doc).map(|document| &document.tree);
    let nodes: Vec<u32> = tree.map(|tree| tree.ancestors(node.node).collect()).unwrap_or_default();
    nodes.into_iter().map(move |above| NodeRef { doc: node.doc, node: above })
}

/// The list with each leaf under a fired node replaced by the topmost one.
fn replace(voices: &[Voice], library: &Library<'_>, fired: &BTreeSet<NodeRef>) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut places: BTreeMap<NodeRef, usize> = BTreeMap::new();
    for (rank, voice) in voices.iter().enumerate() {
        let record = &voice.hit.record;
        let evidence = Evidence {
            leaf: record.leaf,
            span: record.span,
            rank,
            scores: voice.hit.scores,
            cluster: (record.cluster, voice.seen),
        };
        let chain = record.ancestors.iter().map(|a| NodeRef { doc: record.doc, node: a.node });
        let top = chain.rev().find(|node| fired.contains(node));
        let span =
            top.and_then(|node| library.get(&node.doc)?.tree.node(node.node).map(|n| n.span));
        let (Some(top), Some(span)) = (top, span) else {
            let kind = ItemKind::Leaf;
            items.push(Item {
                kind,
                doc: record.doc,
                span: record.span,
                node: record.node,
                evidence: vec![evidence],
            });
            continue;
        };
        match places.get(&top).and_then(|&place| items.get_mut(place)) {
            Some(item) => item.evidence.push(evidence),
            None => {
                places.insert(top, items.len());
                items.push(Item {
                    kind: ItemKind::Merged,
                    doc: top.doc,
                    span,
                    node: top.node,
                    evidence: vec![evidence],
                });
            }
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::hit::{Ancestor, Hit, LeafRecord};
    use crate::offsets::Offsets;
    use crate::tree::{Leaf, Node, Tree};

    /// A document of nested nodes, as `a(b(c d) e)`: each leaf has ten tokens and ten bytes.
    fn nested(text: &str) -> (Document, Vec<char>) {
        let mut tree = Tree::default();
        let mut names = Vec::new();
        let mut open: Vec<u32> = Vec::new();
        let letters: Vec<char> = text.chars().collect();
        for (at, &letter) in letters.iter().enumerate() {
            match letter {
                '(' => open.push(tree.nodes.len() as u32 - 1),
                ')' => {
                    open.pop();
                }
                ' ' => {}
                name => {
                    let index = tree.nodes.len() as u32;
                    let is_leaf = letters.get(at + 1) != Some(&'(');
                    let start = 10 * tree.leaves.len();
                    let span = Span::new(start, start + 10);
                    let kind = if is_leaf { NodeKind::Leaf } else { NodeKind::Section };
                    let parent = open.last().copied();
                    tree.nodes.push(Node {
                        kind,
                        span,
                        tokens: 10,
                        parent,
                        children: Vec::new(),
                        path: Vec::new(),
                    });
                    if let Some(parent) = parent {
                        tree.nodes[parent as usize].children.push(index);
                    }
                    names.push(name);
                    if is_leaf {
                        tree.leaves.push(Leaf {
                            span,
                            tokens: 10,
                            node: index,
                            path: Vec::new(),
                            embedded_headings: 0,
                            prefix: Vec::new(),
                            top_level: None,
                            has_body: true,
                        });
                        for &above in &open {
                            let node = &mut tree.nodes[above as usize];
                            node.span = node.span.hull(span);
                            node.tokens = node.span.len() as u32;
                        }
                    }
                }
            }
        }
        tree.nodes[0].kind = NodeKind::Root;
        let text = "x".repeat(10 * tree.leaves.len());
        let body = Span::new(0, text.len());
        let document = Document {
            text,
            body,
            title: String::new(),
            tree,
            offsets: Offsets::default(),
            anchors: Vec::new(),
            warnings: Vec::new(),
        };
        (document, names)
    }

    /// The hits, by the names of their leaves, best first.
    fn voices(document: &Document, names: &[char], found: &str) -> Vec<Voice> {
        let voice = |(rank, name): (usize, char)| {
            let node = names.iter().position(|&other| other == name).unwrap() as u32;
            let tree = &document.tree;
            let id = LeafId([node as u8; 16]);
            let ancestors = tree.ancestors(node).map(|above| {
                let children = tree.nodes[above as usize].children.len() as u32;
                Ancestor { node: above, children }
            });
            let record = LeafRecord {
                leaf: id,
                doc: DocId(0),
                span: tree.nodes[node as usize].span,
                ordinal: 0,
                tokens: 10,
                node,
                ancestors: ancestors.collect(),
                cluster: id.into(),
            };
            let scores = Scores { fused: 1.0 / (rank as f32 + 1.0), ..Scores::default() };
            Voice { hit: Hit { record, scores }, seen: 1 }
        };
        found.chars().enumerate().map(voice).collect()
    }

    /// The list after merging, and what fired, nearly fired and was blocked, as names.
    fn run(
        text: &str,
        found: &str,
        config: &MergeConfig,
        budget_tokens: usize,
    ) -> (String, String) {
        let (document, names) = nested(text);
        let library: Library<'_> = [(DocId(0), &document)].into_iter().collect();
        let voices = voices(&document, &names, found);
        let (items, trace) = merge(&voices, &library, config, budget_tokens);
        let name = |node: u32| names[node as usize].to_string();
        let list = items.iter().map(|item| name(item.node)).collect();
        let mut log: Vec<String> = trace
            .fires
            .iter()
            .map(|fire| match fire.absorbed_by {
                Some(above) => format!("{}<{}", name(fire.share.node.node), name(above.node)),
                None => name(fire.share.node.node),
            })
            .collect();
        log.extend(trace.near_misses.iter().map(|share| format!("{}?", name(share.node.node))));
        log.extend(
            trace
                .blocked
                .iter()
                .map(|(share, reason)| format!("{}!{reason:?}", name(share.node.node))),
        );
        (list, log.join(" "))
    }

    #[track_caller]
    fn check(text: &str, found: &str, list: &str, log: &str) {
        assert_eq!(
            run(text, found, &MergeConfig::default(), 1000),
            (list.to_owned(), log.to_owned())
        );
    }

    #[test]
    fn a_parent_replaces_its_children_when_enough_of_them_hit() {
        check("r(a(b c d) e(f g h) i)", "bc", "a", "a");
        check("r(a(b c d) e(f g h) i)", "bf", "bf", "");
        check("r(a(b c d e f) g h)", "bc", "bc", "a?");
    }

    #[test]
    fn a_merged_node_stands_at_the_rank_of_its_best_evidence() {
        check("r(a(b c) d(e f g) h i)", "ecb", "ea", "a");
        check("r(a(b c) d(e f g) h i)", "ceb", "ae", "a");
    }

    #[test]
    fn merging_goes_up_level_by_level() {
        check("r(a(b(c d) e(f g)) h(i j k) l m)", "cdfg", "a", "b<a e<a a");
        check("r(a(b(c d) e(f g)) h(i j k) l m)", "cdf", "bf", "b");
    }

    #[test]
    fn nothing_that_was_not_retrieved_counts() {
        // One child of `a` fired, the other was not retrieved: one of two is no evidence for `a`.
        check("r(a(b(c d) e) h i j)", "cd", "b", "b");
        check("r(a(b(c d) e) h i j)", "cde", "a", "b<a a");
    }

    #[test]
    fn two_children_of_one_parent_give_one_parent() {
        let config = MergeConfig { ratio: 0.0, ..MergeConfig::default() };
        let (list, log) = run("r(a(b c d e f g h) i(j k))", "bcj", &config, 1000);
        assert_eq!((list.as_str(), log.as_str()), ("aj", "a"));
    }

    #[test]
    fn what_is_too_large_is_blocked_with_the_reason() {
        let capped = MergeConfig { max_merge_tokens: 25, ..MergeConfig::default() };
        assert_eq!(run("r(a(b c d) e f g h)", "bc", &capped, 1000).1, "a!MaxMergeTokens");
        assert_eq!(run("r(a(b c d) e f g h)", "bc", &MergeConfig::default(), 25).1, "a!Budget");
        let protected = MergeConfig { merge_root: false, ..MergeConfig::default() };
        assert_eq!(run("r(a b)", "ab", &protected, 1000), ("ab".to_owned(), "r!Root".to_owned()));
        assert_eq!(run("r(a b)", "ab", &MergeConfig::default(), 1000).0, "r");
        let off = MergeConfig { enabled: false, ..MergeConfig::default() };
        assert_eq!(run("r(a b)", "ab", &off, 1000), ("ab".to_owned(), String::new()));
    }

    #[test]
    fn no_hits_give_an_empty_list() {
        check("r(a b)", "", "", "");
    }
}
