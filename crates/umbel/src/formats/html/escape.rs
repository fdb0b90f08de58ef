//! A character and what stands around it → whether it is Markdown there.
//!
//! Invariant: a backslash is written where a reader would take the character for a mark, and hardly elsewhere.

/// What stands around a character of a text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Around<'a> {
    /// All that is written before it.
    pub(super) out: &'a str,
    /// The character before it on its line.
    pub(super) before: Option<char>,
    /// The text behind it.
    pub(super) rest: &'a str,
    /// Whether it is the first on a line of a paragraph.
    pub(super) at_start: bool,
    pub(super) in_link: bool,
    pub(super) in_cell: bool,
}

/// Whether a character needs a backslash to be itself.
pub(super) fn needs_escape(c: char, around: Around<'_>) -> bool {
    let Around { out, before, rest, at_start, in_link, in_cell } = around;
    // Blanks at the end are put behind the mark that follows, if one does.
    let next = rest.chars().next().filter(|c| !c.is_whitespace() || !rest.trim_start().is_empty());
    let blank_before = before.is_none_or(char::is_whitespace);
    let blank_next = next.is_some_and(char::is_whitespace);
    let blank_or_end = next.is_none_or(char::is_whitespace);
    let word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    match c {
        '`' => true,
        '\\' => next.is_none_or(|next| next.is_ascii_punctuation()),
        '*' => at_start || !(blank_before && blank_next),
        '_' => at_start || !((word(before) && word(next)) || (blank_before && blank_next)),
        '~' => {
            !blank_before
                || next.is_none_or(|next| next == '~')
                || at_start && rest.starts_with('~')
        }
        '[' => at_start || in_link,
        ']' => in_link,
        '(' => out.ends_with(']'),
        '<' => {
            next.is_none_or(|next| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?'))
        }
        '&' => {
            let name = rest.strip_prefix('#').unwrap_or(rest);
            let behind = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
            behind.is_empty() || (behind.starts_with(';') && behind.len() < name.len())
        }
        '|' => in_cell || at_start,
        '#' => at_start && blank_behind(rest.trim_start_matches('#'), 0),
        '>' | '=' | ':' => at_start,
        '-' => at_start && (blank_or_end || matches!(next, Some('-' | '|' | ':'))),
        '+' => at_start && (blank_or_end || next == Some('+')),
        _ => false,
    }
}

/// Keeps number signs at the end of a heading from being read as its closing sequence.
pub(super) fn escape_closing_sequence(out: &mut String) {
    let signs = out.len() - out.trim_end_matches('#').len();
    let at = out.len() - signs;
    if signs > 0 && out.get(..at).is_some_and(|before| before.ends_with(' ')) {
        out.insert(at, '\\');
    }
}

/// Whether a blank, or nothing, stands behind so many characters.
pub(super) fn blank_behind(text: &str, skip: usize) -> bool {
    text.chars().nth(skip).is_none_or(char::is_whitespace)
}

/// How often a character follows itself at the most.
pub(super) fn longest_run(text: &str, sought: char) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c == sought { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_is_escaped_where_it_is_a_mark() {
        let check = |c: char, around: Around<'_>, expected: bool| {
            assert_eq!(needs_escape(c, around), expected, "{c} {around:?}");
        };
        let inside = |before, rest| Around { before: Some(before), rest, ..Around::default() };
        let start = |rest| Around { rest, at_start: true, ..Around::default() };
        check('#', start(" a"), true);
        check('#', start("a"), false);
        check('#', inside('a', " b"), false);
        check('-', start(" a"), true);
        check('-', start("a"), false);
        check('_', inside('a', "b"), false);
        check('_', inside(' ', "b"), true);
        check('*', inside(' ', " b"), false);
        check('*', inside('a', "b"), true);
        check('&', inside('a', "amp;"), true);
        check('&', inside('a', " b"), false);
        check('<', inside('a', "b"), true);
        check('<', inside('a', " b"), false);
        check('a', start("b"), false);
        check('|', inside('a', "b"), false);
        check('|', Around { in_cell: true, ..inside('a', "b") }, true);
        check(']', inside('a', "b"), false);
        check(']', Around { in_link: true, ..inside('a', "b") }, true);
        check('(', inside(']', "b"), false);
        check('(', Around { out: "[a]", ..inside(']', "b") }, true);
    }

    #[test]
    fn number_signs_at_the_end_of_a_heading_stay() {
        let check = |heading: &str, expected: &str| {
            let mut out = heading.to_owned();
            escape_closing_sequence(&mut out);
            assert_eq!(out, expected);
        };
        check("# a ##", "# a \\##");
        check("# a#", "# a#");
        check("# a", "# a");
    }

    #[test]
    fn the_longest_run_is_counted() {
        assert_eq!(longest_run("a``b`c", '`'), 2);
        assert_eq!(longest_run("abc", '`'), 0);
    }
}
