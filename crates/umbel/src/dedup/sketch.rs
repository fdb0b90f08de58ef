//! Shingles → a sketch of fixed size → pairs that are worth comparing.
//!
//! Invariant: two sketches agree in each number with the probability of their shingles' Jaccard similarity; a pair is given
//! once, and which pairs are given does not depend on the order of the sketches.

use super::words::{Words, headings, leaf_text, text_key};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use umbel_core::document::Document;
use umbel_core::tree::Leaf;

/// The first byte of a stored sketch: another one where words, facts or hashes are read in another way.
const VERSION: u8 = 1;
/// Numbers of a sketch.
const NUMBERS: usize = 128;
/// A pair at the threshold is found with at least this probability.
const WANTED_RECALL: f64 = 0.999;
/// In a bucket of more sketches, each is compared with so many others only: those of the same or the next facts first. So a form
/// that was filled in ten thousand times does not cost fifty million comparisons.
const BUCKET: usize = 256;

/// What is kept of a leaf's words: about 300 bytes.
///
/// Source: Broder, "On the resemblance and containment of documents", 1997.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sketch {
    /// What tells its words from others.
    pub key: [u8; 16],
    /// What tells its text from others.
    pub text_key: [u8; 16],
    /// A hash of its facts.
    pub facts: u64,
    /// The smallest value of each of [`NUMBERS`] hashes over its shingles, the upper 16 bits of it; none where it has no word.
    minima: Vec<u16>,
}

impl Sketch {
    /// The sketch of these words and this text.
    pub fn of(words: &Words, text_key: [u8; 16]) -> Sketch {
        let shingles = words.shingles();
        let minimum = |(multiplier, summand): (u64, u64)| {
            let hash = |shingle: &u64| shingle.wrapping_mul(multiplier).wrapping_add(summand);
            shingles.iter().map(hash).min().map(|least| least as u16)
        };
        Sketch {
            key: if words.is_empty() { text_key } else { words.key() },
            text_key,
            facts: words.facts_key(),
            minima: hashes().filter_map(minimum).collect(),
        }
    }

    /// The sketch of a leaf of this document.
    pub fn of_leaf(document: &Document, leaf: &Leaf) -> Sketch {
        let text_key = text_key(&headings(document, leaf), &leaf_text(document, leaf));
        Sketch::of(&Words::of_leaf(document, leaf), text_key)
    }

    /// The bytes that are stored of it.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_extend(self, vec![VERSION]).expect("plain data of known length always encodes")
    }

    /// The sketch in stored bytes; `None` of those of another version, whose leaf is to be sketched again.
    pub fn decode(bytes: &[u8]) -> Option<Sketch> {
        let bytes = bytes.strip_prefix(&[VERSION])?;
        postcard::from_bytes(bytes).ok()
    }

    /// The numbers of a band; none where the leaf has no word.
    fn band(&self, band: usize, rows: usize) -> Option<&[u16]> {
        self.minima.get(band * rows..(band + 1) * rows)
    }
}

/// Multipliers and summands of the hashes.
///
/// Source: multiply-shift, Dietzfelbinger et al., 1997; the numbers are those of `SplitMix64`.
fn hashes() -> impl Iterator<Item = (u64, u64)> {
    let number = |n: u64| {
        let mixed = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    };
    (1..=NUMBERS as u64).map(move |n| (number(2 * n) | 1, number(2 * n + 1)))
}

/// Numbers of a band, the most with which a pair at the threshold still shares a band nearly always.
///
/// Source: the curve `1 - (1 - s^rows)^bands` of Leskovec, Rajaraman and Ullman, "Mining of massive datasets", 3.4.
fn rows(threshold: f64) -> usize {
    let found = |rows: usize| {
        let shares_band = threshold.powf(rows as f64);
        1.0 - (1.0 - shares_band).powf((NUMBERS / rows) as f64)
    };
    (1..=16).rev().find(|&rows| found(rows) >= WANTED_RECALL).unwrap_or(1)
}

/// Pairs of sketches, as places in the list, that are likely to be at least this similar, rising; the first of a pair is the
/// smaller place. Only pairs of which one `is_new`. The sketches have keys of their own.
///
/// O(n) for n sketches but for what is similar: at most 256 pairs a sketch and band.
pub fn candidates(
    sketches: &[&Sketch],
    is_new: &(dyn Fn(usize) -> bool + Sync),
    threshold: f64,
) -> Vec<(usize, usize)> {
    let rows = rows(threshold);
    let of_band = |band: usize| {
        let mut order: Vec<usize> =
            (0..sketches.len()).filter(|&at| numbers(sketches, at, band, rows).is_some()).collect();
        order.sort_unstable_by_key(|&at| {
            let sketch = sketches.get(at);
            (numbers(sketches, at, band, rows), sketch.map(|sketch| (sketch.facts, sketch.key)))
        });
        let same = |a: &usize, b: &usize| {
            numbers(sketches, *a, band, rows) == numbers(sketches, *b, band, rows)
        };
        let mut pairs = Vec::new();
        for bucket in order.chunk_by(same) {
            for (place, &a) in bucket.iter().enumerate() {
                let others = bucket.iter().skip(place + 1).take(BUCKET);
                let others = others.filter(|&&b| is_new(a) || is_new(b));
                // A pair of several bands is given by the first one.
                let first = others.filter(|&&b| {
                    !(0..band).any(|earlier| {
                        numbers(sketches, a, earlier, rows) == numbers(sketches, b, earlier, rows)
                    })
                });
                pairs.extend(first.map(|&b| (a.min(b), a.max(b))));
            }
        }
        pairs
    };
    let mut pairs: Vec<(usize, usize)> =
        (0..NUMBERS / rows).into_par_iter().flat_map_iter(of_band).collect();
    pairs.par_sort_unstable();
    pairs
}

fn numbers<'a>(sketches: &[&'a Sketch], at: usize, band: usize, rows: usize) -> Option<&'a [u16]> {
    sketches.get(at).and_then(|sketch| sketch.band(band, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_are_as_wide_as_the_threshold_allows() {
        let check = |threshold: f64, expected: usize| assert_eq!(rows(threshold), expected);
        check(0.5, 2);
        check(0.7, 4);
        check(0.8, 5);
        check(0.9, 8);
        check(1.0, 16);
    }
}
