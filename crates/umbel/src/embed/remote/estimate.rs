//! A text → how many tokens a model may see in it whose tokenizer is out of reach.
//!
//! Invariant: the estimate is meant to be too high, since a caller cuts by it and nothing is to be cut behind its back. A text
//! that [`fit`] gives is within the limit by [`tokens`].

use umbel_core::offsets::TokenCounter as _;

use crate::tokens::OpenAiTokens;

/// Tokens that frame a text, as `[CLS]` and `[SEP]`.
const N_SPECIAL_TOKENS: usize = 2;

/// How many tokens of the model stand for one of `o200k_base`, or for one word.
///
/// Source: measured with the vocabulary of `all-MiniLM-L6-v2` over 8,897 pieces of 800 characters, of documentation, handbooks,
/// web pages with their markup, and code: with 1.5, 1.6, 1.7 and 1.8 the estimate was too low for 258, 98, 26 and 10 of them,
/// and by more than a tenth for 28, 7, 2 and 2. Pieces in Arabic, which that vocabulary spells letter by letter, need up to 3.1.
pub(super) const FACTOR: f32 = 1.8;

/// The model's tokens of a text, special ones included: `factor` for each of `o200k_base`, or for each word, and one for each
/// mark, whichever is more; but not above one for each byte, since no tokenizer in use gives more.
///
/// Words and marks are counted because a run of marks, as a line of a table, is few tokens to `o200k_base` and one for each mark
/// to many models.
pub(super) fn tokens(text: &str, factor: f32) -> usize {
    let n_budget_tokens = OpenAiTokens::o200k().count(text);
    let is_mark = |c: char| !c.is_alphanumeric() && !c.is_whitespace();
    let n_marks = text.chars().filter(|&c| is_mark(c)).count();
    let n_words =
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).count();
    let n_tokens = scaled(n_budget_tokens, factor).max(scaled(n_words, factor) + n_marks);
    n_tokens.min(text.len()) + N_SPECIAL_TOKENS
}

/// The longest beginning of a text that ends before a token of `o200k_base` and has at most `limit` tokens by the estimate.
pub(super) fn fit(text: &str, limit: usize, factor: f32) -> &str {
    if tokens(text, factor) <= limit {
        return text;
    }
    let room = limit.saturating_sub(N_SPECIAL_TOKENS);
    // A beginning has at most one token more than there are whole tokens in it.
    let n_whole = (room as f32 / factor.max(f32::MIN_POSITIVE)) as usize;
    let starts = OpenAiTokens::o200k().starts(text);
    let ends = starts.get(..=n_whole).unwrap_or(&starts).iter().rev();
    let mut beginnings = ends.filter_map(|&end| text.get(..end as usize));
    beginnings.find(|beginning| tokens(beginning, factor) <= limit).unwrap_or_default()
}

fn scaled(n_budget_tokens: usize, factor: f32) -> usize {
    (n_budget_tokens as f32 * factor).ceil() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_estimate_is_a_multiple_of_the_budget_tokens_or_of_words_and_marks() {
        let check =
            |text: &str, expected: usize| assert_eq!(tokens(text, 1.5), expected, "{text:?}");
        check("", 2);
        check("hello world", 3 + 2);
        check("hello\n\n  world", 6 + 2);
        check("a", 1 + 2);
        check("é", 2 + 2);
        check("----------------------------------------", 40 + 2);
    }

    #[test]
    fn a_text_within_the_limit_stays_whole() {
        assert_eq!(fit("hello world", 5, 1.5), "hello world");
        assert_eq!(fit("hello world", 4, 1.5), "hello");
        assert_eq!(fit("hello world", 0, 1.5), "");
    }

    proptest! {
        #[test]
        fn a_cut_text_is_a_beginning_within_the_limit(
            text in "[a-zA-Zé漢🙂0-9 .,'\n]{0,200}",
            limit in 2_usize..60,
            factor in 0.5_f32..4.0,
        ) {
            let cut = fit(&text, limit, factor);
            prop_assert!(text.starts_with(cut));
            prop_assert!(tokens(cut, factor) <= limit);
        }
    }
}
