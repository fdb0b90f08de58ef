//! A document without its text, leaf ids and vectors ⇄ the bytes that a catalog stores.
//!
//! Invariant: bytes that an older version wrote decode to the same document; other bytes are an error, never a panic.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use umbel_core::document::{Anchor, Document, Place};
use umbel_core::id::LeafId;
use umbel_core::offsets::{Offsets, TokenCounter, TokenOffsets};
use umbel_core::span::{self, Span};
use umbel_core::tree::Tree;

/// The first byte of a shape.
const VERSION: u8 = 2;
/// The oldest first byte that is read.
const OLDEST_VERSION: u8 = 1;

/// What is stored of a document beside its text, in postcard's encoding. From version 2 on, [`Anchors`] are behind it.
///
/// Offsets are kept as distances, so that one costs a byte where the next is less than 128 bytes away.
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

/// The place of each anchor, behind its distance from the one before.
type Anchors<'a> = Vec<(u64, Cow<'a, Place>)>;

/// Why stored bytes do not decode.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecodeError {
    /// The first byte is missing or not one that this version reads.
    #[error("a document has encoding {0:?}, this version reads {OLDEST_VERSION} to {VERSION}")]
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
    let mut before = 0;
    let anchors: Anchors = document
        .anchors
        .iter()
        .map(|Anchor { offset, place }| {
            let distance = offset.wrapping_sub(std::mem::replace(&mut before, *offset));
            (distance as u64, Cow::Borrowed(place))
        })
        .collect();
    postcard::to_extend(&(shape, anchors), vec![VERSION])
        .expect("plain data of known length always encodes")
}

/// The document of a text and its shape.
pub(super) fn document(text: String, shape: &[u8]) -> Result<Document, DecodeError> {
    let (version, bytes) = split(shape)?;
    let (shape, rest) = take::<Shape>(bytes)?;
    let (anchors, rest) = if version < 2 { (Vec::new(), rest) } else { take::<Anchors>(rest)? };
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
        body: shape.body,
        title: shape.title.into_owned(),
        tree: shape.tree.into_owned(),
        offsets,
        anchors: anchors_in(&text, anchors)?,
        warnings: shape.warnings.into_owned(),
        text,
    })
}

/// The title in a shape.
pub(super) fn title(shape: &[u8]) -> Result<String, DecodeError> {
    let (_, bytes) = split(shape)?;
    let ((_, title), _) = take::<(Span, String)>(bytes)?;
    Ok(title)
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

/// The version of a shape, and what is behind it.
fn split(shape: &[u8]) -> Result<(u8, &[u8]), DecodeError> {
    match shape.split_first() {
        Some((&version, bytes)) if (OLDEST_VERSION..=VERSION).contains(&version) => {
            Ok((version, bytes))
        }
        other => Err(DecodeError::Version(other.map(|(&version, _)| version))),
    }
}

fn take<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(T, &'a [u8]), DecodeError> {
    postcard::take_from_bytes(bytes).map_err(DecodeError::Shape)
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

/// Anchors may share an offset, and the last one may be at the end of the text.
fn anchors_in(text: &str, anchors: Anchors) -> Result<Vec<Anchor>, DecodeError> {
    let mut at = 0_usize;
    let anchor = |(distance, place): (u64, Cow<Place>)| {
        at = usize::try_from(distance).ok().and_then(|distance| at.checked_add(distance))?;
        text.is_char_boundary(at).then(|| Anchor { offset: at, place: place.into_owned() })
    };
    anchors.into_iter().map(anchor).collect::<Option<_>>().ok_or(DecodeError::Misfit)
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

    /// What version 2 writes for the same sample.
    const VERSION_2: &str = concat!(
        "02031207efbbbf2320c384020e6f64643a2060efbbbf2320c38460076f64643a206060030003100500020102",
        "0003030702010000010003091003010000010002030702010100010103070100000910030201000101030701",
        "00010103070102c3840103070002020306000303030303030305010303050105030001000102c38405000201",
        "0003090004"
    );

    fn unhex(hex: &str) -> Vec<u8> {
        let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    #[test]
    fn a_shape_of_version_1_has_no_anchors() {
        let want = Document { anchors: Vec::new(), ..sample("\u{feff}# Ä\n\none two\r\n") };
        assert_eq!(title(&unhex(VERSION_1)), Ok(want.title.clone()));
        assert_eq!(document(want.text.clone(), &unhex(VERSION_1)), Ok(want));
    }

    #[test]
    fn a_shape_is_written_as_version_2() {
        let want = sample("\u{feff}# Ä\n\none two\r\n");
        assert!(!want.anchors.is_empty());
        let hex: String = shape(&want).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex, VERSION_2,
            "the encoding changed: raise VERSION, and keep reading the old ones"
        );
        assert_eq!(title(&unhex(VERSION_2)), Ok(want.title.clone()));
        assert_eq!(document(want.text.clone(), &unhex(VERSION_2)), Ok(want));
    }

    #[test]
    fn anchors_lie_in_the_text_in_order() {
        let check = |offsets: &[usize], fits: bool| {
            let page = |(&offset, page): (&usize, u32)| Anchor { offset, place: Place::Page(page) };
            let want = Document {
                anchors: offsets.iter().zip(1..).map(page).collect(),
                ..sample("a\nä\n")
            };
            let got = document(want.text.clone(), &shape(&want));
            assert_eq!(got, if fits { Ok(want) } else { Err(DecodeError::Misfit) }, "{offsets:?}");
        };
        check(&[], true);
        check(&[0, 0, 2, 2, 4, 5, 5], true);
        check(&[0, 3], false);
        check(&[2, 0], false);
        check(&[6], false);
        check(&[1, usize::MAX], false);
    }

    #[test]
    fn an_anchor_at_a_new_page_costs_few_bytes() {
        let cost = |n: usize| {
            let anchors = (1..=n).map(|n| Anchor { offset: n * 100, place: Place::Page(n as u32) });
            let text = "word ".repeat(200);
            shape(&Document { anchors: anchors.collect(), ..sample(&text) }).len()
        };
        assert_eq!(cost(10) - cost(5), 5 * 3, "a distance, a kind and a page");
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
        assert_eq!(document(good.text.clone(), &[0]), Err(DecodeError::Version(Some(0))));
        assert_eq!(title(&[9, 0]), Err(DecodeError::Version(Some(9))));
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
            let _ = (title(&bytes), document(good.text, &bytes));
        }

        #[test]
        fn a_vector_comes_back(bits in prop::collection::vec(any::<u32>(), 0..20)) {
            let floats: Vec<f32> = bits.iter().map(|&bits| f32::from_bits(bits)).collect();
            let back: Vec<u32> = vector_of(&vector(&floats)).unwrap().iter().map(|float| float.to_bits()).collect();
            prop_assert_eq!(back, bits);
        }
    }
}
