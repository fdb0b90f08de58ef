//! Outline → sections, and for each the text of its own with the fragments that it absorbs: rule 1.
//!
//! Invariant: contents are in document order and disjoint, and no fragment leaves its parent.

use crate::outline::{Block, BlockKind, Outline};
use crate::span::Span;
use std::ops::Range;

/// A heading with what stands under it; the first one is the root.
#[derive(Debug, Default)]
pub(super) struct Section {
    /// Headings above and its own, outermost first.
    pub(super) path: Vec<u32>,
    pub(super) level: u8,
    pub(super) parent: Option<usize>,
    pub(super) children: Vec<usize>,
    /// Its own blocks, its heading first, up to the next heading.
    pub(super) blocks: Range<usize>,
}

pub(super) fn sections(outline: &Outline) -> Vec<Section> {
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
pub(super) struct Content {
    pub(super) blocks: Range<usize>,
}

/// Gives every stretch without a body to the content that takes it: the next one inside its own parent, else the one
/// before it there. Returns the contents in document order, and for each section the index of its own.
pub(super) fn absorb(
    outline: &Outline,
    sections: &[Section],
) -> (Vec<Content>, Vec<Option<usize>>) {
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

/// The bytes of a content, rules at its edges dropped.
pub(super) fn span_of(outline: &Outline, content: &Content) -> Option<Span> {
    let blocks = outline.blocks.get(content.blocks.clone()).unwrap_or_default();
    let visible = |block: &&Block| block.kind != BlockKind::Rule;
    let (first, last) = (blocks.iter().find(visible)?, blocks.iter().rfind(visible)?);
    Some(first.span.hull(last.span))
}

/// For each section the bytes of it with all below it; `None` where it has no content.
pub(super) fn hulls(
    outline: &Outline,
    sections: &[Section],
    contents: &[Content],
    by_section: &[Option<usize>],
) -> Vec<Option<Span>> {
    let own = |content: &Option<usize>| span_of(outline, contents.get((*content)?)?);
    let mut hulls: Vec<Option<Span>> = by_section.iter().map(own).collect();
    for (at, section) in sections.iter().enumerate().rev() {
        let below = hulls.get(at).copied().flatten();
        if let Some(above) = section.parent.and_then(|parent| hulls.get_mut(parent)) {
            *above = [*above, below].into_iter().flatten().reduce(Span::hull);
        }
    }
    hulls
}
