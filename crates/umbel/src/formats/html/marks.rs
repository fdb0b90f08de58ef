//! Pieces → the pieces that Markdown can say.
//!
//! Invariant: marks and links come in pairs that a Markdown reader takes for what they are; no text is lost.

use super::blocks::{Inside, Piece, push};

/// How far is looked for the characters beside a mark.
const MARK_REACH: usize = 16;

/// The pieces without the marks and links that cannot be written.
pub(super) fn readable(pieces: &[Piece], inside: Inside) -> Vec<Piece> {
    let kept = balanced(pieces);
    let mut readable = Vec::with_capacity(pieces.len());
    for (piece, kept) in pieces.iter().zip(kept) {
        let written = match piece {
            Piece::Open(_) | Piece::Close(_) => kept && inside != Inside::Heading,
            Piece::LinkStart | Piece::LinkEnd(_) => kept,
            _ => true,
        };
        if written {
            push(&mut readable, piece.clone());
        }
    }
    readable
}

/// Which marks and links can be written: both ends are there, text is inside, and Markdown would read them as marks.
fn balanced(pieces: &[Piece]) -> Vec<bool> {
    let mut kept = vec![false; pieces.len()];
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut breaks = 0;
    let mut breaks_at = vec![0; pieces.len()];
    for (at, piece) in pieces.iter().enumerate() {
        breaks_at[at] = breaks;
        let mark = match piece {
            Piece::Break => {
                breaks += 1;
                continue;
            }
            Piece::Open(mark) => {
                open.push((at, mark));
                continue;
            }
            Piece::LinkStart => {
                open.push((at, "["));
                continue;
            }
            Piece::Close(mark) => mark,
            Piece::LinkEnd(_) => "[",
            _ => continue,
        };
        let Some(found) = open.iter().rposition(|&(_, open)| open == mark) else { continue };
        let (start, _) = open[found];
        open.truncate(found);
        let inside = pieces.get(start + 1..at).unwrap_or_default();
        let right = if mark == "[" {
            visible(inside.iter()) && !open.iter().any(|&(_, open)| open == "[")
        } else {
            open.iter().all(|&(_, open)| open == "[")
                && breaks_at[start] == breaks
                && mark_reads(pieces, start, at)
        };
        if right {
            kept[start] = true;
            kept[at] = true;
        }
    }
    kept
}

fn visible<'a>(pieces: impl Iterator<Item = &'a Piece>) -> bool {
    edge(pieces, false).is_some_and(|c| !c.is_whitespace())
}

/// Whether a pair of marks is one to a Markdown reader.
///
/// Source: CommonMark 0.31, left- and right-flanking delimiter runs.
fn mark_reads(pieces: &[Piece], start: usize, end: usize) -> bool {
    let before = pieces.get(..start).unwrap_or_default();
    let inside = pieces.get(start + 1..end).unwrap_or_default();
    let behind = pieces.get(end + 1..).unwrap_or_default();
    let is_mark = |piece: Option<&Piece>| matches!(piece, Some(Piece::Open(_) | Piece::Close(_)));
    let near = |piece: &&Piece| !matches!(piece, Piece::Anchor(_));
    if is_mark(before.iter().rev().take(MARK_REACH).find(near))
        || is_mark(behind.iter().take(MARK_REACH).find(near))
    {
        return false;
    }
    let reads = |outer: Option<char>, blank: bool, inner: Option<char>| {
        let Some(inner) = inner else { return false };
        blank
            || inner.is_alphanumeric()
            || outer.is_none_or(|c| c.is_whitespace() || c.is_ascii_punctuation())
    };
    let starts_blank =
        matches!(inside.first(), Some(Piece::Text(text)) if text.starts_with(char::is_whitespace));
    let ends_blank =
        matches!(inside.last(), Some(Piece::Text(text)) if text.ends_with(char::is_whitespace));
    let outer_before = before.iter().rev().take(MARK_REACH).find_map(last_char);
    let outer_behind = behind.iter().take(MARK_REACH).find_map(first_char);
    reads(outer_before, starts_blank, edge(inside.iter(), false))
        && reads(outer_behind, ends_blank, edge(inside.iter().rev(), true))
}

/// The first, or from behind the last, character that is no blank.
fn edge<'a>(pieces: impl Iterator<Item = &'a Piece>, from_behind: bool) -> Option<char> {
    pieces.take(MARK_REACH).find_map(|piece| match piece {
        Piece::Text(text) if from_behind => text.trim_end().chars().next_back(),
        Piece::Text(text) => text.trim_start().chars().next(),
        _ => first_char(piece),
    })
}

fn first_char(piece: &Piece) -> Option<char> {
    match piece {
        Piece::Text(text) => text.chars().next(),
        Piece::Code(_) => Some('`'),
        Piece::LinkStart => Some('['),
        Piece::LinkEnd(_) => Some(')'),
        Piece::Break => Some('\n'),
        _ => None,
    }
}

fn last_char(piece: &Piece) -> Option<char> {
    match piece {
        Piece::Text(text) => text.chars().next_back(),
        _ => first_char(piece),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `*` opens, `/` closes, `[` and `]` are a link; the rest is text. Marks that are kept come back.
    fn check(pieces: &str, inside: Inside, expected: &str) {
        let pieces: Vec<_> = pieces
            .chars()
            .map(|c| match c {
                '*' => Piece::Open("*"),
                '/' => Piece::Close("*"),
                '[' => Piece::LinkStart,
                ']' => Piece::LinkEnd(String::new()),
                '|' => Piece::Break,
                c => Piece::Text(c.into()),
            })
            .collect();
        let found: String = readable(&pieces, inside)
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) | Piece::Code(text) => text.as_str(),
                Piece::Open(_) => "*",
                Piece::Close(_) => "/",
                Piece::LinkStart => "[",
                Piece::LinkEnd(_) => "]",
                Piece::Break => "|",
                Piece::Anchor(_) => "",
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn marks_that_do_not_read_as_marks_go() {
        check("a *b/ c", Inside::Paragraph, "a *b/ c");
        check("a*b/c", Inside::Paragraph, "a*b/c");
        check("a*(b)/c", Inside::Paragraph, "a(b)c");
        check("*a", Inside::Paragraph, "a");
        check("a/", Inside::Paragraph, "a");
        check("*a|b/", Inside::Paragraph, "a|b");
        check("* /a", Inside::Paragraph, " a");
        check("*a//", Inside::Paragraph, "a");
        check("*a/", Inside::Heading, "a");
        check("*a/", Inside::Cell, "*a/");
    }

    #[test]
    fn links_that_hold_nothing_or_a_link_go() {
        check("[a]", Inside::Paragraph, "[a]");
        check("[a]", Inside::Heading, "[a]");
        check("[ ]a", Inside::Paragraph, " a");
        check("[a[b]]", Inside::Paragraph, "[ab]");
        check("[a", Inside::Paragraph, "a");
    }
}
