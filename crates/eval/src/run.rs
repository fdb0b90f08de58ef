//! What a system did with judged queries ↔ lines of JSON: first whose run it is, then one line a query.
//!
//! Invariant: the same run is the same bytes, and holds no time; what was half written goes on where it stopped. A run holds all
//! that is measured; texts and trees stay in the catalog, and a replay takes them from there, at the data that the run names.

mod entry;
mod file;
mod import;
mod outcome;

use serde::{Deserialize, Serialize};

pub use entry::{Candidate, Delivery, Entry, Fire, JudgedLeaf, Near, Spot};
pub use file::{Begun, ResumeError, RunError, begun, parse};
pub use import::{ImportedRun, TrecRunError, trec_run};
pub use outcome::{Given, OutcomeError};

/// The version of the file: it rises when a field changes its meaning.
pub const RUN_VERSION: u32 = 1;

/// What a run was made of, and what it can answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// [`RUN_VERSION`] of the writer.
    pub run: u32,
    /// The version of the program.
    pub code: String,
    /// Hash of all documents of the store, and of how they were cut.
    pub data: String,
    /// Hash of data, model, and what words are stemmed by.
    pub index: String,
    /// The model of the vectors; `None` where words alone were searched.
    pub model: Option<String>,
    /// Hash of the judgments as they were read.
    pub queries: String,
    /// Judgments that were asked.
    pub judged: usize,
    /// Judgments that could not be placed in the texts, and were left out.
    pub unjudged: usize,
    /// The cluster run in effect; `None` where no duplicate was marked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<Clusters>,
    /// Hash of the settings.
    pub config: String,
    /// The settings, as a configuration file.
    pub settings: String,
    /// Leaves that each leg was read to.
    pub candidates: usize,
    /// Distinct clusters at the most that the ranked list holds.
    pub depth: usize,
    /// Whether the pure core alone made the contexts, so that they can be made again from the candidates.
    pub replays: bool,
    /// What its lists rank.
    #[serde(default, skip_serializing_if = "Unit::is_leaf")]
    pub unit: Unit,
}

/// What a ranked list is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Leaves, from which passages were delivered.
    #[default]
    Leaf,
    /// Documents: the list of another tool, from which nothing was delivered.
    Document,
}

impl Unit {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    fn is_leaf(&self) -> bool {
        *self == Unit::Leaf
    }
}

/// The cluster run that marked the duplicates of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clusters {
    /// Its id, as `r1`.
    pub run: String,
    /// How duplicates were recognised, with the thresholds, in words.
    pub method: String,
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What it was made of.
    pub identity: Identity,
    /// What came of each query, in the order of the judgments.
    pub entries: Vec<Entry>,
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
