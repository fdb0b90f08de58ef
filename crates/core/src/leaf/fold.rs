//! Drafts → the tree, in which no inner node has exactly one child.
//!
//! Invariant: each node comes before its children, and its span is the hull of theirs.

use super::absorb::Section;
use super::draft::Draft;
use super::fit::Builder;
use crate::outline::BlockKind;
use crate::span::{Span, SpanSet};
use crate::tree::{Leaf, Node, NodeKind, Tree};

impl Builder<'_> {
    pub(super) fn assemble(&self, drafts: Vec<Draft>) -> Tree {
        let outline = self.source.outline;
        let mut tree = Tree { headings: outline.headings.clone(), ..Tree::default() };
        if !drafts.is_empty() {
            let root =
                fold(Draft::Inner { kind: NodeKind::Root, path: Vec::new(), children: drafts });
            self.place(root, None, true, &mut tree);
        }
        for leaf in &tree.leaves {
            if let Some(top) = leaf.top_level {
                match tree.top_level.get_mut(top as usize) {
                    Some(span) => *span = span.hull(leaf.span),
                    None => tree.top_level.push(leaf.span),
                }
            }
        }
        let covered: SpanSet = tree.leaves.iter().map(|leaf| leaf.span).collect();
        let rules =
            outline.blocks.iter().filter(|b| b.kind == BlockKind::Rule && !covered.covers(b.span));
        tree.dropped_rules = rules.map(|b| b.span).collect();
        tree.unmerged_tokens = self.unmerged();
        tree
    }

    /// Adds a draft and all below it to the tree, and returns its index and span.
    fn place(
        &self,
        draft: Draft,
        parent: Option<u32>,
        is_root: bool,
        tree: &mut Tree,
    ) -> (u32, Span) {
        let at = tree.nodes.len() as u32;
        let (kind, path, span) = match &draft {
            Draft::Leaf(leaf) => (NodeKind::Leaf, leaf.path.clone(), leaf.span),
            Draft::Inner { kind, path, .. } => {
                let kind = if is_root { NodeKind::Root } else { *kind };
                (kind, path.clone(), draft.hull().unwrap_or_default())
            }
        };
        let tokens = self.tokens.size(span) as u32;
        tree.nodes.push(Node { kind, span, tokens, parent, children: Vec::new(), path });
        match draft {
            Draft::Leaf(leaf) => tree.leaves.push(Leaf {
                span,
                tokens,
                node: at,
                has_body: leaf.cut || self.has_body(span),
                path: leaf.path,
                embedded_headings: leaf.embedded_headings,
                prefix: leaf.prefix,
                top_level: leaf.top_level,
            }),
            Draft::Inner { children, .. } => {
                let children = children
                    .into_iter()
                    .map(|child| self.place(child, Some(at), false, tree).0)
                    .collect();
                if let Some(node) = tree.nodes.get_mut(at as usize) {
                    node.children = children;
                }
            }
        }
        (at, span)
    }

    fn has_body(&self, span: Span) -> bool {
        let blocks = &self.source.outline.blocks;
        let from = blocks.partition_point(|b| b.span.end <= span.start);
        blocks.iter().skip(from).take_while(|b| b.span.start < span.end).any(|b| b.kind.is_body())
    }

    /// Sizes of the chunks that splitting at every heading would give.
    fn unmerged(&self) -> Vec<u32> {
        let blocks = |section: &Section| {
            self.source.outline.blocks.get(section.blocks.clone()).unwrap_or_default()
        };
        let spans = self
            .sections
            .iter()
            .filter_map(|s| blocks(s).iter().map(|b| b.span).reduce(Span::hull));
        spans.map(|span| self.tokens.size(span) as u32).collect()
    }
}

/// Makes a node with exactly one child and that child one node: the outer span, the inner path.
fn fold(draft: Draft) -> Draft {
    match draft {
        Draft::Leaf(_) => draft,
        Draft::Inner { kind, path, children } => {
            let mut children: Vec<Draft> = children.into_iter().map(fold).collect();
            match children.pop() {
                Some(only) if children.is_empty() => only,
                last => {
                    children.extend(last);
                    Draft::Inner { kind, path, children }
                }
            }
        }
    }
}
