//! `[log]`: what is kept of searches.
//!
//! Invariant: where hashes are asked for, no question can be read from the log.

use super::{ConfigError, range};
use serde::{Deserialize, Serialize};

/// `[log]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// Whether searches are kept in the store, with their traces.
    pub enabled: bool,
    /// Whether the questions are kept as they were asked.
    pub queries: QueryText,
    /// Whether the leaves that a search chose from are kept with their scores, for replays under other settings: about 7 KB a
    /// search at the defaults.
    pub candidates: bool,
    /// How many days are kept, today among them.
    pub keep_days: u32,
}

/// How questions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueryText {
    /// As they were asked.
    Text,
    /// As a hash: the same question can be counted, and not read.
    Hash,
}

impl Default for LogSettings {
    fn default() -> LogSettings {
        LogSettings { enabled: true, queries: QueryText::Text, candidates: false, keep_days: 90 }
    }
}

impl LogSettings {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        range(
            (1..=36_500).contains(&self.keep_days),
            "log.keep_days",
            self.keep_days.to_string(),
            "1 to 36500",
        )
    }
}
