//! The rule of a fixed share: level by level, from the leaves up.
//!
//! Invariant: a node is judged after all nodes below it.

use super::grove::{Grove, Matched};
use super::{BlockedBy, MergeConfig, NodeRef, RatioBy, Record, Verdict};
use std::cmp::{Ordering, Reverse};

/// Judges every node above the list.
pub(super) fn decide(
    grove: &mut Grove<'_>,
    config: &MergeConfig,
    ratio: f64,
    by: RatioBy,
    budget_tokens: usize,
    record: &mut Record,
) {
    let judge = |grove: &Grove<'_>, node: NodeRef| {
        let matched = grove.matched(node, |_| true);
        let share = grove.share(node, &matched, by);
        let verdict = grove.judge(&matched, &share, ratio, config, budget_tokens);
        (matched, verdict)
    };
    let nodes = grove.bottom_up();
    for &node in &nodes {
        if grove.has_fired(node) {
            continue;
        }
        let (mut matched, mut verdict) = judge(grove, node);
        if grove.has_duplicates() && matches!(verdict, Verdict::Fire(_)) {
            let others =
                nodes.iter().copied().filter(|&other| other != node && !grove.has_fired(other));
            let rivals = others.map(|other| judge(grove, other)).filter(|(other, verdict)| {
                other.voices == matched.voices && matches!(verdict, Verdict::Fire(_))
            });
            for (mut other, mut of_other) in rivals.collect::<Vec<_>>() {
                if strength(grove, &other, &of_other) > strength(grove, &matched, &verdict) {
                    std::mem::swap(&mut other, &mut matched);
                    std::mem::swap(&mut of_other, &mut verdict);
                }
                if let Verdict::Fire(fire) = of_other {
                    record.note(Verdict::Blocked(fire.share, BlockedBy::Rival));
                }
            }
        }
        if let Verdict::Fire(fire) = &verdict {
            grove.fire(fire.share.node, &matched);
        }
        record.note(verdict);
    }
}

/// Which of the nodes that stand for the same clusters fires, the greatest: most speakers, then the best score, then the
/// smallest id.
fn strength(
    grove: &Grove<'_>,
    matched: &Matched,
    verdict: &Verdict,
) -> (usize, Score, Option<Reverse<NodeRef>>) {
    let node = match verdict {
        Verdict::Fire(fire) => Some(Reverse(fire.share.node)),
        _ => None,
    };
    (matched.n_speakers, Score(grove.best_score(matched)), node)
}

/// A score in its total order.
#[derive(PartialEq)]
struct Score(f32);

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Score) -> Option<Ordering> {
        Some(self.0.total_cmp(&other.0))
    }
}
