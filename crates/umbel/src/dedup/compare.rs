//! Two leaves' words → how similar they are, and whether one may stand for the other.
//!
//! Invariant: a comparison is exact and symmetric; a sketch only says what is worth one.

use super::words::{Words, jaccard};
use rayon::prelude::*;
use umbel_core::document::Document;
use umbel_core::tree::Leaf;

/// A leaf's words with what comparisons look at.
#[derive(Debug, Clone)]
pub struct Profile {
    words: Words,
    shingles: Vec<u64>,
    vocabulary: Vec<u64>,
}

/// Two leaves, by their places in a list, and how alike they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Likeness {
    /// One leaf.
    pub a: usize,
    /// The other.
    pub b: usize,
    /// Jaccard similarity of their shingles, 0 to 1.
    pub shingles: f64,
    /// Jaccard similarity of their words, 0 to 1.
    pub words: f64,
    /// Whether the facts of one are among those of the other.
    pub facts_agree: bool,
}

impl Profile {
    /// The profile of these words.
    pub fn of(words: Words) -> Profile {
        let (shingles, vocabulary) = (words.shingles(), words.vocabulary());
        Profile { words, shingles, vocabulary }
    }

    /// The profile of a leaf of this document.
    pub fn of_leaf(document: &Document, leaf: &Leaf) -> Profile {
        Profile::of(Words::of_leaf(document, leaf))
    }
}

/// Compares leaves by place, on all cores; a place without a profile is left out.
pub fn compare<'a>(
    pairs: &[(usize, usize)],
    profile: &(dyn Fn(usize) -> Option<&'a Profile> + Sync),
) -> Vec<Likeness> {
    let likeness = |&(a, b): &(usize, usize)| {
        let (one, other) = (profile(a)?, profile(b)?);
        Some(Likeness {
            a,
            b,
            shingles: jaccard(&one.shingles, &other.shingles),
            words: jaccard(&one.vocabulary, &other.vocabulary),
            facts_agree: one.words.facts_agree(&other.words),
        })
    };
    pairs.par_iter().filter_map(likeness).collect()
}
