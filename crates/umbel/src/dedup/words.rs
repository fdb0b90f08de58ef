//! The text of a leaf → its words, its facts and its shingles.
//!
//! Invariant: letters' case, markup and blanks change nothing; the hashes are the same everywhere and in every version, for
//! sketches of them are stored.

use siphasher::sip::SipHasher13;
use std::hash::Hasher as _;
use umbel_core::document::Document;
use umbel_core::measure::word_parts;
use umbel_core::span::{Span, slice};
use umbel_core::tree::Leaf;

/// Words of a shingle.
///
/// Source: the truth of the mirrored documentation that the default threshold was chosen on is counted in shingles of five.
pub const SHINGLE_WORDS: usize = 5;
/// A leaf of fewer words says something only under its title and headings, so these are compared too: `Default: false` stands
/// on many pages, each time of something else.
pub const SHORT_WORDS: usize = 20;

/// English words that state a fact though they are neither figures nor names, rising: numerals, months and days, and words that
/// another puts into its opposite. `may` is none, for it is a verb more often than a month.
const STATING: [&str; 91] = [
    "above",
    "after",
    "allow",
    "allowed",
    "april",
    "august",
    "before",
    "below",
    "billion",
    "december",
    "decrease",
    "decreased",
    "decreases",
    "denied",
    "deny",
    "disable",
    "disabled",
    "double",
    "eight",
    "eighth",
    "eleven",
    "enable",
    "enabled",
    "exclude",
    "excluded",
    "fall",
    "false",
    "february",
    "fell",
    "fifth",
    "first",
    "five",
    "former",
    "four",
    "fourth",
    "friday",
    "gain",
    "gains",
    "half",
    "higher",
    "hundred",
    "include",
    "included",
    "increase",
    "increased",
    "increases",
    "january",
    "july",
    "june",
    "latter",
    "loss",
    "losses",
    "lower",
    "march",
    "maximum",
    "million",
    "minimum",
    "monday",
    "nine",
    "ninth",
    "november",
    "october",
    "one",
    "optional",
    "profit",
    "quarter",
    "required",
    "rise",
    "rose",
    "saturday",
    "second",
    "september",
    "seven",
    "seventh",
    "six",
    "sixth",
    "sunday",
    "ten",
    "tenth",
    "third",
    "thousand",
    "three",
    "thursday",
    "true",
    "tuesday",
    "twelve",
    "twice",
    "two",
    "wednesday",
    "yes",
    "zero",
];

/// What a leaf says, ready to be compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Words {
    /// A hash of each word, in order.
    words: Vec<u64>,
    /// Those that state a fact, in order: numbers with sign and unit, names, words of headings, and [`STATING`].
    facts: Vec<u64>,
}

impl Words {
    /// The words of a leaf under its headings; of a leaf of at least [`SHORT_WORDS`], its own alone.
    pub fn of(headings: &[String], text: &str) -> Words {
        let mut own = Words::default();
        own.read(text, false);
        if own.words.len() >= SHORT_WORDS {
            return own;
        }
        let mut short = Words::default();
        for heading in headings {
            short.read(heading, true);
        }
        short.words.append(&mut own.words);
        short.facts.append(&mut own.facts);
        short
    }

    /// The words of a leaf of this document.
    pub fn of_leaf(document: &Document, leaf: &Leaf) -> Words {
        Words::of(&headings(document, leaf), &leaf_text(document, leaf))
    }

    /// Reads a text, of which each word is a fact where it is a heading as a whole.
    fn read(&mut self, text: &str, is_heading: bool) {
        let mut place = Place { in_heading: is_heading, ..Place::default() };
        let mut before = "";
        let parts = word_parts(text, Span::new(0, text.len()));
        let mut parts = parts.iter().map(|&part| slice(text, part)).peekable();
        while let Some(part) = parts.next() {
            if !part.contains(char::is_alphanumeric) {
                place.pass(part, is_heading);
                before = part;
                continue;
            }
            // Underscores are markup to the left and right of a word, and part of a name inside.
            let part = part.trim_matches('_');
            let lower = part.to_lowercase();
            let mut hasher = SipHasher13::new();
            let is_number = part.contains(char::is_numeric);
            if is_number {
                hasher.write(sign(before).as_bytes());
            }
            hasher.write(lower.as_bytes());
            if is_number && let Some(&"%") = parts.peek() {
                hasher.write(b"%");
            }
            let word = hasher.finish();
            self.words.push(word);
            let is_name = !place.starts_sentence && part.starts_with(char::is_uppercase);
            let is_stating = STATING.binary_search(&lower.as_str()).is_ok();
            if is_number || is_name || is_stating || place.in_heading {
                self.facts.push(word);
            }
            (place.starts_sentence, place.starts_line) = (false, false);
            before = part;
        }
    }

    /// How many words there are.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// What tells these words from others: the same words in the same order have the same key.
    pub fn key(&self) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new();
        for word in &self.words {
            hasher.update(&word.to_le_bytes());
        }
        first_16(&hasher)
    }

    /// Hashes of each run of [`SHINGLE_WORDS`] words, rising, each once. Fewer words than that are one shingle; none is none.
    pub fn shingles(&self) -> Vec<u64> {
        let width = SHINGLE_WORDS.min(self.words.len()).max(1);
        let mut shingles: Vec<u64> = self.words.windows(width).map(hash_words).collect();
        shingles.sort_unstable();
        shingles.dedup();
        shingles
    }

    /// The words, rising, each once.
    pub fn vocabulary(&self) -> Vec<u64> {
        let mut words = self.words.clone();
        words.sort_unstable();
        words.dedup();
        words
    }

    /// A hash of the facts.
    pub fn facts_key(&self) -> u64 {
        hash_words(&self.facts)
    }

    /// Whether one of the two may stand for the other: the facts of one are, in their order, among those of the other. A copy
    /// may have grown; two forms filled in with different numbers or names each say something that the other does not.
    pub fn facts_agree(&self, other: &Words) -> bool {
        let (few, many) = if self.facts.len() <= other.facts.len() {
            (&self.facts, &other.facts)
        } else {
            (&other.facts, &self.facts)
        };
        let mut rest = many.iter();
        few.iter().all(|fact| rest.any(|other| other == fact))
    }
}

/// Where in a text a word stands.
struct Place {
    starts_line: bool,
    starts_sentence: bool,
    in_heading: bool,
}

impl Default for Place {
    fn default() -> Place {
        Place { starts_line: true, starts_sentence: true, in_heading: false }
    }
}

impl Place {
    /// Passes what is between two words.
    fn pass(&mut self, part: &str, is_heading: bool) {
        self.starts_sentence |= part.contains(['.', '!', '?', ':', '\n', '|', '#', '*', '"', '“']);
        if part.contains('\n') {
            (self.starts_line, self.in_heading) = (true, is_heading);
        } else {
            self.in_heading |= self.starts_line && part.starts_with('#');
        }
    }
}

/// The sign or currency directly before a number.
fn sign(before: &str) -> &str {
    ["-", "−", "$", "€", "£"].into_iter().find(|sign| before == *sign).unwrap_or_default()
}

fn hash_words(words: &[u64]) -> u64 {
    let mut hasher = SipHasher13::new();
    for &word in words {
        hasher.write_u64(word);
    }
    hasher.finish()
}

/// What a leaf says, the header rows that are shown before it among it.
pub fn leaf_text(document: &Document, leaf: &Leaf) -> String {
    let pieces = leaf.prefix.iter().chain([&leaf.span]);
    pieces.map(|&span| slice(&document.text, span)).collect::<Vec<_>>().join("\n")
}

/// What stands above a leaf: the title unless the path begins with it, and the path.
pub(super) fn headings(document: &Document, leaf: &Leaf) -> Vec<String> {
    let path = document.tree.heading_texts(&leaf.path);
    let title = Some(&document.title).filter(|title| path.first() != Some(title));
    title.cloned().into_iter().chain(path).collect()
}

/// What tells the text of a leaf from others, blanks and invisible characters aside; of a short leaf with its headings.
pub fn text_key(headings: &[String], text: &str) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    let invisible = |c: &char| !matches!(c, '\u{feff}' | '\u{200b}' | '\u{ad}');
    let mut read = |text: &str| {
        for word in text.split_whitespace() {
            let seen: String = word.chars().filter(invisible).collect();
            if !seen.is_empty() {
                hasher.update(seen.as_bytes());
                hasher.update(b" ");
            }
        }
    };
    if text.split_whitespace().take(SHORT_WORDS).count() < SHORT_WORDS {
        for heading in headings {
            read(heading);
        }
    }
    read(text);
    first_16(&hasher)
}

fn first_16(hasher: &blake3::Hasher) -> [u8; 16] {
    let mut key = [0; 16];
    hasher.finalize_xof().fill(&mut key);
    key
}

/// The share of what two rising lists hold that both hold, 0 to 1; 0 for two empty ones.
pub fn jaccard(a: &[u64], b: &[u64]) -> f64 {
    let (mut at_a, mut at_b, mut both) = (0, 0, 0_usize);
    while let (Some(one), Some(other)) = (a.get(at_a), b.get(at_b)) {
        both += usize::from(one == other);
        at_a += usize::from(one <= other);
        at_b += usize::from(other <= one);
    }
    let either = a.len() + b.len() - both;
    if either == 0 { 0.0 } else { both as f64 / either as f64 }
}
