//! Byte ranges of one text → the interval algebra on them, and the only place that slices text.
//!
//! Invariant: `start <= end`, both on character boundaries of the text that the span belongs to.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A half-open byte range `start..end` of a document's canonical text.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The span `start..end`.
    ///
    /// # Panics
    /// If `start > end`: a broken promise of the caller.
    #[track_caller]
    pub fn new(start: usize, end: usize) -> Span {
        assert!(start <= end, "a span starts at {start} behind its end {end}");
        Span { start, end }
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        self.end - self.start
    }

    /// Whether it holds no byte.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Whether every byte of `other` lies in this span.
    pub fn contains(self, other: Span) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Whether both hold at least one common byte.
    pub fn overlaps(self, other: Span) -> bool {
        self.intersection(other).is_some()
    }

    /// The bytes that both hold; `None` where there are none.
    pub fn intersection(self, other: Span) -> Option<Span> {
        let start = self.start.max(other.start);
        let end = self.end.min(other.end);
        (start < end).then_some(Span { start, end })
    }

    /// The smallest span that contains both.
    #[must_use]
    pub fn hull(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The span without the blank characters at its two ends; empty at its start if all is blank.
    #[must_use]
    pub fn trim(self, text: &str) -> Span {
        let piece = slice(text, self);
        let left = piece.trim_start();
        let start = self.end - left.len();
        if left.is_empty() {
            return Span { start: self.start, end: self.start };
        }
        Span { start, end: start + left.trim_end().len() }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

impl From<std::ops::Range<usize>> for Span {
    fn from(range: std::ops::Range<usize>) -> Span {
        Span::new(range.start, range.end)
    }
}

/// The text of a span.
///
/// # Panics
/// If the span leaves the text or cuts a character: spans are made for their own text.
#[track_caller]
#[expect(clippy::string_slice, reason = "the one place that slices text")]
pub fn slice(text: &str, span: Span) -> &str {
    &text[span.start..span.end]
}

/// Whether the span lies in the text and on character boundaries.
pub fn fits(text: &str, span: Span) -> bool {
    span.start <= span.end && text.is_char_boundary(span.start) && text.is_char_boundary(span.end)
}

/// Whether the span holds only blank characters.
pub fn is_blank(text: &str, span: Span) -> bool {
    slice(text, span).trim().is_empty()
}

/// Where the line behind the one that holds `offset` starts, or the text's end. A line ends with a line feed, a carriage
/// return, or both.
pub fn next_line(text: &str, offset: usize) -> usize {
    let rest = text.as_bytes().get(offset..).unwrap_or_default();
    match rest.iter().position(|&byte| matches!(byte, b'\n' | b'\r')) {
        Some(at) if rest.get(at..at + 2) == Some(b"\r\n") => offset + at + 2,
        Some(at) => offset + at + 1,
        None => text.len(),
    }
}

/// The lines of a span, each with its line end, as spans that follow each other without a gap.
pub fn lines(text: &str, span: Span) -> Vec<Span> {
    let mut lines = Vec::new();
    let mut start = span.start;
    while start < span.end {
        let end = next_line(text, start).min(span.end);
        lines.push(Span { start, end });
        start = end;
    }
    lines
}

/// A set of bytes of one text: disjoint spans in rising order, no two of which touch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpanSet {
    spans: Vec<Span>,
}

impl SpanSet {
    /// The empty set.
    pub fn new() -> SpanSet {
        SpanSet::default()
    }

    /// Its spans, disjoint and in rising order.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// How many bytes it holds.
    pub fn len(&self) -> usize {
        self.spans.iter().map(|span| span.len()).sum()
    }

    /// Whether it holds no byte.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Adds the bytes of a span. O(n) in the number of spans, O(log n) to find the place.
    pub fn insert(&mut self, span: Span) {
        if span.is_empty() {
            return;
        }
        let from = self.spans.partition_point(|s| s.end < span.start);
        let to = self.spans.partition_point(|s| s.start <= span.end);
        let merged =
            self.spans.get(from..to).unwrap_or_default().iter().fold(span, |a, &b| a.hull(b));
        self.spans.splice(from..to.max(from), [merged]);
    }

    /// Whether every byte of the span is in the set.
    pub fn covers(&self, span: Span) -> bool {
        span.is_empty() || {
            let at = self.spans.partition_point(|s| s.end < span.end);
            self.spans.get(at).is_some_and(|s| s.contains(span))
        }
    }

    /// The bytes of the span that are in the set.
    pub fn intersect(&self, span: Span) -> Vec<Span> {
        let from = self.spans.partition_point(|s| s.end <= span.start);
        self.spans.iter().skip(from).map_while(|s| s.intersection(span)).collect()
    }

    /// The bytes of the span that are not in the set.
    pub fn missing_from(&self, span: Span) -> Vec<Span> {
        let mut missing = Vec::new();
        let mut start = span.start;
        for taken in self.intersect(span) {
            if start < taken.start {
                missing.push(Span { start, end: taken.start });
            }
            start = taken.end;
        }
        if start < span.end {
            missing.push(Span { start, end: span.end });
        }
        missing
    }
}

impl FromIterator<Span> for SpanSet {
    fn from_iter<I: IntoIterator<Item = Span>>(spans: I) -> SpanSet {
        let mut set = SpanSet::new();
        for span in spans {
            set.insert(span);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn trimming_keeps_the_inner_blanks() {
        let text = "  a b\u{a0}\n";
        assert_eq!(slice(text, Span::new(0, text.len()).trim(text)), "a b");
        assert!(Span::new(0, 2).trim(text).is_empty());
    }

    #[test]
    fn touching_spans_join_in_a_set() {
        let set: SpanSet =
            [Span::new(5, 7), Span::new(0, 2), Span::new(2, 5)].into_iter().collect();
        assert_eq!(set.spans(), [Span::new(0, 7)]);
    }

    #[test]
    fn lines_cover_the_span() {
        let text = "a\nbc\n\nd";
        let parts: Vec<_> = lines(text, Span::new(0, 7)).iter().map(|&s| slice(text, s)).collect();
        assert_eq!(parts, ["a\n", "bc\n", "\n", "d"]);
        assert_eq!(next_line(text, 3), 5);
        assert_eq!((next_line("a\rb\r\nc", 0), next_line("a\rb\r\nc", 2)), (2, 5));
    }

    fn any_span() -> impl Strategy<Value = Span> {
        (0usize..60, 0usize..12).prop_map(|(start, len)| Span::new(start, start + len))
    }

    proptest! {
        #[test]
        fn a_set_agrees_with_a_bit_map(spans in prop::collection::vec(any_span(), 0..12), probe in any_span()) {
            let set: SpanSet = spans.iter().copied().collect();
            let bit = |at: usize| spans.iter().any(|s| s.start <= at && at < s.end);
            prop_assert_eq!(set.len(), (0..80).filter(|&at| bit(at)).count());
            prop_assert_eq!(set.covers(probe), (probe.start..probe.end).all(bit));
            let inside: usize = set.intersect(probe).iter().map(|s| s.len()).sum();
            let outside: usize = set.missing_from(probe).iter().map(|s| s.len()).sum();
            prop_assert_eq!(inside + outside, probe.len());
            prop_assert!(set.spans().windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
