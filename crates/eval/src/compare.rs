//! Two or more runs of the same queries → where they differ, how sure that is, and the verdict in words.
//!
//! Invariant: strata are disjoint and together are all compared queries; a verdict names no winner that the corrected test does
//! not; what is the same by construction is said to be that, not tested.

mod difference;
mod note;
mod table;
mod verdict;

use crate::interval::{Bootstrap, Level, Pairs, holm, mcnemar};
use crate::measure::{Measure, Unsupported};
use crate::run::{Entry, Run, Unit};
use crate::share::Share;
use crate::strata::{Effect, Outcome, Strata};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

pub use difference::{Difference, Figure, Test, figure};
pub use note::Note;
pub use table::{SystemReport, TableDifference, TableReport, table};
pub use verdict::Verdict;

/// How runs are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What is measured.
    pub measures: Vec<Measure>,
    /// What queries are split by.
    pub by: By,
    /// How means are resampled; its level is that of all tests and intervals.
    pub bootstrap: Bootstrap,
    /// With which probability a real difference is to be seen.
    pub power: Level,
}

/// What queries are split by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Whether the rule of either run fired.
    Fired,
    /// The group that their judgments name.
    Group,
    /// Not at all.
    Nothing,
}

/// What came of one measure of two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The plain run, A.
    pub a: String,
    /// The other run, B.
    pub b: String,
    /// What was measured.
    pub measure: String,
    /// The parts of the queries; those that were corrected for how many are compared come with `p_corrected`.
    pub strata: Vec<Stratum>,
    /// All queries.
    pub pooled: Stratum,
    /// Where the difference comes from, for a measure of yes and no whose unfired queries agree.
    pub effect: Option<Effect>,
    /// Whether the strata rebuild the pooled counts to the query; `None` where there are no counts.
    pub closes: Option<bool>,
    /// What a reader should know before believing it.
    pub notes: Vec<Note>,
}

/// A part of the queries under both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stratum {
    /// `fired`, `unfired`, the name of a group, `all` where nothing is split, or `pooled`.
    pub name: String,
    /// Queries with a figure under both runs.
    pub n: usize,
    /// Queries without one under either.
    pub without_figure: usize,
    /// Queries with the same passages under both.
    pub identical: usize,
    /// A's figure.
    pub a: Figure,
    /// B's figure.
    pub b: Figure,
    /// B − A.
    pub difference: Option<Difference>,
    /// What it comes to.
    pub verdict: Verdict,
}

/// Why runs cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// They were asked other questions.
    #[error("`{a}` and `{b}` are runs of different judgments: `{of_a}` and `{of_b}`")]
    Queries {
        /// The first run.
        a: String,
        /// The second run.
        b: String,
        /// Hash of the first one's judgments.
        of_a: String,
        /// Hash of the second one's judgments.
        of_b: String,
    },
    /// One ranks documents and the other leaves.
    #[error(
        "`{documents}` ranks documents and `{leaves}` leaves: their figures are of different things"
    )]
    Unit {
        /// The run of documents.
        documents: String,
        /// The other one.
        leaves: String,
    },
    /// One of them lacks a query, which could not be judged there.
    #[error("`{run}` lacks query `{id}`, and {n} in all")]
    Lacks {
        /// The run.
        run: String,
        /// The first query that it lacks.
        id: String,
        /// How many it lacks.
        n: usize,
    },
    /// A measure cannot be answered.
    #[error("`{run}`: {source}")]
    Unsupported {
        /// The run.
        run: String,
        /// Why not.
        source: Unsupported,
    },
    /// No query of either run has a figure.
    #[error("no query has a figure by `{measure}` under `{a}` and `{b}`")]
    NoFigure {
        /// The measure.
        measure: String,
        /// The first run.
        a: String,
        /// The second run.
        b: String,
    },
}

impl CompareError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            CompareError::Queries { .. } => {
                "make both with `umbel eval run` from the same file of judgments".to_owned()
            }
            CompareError::Unit { .. } => {
                "compare runs of one kind: two that `umbel eval import trec-run` made, or two of `umbel eval run`".to_owned()
            }
            CompareError::Lacks { .. } => {
                "judge the same documents for both, or take the queries that one store cannot judge out of the file".to_owned()
            }
            CompareError::Unsupported { source, .. } => source.hint(),
            CompareError::NoFigure { .. } => {
                "measure something that these runs know, as `--metric EvidenceRecall`".to_owned()
            }
        }
    }
}

/// A run and what it is called.
pub type Named<'r> = (&'r str, &'r Run);

/// Compares each run with the first one, by each measure. The p-values of what is decided upon — the fired queries, or each group —
/// are corrected together, over all runs and measures.
///
/// # Errors
/// Runs of different queries, or a measure that one of them cannot answer.
pub fn compare(
    base: Named<'_>,
    others: &[Named<'_>],
    options: &Options,
) -> Result<Vec<Comparison>, CompareError> {
    let mut comparisons = Vec::new();
    for &other in others {
        let pairs = paired(base, other)?;
        for &measure in &options.measures {
            for (name, run) in [base, other] {
                measure
                    .supported_by(&run.identity)
                    .map_err(|source| CompareError::Unsupported { run: name.to_owned(), source })?;
            }
            let comparison = one(base, other, &pairs, measure, options);
            if comparison.pooled.n == 0 {
                let (measure, a, b) = (measure.to_string(), base.0.to_owned(), other.0.to_owned());
                return Err(CompareError::NoFigure { measure, a, b });
            }
            comparisons.push((comparison, measure));
        }
    }
    correct(&mut comparisons, options);
    Ok(comparisons.into_iter().map(|(comparison, _)| comparison).collect())
}

/// The entries of both runs, query by query.
///
/// # Errors
/// Runs of different judgments, or a query that one of them lacks.
pub fn paired<'r>(
    (a, run_a): Named<'r>,
    (b, run_b): Named<'r>,
) -> Result<Vec<(&'r Entry, &'r Entry)>, CompareError> {
    let (of_a, of_b) = (&run_a.identity.queries, &run_b.identity.queries);
    if of_a != of_b {
        let (a, b) = (a.to_owned(), b.to_owned());
        return Err(CompareError::Queries { a, b, of_a: of_a.clone(), of_b: of_b.clone() });
    }
    let (documents, leaves) = match (run_a.identity.unit, run_b.identity.unit) {
        (Unit::Document, Unit::Leaf) => (Some(a), b),
        (Unit::Leaf, Unit::Document) => (Some(b), a),
        _ => (None, b),
    };
    if let Some(documents) = documents {
        let (documents, leaves) = (documents.to_owned(), leaves.to_owned());
        return Err(CompareError::Unit { documents, leaves });
    }
    let by_id: BTreeMap<&str, &Entry> = run_b.entries.iter().map(|e| (e.id.as_str(), e)).collect();
    let known: BTreeSet<&str> = run_a.entries.iter().map(|e| e.id.as_str()).collect();
    let lacks = |run: &str, ids: Vec<&str>| {
        let first = ids.first().map(|id| (*id).to_owned());
        first.map(|id| CompareError::Lacks { run: run.to_owned(), id, n: ids.len() })
    };
    let not_in_b = run_a.entries.iter().map(|e| e.id.as_str()).filter(|id| !by_id.contains_key(id));
    let not_in_a = run_b.entries.iter().map(|e| e.id.as_str()).filter(|id| !known.contains(id));
    match lacks(b, not_in_b.collect()).or_else(|| lacks(a, not_in_a.collect())) {
        Some(error) => Err(error),
        None => Ok(run_a
            .entries
            .iter()
            .filter_map(|entry| Some((entry, *by_id.get(entry.id.as_str())?)))
            .collect()),
    }
}

/// A query under both runs.
#[derive(Debug, Clone, Copy)]
struct Case {
    values: Option<(f64, f64)>,
    fired: bool,
    identical: bool,
}

fn one(
    (a, run_a): Named<'_>,
    (b, run_b): Named<'_>,
    pairs: &[(&Entry, &Entry)],
    measure: Measure,
    options: &Options,
) -> Comparison {
    let mut parts: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    if options.by == By::Fired {
        // Both are shown, whether or not there is a query in them.
        parts.extend(["fired", "unfired"].map(|name| (name.to_owned(), Vec::new())));
    }
    for (of_a, of_b) in pairs {
        let case = case(of_a, of_b, measure);
        let name = match options.by {
            By::Fired if case.fired => "fired",
            By::Fired => "unfired",
            By::Group => of_a.group.as_deref().unwrap_or("no group"),
            By::Nothing => "all",
        };
        parts.entry(name.to_owned()).or_default().push(case);
    }
    let all: Vec<Case> = parts.values().flatten().copied().collect();
    let pooled = stratum("pooled", &all, measure, options);
    let strata: Vec<Stratum> =
        parts.iter().map(|(name, cases)| stratum(name, cases, measure, options)).collect();
    let counted = measure.is_binary().then(|| strata_of(&all));
    let closes = measure.is_binary().then(|| {
        let parts: Pairs = strata
            .iter()
            .filter_map(|s| s.difference.as_ref()?.pairs)
            .fold(Pairs::default(), |a, b| a + b);
        pooled.difference.as_ref().and_then(|d| d.pairs).unwrap_or_default() == parts
    });
    let mut notes = note::of(run_a, run_b, &all, options);
    if let Some(counted) = counted {
        let level = options.bootstrap.level;
        let resolved = mcnemar(counted.pooled()) < 1.0 - level.probability();
        notes.extend(note::of_counts(&counted, level, resolved));
    }
    Comparison {
        a: a.to_owned(),
        b: b.to_owned(),
        measure: measure.to_string(),
        effect: counted.and_then(|counted| counted.effect().ok()),
        closes,
        strata,
        pooled,
        notes,
    }
}

fn case(a: &Entry, b: &Entry, measure: Measure) -> Case {
    let value = |entry: &Entry| measure.value(entry, &entry.delivery);
    Case {
        values: value(a).zip(value(b)),
        fired: a.delivery.fired() || b.delivery.fired(),
        identical: a.delivered(&a.delivery) == b.delivered(&b.delivery),
    }
}

fn strata_of(cases: &[Case]) -> Strata {
    let is_right = |value: f64| value > 0.5;
    Strata::of(cases.iter().filter_map(|case| {
        let (a, b) = case.values?;
        Some(Outcome { fired: case.fired, a: is_right(a), b: is_right(b) })
    }))
}

fn stratum(name: &str, cases: &[Case], measure: Measure, options: &Options) -> Stratum {
    let values: Vec<(f64, f64)> = cases.iter().filter_map(|case| case.values).collect();
    let identical = cases.iter().filter(|case| case.identical).count();
    let difference = difference::between(&values, measure, options);
    let side = |of: fn(&(f64, f64)) -> f64| {
        figure(&values.iter().map(of).collect::<Vec<_>>(), measure, &options.bootstrap)
    };
    Stratum {
        name: name.to_owned(),
        n: values.len(),
        without_figure: cases.len() - values.len(),
        identical,
        a: side(|(a, _)| *a),
        b: side(|(_, b)| *b),
        verdict: verdict::of(
            &values,
            identical == cases.len(),
            difference.as_ref(),
            measure,
            options,
        ),
        difference,
    }
}

/// Corrects the p-values of what is decided upon, and says anew what it comes to.
fn correct(comparisons: &mut [(Comparison, Measure)], options: &Options) {
    let decides = |stratum: &Stratum| match options.by {
        By::Fired => stratum.name == "fired",
        By::Group | By::Nothing => true,
    };
    let strata = |comparisons: &[(Comparison, Measure)]| {
        let all = comparisons.iter().flat_map(|(comparison, _)| &comparison.strata);
        all.filter(|stratum| decides(stratum))
            .filter_map(|s| Some(s.difference.as_ref()?.p))
            .collect::<Vec<f64>>()
    };
    let mut corrected = holm(&strata(comparisons)).into_iter();
    for (comparison, measure) in comparisons {
        for stratum in comparison.strata.iter_mut().filter(|stratum| decides(stratum)) {
            if let Some(difference) = &mut stratum.difference {
                difference.p_corrected = corrected.next();
                stratum.verdict = stratum.verdict.corrected(difference, *measure, options);
            }
        }
    }
}

/// How many of all compared queries fired.
fn fire_rate(cases: &[Case]) -> Share {
    Share::count_of(cases, |case| case.fired)
}

#[cfg(test)]
mod tests;
