//! Markdown → its admonitions, as `:::note` … `:::`, each one block.
//!
//! Invariant: an admonition that is not closed is none.

use super::fence::Fences;
use super::{Block, BlockKind};
use crate::span::{Span, lines, slice};

/// The outermost admonitions, in order: from the line that opens one to the line of nothing but colons that closes it.
pub(super) fn spans(text: &str, body: Span) -> Vec<Span> {
    let mut found: Vec<Span> = Vec::new();
    if !slice(text, body).contains(":::") {
        return found;
    }
    let mut open = Vec::new();
    let mut fences = Fences::default();
    for line in lines(text, body) {
        let content = slice(text, line).trim_end();
        let marks = content.trim_start_matches(' ');
        let name = marks.trim_start_matches(':');
        let in_code = fences.take(content);
        if in_code || content.len() - marks.len() > 3 || marks.len() - name.len() < 3 {
            continue;
        }
        if name.is_empty() {
            if let Some(start) = open.pop() {
                found.retain(|inner| inner.start < start);
                found.push(Span::new(start, line.end));
            }
        } else if name.trim_start().starts_with(|c: char| c.is_alphabetic() || c == '{')
            && !name.ends_with(":::")
        {
            open.push(line.start);
        }
    }
    found
}

/// Whether a span starts in one of these spans, which are in order and disjoint.
pub(super) fn holds(spans: &[Span], span: Span) -> bool {
    let at = spans.partition_point(|other| other.end <= span.start);
    spans.get(at).is_some_and(|other| other.start <= span.start)
}

/// Makes the blocks of each admonition one block. A block across its edge belongs to it: a list runs on over the closing line.
pub(super) fn grouped(blocks: Vec<Block>, admonitions: &[Span]) -> Vec<Block> {
    let mut grouped: Vec<Block> = Vec::with_capacity(blocks.len());
    let mut blocks = blocks.into_iter().peekable();
    for &admonition in admonitions {
        while let Some(block) = blocks.next_if(|block| block.span.end <= admonition.start) {
            grouped.push(block);
        }
        // The block before may reach into it too.
        let mut children: Vec<Block> =
            grouped.pop_if(|block| block.span.end > admonition.start).into_iter().collect();
        while let Some(block) = blocks.next_if(|block| block.span.start < admonition.end) {
            children.push(block);
        }
        if children.len() > 1
            && let Some(span) = children.iter().map(|block| block.span).reduce(Span::hull)
        {
            grouped.push(Block { kind: BlockKind::Quote, span, children });
        } else {
            grouped.extend(children);
        }
    }
    grouped.extend(blocks);
    grouped
}
