//! Texts, chunks and judged questions → the figures of Chroma's chunking evaluation.
//!
//! Invariant: all ranges are characters of one file, half open, as its published figures have them.
//!
//! Source: Smith and Troynikov, "Evaluating Chunking Strategies for Retrieval", Chroma 2024.

mod chunker;
mod figures;

pub use chunker::Chunker;
pub use figures::{Figures, Spread, figures, precision_omega};

use umbel_core::span::{Span, slice};

/// A range of one of several texts, in bytes or in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chunk {
    /// The text, by its place.
    pub text: usize,
    /// The range.
    pub span: Span,
}

/// Where a chunk is said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locate {
    /// Where it was cut.
    Exact,
    /// At the first place of its file where the same text stands, as in the published code: chunks that repeat a text all count as
    /// the first one.
    First,
}

/// Where the chunk of these bytes is said to be, in bytes.
///
/// # Panics
/// Where the span is none of the text.
pub fn located(text: &str, span: Span, locate: Locate) -> Span {
    let start = match locate {
        Locate::Exact => span.start,
        Locate::First => text.find(slice(text, span)).unwrap_or(span.start),
    };
    Span::new(start, start + span.len())
}

/// Where the characters of a text start.
#[derive(Debug, Clone)]
pub struct Characters(Vec<u32>);

impl Characters {
    /// Those of a text of less than 4 GiB.
    pub fn of(text: &str) -> Characters {
        Characters(text.char_indices().map(|(at, _)| at as u32).collect())
    }

    /// A span of bytes in characters; O(log n).
    pub fn span(&self, bytes: Span) -> Span {
        let before = |end: usize| self.0.partition_point(|&at| (at as usize) < end);
        Span::new(before(bytes.start), before(bytes.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_characters() {
        let text = "aé漢b";
        let check = |start: usize, end: usize, expected: (usize, usize)| {
            let got = Characters::of(text).span(Span::new(start, end));
            assert_eq!((got.start, got.end), expected);
        };
        check(0, 1, (0, 1));
        check(1, 6, (1, 3));
        check(3, 7, (2, 4));
        check(7, 7, (4, 4));
    }

    #[test]
    fn the_first_place_of_a_text_is_that_of_all() {
        let text = "one two one";
        let last = Span::new(8, 11);
        assert_eq!(located(text, last, Locate::Exact), last);
        assert_eq!(located(text, last, Locate::First), Span::new(0, 3));
    }
}
