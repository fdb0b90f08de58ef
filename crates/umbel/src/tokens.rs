//! Text → budget tokens: the default counter, `o200k_base`.
//!
//! Invariant: the pieces that a text is split into before encoding follow each other without a gap.

use bpe_openai::Tokenizer;
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
        for piece in self.0.split(text) {
            for token in self.0.bpe.encode_via_backtracking(piece.as_bytes()) {
                starts.push(at as u32);
                at += self.0.bpe.token_len(token);
            }
        }
        starts
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

    proptest! {
        #[test]
        fn starts_agree_with_the_count(text in "[a-zA-Zé漢🙂0-9 .,'\n\r\t]{0,200}") {
            let starts = O200k::new().starts(&text);
            prop_assert_eq!(starts.len(), O200k::new().count(&text));
            prop_assert!(starts.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(text.is_empty() || starts[0] == 0);
            prop_assert_eq!(TokenOffsets::of(&text, &O200k::new()).total(), starts.len());
        }
    }
}
