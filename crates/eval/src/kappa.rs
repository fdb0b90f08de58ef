//! Two judges' labels of the same things → how far they agree beyond chance.
//!
//! Invariant: what only one of them labelled is not counted; where chance alone agrees on everything, there is no figure.

use crate::interval::{Interval, Level, Method, wilson};
use crate::share::Share;
use serde::Serialize;
use std::collections::BTreeMap;

/// How far two judges agree.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Kappa {
    /// On how many they agree, of those that both labelled.
    pub agreed: Share,
    /// Where the true share plausibly lies; `None` of nothing.
    pub interval: Option<Interval>,
    /// The share on which they would agree if each kept to its own frequencies and threw dice, 0 to 1; `None` of nothing.
    pub by_chance: Option<f64>,
    /// Cohen's κ, at most 1: 0 where they agree as chance does. `None` where chance alone agrees on everything.
    pub kappa: Option<f64>,
    /// Where the true κ plausibly lies.
    pub kappa_interval: Option<Interval>,
}

impl Kappa {
    /// From both labels of each thing: `κ = (p_o − p_e) / (1 − p_e)`.
    ///
    /// Source: Cohen, Educational and Psychological Measurement 20, 1960; the large-sample variance of Fleiss, Cohen and Everitt,
    /// Psychological Bulletin 72, 1969.
    pub fn of<T: Ord + Copy>(labels: impl IntoIterator<Item = (T, T)>, level: Level) -> Kappa {
        let mut cells: BTreeMap<(T, T), u64> = BTreeMap::new();
        for pair in labels {
            *cells.entry(pair).or_default() += 1;
        }
        let n: u64 = cells.values().sum();
        let on_diagonal = cells.iter().filter(|((a, b), _)| a == b).map(|(_, count)| count).sum();
        let agreed = Share::new(on_diagonal, n).expect("a part of the pairs");
        let known = agreed.proportion().map(|observed| Table::of(&cells, observed));
        let kappa = known.as_ref().and_then(Table::kappa);
        let kappa_interval = known.as_ref().zip(kappa).map(|(table, kappa)| {
            let half = level.two_sided_z() * table.standard_error(kappa);
            Interval { low: kappa - half, high: kappa + half, level, method: Method::Asymptotic }
        });
        Kappa {
            agreed,
            interval: wilson(agreed, level),
            by_chance: known.map(|table| table.by_chance),
            kappa,
            kappa_interval,
        }
    }
}

/// The counts as shares.
struct Table<T> {
    n: f64,
    cells: Vec<(T, T, f64)>,
    rows: BTreeMap<T, f64>,
    columns: BTreeMap<T, f64>,
    observed: f64,
    by_chance: f64,
}

impl<T: Ord + Copy> Table<T> {
    fn of(cells: &BTreeMap<(T, T), u64>, observed: f64) -> Table<T> {
        let n = cells.values().sum::<u64>() as f64;
        let cells: Vec<(T, T, f64)> =
            cells.iter().map(|(&(a, b), &count)| (a, b, count as f64 / n)).collect();
        let (mut rows, mut columns) = (BTreeMap::new(), BTreeMap::new());
        for &(a, b, share) in &cells {
            *rows.entry(a).or_insert(0.0) += share;
            *columns.entry(b).or_insert(0.0) += share;
        }
        let by_chance =
            rows.iter().map(|(label, row)| row * columns.get(label).unwrap_or(&0.0)).sum();
        Table { n, cells, rows, columns, observed, by_chance }
    }

    fn kappa(&self) -> Option<f64> {
        // One label alone: 1 up to rounding.
        let room = 1.0 - self.by_chance;
        (room > 1e-12).then(|| (self.observed - self.by_chance) / room)
    }

    fn standard_error(&self, kappa: f64) -> f64 {
        let share = |of: &BTreeMap<T, f64>, label: T| of.get(&label).copied().unwrap_or_default();
        let rest = 1.0 - kappa;
        let cell = |&(a, b, p): &(T, T, f64)| {
            if a == b {
                let marginals = share(&self.rows, a) + share(&self.columns, a);
                p * (1.0 - marginals * rest).powi(2)
            } else {
                let marginals = share(&self.columns, a) + share(&self.rows, b);
                p * (rest * marginals).powi(2)
            }
        };
        let sum: f64 = self.cells.iter().map(cell).sum();
        let variance = sum - (kappa - self.by_chance * rest).powi(2);
        variance.max(0.0).sqrt() / ((1.0 - self.by_chance) * self.n.sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: [usize; 4]) -> Kappa {
        let labels = [(true, true), (true, false), (false, true), (false, false)];
        let pairs =
            labels.into_iter().zip(counts).flat_map(|(pair, n)| std::iter::repeat_n(pair, n));
        Kappa::of(pairs, Level::CONFIDENCE)
    }

    fn check(counts: [usize; 4], by_chance: Option<f64>, kappa: Option<f64>) {
        let got = of(counts);
        let near = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => (a - b).abs() < 1e-9,
            (a, b) => a == b,
        };
        assert!(near(got.by_chance, by_chance) && near(got.kappa, kappa), "{got:?}");
    }

    #[test]
    fn agreement_beyond_chance() {
        // 20 and 15 agreed of 50: the usual example, κ = 0.4.
        check([20, 5, 10, 15], Some(0.5), Some(0.4));
        check([10, 0, 0, 10], Some(0.5), Some(1.0));
        check([0, 10, 10, 0], Some(0.5), Some(-1.0));
        check([5, 5, 5, 5], Some(0.5), Some(0.0));
    }

    #[test]
    fn where_there_is_one_label_or_none_there_is_no_figure() {
        check([7, 0, 0, 0], Some(1.0), None);
        check([0; 4], None, None);
        assert!(of([0; 4]).interval.is_none());
    }

    #[test]
    fn the_interval_holds_the_figure_and_narrows() {
        let width = |times: usize| {
            let got = of([20, 5, 10, 15].map(|n| n * times));
            let interval = got.kappa_interval.unwrap();
            assert!(interval.contains(got.kappa.unwrap()));
            interval.half_width()
        };
        assert!((width(4) * 2.0 - width(1)).abs() < 1e-9);
    }
}
