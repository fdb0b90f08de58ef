//! Text → the offsets of its tokens, sentences and blocks, so that any span is measured without reading the text again.
//!
//! Invariant: each list is strictly rising, starts at 0 where the text is not empty, and holds no offset at or behind the end.

use crate::span::Span;
use serde::{Deserialize, Serialize};

/// Splits text into the tokens of a language model's budget.
pub trait TokenCounter: Send + Sync {
    /// The name of the encoding, as `o200k_base`.
    fn name(&self) -> &str;

    /// How many tokens the text has.
    fn count(&self, text: &str) -> usize;

    /// The byte offset at which each token of the text starts: strictly rising, first 0; a token may start inside a
    /// character. Empty for an empty text.
    fn starts(&self, text: &str) -> Vec<u32>;
}

/// Where the tokens of one text start. Counting a span is O(log n).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TokenOffsets {
    starts: Vec<u32>,
    text_len: u32,
}

impl TokenOffsets {
    /// The offsets of `text` under `counter`.
    pub fn of(text: &str, counter: &dyn TokenCounter) -> TokenOffsets {
        TokenOffsets { starts: counter.starts(text), text_len: text.len() as u32 }
    }

    /// How many tokens the span overlaps; 0 for an empty span.
    pub fn count(&self, span: Span) -> usize {
        if span.is_empty() {
            return 0;
        }
        let (before, behind) = self.around(span);
        behind - before
    }

    /// How many tokens end before a span that is not empty, and how many start before its end.
    pub(crate) fn around(&self, span: Span) -> (usize, usize) {
        (self.overlapping(span.start), self.first_from(span.end))
    }

    /// How many tokens the whole text has.
    pub fn total(&self) -> usize {
        self.starts.len()
    }

    /// Where each token starts, in rising order.
    pub fn starts(&self) -> &[u32] {
        &self.starts
    }

    /// Whether a token starts (or the text ends) at `offset`.
    pub fn is_boundary(&self, offset: usize) -> bool {
        offset >= self.text_len as usize || self.starts.binary_search(&(offset as u32)).is_ok()
    }

    /// The byte offset `n` tokens before the one that holds `offset`, clipped to 0.
    pub fn back(&self, offset: usize, n: usize) -> usize {
        let token = self.overlapping(offset).saturating_sub(n);
        self.starts.get(token).map_or(self.text_len as usize, |&start| start as usize)
    }

    /// The byte offset at which the `n`-th token after the one that starts at or behind `offset` begins, clipped to the end.
    pub fn forward(&self, offset: usize, n: usize) -> usize {
        let token = self.first_from(offset) + n;
        self.starts.get(token).map_or(self.text_len as usize, |&start| start as usize)
    }

    /// The index of the token that holds `offset`.
    fn overlapping(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start as usize <= offset).saturating_sub(1)
    }

    /// The index of the first token that starts at or behind `offset`.
    fn first_from(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| (start as usize) < offset)
    }
}

/// Everything that is measured of one document's text at ingestion.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Offsets {
    /// Budget tokens.
    pub tokens: TokenOffsets,
    /// Where each sentence starts; a block start is a sentence start.
    pub sentences: Vec<u32>,
    /// Where each innermost block (paragraph, list item, table row, code line, heading) starts.
    pub blocks: Vec<u32>,
}

/// The largest offset of `list` that is at or before `offset`; `None` before the first.
pub fn at_or_before(list: &[u32], offset: usize) -> Option<usize> {
    let at = list.partition_point(|&start| start as usize <= offset);
    at.checked_sub(1).and_then(|at| list.get(at)).map(|&start| start as usize)
}

/// The smallest offset of `list` that is at or behind `offset`; `None` behind the last.
pub fn at_or_after(list: &[u32], offset: usize) -> Option<usize> {
    list.get(list.partition_point(|&start| (start as usize) < offset)).map(|&start| start as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One token a byte pair: `ab|cd|e`.
    struct Pairs;
    impl TokenCounter for Pairs {
        fn name(&self) -> &'static str {
            "pairs"
        }
        fn count(&self, text: &str) -> usize {
            text.len().div_ceil(2)
        }
        fn starts(&self, text: &str) -> Vec<u32> {
            (0..text.len() as u32).step_by(2).collect()
        }
    }

    fn check(start: usize, end: usize, tokens: usize) {
        let offsets = TokenOffsets::of("abcde", &Pairs);
        assert_eq!(offsets.count(Span::new(start, end)), tokens, "{start}..{end}");
    }

    #[test]
    fn a_span_counts_the_tokens_that_it_overlaps() {
        check(0, 5, 3);
        check(0, 0, 0);
        check(5, 5, 0);
        check(1, 2, 1);
        check(1, 3, 2);
        check(4, 5, 1);
        check(2, 4, 1);
    }

    #[test]
    fn walking_tokens_is_clipped_to_the_text() {
        let offsets = TokenOffsets::of("abcde", &Pairs);
        assert_eq!((offsets.back(4, 1), offsets.back(3, 9)), (2, 0));
        assert_eq!(
            (offsets.forward(0, 1), offsets.forward(1, 1), offsets.forward(4, 7)),
            (2, 4, 5)
        );
        assert!(offsets.is_boundary(2) && offsets.is_boundary(5) && !offsets.is_boundary(3));
    }

    #[test]
    fn neighbours_in_a_list_are_found() {
        let list = [0, 4, 9];
        assert_eq!((at_or_before(&list, 5), at_or_after(&list, 5)), (Some(4), Some(9)));
        assert_eq!((at_or_before(&list, 4), at_or_after(&list, 10)), (Some(4), None));
    }
}
