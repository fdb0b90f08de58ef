//! Entries of the same query under some runs, and the documents → what a reader is shown of it.
//!
//! Invariant: the pieces of a passage, with what was left out between them, are its bytes.

use crate::measure::Measure;
use crate::metric::Place;
use crate::run::{Delivery, Entry, Fire};
use serde::Serialize;
use std::collections::BTreeSet;
use umbel_core::document::Document;
use umbel_core::span::{Span, SpanSet, slice};

/// Bytes of a piece without evidence that are shown: half of them at each end.
const SHOWN: usize = 600;
/// Bytes of a piece of evidence that are shown.
const SHOWN_EVIDENCE: usize = 2_400;

/// A query under each run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Told {
    /// Names it.
    pub id: String,
    /// The question.
    pub query: String,
    /// Right answers, if any are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<String>,
    /// The group that it is reported with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What the last run changed.
    pub change: Change,
    /// What each run made of it, in their order.
    pub runs: Vec<Seen>,
}

/// What the last run changed against the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It was answered well before.
    Lost,
    /// It is now.
    Gained,
    /// Other passages, and as well or as badly as before.
    Passages,
    /// Nothing.
    Nothing,
}

/// What a run made of a query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Seen {
    /// Whether it was answered well.
    pub outcome: Option<bool>,
    /// Bytes of evidence delivered / bytes of evidence.
    pub evidence_recall: Option<f64>,
    /// Tokens delivered.
    pub tokens: usize,
    /// Whether the rule fired.
    pub fired: bool,
    /// What was delivered, in the order in which it is read.
    pub passages: Vec<Passage>,
    /// The evidence that was not.
    pub missed: Vec<Passage>,
}

/// A part of a document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Passage {
    /// The document's name.
    pub doc: String,
    /// Its first byte.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
    /// The headings above it, outermost first.
    pub headings: Vec<String>,
    /// Its tokens.
    pub tokens: usize,
    /// Whether each run delivered it.
    pub in_all: bool,
    /// The nodes in it that stand in place of their children.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<Merge>,
    /// Its text.
    pub pieces: Vec<Piece>,
}

/// A node that stands in place of its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Merge {
    /// Children that were retrieved, or merged just below.
    pub matched: u32,
    /// Children in all.
    pub of: u32,
    /// Tokens of the matched children.
    pub tokens_before: u32,
    /// Tokens of the node.
    pub tokens_after: u32,
}

/// A piece of text that is evidence all through, or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// The text, as it stands in the document.
    pub text: String,
    /// Whether it is evidence.
    pub relevant: bool,
    /// Bytes that follow it and are not shown.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(value: &usize) -> bool {
    *value == 0
}

/// The queries with what each run made of them: first those that the last run lost or gained, then those with other passages, then
/// the rest, bad answers first; at most `limit` of them. `entries` holds the same query under each run, in their order.
pub fn told<'d>(
    entries: &[Vec<&Entry>],
    document_of: impl Fn(&str) -> Option<&'d Document>,
    limit: usize,
) -> Vec<Told> {
    let mut order: Vec<(Change, bool, &[&Entry])> = entries
        .iter()
        .map(|query| {
            let right = query.last().and_then(|entry| entry.outcome);
            (change(query), right != Some(false), query.as_slice())
        })
        .collect();
    order.sort_by_key(|&(change, right, _)| (change, right));
    order.into_iter().take(limit).filter_map(|(_, _, query)| tell(query, &document_of)).collect()
}

fn change(query: &[&Entry]) -> Change {
    let (Some(first), Some(last)) = (query.first(), query.last()) else { return Change::Nothing };
    match (first.outcome, last.outcome) {
        (Some(true), Some(false)) => Change::Lost,
        (Some(false), Some(true)) => Change::Gained,
        _ if first.delivered(&first.delivery) == last.delivered(&last.delivery) => Change::Nothing,
        _ => Change::Passages,
    }
}

fn tell<'d>(query: &[&Entry], document_of: &impl Fn(&str) -> Option<&'d Document>) -> Option<Told> {
    let first = query.first()?;
    let delivered: Vec<BTreeSet<Place<'_>>> =
        query.iter().map(|entry| entry.delivered(&entry.delivery).into_iter().collect()).collect();
    let in_all = |place: &Place<'_>| delivered.iter().all(|places| places.contains(place));
    Some(Told {
        id: first.id.clone(),
        query: first.query.clone(),
        answers: first.answers.clone(),
        group: first.group.clone(),
        change: change(query),
        runs: query.iter().map(|entry| seen(entry, document_of, in_all)).collect(),
    })
}

fn seen<'d>(
    entry: &Entry,
    document_of: impl Fn(&str) -> Option<&'d Document>,
    in_all: impl Fn(&Place<'_>) -> bool,
) -> Seen {
    let delivery = &entry.delivery;
    let places = entry.delivered(delivery);
    let shown = |place: Place<'_>, in_all: bool| {
        let document = document_of(place.doc)?;
        let merged = merges(entry, delivery, place);
        Some(passage(document, place, &evidence_in(entry, place.doc), in_all, merged))
    };
    let missed = missed(entry, &places);
    Seen {
        outcome: entry.outcome,
        evidence_recall: Measure::EvidenceRecall.value(entry, delivery),
        tokens: delivery.tokens,
        fired: delivery.fired(),
        passages: places.iter().filter_map(|place| shown(*place, in_all(place))).collect(),
        missed: missed.into_iter().filter_map(|place| shown(place, false)).collect(),
    }
}

/// The evidence of a query in one document.
fn evidence_in(entry: &Entry, doc: &str) -> SpanSet {
    let mut set = SpanSet::new();
    for reference in entry.relevant.iter().filter(|reference| reference.doc == doc) {
        set.insert(reference.span());
    }
    set
}

/// What was not delivered of the evidence, by document.
fn missed<'e>(entry: &'e Entry, delivered: &[Place<'_>]) -> Vec<Place<'e>> {
    let docs: BTreeSet<&str> = entry.relevant.iter().map(|r| r.doc.as_str()).collect();
    let of_doc = |doc: &'e str| {
        let mut got = SpanSet::new();
        for place in delivered.iter().filter(|place| place.doc == doc) {
            got.insert(place.span);
        }
        let wanted = evidence_in(entry, doc);
        let missing = wanted.spans().iter().flat_map(|span| got.missing_from(*span));
        missing.map(|span| Place { doc, span }).collect::<Vec<_>>()
    };
    docs.into_iter().flat_map(of_doc).collect()
}

/// The nodes of a passage that stand in place of their children.
fn merges(entry: &Entry, delivery: &Delivery, place: Place<'_>) -> Vec<Merge> {
    let within = |fire: &&Fire| {
        entry.place(fire.spot).is_some_and(|p| p.doc == place.doc && place.span.contains(p.span))
    };
    let merge = |fire: &Fire| {
        let Fire { matched, of, tokens_before, tokens_after, .. } = *fire;
        Merge { matched, of, tokens_before, tokens_after }
    };
    delivery.topmost_fires().filter(within).map(merge).collect()
}

fn passage(
    document: &Document,
    Place { doc, span }: Place<'_>,
    evidence: &SpanSet,
    in_all: bool,
    merged: Vec<Merge>,
) -> Passage {
    let tree = &document.tree;
    let node = tree.smallest_containing(span).and_then(|node| tree.node(node));
    Passage {
        doc: doc.to_owned(),
        start: span.start,
        end: span.end,
        headings: node.map(|node| tree.heading_texts(&node.path)).unwrap_or_default(),
        tokens: document.offsets.tokens.count(span),
        in_all,
        merged,
        pieces: pieces(&document.text, span, evidence),
    }
}

/// A text in pieces that are evidence or are not, long ones without their middle.
fn pieces(text: &str, span: Span, evidence: &SpanSet) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut from = span.start;
    for relevant in evidence.intersect(span) {
        pieces.extend(shortened(text, Span::new(from, relevant.start), false));
        pieces.extend(shortened(text, relevant, true));
        from = relevant.end;
    }
    pieces.extend(shortened(text, Span::new(from, span.end), false));
    pieces
}

fn shortened(text: &str, span: Span, relevant: bool) -> Vec<Piece> {
    let most = if relevant { SHOWN_EVIDENCE } else { SHOWN };
    let piece = |span, left_out| Piece { text: slice(text, span).to_owned(), relevant, left_out };
    if span.is_empty() {
        return Vec::new();
    }
    if span.len() <= most {
        return vec![piece(span, 0)];
    }
    let head = Span::new(span.start, text.floor_char_boundary(span.start + most / 2));
    let tail = Span::new(text.ceil_char_boundary(span.end - most / 2), span.end);
    vec![piece(head, tail.start - head.end), piece(tail, 0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::testing::{document, entry};
    use proptest::prelude::*;

    fn ids(told: &[Told]) -> Vec<(&str, Change)> {
        told.iter().map(|told| (told.id.as_str(), told.change)).collect()
    }

    #[test]
    fn what_changed_comes_first() {
        let document = document();
        let under = |id, passages: &[(usize, usize)], right| {
            let mut entry = entry(id, (20, 29), passages, false);
            entry.outcome = Some(right);
            entry
        };
        let whole = [(0, 39)];
        let part = [(20, 29)];
        let a =
            [("same", true), ("bad", false), ("other", true), ("gained", false), ("lost", true)];
        let a = a.map(|(id, right)| under(id, &whole, right));
        let b = [
            under("same", &whole, true),
            under("bad", &whole, false),
            under("other", &part, true),
            under("gained", &part, true),
            under("lost", &part, false),
        ];
        let entries: Vec<Vec<&Entry>> = a.iter().zip(&b).map(|(a, b)| vec![a, b]).collect();
        let got = told(&entries, |_| Some(&document), 9);
        let expected = [
            ("lost", Change::Lost),
            ("gained", Change::Gained),
            ("other", Change::Passages),
            ("bad", Change::Nothing),
            ("same", Change::Nothing),
        ];
        assert_eq!(ids(&got), expected);
        assert_eq!(ids(&told(&entries, |_| Some(&document), 1)), expected[..1]);
        assert_eq!(told(&[], |_| Some(&document), 1), []);
    }

    #[test]
    fn a_query_is_told_with_its_texts() {
        let document = document();
        // Half of the evidence is delivered.
        let mut plain = entry("q", (10, 29), &[(0, 9), (10, 19)], false);
        plain.delivery.tokens = 10;
        let merged = entry("q", (10, 29), &[(0, 39)], true);
        let got = told(&[vec![&plain, &merged]], |_| Some(&document), 9);
        let [a, b] = got[0].runs.as_slice() else { panic!("two runs") };
        assert_eq!((a.tokens, a.fired, b.fired), (10, false, true));
        let text = |passage: &Passage| {
            let mark = |piece: &Piece| {
                if piece.relevant { format!("[{}]", piece.text) } else { piece.text.clone() }
            };
            passage.pieces.iter().map(mark).collect::<String>()
        };
        assert_eq!(a.passages.iter().map(text).collect::<Vec<_>>(), ["aaaaaaaaa", "[bbbbbbbbb]"]);
        assert_eq!(a.missed.iter().map(text).collect::<Vec<_>>(), ["[ ccccccccc]"]);
        assert_eq!(text(&b.passages[0]), "aaaaaaaaa [bbbbbbbbb ccccccccc] ddddddddd");
        assert_eq!((a.passages[0].merged.len(), b.passages[0].merged.len()), (0, 1));
        assert_eq!((b.missed.len(), b.passages[0].tokens, b.passages[0].in_all), (0, 20, false));
    }

    proptest! {
        #[test]
        fn pieces_are_the_passage(
            text in "[aé ]{0,3000}",
            cuts in prop::collection::vec(0_usize..4_000, 4),
        ) {
            let at = |index: usize| text.floor_char_boundary(cuts[index]);
            let span = |a: usize, b: usize| Span::new(a.min(b), a.max(b));
            let shown = span(at(0), at(1));
            let mut evidence = SpanSet::new();
            evidence.insert(span(at(2), at(3)));
            let mut offset = shown.start;
            for piece in pieces(&text, shown, &evidence) {
                let end = offset + piece.text.len();
                prop_assert_eq!(slice(&text, Span::new(offset, end)), piece.text.as_str());
                prop_assert!(piece.text.len() <= SHOWN_EVIDENCE);
                prop_assert!(!piece.text.is_empty());
                prop_assert_eq!(piece.relevant, evidence.covers(Span::new(offset, end)));
                offset = end + piece.left_out;
            }
            prop_assert_eq!(offset, shown.end.max(shown.start));
        }
    }
}
