//! Lines of JSON and the documents' texts → judgments that can be scored, and those that cannot, with the reason.
//!
//! Invariant: a judgment is scored only if every reference of it lies in a known text on character boundaries; all others are
//! counted as unjudged, none as a zero.

use crate::share::Share;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use umbel_core::span::{Span, fits};

/// What is known to be relevant to a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgment {
    /// Names the query; unique in its file.
    pub id: String,
    /// The question as it is asked.
    pub query: String,
    /// Right answers, if any are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<String>,
    /// The group of queries that it is reported with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The evidence, in no order; spans may overlap.
    pub relevant: Vec<Reference>,
}

/// A span of a document that is relevant to a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The document's name.
    pub doc: String,
    /// First byte in the document's text.
    pub start: usize,
    /// One past the last byte; above `start` in whatever [`parse`] returns.
    pub end: usize,
    /// How relevant it is: above 0, finite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grade: Option<f64>,
}

impl Reference {
    /// Its bytes.
    ///
    /// # Panics
    /// If `start > end`, which [`parse`] refuses.
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
            JudgmentError::Json { .. } => {
                r#"one object a line: {"id", "query", "relevant": [{"doc", "start", "end"}]}"#
            }
            JudgmentError::Duplicate { .. } => "give each query an id of its own",
            JudgmentError::Empty { .. } => "spans are bytes, half open: `end` is one past the last",
            JudgmentError::Grade { .. } => "leave out what is not relevant",
        }
    }
}

/// Judgments from lines of JSON, in their order. Blank lines and a byte order mark are skipped, unknown fields ignored.
///
/// # Errors
/// The first line that cannot be used, by its number; [`JudgmentError::hint`] says what to do.
pub fn parse(text: &str) -> Result<Vec<Judgment>, JudgmentError> {
    let mut judgments = Vec::new();
    let mut lines = HashMap::new();
    for (index, content) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = index + 1;
        if content.trim().is_empty() {
            continue;
        }
        let judgment: Judgment =
            serde_json::from_str(content).map_err(|source| JudgmentError::Json { line, source })?;
        if let Some(first) = lines.insert(judgment.id.clone(), line) {
            return Err(JudgmentError::Duplicate { line, id: judgment.id, first });
        }
        for reference in &judgment.relevant {
            sound(line, &judgment.id, reference)?;
        }
        judgments.push(judgment);
    }
    Ok(judgments)
}

/// Refuses a reference that is wrong in any text.
fn sound(line: usize, id: &str, reference: &Reference) -> Result<(), JudgmentError> {
    let (start, end) = (reference.start, reference.end);
    if start >= end {
        let (id, doc) = (id.to_owned(), reference.doc.clone());
        return Err(JudgmentError::Empty { line, id, doc, start, end });
    }
    match reference.grade {
        Some(grade) if !(grade.is_finite() && grade > 0.0) => {
            Err(JudgmentError::Grade { line, id: id.to_owned(), grade })
        }
        _ => Ok(()),
    }
}

/// Judgments beside the documents they speak of.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked<'j> {
    /// Those that can be scored, in their order.
    pub judged: Vec<&'j Judgment>,
    /// Those that cannot, in their order.
    pub unjudged: Vec<Unjudged<'j>>,
}

/// A judgment that cannot be scored.
#[derive(Debug, Clone, PartialEq)]
pub struct Unjudged<'j> {
    /// The judgment.
    pub judgment: &'j Judgment,
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
            Fault::Outside { doc, start, end, len } => {
                write!(f, "`{start}..{end}` leaves `{doc}` of {len} bytes")
            }
            Fault::InsideCharacter { doc, start, end } => {
                write!(f, "`{start}..{end}` cuts a character of `{doc}`")
            }
        }
    }
}

/// The judgments that can be scored and those that cannot, given the text of each document, `None` for an unknown one.
///
/// One reference that cannot be placed leaves the whole judgment unjudged: scored on the rest it would look better than it is.
/// `text_of` is asked once for each reference.
pub fn check<'j, 't>(
    judgments: &'j [Judgment],
    text_of: impl Fn(&str) -> Option<&'t str>,
) -> Checked<'j> {
    let mut checked = Checked { judged: Vec::new(), unjudged: Vec::new() };
    for judgment in judgments {
        let mut faults: Vec<Fault> =
            judgment.relevant.iter().filter_map(|r| fault(r, text_of(&r.doc))).collect();
        if judgment.relevant.is_empty() {
            faults.push(Fault::NoReference);
        }
        if faults.is_empty() {
            checked.judged.push(judgment);
        } else {
            checked.unjudged.push(Unjudged { judgment, faults });
        }
    }
    checked
}

fn fault(reference: &Reference, text: Option<&str>) -> Option<Fault> {
    let Reference { doc, start, end, .. } = reference.clone();
    match text {
        None => Some(Fault::UnknownDocument { doc }),
        Some(text) if start > end || end > text.len() => {
            Some(Fault::Outside { doc, start, end, len: text.len() })
        }
        Some(text) if !fits(text, reference.span()) => {
            Some(Fault::InsideCharacter { doc, start, end })
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error's text, or how many judgments came.
    fn check_parse(text: &str, expected: &str) {
        let got = match parse(text) {
            Ok(judgments) => format!("{}", judgments.len()),
            Err(error) => {
                assert!(!error.hint().is_empty());
                error.to_string()
            }
        };
        assert_eq!(got, expected);
    }

    fn line(id: &str, reference: &str) -> String {
        format!(r#"{{"id":"{id}","query":"?","relevant":[{reference}]}}"#)
    }

    /// The faults of one reference in the document `a` with the text `aé`, four bytes with its line feed.
    fn check_fault(reference: &str, expected: &[&str]) {
        let judgments = parse(&line("q", reference)).unwrap();
        let checked = check(&judgments, |doc| (doc == "a").then_some("aé\n"));
        let faults = checked.unjudged.iter().flat_map(|u| &u.faults).map(ToString::to_string);
        assert_eq!(faults.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn blank_lines_line_ends_and_a_byte_order_mark_do_not_matter() {
        let one = line("1", r#"{"doc":"a","start":0,"end":1,"grade":2}"#);
        let two = line("2", r#"{"doc":"a","start":0,"end":1}"#);
        check_parse(&format!("\u{feff}{one}\r\n\n  \n{two}"), "2");
        check_parse("", "0");
        let gains: Vec<f64> = parse(&format!("{one}\n{two}"))
            .unwrap()
            .iter()
            .flat_map(|j| &j.relevant)
            .map(Reference::gain)
            .collect();
        assert_eq!(gains, [2.0, 1.0]);
    }

    #[test]
    fn unknown_fields_are_ignored_and_written_judgments_read_back() {
        let text = r#"{"id":"1","query":"?","answers":["x"],"group":"g","more":1,"relevant":[{"doc":"a","start":0,"end":1}]}"#;
        let read = parse(text).unwrap();
        let written = serde_json::to_string(&read[0]).unwrap();
        assert_eq!(parse(&written).unwrap(), read);
        assert_eq!(written, text.replace(r#""more":1,"#, ""));
    }

    #[test]
    fn an_error_names_its_line() {
        let good = line("1", r#"{"doc":"a","start":0,"end":1}"#);
        check_parse(&format!("{good}\n\n{{"), "line 3: not a judgment");
        check_parse(&format!("{good}\n{good}"), "line 2: id `1` is that of line 1 too");
        check_parse(
            &line("1", r#"{"doc":"a","start":2,"end":2}"#),
            "line 1: reference `a` `2..2` of `1` holds no byte",
        );
        check_parse(
            &line("1", r#"{"doc":"a","start":3,"end":2}"#),
            "line 1: reference `a` `3..2` of `1` holds no byte",
        );
        check_parse(&line("1", r#"{"doc":"a","start":-1,"end":2}"#), "line 1: not a judgment");
        check_parse(&line("1", r#"{"doc":"a","end":2}"#), "line 1: not a judgment");
        check_parse(
            &line("1", r#"{"doc":"a","start":0,"end":2,"grade":0}"#),
            "line 1: grade `0` of `1` is not above 0",
        );
    }

    #[test]
    fn a_reference_must_lie_in_its_text_on_character_boundaries() {
        check_fault(r#"{"doc":"a","start":0,"end":4}"#, &[]);
        check_fault(r#"{"doc":"a","start":0,"end":5}"#, &["`0..5` leaves `a` of 4 bytes"]);
        check_fault(r#"{"doc":"a","start":0,"end":2}"#, &["`0..2` cuts a character of `a`"]);
        check_fault(r#"{"doc":"a","start":2,"end":3}"#, &["`2..3` cuts a character of `a`"]);
        check_fault(r#"{"doc":"b","start":0,"end":1}"#, &["no document `b`"]);
        check_fault("", &["names no evidence"]);
    }

    #[test]
    fn what_cannot_be_judged_is_counted_not_scored() {
        let text = [("1", "a"), ("2", "b"), ("3", "a"), ("4", "a")]
            .map(|(id, doc)| line(id, &format!(r#"{{"doc":"{doc}","start":0,"end":1}}"#)))
            .join("\n");
        let judgments = parse(&text).unwrap();
        let checked = check(&judgments, |doc| (doc == "a").then_some("a"));
        let ids: Vec<&str> = checked.judged.iter().map(|j| j.id.as_str()).collect();
        assert_eq!(ids, ["1", "3", "4"]);
        assert_eq!(checked.unjudged_share().to_string(), "1 of 4 = 25.0 %");
    }

    #[test]
    fn one_misplaced_reference_leaves_its_judgment_unjudged() {
        let both = r#"{"doc":"a","start":0,"end":1},{"doc":"b","start":0,"end":1}"#;
        let judgments = parse(&line("1", both)).unwrap();
        assert_eq!(check(&judgments, |doc| (doc == "a").then_some("a")).judged.len(), 0);
    }
}
