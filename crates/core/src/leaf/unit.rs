//! A block that is too large for a leaf → the units it can be cut into: blocks, lines, sentences, words, graphemes.
//!
//! Invariant: the units of a unit hold every visible byte of it; what must not stand alone is joined to its neighbour.

use super::fit::Builder;
use crate::measure::{
    Piece, grapheme_runs, graphemes, has_lines, pieces, sentences, word_parts, words,
};
use crate::outline::{Block, BlockKind};
use crate::span::{Span, lines, next_line, slice};

/// Something that can be part of a leaf, and that can be cut when it is too large alone.
#[derive(Debug, Clone)]
pub(super) struct Unit<'a> {
    pub(super) span: Span,
    /// What is shown before a leaf that starts with this unit.
    pub(super) prefix: Option<Span>,
    pub(super) inner: Inner<'a>,
}

#[derive(Debug, Clone)]
pub(super) enum Inner<'a> {
    Block(&'a Block),
    /// Fragments (headings, comments, an introduction) that stay with the start of what follows.
    Led(Vec<Unit<'a>>, Box<Unit<'a>>),
    /// Fragments that stay with the end of what comes before.
    Trailed(Box<Unit<'a>>, Vec<Unit<'a>>),
    Lines(&'a Block),
    Sentences,
    Words,
    WordParts,
    GraphemeRuns,
    Graphemes,
}

impl<'a> Builder<'a> {
    /// The units that a unit is cut into; none for a grapheme.
    pub(super) fn sub_units(&self, unit: &Unit<'a>) -> Vec<Unit<'a>> {
        let text = self.source.text;
        let plain = |spans: Vec<Span>, inner: &Inner<'a>| -> Vec<Unit<'a>> {
            spans
                .into_iter()
                .map(|span| Unit { span, prefix: unit.prefix, inner: inner.clone() })
                .collect()
        };
        match &unit.inner {
            Inner::Led(lead, body) => {
                if let Some(long) = self.too_long(lead) {
                    let lead = plain(words(text, long), &Inner::WordParts);
                    return lead.into_iter().chain([(**body).clone()]).collect();
                }
                let mut below = self.sub_units(body).into_iter();
                match below.next() {
                    Some(first) => std::iter::once(led(lead.clone(), first)).chain(below).collect(),
                    None => lead.iter().cloned().chain([(**body).clone()]).collect(),
                }
            }
            Inner::Trailed(body, tail) => {
                if let Some(long) = self.too_long(tail) {
                    let tail = plain(words(text, long), &Inner::WordParts);
                    return std::iter::once((**body).clone()).chain(tail).collect();
                }
                let mut below = self.sub_units(body);
                match below.pop() {
                    Some(last) => below.push(trailed(last, tail.clone())),
                    None => {
                        below.extend(std::iter::once((**body).clone()).chain(tail.iter().cloned()));
                    }
                }
                below
            }
            Inner::Block(block) => self.block_units(unit, block),
            Inner::Lines(block) => self.line_units(unit, block),
            Inner::Sentences => plain(sentences(text, unit.span), &Inner::Words),
            Inner::Words => plain(words(text, unit.span), &Inner::WordParts),
            Inner::WordParts => plain(word_parts(text, unit.span), &Inner::GraphemeRuns),
            Inner::GraphemeRuns => plain(grapheme_runs(text, unit.span), &Inner::Graphemes),
            Inner::Graphemes => {
                let graphemes = graphemes(text, unit.span);
                if graphemes.len() < 2 { Vec::new() } else { plain(graphemes, &Inner::Graphemes) }
            }
        }
    }

    /// The bytes of fragments that take more than half of a leaf: they are cut like any text.
    fn too_long(&self, fragments: &[Unit<'a>]) -> Option<Span> {
        let hull = fragments.iter().map(|unit| unit.span).reduce(Span::hull)?;
        (self.ruler.size(hull) > self.capacity() / 2).then_some(hull)
    }

    fn block_units(&self, unit: &Unit<'a>, block: &'a Block) -> Vec<Unit<'a>> {
        let text = self.source.text;
        if has_lines(block.kind) {
            return vec![Unit { inner: Inner::Lines(block), ..unit.clone() }];
        }
        if block.children.is_empty() {
            return vec![Unit { inner: Inner::Sentences, ..unit.clone() }];
        }
        let head = block
            .children
            .first()
            .filter(|child| child.kind == BlockKind::TableHead)
            .map(|child| child.span);
        let head = head.filter(|&head| self.short_enough("table header", head));
        let mut units: Vec<Unit<'a>> = Vec::new();
        for (at, piece) in pieces(text, block).iter().enumerate() {
            let prefix = if at == 0 { unit.prefix } else { head.or(unit.prefix) };
            let (span, inner) = match *piece {
                Piece::Own(span) => (span, Inner::Sentences),
                Piece::Child(span, child) => (span, Inner::Block(child)),
            };
            units.push(Unit { span, prefix, inner });
        }
        // Markers before the first piece and blanks behind the last one belong to the unit.
        if let Some(first) = units.first_mut() {
            first.span.start = unit.span.start;
        }
        if let Some(last) = units.last_mut() {
            last.span.end = unit.span.end;
        }
        if head.is_some() && units.len() > 1 {
            // The header stays with the first row.
            let row = units.remove(1);
            let head = units.remove(0);
            let mut joined = led(vec![head], row);
            joined.prefix = unit.prefix;
            units.insert(0, joined);
        }
        glued(units, text)
    }

    fn line_units(&self, unit: &Unit<'a>, block: &Block) -> Vec<Unit<'a>> {
        let text = self.source.text;
        let fence = (block.kind == BlockKind::FencedCode).then(|| {
            Span::new(block.span.start, next_line(text, block.span.start).min(block.span.end))
                .trim(text)
        });
        // List and quote markers may stand before a fence.
        let opening = |unit: &Unit<'_>| {
            matches!(unit.inner, Inner::Words)
                && fence.is_some_and(|fence| unit.span.contains(fence))
        };
        let closing = |span: Span| {
            let line = slice(text, span).trim_start_matches(['>', ' ', '\t']);
            fence.is_some()
                && span.end == block.span.end
                && (line.starts_with("```") || line.starts_with("~~~"))
        };
        let prefix = fence.filter(|&fence| self.short_enough("code fence", fence)).or(unit.prefix);
        let mut units: Vec<Unit<'a>> = Vec::new();
        for line in lines(text, unit.span) {
            let span = line.trim(text);
            if span.is_empty() {
                continue;
            }
            // Markers of a quote or list may fill lines of their own before the fence.
            let before_code = fence.is_some_and(|fence| span.start <= fence.start);
            let prefix = if before_code { unit.prefix } else { prefix };
            let words = Unit { span, prefix, inner: Inner::Words };
            match units.pop() {
                Some(before) if opening(&before) => {
                    units.push(Unit { prefix: unit.prefix, ..led(vec![before], words) });
                }
                Some(before) if closing(span) => {
                    units.push(trailed(before, vec![words]));
                }
                before => units.extend(before.into_iter().chain([words])),
            }
        }
        units
    }
}

pub(super) fn block_unit(block: &Block) -> Unit<'_> {
    Unit { span: block.span, prefix: None, inner: Inner::Block(block) }
}

pub(super) fn led<'a>(lead: Vec<Unit<'a>>, body: Unit<'a>) -> Unit<'a> {
    let span = lead.iter().map(|unit| unit.span).fold(body.span, Span::hull);
    let prefix = lead.first().map_or(body.prefix, |first| first.prefix);
    Unit { span, prefix, inner: Inner::Led(lead, Box::new(body)) }
}

pub(super) fn trailed<'a>(body: Unit<'a>, tail: Vec<Unit<'a>>) -> Unit<'a> {
    let span = tail.iter().map(|unit| unit.span).fold(body.span, Span::hull);
    Unit { span, prefix: body.prefix, inner: Inner::Trailed(Box::new(body), tail) }
}

/// Joins what must not stand alone to its neighbour: headings, comments and definitions to the next body, or to the one
/// before at the end; the introduction of a list to the list.
pub(super) fn glued<'a>(units: Vec<Unit<'a>>, text: &str) -> Vec<Unit<'a>> {
    let kind = |unit: &Unit<'_>| match unit.inner {
        Inner::Block(block) => Some(block.kind),
        _ => None,
    };
    let introduces = |unit: &Unit<'_>| {
        let ends = |c: &str| slice(text, unit.span).ends_with(c);
        matches!(kind(unit), Some(BlockKind::Paragraph)) && (ends(":") || ends("："))
            || matches!(unit.inner, Inner::Sentences) && ends(":")
    };
    let mut joined: Vec<Unit<'a>> = Vec::with_capacity(units.len());
    let mut lead: Vec<Unit<'a>> = Vec::new();
    let mut units = units.into_iter().peekable();
    while let Some(unit) = units.next() {
        let fragment = kind(&unit).is_some_and(|kind| !kind.is_body());
        let before_list = units.peek().and_then(kind) == Some(BlockKind::List);
        if fragment || (before_list && introduces(&unit)) {
            lead.push(unit);
        } else if lead.is_empty() {
            joined.push(unit);
        } else {
            joined.push(led(std::mem::take(&mut lead), unit));
        }
    }
    match joined.pop() {
        Some(last) if !lead.is_empty() => joined.push(trailed(last, lead)),
        Some(last) => joined.push(last),
        None => joined.extend(lead),
    }
    joined
}
