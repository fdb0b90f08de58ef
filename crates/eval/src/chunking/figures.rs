//! Ranges of a question and of chunks → recall, precision, IoU and what the cutting alone allows.

use super::Chunk;
use serde::Serialize;
use std::fmt;
use umbel_core::span::{Span, SpanSet};

/// What was retrieved for a question, counted in characters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Characters of the references retrieved / characters of the references, each as often as it is named.
    pub recall: f64,
    /// The same / characters retrieved, each as often as it is; 0 where nothing is.
    pub precision: f64,
    /// The same / (characters retrieved + characters of the references that are not).
    pub iou: f64,
}

/// The figures of retrieved ranges. The references are ranges of one text and hold a character; what is retrieved of another text counts
/// against precision.
pub fn figures(text: usize, references: &[Span], retrieved: &[Chunk]) -> Figures {
    let of_text = || retrieved.iter().filter(|chunk| chunk.text == text).map(|chunk| chunk.span);
    let common =
        of_text().flat_map(|chunk| references.iter().filter_map(move |r| r.intersection(chunk)));
    let hit = set(common).len();
    let got = set(of_text());
    let missed = set(references.iter().flat_map(|reference| got.missing_from(*reference))).len();
    let wanted: usize = references.iter().map(|reference| reference.len()).sum();
    let all: usize = retrieved.iter().map(|chunk| chunk.span.len()).sum();
    let share = |of: usize| if of == 0 { 0.0 } else { hit as f64 / of as f64 };
    Figures { recall: share(wanted), precision: share(all), iou: share(all + missed) }
}

/// PrecisionΩ, 0 to 1: the precision of retrieving every chunk of the text that touches a reference, and nothing else. Chunks that only
/// meet a reference at an edge count as touching; what no chunk holds of the references counts against it.
pub fn precision_omega(references: &[Span], chunks: &[Span]) -> f64 {
    let touches = |chunk: &&Span| {
        references
            .iter()
            .any(|reference| chunk.start <= reference.end && reference.start <= chunk.end)
    };
    let touching: Vec<Span> = chunks.iter().filter(touches).copied().collect();
    let common = touching
        .iter()
        .flat_map(|chunk| references.iter().filter_map(|reference| reference.intersection(*chunk)));
    let hit = set(common).len();
    let got = set(touching.iter().copied());
    let missed = set(references.iter().flat_map(|reference| got.missing_from(*reference))).len();
    let all = got.len() + missed;
    if all == 0 { 0.0 } else { hit as f64 / all as f64 }
}

fn set(spans: impl IntoIterator<Item = Span>) -> SpanSet {
    let mut set = SpanSet::new();
    spans.into_iter().filter(|span| !span.is_empty()).for_each(|span| set.insert(span));
    set
}

/// A mean, and how far values lie from it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation of the population: the root of the mean square of the distances.
    pub sd: f64,
}

impl Spread {
    /// That of some values; zeros of none.
    pub fn of(values: &[f64]) -> Spread {
        let n = values.len().max(1) as f64;
        // The sum of nothing is −0.
        let mean = values.iter().fold(0.0, |sum, value| sum + value) / n;
        let square = values.iter().fold(0.0, |sum, value| sum + (value - mean).powi(2)) / n;
        Spread { mean, sd: square.sqrt() }
    }
}

impl fmt::Display for Spread {
    /// In per cent: `4.7 ± 3.1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.1} ± {:.1}", self.mean * 100.0, self.sd * 100.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(ends: &[(usize, usize)]) -> Vec<Span> {
        ends.iter().map(|&(start, end)| Span::new(start, end)).collect()
    }

    #[test]
    fn what_is_retrieved_is_counted() {
        let check = |references: &[(usize, usize)],
                     chunks: &[(usize, (usize, usize))],
                     expected: [f64; 3]| {
            let chunk = |&(text, (start, end)): &(usize, (usize, usize))| Chunk {
                text,
                span: Span::new(start, end),
            };
            let chunks: Vec<Chunk> = chunks.iter().map(chunk).collect();
            let got = figures(0, &spans(references), &chunks);
            for (got, expected) in [got.recall, got.precision, got.iou].into_iter().zip(expected) {
                assert!((got - expected).abs() < 1e-12, "{got} is not {expected}");
            }
        };
        check(&[(0, 10)], &[(0, (0, 20))], [1.0, 0.5, 0.5]);
        check(&[(0, 10), (30, 40)], &[(0, (0, 20))], [0.5, 0.5, 10.0 / 30.0]);
        // A chunk of another text, and one that comes twice.
        check(&[(0, 10)], &[(0, (0, 10)), (1, (0, 10))], [1.0, 0.5, 0.5]);
        check(&[(0, 10)], &[(0, (0, 10)), (0, (0, 10))], [1.0, 0.5, 0.5]);
        check(&[(0, 10)], &[], [0.0, 0.0, 0.0]);
    }

    #[test]
    fn what_the_cutting_allows() {
        let check = |references: &[(usize, usize)], chunks: &[(usize, usize)], expected: f64| {
            assert!((precision_omega(&spans(references), &spans(chunks)) - expected).abs() < 1e-12);
        };
        check(&[(5, 10)], &[(0, 10), (10, 20), (20, 30)], 0.25);
        check(&[(5, 9)], &[(0, 10), (10, 20)], 0.4);
        // What stands in no chunk.
        check(&[(0, 10)], &[(0, 5), (6, 12)], 9.0 / 12.0);
        check(&[(0, 10)], &[(40, 50)], 0.0);
    }

    #[test]
    fn a_spread_is_that_of_the_population() {
        let spread = Spread::of(&[0.02, 0.04, 0.04, 0.04, 0.05, 0.05, 0.07, 0.09]);
        assert_eq!(spread.to_string(), "5.0 ± 2.0");
        assert_eq!(format!("{:>12}", Spread::of(&[])), "   0.0 ± 0.0");
    }
}
