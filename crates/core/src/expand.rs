//! Retrieved leaves → the larger spans around them that are worth reading.
//!
//! Invariant: an item's span contains its best evidence; a window is at most the cap and ends at sentence or block edges.

use crate::document::{Document, Library};
use crate::merge::{Item, ItemKind, NodeRef};
use crate::offsets::{at_or_after, at_or_before};
use crate::span::Span;
use crate::tree::NodeKind;

/// What a leaf that was not merged is delivered as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expansion {
    /// The leaf itself.
    #[default]
    None,
    /// The node above it, cropped around the evidence where it is over the cap.
    Parent,
}

/// A node that was cropped.
#[derive(Debug, Clone, PartialEq)]
pub struct Crop {
    /// The node.
    pub node: NodeRef,
    /// Its tokens.
    pub tokens: usize,
    /// What is left of it.
    pub window: Span,
}

/// Expands the leaves of a list; merged items stay as they are. Leaves that lie in an item before them become its evidence.
pub fn expand(
    items: Vec<Item>,
    library: &Library<'_>,
    expansion: Expansion,
    cap_tokens: usize,
) -> (Vec<Item>, Vec<Crop>) {
    let mut expanded: Vec<Item> = Vec::new();
    let mut crops = Vec::new();
    if expansion == Expansion::None {
        return (items, crops);
    }
    for (at, item) in items.iter().enumerate() {
        let document = library.get(&item.doc).copied();
        let (Some(document), ItemKind::Leaf) = (document, item.kind) else {
            expanded.push(item.clone());
            continue;
        };
        let holder = expanded.iter_mut().find(|before| {
            before.doc == item.doc
                && before.kind != ItemKind::Leaf
                && before.span.contains(item.span)
        });
        if let Some(holder) = holder {
            holder.evidence.extend(item.evidence.iter().cloned());
            continue;
        }
        let siblings = items
            .iter()
            .skip(at + 1)
            .filter(|other| other.doc == item.doc && other.kind == ItemKind::Leaf);
        let (parent, crop) = parent(item, siblings.map(|other| other.span), document, cap_tokens);
        expanded.push(parent);
        crops.extend(crop);
    }
    (expanded, crops)
}

/// The node above a leaf, or a window of it around the leaf and as many of the other matched spans as fit, best first.
fn parent(
    item: &Item,
    others: impl Iterator<Item = Span>,
    document: &Document,
    cap_tokens: usize,
) -> (Item, Option<Crop>) {
    let tree = &document.tree;
    let above = tree
        .node(item.node)
        .and_then(|node| node.parent)
        .and_then(|at| tree.node(at).map(|node| (at, node)));
    let Some((at, node)) = above else { return (item.clone(), None) };
    if node.tokens as usize <= cap_tokens {
        return (Item { kind: ItemKind::Parent, span: node.span, node: at, ..item.clone() }, None);
    }
    let above_top_level =
        tree.top_level.iter().any(|top| node.span.contains(*top) && node.span != *top);
    let mut bounds = node.span;
    if node.kind == NodeKind::Root || above_top_level {
        // The root or the title's section is too large: the leaf's top-level section stands for it.
        let leaf = tree.leaves_in(item.span).next().and_then(|at| tree.leaves.get(at));
        match leaf.and_then(|leaf| tree.top_level.get(leaf.top_level? as usize)) {
            Some(&top) if top != item.span => bounds = top,
            _ => return (item.clone(), None),
        }
    }
    let tokens = |span: Span| document.offsets.tokens.count(span);
    let matched = others.filter(|other| bounds.contains(*other)).fold(item.span, |hull, other| {
        let wider = hull.hull(other);
        if tokens(wider) <= cap_tokens { wider } else { hull }
    });
    if tokens(bounds) <= cap_tokens {
        return (Item { kind: ItemKind::Parent, span: bounds, node: at, ..item.clone() }, None);
    }
    let window = window(document, bounds, matched, cap_tokens);
    let node = NodeRef { doc: item.doc, node: at };
    let crop = Crop { node, tokens: tree.node(at).map_or(0, |n| n.tokens as usize), window };
    (Item { kind: ItemKind::Cropped, span: window, node: at, ..item.clone() }, Some(crop))
}

/// The widest window of at most `cap_tokens` inside `bounds` that has `core` in its middle, snapped inwards to sentence
/// edges. Where one side has no room, the other gets it. `core` itself where it is over the cap.
pub fn window(document: &Document, bounds: Span, core: Span, cap_tokens: usize) -> Span {
    let tokens = &document.offsets.tokens;
    let spare = cap_tokens.saturating_sub(tokens.count(core));
    let before = tokens.count(Span::new(bounds.start, core.start)).min(spare);
    let behind = tokens.count(Span::new(core.end, bounds.end.max(core.end))).min(spare);
    let half = spare / 2;
    let (left, right) = (
        half.max(spare - behind.min(spare)).min(before),
        half.max(spare - before.min(spare)).min(behind),
    );
    let start = tokens.back(core.start, left.min(spare)).max(bounds.start);
    let end = tokens.forward(core.end, right.min(spare.saturating_sub(left))).min(bounds.end);
    let start = if start <= bounds.start {
        bounds.start
    } else {
        at_or_after(&document.offsets.sentences, start).map_or(core.start, |at| at.min(core.start))
    };
    let end = if end >= bounds.end {
        bounds.end
    } else {
        at_or_before(&document.offsets.sentences, end).map_or(core.end, |at| at.max(core.end))
    };
    Span::new(start.min(core.start), end.max(core.end)).trim(&document.text)
}
