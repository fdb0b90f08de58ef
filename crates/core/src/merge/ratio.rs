//! The rule of a fixed share: level by level, from the leaves up.
//!
//! Invariant: a node is judged after all nodes below it.

use super::grove::Grove;
use super::{BlockedBy, MergeConfig, NodeRef, RatioBy, Record, Verdict};

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
        if grove.has_duplicates()
            && let Verdict::Fire(fire) = &mut verdict
        {
            let others =
                nodes.iter().copied().filter(|&other| other != node && !grove.has_fired(other));
            for other in others {
                let (mut matched_there, Verdict::Fire(mut fire_there)) = judge(grove, other) else {
                    continue;
                };
                if matched_there.voices != matched.voices {
                    continue;
                }
                let strength = grove.strength(fire.share.node, &matched);
                if grove.strength(other, &matched_there) > strength {
                    std::mem::swap(&mut matched_there, &mut matched);
                    std::mem::swap(&mut fire_there, fire);
                }
                record.note(Verdict::Blocked(fire_there.share, BlockedBy::Rival));
            }
        }
        if let Verdict::Fire(fire) = &verdict {
            grove.fire(fire.share.node, &matched);
        }
        record.note(verdict);
    }
}
