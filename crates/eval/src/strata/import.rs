//! A printed table of percentages → the counts behind it, or the cell that cannot be right.
//!
//! Invariant: integers only; a cell stands for every count that rounds to it, half up or half down.

use crate::share::Share;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The most decimals that a percentage may have.
const MOST_DECIMALS: usize = 6;

/// A percentage as it is printed, 0 to 100, with its number of decimals: `73.4` and `73.40` are two different claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Percent {
    /// In units of the last decimal.
    units: u64,
    decimals: u32,
}

/// A text that is no percentage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no percentage from 0 to 100 with at most {MOST_DECIMALS} decimals, such as `73.4`"
)]
pub struct PercentError(pub String);

/// An imported table: two strata, and their shares under some systems.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Queries on which the rule fired.
    pub fired: u32,
    /// Queries on which it did not.
    pub unfired: u32,
    /// The systems.
    pub systems: Vec<System>,
}

/// What a table says of one system. An absent cell says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct System {
    /// Its name.
    pub name: String,
    /// Right where the rule fired.
    pub fired: Option<Percent>,
    /// Right where it did not.
    pub unfired: Option<Percent>,
    /// Right in all.
    pub pooled: Option<Percent>,
}

/// The counts that a cell can stand for: `low..=high` of `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Counts {
    /// The smallest.
    pub low: u64,
    /// The largest, not below the smallest and not above the whole.
    pub high: u64,
    /// The whole.
    pub of: u64,
}

/// The counts behind one system's cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// Its name.
    pub system: String,
    /// Right where the rule fired.
    pub fired: Counts,
    /// Right where it did not.
    pub unfired: Counts,
    /// Right in all, as the strata give it and the pooled cell allows.
    pub pooled: Counts,
}

/// Why a table cannot be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClosureError {
    /// The strata do not give the pooled cell: it describes other queries, or one of the three cells is wrong.
    #[error("`{system}` does not close: strata give {strata}, the pooled cell says {pooled}")]
    Open {
        /// The system.
        system: String,
        /// What the strata give.
        strata: Counts,
        /// What the cell says.
        pooled: Percent,
    },
    /// No count of so many queries rounds to the cell.
    #[error("`{system}`: no count of {of} gives the {cell} cell {percent}")]
    NoCount {
        /// The system.
        system: String,
        /// Which cell: `fired`, `unfired` or `pooled`.
        cell: &'static str,
        /// What it says.
        percent: Percent,
        /// How many queries there are.
        of: u64,
    },
}

impl ClosureError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            ClosureError::Open { .. } => "trust the counts of the strata, not the pooled cell",
            ClosureError::NoCount { .. } => "check the cell and the number of queries",
        }
    }
}

/// The counts behind a table, one entry a system, if strata and pooled cells agree to the query.
///
/// # Errors
/// The first system that does not close, or whose cells are the share of no count.
pub fn close(table: &Table) -> Result<Vec<Rebuilt>, ClosureError> {
    table.systems.iter().map(|system| rebuild(system, table.fired, table.unfired)).collect()
}

fn rebuild(system: &System, n_fired: u32, n_unfired: u32) -> Result<Rebuilt, ClosureError> {
    let (n_fired, n_unfired) = (u64::from(n_fired), u64::from(n_unfired));
    let counts = |cell, percent: Option<Percent>, of| {
        let Some(percent) = percent else { return Ok(Counts { low: 0, high: of, of }) };
        percent.counts(of).ok_or_else(|| {
            let system = system.name.clone();
            ClosureError::NoCount { system, cell, percent, of }
        })
    };
    let fired = counts("fired", system.fired, n_fired)?;
    let unfired = counts("unfired", system.unfired, n_unfired)?;
    let of = n_fired + n_unfired;
    let strata = Counts { low: fired.low + unfired.low, high: fired.high + unfired.high, of };
    let cell = counts("pooled", system.pooled, of);
    let pooled = match (cell, system.pooled) {
        (Ok(cell), _) if cell.low <= strata.high && strata.low <= cell.high => {
            Counts { low: strata.low.max(cell.low), high: strata.high.min(cell.high), of }
        }
        (_, Some(pooled)) => {
            return Err(ClosureError::Open { system: system.name.clone(), strata, pooled });
        }
        (cell, None) => cell?,
    };
    Ok(Rebuilt { system: system.name.clone(), fired, unfired, pooled })
}

impl Percent {
    /// The counts of `of` whose percentage rounds to this one; `None` if there are none.
    pub fn counts(self, of: u64) -> Option<Counts> {
        // |100 c / n − units / 10^d| ≤ ½ / 10^d, times 2 n 10^d.
        let scale = 200 * 10u128.pow(self.decimals);
        let (units, n) = (u128::from(self.units), u128::from(of));
        let low = ((2 * units).saturating_sub(1) * n).div_ceil(scale);
        let high = ((2 * units + 1) * n / scale).min(n);
        (n > 0 && low <= high).then_some(Counts { low: low as u64, high: high as u64, of })
    }
}

impl Counts {
    /// The one count that it is, if it is one.
    pub fn exact(self) -> Option<Share> {
        Share::new(self.low, self.of).ok().filter(|_| self.low == self.high)
    }
}

impl fmt::Display for Counts {
    /// `296 of 400 = 74.0`, or `2960 to 2969 of 4000 = 74.0 to 74.2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |count| Share::new(count, self.of).ok().and_then(Share::percent);
        let (low, high) = (percent(self.low), percent(self.high));
        let none = || "no share".to_owned();
        let (low, high) = (low.unwrap_or_else(none), high.unwrap_or_else(none));
        if self.low == self.high {
            write!(f, "{} of {} = {low}", self.low, self.of)
        } else {
            write!(f, "{} to {} of {} = {low} to {high}", self.low, self.high, self.of)
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, width) = (10u64.pow(self.decimals), self.decimals as usize);
        write!(f, "{}", self.units / scale)?;
        if width > 0 { write!(f, ".{:0width$}", self.units % scale) } else { Ok(()) }
    }
}

impl FromStr for Percent {
    type Err = PercentError;

    /// From `73.4`, `73.4%` or `73.4 %`.
    fn from_str(text: &str) -> Result<Percent, PercentError> {
        let wrong = || PercentError(text.to_owned());
        let number = text.trim().trim_end_matches('%').trim_end();
        let (whole, rest) = number.split_once('.').unwrap_or((number, ""));
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        let is_short = (1..=3).contains(&whole.len()) && rest.len() <= MOST_DECIMALS;
        if !is_short || !is_number(whole) || !is_number(rest) || number.ends_with('.') {
            return Err(wrong());
        }
        let units = format!("{whole}{rest}").parse().map_err(|_| wrong())?;
        let decimals = rest.len() as u32;
        if units > 100 * 10u64.pow(decimals) {
            return Err(wrong());
        }
        Ok(Percent { units, decimals })
    }
}

impl TryFrom<String> for Percent {
    type Error = PercentError;
    fn try_from(text: String) -> Result<Percent, PercentError> {
        text.parse()
    }
}

impl From<Percent> for String {
    fn from(percent: Percent) -> String {
        percent.to_string()
    }
}

#[cfg(test)]
mod tests;
