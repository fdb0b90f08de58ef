//! A document without its text, leaf ids and vectors ⇄ the bytes that a catalog stores.
//!
//! Invariant: bytes that an older version wrote decode to the same document; other bytes are an error, never a panic.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use umbel_core::document::Document;
use umbel_core::id::LeafId;
use umbel_core::offsets::{Offsets, TokenCounter, TokenOffsets};
use umbel_core::span::{self, Span};
use umbel_core::tree::Tree;

/// The first byte of a shape.
const VERSION: u8 = 1;

/// What is stored of a document beside its text, in postcard's encoding. Offsets are kept as distances, so that one costs
/// a byte where the next is less than 128 bytes away.
#[derive(Serialize, Deserialize)]
struct Shape<'a> {
    body: Span,
    title: Cow<'a, str>,
    warnings: Cow<'a, [String]>,
    tree: Cow<'a, Tree>,
    tokens: Vec<u32>,
    sentences: Vec<u32>,
    blocks: Vec<u32>,
}

/// Why stored bytes do not decode.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecodeError {
    /// The first byte is missing or not one that this version writes.
    #[error("a document has encoding {0:?}, this version reads {VERSION}")]
    Version(Option<u8>),
    /// The bytes are cut short or mean nothing.
    #[error("a document's tree does not decode")]
    Shape(#[source] postcard::Error),
    /// Bytes are left over, or an offset leaves the text.
    #[error("a document's tree does not fit its text")]
    Misfit,
    /// Leaf ids or floats of a fixed size were cut.
    #[error("{len} bytes are no multiple of {size}")]
    Length {
        /// What was found.
        len: usize,
        /// Bytes of one item.
        size: usize,
    },
}

/// Everything of a document but its text.
pub(super) fn shape(document: &Document) -> Vec<u8> {
    let shape = Shape {
        body: document.body,
        title: Cow::Borrowed(&document.title),
        warnings: Cow::Borrowed(&document.warnings),
        tree: Cow::Borrowed(&document.tree),
        tokens: distances(document.offsets.tokens.starts()),
        sentences: distances(&document.offsets.sentences),
        blocks: distances(&document.offsets.blocks),
    };
    postcard::to_extend(&shape, vec![VERSION]).expect("plain data of known length always encodes")
}

/// The document of a text and its shape.
pub(super) fn document(text: String, shape: &[u8]) -> Result<Document, DecodeError> {
    let (version, bytes) = shape.split_first().ok_or(DecodeError::Version(None))?;
    if *version != VERSION {
        return Err(DecodeError::Version(Some(*version)));
    }
    let (shape, rest) = postcard::take_from_bytes::<Shape>(bytes).map_err(DecodeError::Shape)?;
    let offsets = Offsets {
        tokens: TokenOffsets::of(&text, &Stored(offsets(&shape.tokens, &text)?)),
        sentences: offsets(&shape.sentences, &text)?,
        blocks: offsets(&shape.blocks, &text)?,
    };
    if !rest.is_empty()
        || !span::fits(&text, shape.body)
        || !spans(&shape.tree).all(|span| span::fits(&text, span))
    {
        return Err(DecodeError::Misfit);
    }
    Ok(Document {
        text,
        body: shape.body,
        title: shape.title.into_owned(),
        tree: shape.tree.into_owned(),
        offsets,
        warnings: shape.warnings.into_owned(),
    })
}

/// Leaf ids, one behind the other.
pub(super) fn leaf_ids(ids: &[LeafId]) -> Vec<u8> {
    ids.iter().flat_map(|id| id.0).collect()
}

/// The leaf ids in these bytes.
pub(super) fn leaf_ids_of(bytes: &[u8]) -> Result<Vec<LeafId>, DecodeError> {
    Ok(whole::<16>(bytes)?.iter().map(|&id| LeafId(id)).collect())
}

/// Floats, little-endian, one behind the other.
pub(super) fn vector(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|float| float.to_le_bytes()).collect()
}

/// The floats in these bytes.
pub(super) fn vector_of(bytes: &[u8]) -> Result<Vec<f32>, DecodeError> {
    Ok(whole::<4>(bytes)?.iter().map(|&float| f32::from_le_bytes(float)).collect())
}

/// Token starts that were counted before.
struct Stored(Vec<u32>);

impl TokenCounter for Stored {
    fn name(&self) -> &'static str {
        "stored"
    }

    fn count(&self, _: &str) -> usize {
        self.0.len()
    }

    fn starts(&self, _: &str) -> Vec<u32> {
        self.0.clone()
    }
}

fn distances(offsets: &[u32]) -> Vec<u32> {
    let before = std::iter::once(0).chain(offsets.iter().copied());
    offsets.iter().zip(before).map(|(&offset, before)| offset.wrapping_sub(before)).collect()
}

fn offsets(distances: &[u32], text: &str) -> Result<Vec<u32>, DecodeError> {
    let mut at = 0_u32;
    let offsets: Vec<u32> = distances
        .iter()
        .map(|&distance| {
            at = at.wrapping_add(distance);
            at
        })
        .collect();
    let in_text = offsets.last().is_none_or(|&last| (last as usize) < text.len());
    let rising = offsets.is_sorted_by(|a, b| a < b);
    if in_text && rising { Ok(offsets) } else { Err(DecodeError::Misfit) }
}

fn spans(tree: &Tree) -> impl Iterator<Item = Span> {
    let nodes = tree.nodes.iter().map(|node| node.span);
    let leaves = tree
        .leaves
        .iter()
        .flat_map(|leaf| std::iter::once(leaf.span).chain(leaf.prefix.iter().copied()));
    let headings = tree.headings.iter().map(|heading| heading.span);
    nodes
        .chain(leaves)
        .chain(headings)
        .chain(tree.top_level.iter().copied())
        .chain(tree.dropped_rules.iter().copied())
}

fn whole<const SIZE: usize>(bytes: &[u8]) -> Result<&[[u8; SIZE]], DecodeError> {
    let (items, rest) = bytes.as_chunks();
    if rest.is_empty() {
        Ok(items)
    } else {
        Err(DecodeError::Length { len: bytes.len(), size: SIZE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::conformance::sample;
    use proptest::prelude::*;

    /// What version 1 wrote for `sample("\u{feff}# Ä\n\none two\r\n")`.
    const VERSION_1: &str = concat!(
        "01031207efbbbf2320c384020e6f64643a2060efbbbf2320c38460076f64643a206060030003100500020102",
        "0003030702010000010003091003010000010002030702010100010103070100000910030201000101030701",
        "00010103070102c38401030700020203060003030303030303050103030501"
    );

    #[test]
    fn an_old_shape_decodes() {
        let want = sample("\u{feff}# Ä\n\none two\r\n");
        let bytes: Vec<u8> = VERSION_1
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        assert_eq!(
            shape(&want),
            bytes,
            "the encoding changed: raise VERSION, and keep reading the old one"
        );
        assert_eq!(document(want.text.clone(), &bytes), Ok(want));
    }

    #[test]
    fn a_token_costs_one_byte() {
        let few = sample(&format!("\n\n{}", "word ".repeat(100)));
        let many = sample(&format!("\n\n{}", "word ".repeat(10_100)));
        let extra = many.offsets.tokens.total() - few.offsets.tokens.total();
        assert!(shape(&many).len() - shape(&few).len() < extra + 50);
    }

    #[test]
    fn other_bytes_are_refused() {
        let good = sample("one\ntwo\n");
        let bytes = shape(&good);
        assert_eq!(document(String::new(), &[]), Err(DecodeError::Version(None)));
        assert_eq!(document(good.text.clone(), &[9, 0]), Err(DecodeError::Version(Some(9))));
        assert_eq!(document("one".to_owned(), &bytes), Err(DecodeError::Misfit));
        assert_eq!(document(good.text, &[&bytes[..], &[0]].concat()), Err(DecodeError::Misfit));
        assert_eq!(leaf_ids_of(&[0; 17]), Err(DecodeError::Length { len: 17, size: 16 }));
    }

    proptest! {
        #[test]
        fn a_document_comes_back(text in "(\\PC|\n|\r\n|\u{0}){0,60}") {
            let want = sample(&text);
            prop_assert_eq!(document(text, &shape(&want)), Ok(want));
        }

        #[test]
        fn damage_never_panics(at in 0_usize..200, byte: u8) {
            let good = sample("# a\n\nb\nc d\n");
            let mut bytes = shape(&good);
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = document(good.text, &bytes);
        }

        #[test]
        fn a_vector_comes_back(bits in prop::collection::vec(any::<u32>(), 0..20)) {
            let floats: Vec<f32> = bits.iter().map(|&bits| f32::from_bits(bits)).collect();
            let back: Vec<u32> = vector_of(&vector(&floats)).unwrap().iter().map(|float| float.to_bits()).collect();
            prop_assert_eq!(back, bits);
        }
    }
}
