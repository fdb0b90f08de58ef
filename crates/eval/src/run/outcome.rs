//! Outcomes that were judged elsewhere → the run that holds them.

use super::Run;
use crate::share::Share;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why outcomes could not be read. Lines count from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutcomeError {
    /// The file has no line.
    #[error("no outcome in it")]
    Empty,
    /// A line is not JSON, or a field is missing or of another type.
    #[error("line {line}: not an outcome")]
    Json {
        /// Where.
        line: usize,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// A query was judged twice.
    #[error("line {line}: query `{id}` has an outcome already")]
    Duplicate {
        /// Where.
        line: usize,
        /// The query.
        id: String,
    },
    /// None of the queries is in the run.
    #[error("the run holds none of these queries")]
    Strange,
}

impl OutcomeError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            OutcomeError::Empty | OutcomeError::Json { .. } => {
                r#"one object a line: {"id", "correct": true}; `null` where nobody can tell"#
            }
            OutcomeError::Duplicate { .. } => "keep one outcome of the two",
            OutcomeError::Strange => "give outcomes of the queries that the run was made from",
        }
    }
}

/// What came of giving a run outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Given {
    /// Of the queries with an outcome, those answered well.
    pub right: Share,
    /// Queries of the run without one.
    pub without: usize,
    /// Outcomes of queries that the run does not hold.
    pub unknown: usize,
}

#[derive(Deserialize)]
struct Line {
    id: String,
    // Said to be open is not left out.
    #[serde(deserialize_with = "Option::deserialize")]
    correct: Option<bool>,
}

impl Run {
    /// Replaces all outcomes by those of lines of `{"id", "correct"}`; a query that they do not name, or of which `correct` is null,
    /// has none.
    ///
    /// # Errors
    /// The first line that cannot be used, by its number; the run is as it was.
    pub fn give_outcomes(&mut self, text: &str) -> Result<Given, OutcomeError> {
        let mut outcomes = BTreeMap::new();
        for (index, content) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let line = index + 1;
            if content.trim().is_empty() {
                continue;
            }
            let Line { id, correct } = serde_json::from_str(content)
                .map_err(|source| OutcomeError::Json { line, source })?;
            if outcomes.insert(id.clone(), correct).is_some() {
                return Err(OutcomeError::Duplicate { line, id });
            }
        }
        if outcomes.is_empty() {
            return Err(OutcomeError::Empty);
        }
        let known = self.entries.iter().filter(|entry| outcomes.contains_key(&entry.id)).count();
        if known == 0 {
            return Err(OutcomeError::Strange);
        }
        let given: Vec<Option<bool>> =
            self.entries.iter().map(|entry| outcomes.get(&entry.id).copied().flatten()).collect();
        let right = Share::count_of(given.iter().flatten(), |correct| *correct);
        for (entry, outcome) in self.entries.iter_mut().zip(&given) {
            entry.outcome = *outcome;
        }
        Ok(Given {
            right,
            without: given.iter().filter(|outcome| outcome.is_none()).count(),
            unknown: outcomes.len() - known,
        })
    }
}
