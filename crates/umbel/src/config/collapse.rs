//! `[collapse]`: which copy of what is said several times is delivered.
//!
//! Invariant: a connector that the table does not name has rank 0.

use super::{ConfigError, range};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use umbel_core::collapse::{Policy, Standing};

/// `[collapse]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CollapseSettings {
    /// Which member speaks for a cluster of duplicates: the one with the best `score`, the `fresh` one, which was changed last,
    /// or the one of most `authority`: of the connector of the highest rank, then the fresh one.
    pub policy: PolicyKind,
    /// What `search.k_prime` is multiplied by for the second search, where the first gave too few distinct clusters; 0 for no
    /// second search.
    pub retry_factor: usize,
    /// `policy = "authority"`: connectors and their ranks, higher ones speak; 0 for those that are not named. While it is empty,
    /// the policy is that of `fresh`.
    pub authority: BTreeMap<String, i64>,
}

/// Which member speaks for a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyKind {
    /// The one with the best score.
    Score,
    /// The one that was changed last.
    Fresh,
    /// The one of the connector of the highest rank.
    Authority,
}

impl Default for CollapseSettings {
    fn default() -> CollapseSettings {
        CollapseSettings {
            policy: PolicyKind::Authority,
            retry_factor: 4,
            authority: BTreeMap::new(),
        }
    }
}

impl CollapseSettings {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        range(
            self.retry_factor == 0 || (2..=100).contains(&self.retry_factor),
            "collapse.retry_factor",
            self.retry_factor.to_string(),
            "0, or 2 to 100",
        )
    }

    /// The policy.
    pub fn policy(&self) -> Policy {
        match self.policy {
            PolicyKind::Score => Policy::Score,
            PolicyKind::Fresh => Policy::Fresh,
            PolicyKind::Authority => Policy::Authority,
        }
    }

    /// Where a document stands among copies, by its connector and by when it was last changed, in seconds since 1970.
    pub fn standing(&self, connector: Option<&str>, updated_at: Option<i64>) -> Standing {
        Standing { authority: self.authority_of(connector), updated_at }
    }

    /// The rank of a connector.
    pub fn authority_of(&self, connector: Option<&str>) -> i64 {
        connector.and_then(|connector| self.authority.get(connector)).copied().unwrap_or_default()
    }
}
