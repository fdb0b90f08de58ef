//! Judgments and runs → metrics, strata and intervals.
//!
//! Modules are declared in the order in which data flows; each uses only those above it.

pub mod share;
pub mod judgment;
pub mod metric;
pub mod ranking;
pub mod parent;
pub mod overfetch;
pub mod agreement;
pub mod interval;
pub mod kappa;
pub mod calibration;
pub mod strata;
pub mod run;
pub mod replay;
pub mod measure;
pub mod compare;
pub mod answer;
pub mod collapse;
pub mod sweep;
pub mod chunking;
pub mod locate;
pub mod relevance;
pub mod misses;
pub mod traffic;
pub mod report;
