//! Sections → leaves: whole sections that fit, groups of small siblings, and what is cut from large ones: rules 2, 3 and 4.
//!
//! Invariant: no leaf holds text of two top-level sections, and none holds text of two parents.

use super::draft::{Draft, LeafDraft};
use super::fit::Builder;
use super::lone_title;
use crate::span::Span;
use crate::tree::NodeKind;

impl Builder<'_> {
    /// The drafts under the root.
    pub(super) fn document(&self) -> Vec<Draft> {
        let Some(whole) =
            self.content.iter().filter_map(|c| self.content_span(c)).reduce(Span::hull)
        else {
            return Vec::new();
        };
        let title = self.title_section();
        if self.config.keep_whole > 0 && self.ruler.size(whole) <= self.config.keep_whole {
            let path = self.path(title.unwrap_or_default());
            if let Some(headings) = self.embeds(whole, None, path) {
                return vec![self.leaf(LeafDraft::whole(whole, path, headings))];
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
            .map(|content| self.split_content(content, self.path(section), None))
            .unwrap_or_default();
        drafts = self.parts(drafts, &self.config.levels);
        for &child in self.sections.get(section).map(|s| s.children.as_slice()).unwrap_or_default()
        {
            if Some(child) == title {
                let children = self.above_top_level(child, title, top_levels);
                if !children.is_empty() {
                    drafts.push(Draft::Inner {
                        kind: NodeKind::Section,
                        path: self.path(child).to_vec(),
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
            && let Some(headings) = self.fits(span, None, path, self.config.target)
        {
            return self.leaf(LeafDraft { top_level, ..LeafDraft::whole(span, path, headings) });
        }
        let children = self.parts(self.siblings(section, top_level), &self.config.levels);
        Draft::Inner { kind: NodeKind::Section, path: path.to_vec(), children }
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
            self.fits(span, None, self.path(child), self.config.target).is_some()
        };
        let mut drafts = Vec::new();
        let mut rest = children.as_slice();
        while let Some((&(_, child, own), behind)) = rest.split_first() {
            let run = rest.iter().take_while(|child| small(child)).count();
            if run == 0 {
                match self.own(child).filter(|_| own) {
                    Some(content) => drafts.extend(self.split_content(content, path, top_level)),
                    None => drafts.push(self.section(child, top_level)),
                }
                rest = behind;
                continue;
            }
            let (members, behind) = rest.split_at(run);
            let spans: Vec<Span> = members.iter().map(|&(span, ..)| span).collect();
            for group in self.groups(
                &spans,
                self.config.target,
                |_| 0,
                |span, _| self.embeds(span, None, path).is_some(),
            ) {
                let Some(members) = members.get(group) else { continue };
                let Some(span) = members.iter().map(|&(span, ..)| span).reduce(Span::hull) else {
                    continue;
                };
                // A group of one keeps its own path.
                let path = match members {
                    [(_, child, _)] => self.path(*child),
                    _ => path,
                };
                let headings = self.embeds(span, None, path).unwrap_or_default();
                let whole = LeafDraft::whole(span, path, headings);
                drafts.push(self.leaf(LeafDraft { top_level, ..whole }));
            }
            rest = behind;
        }
        drafts
    }
}
