//! MDX → the parts of it that are no Markdown: statements, expressions and elements.
//!
//! Invariant: linear in the text; what is not closed is Markdown.

use super::BlockKind;
use super::fence::Fences;
use crate::span::{Span, is_blank, next_line, slice};
use std::borrow::Cow;

/// A block of another language between blocks of Markdown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Island {
    pub(super) span: Span,
    /// [`BlockKind::Comment`] for statements and comments, else [`BlockKind::Html`].
    pub(super) kind: BlockKind,
}

/// What is not there is looked for so often, so that a text of nothing but opening braces takes linear time.
const MISSES: usize = 32;

/// The islands of `text[body]`, in order. Each starts a line behind a blank one, a heading, a fence or another island.
pub(super) fn islands(text: &str, body: Span) -> Vec<Island> {
    let mut script = Script { bytes: text.as_bytes(), end: body.end, misses: 0 };
    let mut found = Vec::new();
    let mut fences = Fences::default();
    let mut may_start = true;
    let mut at = body.start;
    while at < body.end {
        let line = Span::new(at, next_line(text, at).min(body.end));
        let content = slice(text, line).trim_end();
        at = line.end;
        if fences.take(content) {
            may_start = true;
            continue;
        }
        let island = if may_start { island(text, line, &mut script) } else { None };
        if let Some((kind, end)) = island {
            let span = Span::new(line.start, end).trim(text);
            at = next_line(text, span.end).min(body.end);
            found.push(Island { span, kind });
        }
        may_start = island.is_some() || content.trim_start().is_empty() || content.starts_with('#');
    }
    found
}

/// The text with blanks in the place of islands, at the same offsets and in the same lines.
pub(super) fn without<'a>(text: &'a str, islands: &[Island]) -> Cow<'a, str> {
    if islands.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut visible = String::with_capacity(text.len());
    let mut at = 0;
    for Island { span, .. } in islands {
        visible.push_str(slice(text, Span::new(at, span.start)));
        let blank = |byte| if matches!(byte, b'\n' | b'\r') { char::from(byte) } else { ' ' };
        visible.extend(slice(text, *span).bytes().map(blank));
        at = span.end;
    }
    visible.push_str(slice(text, Span::new(at, text.len())));
    Cow::Owned(visible)
}

/// The kind and the end of the island that a line starts.
fn island(text: &str, line: Span, script: &mut Script<'_>) -> Option<(BlockKind, usize)> {
    let content = slice(text, line).trim_end();
    if is_statement(content) {
        let end = script.paragraph(text, line.start, b"{[(");
        let whole = slice(text, Span::new(line.start, end));
        // Prose may start with the word; a statement names what it imports from, in quotes.
        let quoted = |quote: char| {
            whole.contains(&format!("from {quote}")) || whole.contains(&format!("import {quote}"))
        };
        if content.starts_with("export") || quoted('"') || quoted('\'') {
            return Some((BlockKind::Comment, end));
        }
        return script.miss();
    }
    let start = line.end - slice(text, line).trim_start().len();
    let content = content.trim_start();
    if start - line.start > 3 {
        return None;
    }
    if content.starts_with('{') {
        let end = script.closing(start)?;
        let inside = slice(text, Span::new(start + 1, end - 1)).trim();
        let is_comment = inside.starts_with("/*") && inside.find("*/") == Some(inside.len() - 2);
        let kind = if is_comment { BlockKind::Comment } else { BlockKind::Html };
        if is_blank(text, Span::new(end, next_line(text, end).min(script.end))) {
            return Some((kind, end));
        }
        return script.miss();
    }
    if starts_element(content) {
        let end = script.tag(start)?;
        // What stands on one line with text behind it is a paragraph with an element in it.
        if end > line.end || is_blank(text, Span::new(end, line.end)) {
            return Some((BlockKind::Html, script.paragraph(text, start, b"{")));
        }
        return script.miss();
    }
    None
}

fn is_statement(line: &str) -> bool {
    const EXPORTED: [&str; 9] =
        ["default", "const", "let", "var", "function", "class", "async", "type", "interface"];
    let word = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric()).collect::<String>();
    if let Some(rest) = line.strip_prefix("import") {
        let clause = rest.trim_start();
        clause.starts_with(['"', '\'', '{', '*'])
            || (rest.starts_with(' ')
                && (clause.contains(" from ")
                    || clause.ends_with(" from")
                    || clause.ends_with([',', '{'])))
    } else if let Some(rest) = line.strip_prefix("export") {
        let clause = rest.trim_start();
        clause.starts_with(['{', '*'])
            || (rest.starts_with(' ') && EXPORTED.contains(&word(clause).as_str()))
    } else {
        false
    }
}

/// Whether a line starts with a tag, and not with an autolink, a comment or an element whose content is raw.
fn starts_element(line: &str) -> bool {
    const RAW: [&str; 4] = ["pre", "script", "style", "textarea"];
    let Some(rest) = line.strip_prefix('<') else { return false };
    let name = rest.trim_start_matches('/');
    let behind = name.trim_start_matches(|c: char| c.is_alphanumeric() || "_$.-:".contains(c));
    let (name, _) = name.split_at(name.len() - behind.len());
    !RAW.contains(&name.to_ascii_lowercase().as_str())
        && !name.ends_with(':')
        && (name.is_empty() && rest.starts_with(['>', '/'])
            || name.starts_with(|c: char| c.is_ascii_alphabetic()))
        && (behind.is_empty() || behind.starts_with([' ', '\t', '/', '>']))
}

/// Reads as much of JavaScript and JSX as it takes to find where something ends.
struct Script<'a> {
    bytes: &'a [u8],
    end: usize,
    misses: usize,
}

impl Script<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied().filter(|_| at < self.end)
    }

    fn miss<T>(&mut self) -> Option<T> {
        self.misses += 1;
        None
    }

    /// Behind the next `close` from `from` on.
    fn until(&mut self, from: usize, close: &[u8]) -> Option<usize> {
        if self.misses >= MISSES {
            return None;
        }
        let rest = self.bytes.get(from..self.end).unwrap_or_default();
        match rest.windows(close.len()).position(|found| found == close) {
            Some(distance) => Some(from + distance + close.len()),
            None => self.miss(),
        }
    }

    /// Behind the string, template, comment, escape or byte that starts at `at`.
    fn skip(&mut self, at: usize) -> usize {
        match (self.byte(at), self.byte(at + 1)) {
            (Some(b'\\'), _) => at + 2,
            (Some(b'/'), Some(b'*')) => self.until(at + 2, b"*/").unwrap_or(at + 1),
            (Some(b'/'), Some(b'/')) => self.until(at, b"\n").map_or(at + 1, |end| end - 1),
            (Some(b'`'), _) => self.template(at).unwrap_or(at + 1),
            (Some(quote @ (b'"' | b'\'')), _) => self.string(at, quote).unwrap_or(at + 1),
            _ => at + 1,
        }
    }

    /// Behind the string that starts at `at`; `None` for an apostrophe, as no string reaches over a line.
    fn string(&self, at: usize, quote: u8) -> Option<usize> {
        let mut to = at + 1;
        while let Some(byte) = self.byte(to).filter(|&byte| byte != b'\n') {
            if byte == quote {
                return Some(to + 1);
            }
            to += if byte == b'\\' { 2 } else { 1 };
        }
        None
    }

    /// Behind the template that starts at `at`. One inside another ends the outer one, and the rest of that is the next.
    fn template(&mut self, at: usize) -> Option<usize> {
        let mut to = at + 1;
        while let Some(byte) = self.byte(to).filter(|_| self.misses < MISSES) {
            if byte == b'`' {
                return Some(to + 1);
            }
            to += if byte == b'\\' { 2 } else { 1 };
        }
        self.miss()
    }

    /// Behind the bracket that closes the one at `at`.
    fn closing(&mut self, at: usize) -> Option<usize> {
        let opens = self.byte(at)?;
        let closes = match opens {
            b'(' => b')',
            b'[' => b']',
            _ => b'}',
        };
        let mut depth = 0_usize;
        let mut to = at;
        while let Some(byte) = self.byte(to).filter(|_| self.misses < MISSES) {
            to = self.skip(to);
            if byte == opens {
                depth += 1;
            } else if byte == closes {
                depth -= 1;
            }
            if depth == 0 {
                return Some(to);
            }
        }
        self.miss()
    }

    /// Behind the tag that starts at `at`.
    fn tag(&mut self, at: usize) -> Option<usize> {
        let mut to = at + 1;
        while let Some(byte) = self.byte(to).filter(|_| self.misses < MISSES) {
            to = match byte {
                b'>' => return Some(to + 1),
                b'{' => self.closing(to)?,
                quote @ (b'"' | b'\'') => self.until(to + 1, &[quote])?,
                _ => to + 1,
            };
        }
        self.miss()
    }

    /// The end of the lines from `at` to the next blank one that is in no brackets, tag, template or comment.
    fn paragraph(&mut self, text: &str, at: usize, brackets: &[u8]) -> usize {
        let mut to = at;
        while let Some(byte) = self.byte(to) {
            let tag = |byte: u8| byte.is_ascii_alphabetic() || byte == b'>';
            to = match byte {
                b'\n' => {
                    let line = Span::new(to + 1, next_line(text, to + 1).min(self.end));
                    if is_blank(text, line) {
                        return to;
                    }
                    to + 1
                }
                b'<' if self.byte(to + 1).is_some_and(tag) => self.tag(to).unwrap_or(to + 1),
                b'`' | b'/' | b'\\' => self.skip(to),
                byte if brackets.contains(&byte) => self.closing(to).unwrap_or(to + 1),
                _ => to + 1,
            };
        }
        self.end
    }
}
