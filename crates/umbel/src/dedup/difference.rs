//! Two texts → what one has and the other has not, word by word.
//!
//! Invariant: the equal and the removed words are one text's words, the equal and the added ones the other's.

use serde::Serialize;
use similar::{Algorithm, DiffOp, capture_diff_slices};

/// What became of some words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kept {
    /// They are in both texts.
    Equal,
    /// They are in the first one only.
    Removed,
    /// They are in the second one only.
    Added,
}

/// Words that follow each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What became of them.
    pub kept: Kept,
    /// The words, with one blank between them.
    pub words: String,
}

/// How one text becomes another, in order.
pub fn difference(from: &str, to: &str) -> Vec<Change> {
    let from: Vec<&str> = from.split_whitespace().collect();
    let to: Vec<&str> = to.split_whitespace().collect();
    let mut changes = Vec::new();
    let mut push = |kept, words: Option<&[&str]>| match words {
        None | Some([]) => {}
        Some(words) => changes.push(Change { kept, words: words.join(" ") }),
    };
    for change in capture_diff_slices(Algorithm::Myers, &from, &to) {
        if let DiffOp::Equal { .. } = change {
            push(Kept::Equal, from.get(change.old_range()));
        } else {
            push(Kept::Removed, from.get(change.old_range()));
            push(Kept::Added, to.get(change.new_range()));
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(from: &str, to: &str, expected: &str) {
        let shown: Vec<String> = difference(from, to)
            .into_iter()
            .map(|Change { kept, words }| match kept {
                Kept::Equal => words,
                Kept::Removed => format!("[-{words}-]"),
                Kept::Added => format!("{{+{words}+}}"),
            })
            .collect();
        assert_eq!(shown.join(" "), expected);
    }

    #[test]
    fn words_are_compared_and_blanks_are_not() {
        check("", "", "");
        check("one  two\nthree", "one two three", "one two three");
        check("within 30 days", "within 60 days of it", "within [-30-] {+60+} days {+of it+}");
        check("gone", "", "[-gone-]");
    }
}
