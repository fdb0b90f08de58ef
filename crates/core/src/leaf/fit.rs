//! A span and what is shown around it → whether it fits a leaf and the embedder, and where neighbours that do not fit are cut.
//!
//! Invariant: what fits is what is embedded: title, path, prefix and leaf together.

use super::absorb::{Content, Section, absorb, hulls, sections, span_of};
use super::draft::{Draft, LeafDraft};
use super::{EmbedLimit, LeafConfig, Source, compose, names};
use crate::group::{balance, balance_into};
use crate::measure::Ruler;
use crate::span::{Span, slice};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;

/// Special tokens that a model may put around a text, at the most.
const SPECIAL_TOKENS: usize = 8;

pub(super) struct Builder<'a> {
    pub(super) source: Source<'a>,
    pub(super) ruler: &'a Ruler<'a>,
    pub(super) tokens: &'a Ruler<'a>,
    pub(super) config: &'a LeafConfig,
    pub(super) limit: Option<&'a dyn EmbedLimit>,
    pub(super) sections: Vec<Section>,
    pub(super) content: Vec<Content>,
    pub(super) by_section: Vec<Option<usize>>,
    /// For each section its bytes with all below it; `None` where it has no content.
    pub(super) hulls: Vec<Option<Span>>,
    pub(super) warnings: RefCell<BTreeSet<String>>,
}

impl<'a> Builder<'a> {
    /// Finds the sections of the source, and the text that belongs to each.
    pub(super) fn new(
        source: Source<'a>,
        ruler: &'a Ruler<'a>,
        tokens: &'a Ruler<'a>,
        config: &'a LeafConfig,
        limit: Option<&'a dyn EmbedLimit>,
    ) -> Builder<'a> {
        let sections = sections(source.outline);
        let (content, by_section) = absorb(source.outline, &sections);
        let hulls = hulls(source.outline, &sections, &content, &by_section);
        let warnings = RefCell::default();
        Builder {
            source,
            ruler,
            tokens,
            config,
            limit,
            sections,
            content,
            by_section,
            hulls,
            warnings,
        }
    }

    /// Cuts a run of neighbours into balanced groups, and halves those of which the embedder takes less than the target.
    /// A group of one is always taken. `prefix(i)` is the size of what is shown before a group that starts at item `i`.
    pub(super) fn groups(
        &self,
        spans: &[Span],
        capacity: usize,
        prefix: impl Fn(usize) -> usize,
        embeds: impl Fn(Span, usize) -> bool,
    ) -> Vec<Range<usize>> {
        let hull = |i: usize, j: usize| match (spans.get(i), spans.get(j.wrapping_sub(1))) {
            (Some(first), Some(last)) => first.hull(*last),
            _ => Span::default(),
        };
        let runs = self.ruler.runs(spans.iter().copied());
        let size = |i: usize, j: usize| prefix(i) + runs.size(i, j);
        let mut fitting = Vec::new();
        let mut waiting = balance(spans.len(), capacity, size);
        waiting.reverse();
        while let Some(group) = waiting.pop() {
            if group.len() == 1 || embeds(hull(group.start, group.end), group.start) {
                fitting.push(group);
                continue;
            }
            let halves =
                balance_into(group.len(), 2, |i, j| size(group.start + i, group.start + j));
            // Items inside one token have together the size of one: cut them in the middle.
            let middle = halves.first().filter(|_| halves.len() == 2);
            let middle = group.start + middle.map_or(group.len() / 2, |half| half.end);
            waiting.push(middle..group.end);
            waiting.push(group.start..middle);
        }
        fitting
    }

    /// Whether a prefix leaves the embedder and the leaf enough room; warns where it does not.
    pub(super) fn short_enough(&self, what: &str, prefix: Span) -> bool {
        let size = self.ruler.size(prefix);
        let (counted, limit) = match self.limit {
            Some(limit) => {
                (limit.count_tokens(slice(self.source.text, prefix)), limit.max_tokens())
            }
            None => (size, self.config.target),
        };
        if counted > limit / 4 {
            self.warn(format!("a {what} of {counted} tokens is left out of the parts behind the first one: more than a quarter of {limit}"));
        } else if size > self.capacity() / 2 {
            let target = self.config.target;
            self.warn(format!("a {what} of {size} tokens is left out of the parts behind the first one: a leaf has {target}"));
        }
        counted <= limit / 4 && size <= self.capacity() / 2
    }

    /// What a leaf may hold where text is cut, overlap aside.
    pub(super) fn capacity(&self) -> usize {
        self.config.target - self.config.overlap.min(self.config.target - 1)
    }

    /// How many names can be embedded with the span, where it fits both the target and the embedder.
    pub(super) fn fits(
        &self,
        span: Span,
        prefix: Option<Span>,
        path: &[u32],
        target: usize,
    ) -> Option<u32> {
        if self.ruler.size(span) > target {
            return None;
        }
        self.embeds(span, prefix, path)
    }

    /// How many names of the title and path, counted from the end, the embedder takes with the span: all of them, else
    /// fewer, at least the last one unless it alone takes half the limit. `None` where the span does not fit.
    pub(super) fn embeds(&self, span: Span, prefix: Option<Span>, path: &[u32]) -> Option<u32> {
        let names = self.names(path);
        let all = names.len() as u32;
        let Some(limit) = self.limit else { return Some(all) };
        let fits = |names: &[&str]| {
            let text = compose(self.source.text, names, prefix.as_slice(), span);
            // A token is at least a byte, special ones aside: short texts need no count.
            text.len() + SPECIAL_TOKENS <= limit.max_tokens()
                || limit.count_tokens(&text) <= limit.max_tokens()
        };
        if fits(&names) {
            return Some(all);
        }
        let least = self.least_names(&names).len() as u32;
        (least..all)
            .rev()
            .find(|&kept| fits(names.get((all - kept) as usize..).unwrap_or_default()))
    }

    /// The names that are embedded whatever else gives way: the last one, unless it alone takes half the limit.
    fn least_names<'n>(&self, names: &'n [&'a str]) -> &'n [&'a str] {
        let short = |name: &str| {
            self.limit.is_none_or(|limit| limit.count_tokens(name) <= limit.max_tokens() / 2)
        };
        match names.last() {
            Some(last) if short(last) => names.get(names.len() - 1..).unwrap_or_default(),
            _ => &[],
        }
    }

    /// How many bytes of text the embedder surely takes under a path, so that tiny pieces need no count.
    pub(super) fn spare_bytes(&self, path: &[u32]) -> usize {
        let Some(limit) = self.limit else { return usize::MAX };
        let least = self.least_names(&self.names(path)).join(" > ");
        limit.max_tokens().saturating_sub(limit.count_tokens(&least) + SPECIAL_TOKENS)
    }

    /// Title and headings of a path.
    pub(super) fn names(&self, path: &[u32]) -> Vec<&'a str> {
        names(self.source.title, &self.source.outline.headings, path)
    }

    pub(super) fn warn(&self, warning: String) {
        self.warnings.borrow_mut().insert(warning);
    }

    pub(super) fn path(&self, section: usize) -> &[u32] {
        self.sections.get(section).map(|s| s.path.as_slice()).unwrap_or_default()
    }

    pub(super) fn own(&self, section: usize) -> Option<&Content> {
        self.by_section.get(section).copied().flatten().and_then(|at| self.content.get(at))
    }

    /// The bytes of a content.
    pub(super) fn content_span(&self, content: &Content) -> Option<Span> {
        span_of(self.source.outline, content)
    }

    /// The bytes of a section with all below it; `None` where it has no content.
    pub(super) fn hull(&self, section: usize) -> Option<Span> {
        self.hulls.get(section).copied().flatten()
    }

    /// Takes a leaf as it is, and says so where headings of its path were left out.
    pub(super) fn leaf(&self, leaf: LeafDraft) -> Draft {
        if (leaf.embedded_headings as usize) < self.names(&leaf.path).len() {
            self.warn("heading paths were shortened to fit the embedder".to_owned());
        }
        Draft::Leaf(leaf)
    }
}
