//! Measures ↔ their names.

use super::{Covered, Measure, Wanted};
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

/// A text that names no measure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no measure")]
pub struct MeasureError(pub String);

impl MeasureError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        "one of nDCG@k, R@k, MRR, EvidenceRecall, Precision, IoU, PrecisionOmega, Success(all>=0.95), ClusterEvidenceRecall, ClusterSuccess(all>=0.95), Outcome, UniqueClusters@k, ClusterRecall@k, Tokens, DuplicateShare, Coherence; k from 1, Success of `all`, `any` or `union`, `>=` a share or `>0`"
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::Ndcg(k) => write!(f, "nDCG@{k}"),
            Measure::Recall(k) => write!(f, "R@{k}"),
            Measure::ReciprocalRank => f.write_str("MRR"),
            Measure::EvidenceRecall => f.write_str("EvidenceRecall"),
            Measure::Precision => f.write_str("Precision"),
            Measure::Iou => f.write_str("IoU"),
            Measure::PrecisionOmega => f.write_str("PrecisionOmega"),
            Measure::Success(wanted, covered) => write!(f, "Success({wanted}{covered})"),
            Measure::ClusterEvidenceRecall => f.write_str("ClusterEvidenceRecall"),
            Measure::ClusterSuccess(wanted, covered) => {
                write!(f, "ClusterSuccess({wanted}{covered})")
            }
            Measure::Outcome => f.write_str("Outcome"),
            Measure::UniqueClusters(k) => write!(f, "UniqueClusters@{k}"),
            Measure::ClusterRecall(k) => write!(f, "ClusterRecall@{k}"),
            Measure::Tokens => f.write_str("Tokens"),
            Measure::DuplicateShare => f.write_str("DuplicateShare"),
            Measure::Coherence => f.write_str("Coherence"),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wanted::All => "all",
            Wanted::Any => "any",
            Wanted::Union => "union",
        })
    }
}

impl fmt::Display for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Covered::From(share) => write!(f, ">={share}"),
            Covered::Touched => f.write_str(">0"),
        }
    }
}

impl FromStr for Measure {
    type Err = MeasureError;

    /// Parses what it prints as; blanks around it do not matter.
    fn from_str(text: &str) -> Result<Measure, MeasureError> {
        let text = text.trim();
        at_k(text)
            .or_else(|| success(text))
            .or_else(|| plain(text))
            .ok_or_else(|| MeasureError(text.to_owned()))
    }
}

fn plain(text: &str) -> Option<Measure> {
    let all = [
        Measure::ReciprocalRank,
        Measure::EvidenceRecall,
        Measure::Precision,
        Measure::Iou,
        Measure::PrecisionOmega,
        Measure::ClusterEvidenceRecall,
        Measure::Outcome,
        Measure::Tokens,
        Measure::DuplicateShare,
        Measure::Coherence,
    ];
    all.into_iter().find(|measure| measure.to_string() == text)
}

fn at_k(text: &str) -> Option<Measure> {
    let (name, k) = text.split_once('@')?;
    let k: NonZeroUsize = k.parse().ok()?;
    match name {
        "nDCG" => Some(Measure::Ndcg(k)),
        "R" => Some(Measure::Recall(k)),
        "UniqueClusters" => Some(Measure::UniqueClusters(k)),
        "ClusterRecall" => Some(Measure::ClusterRecall(k)),
        _ => None,
    }
}

fn success(text: &str) -> Option<Measure> {
    let (copies, text) = text.strip_prefix("Cluster").map_or((false, text), |text| (true, text));
    let inside = text.strip_prefix("Success(")?.strip_suffix(')')?;
    let (wanted, covered) = inside.split_once('>')?;
    let wanted = match wanted {
        "all" => Wanted::All,
        "any" => Wanted::Any,
        "union" => Wanted::Union,
        _ => return None,
    };
    let covered = match covered.strip_prefix('=') {
        None => (covered == "0").then_some(Covered::Touched)?,
        Some(share) => {
            let share: f64 = share.parse().ok()?;
            (share > 0.0 && share <= 1.0).then_some(Covered::From(share))?
        }
    };
    let success = Measure::Success(wanted, covered);
    if copies { success.crediting_copies() } else { Some(success) }
}
