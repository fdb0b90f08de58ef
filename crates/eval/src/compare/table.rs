//! A printed table of shares → the counts behind it, whether it closes, and what its strata can say.

use super::{Note, Verdict, note};
use crate::interval::{Direction, Interval, Level, Pairs, newcombe, required_n, wald_difference};
use crate::share::Share;
use crate::strata::{ClosureError, Counts, Rebuilt, Strata, Table, close, overall_difference};
use serde::Serialize;

/// What a table's numbers come to.
#[derive(Debug, Clone, PartialEq)]
pub struct TableReport {
    /// Each system: the counts behind its cells, or why they cannot be right.
    pub systems: Vec<SystemReport>,
    /// Each system against the first, where the counts of both are known.
    pub differences: Vec<TableDifference>,
}

/// A system of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct SystemReport {
    /// Its name.
    pub name: String,
    /// The counts behind its cells.
    pub rebuilt: Result<Rebuilt, ClosureError>,
    /// What the strata give, where its cells are counts at all: with a wrong pooled cell, what should stand there.
    pub strata: Option<(Share, Share)>,
}

/// A system of a table against the first one. Which query went where is not in a table, so the shares count as independent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TableDifference {
    /// The first system.
    pub a: String,
    /// The other one.
    pub b: String,
    /// The first one's fired queries.
    pub fired_a: Share,
    /// The other one's fired queries.
    pub fired_b: Share,
    /// The difference on fired queries, by two formulas.
    pub fired: Vec<Interval>,
    /// What it comes to.
    pub verdict: Verdict,
    /// The pooled difference as the strata's counts give it.
    pub overall: f64,
    /// The same by fire rate × difference on fired; `None` where the systems differ on unfired queries.
    pub by_fire_rate: Option<f64>,
    /// What a reader should know.
    pub notes: Vec<Note>,
}

/// Closes a table system by system, and compares each with the first by the counts of its strata.
pub fn table(table: &Table, confidence: Level, power: Level) -> TableReport {
    let systems: Vec<SystemReport> = table
        .systems
        .iter()
        .map(|system| {
            let alone = |pooled| Table {
                systems: vec![crate::strata::System { pooled, ..system.clone() }],
                ..table.clone()
            };
            let rebuilt = |table: &Table| close(table).map(|mut rebuilt| rebuilt.remove(0));
            let strata = rebuilt(&alone(None)).ok();
            SystemReport {
                name: system.name.clone(),
                rebuilt: rebuilt(&alone(system.pooled)),
                strata: strata.and_then(|r| r.fired.exact().zip(r.unfired.exact())),
            }
        })
        .collect();
    let differences = match systems.split_first() {
        Some((first, rest)) => {
            rest.iter().filter_map(|other| between(first, other, confidence, power)).collect()
        }
        None => Vec::new(),
    };
    TableReport { systems, differences }
}

fn between(
    a: &SystemReport,
    b: &SystemReport,
    confidence: Level,
    power: Level,
) -> Option<TableDifference> {
    let ((fired_a, unfired_a), (fired_b, unfired_b)) = a.strata.zip(b.strata)?;
    let newcombe = newcombe(fired_a, fired_b, confidence)?;
    let wald = wald_difference(fired_a, fired_b, confidence)?;
    let (p_a, p_b) = (fired_a.proportion()?, fired_b.proportion()?);
    // How many would differ if what one gets right said nothing of the other.
    let discordance = p_a * (1.0 - p_b) + p_b * (1.0 - p_a);
    let verdict = match newcombe.direction() {
        Direction::Higher => Verdict::Better,
        Direction::Lower => Verdict::Worse,
        Direction::NotResolved => {
            Verdict::NotResolved { needed: required_n(p_b - p_a, discordance, confidence, power) }
        }
    };
    let overall = (fired_b + unfired_b).proportion()? - (fired_a + unfired_a).proportion()?;
    let fire_rate = fired_a.of() as f64 / (fired_a + unfired_a).of() as f64;
    let same = unfired_a == unfired_b;
    Some(TableDifference {
        a: a.name.clone(),
        b: b.name.clone(),
        fired_a,
        fired_b,
        fired: vec![newcombe, wald],
        verdict,
        overall,
        by_fire_rate: same.then(|| overall_difference(fire_rate, p_b - p_a)),
        // Which query went where is not known, so nothing is known of pairs.
        notes: note::of_counts(
            &Strata { fired: margins(fired_a, fired_b), unfired: margins(unfired_a, unfired_b) },
            confidence,
            false,
        ),
    })
}

/// Pairs with these margins that differ as little as they can.
fn margins(a: Share, b: Share) -> Pairs {
    let both = a.count().min(b.count());
    Pairs {
        both,
        only_a: a.count() - both,
        only_b: b.count() - both,
        neither: a.of() - a.count().max(b.count()),
    }
}

impl TableReport {
    /// Whether each system's strata and pooled cell agree to the query.
    pub fn closes(&self) -> bool {
        self.systems.iter().all(|system| system.rebuilt.is_ok())
    }
}

impl SystemReport {
    /// What its pooled cell should say.
    pub fn pooled(&self) -> Option<Counts> {
        let (fired, unfired) = self.strata?;
        let whole = fired + unfired;
        Some(Counts { low: whole.count(), high: whole.count(), of: whole.of() })
    }
}
