//! Lines of JSON and the documents → judgments that can be scored, and those that cannot, with the reason.
//!
//! Invariant: a judgment is scored only if every reference of it lies in a known text on character boundaries; all others are
//! counted as unjudged, none as a zero.

mod import;
mod place;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use umbel_core::span::Span;

pub use import::{Import, ImportError, beir, trec};
pub use place::{Checked, Fault, Page, Unjudged, check, excerpted};

/// What is known to be relevant to a query: as a file states it, or, once it is placed, in spans of texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgment<R = Reference> {
    /// Names the query; unique in its file.
    pub id: String,
    /// The question as it is asked.
    pub query: String,
    /// Right answers, if any are known.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<String>,
    /// The group of queries that it is reported with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The evidence, in no order; spans may overlap.
    pub relevant: Vec<R>,
}

/// What a file says is relevant: a span of a document, a node of its tree, or all of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The document's name.
    pub doc: String,
    /// First byte in the document's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<usize>,
    /// One past the last byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
    /// In place of bytes: a node of the document's tree, by its index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// The text that stood there when it was judged: a span is found again by it where the document has changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// How relevant it is: above 0, finite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grade: Option<f64>,
}

/// A span of a document that is relevant to a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The document's name.
    pub doc: String,
    /// First byte in the document's text.
    pub start: usize,
    /// One past the last byte; above `start`.
    pub end: usize,
    /// How relevant it is: above 0, finite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grade: Option<f64>,
}

impl Reference {
    /// Its bytes.
    ///
    /// # Panics
    /// If `start > end`, which [`check`] lets no reference have.
    pub fn span(&self) -> Span {
        Span::new(self.start, self.end)
    }

    /// What a leaf with this evidence is worth: the grade, 1 if absent.
    pub fn gain(&self) -> f64 {
        self.grade.unwrap_or(1.0)
    }
}

/// Why judgments could not be read. Lines count from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JudgmentError {
    /// There is no line with anything in it.
    #[error("no judgment in it")]
    None,
    /// A line is not JSON, or a field is missing or of another type.
    #[error("line {line}: not a judgment")]
    Json {
        /// Where.
        line: usize,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// Two queries have one name, so a run could not tell them apart.
    #[error("line {line}: id `{id}` is that of line {first} too")]
    Duplicate {
        /// Where.
        line: usize,
        /// The name.
        id: String,
        /// The line that has it already.
        first: usize,
    },
    /// A reference holds no byte, or ends before it starts.
    #[error("line {line}: reference `{doc}` `{start}..{end}` of `{id}` holds no byte")]
    Empty {
        /// Where.
        line: usize,
        /// The query.
        id: String,
        /// The document.
        doc: String,
        /// First byte.
        start: usize,
        /// One past the last byte.
        end: usize,
    },
    /// A reference has one end only, or bytes and a node.
    #[error(
        "line {line}: reference `{doc}` of `{id}` needs `start` and `end`, or `node`, or none of them"
    )]
    Mixed {
        /// Where.
        line: usize,
        /// The query.
        id: String,
        /// The document.
        doc: String,
    },
    /// A grade that is no gain.
    #[error("line {line}: grade `{grade}` of `{id}` is not above 0")]
    Grade {
        /// Where.
        line: usize,
        /// The query.
        id: String,
        /// The grade that came.
        grade: f64,
    },
}

impl JudgmentError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            JudgmentError::None | JudgmentError::Json { .. } => {
                r#"one object a line: {"id", "query", "relevant": [{"doc", "start", "end"}]}"#
            }
            JudgmentError::Duplicate { .. } => "give each query an id of its own",
            JudgmentError::Empty { .. } => "spans are bytes, half open: `end` is one past the last",
            JudgmentError::Mixed { .. } => {
                "a document alone is relevant as a whole; `start` and `end` name bytes of it, `node` a node of its tree"
            }
            JudgmentError::Grade { .. } => "leave out what is not relevant",
        }
    }
}

/// Judgments from lines of JSON, in their order. Blank lines and a byte order mark are skipped, unknown fields ignored.
///
/// # Errors
/// The first line that cannot be used, by its number; [`JudgmentError::hint`] says what to do.
pub fn parse(text: &str) -> Result<Vec<Judgment<Claim>>, JudgmentError> {
    let mut judgments = Vec::new();
    let mut lines = HashMap::new();
    for (index, content) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = index + 1;
        if content.trim().is_empty() {
            continue;
        }
        let judgment: Judgment<Claim> =
            serde_json::from_str(content).map_err(|source| JudgmentError::Json { line, source })?;
        if let Some(first) = lines.insert(judgment.id.clone(), line) {
            return Err(JudgmentError::Duplicate { line, id: judgment.id, first });
        }
        for claim in &judgment.relevant {
            sound(line, &judgment.id, claim)?;
        }
        judgments.push(judgment);
    }
    if judgments.is_empty() { Err(JudgmentError::None) } else { Ok(judgments) }
}

/// Refuses a claim that is wrong of any text.
fn sound(line: usize, id: &str, claim: &Claim) -> Result<(), JudgmentError> {
    let (id, doc) = (id.to_owned(), claim.doc.clone());
    match (claim.start, claim.end, claim.node) {
        (Some(start), Some(end), None) if start >= end => {
            return Err(JudgmentError::Empty { line, id, doc, start, end });
        }
        (Some(_), Some(_), None) | (None, None, _) => {}
        _ => return Err(JudgmentError::Mixed { line, id, doc }),
    }
    match claim.grade {
        Some(grade) if !(grade.is_finite() && grade > 0.0) => {
            Err(JudgmentError::Grade { line, id, grade })
        }
        _ => Ok(()),
    }
}
