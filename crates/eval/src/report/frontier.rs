//! What settings cost and find → those that none beats.

use crate::compare::{Figure, figure};
use crate::interval::Bootstrap;
use crate::measure::Measure;
use crate::run::{Delivery, Entry};
use serde::Serialize;

/// A way to deliver, at rising budgets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// What it is called.
    pub name: String,
    /// What it came to at each budget.
    pub points: Vec<Point>,
}

/// What a setting cost and found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// The tokens that could be delivered.
    pub budget: usize,
    /// Tokens that were, a query.
    pub tokens: Figure,
    /// Evidence recall.
    pub recall: Figure,
    /// Whether no other setting finds as much for less, or more for as much.
    pub unbeaten: bool,
}

impl Point {
    /// What the deliveries of some queries came to.
    pub fn of(budget: usize, deliveries: &[(&Entry, Delivery)], bootstrap: &Bootstrap) -> Point {
        let measured = |measure: Measure| {
            let values = deliveries.iter().filter_map(|(e, delivery)| measure.value(e, delivery));
            figure(&values.collect::<Vec<_>>(), measure, bootstrap)
        };
        let (tokens, recall) = (measured(Measure::Tokens), measured(Measure::EvidenceRecall));
        Point { budget, tokens, recall, unbeaten: false }
    }

    /// Tokens and recall; `None` where no query has both.
    pub fn means(&self) -> Option<(f64, f64)> {
        Some((self.tokens.value()?, self.recall.value()?))
    }
}

/// Marks the points that none beats: none finds at least as much for at most as many tokens, and is better in one of the two.
pub fn frontier(series: &mut [Series]) {
    let all: Vec<(f64, f64)> =
        series.iter().flat_map(|s| &s.points).filter_map(Point::means).collect();
    for point in series.iter_mut().flat_map(|s| &mut s.points) {
        let Some((tokens, recall)) = point.means() else { continue };
        let beats = |&(t, r): &(f64, f64)| t <= tokens && r >= recall && (t < tokens || r > recall);
        point.unbeaten = !all.iter().any(beats);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(tokens: f64, recall: f64) -> Point {
        let mean = |mean| Figure::Mean { mean: Some(mean), n: 9, interval: None };
        Point { budget: 500, tokens: mean(tokens), recall: mean(recall), unbeaten: false }
    }

    fn check(points: &[(f64, f64)], unbeaten: &[bool]) {
        let points = points.iter().map(|&(tokens, recall)| point(tokens, recall)).collect();
        let mut series = [Series { name: "a".to_owned(), points }];
        frontier(&mut series);
        let got: Vec<bool> = series[0].points.iter().map(|point| point.unbeaten).collect();
        assert_eq!(got, unbeaten);
    }

    #[test]
    fn what_costs_more_and_finds_no_more_is_beaten() {
        check(
            &[(100.0, 0.5), (200.0, 0.7), (300.0, 0.7), (200.0, 0.6)],
            &[true, true, false, false],
        );
        // Equals do not beat each other.
        check(&[(100.0, 0.5), (100.0, 0.5)], &[true, true]);
        check(&[], &[]);
    }

    #[test]
    fn a_setting_without_a_figure_is_no_part_of_it() {
        let none = Figure::Mean { mean: None, n: 0, interval: None };
        let empty = Point { recall: none, ..point(0.0, 0.0) };
        let mut series = [Series { name: "a".to_owned(), points: vec![empty, point(9.0, 0.1)] }];
        frontier(&mut series);
        assert_eq!(series[0].points.iter().map(|p| p.unbeaten).collect::<Vec<_>>(), [false, true]);
    }
}
