//! One text with its tree and offsets: what is stored of a document.
//!
//! Invariant: every span of the tree lies in `body`, on character boundaries of `text`.

use crate::offsets::Offsets;
use crate::span::Span;
use crate::tree::Tree;
use serde::{Deserialize, Serialize};

/// Where a place of the canonical text lies in the file it was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// Byte offset in the text: the place begins here, and reaches to the next anchor of its kind.
    pub offset: usize,
    /// What begins there.
    pub place: Place,
}

/// A place in a file that a citation can name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// A page of a PDF, a slide, a sheet: from 1.
    Page(u32),
    /// An element of an HTML page, by its `id`.
    Element(String),
}

/// A document after ingestion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The canonical text; for Markdown and plain text the file's own bytes.
    pub text: String,
    /// The text behind byte order mark and front matter.
    pub body: Span,
    /// Front matter title, else lone level-1 heading, else file name without extension.
    pub title: String,
    /// Sections, parts and leaves.
    pub tree: Tree,
    /// Tokens, sentences and blocks.
    pub offsets: Offsets,
    /// Places in the file it was made from, in order of their offsets; empty where the text is the file.
    pub anchors: Vec<Anchor>,
    /// What was odd about it, in words for its author.
    pub warnings: Vec<String>,
}

impl Document {
    /// The page of the file that a byte of the text lies on, from 1; `None` for a file without pages. O(anchors).
    pub fn page_at(&self, offset: usize) -> Option<u32> {
        self.places_to(offset).find_map(|place| match place {
            Place::Page(page) => Some(*page),
            Place::Element(_) => None,
        })
    }

    /// The id of the last element that begins at or before a byte of the text. O(anchors).
    pub fn element_at(&self, offset: usize) -> Option<&str> {
        self.places_to(offset).find_map(|place| match place {
            Place::Element(id) => Some(id.as_str()),
            Place::Page(_) => None,
        })
    }

    /// The line of the text that a byte lies on, from 1. O(offset).
    pub fn line_at(&self, offset: usize) -> usize {
        let before = self.text.as_bytes().iter().take(offset);
        before.filter(|&&byte| byte == b'\n').count() + 1
    }

    /// The places that begin at or before a byte, last one first.
    fn places_to(&self, offset: usize) -> impl Iterator<Item = &Place> {
        let n = self.anchors.partition_point(|anchor| anchor.offset <= offset);
        self.anchors.iter().take(n).rev().map(|anchor| &anchor.place)
    }
}

/// The documents that a list of hits points into.
pub type Library<'a> = std::collections::BTreeMap<crate::id::DocId, &'a Document>;
