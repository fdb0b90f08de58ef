//! A `tokenizer.json` → budget tokens: the model's own.
//!
//! Invariant: as many tokens as the tokenizer gives without special ones; where several start at one byte, as those of one
//! character do, each is put one byte behind the one before.

use super::TokensError;
use std::fmt;
use tokenizers::Tokenizer;
use umbel_core::offsets::TokenCounter;

/// Counts tokens as a tokenizer from a file does.
pub(super) struct FileTokens {
    name: String,
    tokenizer: Tokenizer,
}

impl FileTokens {
    /// Reads a tokenizer. Its settings for padding and truncation are ignored.
    pub(super) fn load(path: &str) -> Result<FileTokens, TokensError> {
        let fail = |source| TokensError::Unknown { name: path.to_owned(), source };
        let bytes = fs_err::read(path).map_err(|error| fail(error.into()))?;
        let mut tokenizer = Tokenizer::from_bytes(&bytes).map_err(fail)?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(fail)?;
        // The content, not the place, is what counts depend on.
        let digest = blake3::hash(&bytes).to_hex();
        Ok(FileTokens {
            name: format!("tokenizer.json@{}", digest.chars().take(8).collect::<String>()),
            tokenizer,
        })
    }
}

impl fmt::Debug for FileTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl TokenCounter for FileTokens {
    fn name(&self) -> &str {
        &self.name
    }

    fn count(&self, text: &str) -> usize {
        self.starts(text).len()
    }

    fn starts(&self, text: &str) -> Vec<u32> {
        // A text that the tokenizer refuses has no unit smaller than its bytes.
        let Ok(encoding) = self.tokenizer.encode(text, false) else {
            return (0..text.len() as u32).collect();
        };
        let mut starts: Vec<u32> = Vec::with_capacity(encoding.len());
        for &(start, _) in encoding.get_offsets() {
            let next = starts.last().map_or(0, |&last| last + 1);
            let start = if starts.is_empty() { 0 } else { (start as u32).max(next) };
            if (start as usize) < text.len() {
                starts.push(start);
            }
        }
        if starts.is_empty() && !text.is_empty() {
            starts.push(0);
        }
        starts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use umbel_core::offsets::TokenOffsets;
    use umbel_core::span::Span;

    /// Words, and characters that are none.
    const WORDS: &str = r#"{"version":"1.0","truncation":{"direction":"Right","max_length":2,"strategy":"LongestFirst","stride":0},
        "padding":null,"added_tokens":[],"normalizer":{"type":"Lowercase"},"pre_tokenizer":{"type":"Whitespace"},
        "post_processor":null,"decoder":null,
        "model":{"type":"WordLevel","vocab":{"[UNK]":0,"pump":1},"unk_token":"[UNK]"}}"#;

    fn words() -> FileTokens {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokenizer.json");
        fs_err::write(&path, WORDS).unwrap();
        FileTokens::load(path.to_str().unwrap()).unwrap()
    }

    #[test]
    fn tokens_start_where_the_tokenizer_says() {
        let counter = words();
        let check =
            |text: &str, starts: &[u32]| assert_eq!(counter.starts(text), starts, "{text:?}");
        check("", &[]);
        check("   ", &[0]);
        check("The pump, again", &[0, 4, 8, 10]);
        assert!(counter.name().starts_with("tokenizer.json@"));
    }

    #[test]
    fn what_is_no_tokenizer_is_named() {
        let error = FileTokens::load("no/such/file").unwrap_err().to_string();
        assert!(error.contains("`no/such/file`, want o200k_base"), "{error}");
    }

    proptest! {
        #[test]
        fn offsets_keep_their_promise(text in any::<String>()) {
            let starts = words().starts(&text);
            prop_assert!(starts.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(text.is_empty() == starts.is_empty());
            prop_assert!(starts.first().is_none_or(|&first| first == 0));
            let offsets = TokenOffsets::of(&text, &words());
            prop_assert_eq!(offsets.count(Span::new(0, text.len())), starts.len());
        }
    }
}
