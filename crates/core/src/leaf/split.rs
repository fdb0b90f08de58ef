//! Text that is too large for a leaf → the pieces it is cut into: rules 5 and 6.
//!
//! Invariant: a cut goes into a block, a sentence or a word only where that alone is too large, and never into a grapheme.

use super::absorb::Content;
use super::draft::{Draft, LeafDraft};
use super::fit::Builder;
use super::unit::{Unit, block_unit, glued};
use crate::measure::{sentences, words};
use crate::outline::BlockKind;
use crate::span::Span;

/// No token is looked for further back than so many bytes.
const OVERLAP_BYTES_PER_TOKEN: usize = 32;

impl Builder<'_> {
    /// The leaves of one section's own text.
    pub(super) fn split_content(
        &self,
        content: &Content,
        path: &[u32],
        top_level: Option<u32>,
    ) -> Vec<Draft> {
        let Some(span) = self.content_span(content) else { return Vec::new() };
        let blocks = self.source.outline.blocks.get(content.blocks.clone()).unwrap_or_default();
        // A document of nothing but headings is one leaf, whatever the target.
        let target =
            if blocks.iter().any(|b| b.kind.is_body()) { self.config.target } else { usize::MAX };
        if let Some(headings) = self.fits(span, None, path, target) {
            return vec![
                self.leaf(LeafDraft { top_level, ..LeafDraft::whole(span, path, headings) }),
            ];
        }
        let mut cutter = Cutter {
            builder: self,
            path,
            start: span.start,
            spare_bytes: self.spare_bytes(path),
            pieces: Vec::new(),
        };
        // A rule of the document itself is dropped; one inside a list or quote is text of it.
        let kept = blocks.iter().filter(|block| block.kind != BlockKind::Rule).map(block_unit);
        cutter.split(&glued(kept.collect(), self.source.text));
        let drafts = cutter.pieces.into_iter().map(|piece| {
            self.leaf(LeafDraft {
                prefix: piece.prefix.into_iter().collect(),
                top_level,
                cut: true,
                ..LeafDraft::whole(piece.span, path, piece.headings)
            })
        });
        drafts.collect()
    }

    /// The start of the overlap before an artificial cut at `start`: a sentence start where one is near, else a word's.
    fn with_overlap(&self, from: usize, start: usize) -> usize {
        if self.config.overlap == 0 || start <= from {
            return start;
        }
        // An overlap is short: what lies further back than its longest words is not looked at.
        let far = start.saturating_sub(OVERLAP_BYTES_PER_TOKEN * self.config.overlap).max(from);
        let from =
            (from..=far).rev().find(|&at| self.source.text.is_char_boundary(at)).unwrap_or(from);
        let before = Span::new(from, start).trim(self.source.text);
        let near = |at: usize| self.ruler.size(Span::new(at, before.end)) <= self.config.overlap;
        let sentence =
            sentences(self.source.text, before).into_iter().map(|s| s.start).find(|&at| near(at));
        let word =
            || words(self.source.text, before).into_iter().map(|s| s.start).find(|&at| near(at));
        sentence.or_else(word).unwrap_or(start)
    }
}

/// Cuts the text of one section into pieces.
struct Cutter<'b, 'a> {
    builder: &'b Builder<'a>,
    path: &'b [u32],
    /// Where the section's own text starts: the overlap does not go further back.
    start: usize,
    /// So many bytes are embedded whole, overlap aside.
    spare_bytes: usize,
    pieces: Vec<CutPiece>,
}

struct CutPiece {
    span: Span,
    prefix: Option<Span>,
    headings: u32,
}

impl<'a> Cutter<'_, 'a> {
    /// Cuts each run of small units into balanced groups and goes into the large ones.
    fn split(&mut self, units: &[Unit<'a>]) {
        let mut rest = units;
        while let Some((unit, behind)) = rest.split_first() {
            let run = rest.iter().take_while(|unit| self.is_small(unit)).count();
            if run == 0 {
                let below = self.builder.sub_units(unit);
                if below.is_empty() {
                    self.push(unit.span, None);
                } else {
                    self.split(&below);
                }
                rest = behind;
                continue;
            }
            let (members, behind) = rest.split_at(run);
            let spans: Vec<Span> = members.iter().map(|unit| unit.span).collect();
            let prefix = |at: usize| members.get(at).and_then(|unit| unit.prefix);
            let shown: Vec<usize> =
                members.iter().map(|unit| self.prefix_size(unit.prefix)).collect();
            let shown = |at: usize| shown.get(at).copied().unwrap_or_default();
            let embeds = |span: Span, at: usize| self.embeds(span, prefix(at)).is_some();
            let groups = self.builder.groups(&spans, self.builder.capacity(), shown, embeds);
            for group in groups {
                if let (Some(first), Some(last)) =
                    (spans.get(group.start), spans.get(group.end - 1))
                {
                    self.push(first.hull(*last), prefix(group.start));
                }
            }
            rest = behind;
        }
    }

    /// Whether a unit fits behind its prefix.
    fn is_small(&self, unit: &Unit<'a>) -> bool {
        let size = self.builder.ruler.size(unit.span) + self.prefix_size(unit.prefix);
        let bytes = unit.span.len() + unit.prefix.map_or(0, |prefix| prefix.len() + 1);
        let surely = self.builder.config.overlap == 0 && bytes <= self.spare_bytes;
        size <= self.builder.capacity() && (surely || self.embeds(unit.span, unit.prefix).is_some())
    }

    fn prefix_size(&self, prefix: Option<Span>) -> usize {
        prefix.map_or(0, |span| self.builder.ruler.size(span))
    }

    fn embeds(&self, span: Span, prefix: Option<Span>) -> Option<u32> {
        let start = self.with_overlap(span, prefix);
        self.builder.embeds(Span::new(start, span.end), prefix, self.path)
    }

    /// The start of the overlap before a piece: behind its prefix, so that no byte is shown twice.
    fn with_overlap(&self, span: Span, prefix: Option<Span>) -> usize {
        let from = prefix.map_or(self.start, |prefix| prefix.end.max(self.start));
        self.builder.with_overlap(from, span.start)
    }

    fn push(&mut self, span: Span, prefix: Option<Span>) {
        let headings = self.embeds(span, prefix).unwrap_or_default();
        // An overlap that would repeat the whole piece before is none.
        let start = match self.pieces.last() {
            Some(before) => {
                let start = self.with_overlap(span, prefix);
                if start > before.span.start { start } else { span.start }
            }
            None => span.start,
        };
        self.pieces.push(CutPiece { span: Span::new(start, span.end), prefix, headings });
    }
}
