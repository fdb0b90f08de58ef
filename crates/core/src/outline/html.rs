//! A raw HTML block → the headings in it, and whether it is a comment.
//!
//! Invariant: linear in the block, whatever is left unclosed.

use super::fold_blanks;
use crate::span::{Span, next_line, slice};
use std::collections::BTreeSet;

/// Whether an HTML block holds comments and nothing else.
pub(super) fn is_comment(html: &str) -> bool {
    let mut rest = html.trim();
    while let Some(inside) = rest.strip_prefix("<!--") {
        match inside.split_once("-->") {
            Some((_, behind)) => rest = behind.trim_start(),
            None => return true,
        }
        if rest.is_empty() {
            return true;
        }
    }
    false
}

/// The `<h1>` … `<h6>` elements that start a line of an HTML block, outside comments and raw text.
pub(super) fn html_headings(text: &str, span: Span) -> Vec<(Span, u8, String)> {
    const RAW: [(&str, &str); 5] = [
        ("<!--", "-->"),
        ("<pre", "</pre"),
        ("<script", "</script"),
        ("<style", "</style"),
        ("<textarea", "</textarea"),
    ];
    let html = slice(text, span).to_ascii_lowercase();
    let mut found = Vec::new();
    let mut unclosed = BTreeSet::new();
    let mut at = 0;
    while let Some(open) = find(&html, at, "<") {
        let rest = html.get(open..).unwrap_or_default();
        if let Some((_, close)) = RAW.iter().find(|(start, _)| rest.starts_with(start)) {
            at = find(&html, open + 1, close).map_or(html.len(), |end| end + close.len());
            continue;
        }
        at = open + 1;
        let mut tag = rest.bytes().skip(1);
        let level = match (tag.next(), tag.next(), tag.next()) {
            (Some(b'h'), Some(digit @ b'1'..=b'6'), Some(b'>' | b' ' | b'\t' | b'\n' | b'\r')) => {
                digit - b'0'
            }
            _ => continue,
        };
        let start = span.start + open;
        let before = html.get(..open).unwrap_or_default().trim_end_matches([' ', '\t']);
        if !(before.is_empty() || before.ends_with('\n')) {
            continue;
        }
        let closing =
            if unclosed.contains(&level) { None } else { find(&html, at, &format!("</h{level}")) };
        let (inner_end, end) = match closing {
            Some(close) => (close, find(&html, close, ">").map_or(html.len(), |end| end + 1)),
            None => {
                // None closes behind this one either: each is a heading of one line.
                unclosed.insert(level);
                let line_end = (next_line(text, start) - span.start).min(html.len());
                (line_end, line_end)
            }
        };
        let inner_start = find(&html, at, ">").map_or(inner_end, |end| (end + 1).min(inner_end));
        let inner = slice(text, Span::new(span.start + inner_start, span.start + inner_end));
        found.push((
            Span::new(start, span.start + end).trim(text),
            level,
            fold_blanks(&without_tags(inner)),
        ));
        at = end;
    }
    found
}

fn find(text: &str, from: usize, what: &str) -> Option<usize> {
    text.get(from..).and_then(|rest| rest.find(what)).map(|at| from + at)
}

/// The text between tags, the five common character references resolved.
fn without_tags(html: &str) -> String {
    let mut text = String::with_capacity(html.len());
    let mut inside = false;
    for c in html.chars() {
        match c {
            '<' => inside = true,
            '>' if inside => inside = false,
            _ if !inside => text.push(c),
            _ => {}
        }
    }
    ["&lt;:<", "&gt;:>", "&quot;:\"", "&#39;:'", "&nbsp;: ", "&amp;:&"]
        .iter()
        .filter_map(|pair| pair.split_once(':'))
        .fold(text, |text, (from, to)| text.replace(from, to))
}
