//! Whatever is retrieved: within the budget, no byte twice, and a fresh count of what is delivered does not exceed it.

use super::support::{context, read_with, settings};
use proptest::prelude::*;
use umbel::core::document::Document;
use umbel::core::expand::Expansion;
use umbel::core::id::DocId;
use umbel::core::merge::{RatioBy, Rule};
use umbel::core::pack::Order;
use umbel::core::span::Span;

fn any_block() -> impl Strategy<Value = String> {
    let sentence = "[A-Z][a-zé]{1,8}( [a-z0-9漢🙂]{1,9}| \\(e\\.g\\. [a-z]{2,5}\\)|, [A-Z]{2}-[0-9]{4}){1,14}[.!?]";
    let text = prop::collection::vec(sentence, 1..6).prop_map(|sentences| sentences.join(" "));
    prop_oneof![
        5 => text.clone(),
        2 => (1usize..4, "[A-Z][a-z ]{1,20}").prop_map(|(level, heading)| format!("{} {heading}", "#".repeat(level))),
        1 => prop::collection::vec(sentence, 2..9).prop_map(|items| format!("- {}", items.join("\n- "))),
        1 => prop::collection::vec("[a-z]{1,8} \\| [a-z0-9 ]{1,30}", 2..12).prop_map(|rows| format!("| a | b |\n|---|---|\n| {} |", rows.join(" |\n| "))),
        1 => prop::collection::vec("[a-z_(){};= ]{4,50}", 2..12).prop_map(|lines| format!("```rust\n{}\n```", lines.join("\n"))),
        1 => Just("---".to_owned()),
    ]
}

fn any_expansion() -> impl Strategy<Value = Expansion> {
    prop_oneof![
        Just(Expansion::None),
        Just(Expansion::Parent),
        Just(Expansion::Auto),
        (1usize..4).prop_map(Expansion::Siblings),
        (1usize..6).prop_map(Expansion::Sentences),
        (1usize..90).prop_map(Expansion::Tokens),
    ]
}

fn any_rule() -> impl Strategy<Value = Rule> {
    prop_oneof![
        (0.0f64..=1.0).prop_map(|ratio| Rule::Ratio { ratio, by: RatioBy::Children }),
        (0.0f64..=1.0).prop_map(|ratio| Rule::Ratio { ratio, by: RatioBy::Tokens }),
        (0.0f64..=1.0, 0.0f64..=1.0).prop_map(|(base, flat_base)| Rule::Budget { base, flat_base }),
    ]
}

/// The leaves of a list with their documents, best first.
fn retrieved(documents: &[&Document], found: &[(usize, usize)]) -> Vec<(DocId, Span)> {
    let leaf = |&(doc, ordinal): &(usize, usize)| {
        (DocId(doc as u64), documents[doc].tree.leaves[ordinal].span)
    };
    found.iter().map(leaf).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 2000, ..ProptestConfig::default() })]
    #[test]
    fn every_context_keeps_its_promises(
        pages in prop::collection::vec(prop::collection::vec(any_block(), 1..40), 1..4),
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..40),
        target in 20usize..120,
        budget in 10usize..1500,
        cap in 40usize..600,
        expansion in any_expansion(),
        rule in any_rule(),
        reserve in 0usize..8,
        order in prop_oneof![Just(Order::Evidence), Just(Order::Document)],
        merge in any::<bool>(),
        limit in prop::option::of(1usize..6),
    ) {
        let target = format!("leaf.target={target}");
        let documents: Vec<Document> =
            pages.iter().map(|blocks| read_with(&blocks.join("\n\n"), &[&target, "leaf.levels=[400, 150]"], None)).collect();
        let documents: Vec<&Document> = documents.iter().filter(|document| !document.tree.leaves.is_empty()).collect();
        prop_assume!(!documents.is_empty());
        let mut found: Vec<(usize, usize)> = picks.iter().map(|(doc, leaf)| {
            let doc = doc.index(documents.len());
            (doc, leaf.index(documents[doc].tree.leaves.len()))
        }).collect();
        let mut seen = std::collections::BTreeSet::new();
        found.retain(|hit| seen.insert(*hit));
        let mut config = settings(budget);
        config.merge.enabled = merge;
        config.merge.rule = rule;
        config.expansion = expansion;
        config.pack.reserve_tokens = reserve;
        config.pack.order = order;
        config.parent_cap_tokens = cap;
        config.pack.limit = limit;
        let (context, trace) = context(&documents, &found, &config);
        prop_assert!(limit.is_none_or(|limit| context.passages.len() <= limit));
        prop_assert_eq!(trace.counts.children_retrieved, found.len().min(30));
        prop_assert!(context.tokens + reserve <= budget);
        // The score of a merged node is the greatest of its evidence, which comes first.
        for passage in &context.passages {
            let best = passage.scores().final_score();
            prop_assert!(passage.evidence.iter().all(|e| e.scores.final_score() <= best));
        }
        let topmost = trace.merge.fires.iter().filter(|fire| fire.absorbed_by.is_none());
        prop_assert_eq!(trace.counts.parents_substituted, topmost.count());
        prop_assert!(trace.merge.fires.is_empty() || trace.merge.could_fire);
        // A passage's evidence is what was retrieved of it, all of it, best first.
        let retrieved = retrieved(&documents, &found[..trace.counts.children_retrieved]);
        for passage in &context.passages {
            let inside = retrieved.iter().filter(|(doc, span)| *doc == passage.doc && passage.span.contains(*span));
            prop_assert!(passage.evidence.iter().map(|e| e.span).eq(inside.map(|&(_, span)| span)));
        }
        // What was retrieved and is in no passage is dropped, and nothing is dropped that is in one.
        for (doc, leaf) in &retrieved {
            let delivered = context.passages.iter().any(|p| p.doc == *doc && p.span.contains(*leaf));
            let dropped = context.dropped.iter().any(|d| d.doc == *doc && d.span.contains(*leaf));
            prop_assert!(delivered || dropped, "{leaf} is nowhere");
        }
        for dropped in &context.dropped {
            let delivered = context.passages.iter().any(|p| p.doc == dropped.doc && p.span.contains(dropped.span));
            prop_assert!(!delivered, "{} is dropped and delivered", dropped.span);
        }
        // Leaves that merged give way to one item for each topmost node.
        let replaced = trace.counts.children_retrieved + trace.counts.parents_substituted - trace.counts.after_merge;
        prop_assert!(replaced >= 2 * trace.counts.parents_substituted);
        prop_assert_eq!(trace.counts.final_context, context.passages.len());
    }
}
