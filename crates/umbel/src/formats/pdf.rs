//! PDF → Markdown, page by page.
//!
//! Invariant: headings come from outline, size and weight; no text of the file becomes a heading, HTML or code by its look.
//!
//! `pdf-inspector` reads lines, columns, tables and headings by size. This module adds what it leaves out: the outline,
//! headings that are only bold or italic, page anchors, and the escaping of what looks like markup.

use super::{ConvertError, Converted};
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use lopdf::{Document, Object};
use pdf_inspector::types::ItemType;
use pdf_inspector::{MarkdownOptions, PdfError, PdfOptions, TextItem};
use std::collections::{BTreeMap, BTreeSet};
use umbel_core::document::{Anchor, Place};
use umbel_core::span::{Span, slice};

/// Reads a PDF: its text in reading order, tables as pipes, an anchor where each page with text starts.
///
/// Running heads, feet and page numbers are dropped. A password is not asked for; the empty one is tried.
///
/// # Errors
/// [`ConvertError::Encrypted`], [`ConvertError::Damaged`], or [`ConvertError::NoText`] where the pages are pictures or empty.
pub fn convert(bytes: &[u8]) -> Result<Converted, ConvertError> {
    let file = pdf_inspector::process_pdf_mem_with_options(bytes, options()).map_err(reason)?;
    let n_pages = file.page_count as usize;
    let mut pages = split_pages(&file.markdown.unwrap_or_default(), n_pages);
    if pages.iter().all(|page| is_blank(page)) {
        return Err(ConvertError::NoText { pages: n_pages });
    }
    // What follows makes the text better, and a file that it fails on still has its text.
    let items = pdf_inspector::extract_text_with_positions_mem(bytes).unwrap_or_default();
    let structure = Document::load_mem(bytes).ok();
    let lines = styled_lines(&items);
    place_tables(&mut pages, &lines);
    let blank: Vec<usize> = (1..)
        .zip(&pages)
        .filter(|(number, page)| is_blank(page) && !lines.contains_key(number))
        .map(|(number, _)| number as usize)
        .collect();
    let candidates = heading_lines(&lines);
    let mut blocks: Vec<Vec<Block>> = pages
        .iter()
        .zip(1..)
        .map(|(page, number)| {
            let lines = lines.get(&number).map(Vec::as_slice).unwrap_or_default();
            read_blocks(page, lines, candidates.get(&number).cloned().unwrap_or_default())
        })
        .collect();
    rank_headings(&mut blocks, &structure.as_ref().map(outline).unwrap_or_default());
    let (text, anchors) = write(&blocks);
    let mut warnings = Vec::new();
    if !blank.is_empty() {
        warnings.push(format!("no text on {}", name_pages(&blank)));
    }
    let garbled: Vec<usize> = file
        .ocr_reasons_by_page
        .iter()
        .filter(|page| {
            page.reasons.iter().any(|r| r == pdf_inspector::OCR_REASON_SUSPECTED_GARBLED_TEXT)
        })
        .map(|page| page.page as usize)
        .collect();
    if !garbled.is_empty() {
        warnings.push(format!("text may be garbled on {}", name_pages(&garbled)));
    }
    Ok(Converted {
        text,
        anchors,
        title: file.title.as_deref().and_then(sensible_title),
        updated_at: [file.mod_date, file.creation_date].iter().flatten().find_map(|d| read_date(d)),
        language: structure.as_ref().and_then(language),
        warnings,
    })
}

fn options() -> PdfOptions {
    PdfOptions::new().markdown(MarkdownOptions {
        detect_bold: false,
        detect_italic: false,
        detect_underline: false,
        format_urls: false,
        include_links: false,
        include_page_numbers: true,
        ..MarkdownOptions::default()
    })
}

fn reason(error: PdfError) -> ConvertError {
    match error {
        PdfError::Encrypted => ConvertError::Encrypted,
        other => ConvertError::Damaged { detail: other.to_string() },
    }
}

/// The Markdown of each page: the library writes a comment where a page with text starts.
fn split_pages(markdown: &str, n_pages: usize) -> Vec<String> {
    let mut pages = vec![String::new(); n_pages];
    let mut current = 0;
    for line in markdown.lines() {
        let marked = line
            .strip_prefix("<!-- Page ")
            .and_then(|rest| rest.strip_suffix(" -->"))
            .and_then(|number| number.parse::<usize>().ok());
        match marked {
            Some(number) if current < number && number <= n_pages => current = number,
            _ => {
                if let Some(page) = pages.get_mut(current.max(1) - 1) {
                    page.push_str(line);
                    page.push('\n');
                }
            }
        }
    }
    pages
}

fn is_blank(page: &str) -> bool {
    page.chars().all(char::is_whitespace)
}

/// Moves tables to their pages: the library does not mark a page that holds nothing else, and joins its table to the last.
fn place_tables(pages: &mut [String], lines: &BTreeMap<u32, Vec<Line>>) {
    let vocabulary = |at: usize| -> BTreeSet<&str> {
        let lines = lines.get(&(at as u32 + 1)).into_iter().flatten();
        lines.flat_map(|line| line.text.split_whitespace()).collect()
    };
    let is_unmarked = |pages: &[String], at: usize| {
        pages.get(at).is_some_and(|page| is_blank(page)) && lines.contains_key(&(at as u32 + 1))
    };
    for first in 0..pages.len() {
        let n_unmarked = (first + 1..pages.len()).take_while(|&at| is_unmarked(pages, at)).count();
        if n_unmarked == 0 || is_blank(&pages[first]) {
            continue;
        }
        let vocabularies: Vec<_> = (first..=first + n_unmarked).map(vocabulary).collect();
        let text = std::mem::take(&mut pages[first]);
        let mut at = 0;
        let mut delimiter = None;
        for line in text.lines() {
            let is_row = line.starts_with('|');
            let is_delimiter = is_row && line.chars().all(|c| "|-: ".contains(c));
            let mut moved = false;
            if is_row && !is_delimiter {
                let known = |page: usize| {
                    let words = line.split(|c: char| c == '|' || c.is_whitespace());
                    words.filter(|word| vocabularies[page].contains(word)).count()
                };
                let best = (at..=n_unmarked).rev().max_by_key(|&page| known(page)).unwrap_or(at);
                moved = best != at;
                at = best;
            }
            let page = &mut pages[first + at];
            page.push_str(line);
            page.push('\n');
            if is_delimiter {
                delimiter = Some(line);
            } else if let Some(delimiter) = delimiter.filter(|_| moved) {
                page.push_str(delimiter);
                page.push('\n');
            } else if !is_row {
                delimiter = None;
            }
        }
    }
}

/// How a line stands out from its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Style {
    Bold,
    BoldItalic,
    Italic,
    Plain,
}

/// A line of a page, or the part of it between two wide gaps.
#[derive(Debug, Clone)]
struct Line {
    text: String,
    style: Style,
    size: f32,
    end: f32,
    y: f32,
}

/// The lines of each page, in the order in which the file draws them.
fn styled_lines(items: &[TextItem]) -> BTreeMap<u32, Vec<Line>> {
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

/// A piece of a page, between blank lines.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Block {
    /// With its level, and where the level comes from.
    Heading(u8, Source, String),
    /// Lines as they are written.
    Text(String),
}

/// What says that a text is a heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Size,
    Style(Style, Rank),
}

/// Which of two headings in one style is above the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Numbered,
    Unnumbered,
}

/// The longest heading that is known by its style alone, in words.
const HEADING_WORDS: usize = 24;

/// The blocks of one page of the library's Markdown, with the headings that only its lines show.
fn read_blocks(markdown: &str, lines: &[Line], mut candidates: Vec<(Style, String)>) -> Vec<Block> {
    let literal_fence = lines.iter().any(|line| line.text.trim_start().starts_with("```"));
    let mut blocks = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut in_code = false;
    for line in markdown.lines() {
        if line.starts_with("```") && !literal_fence {
            in_code = !in_code;
            open.push(line.to_owned());
            continue;
        }
        if in_code {
            open.push(line.to_owned());
            continue;
        }
        if line.trim().is_empty() {
            close(&mut open, &mut blocks);
            continue;
        }
        if let Some((level, title)) = library_heading(line, lines) {
            close(&mut open, &mut blocks);
            blocks.push(match bullet(title) {
                Some(item) => Block::Text(format!("- {}", plain(item))),
                None if is_plain_sentence(title, lines) => Block::Text(escape(title, true)),
                None => Block::Heading(level, Source::Size, plain(title)),
            });
            continue;
        }
        let mut rest = line;
        while let Some((start, end, style)) = take_heading(rest, &mut candidates) {
            let before = slice(rest, Span::new(0, start)).trim_end();
            if !before.is_empty() {
                open.push(escape(before, open.is_empty()));
            }
            close(&mut open, &mut blocks);
            let title = slice(rest, Span::new(start, end));
            blocks.push(Block::Heading(0, Source::Style(style, rank(title)), plain(title)));
            rest = slice(rest, Span::new(end, rest.len())).trim_start();
        }
        if !rest.is_empty() {
            open.push(escape(rest, open.is_empty()));
        }
    }
    if in_code {
        open.push("```".to_owned());
    }
    close(&mut open, &mut blocks);
    blocks
}

fn close(open: &mut Vec<String>, blocks: &mut Vec<Block>) {
    if !open.is_empty() {
        blocks.push(Block::Text(open.join("\n")));
        open.clear();
    }
}

/// Level and text of a heading that the library made; not of a line that has its `#` in the file.
fn library_heading<'a>(line: &'a str, lines: &[Line]) -> Option<(u8, &'a str)> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    let literal = || {
        lines.iter().any(|l| {
            let drawn = l.text.trim();
            drawn.starts_with('#') && line.starts_with(drawn)
        })
    };
    ((1..=6).contains(&level) && text.starts_with(' ') && !literal())
        .then(|| (level as u8, text.trim()))
}

/// Whether the library took a short line of body text for a heading.
fn is_plain_sentence(title: &str, lines: &[Line]) -> bool {
    let is_body = |line: &Line| line.style == Style::Plain && line.size <= 1.05 * body_size(lines);
    title.ends_with('.')
        && lines.iter().find(|line| words(&line.text) == title).is_some_and(is_body)
}

/// What follows a bullet that stands before a text: an item that is bold or large is no heading.
fn bullet(text: &str) -> Option<&str> {
    // Symbol fonts without a map give characters for private use, or controls.
    let is_bullet = |c: char| {
        "•◦▪●■□☐☑☒".contains(c) || c.is_control() || ('\u{e000}'..='\u{f8ff}').contains(&c)
    };
    let item = text.trim_start_matches(|c| is_bullet(c) || c == ' ');
    (text.starts_with(is_bullet) && !item.is_empty()).then_some(item)
}

/// How often a text in bold is a heading: what comes more often names the columns of tables.
const HEADING_REPEATS: usize = 3;

/// The headings of each page that their style alone shows.
fn heading_lines(pages: &BTreeMap<u32, Vec<Line>>) -> BTreeMap<u32, Vec<(Style, String)>> {
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

/// By a number at the start, as in `5.1 Pumps`, `Item 2. Pumps`, `PART II`.
fn rank(title: &str) -> Rank {
    let mut words = title.split(' ');
    let first = words.next().unwrap_or_default().to_lowercase();
    let second = words.next().unwrap_or_default();
    let is_number = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            || word.starts_with(|c: char| "IVXABC".contains(c))
                && word.chars().all(|c| c.is_ascii_uppercase() || c == '.' || c == ':')
    };
    let names = ["part", "item", "note", "chapter", "section", "article", "appendix", "annex"];
    if first.starts_with(|c: char| c.is_ascii_digit())
        || names.contains(&first.as_str()) && is_number(second)
    {
        Rank::Numbered
    } else {
        Rank::Unnumbered
    }
}

/// The size of most of a page's text.
fn body_size(lines: &[Line]) -> f32 {
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

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Takes the candidate that comes first in a line, the longest of those: where it is, and its style.
///
/// It stands at the start or behind the end of a sentence, and what follows it starts anew: the library joins lines.
fn take_heading(
    line: &str,
    candidates: &mut Vec<(Style, String)>,
) -> Option<(usize, usize, Style)> {
    if line.starts_with('|') || candidates.is_empty() {
        return None;
    }
    let mut last = None;
    for (start, c) in line.char_indices() {
        let before = last.replace(c);
        let may_start = match before {
            None => true,
            Some(' ') => slice(line, Span::new(0, start))
                .trim_end()
                .ends_with(['.', '!', '?', ')', '”', '"', ':']),
            Some(_) => false,
        };
        if !may_start {
            continue;
        }
        let rest = slice(line, Span::new(start, line.len()));
        let length = |text: &str| starts_with_words(rest, text);
        let longest = candidates
            .iter()
            .enumerate()
            .filter_map(|(at, (_, text))| Some((length(text)?, at)))
            .max_by_key(|&(length, _)| length);
        if let Some((length, at)) = longest {
            let (style, _) = candidates.remove(at);
            return Some((start, start + length, style));
        }
    }
    None
}

/// How many bytes of a line the words of a heading take, where the line goes on with the start of a sentence or ends.
fn starts_with_words(line: &str, heading: &str) -> Option<usize> {
    let mut rest = line;
    for word in heading.split(' ') {
        rest = rest.trim_start().strip_prefix(word)?;
    }
    let goes_on = !rest.is_empty() && !rest.starts_with(' ');
    let same_sentence =
        rest.trim_start().starts_with(|c: char| c.is_lowercase() || ",;)".contains(c));
    (!goes_on && !same_sentence).then(|| line.len() - rest.len())
}

/// A heading's text: one line in which nothing is markup.
fn plain(text: &str) -> String {
    words(&escape_tags(text))
}

/// A line of text that is not a heading, HTML, code or the underline of a heading, whatever it looks like.
fn escape(line: &str, first_in_block: bool) -> String {
    let bare = line.trim_start();
    let is_item = bare.starts_with("- ") || bare.starts_with("* ") || bare.starts_with("+ ");
    let indent = if is_item { line.len() - bare.len() } else { 0 };
    let is_underline = !first_in_block
        && (bare.trim_end().chars().all(|c| c == '=') || bare.trim_end().chars().all(|c| c == '-'));
    let is_markup = ["#", "```", "~~~"].iter().any(|mark| bare.starts_with(mark)) || is_underline;
    let backslash = if is_markup { "\\" } else { "" };
    format!("{}{backslash}{}", " ".repeat(indent), escape_tags(bare))
}

/// Raised and lowered text as `^` and `_`, and a backslash before what would begin a tag.
fn escape_tags(text: &str) -> String {
    let text = text.replace("<sup>", "^").replace("<sub>", "_");
    let text = text.replace("</sup>", "").replace("</sub>", "").replace("<br>", " ");
    let mut escaped = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_tag = |next: &char| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?');
        if c == '<' && chars.peek().is_some_and(is_tag) {
            escaped.push('\\');
        }
        match ligature(c) {
            Some(letters) => escaped.push_str(letters),
            None if c.is_control() && c != '\t' => {}
            None => escaped.push(c),
        }
    }
    escaped
}

/// The letters of a ligature that fonts draw as one.
fn ligature(c: char) -> Option<&'static str> {
    Some(match c {
        'ﬀ' => "ff",
        'ﬁ' => "fi",
        'ﬂ' => "fl",
        'ﬃ' => "ffi",
        'ﬄ' => "ffl",
        'ﬅ' | 'ﬆ' => "st",
        _ => return None,
    })
}

/// An entry of the file's outline.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bookmark {
    level: usize,
    title: String,
    page: usize,
}

fn outline(document: &Document) -> Vec<Bookmark> {
    let entries = document.get_toc().map(|toc| toc.toc).unwrap_or_default();
    entries
        .into_iter()
        .map(|e| Bookmark { level: e.level, title: words(&e.title), page: e.page })
        .collect()
}

/// Gives every heading its level: the outline's where it is listed, below the listed one above it where it is not.
///
/// Without an outline, bold headings lie below those that are larger, and italic ones below the bold.
fn rank_headings(pages: &mut [Vec<Block>], outline: &[Bookmark]) {
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

/// The text of all pages, and where each that has text starts.
fn write(pages: &[Vec<Block>]) -> (String, Vec<Anchor>) {
    let mut text = String::new();
    let mut anchors = Vec::new();
    let mut last: Option<&Block> = None;
    for (number, page) in (1..).zip(pages) {
        for (at, block) in page.iter().enumerate() {
            let between = match last {
                None => "",
                Some(last) if goes_on(last, block) => {
                    if drop_hyphen(&mut text) {
                        ""
                    } else {
                        " "
                    }
                }
                Some(_) => "\n\n",
            };
            text.push_str(between);
            if at == 0 {
                anchors.push(Anchor { offset: text.len(), place: Place::Page(number) });
            }
            match block {
                Block::Heading(level, _, title) => {
                    text.push_str(&"#".repeat(usize::from(*level)));
                    text.push(' ');
                    text.push_str(title);
                }
                Block::Text(lines) => text.push_str(lines),
            }
            last = Some(block);
        }
    }
    text.push('\n');
    (text, anchors)
}

/// Whether a paragraph goes on in the next column, or at the top of the next page.
fn goes_on(last: &Block, next: &Block) -> bool {
    let (Block::Text(last), Block::Text(next)) = (last, next) else { return false };
    let is_prose = |text: &str| !text.starts_with(['|', '`', '~']) && !text.ends_with('|');
    is_prose(last)
        && is_prose(next)
        && last.ends_with(|c: char| c.is_alphanumeric() || matches!(c, ',' | '-'))
        && next.starts_with(char::is_lowercase)
}

/// Takes off the hyphen of a word that the end of a page or column broke.
fn drop_hyphen(text: &mut String) -> bool {
    let broken = text.strip_suffix('-').is_some_and(|word| word.ends_with(char::is_lowercase));
    if broken {
        text.pop();
    }
    broken
}

/// A title that a person wrote, not the name of a file or of a program.
fn sensible_title(title: &str) -> Option<String> {
    let title = words(title);
    let title = title.strip_prefix("Microsoft Word - ").unwrap_or(&title);
    let lower = title.to_lowercase();
    let is_file = [
        ".doc", ".docx", ".pdf", ".dvi", ".tex", ".indd", ".qxd", ".ppt", ".pptx", ".xls", ".xlsx",
        ".rtf", ".html",
    ]
    .iter()
    .any(|extension| lower.ends_with(extension));
    let is_filler =
        ["untitled", "title", "document", "(anonymous)", "unknown"].contains(&lower.as_str());
    let is_legible = title.chars().filter(|c| c.is_alphabetic()).count() >= 3
        && !title.chars().any(|c| c.is_control() || c == '\u{fffd}');
    (is_legible && !is_file && !is_filler).then(|| title.to_owned())
}

/// Seconds since 1970 of a date as `D:20240115103000+01'00'`; what is left out is the first, or zero.
///
/// Source: ISO 32000-1, section 7.9.4.
fn read_date(date: &str) -> Option<i64> {
    let date = date.trim();
    let date = date.strip_prefix("D:").unwrap_or(date);
    let n_digits = date.bytes().take_while(u8::is_ascii_digit).count().min(14);
    let digits = slice(date, Span::new(0, n_digits));
    let part = |start: usize, length: usize, default: i16| match digits.get(start..start + length) {
        Some(part) => part.parse().ok(),
        None => Some(default),
    };
    let two = |start, default| part(start, 2, default).and_then(|n| i8::try_from(n).ok());
    let year = part(0, 4, 0).filter(|&year| year > 0)?;
    let local =
        DateTime::new(year, two(4, 1)?, two(6, 1)?, two(8, 0)?, two(10, 0)?, two(12, 0)?, 0)
            .ok()?;
    let zone = slice(date, Span::new(n_digits, date.len()));
    let numbers: Vec<i32> = zone
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok().filter(|&number| number < 60))
        .collect();
    let seconds = numbers.first().unwrap_or(&0) * 3600 + numbers.get(1).unwrap_or(&0) * 60;
    let offset =
        Offset::from_seconds(if zone.starts_with('-') { -seconds } else { seconds }).ok()?;
    Some(TimeZone::fixed(offset).to_timestamp(local).ok()?.as_second())
}

/// What the catalog says of the language of the whole file.
fn language(document: &Document) -> Option<String> {
    let lang: &Object = document.catalog().ok()?.get(b"Lang").ok()?;
    let tag = lopdf::decode_text_string(lang).ok()?.trim().replace('_', "-");
    let is_tag = tag.split('-').all(|part| {
        (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
    });
    (is_tag && tag.len() >= 2).then_some(tag)
}

/// `page 3`, or `pages 1, 4-6`.
fn name_pages(pages: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &page in pages {
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == page => *end = page,
            _ => ranges.push((page, page)),
        }
    }
    let name = |&(start, end): &(usize, usize)| {
        if start == end { start.to_string() } else { format!("{start}-{end}") }
    };
    let names = ranges.iter().map(name).collect::<Vec<_>>().join(", ");
    format!("{} {names}", if pages.len() == 1 { "page" } else { "pages" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    const PLAIN: &str = "F1";
    const BOLD: &str = "F2";

    /// Draws lines from the top of a page: font, size, text.
    fn page(lines: &[(&str, u32, &str)]) -> String {
        let mut stream = String::new();
        let mut y = 760;
        for (font, size, text) in lines {
            y -= size * 3 / 2;
            let _ = writeln!(stream, "BT /{font} {size} Tf 72 {y} Td ({text}) Tj ET");
        }
        stream
    }

    /// A file with these pages; `catalog`, `info` and `trailer` are put into those dictionaries, `objects` follow the pages
    /// and have the numbers from 5 + 2 × pages.
    #[derive(Default)]
    struct Sample<'a> {
        pages: &'a [String],
        catalog: &'a str,
        info: &'a str,
        trailer: &'a str,
        objects: &'a [String],
    }

    impl Sample<'_> {
        fn bytes(&self) -> Vec<u8> {
            let n_pages = self.pages.len();
            let kids: String = (0..n_pages).map(|n| format!("{} 0 R ", 6 + 2 * n - 1)).collect();
            let font = |name| {
                format!(
                    "<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>"
                )
            };
            let mut objects = vec![
                format!("<< /Type /Catalog /Pages 2 0 R {} >>", self.catalog),
                format!("<< /Type /Pages /Kids [{kids}] /Count {n_pages} >>"),
                font("Helvetica"),
                font("Helvetica-Bold"),
            ];
            for (n, stream) in self.pages.iter().enumerate() {
                objects.push(format!(
                    "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {} 0 R \
                     /Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> >>",
                    6 + 2 * n
                ));
                objects
                    .push(format!("<< /Length {} >>\nstream\n{stream}\nendstream", stream.len()));
            }
            objects.extend_from_slice(self.objects);
            objects.push(format!("<< {} >>", self.info));
            let mut file = "%PDF-1.4\n".to_owned();
            let mut xref = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
            for (n, object) in objects.iter().enumerate() {
                let _ = writeln!(xref, "{:010} 00000 n ", file.len());
                let _ = writeln!(file, "{} 0 obj\n{object}\nendobj", n + 1);
            }
            let _ = write!(
                xref,
                "trailer << /Size {} /Root 1 0 R /Info {} 0 R {} >>\nstartxref\n{}\n%%EOF",
                objects.len() + 1,
                objects.len(),
                self.trailer,
                file.len()
            );
            file.push_str(&xref);
            file.into_bytes()
        }
    }

    fn check(pages: &[String], expected: &str) {
        let converted = convert(&Sample { pages, ..Sample::default() }.bytes()).unwrap();
        assert_eq!(converted.text, expected);
        assert!(converted.anchors.is_sorted_by_key(|anchor| anchor.offset));
        for anchor in converted.anchors {
            assert!(converted.text.is_char_boundary(anchor.offset));
        }
    }

    const BODY: &str = "The pump runs for two hours and then it rests for one.";

    #[test]
    fn a_larger_line_is_a_heading_and_a_bold_one_lies_below_it() {
        let lines = [
            (PLAIN, 20, "Pumps"),
            (PLAIN, 10, BODY),
            (PLAIN, 10, BODY),
            (BOLD, 10, "Starting a pump"),
            (PLAIN, 10, BODY),
            (PLAIN, 10, BODY),
        ];
        check(
            &[page(&lines)],
            &format!("# Pumps\n\n{BODY} {BODY}\n\n## Starting a pump\n\n{BODY} {BODY}\n"),
        );
    }

    #[test]
    fn numbered_headings_lie_above_others_in_their_style() {
        let check = |title: &str, expected: Rank| assert_eq!(rank(title), expected, "{title}");
        check("5.1 Pumps", Rank::Numbered);
        check("Item 2. Pumps", Rank::Numbered);
        check("PART II. PUMPS", Rank::Numbered);
        check("Appendix B", Rank::Numbered);
        check("Part of a pump", Rank::Unnumbered);
        check("Pumps", Rank::Unnumbered);
    }

    #[test]
    fn labels_that_come_again_and_again_are_no_headings() {
        let lines = [(PLAIN, 10, BODY), (BOLD, 10, "Three Months Ended"), (PLAIN, 10, BODY)];
        let text = convert(&Sample { pages: &vec![page(&lines); 4], ..Sample::default() }.bytes());
        assert!(!text.unwrap().text.contains('#'));
    }

    #[test]
    fn a_bullet_in_bold_is_an_item() {
        assert_eq!(bullet("\u{84} \u{84} They run"), Some("They run"));
        assert_eq!(bullet("☐ They run"), Some("They run"));
        assert_eq!(bullet("They run"), None);
    }

    #[test]
    fn each_page_with_text_has_an_anchor_and_the_others_are_named() {
        let pages = [page(&[(PLAIN, 10, BODY)]), String::new(), page(&[(PLAIN, 10, "It is old.")])];
        let converted = convert(&Sample { pages: &pages, ..Sample::default() }.bytes()).unwrap();
        let places: Vec<_> = converted
            .anchors
            .iter()
            .map(|a| (a.place.clone(), slice(&converted.text, Span::new(a.offset, a.offset + 3))))
            .collect();
        assert_eq!(places, [(Place::Page(1), "The"), (Place::Page(3), "It ")]);
        assert_eq!(converted.warnings, ["no text on page 2"]);
    }

    #[test]
    fn text_that_looks_like_markup_stays_text() {
        let lines = [
            (PLAIN, 10, "# no heading"),
            (PLAIN, 10, "    a < b <script>alert\\(1\\)</script> <!-- c -->"),
            (PLAIN, 10, BODY),
        ];
        let bytes = Sample { pages: &[page(&lines)], ..Sample::default() }.bytes();
        let text = convert(&bytes).unwrap().text;
        assert!(text.starts_with("\\# no heading"), "{text}");
        assert!(
            text.contains("a < b \\<script>") && text.contains("\\</script> \\<!-- c -->"),
            "{text}"
        );
        assert!(!text.contains("    "), "{text}");
        let escaped =
            |line, first| assert_eq!(escape(line, first), format!("\\{}", line.trim_start()));
        escaped("```rust", true);
        escaped("    ~~~", true);
        escaped("=====", false);
        escaped("---", false);
        assert_eq!(escape("    - item", false), "    - item");
    }

    #[test]
    fn raised_text_and_ligatures_are_letters() {
        assert_eq!(plain("oﬃce  x<sup>2</sup> T<sub>X</sub>"), "office x^2 T_X");
    }

    #[test]
    fn the_outline_gives_the_levels_and_finds_headings_that_look_like_text() {
        let lines =
            [(PLAIN, 20, "2.1 Pumps"), (PLAIN, 10, BODY), (PLAIN, 20, "Other"), (PLAIN, 10, BODY)];
        let second = page(&[(PLAIN, 10, "Valves"), (PLAIN, 30, " "), (PLAIN, 10, BODY)]);
        let objects = [
            "<< /Type /Outlines /First 10 0 R /Last 10 0 R /Count 2 >>".to_owned(),
            "<< /Title (Pumps) /Parent 9 0 R /Dest [5 0 R /Fit] /First 11 0 R /Last 11 0 R /Count 1 >>".to_owned(),
            "<< /Title (Valves) /Parent 10 0 R /Dest [7 0 R /Fit] >>".to_owned(),
        ];
        let bytes = Sample {
            pages: &[page(&lines), second],
            catalog: "/Outlines 9 0 R",
            objects: &objects,
            ..Sample::default()
        }
        .bytes();
        let text = convert(&bytes).unwrap().text;
        let headings: Vec<_> = text.lines().filter(|line| line.starts_with('#')).collect();
        assert_eq!(headings, ["# 2.1 Pumps", "## Other", "## Valves"], "{text}");
    }

    #[test]
    fn tables_are_placed_on_pages_that_hold_nothing_else() {
        let line = |text: &str| Line {
            text: text.to_owned(),
            style: Style::Plain,
            size: 10.0,
            end: 0.0,
            y: 0.0,
        };
        let lines = BTreeMap::from([
            (1, vec![line("They cost:"), line("Part Price"), line("Seal 4")]),
            (2, vec![line("Pump 90"), line("Valve 70")]),
            (3, vec![line("Year Sum"), line("2023 8")]),
        ]);
        let text = "They cost:\n\n|Part|Price|\n|---|---|\n|Seal|4|\n|Pump|90|\n|Valve|70|\n\n|Year|Sum|\n|---|---|\n|2023|8|\n";
        let mut pages = [text.to_owned(), String::new(), String::new(), "The end.\n".to_owned()];
        place_tables(&mut pages, &lines);
        assert_eq!(
            pages,
            [
                "They cost:\n\n|Part|Price|\n|---|---|\n|Seal|4|\n",
                "|Pump|90|\n|---|---|\n|Valve|70|\n\n",
                "|Year|Sum|\n|---|---|\n|2023|8|\n",
                "The end.\n"
            ]
        );
    }

    #[test]
    fn a_paragraph_goes_on_over_a_page_end() {
        let check = |first: &str, second: &str, expected: &str| {
            let pages = [first, second].map(|text| vec![Block::Text(text.to_owned())]);
            assert_eq!(write(&pages).0, expected);
        };
        check("The pump runs", "for two hours.", "The pump runs for two hours.\n");
        check("The pump hesi-", "tates.", "The pump hesitates.\n");
        check("The pump runs.", "for two hours.", "The pump runs.\n\nfor two hours.\n");
        check("|a|b|", "for two hours.", "|a|b|\n\nfor two hours.\n");
    }

    #[test]
    fn running_heads_and_page_numbers_are_dropped() {
        let topics = ["Pumps", "Valves", "Pipes", "Tanks", "Gauges"];
        let pages: Vec<String> = (1..)
            .zip(topics)
            .map(|(number, topic)| {
                let head = "BT /F1 9 Tf 72 770 Td (Acme field manual 2024) Tj ET\n";
                let foot = format!("BT /F1 9 Tf 300 30 Td ({number}) Tj ET\n");
                let text = format!("{topic} are checked every week. {BODY}");
                let lines = [(PLAIN, 10, text.as_str()), (PLAIN, 10, BODY), (PLAIN, 10, BODY)];
                head.to_owned() + &page(&lines) + &foot
            })
            .collect();
        let text = convert(&Sample { pages: &pages, ..Sample::default() }.bytes()).unwrap().text;
        assert!(text.matches("Acme field manual").count() <= 1, "{text}");
        assert!(topics.iter().all(|topic| text.contains(topic)), "{text}");
        assert!(!text.lines().any(|line| line.trim().parse::<u32>().is_ok()), "{text}");
    }

    #[test]
    fn title_date_and_language_come_from_the_file() {
        let bytes = Sample {
            pages: &[page(&[(PLAIN, 10, BODY)])],
            catalog: "/Lang (de-DE)",
            info: "/Title (Field manual) /CreationDate (D:20230101000000Z) /ModDate (D:20240115103000+01'00')",
            ..Sample::default()
        }
        .bytes();
        let converted = convert(&bytes).unwrap();
        assert_eq!(converted.title.as_deref(), Some("Field manual"));
        assert_eq!(converted.updated_at, Some(1_705_311_000));
        assert_eq!(converted.language.as_deref(), Some("de-DE"));
    }

    #[test]
    fn a_title_of_a_program_is_no_title() {
        let check = |title: &str, expected: Option<&str>| {
            assert_eq!(sensible_title(title).as_deref(), expected, "{title}");
        };
        check("  The  pump ", Some("The pump"));
        check("Microsoft Word - The pump", Some("The pump"));
        check("Microsoft Word - pump_v2.docx", None);
        check("untitled", None);
        check("42", None);
    }

    #[test]
    fn dates_are_read_to_the_second_and_less() {
        let check =
            |date: &str, expected: Option<i64>| assert_eq!(read_date(date), expected, "{date}");
        check("D:19700101000000Z", Some(0));
        check("D:19700102", Some(86_400));
        check("19700101010000+01'00'", Some(0));
        check("D:19700101000000-00'30", Some(1800));
        check("D:1970", Some(0));
        check("D:19701301", None);
        check("yesterday", None);
        check("", None);
    }

    #[test]
    fn pages_are_named_as_ranges() {
        assert_eq!(name_pages(&[3]), "page 3");
        assert_eq!(name_pages(&[1, 4, 5, 6]), "pages 1, 4-6");
    }

    #[test]
    fn a_file_without_text_says_so() {
        let pages = [String::new(), String::new()];
        let bytes = Sample { pages: &pages, ..Sample::default() }.bytes();
        assert_eq!(convert(&bytes), Err(ConvertError::NoText { pages: 2 }));
    }

    #[test]
    fn a_file_with_a_password_is_encrypted() {
        let key = "00".repeat(32);
        let lock = format!("<< /Filter /Standard /V 1 /R 2 /P -4 /O <{key}> /U <{key}> >>");
        let bytes = Sample {
            pages: &[page(&[(PLAIN, 10, BODY)])],
            trailer: "/Encrypt 7 0 R /ID [<00> <00>]",
            objects: &[lock],
            ..Sample::default()
        }
        .bytes();
        assert_eq!(convert(&bytes), Err(ConvertError::Encrypted));
    }

    #[test]
    fn a_cut_file_gives_its_text_or_a_reason() {
        let bytes = Sample { pages: &[page(&[(PLAIN, 10, BODY)])], ..Sample::default() }.bytes();
        for end in (0..bytes.len()).step_by(61) {
            if let Err(error) = convert(&bytes[..end]) {
                let is_named =
                    matches!(error, ConvertError::Damaged { .. } | ConvertError::NoText { .. });
                assert!(is_named, "{end}: {error}");
            }
        }
    }
}
