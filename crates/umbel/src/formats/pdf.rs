//! PDF → Markdown, page by page.
//!
//! Invariant: headings come from outline, size and weight; no text of the file becomes a heading, HTML or code by its look.
//!
//! `pdf-inspector` reads lines, columns, tables and headings by size. This module adds what it leaves out: the outline,
//! headings that are only bold or italic, page anchors, and the escaping of what looks like markup.

mod lines;
mod pages;
mod blocks;
mod levels;
mod writer;
#[cfg(test)]
mod tests;

use super::{ConvertError, Converted};
use blocks::{Block, read_blocks};
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use levels::{outline, rank_headings};
use lines::{heading_lines, styled_lines, words};
use lopdf::{Document, Object};
use pages::{is_blank, place_tables, split_pages};
use pdf_inspector::{MarkdownOptions, PdfError, PdfOptions};
use umbel_core::span::{Span, slice};
use writer::write;

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
