//! Logged questions asked again under two configurations → what changes for those who asked them.
//!
//! Invariant: a question counts once in means and intervals, however often it was asked; shares of searches count each time.

use crate::interval::{Bootstrap, Interval, bootstrap_difference, wilson};
use crate::share::Share;
use serde::Serialize;
use umbel_core::span::Span;

/// A span of a document, by the document's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Delivered {
    /// The document.
    pub doc: String,
    /// Its bytes.
    pub span: Span,
}

/// What a search did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Did {
    /// Whether a node replaced its children.
    pub fired: bool,
    /// Tokens delivered.
    pub tokens: usize,
    /// Distinct clusters in the list that merging saw.
    pub clusters: usize,
    /// What was delivered, in the order in which it is read.
    pub passages: Vec<Delivered>,
    /// Microseconds that it took.
    pub took_us: u64,
}

/// A question of the log, asked again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// How often the log holds it; at least 1.
    pub times: u64,
    /// In how many of these the rule fired.
    pub logged_fired: u64,
    /// Tokens that were delivered in all of these.
    pub logged_tokens: u64,
    /// Under the configuration as it is.
    pub before: Did,
    /// Under the changed one.
    pub after: Did,
}

/// What all searches of one side come to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// Questions on which the rule fired.
    pub fired: Share,
    /// Where the true share plausibly lies; `None` of nothing.
    pub interval: Option<Interval>,
    /// Tokens a question, on average; `None` of nothing.
    pub tokens: Option<f64>,
    /// Passages a question, on average.
    pub passages: Option<f64>,
    /// Distinct clusters in the list, on average.
    pub clusters: Option<f64>,
    /// Half of the searches took at most so many microseconds.
    pub p50_us: u64,
    /// 95 of 100 searches did.
    pub p95_us: u64,
}

/// What changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Traffic {
    /// Distinct questions.
    pub questions: u64,
    /// Searches that the log holds of them.
    pub searches: u64,
    /// In how many of these the rule fired when they were asked.
    pub logged_fired: Share,
    /// Tokens a search, on average, when they were asked.
    pub logged_tokens: Option<f64>,
    /// Under the configuration as it is.
    pub before: Side,
    /// Under the changed one.
    pub after: Side,
    /// Questions on which the rule fires only before.
    pub fires_only_before: u64,
    /// Questions on which it fires only after.
    pub fires_only_after: u64,
    /// Tokens a question that the change adds, on average.
    pub tokens_added: Option<f64>,
    /// Its paired bootstrap interval.
    pub tokens_added_interval: Option<Interval>,
    /// Questions whose passages change.
    pub changed: Share,
    /// Searches of the log whose passages would.
    pub changed_searches: Share,
}

/// What passages a change takes and brings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Those that are delivered no more.
    pub gone: Vec<Delivered>,
    /// Those that are delivered now.
    pub new: Vec<Delivered>,
}

impl Asked {
    /// Whether other passages are delivered; their order alone is no change.
    pub fn changed(&self) -> bool {
        let change = self.change();
        !(change.gone.is_empty() && change.new.is_empty())
    }

    /// What passages the change takes and brings.
    pub fn change(&self) -> Change {
        let without = |of: &Did, other: &Did| {
            of.passages.iter().filter(|p| !other.passages.contains(p)).cloned().collect()
        };
        Change { gone: without(&self.before, &self.after), new: without(&self.after, &self.before) }
    }
}

/// Sums up what changes.
pub fn traffic(asked: &[Asked], bootstrap: &Bootstrap) -> Traffic {
    let searches = asked.iter().map(|one| one.times).sum();
    let share = |count: u64| Share::new(count, searches).expect("a part of the searches");
    let tokens: Vec<(f64, f64)> =
        asked.iter().map(|one| (one.before.tokens as f64, one.after.tokens as f64)).collect();
    let only = |test: fn(&Asked) -> bool| asked.iter().filter(|one| test(one)).count() as u64;
    let sum = |of: fn(&Asked) -> u64| asked.iter().map(of).sum::<u64>();
    Traffic {
        questions: asked.len() as u64,
        searches,
        logged_fired: share(sum(|one| one.logged_fired)),
        logged_tokens: (searches > 0)
            .then(|| sum(|one| one.logged_tokens) as f64 / searches as f64),
        before: side(&asked.iter().map(|one| &one.before).collect::<Vec<_>>(), bootstrap),
        after: side(&asked.iter().map(|one| &one.after).collect::<Vec<_>>(), bootstrap),
        fires_only_before: only(|one| one.before.fired && !one.after.fired),
        fires_only_after: only(|one| !one.before.fired && one.after.fired),
        tokens_added: mean(tokens.iter().map(|(before, after)| after - before)),
        tokens_added_interval: bootstrap_difference(&tokens, bootstrap),
        changed: Share::count_of(asked, Asked::changed),
        changed_searches: share(asked.iter().filter(|o| o.changed()).map(|o| o.times).sum()),
    }
}

fn side(did: &[&Did], bootstrap: &Bootstrap) -> Side {
    let fired = Share::count_of(did, |did| did.fired);
    let average = |of: fn(&Did) -> usize| mean(did.iter().map(|did| of(did) as f64));
    let mut took: Vec<u64> = did.iter().map(|did| did.took_us).collect();
    took.sort_unstable();
    // Quantiles by nearest rank.
    let at = |percent: usize| {
        let rank = (took.len() * percent).div_ceil(100).max(1) - 1;
        took.get(rank).copied().unwrap_or_default()
    };
    Side {
        fired,
        interval: wilson(fired, bootstrap.level),
        tokens: average(|did| did.tokens),
        passages: average(|did| did.passages.len()),
        clusters: average(|did| did.clusters),
        p50_us: at(50),
        p95_us: at(95),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0_usize), |(sum, n), value| (sum + value, n + 1));
    (n > 0).then(|| sum / n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Level;

    const FEW: Bootstrap = Bootstrap { resamples: 200, seed: 0, level: Level::CONFIDENCE };

    fn did(fired: bool, tokens: usize, starts: &[usize]) -> Did {
        let passage = |&start: &usize| Delivered {
            doc: "a.md".to_owned(),
            span: Span::new(start, start + 10),
        };
        let passages = starts.iter().map(passage).collect();
        Did { fired, tokens, clusters: 3, passages, took_us: tokens as u64 }
    }

    fn asked(times: u64, before: Did, after: Did) -> Asked {
        Asked { times, logged_fired: times - 1, logged_tokens: times * 50, before, after }
    }

    #[test]
    fn questions_count_once_and_searches_each_time() {
        let same = did(false, 100, &[0]);
        let all = [
            asked(9, did(true, 100, &[0, 20]), did(false, 60, &[20, 40])),
            asked(1, same.clone(), same),
        ];
        let found = traffic(&all, &FEW);
        assert_eq!((found.questions, found.searches), (2, 10));
        assert_eq!(
            (found.changed.to_string(), found.changed_searches.count()),
            ("1 of 2 = 50.0 %".to_owned(), 9)
        );
        assert_eq!((found.before.fired.count(), found.after.fired.count()), (1, 0));
        assert_eq!((found.fires_only_before, found.fires_only_after), (1, 0));
        assert_eq!((found.logged_fired.count(), found.logged_tokens), (8, Some(50.0)));
        assert_eq!((found.before.tokens, found.tokens_added), (Some(100.0), Some(-20.0)));
        assert_eq!((found.after.p50_us, found.after.p95_us), (60, 100));
        let change = all[0].change();
        assert_eq!((change.gone[0].span.start, change.new[0].span.start), (0, 40));
    }

    #[test]
    fn another_order_is_no_change_and_nothing_has_no_mean() {
        assert!(!asked(1, did(false, 9, &[0, 20]), did(false, 9, &[20, 0])).changed());
        let none = traffic(&[], &FEW);
        assert_eq!((none.questions, none.before.tokens, none.tokens_added), (0, None, None));
    }
}
