//! A passage and a score for each of its sentences → the sentences that are worth reading.
//!
//! Invariant: what is kept lies in the passage, in its order; nothing is written anew.

use crate::document::Document;
use crate::span::Span;

/// The sentences of a span, each without the blanks at its ends; blank ones are left out. A part of a sentence at an edge is a
/// sentence of its own.
pub fn sentences(document: &Document, span: Span) -> Vec<Span> {
    let starts = &document.offsets.sentences;
    let from = starts.partition_point(|&start| (start as usize) <= span.start);
    let inside = starts.iter().skip(from).map(|&start| start as usize);
    let mut edges: Vec<usize> = vec![span.start];
    edges.extend(inside.take_while(|&start| start < span.end));
    edges.push(span.end);
    let pairs = edges.iter().zip(edges.iter().skip(1));
    let trimmed = pairs.map(|(&start, &end)| Span::new(start, end).trim(&document.text));
    trimmed.filter(|sentence| !sentence.is_empty()).collect()
}

/// The best sentences of a passage that have at most `keep` of its tokens together, 0 to 1, always the best one; neighbours are
/// one span. `scores` are those of [`sentences`], in order; higher is better, ties go to the earlier sentence.
pub fn select(document: &Document, span: Span, scores: &[f32], keep: f64) -> Vec<Span> {
    let sentences = sentences(document, span);
    let tokens = |span: Span| document.offsets.tokens.count(span);
    let room = keep * tokens(span) as f64;
    let mut order: Vec<usize> = (0..sentences.len().min(scores.len())).collect();
    let score = |at: &usize| scores.get(*at).copied().unwrap_or(f32::NEG_INFINITY);
    order.sort_by(|a, b| score(b).total_cmp(&score(a)).then(a.cmp(b)));
    let mut kept = vec![false; sentences.len()];
    let mut used = 0;
    for (rank, &at) in order.iter().enumerate() {
        let cost = sentences.get(at).map_or(0, |&sentence| tokens(sentence));
        if rank > 0 && (used + cost) as f64 > room {
            continue;
        }
        used += cost;
        if let Some(kept) = kept.get_mut(at) {
            *kept = true;
        }
    }
    let mut pieces: Vec<Span> = Vec::new();
    let mut follows = false;
    for (sentence, kept) in sentences.into_iter().zip(kept) {
        match pieces.last_mut() {
            Some(piece) if kept && follows => *piece = piece.hull(sentence),
            _ if kept => pieces.push(sentence),
            _ => {}
        }
        follows = kept;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offsets::{Offsets, TokenOffsets};
    use crate::span::slice;
    use crate::testing::Bytes;
    use crate::tree::Tree;

    /// A document whose sentences end with a full stop.
    fn document(text: &str) -> Document {
        let ends = text.match_indices(". ").map(|(at, _)| at as u32 + 2);
        let sentences: Vec<u32> = std::iter::once(0).chain(ends).collect();
        let tokens = TokenOffsets::of(text, &Bytes);
        Document {
            body: Span::new(0, text.len()),
            text: text.to_owned(),
            title: String::new(),
            tree: Tree::default(),
            offsets: Offsets { tokens, blocks: sentences.clone(), sentences },
            anchors: Vec::new(),
            warnings: Vec::new(),
        }
    }

    #[track_caller]
    fn check(scores: &[f32], keep: f64, expected: &[&str]) {
        let document = document("One a. Two b. Three c. Four d.");
        let kept = select(&document, document.body, scores, keep);
        let texts: Vec<&str> = kept.iter().map(|&piece| slice(&document.text, piece)).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn the_best_sentences_are_kept_in_their_order() {
        check(&[0.1, 0.9, 0.2, 0.8], 0.5, &["Two b.", "Four d."]);
        check(&[0.9, 0.8, 0.1, 0.2], 0.5, &["One a. Two b."]);
        check(&[0.1, 0.2, 0.9, 0.3], 0.0, &["Three c."]);
        check(&[0.5, 0.5, 0.5, 0.5], 1.0, &["One a. Two b. Three c. Four d."]);
    }

    #[test]
    fn a_span_inside_a_sentence_has_its_parts() {
        let document = document("One a. Two b. Three c.");
        let texts: Vec<&str> = sentences(&document, Span::new(2, 18))
            .into_iter()
            .map(|sentence| slice(&document.text, sentence))
            .collect();
        assert_eq!(texts, ["e a.", "Two b.", "Thre"]);
    }
}
