//! Pieces of text with their fonts and places → lines, and those of them that stand out as headings.
//!
//! Invariant: a line is in the plainest style of its pieces, and a heading is never in the style of most of its page.

use pdf_inspector::TextItem;
use pdf_inspector::types::ItemType;
use std::collections::BTreeMap;

/// The longest heading that is known by its style alone, in words.
const HEADING_WORDS: usize = 24;

/// How often a text in bold is a heading: what comes more often names the columns of tables.
const HEADING_REPEATS: usize = 3;

/// How a line stands out from its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Style {
    Bold,
    BoldItalic,
    Italic,
    Plain,
}

/// A line of a page, or the part of it between two wide gaps.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) style: Style,
    pub(super) size: f32,
    pub(super) end: f32,
    pub(super) y: f32,
}

/// The lines of each page, in the order in which the file draws them.
pub(super) fn styled_lines(items: &[TextItem]) -> BTreeMap<u32, Vec<Line>> {
    let mut pages: BTreeMap<u32, Vec<Line>> = BTreeMap::new();
    for item in items {
        if !matches!(item.item_type, ItemType::Text) || item.text.trim().is_empty() {
            continue;
        }
        let lines = pages.entry(item.page).or_default();
        let style = style_of(item);
        let y = item.y - item.baseline_shift;
        match lines.last_mut() {
            Some(line)
                if (line.y - y).abs() < item.font_size / 3.0
                    && item.x > line.end - item.font_size
                    && item.x < line.end + gap_in_ems(&line.text) * item.font_size =>
            {
                let apart = item.x > line.end + 0.15 * item.font_size;
                if apart && !line.text.ends_with(' ') && !item.text.starts_with(' ') {
                    line.text.push(' ');
                }
                line.text.push_str(&item.text);
                line.end = item.x + item.width;
                line.style = line.style.max(style);
            }
            _ => lines.push(Line {
                text: item.text.clone(),
                style,
                size: item.font_size,
                end: item.x + item.width,
                y,
            }),
        }
    }
    pages
}

/// How far apart the words of a line may be: a heading's number often stands before a tab.
fn gap_in_ems(text: &str) -> f32 {
    let is_number = text.len() < 10 && text.contains(|c: char| c.is_ascii_digit());
    if is_number { 6.0 } else { 2.0 }
}

fn style_of(item: &TextItem) -> Style {
    // TeX names its bold faces without the word: `CMBX10`, `SFBX1000`, `NimbusRomNo9L-Medi`.
    let is_bold = item.is_bold || item.font.contains("BX1") || item.font.ends_with("-Medi");
    match (is_bold, item.is_italic) {
        (true, false) => Style::Bold,
        (true, true) => Style::BoldItalic,
        (false, true) => Style::Italic,
        (false, false) => Style::Plain,
    }
}

/// The headings of each page that their style alone shows.
pub(super) fn heading_lines(
    pages: &BTreeMap<u32, Vec<Line>>,
) -> BTreeMap<u32, Vec<(Style, String)>> {
    let mut found: BTreeMap<u32, Vec<(Style, String)>> =
        pages.iter().map(|(&number, lines)| (number, page_headings(lines))).collect();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, text) in found.values().flatten() {
        *counts.entry(text.clone()).or_default() += 1;
    }
    for headings in found.values_mut() {
        headings.retain(|(_, text)| counts[text] <= HEADING_REPEATS);
    }
    found
}

/// The texts of a page that stand on lines of their own in bold or italic among plain ones, lines of one heading joined.
fn page_headings(lines: &[Line]) -> Vec<(Style, String)> {
    let length = |style| -> usize {
        lines.iter().filter(|line| line.style == style).map(|line| line.text.len()).sum()
    };
    let all: usize = lines.iter().map(|line| line.text.len()).sum();
    let body_size = body_size(lines);
    let mut found = Vec::new();
    for style in [Style::Bold, Style::BoldItalic, Style::Italic] {
        if length(style) * 3 > all {
            continue;
        }
        let mut group: Vec<&Line> = Vec::new();
        for line in lines.iter().map(Some).chain([None]) {
            // The heads of a table are often bold too, and small.
            let goes_on =
                line.is_some_and(|line| line.style == style && line.size >= 0.95 * body_size);
            let follows = |line: &Line| {
                group.last().is_some_and(|last| {
                    let gap = last.y - line.y;
                    0.0 < gap && gap < 1.5 * last.size && (last.size - line.size).abs() < 0.5
                })
            };
            if !group.is_empty() && line.is_none_or(|line| !goes_on || !follows(line)) {
                let text =
                    words(&group.iter().map(|l| l.text.as_str()).collect::<Vec<_>>().join(" "));
                if is_title(&text) {
                    found.push((style, text));
                }
                // Two headings may follow each other without a gap.
                if group.len() > 1 {
                    let single = group.iter().map(|line| words(&line.text));
                    found.extend(single.filter(|text| is_title(text)).map(|text| (style, text)));
                }
                group.clear();
            }
            if let Some(line) = line.filter(|_| goes_on) {
                group.push(line);
            }
        }
    }
    found
}

/// The size of most of a page's text.
pub(super) fn body_size(lines: &[Line]) -> f32 {
    let mut lengths: BTreeMap<i32, usize> = BTreeMap::new();
    for line in lines {
        *lengths.entry((line.size * 10.0).round() as i32).or_default() += line.text.len();
    }
    lengths.iter().max_by_key(|&(_, length)| length).map_or(0.0, |(&size, _)| size as f32 / 10.0)
}

/// Whether a text in bold may be a heading: a few words, no figures only, no sentence.
fn is_title(text: &str) -> bool {
    let n_letters = text.chars().filter(|c| c.is_alphabetic()).count();
    text.split(' ').count() <= HEADING_WORDS
        && n_letters >= 3
        && n_letters * 2 > text.chars().filter(|c| !c.is_whitespace()).count()
        && !text.starts_with('(')
        && !text.ends_with(['.', ',', ';', ':', '-', '—', '('])
        && text.chars().find(|c| c.is_alphabetic()).is_some_and(|c| !c.is_lowercase())
}

/// Text with its blanks folded.
pub(super) fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of `style text` from the top of a page, a gap before each but for those that start with `+`.
    fn check(lines: &[&str], expected: &[&str]) {
        let mut y = 700.0;
        let lines: Vec<_> = lines
            .iter()
            .map(|line| {
                let (style, text) = line.trim_start_matches('+').split_once(' ').unwrap();
                y -= if line.starts_with('+') { 12.0 } else { 24.0 };
                let style = match style {
                    "bold" => Style::Bold,
                    "italic" => Style::Italic,
                    _ => Style::Plain,
                };
                Line { text: text.to_owned(), style, size: 10.0, end: 0.0, y }
            })
            .collect();
        let found = page_headings(&lines);
        assert_eq!(found.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), expected);
    }

    const BODY: &str = "plain The pump runs for two hours and then it rests for one.";

    #[test]
    fn a_line_that_stands_out_is_a_heading() {
        check(&[BODY, "bold Pumps", BODY, "italic Valves", BODY], &["Pumps", "Valves"]);
        check(
            &[BODY, "bold Pumps and", "+bold Their Valves", BODY, BODY],
            &["Pumps and Their Valves", "Pumps and", "Their Valves"],
        );
        check(&[BODY, "bold Pumps run.", BODY, "bold 12 34", BODY, "bold and more", BODY], &[]);
        check(&["bold All is bold", "plain but this"], &[]);
    }
}
