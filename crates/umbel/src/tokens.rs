//! Text → budget tokens: OpenAI's encodings, and a tokenizer from a file.
//!
//! Invariant: the pieces that a text is split into before encoding follow each other without a gap.

#[cfg(feature = "local")]
mod file;

use bpe_openai::Tokenizer;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use umbel_core::offsets::TokenCounter;

/// Counts tokens as one of OpenAI's encodings does.
pub struct OpenAiTokens {
    encoding: Encoding,
    tokenizer: &'static Tokenizer,
}

/// An encoding of OpenAI's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    O200k,
    Cl100k,
}

impl OpenAiTokens {
    /// `o200k_base`, the default; its tables are built once a process.
    pub fn o200k() -> OpenAiTokens {
        OpenAiTokens { encoding: Encoding::O200k, tokenizer: bpe_openai::o200k_base() }
    }

    /// `cl100k_base`; its tables are built once a process.
    pub fn cl100k() -> OpenAiTokens {
        OpenAiTokens { encoding: Encoding::Cl100k, tokenizer: bpe_openai::cl100k_base() }
    }

    /// Where each token of a piece starts in it.
    fn piece_starts(&self, piece: &str) -> impl Iterator<Item = u32> {
        let tokens = self.tokenizer.bpe.encode_via_backtracking(piece.as_bytes());
        tokens.into_iter().scan(0, |end, token| {
            let start = *end;
            *end += self.tokenizer.bpe.token_len(token) as u32;
            Some(start)
        })
    }
}

impl fmt::Debug for OpenAiTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl TokenCounter for OpenAiTokens {
    fn name(&self) -> &'static str {
        match self.encoding {
            Encoding::O200k => "o200k_base",
            Encoding::Cl100k => "cl100k_base",
        }
    }

    fn count(&self, text: &str) -> usize {
        self.tokenizer.count(text)
    }

    fn starts(&self, text: &str) -> Vec<u32> {
        let mut starts = Vec::with_capacity(text.len() / 4 + 1);
        let mut at = 0;
        KNOWN.with_borrow_mut(|known| {
            known.keep_to(self.encoding);
            for piece in self.tokenizer.split(text) {
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

/// The counter that a setting names: `o200k_base`, `cl100k_base`, or the path of a `tokenizer.json`.
///
/// # Errors
/// A name that is neither of both, and no file that can be read as a tokenizer.
pub fn counter(name: &str) -> Result<Arc<dyn TokenCounter>, TokensError> {
    match name {
        "o200k_base" => Ok(Arc::new(OpenAiTokens::o200k())),
        "cl100k_base" => Ok(Arc::new(OpenAiTokens::cl100k())),
        #[cfg(feature = "local")]
        path => {
            file::FileTokens::load(path).map(|tokens| Arc::new(tokens) as Arc<dyn TokenCounter>)
        }
        #[cfg(not(feature = "local"))]
        name => Err(TokensError::Unknown {
            name: name.to_owned(),
            source: "this build reads no tokenizers from files".into(),
        }),
    }
}

/// Why tokens cannot be counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokensError {
    /// The setting names no tokenizer.
    #[error(
        "`leaf.tokenizer` is `{name}`, want o200k_base, cl100k_base or the path of a tokenizer.json"
    )]
    Unknown {
        /// What it says.
        name: String,
        /// Why it is no file of a tokenizer either.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::new(Known::new());
}

/// Where the tokens of short pieces start, as found before: most pieces are words that come again, and to look one up is
/// several times faster than to encode it. Of two pieces with the same slot the later one is known.
struct Known {
    encoding: Encoding,
    /// A piece, padded with zeros, its length last; and for each byte of it whether a token starts there, from the lowest bit.
    slots: Vec<([u8; 16], u16)>,
}

impl Known {
    /// Slots of 18 bytes, 295 KB a thread.
    const SLOT_BITS: u32 = 14;

    fn new() -> Known {
        Known { encoding: Encoding::O200k, slots: vec![([0; 16], 0); 1 << Known::SLOT_BITS] }
    }

    /// Forgets the pieces of another encoding.
    fn keep_to(&mut self, encoding: Encoding) {
        if self.encoding != encoding {
            *self = Known { encoding, ..Known::new() };
        }
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
        let check = |text: &str, o200k: usize, cl100k: usize| {
            let counts = (OpenAiTokens::o200k().count(text), OpenAiTokens::cl100k().count(text));
            assert_eq!(counts, (o200k, cl100k), "{text:?}");
        };
        check("", 0, 0);
        check("hello world", 2, 2);
        check("hello\n\n  world", 4, 4);
        check("Привет, мир", 4, 6);
    }

    /// What the tokenizer gives, piece by piece.
    fn by_the_tokenizer(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
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
            let starts = OpenAiTokens::o200k().starts(&text);
            prop_assert_eq!(starts.len(), OpenAiTokens::o200k().count(&text));
            prop_assert!(starts.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(text.is_empty() || starts[0] == 0);
            prop_assert_eq!(TokenOffsets::of(&text, &OpenAiTokens::o200k()).total(), starts.len());
        }

        #[test]
        fn tokens_start_where_the_tokenizer_starts_them(
            words in prop::collection::vec("[ .]?[a-cé漢🙂]{0,4}(qzx){0,6}", 0..60),
            any in any::<String>(),
        ) {
            // The second time every short piece is known.
            for text in [words.concat(), any] {
                for counter in [OpenAiTokens::o200k(), OpenAiTokens::cl100k()] {
                    let expected = by_the_tokenizer(counter.tokenizer, &text);
                    prop_assert_eq!(counter.starts(&text), expected.as_slice());
                    prop_assert_eq!(counter.starts(&text), expected);
                }
            }
        }
    }
}
