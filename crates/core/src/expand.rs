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
    /// The leaf and so many leaves on each side, inside the node above it.
    Siblings(usize),
    /// The leaf and so many sentences on each side, inside its top-level section.
    Sentences(usize),
    /// The leaf and so many budget tokens on each side, to whole words, inside its top-level section.
    Tokens(usize),
    /// The node above it where that fits the cap, else [`Expansion::Siblings`] with one on each side.
    Auto,
}

impl std::fmt::Display for Expansion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Expansion::None => f.write_str("none"),
            Expansion::Parent => f.write_str("parent"),
            Expansion::Siblings(n) => write!(f, "siblings:{n}"),
            Expansion::Sentences(n) => write!(f, "sentences:{n}"),
            Expansion::Tokens(n) => write!(f, "tokens:{n}"),
            Expansion::Auto => f.write_str("auto"),
        }
    }
}

/// A text that names no expansion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{got}` is no expansion, want none, parent, siblings:N, sentences:N, tokens:N or auto, N from 1"
)]
pub struct NoExpansion {
    /// The text.
    pub got: String,
}

impl std::str::FromStr for Expansion {
    type Err = NoExpansion;

    fn from_str(text: &str) -> Result<Expansion, NoExpansion> {
        let wrong = || NoExpansion { got: text.to_owned() };
        let (name, n) = match text.split_once(':') {
            Some((name, n)) => (name, Some(n.parse().ok().filter(|&n| n > 0).ok_or_else(wrong)?)),
            None => (text, None),
        };
        match (name, n) {
            ("none", None) => Ok(Expansion::None),
            ("parent", None) => Ok(Expansion::Parent),
            ("siblings", Some(n)) => Ok(Expansion::Siblings(n)),
            ("sentences", Some(n)) => Ok(Expansion::Sentences(n)),
            ("tokens", Some(n)) => Ok(Expansion::Tokens(n)),
            ("auto", None) => Ok(Expansion::Auto),
            _ => Err(wrong()),
        }
    }
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

/// Expands the leaves of a list; merged items stay as they are. Leaves that lie in a merged or parent item before them become
/// its evidence.
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
                && matches!(before.kind, ItemKind::Merged | ItemKind::Parent | ItemKind::Cropped)
                && before.span.contains(item.span)
        });
        if let Some(holder) = holder {
            holder.evidence.extend(item.evidence.iter().cloned());
            continue;
        }
        let windowed = |kind: ItemKind, span: Span| {
            let kind = if span == item.span { ItemKind::Leaf } else { kind };
            Item { kind, span, ..item.clone() }
        };
        expanded.push(match expansion {
            Expansion::None => item.clone(),
            Expansion::Siblings(n) => windowed(ItemKind::Siblings, siblings(item, document, n)),
            Expansion::Sentences(n) => {
                windowed(ItemKind::Window, sentences(item.span, document, n))
            }
            Expansion::Tokens(n) => windowed(ItemKind::Window, tokens(item.span, document, n)),
            Expansion::Auto => match parent_within(item, document, cap_tokens) {
                Some(parent) => parent,
                None => windowed(ItemKind::Siblings, siblings(item, document, 1)),
            },
            Expansion::Parent => {
                let others = items
                    .iter()
                    .skip(at + 1)
                    .filter(|other| other.doc == item.doc && other.kind == ItemKind::Leaf);
                let (parent, crop) =
                    parent(item, others.map(|other| other.span), document, cap_tokens);
                crops.extend(crop);
                parent
            }
        });
    }
    (expanded, crops)
}

/// The node above a leaf.
fn above(item: &Item, document: &Document) -> Option<u32> {
    document.tree.node(item.node)?.parent
}

/// The node above a leaf, where it is not over the cap.
fn parent_within(item: &Item, document: &Document, cap_tokens: usize) -> Option<Item> {
    let at = above(item, document)?;
    let node = document.tree.node(at).filter(|node| node.tokens as usize <= cap_tokens)?;
    Some(Item { kind: ItemKind::Parent, span: node.span, node: at, ..item.clone() })
}

/// A leaf with `n` leaves on each side, inside the node above it.
fn siblings(item: &Item, document: &Document, n: usize) -> Span {
    let tree = &document.tree;
    let parent = above(item, document).and_then(|at| tree.node(at));
    let (Some(parent), Some(own)) = (parent, tree.leaves_in(item.span).next()) else {
        return item.span;
    };
    let first = own.saturating_sub(n);
    let leaves = tree.leaves.iter().skip(first).take(own - first + n + 1);
    let inside = leaves.filter(|leaf| parent.span.contains(leaf.span));
    inside.fold(item.span, |hull, leaf| hull.hull(leaf.span))
}

/// Where windows around a leaf must stay: its top-level section, or the run of leaves around it that lie in none.
fn window_bounds(leaf: Span, document: &Document) -> Span {
    let tree = &document.tree;
    let Some(own) = tree.leaves_in(leaf).next() else { return leaf };
    let top_level = |at: usize| tree.leaves.get(at).and_then(|leaf| leaf.top_level);
    match top_level(own).and_then(|at| tree.top_level.get(at as usize)) {
        Some(&section) => section.hull(leaf),
        None => {
            let before = (0..own).rev().take_while(|&at| top_level(at).is_none());
            let behind = (own + 1..tree.leaves.len()).take_while(|&at| top_level(at).is_none());
            let run = before.chain(behind).filter_map(|at| tree.leaves.get(at));
            run.fold(leaf, |hull, leaf| hull.hull(leaf.span))
        }
    }
}

/// A leaf with `n` sentences on each side. The rest of a sentence that the leaf cuts counts as one of them.
fn sentences(leaf: Span, document: &Document, n: usize) -> Span {
    let starts = &document.offsets.sentences;
    let before = starts.partition_point(|&start| (start as usize) < leaf.start);
    let start = starts.get(before.saturating_sub(n)).map_or(leaf.start, |&start| start as usize);
    let behind = starts.partition_point(|&start| (start as usize) < leaf.end);
    let whole_sentences = starts.get(behind).is_some_and(|&next| {
        Span::new(leaf.end, (next as usize).max(leaf.end)).trim(&document.text).is_empty()
    });
    let end = starts.get(behind + if whole_sentences { n } else { n - 1 });
    let end = end.map_or(document.text.len(), |&end| end as usize);
    within(Span::new(start.min(leaf.start), end.max(leaf.end)), leaf, document)
}

/// A leaf with up to `n` budget tokens on each side, to whole words.
fn tokens(leaf: Span, document: &Document, n: usize) -> Span {
    let (text, tokens) = (&document.text, &document.offsets.tokens);
    let is_blank_before = |&at: &usize| {
        text.is_char_boundary(at)
            && text
                .get(..at)
                .and_then(|before| before.chars().next_back())
                .is_none_or(char::is_whitespace)
    };
    let is_blank_behind = |&at: &usize| {
        text.is_char_boundary(at)
            && text.get(at..).and_then(|rest| rest.chars().next()).is_none_or(char::is_whitespace)
    };
    let start = tokens.back(leaf.start, n).min(leaf.start);
    let end = tokens.forward(leaf.end, n).max(leaf.end);
    let start = (start..leaf.start).find(is_blank_before).unwrap_or(leaf.start);
    let end = (leaf.end..=end).rev().find(is_blank_behind).unwrap_or(leaf.end);
    within(Span::new(start, end), leaf, document)
}

/// A window without what lies outside the leaf's bounds, and without blanks at its ends.
fn within(window: Span, leaf: Span, document: &Document) -> Span {
    let bounds = window_bounds(leaf, document);
    let inside = window.intersection(bounds).unwrap_or(leaf);
    inside.trim(&document.text).hull(leaf)
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
