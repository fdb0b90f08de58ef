//! A stored document → the promises that it breaks, found from offsets over every leaf, not from samples.
//!
//! Invariant: what it reports does not depend on how the tree was built; only text, outline and tree are compared.

use crate::document::Document;
use crate::outline::{BlockKind, Outline};
use crate::span::{Span, SpanSet, fits, is_blank};
use crate::tree::{Heading, Leaf, NodeKind};
use std::fmt;

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A span leaves the text or cuts a character.
    OffText(Span),
    /// A leaf starts or ends on a blank.
    BlankEdge(Span),
    /// Two leaves hold the same byte, and no overlap was asked for.
    Overlap(Span, Span),
    /// Visible text is in no leaf.
    Uncovered(Span),
    /// A leaf holds text of two top-level sections.
    AcrossTopLevel(Span),
    /// A leaf holds nothing but headings.
    EmptyBody(Span),
    /// An inner node has exactly one child.
    OneChild(Span),
    /// A node is not the hull of its children, or a link between nodes is broken.
    BrokenNode(Span),
    /// A node's token count is not that of its span.
    WrongTokens(Span),
    /// A leaf's heading path names a heading that is not there, or is not in order of places and levels.
    BrokenPath(Span),
    /// A leaf's prefix is not text above it, or text of the leaf itself.
    BrokenPrefix(Span),
    /// A place in the file is named out of order, or inside a character.
    BrokenAnchor(usize),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::OffText(span) => write!(f, "span {span} is not in the text"),
            Violation::BlankEdge(span) => write!(f, "leaf {span} starts or ends on a blank"),
            Violation::Overlap(a, b) => write!(f, "leaves {a} and {b} overlap"),
            Violation::Uncovered(span) => write!(f, "{span} is in no leaf"),
            Violation::AcrossTopLevel(span) => {
                write!(f, "leaf {span} spans two top-level sections")
            }
            Violation::EmptyBody(span) => write!(f, "leaf {span} has no body"),
            Violation::OneChild(span) => write!(f, "node {span} has exactly one child"),
            Violation::BrokenNode(span) => write!(f, "node {span} does not fit its children"),
            Violation::WrongTokens(span) => write!(f, "node {span} has a wrong token count"),
            Violation::BrokenPath(span) => {
                write!(f, "leaf {span} has a broken heading path")
            }
            Violation::BrokenPrefix(span) => {
                write!(f, "leaf {span} has a prefix that is not above it")
            }
            Violation::BrokenAnchor(offset) => {
                write!(f, "the anchor at {offset} is out of order or inside a character")
            }
        }
    }
}

/// What a check allows for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowed {
    /// Leaves may overlap at artificial cuts.
    pub overlap: bool,
    /// The document was kept whole, across its top-level sections.
    pub whole: bool,
}

/// Checks every promise of a document's tree. Empty if all are kept.
pub fn check(document: &Document, outline: &Outline, allowed: Allowed) -> Vec<Violation> {
    let (text, tree) = (document.text.as_str(), &document.tree);
    let mut violations = Vec::new();
    let spans = tree
        .nodes
        .iter()
        .map(|node| node.span)
        .chain(tree.leaves.iter().flat_map(|leaf| leaf.prefix.clone()));
    violations.extend(
        spans.filter(|&s| !fits(text, s) || !document.body.contains(s)).map(Violation::OffText),
    );
    if !violations.is_empty() {
        return violations;
    }
    let covered: SpanSet = tree.leaves.iter().map(|leaf| leaf.span).collect();
    for leaf in &tree.leaves {
        if leaf.span.is_empty() || leaf.span.trim(text) != leaf.span {
            violations.push(Violation::BlankEdge(leaf.span));
        }
        if tree.leaves.len() > 1 && headings_only(outline, leaf.span) {
            violations.push(Violation::EmptyBody(leaf.span));
        }
    }
    for pair in tree.leaves.windows(2) {
        if let [before, behind] = pair
            && (before.span.start >= behind.span.start
                || (!allowed.overlap && before.span.overlaps(behind.span)))
        {
            violations.push(Violation::Overlap(before.span, behind.span));
        }
    }
    let rules: SpanSet =
        outline.blocks.iter().filter(|b| b.kind == BlockKind::Rule).map(|b| b.span).collect();
    for gap in covered.missing_from(document.body) {
        let visible = rules.missing_from(gap).into_iter().filter(|&piece| !is_blank(text, piece));
        violations.extend(visible.map(|piece| Violation::Uncovered(piece.trim(text))));
    }
    if !allowed.whole {
        let starts = top_level_starts(outline);
        for leaf in &tree.leaves {
            let bodies = bodies_by_section(outline, &starts, leaf.span);
            if bodies > 1 {
                violations.push(Violation::AcrossTopLevel(leaf.span));
            }
        }
    }
    violations.extend(broken_nodes(document));
    violations.extend(tree.leaves.iter().filter_map(|leaf| broken_reference(document, leaf)));
    let mut last = 0;
    for anchor in &document.anchors {
        if anchor.offset < last || !text.is_char_boundary(anchor.offset) {
            violations.push(Violation::BrokenAnchor(anchor.offset));
        }
        last = last.max(anchor.offset);
    }
    violations
}

/// What a leaf refers to: the headings of its path, outermost first, and the text shown before it.
fn broken_reference(document: &Document, leaf: &Leaf) -> Option<Violation> {
    let path: Option<Vec<&Heading>> =
        leaf.path.iter().map(|&at| document.tree.headings.get(at as usize)).collect();
    let above = |path: &[&Heading]| {
        path.is_sorted_by(|a, b| a.level < b.level && a.span.start < b.span.start)
    };
    if !path.is_some_and(|path| above(&path)) {
        return Some(Violation::BrokenPath(leaf.span));
    }
    let before = leaf.prefix.iter().all(|prefix| prefix.end <= leaf.span.start);
    let ordered = leaf
        .prefix
        .windows(2)
        .all(|pair| pair.first().map(|p| p.end) <= pair.last().map(|p| p.start));
    (!before || !ordered).then_some(Violation::BrokenPrefix(leaf.span))
}

/// Leaves of nothing but headings, in a document that has more. Pieces of a heading too long for one leaf do not count.
pub fn empty_bodies(document: &Document, outline: &Outline) -> usize {
    let leaves = &document.tree.leaves;
    if leaves.len() < 2 {
        return 0;
    }
    leaves.iter().filter(|leaf| headings_only(outline, leaf.span)).count()
}

/// Whether a span is made of whole headings only, rules aside.
fn headings_only(outline: &Outline, span: Span) -> bool {
    let from = outline.blocks.partition_point(|block| block.span.end <= span.start);
    let inside = outline.blocks.iter().skip(from).take_while(|block| block.span.start < span.end);
    let mut inside = inside.filter(|block| block.kind != BlockKind::Rule);
    inside.all(|block| matches!(block.kind, BlockKind::Heading(_)) && span.contains(block.span))
}

/// Leaves with text of several top-level sections.
pub fn across_top_level(document: &Document, outline: &Outline) -> usize {
    let starts = top_level_starts(outline);
    document
        .tree
        .leaves
        .iter()
        .filter(|leaf| bodies_by_section(outline, &starts, leaf.span) > 1)
        .count()
}

/// Where each top-level section starts.
fn top_level_starts(outline: &Outline) -> Vec<usize> {
    let headings = &outline.headings;
    let titles = headings.iter().filter(|heading| heading.level == 1).count();
    let titled = titles == 1 && headings.first().is_some_and(|heading| heading.level == 1);
    let mut starts = Vec::new();
    let mut open = u8::MAX;
    for heading in headings.iter().skip(usize::from(titled)) {
        if heading.level <= open {
            starts.push(heading.span.start);
            open = heading.level;
        }
    }
    starts
}

/// In how many top-level sections (text above the first one counts as one) the span holds body text.
fn bodies_by_section(outline: &Outline, starts: &[usize], span: Span) -> usize {
    let from = outline.blocks.partition_point(|block| block.span.end <= span.start);
    let inside = outline.blocks.iter().skip(from).take_while(|block| block.span.start < span.end);
    let mut sections: Vec<usize> = inside
        .filter(|block| block.kind.is_body())
        .map(|block| starts.partition_point(|&start| start <= block.span.start))
        .collect();
    sections.dedup();
    sections.len()
}

fn broken_nodes(document: &Document) -> Vec<Violation> {
    let tree = &document.tree;
    let mut violations = Vec::new();
    for (at, node) in tree.nodes.iter().enumerate() {
        if node.children.len() == 1 {
            violations.push(Violation::OneChild(node.span));
        }
        let children: Option<Vec<_>> =
            node.children.iter().map(|&child| tree.node(child)).collect();
        let children = children.unwrap_or_default();
        let hull = children.iter().map(|child| child.span).reduce(Span::hull);
        let linked = children.iter().all(|child| child.parent == Some(at as u32));
        let is_leaf = node.kind == NodeKind::Leaf;
        if children.len() != node.children.len()
            || !linked
            || is_leaf != children.is_empty()
            || hull.is_some_and(|h| h != node.span)
        {
            violations.push(Violation::BrokenNode(node.span));
        }
        if document.offsets.tokens.count(node.span) != node.tokens as usize {
            violations.push(Violation::WrongTokens(node.span));
        }
    }
    let leaf_nodes = tree.nodes.iter().enumerate().filter(|(_, node)| node.kind == NodeKind::Leaf);
    let expected: Vec<(u32, Span)> = leaf_nodes.map(|(at, node)| (at as u32, node.span)).collect();
    let found: Vec<(u32, Span)> = tree.leaves.iter().map(|leaf| (leaf.node, leaf.span)).collect();
    if expected != found {
        violations.push(Violation::BrokenNode(document.body));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaf::{LeafConfig, Source, build};
    use crate::measure::{Ruler, measure};
    use crate::outline::{Format, parse};
    use crate::testing::Bytes;

    /// Builds a document, spoils it, and returns what is found, in words.
    fn spoiled(spoil: impl Fn(&mut Document)) -> String {
        let text =
            "# T\n\nPreface é.\n\n## A\n\nFirst text.\n\nSecond text.\n\n## B\n\nThird text.\n"
                .to_owned();
        let body = Span::new(0, text.len());
        let outline = parse(&text, body, Format::Markdown);
        let offsets = measure(&text, &outline, &Bytes);
        let ruler = Ruler::Tokens(&offsets.tokens);
        let source = Source { text: &text, body, title: "T", outline: &outline };
        let config = LeafConfig { target: 20, ..LeafConfig::default() };
        let (tree, _) = build(source, &ruler, &ruler, &config, None);
        let mut document = Document {
            body,
            title: "T".to_owned(),
            tree,
            offsets,
            anchors: Vec::new(),
            warnings: Vec::new(),
            text,
        };
        spoil(&mut document);
        let found = check(&document, &outline, Allowed::default());
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_sound_document_has_no_violation() {
        assert_eq!(spoiled(|_| {}), "");
    }

    #[test]
    fn each_broken_promise_is_found() {
        let check = |spoil: &dyn Fn(&mut Document), words: &str| {
            let found = spoiled(spoil);
            assert!(found.contains(words), "wanted `{words}`, found `{found}`");
        };
        check(&|d| d.tree.leaves[1].span.start += 1, "does not fit its children");
        check(&|d| d.tree.leaves[0].span.end -= 1, "is in no leaf");
        check(&|d| d.tree.leaves[1].span.end += 1, "starts or ends on a blank");
        check(&|d| d.tree.leaves[1].span.start = 0, "overlap");
        check(&|d| d.tree.leaves.truncate(1), "is in no leaf");
        check(&|d| d.tree.nodes[0].span.end = d.text.find('é').unwrap() + 1, "is not in the text");
        check(&|d| d.tree.nodes[0].children.truncate(1), "has exactly one child");
        check(&|d| d.tree.nodes[1].parent = None, "does not fit its children");
        check(&|d| d.tree.nodes[0].tokens += 1, "has a wrong token count");
        check(
            &|d| d.tree.leaves.last_mut().unwrap().span.start = 25,
            "spans two top-level sections",
        );
        check(&|d| d.tree.leaves[1].span = Span::new(18, 22), "has no body");
    }
}
