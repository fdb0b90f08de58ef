//! The Markdown of a page, and its lines → blocks.
//!
//! Invariant: no text becomes a heading, HTML or code by its look; a block holds no blank line but in code.

use super::lines::{Line, Style, body_size, words};
use umbel_core::span::{Span, slice};

/// A piece of a page, between blank lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Block {
    /// With its level, and where the level comes from.
    Heading(u8, Source, String),
    /// Lines as they are written.
    Text(String),
}

/// What says that a text is a heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    Size,
    Style(Style, Rank),
}

/// Which of two headings in one style is above the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Numbered,
    Unnumbered,
}

/// The blocks of one page of the library's Markdown, with the headings that only its lines show.
pub(super) fn read_blocks(
    markdown: &str,
    lines: &[Line],
    mut candidates: Vec<(Style, String)>,
) -> Vec<Block> {
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
pub(super) fn plain(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_bullet_in_bold_is_an_item() {
        assert_eq!(bullet("\u{84} \u{84} They run"), Some("They run"));
        assert_eq!(bullet("☐ They run"), Some("They run"));
        assert_eq!(bullet("They run"), None);
    }

    #[test]
    fn raised_text_and_ligatures_are_letters() {
        assert_eq!(plain("oﬃce  x<sup>2</sup> T<sub>X</sub>"), "office x^2 T_X");
    }

    #[test]
    fn a_line_that_looks_like_a_block_is_escaped() {
        let escaped =
            |line, first| assert_eq!(escape(line, first), format!("\\{}", line.trim_start()));
        escaped("```rust", true);
        escaped("    ~~~", true);
        escaped("=====", false);
        escaped("---", false);
        assert_eq!(escape("    - item", false), "    - item");
    }
}
