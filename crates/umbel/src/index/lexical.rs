//! Text → weighted terms, for passages and for queries.
//!
//! Invariant: equal words of one language get equal terms, in passages and queries, in this process and in any other.

use super::SparseVector;
use qdrant_edge::bm25_embed::{EdgeBm25, EdgeBm25Config};
use qdrant_edge::external::ordered_float::NotNan;
use qdrant_edge::{Language, TokenizerType};

/// The language of a store that names none.
pub const DEFAULT_LANGUAGE: &str = "english";

/// BM25 terms of a mean passage, for a hundred tokens of the leaf target.
///
/// Source: seven English corpora hold 0.38 to 0.50 terms a token (o200k), stop words taken out; a mean leaf is about 0.8 of
/// the target, and its heading path comes on top.
const TERMS_PER_HUNDRED_TOKENS: u32 = 40;

/// Turns text into BM25 terms: lower case, without the language's stop words, stemmed.
///
/// Words are maximal runs of letters and digits, so an exact identifier is found as what its parts make together:
/// `LCK-4093` is `lck` and `4093`, `maxmemory-policy` is `maxmemori` and `polici`, `snake_case` is `snake` and `case`, while
/// `getUserById` is one term, `getuserbyid`, found whatever its case, but not by `user`. Numbers are terms like any other. What
/// is made of stop words alone, as `--all` or `is_not`, leaves no term: only the dense leg can find it. Chinese and
/// Japanese, which do not part words by blanks, are cut by dictionary; there a run of digits alone leaves no term.
#[derive(Debug)]
pub struct LexicalEncoder {
    bm25: EdgeBm25,
}

/// Why there is no encoder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LexicalError {
    /// No stop words and no stemmer for this language: name one of [`languages`].
    #[error("no stemmer for the language `{got}`, there are {}", .available.join(", "))]
    Language {
        /// What was asked for.
        got: String,
        /// What there is.
        available: Vec<&'static str>,
    },
}

impl LexicalEncoder {
    /// An encoder for passages of one [language](languages) (lower case, or its ISO 639-1 code) and of about this many
    /// budget tokens.
    ///
    /// BM25 compares the length of a passage with the mean length. The mean of a store changes with every document, and all
    /// its vectors with it; so the mean is taken from the leaf target instead: 80 terms at 200 tokens.
    /// Vectors made with one target and language do not mix with those of another.
    ///
    /// # Errors
    /// [`LexicalError::Language`]: name another language.
    pub fn new(language: &str, leaf_target_tokens: u32) -> Result<LexicalEncoder, LexicalError> {
        let unknown =
            || LexicalError::Language { got: language.to_owned(), available: languages() };
        // `from_str` pastes the name into JSON text, so only plain names may reach it.
        let plain = language.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        let known: Language = language.parse().ok().filter(|_| plain).ok_or_else(unknown)?;
        let tokenizer = match known {
            Language::Chinese | Language::Japanese => TokenizerType::Multilingual,
            _ => TokenizerType::Word,
        };
        let mean_terms = (leaf_target_tokens.saturating_mul(TERMS_PER_HUNDRED_TOKENS) / 100).max(1);
        let config = EdgeBm25Config {
            avg_len: NotNan::from(mean_terms),
            tokenizer,
            language: Some(known.to_string()),
            ..EdgeBm25Config::default()
        };
        let bm25 = EdgeBm25::new(config).map_err(|_| unknown())?;
        Ok(LexicalEncoder { bm25 })
    }

    /// The terms of a passage, weighted by how often they occur and by its length. Empty if it holds nothing but stop words.
    pub fn passage(&self, text: &str) -> SparseVector {
        vector(self.bm25.embed_document(text))
    }

    /// The terms of a query, each of weight 1: an index weighs them by how rare they are.
    pub fn query(&self, text: &str) -> SparseVector {
        vector(self.bm25.embed_query(text))
    }
}

/// The languages with stop words, by name; most have a stemmer too.
pub fn languages() -> Vec<&'static str> {
    vec![
        "arabic",
        "azerbaijani",
        "basque",
        "bengali",
        "catalan",
        "chinese",
        "danish",
        "dutch",
        "english",
        "finnish",
        "french",
        "german",
        "greek",
        "hebrew",
        "hinglish",
        "hungarian",
        "indonesian",
        "italian",
        "japanese",
        "kazakh",
        "nepali",
        "norwegian",
        "portuguese",
        "romanian",
        "russian",
        "slovene",
        "spanish",
        "swedish",
        "tajik",
        "turkish",
    ]
}

/// `EdgeBm25` gives each term once, in rising order.
fn vector(terms: qdrant_edge::SparseVector) -> SparseVector {
    SparseVector { indices: terms.indices, values: terms.values }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn english() -> LexicalEncoder {
        LexicalEncoder::new(DEFAULT_LANGUAGE, 200).unwrap()
    }

    fn check_found(query: &str, passage: &str, found: bool) {
        let (query, passage) = (english().query(query), english().passage(passage));
        let hit = !query.indices.is_empty()
            && query.indices.iter().all(|term| passage.indices.contains(term));
        assert_eq!(hit, found, "{query:?} in {passage:?}");
    }

    #[test]
    fn an_exact_identifier_is_found() {
        check_found("LCK-4093", "The error LCK-4093 means that the row is locked.", true);
        check_found("LCK-4093", "The error LCK-4094 means that the row is locked.", false);
        check_found("maxmemory-policy", "Set `maxmemory-policy` to `allkeys-lru`.", true);
        check_found("getUserById", "Call `client.getUserById(7)`.", true);
        check_found("user", "Call `client.getUserById(7)`.", false);
        check_found("snake_case_name", "let snake_case_name = 1;", true);
        check_found("café", "Le CAFÉ est ouvert", true);
    }

    #[test]
    fn stop_words_alone_leave_no_term() {
        for text in ["", " \n", "--all", "is_not", "the", "!?"] {
            assert_eq!(english().query(text), SparseVector::default(), "{text}");
            assert_eq!(english().passage(text), SparseVector::default(), "{text}");
        }
    }

    #[test]
    fn terms_rise_and_a_query_counts_each_once() {
        let terms = english().query("rivers and Rivers, running rivers: 東京 is 🗼");
        assert!(terms.indices.is_sorted_by(|a, b| a < b));
        assert_eq!(terms.values, vec![1.0; terms.indices.len()]);
        assert_eq!(english().query("rivers"), english().query("River river"));
    }

    #[test]
    fn a_term_weighs_more_the_oftener_it_occurs_and_the_shorter_the_passage() {
        let weight = |text: &str| {
            let river = english().query("river").indices[0];
            let terms = english().passage(text);
            terms.values[terms.indices.binary_search(&river).unwrap()]
        };
        assert!(weight("river river") > weight("river bank"));
        assert!(weight("river") > weight("river bank with many other words behind it"));
    }

    #[test]
    fn every_language_that_is_named_is_there() {
        for language in languages() {
            let encoder = LexicalEncoder::new(language, 200).unwrap();
            assert!(!encoder.query("umbel qanat 4093x").indices.is_empty(), "{language}");
        }
    }

    #[test]
    fn another_language_is_an_error_that_names_them_all() {
        for language in ["klingon", "", "English\"", "\\u0065nglish"] {
            let error = LexicalEncoder::new(language, 200).unwrap_err();
            assert!(error.to_string().contains("arabic, azerbaijani"), "{error}");
        }
        assert!(LexicalEncoder::new("de", 200).is_ok());
    }

    #[test]
    fn chinese_is_cut_into_words() {
        let encoder = LexicalEncoder::new("chinese", 200).unwrap();
        let passage = encoder.passage("人工智能正在改变世界");
        assert!(
            encoder.query("人工智能").indices.iter().any(|term| passage.indices.contains(term))
        );
    }
}
