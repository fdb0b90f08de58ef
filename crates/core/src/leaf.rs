//! Outline → tree: sections become leaves, small ones merged under their own parent, large ones cut.
//!
//! Invariant: leaves are in document order and disjoint (overlap aside); what lies between them is blank or a dropped
//! rule; no leaf spans two top-level sections that have a body; no leaf has an empty body unless it was cut from a heading
//! too long for one leaf, or the document holds nothing but headings.

use crate::group::{balance, balance_into};
use crate::measure::{
    Piece, Ruler, grapheme_runs, graphemes, has_lines, pieces, sentences, word_parts, words,
};
use crate::outline::{Block, BlockKind, Outline};
use crate::span::{Span, SpanSet, lines, next_line, slice};
use crate::tree::{Leaf, Node, NodeKind, Tree};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;

/// Special tokens that a model may put around a text, at the most.
const SPECIAL_TOKENS: usize = 8;

/// No token is looked for further back than so many bytes.
const OVERLAP_BYTES_PER_TOKEN: usize = 32;

/// How leaves are cut. Sizes are in the ruler's unit: budget tokens, or characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafConfig {
    /// The size that a leaf should have at the most.
    pub target: usize,
    /// How much of the leaf before is repeated behind an artificial cut.
    pub overlap: usize,
    /// The sizes of the parts that long sections are grouped into, largest first.
    pub levels: Vec<usize>,
    /// Documents up to this size stay one leaf; 0 for none.
    pub keep_whole: usize,
}

impl Default for LeafConfig {
    fn default() -> LeafConfig {
        LeafConfig { target: 200, overlap: 0, levels: vec![2048, 512], keep_whole: 0 }
    }
}

/// Why a leaf configuration was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeafConfigError {
    /// Nothing fits a target of 0.
    #[error("`leaf.target` is 0, want at least 1")]
    NoTarget,
    /// Each leaf would repeat the whole one before.
    #[error("`leaf.overlap` is {overlap}, want less than `leaf.target`, which is {target}")]
    Overlap {
        /// The overlap asked for.
        overlap: usize,
        /// The target it must stay below.
        target: usize,
    },
    /// Levels go from large to small.
    #[error("`leaf.levels` holds {lower} behind {upper}, want falling sizes above 0")]
    Levels {
        /// The level before.
        upper: usize,
        /// The level that is not below it.
        lower: usize,
    },
}

impl LeafConfig {
    /// Checks that the sizes agree with each other.
    ///
    /// # Errors
    /// Each variant names the numbers that clash.
    pub fn check(&self) -> Result<(), LeafConfigError> {
        if self.target == 0 {
            return Err(LeafConfigError::NoTarget);
        }
        if self.overlap >= self.target {
            return Err(LeafConfigError::Overlap { overlap: self.overlap, target: self.target });
        }
        let mut upper = usize::MAX;
        for &lower in &self.levels {
            if lower >= upper || lower == 0 {
                return Err(LeafConfigError::Levels { upper, lower });
            }
            upper = lower;
        }
        Ok(())
    }
}

/// What an embedder takes: leaves are cut so that what is embedded fits.
pub trait EmbedLimit {
    /// The model's own tokens that one text may have, special tokens included.
    fn max_tokens(&self) -> usize;

    /// How many of them a text has, special tokens included.
    fn count_tokens(&self, text: &str) -> usize;
}

/// What leaves are cut from.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The canonical text.
    pub text: &'a str,
    /// The text behind byte order mark and front matter.
    pub body: Span,
    /// The document's title.
    pub title: &'a str,
    /// Its blocks and headings.
    pub outline: &'a Outline,
}

/// Builds the tree of a document, and says in words what was odd.
///
/// `ruler` is what the sizes of the configuration are counted in, `tokens` what the tree's token counts are. A blank document
/// gives a tree without nodes. `limit` is the embedder's; without one only the target counts.
pub fn build(
    source: Source<'_>,
    ruler: &Ruler<'_>,
    tokens: &Ruler<'_>,
    config: &LeafConfig,
    limit: Option<&dyn EmbedLimit>,
) -> (Tree, Vec<String>) {
    let sections = sections(source.outline);
    let (content, by_section) = absorb(source.outline, &sections);
    let builder = Builder {
        source,
        ruler,
        tokens,
        config,
        limit,
        sections,
        content,
        by_section,
        warnings: RefCell::default(),
    };
    let drafts = builder.document();
    let tree = builder.assemble(drafts);
    (tree, builder.warnings.into_inner().into_iter().collect())
}

/// The text that is embedded for a leaf, and indexed by the lexical leg: title unless the path starts with it, path, line
/// feed, prefix, leaf. Headings that did not fit the embedder are left out from the front.
pub fn embedded_text(text: &str, title: &str, tree: &Tree, leaf: &Leaf) -> String {
    let names = names(title, &tree.heading_texts(&leaf.path));
    let kept = names
        .get(names.len().saturating_sub(leaf.embedded_headings as usize)..)
        .unwrap_or_default();
    compose(text, kept, &leaf.prefix, leaf.span)
}

/// Title and headings, the title not twice.
fn names(title: &str, path: &[String]) -> Vec<String> {
    let title = (path.first().is_none_or(|first| first != title) && !title.is_empty())
        .then(|| title.to_owned());
    title.into_iter().chain(path.iter().cloned()).collect()
}

fn compose(text: &str, names: &[String], prefix: &[Span], span: Span) -> String {
    let mut composed = names.join(" > ");
    for &piece in prefix.iter().chain([&span]) {
        if !composed.is_empty() {
            composed.push('\n');
        }
        composed.push_str(slice(text, piece));
    }
    composed
}

/// The document's lone level-1 heading, if it has exactly one.
pub fn lone_title(outline: &Outline) -> Option<&str> {
    let mut titles = outline.headings.iter().filter(|heading| heading.level == 1);
    titles.next().filter(|_| titles.next().is_none()).map(|heading| heading.text.as_str())
}

/// A heading with what stands under it; the first one is the root.
#[derive(Debug, Default)]
struct Section {
    /// Headings above and its own, outermost first.
    path: Vec<u32>,
    level: u8,
    parent: Option<usize>,
    children: Vec<usize>,
    /// Its own blocks, its heading first, up to the next heading.
    blocks: Range<usize>,
}

fn sections(outline: &Outline) -> Vec<Section> {
    let mut sections = vec![Section::default()];
    for (at, block) in outline.blocks.iter().enumerate() {
        let current = sections.len() - 1;
        if let BlockKind::Heading(heading) = block.kind {
            let level = outline.headings.get(heading as usize).map_or(6, |h| h.level);
            let mut parent = current;
            while let Some(section) = sections.get(parent).filter(|section| section.level >= level)
            {
                parent = section.parent.unwrap_or_default();
            }
            let index = sections.len();
            let mut path = Vec::new();
            if let Some(above) = sections.get_mut(parent) {
                above.children.push(index);
                path.clone_from(&above.path);
            }
            path.push(heading);
            sections.push(Section {
                path,
                level,
                parent: Some(parent),
                children: Vec::new(),
                blocks: at..at + 1,
            });
        } else if let Some(section) = sections.last_mut() {
            section.blocks.end = at + 1;
        }
    }
    sections
}

/// Text of one section with the fragments that it absorbed, as a range of top blocks.
#[derive(Debug)]
struct Content {
    blocks: Range<usize>,
}

/// Gives every stretch without a body to the content that takes it: the next one inside its own parent, else the one
/// before it there. Returns the contents in document order, and for each section the index of its own.
fn absorb(outline: &Outline, sections: &[Section]) -> (Vec<Content>, Vec<Option<usize>>) {
    let blocks = |section: &Section| outline.blocks.get(section.blocks.clone()).unwrap_or_default();
    let own_body: Vec<bool> =
        sections.iter().map(|s| blocks(s).iter().any(|b| b.kind.is_body())).collect();
    let mut body_below = own_body.clone();
    for (at, section) in sections.iter().enumerate().rev() {
        if let (true, Some(parent)) = (body_below.get(at) == Some(&true), section.parent)
            && let Some(above) = body_below.get_mut(parent)
        {
            *above = true;
        }
    }
    let has = |flags: &[bool], at: usize| flags.get(at).copied().unwrap_or_default();
    // For each section that has content below it or of its own, the last child that has some.
    let last_with_body: Vec<Option<usize>> = sections
        .iter()
        .enumerate()
        .map(|(at, section)| {
            let last = section.children.iter().rev().find(|&&child| has(&body_below, child));
            has(&body_below, at).then(|| last.copied().unwrap_or_default())
        })
        .collect();

    let mut contents: Vec<Content> = Vec::new();
    let mut by_section = vec![None; sections.len()];
    let mut waiting: Option<usize> = None;
    for (at, section) in sections.iter().enumerate() {
        if has(&own_body, at) {
            let start = waiting.take().unwrap_or(section.blocks.start);
            if let Some(own) = by_section.get_mut(at) {
                *own = Some(contents.len());
            }
            contents.push(Content { blocks: start..section.blocks.end });
        } else if has(&body_below, at) || joins_next(sections, &last_with_body, at) {
            waiting.get_or_insert(section.blocks.start);
        } else if let Some(before) = contents.last_mut() {
            before.blocks.end = section.blocks.end;
        } else {
            waiting.get_or_insert(section.blocks.start);
        }
    }
    if let (Some(start), true) = (waiting, contents.is_empty()) {
        // Nothing but headings, comments and rules.
        let all = start..outline.blocks.len();
        if outline.blocks.iter().any(|block| block.kind != BlockKind::Rule) {
            if let Some(own) = by_section.get_mut(0) {
                *own = Some(0);
            }
            contents.push(Content { blocks: all });
        }
    }
    (contents, by_section)
}

/// Whether a section without any body is followed by content inside the nearest parent that has some.
fn joins_next(sections: &[Section], last_with_body: &[Option<usize>], section: usize) -> bool {
    let mut child = section;
    while let Some(parent) = sections.get(child).and_then(|s| s.parent) {
        if let Some(last) = last_with_body.get(parent).copied().flatten() {
            return last > child;
        }
        child = parent;
    }
    false
}

/// Something that can be part of a leaf, and that can be cut when it is too large alone.
#[derive(Debug, Clone)]
struct Unit<'a> {
    span: Span,
    /// What is shown before a leaf that starts with this unit.
    prefix: Option<Span>,
    inner: Inner<'a>,
}

#[derive(Debug, Clone)]
enum Inner<'a> {
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

/// A leaf before it has a place in the tree.
#[derive(Debug, Clone)]
struct LeafDraft {
    span: Span,
    prefix: Vec<Span>,
    path: Vec<u32>,
    embedded_headings: u32,
    top_level: Option<u32>,
    cut: bool,
}

#[derive(Debug, Clone)]
enum Draft {
    Leaf(LeafDraft),
    Inner { kind: NodeKind, path: Vec<u32>, children: Vec<Draft> },
}

impl Draft {
    fn hull(&self) -> Option<Span> {
        match self {
            Draft::Leaf(leaf) => Some(leaf.span),
            Draft::Inner { children, .. } => {
                children.iter().filter_map(Draft::hull).reduce(Span::hull)
            }
        }
    }
}

struct Builder<'a> {
    source: Source<'a>,
    ruler: &'a Ruler<'a>,
    tokens: &'a Ruler<'a>,
    config: &'a LeafConfig,
    limit: Option<&'a dyn EmbedLimit>,
    sections: Vec<Section>,
    content: Vec<Content>,
    by_section: Vec<Option<usize>>,
    warnings: RefCell<BTreeSet<String>>,
}

impl<'a> Builder<'a> {
    // From sections to leaves: rules 2, 3 and 4.

    /// The drafts under the root.
    fn document(&self) -> Vec<Draft> {
        let Some(whole) =
            self.content.iter().filter_map(|c| self.content_span(c)).reduce(Span::hull)
        else {
            return Vec::new();
        };
        let title = self.title_section();
        if self.config.keep_whole > 0 && self.ruler.size(whole) <= self.config.keep_whole {
            let path = self.path(title.unwrap_or_default());
            if let Some(headings) = self.embeds(whole, None, &path) {
                return vec![self.leaf(whole, Vec::new(), path, headings, None, false)];
            }
        }
        let mut top_levels = 0;
        self.above_top_level(0, title, &mut top_levels)
    }

    /// The section of the document's title, where exactly one level-1 heading stands before all others.
    fn title_section(&self) -> Option<usize> {
        let headings = &self.source.outline.headings;
        let first = headings.first().is_some_and(|heading| heading.level == 1);
        (first && lone_title(self.source.outline).is_some()).then_some(1)
    }

    /// The drafts of the root or the title section: text of its own, then each section below for itself.
    fn above_top_level(
        &self,
        section: usize,
        title: Option<usize>,
        top_levels: &mut u32,
    ) -> Vec<Draft> {
        let mut drafts: Vec<Draft> = self
            .own(section)
            .map(|content| self.split_content(content, &self.path(section), None))
            .unwrap_or_default();
        drafts = self.parts(drafts, &self.config.levels);
        for &child in self.sections.get(section).map(|s| s.children.as_slice()).unwrap_or_default()
        {
            if Some(child) == title {
                let children = self.above_top_level(child, title, top_levels);
                if !children.is_empty() {
                    drafts.push(Draft::Inner {
                        kind: NodeKind::Section,
                        path: self.path(child),
                        children,
                    });
                }
            } else if self.hull(child).is_some() {
                drafts.push(self.section(child, Some(*top_levels)));
                *top_levels += 1;
            }
        }
        drafts
    }

    /// A section as one leaf if all of it fits, else as a node over its children's leaves.
    fn section(&self, section: usize, top_level: Option<u32>) -> Draft {
        let path = self.path(section);
        if let Some(span) = self.hull(section)
            && let Some(headings) = self.fits(span, None, &path, self.config.target)
        {
            return self.leaf(span, Vec::new(), path, headings, top_level, false);
        }
        let children = self.parts(self.siblings(section, top_level), &self.config.levels);
        Draft::Inner { kind: NodeKind::Section, path, children }
    }

    /// Groups the small children of a section, its own text first among them, and goes into the large ones.
    fn siblings(&self, section: usize, top_level: Option<u32>) -> Vec<Draft> {
        let path = self.path(section);
        let own =
            self.own(section).and_then(|c| self.content_span(c)).map(|span| (span, section, true));
        let below = self.sections.get(section).map(|s| s.children.as_slice()).unwrap_or_default();
        let below =
            below.iter().filter_map(|&child| self.hull(child).map(|span| (span, child, false)));
        let children: Vec<(Span, usize, bool)> = own.into_iter().chain(below).collect();

        let small = |&(span, child, _): &(Span, usize, bool)| {
            self.fits(span, None, &self.path(child), self.config.target).is_some()
        };
        let mut drafts = Vec::new();
        let mut rest = children.as_slice();
        while let Some((&(_, child, own), behind)) = rest.split_first() {
            let run = rest.iter().take_while(|child| small(child)).count();
            if run == 0 {
                match self.own(child).filter(|_| own) {
                    Some(content) => drafts.extend(self.split_content(content, &path, top_level)),
                    None => drafts.push(self.section(child, top_level)),
                }
                rest = behind;
                continue;
            }
            let (members, behind) = rest.split_at(run);
            let spans: Vec<Span> = members.iter().map(|&(span, ..)| span).collect();
            for group in self.groups(&spans, self.config.target, &|span, _| {
                self.embeds(span, None, &path).is_some()
            }) {
                let Some(members) = members.get(group) else { continue };
                let [(span, child, _)] = members else {
                    if let Some(span) = members.iter().map(|&(span, ..)| span).reduce(Span::hull) {
                        let headings = self.embeds(span, None, &path).unwrap_or_default();
                        drafts.push(self.leaf(
                            span,
                            Vec::new(),
                            path.clone(),
                            headings,
                            top_level,
                            false,
                        ));
                    }
                    continue;
                };
                let path = self.path(*child);
                let headings = self.embeds(*span, None, &path).unwrap_or_default();
                drafts.push(self.leaf(*span, Vec::new(), path, headings, top_level, false));
            }
            rest = behind;
        }
        drafts
    }

    /// Cuts a run of neighbours into balanced groups, and halves those of which the embedder takes less than the target.
    /// A group of one is always taken.
    fn groups(
        &self,
        spans: &[Span],
        capacity: usize,
        embeds: &dyn Fn(Span, usize) -> bool,
    ) -> Vec<Range<usize>> {
        let hull = |i: usize, j: usize| match (spans.get(i), spans.get(j.wrapping_sub(1))) {
            (Some(first), Some(last)) => first.hull(*last),
            _ => Span::default(),
        };
        let size = |i: usize, j: usize| self.ruler.size(hull(i, j));
        let mut fitting = Vec::new();
        let mut waiting = balance(spans.len(), capacity, &size);
        waiting.reverse();
        while let Some(group) = waiting.pop() {
            if group.len() == 1 || embeds(hull(group.start, group.end), group.start) {
                fitting.push(group);
                continue;
            }
            let halves =
                balance_into(group.len(), 2, &|i, j| size(group.start + i, group.start + j));
            // Items inside one token have together the size of one: cut them in the middle.
            let middle = halves.first().filter(|_| halves.len() == 2);
            let middle = group.start + middle.map_or(group.len() / 2, |half| half.end);
            waiting.push(middle..group.end);
            waiting.push(group.start..middle);
        }
        fitting
    }

    // From text that is too large to leaves: rules 5 and 6.

    /// The leaves of one section's own text.
    fn split_content(&self, content: &Content, path: &[u32], top_level: Option<u32>) -> Vec<Draft> {
        let Some(span) = self.content_span(content) else { return Vec::new() };
        let blocks = self.source.outline.blocks.get(content.blocks.clone()).unwrap_or_default();
        // A document of nothing but headings is one leaf, whatever the target.
        let target =
            if blocks.iter().any(|b| b.kind.is_body()) { self.config.target } else { usize::MAX };
        if let Some(headings) = self.fits(span, None, path, target) {
            return vec![self.leaf(span, Vec::new(), path.to_vec(), headings, top_level, false)];
        }
        let mut cutter = Cutter { builder: self, path, start: span.start, pieces: Vec::new() };
        cutter.split(&glued(blocks.iter().map(block_unit).collect(), self.source.text));
        let drafts = cutter.pieces.into_iter().map(|piece| {
            let prefix = piece.prefix.into_iter().collect();
            self.leaf(piece.span, prefix, path.to_vec(), piece.headings, top_level, true)
        });
        drafts.collect()
    }

    /// The units that a unit is cut into; none for a grapheme.
    fn sub_units(&self, unit: &Unit<'a>) -> Vec<Unit<'a>> {
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
        let closing = |span: Span| {
            let line = slice(text, span);
            span.end == block.span.end && (line.starts_with("```") || line.starts_with("~~~"))
        };
        let prefix = fence.filter(|&fence| self.short_enough("code fence", fence)).or(unit.prefix);
        let mut units: Vec<Unit<'a>> = Vec::new();
        for line in lines(text, unit.span) {
            let span = line.trim(text);
            if span.is_empty() {
                continue;
            }
            let words = Unit { span, prefix, inner: Inner::Words };
            match units.pop() {
                Some(before) if fence == Some(before.span) => {
                    units.push(Unit { prefix: unit.prefix, ..led(vec![before], words) });
                }
                Some(before) if fence.is_some() && closing(span) => {
                    units.push(trailed(before, vec![words]));
                }
                before => units.extend(before.into_iter().chain([words])),
            }
        }
        units
    }

    /// Whether a prefix leaves the embedder enough room; warns where it does not.
    fn short_enough(&self, what: &str, prefix: Span) -> bool {
        let (size, limit) = match self.limit {
            Some(limit) => {
                (limit.count_tokens(slice(self.source.text, prefix)), limit.max_tokens())
            }
            None => (self.ruler.size(prefix), self.config.target),
        };
        if size <= limit / 4 {
            return true;
        }
        self.warn(format!("a {what} of {size} tokens is left out of the parts behind the first one: more than a quarter of {limit}"));
        false
    }

    /// What a leaf may hold where text is cut, overlap aside.
    fn capacity(&self) -> usize {
        self.config.target - self.config.overlap.min(self.config.target - 1)
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

    // What fits.

    /// How many names can be embedded with the span, where it fits both the target and the embedder.
    fn fits(&self, span: Span, prefix: Option<Span>, path: &[u32], target: usize) -> Option<u32> {
        if self.ruler.size(span) > target {
            return None;
        }
        self.embeds(span, prefix, path)
    }

    /// How many names of the title and path, counted from the end, the embedder takes with the span: all of them, else
    /// fewer, at least the last one unless it alone takes half the limit. `None` where the span does not fit.
    fn embeds(&self, span: Span, prefix: Option<Span>, path: &[u32]) -> Option<u32> {
        let names = self.names(path);
        let all = names.len() as u32;
        let Some(limit) = self.limit else { return Some(all) };
        let fits = |names: &[String]| {
            let text = compose(self.source.text, names, prefix.as_slice(), span);
            // A token is at least a byte, special ones aside: short texts need no count.
            text.len() + SPECIAL_TOKENS <= limit.max_tokens()
                || limit.count_tokens(&text) <= limit.max_tokens()
        };
        let least = match names.last() {
            Some(last) if limit.count_tokens(last) <= limit.max_tokens() / 2 => 1,
            _ => 0,
        };
        let kept = (least..=all)
            .rev()
            .find(|&kept| fits(names.get((all - kept) as usize..).unwrap_or_default()))?;
        Some(kept)
    }

    /// Title and headings of a path.
    fn names(&self, path: &[u32]) -> Vec<String> {
        let headings = path.iter().filter_map(|&at| self.source.outline.headings.get(at as usize));
        let headings: Vec<String> = headings.map(|heading| heading.text.clone()).collect();
        names(self.source.title, &headings)
    }

    fn warn(&self, warning: String) {
        self.warnings.borrow_mut().insert(warning);
    }

    // Look-ups.

    fn path(&self, section: usize) -> Vec<u32> {
        self.sections.get(section).map(|s| s.path.clone()).unwrap_or_default()
    }

    fn own(&self, section: usize) -> Option<&Content> {
        self.by_section.get(section).copied().flatten().and_then(|at| self.content.get(at))
    }

    /// The bytes of a content, rules at its edges dropped.
    fn content_span(&self, content: &Content) -> Option<Span> {
        let blocks = self.source.outline.blocks.get(content.blocks.clone()).unwrap_or_default();
        blocks.iter().filter(|b| b.kind != BlockKind::Rule).map(|b| b.span).reduce(Span::hull)
    }

    /// The bytes of a section with all below it; `None` where it has no content.
    fn hull(&self, section: usize) -> Option<Span> {
        let own = self.own(section).and_then(|content| self.content_span(content));
        let below = self.sections.get(section).map(|s| s.children.as_slice()).unwrap_or_default();
        // Contents are in document order, so the first and the last child that have any give the hull.
        let first = below.iter().find_map(|&child| self.hull(child));
        let last = below.iter().rev().find_map(|&child| self.hull(child));
        [own, first, last].into_iter().flatten().reduce(Span::hull)
    }

    // From drafts to the tree: rule 7 and folding.

    fn leaf(
        &self,
        span: Span,
        prefix: Vec<Span>,
        path: Vec<u32>,
        embedded_headings: u32,
        top_level: Option<u32>,
        cut: bool,
    ) -> Draft {
        if (embedded_headings as usize) < self.names(&path).len() {
            self.warn("heading paths were shortened to fit the embedder".to_owned());
        }
        Draft::Leaf(LeafDraft { span, prefix, path, embedded_headings, top_level, cut })
    }

    /// Groups runs of leaves that are long together into parts, by the largest level first.
    fn parts(&self, drafts: Vec<Draft>, levels: &[usize]) -> Vec<Draft> {
        let Some((&level, smaller)) = levels.split_first() else { return drafts };
        let mut grouped = Vec::with_capacity(drafts.len());
        let mut run: Vec<Draft> = Vec::new();
        for draft in drafts {
            if let Draft::Leaf(_) = draft {
                run.push(draft);
            } else {
                grouped.extend(self.parts_of_run(std::mem::take(&mut run), level, smaller));
                grouped.push(draft);
            }
        }
        grouped.extend(self.parts_of_run(run, level, smaller));
        grouped
    }

    fn parts_of_run(&self, run: Vec<Draft>, level: usize, smaller: &[usize]) -> Vec<Draft> {
        let spans: Vec<Span> = run.iter().filter_map(Draft::hull).collect();
        let size = |i: usize, j: usize| match (spans.get(i), spans.get(j.wrapping_sub(1))) {
            (Some(first), Some(last)) => self.ruler.size(first.hull(*last)),
            _ => 0,
        };
        if run.len() < 2 || size(0, run.len()) <= level {
            return self.parts(run, smaller);
        }
        let groups = balance(run.len(), level, &size);
        let mut leaves = run.into_iter();
        let mut drafts = Vec::new();
        for group in groups {
            let members: Vec<Draft> = leaves.by_ref().take(group.len()).collect();
            let path = match members.first() {
                Some(Draft::Leaf(leaf)) => common_path(leaf, &members),
                _ => Vec::new(),
            };
            if members.len() < 2 {
                drafts.extend(members);
            } else {
                drafts.push(Draft::Inner {
                    kind: NodeKind::Part,
                    path,
                    children: self.parts(members, smaller),
                });
            }
        }
        drafts
    }

    fn assemble(&self, drafts: Vec<Draft>) -> Tree {
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

/// Cuts the text of one section into pieces.
struct Cutter<'b, 'a> {
    builder: &'b Builder<'a>,
    path: &'b [u32],
    /// Where the section's own text starts: the overlap does not go further back.
    start: usize,
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
            let room =
                members.iter().map(|unit| self.capacity(unit.prefix)).min().unwrap_or_default();
            let embeds = |span: Span, at: usize| self.embeds(span, prefix(at)).is_some();
            let groups = self.builder.groups(&spans, room, &embeds);
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

    fn is_small(&self, unit: &Unit<'a>) -> bool {
        self.builder.ruler.size(unit.span) <= self.capacity(unit.prefix)
            && self.embeds(unit.span, unit.prefix).is_some()
    }

    /// The target less the prefix and the overlap.
    fn capacity(&self, prefix: Option<Span>) -> usize {
        let prefix = prefix.map_or(0, |span| self.builder.ruler.size(span));
        self.builder.capacity().saturating_sub(prefix).max(1)
    }

    fn embeds(&self, span: Span, prefix: Option<Span>) -> Option<u32> {
        let start = self.builder.with_overlap(self.start, span.start);
        self.builder.embeds(Span::new(start, span.end), prefix, self.path)
    }

    fn push(&mut self, span: Span, prefix: Option<Span>) {
        let headings = self.embeds(span, prefix).unwrap_or_default();
        let start = if self.pieces.is_empty() {
            span.start
        } else {
            self.builder.with_overlap(self.start, span.start)
        };
        self.pieces.push(CutPiece { span: Span::new(start, span.end), prefix, headings });
    }
}

fn block_unit(block: &Block) -> Unit<'_> {
    Unit { span: block.span, prefix: None, inner: Inner::Block(block) }
}

fn led<'a>(lead: Vec<Unit<'a>>, body: Unit<'a>) -> Unit<'a> {
    let span = lead.iter().map(|unit| unit.span).fold(body.span, Span::hull);
    let prefix = lead.first().map_or(body.prefix, |first| first.prefix);
    Unit { span, prefix, inner: Inner::Led(lead, Box::new(body)) }
}

fn trailed<'a>(body: Unit<'a>, tail: Vec<Unit<'a>>) -> Unit<'a> {
    let span = tail.iter().map(|unit| unit.span).fold(body.span, Span::hull);
    Unit { span, prefix: body.prefix, inner: Inner::Trailed(Box::new(body), tail) }
}

/// Joins what must not stand alone to its neighbour: headings, comments and definitions to the next body, or to the one
/// before at the end; the introduction of a list to the list. Rules at the edges are dropped.
fn glued<'a>(units: Vec<Unit<'a>>, text: &str) -> Vec<Unit<'a>> {
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
    let mut units = units.into_iter().filter(|unit| kind(unit) != Some(BlockKind::Rule)).peekable();
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

/// The headings that all of these leaves are under.
fn common_path(first: &LeafDraft, members: &[Draft]) -> Vec<u32> {
    let mut common = first.path.clone();
    for member in members {
        if let Draft::Leaf(leaf) = member {
            let same = common.iter().zip(&leaf.path).take_while(|(a, b)| a == b).count();
            common.truncate(same);
        }
    }
    common
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::measure;
    use crate::offsets::TokenCounter;
    use crate::outline::{Format, parse};
    use crate::span::is_blank;
    use proptest::prelude::*;

    /// A token is a word with the blanks before it.
    struct Words;
    impl TokenCounter for Words {
        fn name(&self) -> &'static str {
            "words"
        }
        fn count(&self, text: &str) -> usize {
            text.split_whitespace().count()
        }
        fn starts(&self, text: &str) -> Vec<u32> {
            let ends =
                words(text, Span::new(0, text.len())).into_iter().map(|word| word.end as u32);
            let mut starts: Vec<u32> = std::iter::once(0).chain(ends).collect();
            starts.pop_if(|start| *start as usize >= text.len());
            starts
        }
    }

    /// An embedder that takes so many words.
    struct Limit(usize);
    impl EmbedLimit for Limit {
        fn max_tokens(&self) -> usize {
            self.0
        }
        fn count_tokens(&self, text: &str) -> usize {
            text.split_whitespace().count() + 2
        }
    }

    fn build_with(
        text: &str,
        config: &LeafConfig,
        limit: Option<&dyn EmbedLimit>,
    ) -> (Tree, Vec<String>) {
        let body = Span::new(0, text.len());
        let outline = parse(text, body, Format::Markdown);
        let offsets = measure(text, &outline, &Words);
        let source = Source { text, body, title: "doc", outline: &outline };
        let ruler = Ruler::Tokens(&offsets.tokens);
        build(source, &ruler, &ruler, config, limit)
    }

    fn tree(text: &str, target: usize) -> Tree {
        build_with(
            text,
            &LeafConfig { target, levels: vec![4 * target], ..LeafConfig::default() },
            None,
        )
        .0
    }

    /// The leaves as `path: text`, line feeds as `/`.
    fn check(text: &str, target: usize, expected: &[&str]) {
        let tree = tree(text, target);
        let found: Vec<String> = tree
            .leaves
            .iter()
            .map(|leaf| {
                let path = tree.heading_texts(&leaf.path).join(">");
                format!("{path}: {}", slice(text, leaf.span).replace('\n', "/"))
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_section_that_fits_is_one_leaf_with_its_own_path() {
        check("# T\n\n## A\n\na\n\n### B\n\nb\n", 20, &["T>A: # T//## A//a//### B//b"]);
    }

    #[test]
    fn top_level_sections_are_never_joined() {
        check(
            "# T\n\nt\n\n## A\n\na\n\n## B\n\nb\n",
            1000,
            &["T: # T//t", "T>A: ## A//a", "T>B: ## B//b"],
        );
        check("# A\n\na\n\n# B\n\nb\n", 1000, &["A: # A//a", "B: # B//b"]);
        check("## A\n\na\n\n# T\n\nt\n", 1000, &["A: ## A//a", "T: # T//t"]);
    }

    #[test]
    fn small_siblings_are_grouped_under_their_parents_path() {
        check(
            "## A\n\n### a\n\n1 2 3\n\n### b\n\n1 2 3\n\n### c\n\n1 2 3\n\n### d\n\n1 2 3\n",
            12,
            &["A: ## A//### a//1 2 3//### b//1 2 3", "A: ### c//1 2 3//### d//1 2 3"],
        );
    }

    #[test]
    fn a_group_of_one_keeps_its_own_path() {
        check(
            "## A\n\n### a\n\n1 2 3\n\n### b\n\n1 2 3 4 5 6 7 8\n\n### c\n\n1 2\n",
            8,
            &["A>a: ## A//### a//1 2 3", "A>b: ### b//1 2 3", "A>b: 4 5 6 7 8", "A>c: ### c//1 2"],
        );
    }

    #[test]
    fn a_heading_without_body_joins_the_next_content_of_its_parent() {
        check(
            "# T\n\n## A\n\n### x\n\n### y\n\ny\n\n## B\n\nb\n",
            9,
            &["T>A: # T//## A//### x//### y//y", "T>B: ## B//b"],
        );
    }

    #[test]
    fn the_last_heading_without_body_joins_the_content_before() {
        check("## A\n\na\n\n### x\n\n## B\n\nb\n", 9, &["A: ## A//a//### x", "B: ## B//b"]);
        check("## A\n\na\n\n## B\n", 9, &["A: ## A//a//## B"]);
        check("## A\n\n### x\n\n## B\n\nb\n", 9, &["B: ## A//### x//## B//b"]);
    }

    #[test]
    fn rules_and_comments_are_no_body() {
        check(
            "## A\n\n---\n\n<!-- c -->\n\n## B\n\nb\n\n---\n",
            9,
            &["B: ## A//---//<!-- c -->//## B//b"],
        );
        check("---\n\na\n\n---\n\n# B\n\nb\n", 9, &[": a", "B: # B//b"]);
    }

    #[test]
    fn a_document_of_headings_is_one_leaf() {
        check("# A\n\n## B\n\n## C\n", 2, &[": # A//## B//## C"]);
        let tree = tree("# A\n\n## B\n", 2);
        assert!(!tree.leaves[0].has_body);
        for text in ["# TODO\n", "Some text.\n\n# Title\n", "# Title\n\n<!-- c -->\n"] {
            let tree = super::tests::tree(text, 200);
            assert_eq!((tree.nodes.len(), tree.leaves.len()), (1, 1), "{text:?}");
        }
        check("\n \n", 9, &[]);
        check("---\n", 9, &[]);
    }

    #[test]
    fn blocks_before_sentences_before_words() {
        check(
            "1 2 3\n\n4 5 6\n\n7 8. 9 10 11 12 13. 14.\n",
            6,
            &[": 1 2 3//4 5 6", ": 7 8.", ": 9 10 11 12 13. 14."],
        );
        check("1 2 3 4 5 6 7\n", 3, &[": 1", ": 2 3 4", ": 5 6 7"]);
    }

    #[test]
    fn a_heading_stays_with_the_text_that_it_heads() {
        check("## A\n\n1 2 3 4 5 6 7 8 9 10\n", 5, &["A: ## A//1 2", "A: 3 4 5 6", "A: 7 8 9 10"]);
    }

    #[test]
    fn a_list_keeps_its_introduction() {
        check(
            "a b c d\n\nsuch as:\n\n- 1 2\n- 3 4\n- 5 6\n",
            8,
            &[": a b c d", ": such as://- 1 2", ": - 3 4/- 5 6"],
        );
    }

    #[test]
    fn table_parts_carry_the_header_and_code_parts_the_fence() {
        let table = "|a|b|\n|-|-|\n| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |\n| 7 | 8 |\n";
        let code = "```rust\na 1 2 3\nb 1 2 3\nc 1 2 3\nd 1 2 3\n```\n";
        for (text, target, prefix) in [(table, 13, "|a|b|\n|-|-|"), (code, 9, "```rust")] {
            let found = tree(text, target);
            assert!(found.leaves.len() > 1, "{:?}", found.leaves);
            assert!(found.leaves[0].prefix.is_empty());
            for leaf in &found.leaves[1..] {
                assert_eq!(
                    leaf.prefix.iter().map(|&span| slice(text, span)).collect::<Vec<_>>(),
                    [prefix]
                );
            }
        }
    }

    #[test]
    fn long_runs_of_leaves_get_parts_of_several() {
        let text = (0..40).map(|n| format!("w{n} x y z.")).collect::<Vec<_>>().join("\n\n");
        let found = tree(&text, 4);
        let parts: Vec<_> = found
            .nodes
            .iter()
            .filter(|n| n.kind == NodeKind::Part)
            .map(|n| n.children.len())
            .collect();
        assert_eq!(parts, [4; 10]);
        assert!(found.nodes.iter().all(|node| node.children.len() != 1));
    }

    #[test]
    fn overlap_repeats_the_end_of_the_leaf_before() {
        let config = LeafConfig { target: 6, overlap: 2, ..LeafConfig::default() };
        let text = "1 2. 3 4. 5 6. 7 8. 9 10.";
        let (tree, _) = build_with(text, &config, None);
        let found: Vec<_> = tree.leaves.iter().map(|leaf| slice(text, leaf.span)).collect();
        assert_eq!(found, ["1 2.", "1 2. 3 4. 5 6.", "5 6. 7 8. 9 10."]);
    }

    #[test]
    fn the_path_gives_way_before_the_leaf_is_cut() {
        let text = "# one two three\n\n## four five\n\na b c d e f\n";
        let shorter = build_with(text, &LeafConfig::default(), Some(&Limit(18)));
        assert_eq!((shorter.0.leaves.len(), shorter.0.leaves[0].embedded_headings), (1, 1));
        assert!(!shorter.1.is_empty());
        let cut = build_with(text, &LeafConfig::default(), Some(&Limit(12)));
        assert!(cut.0.leaves.len() > 1);
    }

    #[test]
    fn what_a_configuration_gets_wrong_is_named() {
        let check = |config: LeafConfig, words: &str| {
            assert_eq!(config.check().unwrap_err().to_string(), words);
        };
        let config = LeafConfig::default();
        check(
            LeafConfig { overlap: 200, ..config.clone() },
            "`leaf.overlap` is 200, want less than `leaf.target`, which is 200",
        );
        check(
            LeafConfig { levels: vec![512, 2048], ..config.clone() },
            "`leaf.levels` holds 2048 behind 512, want falling sizes above 0",
        );
        assert_eq!(config.check(), Ok(()));
    }

    /// Markdown with every kind of block, in random order.
    fn any_markdown() -> impl Strategy<Value = String> {
        let words = "[a-eé漢]{1,9}( [a-eé漢🙂]{1,9}){0,12}[.!:]?";
        let block = prop_oneof![
            4 => (1usize..5, words).prop_map(|(level, text)| format!("{} {text}", "#".repeat(level))),
            6 => words.prop_map(|text| text),
            2 => prop::collection::vec(words, 1..6).prop_map(|items| items.join("\n- ")).prop_map(|items| format!("- {items}")),
            1 => prop::collection::vec(words, 1..6).prop_map(|rows| format!("| x |\n|---|\n| {} |", rows.join(" |\n| "))),
            1 => prop::collection::vec(words, 1..6).prop_map(|lines| format!("```\n{}\n```", lines.join("\n"))),
            1 => words.prop_map(|text| format!("> {text}\n>\n> - {text}\n>   - {text}")),
            1 => Just("---".to_owned()),
            1 => Just("<!-- # c -->".to_owned()),
            1 => Just("[x]: http://e".to_owned()),
            1 => Just("<div>\n<h2>h</h2>\ntext\n</div>".to_owned()),
            1 => "[#>|`\\-\\[\\]: \\t\na-c\u{a0}]{0,20}".prop_map(|text| text),
        ];
        prop::collection::vec(block, 0..24).prop_map(|blocks| blocks.join("\n\n"))
    }

    proptest! {
        #![proptest_config(ProptestConfig { max_shrink_iters: 3000, ..ProptestConfig::default() })]
        #[test]
        fn every_tree_keeps_its_promises(
            text in any_markdown(),
            target in 1usize..40,
            overlap in 0usize..3,
            limit in prop::option::of(6usize..40),
        ) {
            let overlap = overlap.min(target - 1);
            let config = LeafConfig { target, overlap, levels: vec![8 * target, 3 * target], keep_whole: 0 };
            let limit = limit.map(Limit);
            let (tree, _) = build_with(&text, &config, limit.as_ref().map(|l| l as &dyn EmbedLimit));
            promises(&text, &tree, &config, limit.as_ref());
        }
    }

    fn promises(text: &str, tree: &Tree, config: &LeafConfig, limit: Option<&Limit>) {
        let rules: SpanSet = tree.dropped_rules.iter().copied().collect();
        let mut at = 0;
        for leaf in &tree.leaves {
            let start = leaf.span.start;
            assert_eq!(leaf.span.trim(text), leaf.span, "blank edge in {text:?}");
            assert!(config.overlap > 0 || start >= at, "leaves overlap in {text:?}");
            if at < start {
                assert!(
                    rules.missing_from(Span::new(at, start)).iter().all(|&gap| is_blank(text, gap)),
                    "lost {:?} of {text:?}",
                    slice(text, Span::new(at, start))
                );
            }
            at = leaf.span.end;
            assert!(
                leaf.has_body || tree.leaves.len() == 1,
                "empty body {:?} of {text:?}",
                slice(text, leaf.span)
            );
            if let Some(limit) = limit {
                let embedded = embedded_text(text, "doc", tree, leaf);
                let single = slice(text, leaf.span).split_whitespace().count() == 1;
                assert!(
                    single || limit.count_tokens(&embedded) <= limit.max_tokens(),
                    "{embedded:?} is over {}",
                    limit.0
                );
            }
        }
        assert!(
            rules.missing_from(Span::new(at, text.len())).iter().all(|&gap| is_blank(text, gap)),
            "lost the end of {text:?}"
        );
        for (index, node) in tree.nodes.iter().enumerate() {
            assert_eq!(
                node.children.is_empty(),
                node.kind == NodeKind::Leaf,
                "{node:?} in {text:?}"
            );
            assert_ne!(node.children.len(), 1, "one child in {text:?}");
            let hull = node
                .children
                .iter()
                .map(|&child| tree.nodes[child as usize].span)
                .reduce(Span::hull);
            assert_eq!(hull.unwrap_or(node.span), node.span);
            for &child in &node.children {
                assert_eq!(tree.nodes[child as usize].parent, Some(index as u32));
            }
        }
        for top in tree.top_level.windows(2) {
            assert!(top[0].end <= top[1].start, "a leaf spans two top-level sections of {text:?}");
        }
    }
}
