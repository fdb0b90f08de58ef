//! The rule of a budget that fills: in rank order, from each leaf up.
//!
//! Invariant: `used` is the tokens of the leaves that were looked at, and of the nodes that replaced some of them.
//!
//! Source: Lu et al., HiChunk, arXiv 2509.11552, 2025.

use super::grove::{Grove, Matched};
use super::{BlockedBy, MergeConfig, NodeRef, RatioBy, Record, Verdict};
use crate::hit::Hit;

/// What the rule says of a node, and what it would be worth.
struct Judged {
    node: NodeRef,
    matched: Matched,
    verdict: Verdict,
    /// Tokens that are used by what the node would not replace.
    others: usize,
}

/// Looks at the leaves in rank order until the budget is used, and judges the nodes above each. `base` is the share that a
/// node must have while nothing is used, by whether it lies in no section.
pub(super) fn decide(
    grove: &mut Grove<'_>,
    config: &MergeConfig,
    base: impl Fn(bool) -> f64,
    budget_tokens: usize,
    record: &mut Record,
) {
    let judge = |grove: &Grove<'_>, node: NodeRef, rank: usize, used: usize| {
        let eligible = |at: usize| at <= rank;
        let matched = grove.matched(node, eligible);
        let share = grove.share(node, &matched, RatioBy::Tokens);
        let wanted = base(grove.is_flat(node)) * (1.0 + used as f64 / budget_tokens as f64);
        let others = used.saturating_sub(grove.replaced_tokens(node, eligible));
        let room = budget_tokens.saturating_sub(others);
        let verdict = grove.judge(&matched, &share, wanted, config, room);
        Judged { node, matched, verdict, others }
    };
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
            for node in above(hit) {
                if grove.has_fired(node) {
                    continue;
                }
                let mut judged = judge(grove, node, rank, used);
                if !matches!(judged.verdict, Verdict::Fire(_)) {
                    record.note(judged.verdict);
                    break;
                }
                let copies = voice.members().filter(|copy| copy.record.doc != hit.record.doc);
                for other in copies.flat_map(above).filter(|&other| !grove.has_fired(other)) {
                    let mut rival = judge(grove, other, rank, used);
                    if !matches!(rival.verdict, Verdict::Fire(_))
                        || rival.matched.voices != judged.matched.voices
                    {
                        continue;
                    }
                    let strength = |judged: &Judged| grove.strength(judged.node, &judged.matched);
                    if strength(&rival) > strength(&judged) {
                        std::mem::swap(&mut rival, &mut judged);
                    }
                    if let Verdict::Fire(fire) = rival.verdict {
                        record.note(Verdict::Blocked(fire.share, BlockedBy::Rival));
                    }
                }
                grove.fire(judged.node, &judged.matched);
                used = judged.others + grove.node(judged.node).map_or(0, |n| n.tokens as usize);
                let elsewhere = judged.node.doc != node.doc;
                record.note(judged.verdict);
                if elsewhere {
                    break;
                }
            }
        }
    }
}

/// The nodes above a hit, nearest first.
fn above(hit: &Hit) -> impl Iterator<Item = NodeRef> {
    let doc = hit.record.doc;
    hit.record.ancestors.iter().map(move |above| NodeRef { doc, node: above.node })
}
