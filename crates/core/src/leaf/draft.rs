//! Leaves and nodes before they have a place in the tree.
//!
//! Invariant: drafts are in document order.

use crate::span::Span;
use crate::tree::NodeKind;

/// A leaf before it has a place in the tree.
#[derive(Debug, Clone)]
pub(super) struct LeafDraft {
    pub(super) span: Span,
    pub(super) prefix: Vec<Span>,
    pub(super) path: Vec<u32>,
    pub(super) embedded_headings: u32,
    pub(super) top_level: Option<u32>,
    pub(super) cut: bool,
}

impl LeafDraft {
    /// Text that was not cut, above the top level.
    pub(super) fn whole(span: Span, path: &[u32], embedded_headings: u32) -> LeafDraft {
        LeafDraft {
            span,
            prefix: Vec::new(),
            path: path.to_vec(),
            embedded_headings,
            top_level: None,
            cut: false,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum Draft {
    Leaf(LeafDraft),
    Inner { kind: NodeKind, path: Vec<u32>, children: Vec<Draft> },
}

impl Draft {
    pub(super) fn hull(&self) -> Option<Span> {
        match self {
            Draft::Leaf(leaf) => Some(leaf.span),
            Draft::Inner { children, .. } => {
                children.iter().filter_map(Draft::hull).reduce(Span::hull)
            }
        }
    }
}
