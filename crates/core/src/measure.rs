//! Text and outline → the offsets of tokens, sentences and blocks, and a ruler that gives the size of any span.
//!
//! Invariant: a block start is a sentence start; no offset lies in a character.

use crate::offsets::{Offsets, TokenCounter, TokenOffsets};
use crate::outline::{Block, BlockKind, Outline};
use crate::span::{Span, lines, slice};
use unicode_segmentation::UnicodeSegmentation;

/// Measures everything that is kept of a text. Linear in the text.
pub fn measure(text: &str, outline: &Outline, counter: &dyn TokenCounter) -> Offsets {
    let mut offsets = Offsets { tokens: TokenOffsets::of(text, counter), ..Offsets::default() };
    for block in &outline.blocks {
        innermost(text, block, &mut offsets);
    }
    offsets
}

fn innermost(text: &str, block: &Block, offsets: &mut Offsets) {
    let pieces = pieces(text, block);
    if pieces.len() > 1 || block.children.len() == 1 {
        for piece in pieces {
            match piece {
                Piece::Own(span) => sentence_starts(text, span, offsets),
                Piece::Child(_, child) => innermost(text, child, offsets),
            }
        }
        return;
    }
    if has_lines(block.kind) {
        for line in lines(text, block.span) {
            let line = line.trim(text);
            if !line.is_empty() {
                offsets.blocks.push(line.start as u32);
                offsets.sentences.push(line.start as u32);
            }
        }
    } else {
        sentence_starts(text, block.span, offsets);
    }
}

fn sentence_starts(text: &str, span: Span, offsets: &mut Offsets) {
    offsets.blocks.push(span.start as u32);
    offsets.sentences.extend(sentences(text, span).iter().map(|sentence| sentence.start as u32));
}

/// Whether a block is cut at its lines, not at its sentences.
pub fn has_lines(kind: BlockKind) -> bool {
    matches!(
        kind,
        BlockKind::FencedCode | BlockKind::IndentedCode | BlockKind::Html | BlockKind::Definition
    )
}

/// A part of a block: text of its own, or a block inside it together with the markers before it.
#[derive(Debug, Clone, Copy)]
pub enum Piece<'a> {
    /// Text of the block itself.
    Own(Span),
    /// A block inside it; the span may reach further than the block's own, over list and quote markers.
    Child(Span, &'a Block),
}

impl Piece<'_> {
    /// Its bytes.
    pub fn span(&self) -> Span {
        match self {
            Piece::Own(span) | Piece::Child(span, _) => *span,
        }
    }
}

/// Cuts a block at the blocks inside it. Every non-blank byte of the block is in exactly one piece: markers (`>`, `-`,
/// `1.`) go with what they introduce.
pub fn pieces<'a>(text: &str, block: &'a Block) -> Vec<Piece<'a>> {
    let mut pieces: Vec<Piece<'a>> = Vec::with_capacity(block.children.len() + 1);
    let mut at = block.span.start;
    for child in &block.children {
        let gap = slice(text, Span::new(at, child.span.start));
        let own_end = at + gap.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '\n').len();
        let has_own = gap.chars().any(char::is_alphanumeric) && !is_marker(gap);
        let mut start = at;
        if has_own {
            let own = Span::new(at, own_end).trim(text);
            pieces.push(Piece::Own(own));
            start = own.end;
        }
        pieces.push(Piece::Child(Span::new(start, child.span.end).trim(text), child));
        at = child.span.end;
    }
    let rest = Span::new(at, block.span.end).trim(text);
    if !rest.is_empty() {
        let letters = slice(text, rest).chars().any(char::is_alphanumeric);
        match pieces.last_mut() {
            Some(Piece::Own(span) | Piece::Child(span, _)) if !letters => *span = span.hull(rest),
            _ => pieces.push(Piece::Own(rest)),
        }
    }
    pieces
}

/// Whether a gap is nothing but an ordered list's marker, as `12.` or `[^note]:`.
fn is_marker(gap: &str) -> bool {
    let gap = gap.trim_matches(|c: char| c.is_whitespace() || c == '>');
    let ordered = gap.trim_start_matches(|c: char| c.is_ascii_digit());
    matches!(ordered, "." | ")") || (gap.starts_with("[^") && gap.ends_with("]:"))
}

/// The sentences of a span, trimmed, in order: Unicode sentence rules (UAX 29), but a single line feed does not end a
/// sentence, nor does an abbreviation such as "e.g.". Every non-blank byte is in one of them.
///
/// Source: Unicode Standard Annex 29, section 5.
pub fn sentences(text: &str, span: Span) -> Vec<Span> {
    let piece = slice(text, span);
    let ends = sentence_ends(piece);
    let mut found: Vec<Span> = Vec::with_capacity(ends.len());
    let (mut start, mut last) = (span.start, span.start);
    for end in ends {
        let this = Span::new(last, span.start + end);
        last = this.end;
        if last == span.end || !ends_with_abbreviation(slice(text, this)) {
            let sentence = Span::new(start, last).trim(text);
            start = last;
            if !sentence.is_empty() {
                found.push(sentence);
            }
        }
    }
    found
}

/// Where sentences end, blanks behind them included.
///
/// No rule looks over a letter. So the text is read in stretches from one ASCII letter to another, and those that are not
/// all ASCII are short: often a quotation mark between two words.
fn sentence_ends(piece: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at = 0;
    loop {
        let rest = slice(piece, Span::new(at, piece.len()));
        let stretch = stretch(rest.as_bytes());
        let read = slice(rest, Span::new(0, stretch));
        if read.is_ascii() {
            ascii_sentence_ends(read, at, &mut ends);
        } else {
            unicode_sentence_ends(read, at, &mut ends);
        }
        if stretch == rest.len() {
            return ends;
        }
        // It ends with a letter, which the next one starts with.
        ends.pop();
        at += stretch - 1;
    }
}

/// How many bytes to read at once: as many ASCII ones as there are up to a letter, else as few others as there are.
fn stretch(bytes: &[u8]) -> usize {
    let Some(other) = bytes.iter().position(|byte| !byte.is_ascii()) else { return bytes.len() };
    let (ascii, others) = bytes.split_at(other);
    match ascii.iter().rposition(u8::is_ascii_alphabetic) {
        Some(letter) if letter > 0 => letter + 1,
        _ => others
            .iter()
            .position(u8::is_ascii_alphabetic)
            .map_or(bytes.len(), |letter| other + letter + 1),
    }
}

/// Where sentences end in any text: adds `start` and the offset in the text, the text's end the last.
fn unicode_sentence_ends(text: &str, start: usize, ends: &mut Vec<usize>) {
    // Line feeds end a sentence by the rules of the annex; in hard-wrapped text they are blanks. Same length, same offsets.
    let unwrapped: String =
        text.chars().map(|c| if matches!(c, '\n' | '\r') { ' ' } else { c }).collect();
    let sentences = unwrapped.split_sentence_bound_indices();
    ends.extend(sentences.map(|(at, sentence)| start + at + sentence.len()));
}

/// What [`unicode_sentence_ends`] adds for ASCII, several times faster: most text is.
fn ascii_sentence_ends(text: &str, start: usize, ends: &mut Vec<usize>) {
    let bytes = text.as_bytes();
    let is_blank = |byte: u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let is_close = |byte: u8| b"()[]{}\"'".contains(&byte);
    let is_term = |byte: u8| matches!(byte, b'.' | b'!' | b'?');
    // The first byte from `at` on that is not of a kind.
    let behind = |at: usize, kind: &dyn Fn(u8) -> bool| {
        let rest = bytes.get(at..).unwrap_or_default();
        at + rest.iter().position(|&byte| !kind(byte)).unwrap_or(rest.len())
    };
    let mut at = 0;
    while at < bytes.len() {
        let term = behind(at, &|byte| !is_term(byte));
        at = term + 1;
        let full_stop = bytes.get(term) == Some(&b'.');
        let next = bytes.get(at).copied().unwrap_or_default();
        let letter_before = term > 0 && bytes.get(term - 1).is_some_and(u8::is_ascii_alphabetic);
        // Rules SB6 and SB7: a number, or initials.
        if full_stop && (next.is_ascii_digit() || letter_before && next.is_ascii_uppercase()) {
            continue;
        }
        at = behind(behind(at, &is_close), &is_blank);
        // Rule SB8: a full stop ends no sentence where what follows starts with a small letter.
        let small_letter = || {
            let first = behind(at, &|byte| !byte.is_ascii_alphabetic() && !is_term(byte));
            bytes.get(first).is_some_and(u8::is_ascii_lowercase)
        };
        // Rule SB8a: the sentence goes on, or ends with the next mark.
        let goes_on = bytes.get(at).is_some_and(|&byte| is_term(byte) || b",-:;".contains(&byte));
        if at < bytes.len() && !goes_on && !(full_stop && small_letter()) {
            ends.push(start + at);
        }
    }
    if !bytes.is_empty() {
        ends.push(start + bytes.len());
    }
}

fn ends_with_abbreviation(sentence: &str) -> bool {
    const ABBREVIATIONS: [&str; 15] = [
        "e.g.", "i.e.", "cf.", "vs.", "viz.", "approx.", "resp.", "fig.", "eq.", "sec.", "dr.",
        "mr.", "mrs.", "ms.", "prof.",
    ];
    let last = sentence
        .trim_end()
        .rsplit(|c: char| c.is_whitespace() || matches!(c, '(' | '[' | '"'))
        .next();
    last.is_some_and(|word| ABBREVIATIONS.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

/// Words between blanks, trimmed, in order.
pub fn words(text: &str, span: Span) -> Vec<Span> {
    let piece = slice(text, span);
    piece
        .split_whitespace()
        .map(|word| {
            let start = span.start + (word.as_ptr() as usize - piece.as_ptr() as usize);
            Span::new(start, start + word.len())
        })
        .collect()
}

/// The words of text without blanks, by Unicode word rules (UAX 29).
pub fn word_parts(text: &str, span: Span) -> Vec<Span> {
    slice(text, span)
        .split_word_bound_indices()
        .map(|(at, part)| Span::new(span.start + at, span.start + at + part.len()))
        .collect()
}

/// Extended grapheme clusters: never cut further.
pub fn graphemes(text: &str, span: Span) -> Vec<Span> {
    slice(text, span)
        .grapheme_indices(true)
        .map(|(at, part)| Span::new(span.start + at, span.start + at + part.len()))
        .collect()
}

/// Runs of graphemes of about 64 bytes, so that a word of millions of letters is not cut into millions of pieces at once.
pub fn grapheme_runs(text: &str, span: Span) -> Vec<Span> {
    const RUN_BYTES: usize = 64;
    let mut runs: Vec<Span> = Vec::new();
    for (at, part) in slice(text, span).grapheme_indices(true) {
        let grapheme = Span::new(span.start + at, span.start + at + part.len());
        match runs.last_mut() {
            Some(run) if run.len() + grapheme.len() <= RUN_BYTES => *run = run.hull(grapheme),
            _ => runs.push(grapheme),
        }
    }
    runs
}

/// Gives the size of a span: in budget tokens, or in characters.
#[derive(Debug)]
pub enum Ruler<'a> {
    /// Budget tokens that the span overlaps.
    Tokens(&'a TokenOffsets),
    /// Unicode scalar values.
    Characters(CharacterOffsets<'a>),
}

impl Ruler<'_> {
    /// The size of a span: O(log n) in tokens, O(1) in characters.
    pub fn size(&self, span: Span) -> usize {
        if span.is_empty() {
            return 0;
        }
        let (before, behind) = self.around(span);
        behind - before
    }

    /// The sizes of runs of neighbours, which are in order and not empty.
    pub(crate) fn runs(&self, spans: impl Iterator<Item = Span>) -> RunSizes {
        RunSizes { around: spans.map(|span| self.around(span)).collect() }
    }

    /// How much of the text ends before a span that is not empty, and how much starts before its end.
    fn around(&self, span: Span) -> (usize, usize) {
        match self {
            Ruler::Tokens(tokens) => tokens.around(span),
            Ruler::Characters(characters) => {
                (characters.before(span.start), characters.before(span.end))
            }
        }
    }
}

/// The size of each run of some neighbours in O(1): the place of each is looked up once.
#[derive(Debug)]
pub(crate) struct RunSizes {
    around: Vec<(usize, usize)>,
}

impl RunSizes {
    /// The size of the neighbours `i..j` together with what lies between them; 0 for an empty range.
    pub(crate) fn size(&self, i: usize, j: usize) -> usize {
        match self.around.get(i..j) {
            Some([(before, behind)] | [(before, _), .., (_, behind)]) => behind - before,
            _ => 0,
        }
    }
}

/// How many characters stand before each offset of a text, kept every [`STEP`](CharacterOffsets::STEP) bytes.
#[derive(Debug)]
pub struct CharacterOffsets<'a> {
    bytes: &'a [u8],
    steps: Vec<u32>,
}

impl<'a> CharacterOffsets<'a> {
    /// Bytes between two kept counts.
    pub const STEP: usize = 64;

    /// Counts the characters of a text once.
    pub fn of(text: &'a str) -> CharacterOffsets<'a> {
        let bytes = text.as_bytes();
        let mut total = 0;
        let mut steps = Vec::with_capacity(bytes.len() / Self::STEP + 1);
        for chunk in bytes.chunks(Self::STEP) {
            steps.push(total as u32);
            total += characters(chunk);
        }
        steps.push(total as u32);
        CharacterOffsets { bytes, steps }
    }

    fn before(&self, offset: usize) -> usize {
        let step = offset / Self::STEP;
        let kept = |step: usize| self.steps.get(step).map_or(0, |&count| count as usize);
        let before = kept(step);
        if kept(step + 1) == before + Self::STEP {
            // Each byte is a character: so it is for most steps of most texts.
            return before + offset % Self::STEP;
        }
        before + self.bytes.get(step * Self::STEP..offset).map_or(0, characters)
    }
}

/// How many of at most 255 bytes start a character.
fn characters(bytes: &[u8]) -> usize {
    // A sum of bytes is what the processor adds many of at once.
    let starts = bytes.iter().map(|&byte| u8::from(byte.cast_signed() >= -0x40));
    usize::from(starts.sum::<u8>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outline::{Format, parse};
    use proptest::prelude::*;

    fn check_sentences(text: &str, expected: &[&str]) {
        let found: Vec<_> =
            sentences(text, Span::new(0, text.len())).iter().map(|&s| slice(text, s)).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn sentences_end_where_readers_end_them() {
        check_sentences("One. Two!  Three?", &["One.", "Two!", "Three?"]);
        check_sentences(
            "Hard\nwrapped line. Next\r\none.",
            &["Hard\nwrapped line.", "Next\r\none."],
        );
        check_sentences("Use a list, e.g. Apples. Done.", &["Use a list, e.g. Apples.", "Done."]);
        check_sentences(
            "Version 1.2.3 is out. (See vs. Others.)",
            &["Version 1.2.3 is out.", "(See vs. Others.)"],
        );
        check_sentences("これは文です。次の文。", &["これは文です。", "次の文。"]);
        check_sentences(" \n ", &[]);
    }

    fn check_pieces(text: &str, expected: &[&str]) {
        let outline = parse(text, Span::new(0, text.len()), Format::Markdown);
        let found: Vec<_> =
            pieces(text, &outline.blocks[0]).iter().map(|p| slice(text, p.span())).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn markers_go_with_what_they_introduce() {
        check_pieces("- a\n- b\n", &["- a", "- b"]);
        check_pieces("> a\n>\n> b\n", &["> a", ">\n> b"]);
        check_pieces("1. a\n2. b\n", &["1. a", "2. b"]);
        check_pieces("| h |\n|---|\n| 1 |\n", &["| h |\n|---|", "| 1 |"]);
    }

    #[test]
    fn an_item_keeps_its_own_text_before_a_nested_list() {
        let text = "- own text\n  - inner\n";
        let outline = parse(text, Span::new(0, text.len()), Format::Markdown);
        let item = &outline.blocks[0].children[0];
        let found: Vec<_> = pieces(text, item).iter().map(|p| slice(text, p.span())).collect();
        assert_eq!(found, ["- own text", "- inner"]);
    }

    /// Characters of every class that the annex tells apart.
    const LIKELY: &[char] = &[
        '.', '.', '!', '?', '(', ')', '"', '\'', ' ', '\t', '\r', '\n', 'a', 'b', 'A', 'B', '0',
        '1', ',', ';', ':', '-', '_', 'é', 'É', '漢', '。', '．', '…', '’', '“', '”', '–',
        '\u{a0}', '\u{301}', '\u{ad}', '\u{200d}', '\u{85}', '\u{2028}', '٣',
    ];

    proptest! {
        #[test]
        fn characters_are_counted_exactly(text in "[aé漢🙂\n]{0,900}", cut in 0usize..900) {
            let ruler = Ruler::Characters(CharacterOffsets::of(&text));
            let cut = text.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(text.len());
            prop_assert_eq!(ruler.size(Span::new(0, cut)), slice(&text, Span::new(0, cut)).chars().count());
            prop_assert_eq!(ruler.size(Span::new(cut, text.len())), slice(&text, Span::new(cut, text.len())).chars().count());
        }

        #[test]
        fn sentences_end_by_the_annex(
            likely in prop::collection::vec(prop::sample::select(LIKELY), 0..60),
            any in any::<String>(),
        ) {
            let ascii: String = likely.iter().filter(|c| c.is_ascii()).collect();
            for text in [ascii, likely.into_iter().collect(), any] {
                let mut expected = Vec::new();
                unicode_sentence_ends(&text, 0, &mut expected);
                prop_assert_eq!(sentence_ends(&text), expected, "{:?}", text);
            }
        }

        #[test]
        fn pieces_and_sentences_hold_every_visible_byte(text in "([#>\\-*`|~ \\[\\]:a-c.é1]{0,9}\n{1,2}){0,12}") {
            let outline = parse(&text, Span::new(0, text.len()), Format::Markdown);
            for block in &outline.blocks {
                nested(&text, block);
            }
        }
    }

    fn nested(text: &str, block: &Block) {
        let visible = |span: Span| slice(text, span).chars().filter(|c| !c.is_whitespace()).count();
        let spans: Vec<_> = pieces(text, block).iter().map(Piece::span).collect();
        assert!(spans.windows(2).all(|pair| pair[0].end <= pair[1].start), "{spans:?} in {text:?}");
        assert_eq!(
            spans.iter().map(|&s| visible(s)).sum::<usize>(),
            visible(block.span),
            "{block:?} in {text:?}"
        );
        let sentences = sentences(text, block.span);
        assert_eq!(sentences.iter().map(|&s| visible(s)).sum::<usize>(), visible(block.span));
        block.children.iter().for_each(|child| nested(text, child));
    }
}
