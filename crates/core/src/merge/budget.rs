//! The rule of a budget that fills: in rank order, from each leaf up.
//!
//! Invariant: `used` is the tokens of the leaves that were looked at, and of the nodes that replaced some of them.
//!
//! Source: Lu et al., HiChunk, arXiv 2509.11552, 2025.

use super::grove::Grove;
use super::{MergeConfig, NodeRef, RatioBy, Record, Verdict};

/// Looks at the leaves in rank order until the budget is used, and judges the nodes above each. `base` is the share that a
/// node must have while nothing is used, by whether it lies in no section.
pub(super) fn decide(
    grove: &mut Grove<'_>,
    config: &MergeConfig,
    base: impl Fn(bool) -> f64,
    budget_tokens: usize,
    record: &mut Record,
) {
    let mut used = 0;
    for (rank, voice) in grove.voices().iter().enumerate() {
        if used >= budget_tokens {
            break;
        }
        if grove.owner(rank).is_some() {
            continue;
        }
        used += voice.hit.record.tokens as usize;
        for hit in voice.members() {
            for ancestor in &hit.record.ancestors {
                let node = NodeRef { doc: hit.record.doc, node: ancestor.node };
                let eligible = |at: usize| at <= rank;
                let matched = grove.matched(node, eligible);
                let share = grove.share(node, &matched, RatioBy::Tokens);
                let base = base(grove.is_flat(node));
                let wanted = base * (1.0 + used as f64 / budget_tokens as f64);
                let others = used.saturating_sub(grove.replaced_tokens(node, eligible));
                let room = budget_tokens.saturating_sub(others);
                let verdict = grove.judge(&matched, &share, wanted, config, room);
                let fired = matches!(verdict, Verdict::Fire(_));
                if fired {
                    grove.fire(node, &matched);
                    used = others + grove.node(node).map_or(0, |node| node.tokens as usize);
                }
                record.note(verdict);
                if !fired {
                    break;
                }
            }
        }
    }
}
