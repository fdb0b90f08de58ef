//! Numbers that must come out: when a merge rule can fire, what budgets come to.

use super::support::{context, read_with, settings};
use umbel::core::merge::{need, satisfiable, share_of_list};
use umbel::core::tree::NodeKind;

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

#[test]
fn three_of_four_fire_and_three_of_forty_do_not() {
    let fires = |matched: usize, children: usize| matched >= need(children, 3, 0.5);
    assert_eq!([fires(3, 4), fires(3, 16), fires(3, 40)], [true, false, false]);
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
    }
}
