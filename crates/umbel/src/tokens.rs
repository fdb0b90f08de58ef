//! Text → budget tokens: the default counter, `o200k_base`.
//!
//! Invariant: the pieces that a text is split into before encoding follow each other without a gap.

use bpe_openai::Tokenizer;
use std::cell::RefCell;
use std::fmt;
use umbel_core::offsets::TokenCounter;

/// Counts tokens as OpenAI's `o200k_base` encoding does.
pub struct O200k(&'static Tokenizer);

impl O200k {
    /// The counter; its tables are built once a process.
    pub fn new() -> O200k {
        O200k(bpe_openai::o200k_base())
    }
}

impl Default for O200k {
    fn default() -> O200k {
        O200k::new()
    }
}

impl fmt::Debug for O200k {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("O200k")
    }
}

impl TokenCounter for O200k {
    fn name(&self) -> &'static str {
        "o200k_base"
    }

    fn count(&self, text: &str) -> usize {
        self.0.count(text)
    }

    fn starts(&self, text: &str) -> Vec<u32> {
        let mut starts = Vec::with_capacity(text.len() / 4 + 1);
        let mut at = 0;
        KNOWN.with_borrow_mut(|known| {
            for piece in self.0.split(text) {
                if let Some(mut marks) = known.marks(piece, || self.piece_starts(piece)) {
                    while marks != 0 {
                        starts.push(at + marks.trailing_zeros());
                        marks &= marks - 1;
                    }
                } else {
                    starts.extend(self.piece_starts(piece).map(|start| at + start));
                }
                at += piece.len() as u32;
            }
        });
        starts
    }
}

impl O200k {
    /// Where each token of a piece starts in it.
    fn piece_starts(&self, piece: &str) -> impl Iterator<Item = u32> {
        let tokens = self.0.bpe.encode_via_backtracking(piece.as_bytes());
        tokens.into_iter().scan(0, |end, token| {
            let start = *end;
            *end += self.0.bpe.token_len(token) as u32;
            Some(start)
        })
    }
}

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::new(Known::new());
}

/// Where the tokens of short pieces start, as found before: most pieces are words that come again, and to look one up is
/// several times faster than to encode it. Of two pieces with the same slot the later one is known.
struct Known {
    /// A piece, padded with zeros, its length last; and for each byte of it whether a token starts there, from the lowest bit.
    slots: Vec<([u8; 16], u16)>,
}

impl Known {
    /// Slots of 18 bytes, 295 KB a thread.
    const SLOT_BITS: u32 = 14;

    fn new() -> Known {
        Known { slots: vec![([0; 16], 0); 1 << Known::SLOT_BITS] }
    }

    /// The bits of a piece; `None` for one that is too long to be kept.
    fn marks<I: Iterator<Item = u32>>(
        &mut self,
        piece: &str,
        starts: impl FnOnce() -> I,
    ) -> Option<u16> {
        let mut key = [0; 16];
        let (bytes, length) = key.split_at_mut(15);
        bytes.get_mut(..piece.len())?.copy_from_slice(piece.as_bytes());
        length.fill(piece.len() as u8);
        let number = u128::from_le_bytes(key);
        // Multiplying by the golden ratio spreads what differs over the upper bits.
        let spread = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let slot = spread(spread((number >> 64) as u64) ^ number as u64) >> (64 - Known::SLOT_BITS);
        let (known, marks) = self.slots.get_mut(slot as usize)?;
        if *known != key {
            *marks = starts().fold(0, |marks, start| marks | 1 << start);
            *known = key;
        }
        Some(*marks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use umbel_core::offsets::TokenOffsets;

    #[test]
    fn known_counts() {
        let check =
            |text: &str, tokens: usize| assert_eq!(O200k::new().count(text), tokens, "{text:?}");
        check("", 0);
        check("hello world", 2);
        check("hello\n\n  world", 4);
    }

    /// What the tokenizer gives, piece by piece.
    fn by_the_tokenizer(text: &str) -> Vec<u32> {
        let tokenizer = bpe_openai::o200k_base();
        let lengths =
            tokenizer.encode(text).into_iter().map(|token| tokenizer.bpe.token_len(token) as u32);
        let ends = lengths.scan(0, |end, length| {
            *end += length;
            Some(*end - length)
        });
        ends.collect()
    }

    proptest! {
        #[test]
        fn starts_agree_with_the_count(text in "[a-zA-Zé漢🙂0-9 .,'\n\r\t]{0,200}") {
            let starts = O200k::new().starts(&text);
            prop_assert_eq!(starts.len(), O200k::new().count(&text));
            prop_assert!(starts.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(text.is_empty() || starts[0] == 0);
            prop_assert_eq!(TokenOffsets::of(&text, &O200k::new()).total(), starts.len());
        }

        #[test]
        fn tokens_start_where_the_tokenizer_starts_them(
            words in prop::collection::vec("[ .]?[a-cé漢🙂]{0,4}(qzx){0,6}", 0..60),
            any in any::<String>(),
        ) {
            // The second time every short piece is known.
            for text in [words.concat(), any] {
                let expected = by_the_tokenizer(&text);
                prop_assert_eq!(O200k::new().starts(&text), expected.as_slice());
                prop_assert_eq!(O200k::new().starts(&text), expected);
            }
        }
    }
}
