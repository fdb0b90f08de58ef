//! The nodes of one document: root, sections, parts and leaves, as spans that contain each other.
//!
//! Invariant: a node's span is the hull of its leaves; children are in document order and lie in their parent; no inner
//! node has exactly one child.

use crate::span::Span;
use serde::{Deserialize, Serialize};

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NodeKind {
    /// The whole document.
    Root,
    /// A heading with what stands under it.
    Section,
    /// Consecutive leaves of one section, grouped because the section is long.
    Part,
    /// What is embedded and found.
    Leaf,
}

/// A node of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// From the first byte of its first leaf to the last byte of its last one.
    pub span: Span,
    /// Budget tokens that the span overlaps.
    pub tokens: u32,
    /// The node above; `None` for the root.
    pub parent: Option<u32>,
    /// The nodes below, in document order; empty for a leaf.
    pub children: Vec<u32>,
    /// The headings above and of this node, as indices into [`Tree::headings`], outermost first.
    pub path: Vec<u32>,
}

/// A heading of the document itself (not one inside a quote, list item or table).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heading {
    /// The heading's own bytes, markers included.
    pub span: Span,
    /// 1 to 6.
    pub level: u8,
    /// Its text without markup, blanks folded.
    pub text: String,
}

/// A leaf: what is embedded, searched and scored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaf {
    /// Its bytes; starts and ends on a non-blank one.
    pub span: Span,
    /// Budget tokens that the span overlaps, the prefix not counted.
    pub tokens: u32,
    /// Its node in [`Tree::nodes`].
    pub node: u32,
    /// The headings above it, as indices into [`Tree::headings`], outermost first.
    pub path: Vec<u32>,
    /// How many headings of the path, counted from its end, fit in what is embedded.
    pub embedded_headings: u32,
    /// Table header rows or a fence line that are shown and embedded before the leaf.
    pub prefix: Vec<Span>,
    /// The top-level section it lies in, as an index into [`Tree::top_level`]; `None` for text above the top level.
    pub top_level: Option<u32>,
    /// Whether the leaf holds text besides headings, comments and link definitions, or was cut from text too large for one leaf.
    pub has_body: bool,
}

/// The tree of one document. A document without any leaf has no node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tree {
    /// All nodes, each before its children; the first one is the root.
    pub nodes: Vec<Node>,
    /// The leaves in document order.
    pub leaves: Vec<Leaf>,
    /// The headings in document order.
    pub headings: Vec<Heading>,
    /// The spans of the top-level sections, in document order.
    pub top_level: Vec<Span>,
    /// Rules (`---`) that lie outside every leaf.
    pub dropped_rules: Vec<Span>,
    /// The sizes in tokens of the chunks that splitting at every heading would give, before merging.
    pub unmerged_tokens: Vec<u32>,
}

impl Tree {
    /// The nodes above a node, nearest first.
    pub fn ancestors(&self, node: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(self.node(node).and_then(|n| n.parent), |&at| {
            self.node(at).and_then(|n| n.parent)
        })
    }

    /// A node by its index.
    pub fn node(&self, node: u32) -> Option<&Node> {
        self.nodes.get(node as usize)
    }

    /// Whether a node neither is a section nor lies in one: the whole document, or a part of a text without sections.
    pub fn is_flat(&self, node: &Node) -> bool {
        let above = |at: u32| self.node(at).and_then(|node| node.parent);
        let mut ancestors = std::iter::successors(node.parent, |&at| above(at));
        let is_section = |at: u32| self.node(at).is_some_and(|n| n.kind == NodeKind::Section);
        node.kind != NodeKind::Section && !ancestors.any(is_section)
    }

    /// The texts of a path's headings, outermost first.
    pub fn heading_texts(&self, path: &[u32]) -> Vec<String> {
        path.iter()
            .filter_map(|&at| self.headings.get(at as usize))
            .map(|h| h.text.clone())
            .collect()
    }

    /// The leaves that overlap a span, as a range of indices into [`Tree::leaves`].
    pub fn leaves_in(&self, span: Span) -> std::ops::Range<usize> {
        let from = self.leaves.partition_point(|leaf| leaf.span.end <= span.start);
        let to = self.leaves.partition_point(|leaf| leaf.span.start < span.end);
        from..to.max(from)
    }

    /// The smallest node that contains a span; the root where none does, `None` for a tree without nodes.
    pub fn smallest_containing(&self, span: Span) -> Option<u32> {
        let mut at = 0;
        let mut node = self.nodes.first()?;
        while let Some(&child) = node
            .children
            .iter()
            .find(|&&child| self.node(child).is_some_and(|n| n.span.contains(span)))
        {
            at = child;
            node = self.node(child)?;
        }
        Some(at)
    }
}
