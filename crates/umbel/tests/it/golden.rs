//! Numbers that must come out: when a merge rule can fire, what budgets come to.

use super::support::{context, read_with, settings};
use umbel::core::document::Document;
use umbel::core::merge::{RatioBy, Rule, need, satisfiable, share_of_list};
use umbel::core::offsets::TokenCounter as _;
use umbel::core::tree::NodeKind;
use umbel::tokens::OpenAiTokens;

#[test]
fn need_follows_count_and_share() {
    // levels 2048/512: four children; 2048/128: sixteen.
    let check = |children, min_siblings, ratio, expected| {
        assert_eq!(need(children, min_siblings, ratio), expected);
    };
    check(4, 2, 0.5, 2);
    check(4, 3, 0.5, 3);
    check(16, 3, 0.5, 8);
    check(40, 3, 0.5, 20);
    check(3, 2, 0.34, 2);
    check(2, 3, 0.5, 3);
    check(10, 2, 0.0, 2);
}

#[test]
fn a_rule_that_cannot_fire_is_found_by_arithmetic() {
    assert!(satisfiable(4, 2, 0.5, 12));
    assert!(satisfiable(16, 3, 0.5, 12));
    // Eight of sixteen in a list of twelve: two thirds of the list belong to one parent.
    assert!((share_of_list(16, 3, 0.5, 12) - 0.67).abs() < 0.005);
    assert!(!satisfiable(16, 3, 0.5, 7));
    assert!(!satisfiable(2, 3, 0.5, 30));
}

/// Text without headings, as long as four parents of 2,048 tokens: 1,024 lines of 8 tokens.
fn flat_text() -> String {
    (0..1024).map(|n| format!("Line {} is of one kind.\n\n", 100 + n % 900)).collect()
}

#[test]
fn a_text_without_headings_gets_the_levels_that_are_set() {
    for (leaf, children) in [(512, 4), (128, 16)] {
        let target = format!("leaf.target={leaf}");
        let document = read_with(&flat_text(), &[&target, "leaf.levels=[2048]"], None);
        let parts: Vec<usize> = document
            .tree
            .nodes
            .iter()
            .filter(|n| n.kind == NodeKind::Part)
            .map(|n| n.children.len())
            .collect();
        assert_eq!(parts, [children; 4]);
    }
}

#[test]
fn the_fire_rate_is_0_where_arithmetic_says_so() {
    let document = read_with(&flat_text(), &["leaf.target=128", "leaf.levels=[2048]"], None);
    let part =
        document.tree.nodes.iter().position(|n| n.kind == NodeKind::Part && n.children.len() == 16);
    let part = &document.tree.nodes[part.expect("a part of sixteen leaves")];
    let ordinals: Vec<usize> = document
        .tree
        .leaves
        .iter()
        .enumerate()
        .filter(|(_, l)| part.span.contains(l.span))
        .map(|(at, _)| at)
        .collect();
    for (depth, fires) in [(7, 0), (8, 1), (12, 1)] {
        let mut config = settings(100_000);
        config.depth = depth;
        config.merge.min_siblings = 3;
        config.merge.max_merge_tokens = 3000;
        let found: Vec<(usize, usize)> =
            ordinals.iter().take(16).map(|&ordinal| (0, ordinal)).collect();
        let (_, trace) = context(&[&document], &found, &config);
        assert_eq!(trace.merge.fires.len(), fires, "depth {depth}");
        assert_eq!(satisfiable(16, 3, 0.5, depth), fires > 0);
        assert_eq!(trace.merge.could_fire, fires > 0, "the search says so too");
    }
}

/// Text of exactly so many tokens that ends at one, of sentences of at most eleven.
fn sized(tokens: usize) -> String {
    let counter = OpenAiTokens::o200k();
    let sentences = tokens / 11;
    let head = "The red door by the blue lake is shut. ".repeat(sentences);
    let fill = |words: usize| head.clone() + "End" + &" stone".repeat(words);
    (0..tokens).map(fill).find(|text| counter.count(text) == tokens).unwrap()
}

#[test]
fn twelve_children_of_200_tokens_are_2400_whatever_the_documents() {
    let page = vec![sized(200); 24].join("\n\n");
    let pages =
        [read_with(&page, &["leaf.levels=[]"], None), read_with(&page, &["leaf.levels=[]"], None)];
    let documents: Vec<&Document> = pages.iter().collect();
    for document in &documents {
        assert_eq!(
            document.tree.leaves.iter().map(|leaf| leaf.tokens).collect::<Vec<_>>(),
            [200; 24]
        );
    }
    let mut config = settings(10_000);
    config.merge.enabled = false;
    for n_of_first in [12, 7, 0] {
        let hit = |at: usize| (usize::from(at >= n_of_first), 2 * at);
        let found: Vec<(usize, usize)> = (0..12).map(hit).collect();
        let (context, _) = context(&documents, &found, &config);
        assert_eq!((context.passages.len(), context.tokens), (12, 2400));
    }
}

#[test]
fn sections_of_640_and_1950_tokens_are_four_and_ten_leaves() {
    let section = |heading: &str, tokens: usize| {
        let heading = format!("## {heading}\n\n");
        let counter = OpenAiTokens::o200k();
        let own = counter.count(&heading);
        heading + &sized(tokens - own)
    };
    let document = read_with(&(section("A", 640) + "\n\n" + &section("B", 1950)), &[], None);
    let tree = &document.tree;
    let sizes: Vec<usize> =
        tree.top_level.iter().map(|&span| document.offsets.tokens.count(span)).collect();
    assert_eq!(sizes, [640, 1950]);
    let leaves = |of: u32| tree.leaves.iter().filter(|leaf| leaf.top_level == Some(of)).count();
    assert_eq!((leaves(0), leaves(1)), (4, 10));
}

#[test]
fn the_counts_of_a_trace_add_up() {
    let page = vec![sized(200); 6].join("\n\n");
    let document =
        read_with(&format!("## A\n\n{page}\n\n## B\n\n{page}\n"), &["leaf.levels=[]"], None);
    // Two children are enough, whatever the share.
    let mut config = settings(10_000);
    config.merge.rule = Rule::Ratio { ratio: 0.0, by: RatioBy::Children };
    config.merge.max_merge_tokens = 2000;
    config.merge.merge_root = false;
    let last = document.tree.leaves.len() - 1;
    let (context, trace) = context(&[&document], &[(0, 0), (0, last), (0, 2), (0, 4)], &config);
    let counts = trace.counts;
    assert_eq!(
        (counts.children_retrieved, counts.after_merge, counts.parents_substituted),
        (4, 2, 1)
    );
    assert_eq!(counts.final_context, context.passages.len());
    assert_eq!(context.passages.iter().map(|p| p.evidence.len()).collect::<Vec<_>>(), [3, 1]);
}
