//! Claims and the documents they speak of → spans, or the reason why there is none.

use super::{Claim, Judgment, Reference};
use crate::share::Share;
use std::fmt;
use umbel_core::span::{Span, fits};
use umbel_core::tree::Tree;

/// What is known of a document that judgments name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page<'t> {
    /// Its text.
    pub text: &'t str,
    /// Its tree; `None` where it is not cut yet, and then no node can be named.
    pub tree: Option<&'t Tree>,
}

/// Judgments beside the documents they speak of.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked<'j> {
    /// Those that can be scored, in their order.
    pub judged: Vec<Judgment>,
    /// Those that cannot, in their order.
    pub unjudged: Vec<Unjudged<'j>>,
    /// References that were found by their text at another place than the one that was judged.
    pub moved: usize,
}

/// A judgment that cannot be scored.
#[derive(Debug, Clone, PartialEq)]
pub struct Unjudged<'j> {
    /// The judgment.
    pub judgment: &'j Judgment<Claim>,
    /// Why not; at least one reason.
    pub faults: Vec<Fault>,
}

/// Why a judgment cannot be scored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It names no evidence.
    NoReference,
    /// No document has this name.
    UnknownDocument {
        /// The name.
        doc: String,
    },
    /// The document's tree has no such node.
    UnknownNode {
        /// The document.
        doc: String,
        /// The index.
        node: u32,
    },
    /// The document has no text, so none of it is relevant.
    NoText {
        /// The document.
        doc: String,
    },
    /// The span leaves the document's text.
    Outside {
        /// The document.
        doc: String,
        /// First byte.
        start: usize,
        /// One past the last byte.
        end: usize,
        /// Length of the text in bytes.
        len: usize,
    },
    /// The span cuts a character, so it counts something else than bytes, or belongs to another version of the text.
    InsideCharacter {
        /// The document.
        doc: String,
        /// First byte.
        start: usize,
        /// One past the last byte.
        end: usize,
    },
    /// The text that was judged stands nowhere in the document, or in several places and not in this one.
    Changed {
        /// The document.
        doc: String,
        /// First byte.
        start: usize,
        /// One past the last byte.
        end: usize,
        /// In how many places it stands.
        found: usize,
    },
}

impl Checked<'_> {
    /// How many of all judgments cannot be scored.
    pub fn unjudged_share(&self) -> Share {
        let judged = Share::count_of(&self.judged, |_| false);
        judged + Share::count_of(&self.unjudged, |_| true)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoReference => write!(f, "names no evidence"),
            Fault::UnknownDocument { doc } => write!(f, "no document `{doc}`"),
            Fault::UnknownNode { doc, node } => write!(f, "no node `{node}` in `{doc}`"),
            Fault::NoText { doc } => write!(f, "`{doc}` is empty"),
            Fault::Outside { doc, start, end, len } => {
                write!(f, "`{start}..{end}` leaves `{doc}` of {len} bytes")
            }
            Fault::InsideCharacter { doc, start, end } => {
                write!(f, "`{start}..{end}` cuts a character of `{doc}`")
            }
            Fault::Changed { doc, start, end, found } => {
                write!(
                    f,
                    "`{doc}` has another text at `{start}..{end}`, and the one that was judged in {found} places"
                )
            }
        }
    }
}

/// The judgments that can be scored and those that cannot, given what is known of each document, `None` for an unknown one.
///
/// One reference that cannot be placed leaves the whole judgment unjudged: scored on the rest it would look better than it is.
/// A document alone stands for its whole text. A claim that holds the judged text is looked up where it was; if the document
/// has changed there, it is taken from where that text stands now, if it stands in one place only. `page_of` is asked once for
/// each reference.
pub fn check<'j, 't>(
    judgments: &'j [Judgment<Claim>],
    page_of: impl Fn(&str) -> Option<Page<'t>>,
) -> Checked<'j> {
    let mut checked = Checked { judged: Vec::new(), unjudged: Vec::new(), moved: 0 };
    for judgment in judgments {
        let (mut relevant, mut faults, mut moved) = (Vec::new(), Vec::new(), 0);
        for claim in &judgment.relevant {
            match place(claim, page_of(&claim.doc)) {
                Ok(span) => {
                    moved += usize::from(claim.start.is_some_and(|start| start != span.start));
                    relevant.push(Reference {
                        doc: claim.doc.clone(),
                        start: span.start,
                        end: span.end,
                        grade: claim.grade,
                    });
                }
                Err(fault) => faults.push(fault),
            }
        }
        if judgment.relevant.is_empty() {
            faults.push(Fault::NoReference);
        }
        if faults.is_empty() {
            let Judgment { id, query, answers, group, .. } = judgment.clone();
            checked.judged.push(Judgment { id, query, answers, group, relevant });
            checked.moved += moved;
        } else {
            checked.unjudged.push(Unjudged { judgment, faults });
        }
    }
    checked
}

/// The same judgments in spans, each with the text that stands there, so that a later version of the document can be asked.
pub fn excerpted<'t>(
    judged: &[Judgment],
    text_of: impl Fn(&str) -> Option<&'t str>,
) -> Vec<Judgment<Claim>> {
    let claim = |reference: &Reference| Claim {
        doc: reference.doc.clone(),
        start: Some(reference.start),
        end: Some(reference.end),
        node: None,
        text: text_of(&reference.doc)
            .and_then(|text| text.get(reference.start..reference.end))
            .map(str::to_owned),
        grade: reference.grade,
    };
    let with_texts = |judgment: &Judgment| {
        let Judgment { id, query, answers, group, relevant } = judgment.clone();
        Judgment { id, query, answers, group, relevant: relevant.iter().map(claim).collect() }
    };
    judged.iter().map(with_texts).collect()
}

fn place(claim: &Claim, page: Option<Page<'_>>) -> Result<Span, Fault> {
    let doc = claim.doc.clone();
    let Some(Page { text, tree }) = page else { return Err(Fault::UnknownDocument { doc }) };
    if let Some(node) = claim.node {
        let found = tree.and_then(|tree| tree.node(node)).map(|found| found.span);
        return found.ok_or(Fault::UnknownNode { doc, node });
    }
    let (Some(start), Some(end)) = (claim.start, claim.end) else {
        return if text.is_empty() {
            Err(Fault::NoText { doc })
        } else {
            Ok(Span::new(0, text.len()))
        };
    };
    if let Some(judged) = claim.text.as_deref().filter(|judged| !judged.is_empty()) {
        if text.get(start..end) == Some(judged) {
            return Ok(Span::new(start, end));
        }
        let places: Vec<usize> = text.match_indices(judged).map(|(at, _)| at).collect();
        return match places.as_slice() {
            [at] => Ok(Span::new(*at, at + judged.len())),
            _ => Err(Fault::Changed { doc, start, end, found: places.len() }),
        };
    }
    if start > end || end > text.len() {
        return Err(Fault::Outside { doc, start, end, len: text.len() });
    }
    let span = Span::new(start, end);
    if fits(text, span) { Ok(span) } else { Err(Fault::InsideCharacter { doc, start, end }) }
}
