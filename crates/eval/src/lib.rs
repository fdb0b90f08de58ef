//! Judgments and runs → metrics, strata and intervals.
