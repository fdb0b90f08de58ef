//! One text with its tree and offsets: what is stored of a document.
//!
//! Invariant: every span of the tree lies in `body`, on character boundaries of `text`.

use crate::offsets::Offsets;
use crate::span::Span;
use crate::tree::Tree;

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
    /// What was odd about it, in words for its author.
    pub warnings: Vec<String>,
}

/// The documents that a list of hits points into.
pub type Library<'a> = std::collections::BTreeMap<crate::id::DocId, &'a Document>;
