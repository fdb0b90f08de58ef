//! A text → chunks as two common splitters cut them.

use std::fmt;
use umbel_core::offsets::TokenCounter;
use umbel_core::span::{Span, slice};

/// What texts are split at, in this order; last of all between any two characters.
const SEPARATORS: [&str; 6] = ["\n\n", "\n", ".", "?", "!", " "];

/// How a text is cut. Sizes are in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunker {
    /// Windows of so many tokens, whatever stands at their edges.
    TokenText {
        /// Of a chunk.
        size: usize,
        /// Repeated of the chunk before; below the size.
        overlap: usize,
    },
    /// Pieces between the coarsest separators that make them small enough, joined while they stay below the size.
    Recursive {
        /// Of a chunk.
        size: usize,
        /// Repeated of the chunk before at the most.
        overlap: usize,
    },
}

impl fmt::Display for Chunker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Chunker::TokenText { size, overlap } => write!(f, "TokenText {size}/{overlap}"),
            Chunker::Recursive { size, overlap } => write!(f, "Recursive {size}/{overlap}"),
        }
    }
}

impl Chunker {
    /// The chunks of a text in bytes, in order.
    ///
    /// # Panics
    /// If the overlap is not below the size.
    pub fn chunks(self, text: &str, counter: &dyn TokenCounter) -> Vec<Span> {
        match self {
            Chunker::TokenText { size, overlap } => windows(text, counter, size, overlap),
            Chunker::Recursive { size, overlap } => {
                assert!(overlap < size, "a chunk must go further than the one before");
                let mut splitter = Splitter { text, counter, size, overlap, chunks: Vec::new() };
                splitter.split(Span::new(0, text.len()), &SEPARATORS);
                splitter.chunks
            }
        }
    }
}

/// The last window ends with the text. An edge inside of a character moves to its start.
fn windows(text: &str, counter: &dyn TokenCounter, size: usize, overlap: usize) -> Vec<Span> {
    assert!(overlap < size, "a window must go further than the one before");
    let starts = counter.starts(text);
    let edge = |token: usize| {
        let at = starts.get(token).map_or(text.len(), |&at| at as usize);
        text.floor_char_boundary(at)
    };
    let mut windows = Vec::new();
    let mut first = 0;
    while first < starts.len() {
        let behind = (first + size).min(starts.len());
        windows.push(Span::new(edge(first), edge(behind)));
        if behind == starts.len() {
            break;
        }
        first += size - overlap;
    }
    windows
}

struct Splitter<'a> {
    text: &'a str,
    counter: &'a dyn TokenCounter,
    size: usize,
    overlap: usize,
    chunks: Vec<Span>,
}

impl Splitter<'_> {
    /// Cuts a span at the first of these separators that it holds. Pieces that are small enough are joined; the others are cut at the
    /// separators behind that one.
    fn split(&mut self, span: Span, separators: &[&str]) {
        let held = |separator: &&str| slice(self.text, span).contains(separator);
        let found = separators.iter().position(held);
        let (pieces, rest) = match found {
            Some(at) => {
                let separator = separators.get(at).copied().unwrap_or_default();
                (self.pieces(span, separator), separators.get(at + 1..).unwrap_or_default())
            }
            None => (self.characters(span), [].as_slice()),
        };
        let mut small: Vec<(Span, usize)> = Vec::new();
        for piece in pieces {
            let tokens = self.counter.count(slice(self.text, piece));
            if tokens < self.size {
                small.push((piece, tokens));
                continue;
            }
            self.join(&small);
            small.clear();
            if found.is_none() {
                self.chunks.push(piece);
            } else {
                self.split(piece, rest);
            }
        }
        self.join(&small);
    }

    /// The pieces of a span; each but the first one starts with the separator.
    fn pieces(&self, span: Span, separator: &str) -> Vec<Span> {
        let text = slice(self.text, span);
        let cuts = text.match_indices(separator).map(|(at, _)| span.start + at);
        let edges: Vec<usize> = std::iter::once(span.start).chain(cuts).chain([span.end]).collect();
        let pairs = edges.windows(2).filter_map(|pair| match *pair {
            [start, end] if start < end => Some(Span::new(start, end)),
            _ => None,
        });
        pairs.collect()
    }

    fn characters(&self, span: Span) -> Vec<Span> {
        let one = |(at, character): (usize, char)| {
            Span::new(span.start + at, span.start + at + character.len_utf8())
        };
        slice(self.text, span).char_indices().map(one).collect()
    }

    /// Joins pieces that follow each other, as many as stay within the size; a chunk repeats pieces of the one before, as far as the
    /// overlap allows.
    fn join(&mut self, pieces: &[(Span, usize)]) {
        let (mut first, mut total) = (0, 0);
        for (at, &(_, tokens)) in pieces.iter().enumerate() {
            if total + tokens > self.size && first < at {
                self.push(pieces.get(first..at).unwrap_or_default());
                while total > self.overlap || (total + tokens > self.size && total > 0) {
                    total -= pieces.get(first).map_or(0, |(_, tokens)| *tokens);
                    first += 1;
                }
            }
            total += tokens;
        }
        self.push(pieces.get(first..).unwrap_or_default());
    }

    fn push(&mut self, pieces: &[(Span, usize)]) {
        let (Some((first, _)), Some((last, _))) = (pieces.first(), pieces.last()) else { return };
        let chunk = first.hull(*last).trim(self.text);
        if !chunk.is_empty() {
            self.chunks.push(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A token a character.
    struct Letters;

    impl TokenCounter for Letters {
        fn name(&self) -> &'static str {
            "letters"
        }

        fn count(&self, text: &str) -> usize {
            text.chars().count()
        }

        fn starts(&self, text: &str) -> Vec<u32> {
            text.char_indices().map(|(at, _)| at as u32).collect()
        }
    }

    fn check(chunker: Chunker, text: &str, expected: &[&str]) {
        let chunks = chunker.chunks(text, &Letters);
        let texts: Vec<&str> = chunks.iter().map(|&span| slice(text, span)).collect();
        assert_eq!(texts, expected, "{chunker}");
    }

    #[test]
    fn windows_overlap_and_the_last_one_ends_the_text() {
        let of = |size, overlap| Chunker::TokenText { size, overlap };
        check(of(4, 2), "abcdefg", &["abcd", "cdef", "efg"]);
        check(of(4, 0), "abcdefgh", &["abcd", "efgh"]);
        check(of(9, 3), "abc", &["abc"]);
        check(of(4, 2), "", &[]);
    }

    #[test]
    fn pieces_are_joined_below_the_size_and_start_with_their_separator() {
        let of = |size, overlap| Chunker::Recursive { size, overlap };
        check(of(9, 0), "aaa bbb ccc", &["aaa bbb", "ccc"]);
        check(of(9, 4), "aaa bbb ccc", &["aaa bbb", "bbb ccc"]);
        check(of(8, 0), "one. two. three", &["one. two", ". three"]);
        // What no separator makes small enough is cut between characters.
        check(of(3, 0), "abcdef gh", &["abc", "def", "gh"]);
        check(of(50, 0), "aa\n\nbb", &["aa\n\nbb"]);
    }

    proptest! {
        #[test]
        fn chunks_go_forward_and_hold_all_that_is_not_blank(
            text in "[ab .?!\n]{0,120}", size in 2usize..20, overlap in 0usize..10,
        ) {
            let overlap = overlap.min(size - 1);
            for chunker in [Chunker::TokenText { size, overlap }, Chunker::Recursive { size, overlap }] {
                let chunks = chunker.chunks(&text, &Letters);
                // What one repeats of the one before may begin at the same letter, where the blank before it is trimmed.
                prop_assert!(chunks.windows(2).all(|pair| pair[0].start <= pair[1].start && pair[0].end <= pair[1].end));
                prop_assert!(chunks.iter().all(|chunk| chunk.len() <= size));
                for (at, _) in text.char_indices().filter(|(_, c)| !c.is_whitespace()) {
                    prop_assert!(chunks.iter().any(|chunk| chunk.start <= at && at < chunk.end));
                }
            }
        }
    }
}
