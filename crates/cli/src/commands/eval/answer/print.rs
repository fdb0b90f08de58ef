//! What all verdicts come to → JSON, or lines for a person.

use super::{Judged, Models, Row};
use crate::args::eval::EvalAnswer;
use crate::output::{Output, counted};
use serde::Serialize;
use std::path::Path;
use umbel_eval::answer::{
    Compared, GradeReport, Graded, PreferenceReport, PreferenceStratum, grade_report,
    preference_report,
};
use umbel_eval::interval::{Direction, Level};
use umbel_eval::kappa::Kappa;

/// What came of a command.
#[derive(Serialize)]
pub(super) struct Outcome {
    generator: String,
    judges: Vec<String>,
    queries: usize,
    /// Queries that were not asked, since nobody answered the ones before.
    not_asked: usize,
    /// Queries on which a model failed.
    failed: usize,
    /// Why the first of them did.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_failure: Option<String>,
    /// Answers that came to the limit of their tokens.
    cut: usize,
    #[serde(flatten)]
    report: Report,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Report {
    One(GradeReport),
    Two(PreferenceReport),
}

impl Outcome {
    /// What the rows of so many queries come to.
    pub(super) fn of(rows: &[Row], queries: usize, models: &Models) -> Outcome {
        let (mut one, mut two): (Vec<Graded>, Vec<Compared>) = (Vec::new(), Vec::new());
        for row in rows {
            match &row.judged {
                Judged::One(graded) => one.push(graded.clone()),
                Judged::Two(compared) => two.push(compared.clone()),
            }
        }
        let failures: Vec<&String> = rows.iter().filter_map(|row| row.error.as_ref()).collect();
        Outcome {
            generator: models.generator.model().to_owned(),
            judges: models.judges.iter().map(|judge| judge.model().to_owned()).collect(),
            queries,
            not_asked: queries - rows.len(),
            failed: failures.len(),
            first_failure: failures.first().map(|&failure| failure.clone()),
            cut: rows.iter().flat_map(|row| &row.answers).filter(|answer| answer.cut).count(),
            report: if two.is_empty() {
                Report::One(grade_report(&one, Level::CONFIDENCE))
            } else {
                Report::Two(preference_report(&two, Level::CONFIDENCE))
            },
        }
    }

    /// Whether everybody answered.
    pub(super) fn is_whole(&self) -> bool {
        self.failed + self.not_asked == 0
    }

    pub(super) fn print(&self, asked: &EvalAnswer, output: &Output) -> anyhow::Result<()> {
        if output.is_json() {
            output.json(self)?;
        } else {
            let judges = self.judges.join(" and ");
            let queries = counted(self.queries, "query", "queries");
            output.line(format!("{queries}; {} answers, {judges} judges", self.generator));
            match &self.report {
                Report::One(report) => grades(report, output),
                Report::Two(report) => {
                    preferences(&asked.run, asked.other.as_deref(), report, output);
                }
            }
            output.line(format!("answers and verdicts: {}", asked.out.display()));
        }
        self.warn(asked, output);
        Ok(())
    }

    fn warn(&self, asked: &EvalAnswer, output: &Output) {
        if self.cut > 0 {
            let answers = counted(self.cut, "answer", "answers");
            output.warning(format!(
                "{answers} came to the limit of tokens: raise `generate.max_tokens`"
            ));
        }
        if let Some(first) = &self.first_failure {
            let queries = counted(self.failed, "query", "queries");
            output.warning(format!("{queries} without a verdict, the first because: {first}"));
        }
        if self.not_asked > 0 {
            let queries = counted(self.not_asked, "query was", "queries were");
            output.warning(format!("{queries} not asked, since nobody answered those before"));
        }
        if !self.is_whole() {
            output.hint("type the same again: what was answered is not asked again");
        } else if let (Report::One(_), false) = (&self.report, output.is_json()) {
            let (run, out) = (asked.run.display(), asked.out.display());
            output.hint(format!("`umbel eval outcomes {run} --from {out} --out JUDGED` makes them the run's outcomes"));
        }
    }
}

fn grades(report: &GradeReport, output: &Output) {
    for stratum in &report.strata {
        let interval = stratum.interval.map(|interval| format!("  {interval}")).unwrap_or_default();
        output.line(format!("{:<8} {} right{interval}", stratum.name, stratum.right));
    }
    unread(report.unread, output);
    if report.split > 0 {
        output.line(format!(
            "{} on which the judges contradict each other: no outcome",
            counted(report.split, "answer", "answers")
        ));
    }
    agreement(report.agreement.as_ref(), output);
}

fn preferences(a: &Path, b: Option<&Path>, report: &PreferenceReport, output: &Output) {
    let b = b.map(Path::display).map(|b| b.to_string()).unwrap_or_default();
    output.line(format!("A {}, B {b}", a.display()));
    for stratum in &report.strata {
        let PreferenceStratum { name, n, a, b, ties, same, p, verdict } = stratum;
        output.line(format!(
            "{name:<8} B better on {b}, A on {a}, neither on {ties} (the same answer: {same}) of {n}; p = {p:.4}: {verdict}"
        ));
    }
    let lean = match report.lean {
        Direction::Higher => ": the judges favour it, trust the verdicts less",
        Direction::Lower => ": the judges favour the second one, trust the verdicts less",
        Direction::NotResolved => "",
    };
    if let Some(interval) = report.first_interval {
        output.line(format!(
            "the answer shown first was better on {}  {interval}{lean}",
            report.first
        ));
    }
    unread(report.unread, output);
    agreement(report.agreement.as_ref(), output);
}

fn unread(n: usize, output: &Output) {
    if n > 0 {
        let replies = counted(n, "query has a reply", "queries have replies");
        output.line(format!("{replies} without a label: no outcome"));
    }
}

fn agreement(kappa: Option<&Kappa>, output: &Output) {
    let Some(found) = kappa else { return };
    let figure =
        |value: Option<f64>| value.map_or_else(|| "none".to_owned(), |v| format!("{v:.2}"));
    let interval = found.kappa_interval.map_or_else(String::new, |interval| {
        format!(" ({:.2} to {:.2})", interval.low, interval.high)
    });
    let by_chance =
        found.by_chance.map_or_else(|| "none".to_owned(), |share| format!("{share:.2}"));
    output.line(format!(
        "the judges agree on {}; by chance {by_chance}; Cohen's kappa {}{interval}",
        found.agreed,
        figure(found.kappa)
    ));
}
