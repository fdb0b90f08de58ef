//! Rows of a sweep over one half of the queries → the setting to use, and what it does on the other half.
//!
//! Invariant: what chose the setting does not judge it.

use super::{Row, Scored, Setting, row};
use crate::interval::{Level, SplitMix64};
use serde::Serialize;
use umbel_core::merge::Satisfiability;

/// A setting that helps, and how sure that is for what it costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Choice {
    /// Its place among the settings.
    pub setting: usize,
    /// The lower bound of its effect on fired queries, −1 to 1.
    pub lower_bound: f64,
    /// Tokens that each fired query costs more.
    pub extra_per_fired: f64,
    /// The lower bound for each 1,000 of them; one that costs less than a token counts as costing one.
    pub per_1000_tokens: f64,
}

/// What to use, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recommendation {
    /// The settings whose effect has a lower bound above 0 on the queries that choose, best first; empty where there is none, and
    /// then nothing is recommended.
    pub choices: Vec<Choice>,
    /// The best one on the queries that chose it.
    pub chosen_on: Option<Row>,
    /// The best one on the queries that were held out.
    pub held_out: Option<Row>,
    /// Queries that chose.
    pub n_choosing: usize,
    /// Queries that were held out.
    pub n_held_out: usize,
}

/// Which of the queries are held out: this share of them, rounded down, drawn by their ids, so that the order of the file does not
/// matter. `share` is 0 to 1.
pub fn held_out(ids: &[&str], share: f64, seed: u64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..ids.len()).collect();
    order.sort_by_key(|&index| ids.get(index));
    let mut random = SplitMix64::new(seed);
    for last in (1..order.len()).rev() {
        order.swap(last, random.below(last + 1));
    }
    let n = (share.clamp(0.0, 1.0) * ids.len() as f64) as usize;
    let mut held = vec![false; ids.len()];
    for &index in order.iter().take(n) {
        if let Some(slot) = held.get_mut(index) {
            *slot = true;
        }
    }
    held
}

/// Recommends the setting with the highest lower bound of the fired effect for each token it costs, never the best pooled mean: that
/// prefers whatever does least. `scored[q][s]` is query q under setting s; `held[q]` says whether it is held out.
///
/// # Panics
/// If there are not as many satisfiabilities as settings: a broken promise of the caller.
pub fn tune(
    settings: &[Setting],
    scored: &[Vec<Scored>],
    held: &[bool],
    satisfiability: &[Satisfiability],
    (confidence, power): (Level, Level),
) -> Recommendation {
    assert_eq!(settings.len(), satisfiability.len(), "one satisfiability for each setting");
    let of_part = |index: usize, part: bool| {
        let queries = scored.iter().zip(held).filter(move |(_, held)| **held == part);
        let column = queries.filter_map(move |(query, _)| query.get(index));
        Some(row(settings.get(index)?, column, *satisfiability.get(index)?, confidence, power))
    };
    let mut choices: Vec<Choice> =
        (0..settings.len()).filter_map(|index| choice(index, &of_part(index, false)?)).collect();
    choices.sort_by(|a, b| {
        b.per_1000_tokens.total_cmp(&a.per_1000_tokens).then(a.setting.cmp(&b.setting))
    });
    let best = choices.first().map(|choice| choice.setting);
    Recommendation {
        chosen_on: best.and_then(|index| of_part(index, false)),
        held_out: best.and_then(|index| of_part(index, true)),
        choices,
        n_choosing: held.iter().filter(|held| !**held).count(),
        n_held_out: held.iter().filter(|held| **held).count(),
    }
}

/// What speaks for a setting; `None` where its effect may as well be 0 or less.
fn choice(setting: usize, row: &Row) -> Option<Choice> {
    let lower_bound = row.effect.map(|interval| interval.low).filter(|low| *low > 0.0)?;
    let extra_per_fired = row.extra_per_fired?;
    let per_1000_tokens = 1_000.0 * lower_bound / extra_per_fired.max(1.0);
    Some(Choice { setting, lower_bound, extra_per_fired, per_1000_tokens })
}
