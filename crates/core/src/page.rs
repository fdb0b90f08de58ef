//! Items of a further page → the same without bytes that earlier pages delivered.
//!
//! Invariant: no byte of what comes out was delivered before; every item keeps evidence.

use crate::document::Library;
use crate::id::DocId;
use crate::merge::{Evidence, Item, ItemKind};
use crate::span::{Span, SpanSet};
use std::collections::BTreeMap;

/// The bytes of each document that earlier pages delivered.
pub type Delivered = BTreeMap<DocId, SpanSet>;

/// Cuts out of each item what was delivered. What is left between two such places is an item of its own where it holds evidence;
/// the rest goes. Order: by best evidence.
pub fn without_delivered(
    items: Vec<Item>,
    delivered: &Delivered,
    library: &Library<'_>,
) -> Vec<Item> {
    let mut left = Vec::new();
    for item in items {
        let gone = delivered.get(&item.doc).filter(|gone| !gone.intersect(item.span).is_empty());
        match (gone, library.get(&item.doc)) {
            (Some(gone), Some(document)) => left.extend(pieces(&item, gone, &document.text)),
            _ => left.push(item),
        }
    }
    left.sort_by_key(Item::rank);
    left
}

/// What is left of an item.
fn pieces(item: &Item, gone: &SpanSet, text: &str) -> Vec<Item> {
    let evidence: Vec<Evidence> = item.evidence.iter().filter_map(|e| rest(e, gone, text)).collect();
    let pieces = gone.missing_from(item.span).into_iter().map(|piece| piece.trim(text));
    let cut = pieces.filter_map(|span| {
        let inside = evidence.iter().filter(|evidence| span.contains(evidence.span));
        let inside: Vec<Evidence> = inside.cloned().collect();
        let cropped = Item { kind: ItemKind::Cropped, span, evidence: inside, ..item.clone() };
        (!cropped.evidence.is_empty()).then_some(cropped)
    });
    cut.collect()
}

/// The longest piece of a leaf that was not delivered; leaves may overlap. `None` where nothing is left.
fn rest(evidence: &Evidence, gone: &SpanSet, text: &str) -> Option<Evidence> {
    let pieces = gone.missing_from(evidence.span).into_iter().map(|piece| piece.trim(text));
    let span = pieces.max_by_key(|piece| piece.len()).filter(|piece: &Span| !piece.is_empty())?;
    Some(Evidence { span, ..evidence.clone() })
}
