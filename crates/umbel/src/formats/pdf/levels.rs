//! Headings, and the file's outline → the levels of the headings.
//!
//! Invariant: a level is from 1 to 6; the outline's goes before what size and style say.

use super::blocks::{Block, Source, plain};
use super::lines::words;
use lopdf::{Document, Object, ObjectId};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An entry of the file's outline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bookmark {
    level: usize,
    title: String,
    page: usize,
}

/// The entries of the file's outline, in its order; none where the outline leads back to itself, or cannot be read.
pub(super) fn outline(document: &Document) -> Vec<Bookmark> {
    if leads_back(document) {
        return Vec::new();
    }
    let toc = catch_unwind(AssertUnwindSafe(|| document.get_toc()));
    let entries = toc.ok().and_then(Result::ok).map(|toc| toc.toc).unwrap_or_default();
    entries
        .into_iter()
        .map(|e| Bookmark { level: e.level, title: words(&e.title), page: e.page })
        .collect()
}

/// Whether an object of the outline, or of the names that it refers to, is reached twice: the library would walk on for ever,
/// or in time exponential in the depth.
fn leads_back(document: &Document) -> bool {
    let Ok(catalog) = document.catalog() else { return false };
    let mut seen: BTreeSet<ObjectId> = BTreeSet::new();
    let mut ahead: Vec<&Object> = [b"Outlines".as_slice(), b"Dests", b"Names"]
        .iter()
        .filter_map(|key| catalog.get(key).ok())
        .collect();
    while let Some(object) = ahead.pop() {
        let found = match object {
            Object::Reference(id) if !seen.insert(*id) => return true,
            Object::Reference(id) => document.get_object(*id).ok(),
            direct => Some(direct),
        };
        match found {
            Some(Object::Array(kids)) => ahead.extend(kids),
            Some(Object::Dictionary(node)) => {
                let links = [b"First".as_slice(), b"Next", b"Kids", b"Dests"];
                ahead.extend(links.iter().filter_map(|link| node.get(link).ok()));
            }
            _ => {}
        }
    }
    false
}

/// Gives every heading its level: the outline's where it is listed, below the listed one above it where it is not.
///
/// Without an outline, bold headings lie below those that are larger, and italic ones below the bold.
pub(super) fn rank_headings(pages: &mut [Vec<Block>], outline: &[Bookmark]) {
    let mut deepest: BTreeMap<Source, u8> = BTreeMap::from([(Source::Size, 1)]);
    for block in pages.iter().flatten() {
        if let Block::Heading(level, source, _) = block {
            let level = (*level).min(4);
            deepest
                .entry(*source)
                .and_modify(|deepest| *deepest = level.max(*deepest))
                .or_default();
        }
    }
    let largest = deepest[&Source::Size];
    let levels: BTreeMap<Source, u8> = deepest.into_keys().zip(largest..).collect();
    for block in pages.iter_mut().flatten() {
        if let Block::Heading(level, source @ Source::Style(..), _) = block {
            *level = levels[source].min(6);
        }
    }
    let mut listed: BTreeMap<(usize, usize), u8> = BTreeMap::new();
    for bookmark in outline {
        let Some(page) = bookmark.page.checked_sub(1).and_then(|n| pages.get_mut(n)) else {
            continue;
        };
        let taken = |at: usize| listed.contains_key(&(bookmark.page, at));
        let Some(at) = (0..page.len()).find(|&at| !taken(at) && names(&page[at], &bookmark.title))
        else {
            continue;
        };
        let level = bookmark.level.clamp(1, 6) as u8;
        let (Block::Heading(_, _, text) | Block::Text(text)) = &page[at];
        page[at] = Block::Heading(level, Source::Size, plain(text));
        listed.insert((bookmark.page, at), level);
    }
    let mut above = None;
    for (number, page) in (1..).zip(pages) {
        for (at, block) in page.iter_mut().enumerate() {
            let Block::Heading(level, _, _) = block else { continue };
            match (listed.get(&(number, at)), above) {
                (Some(&own), _) => above = Some(own),
                (None, Some(above)) => *level = (above + 1).max(*level).min(6),
                (None, None) => {}
            }
        }
    }
}

/// Whether a block is the heading that an entry of the outline names, with or without its number.
fn names(block: &Block, title: &str) -> bool {
    let (Block::Heading(_, _, text) | Block::Text(text)) = block;
    let key = |text: &str| -> String {
        let unnumbered =
            text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ' ');
        unnumbered.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let wanted = key(title);
    !wanted.is_empty() && text.len() <= 2 * title.len() + 16 && key(text) == wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::pdf::blocks::Rank;
    use crate::formats::pdf::lines::Style;

    #[test]
    fn bold_headings_lie_below_larger_ones_and_italic_ones_below_the_bold() {
        let heading = |level, source| Block::Heading(level, source, "Pumps".to_owned());
        let style = |style| heading(0, Source::Style(style, Rank::Unnumbered));
        let mut pages = [vec![
            heading(1, Source::Size),
            heading(2, Source::Size),
            style(Style::Italic),
            style(Style::Bold),
        ]];
        rank_headings(&mut pages, &[]);
        let levels: Vec<_> = pages[0]
            .iter()
            .map(|block| match block {
                Block::Heading(level, ..) => *level,
                Block::Text(_) => 0,
            })
            .collect();
        assert_eq!(levels, [1, 2, 4, 3]);
    }

    #[test]
    fn an_entry_names_a_heading_with_or_without_its_number() {
        let check = |text: &str, title: &str, expected: bool| {
            assert_eq!(names(&Block::Text(text.to_owned()), title), expected, "{text}");
        };
        check("2.1 Pumps", "Pumps", true);
        check("PUMPS", "2 Pumps", true);
        check("Pumps and valves", "Pumps", false);
        check("12", "12", false);
    }
}
