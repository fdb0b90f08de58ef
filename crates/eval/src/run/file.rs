//! The lines of a run's file → the run, or how much of it there is.

use super::{Entry, Identity, RUN_VERSION, Run};
use std::collections::HashMap;

/// Why a run could not be read. Lines count from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The file has no line.
    #[error("the run is empty")]
    Empty,
    /// The first line does not say whose run it is.
    #[error("line 1: not the head of a run")]
    Head {
        /// What the parser says.
        source: serde_json::Error,
    },
    /// Another version wrote it.
    #[error("the run is of version `{got}`, read is `{RUN_VERSION}`")]
    Version {
        /// The version that it names.
        got: u32,
    },
    /// A line is no query of a run.
    #[error("line {line}: not a query of a run")]
    Line {
        /// Where.
        line: usize,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// A line names a place that it does not hold.
    #[error("line {line}: query `{id}` points at a document or candidate that it does not name")]
    Dangling {
        /// Where.
        line: usize,
        /// The query.
        id: String,
    },
    /// A query stands there twice.
    #[error("line {line}: query `{id}` is that of line {first} too")]
    Duplicate {
        /// Where.
        line: usize,
        /// The query.
        id: String,
        /// The line that has it already.
        first: usize,
    },
    /// It was not written to its end.
    #[error("the run holds {got} of {wanted} queries")]
    Unfinished {
        /// Queries that it holds.
        got: usize,
        /// Queries that it is to hold.
        wanted: usize,
    },
}

impl RunError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            RunError::Unfinished { .. } => {
                "type the same `umbel eval run` again: it goes on where it stopped"
            }
            _ => "make it again with `umbel eval run`",
        }
    }
}

/// Why a run cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// What is there is no beginning of a run.
    #[error("it is there, and no run")]
    NoRun,
    /// It is the beginning of another run.
    #[error("it is a run of another {what}: `{was}`, now `{is}`")]
    Other {
        /// In what they differ.
        what: &'static str,
        /// What it was made with.
        was: String,
        /// What it would go on with.
        is: String,
    },
}

/// How much of a run is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    /// Bytes of whole lines, the head's among them; 0 where there is nothing.
    pub bytes: usize,
    /// Queries that are written.
    pub entries: usize,
}

/// How much of the run of this identity a file holds. What a crash cut short is not counted.
///
/// # Errors
/// [`ResumeError`] where the file holds something else.
pub fn begun(text: &str, identity: &Identity) -> Result<Begun, ResumeError> {
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    let mut lines = text.get(..whole).unwrap_or_default().lines();
    let Some(head) = lines.next() else {
        return if text.is_empty() || is_cut_head(text, identity) {
            Ok(Begun { bytes: 0, entries: 0 })
        } else {
            Err(ResumeError::NoRun)
        };
    };
    let found: Identity = serde_json::from_str(head).map_err(|_| ResumeError::NoRun)?;
    same(&found, identity)?;
    Ok(Begun { bytes: whole, entries: lines.count() })
}

/// Whether a text is the beginning of the head, cut short.
fn is_cut_head(text: &str, identity: &Identity) -> bool {
    serde_json::to_string(identity).is_ok_and(|head| head.starts_with(text))
}

fn same(found: &Identity, wanted: &Identity) -> Result<(), ResumeError> {
    let fields = |identity: &Identity| {
        [
            ("version", identity.run.to_string()),
            ("program", identity.code.clone()),
            ("data", identity.data.clone()),
            ("index", identity.index.clone()),
            ("queries", identity.queries.clone()),
            ("configuration", identity.config.clone()),
            ("number of candidates", identity.candidates.to_string()),
        ]
    };
    for ((what, was), (_, is)) in fields(found).into_iter().zip(fields(wanted)) {
        if was != is {
            return Err(ResumeError::Other { what, was, is });
        }
    }
    Ok(())
}

/// A whole run from its lines; blank ones are skipped.
///
/// # Errors
/// The first line that cannot be used, by its number, or that there are too few.
pub fn parse(text: &str) -> Result<Run, RunError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, head) = lines.next().ok_or(RunError::Empty)?;
    let identity: Identity =
        serde_json::from_str(head).map_err(|source| RunError::Head { source })?;
    if identity.run != RUN_VERSION {
        return Err(RunError::Version { got: identity.run });
    }
    let mut entries = Vec::new();
    let mut seen = HashMap::new();
    for (index, content) in lines {
        let line = index + 1;
        let entry: Entry =
            serde_json::from_str(content).map_err(|source| RunError::Line { line, source })?;
        if let Some(first) = seen.insert(entry.id.clone(), line) {
            return Err(RunError::Duplicate { line, id: entry.id, first });
        }
        if !entry.is_sound() {
            return Err(RunError::Dangling { line, id: entry.id });
        }
        entries.push(entry);
    }
    if entries.len() < identity.judged {
        return Err(RunError::Unfinished { got: entries.len(), wanted: identity.judged });
    }
    Ok(Run { identity, entries })
}
