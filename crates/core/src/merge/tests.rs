//! Trees of letters and lists of their leaves through both rules.

use super::*;
use crate::collapse::{Standing, Standings};
use crate::document::Document;
use crate::hit::{Ancestor, Hit, LeafRecord};
use crate::offsets::{Offsets, TokenOffsets};
use crate::testing::Bytes;
use crate::tree::{Leaf, Node, Tree};
use proptest::prelude::*;

/// A document of nested nodes, as `a(b(c d) e)`: each leaf has ten tokens and ten bytes.
fn nested(text: &str) -> (Document, Vec<char>) {
    let mut tree = Tree::default();
    let mut names = Vec::new();
    let mut open: Vec<u32> = Vec::new();
    let letters: Vec<char> = text.chars().collect();
    for (at, &letter) in letters.iter().enumerate() {
        match letter {
            '(' => open.push(tree.nodes.len() as u32 - 1),
            ')' => {
                open.pop();
            }
            ' ' => {}
            name => {
                let index = tree.nodes.len() as u32;
                let is_leaf = letters.get(at + 1) != Some(&'(');
                let start = 10 * tree.leaves.len();
                let span = Span::new(start, start + 10);
                let kind = if is_leaf { NodeKind::Leaf } else { NodeKind::Section };
                let parent = open.last().copied();
                tree.nodes.push(Node {
                    kind,
                    span,
                    tokens: 10,
                    parent,
                    children: Vec::new(),
                    path: Vec::new(),
                });
                if let Some(parent) = parent {
                    tree.nodes[parent as usize].children.push(index);
                }
                names.push(name);
                if is_leaf {
                    tree.leaves.push(Leaf {
                        span,
                        tokens: 10,
                        node: index,
                        path: Vec::new(),
                        embedded_headings: 0,
                        prefix: Vec::new(),
                        top_level: None,
                        has_body: true,
                    });
                    for &above in &open {
                        let node = &mut tree.nodes[above as usize];
                        node.span = node.span.hull(span);
                        node.tokens = node.span.len() as u32;
                    }
                }
            }
        }
    }
    tree.nodes[0].kind = NodeKind::Root;
    let text = "x".repeat(10 * tree.leaves.len());
    let body = Span::new(0, text.len());
    let tokens = TokenOffsets::of(&text, &Bytes);
    let offsets = Offsets { tokens, ..Offsets::default() };
    let document = Document {
        text,
        body,
        title: String::new(),
        tree,
        offsets,
        anchors: Vec::new(),
        warnings: Vec::new(),
    };
    (document, names)
}

/// The hits, by the names of their leaves, best first.
fn voices(document: &Document, names: &[char], found: &str) -> Vec<Voice> {
    let voice = |(rank, name): (usize, char)| {
        let node = names.iter().position(|&other| other == name).unwrap() as u32;
        let tree = &document.tree;
        let id = LeafId([node as u8; 16]);
        let ancestors = tree.ancestors(node).map(|above| {
            let children = tree.nodes[above as usize].children.len() as u32;
            Ancestor { node: above, children }
        });
        let record = LeafRecord {
            leaf: id,
            doc: DocId(0),
            span: tree.nodes[node as usize].span,
            ordinal: 0,
            tokens: 10,
            node,
            ancestors: ancestors.collect(),
            cluster: id.into(),
        };
        let scores = Scores { fused: 1.0 / (rank as f32 + 1.0), ..Scores::default() };
        Voice::new(Hit { record, scores })
    };
    found.chars().enumerate().map(voice).collect()
}

fn list(voices: &[Voice]) -> Collapsed {
    Collapsed { voices: voices.to_vec(), ..Collapsed::default() }
}

/// The list after merging, and what fired, nearly fired and was blocked, as names.
fn run(text: &str, found: &str, config: &MergeConfig, budget_tokens: usize) -> (String, String) {
    let (document, names) = nested(text);
    let library: Library<'_> = [(DocId(0), &document)].into_iter().collect();
    let voices = voices(&document, &names, found);
    let (items, trace) = merge(&list(&voices), &library, config, 30, budget_tokens);
    let name = |node: u32| names[node as usize].to_string();
    let list = items.iter().map(|item| name(item.node)).collect();
    let mut log: Vec<String> = trace
        .fires
        .iter()
        .map(|fire| match fire.absorbed_by {
            Some(above) => format!("{}<{}", name(fire.share.node.node), name(above.node)),
            None => name(fire.share.node.node),
        })
        .collect();
    log.extend(trace.near_misses.iter().map(|share| format!("{}?", name(share.node.node))));
    log.extend(
        trace.blocked.iter().map(|(share, reason)| format!("{}!{reason:?}", name(share.node.node))),
    );
    (list, log.join(" "))
}

#[track_caller]
fn check(text: &str, found: &str, list: &str, log: &str) {
    assert_eq!(run(text, found, &MergeConfig::default(), 1000), (list.to_owned(), log.to_owned()));
}

#[test]
fn a_parent_replaces_its_children_when_enough_of_them_hit() {
    check("r(a(b c d) e(f g h) i)", "bc", "a", "a");
    check("r(a(b c d) e(f g h) i)", "bf", "bf", "");
    check("r(a(b c d e f) g h)", "bc", "bc", "a?");
}

#[test]
fn a_merged_node_stands_at_the_rank_of_its_best_evidence() {
    check("r(a(b c) d(e f g) h i)", "ecb", "ea", "a");
    check("r(a(b c) d(e f g) h i)", "ceb", "ae", "a");
}

#[test]
fn merging_goes_up_level_by_level() {
    check("r(a(b(c d) e(f g)) h(i j k) l m)", "cdfg", "a", "b<a e<a a");
    check("r(a(b(c d) e(f g)) h(i j k) l m)", "cdf", "bf", "b");
}

#[test]
fn nothing_that_was_not_retrieved_counts() {
    // One child of `a` fired, the other was not retrieved: one of two is no evidence for `a`.
    check("r(a(b(c d) e) h i j)", "cd", "b", "b");
    check("r(a(b(c d) e) h i j)", "cde", "a", "b<a a");
}

#[test]
fn two_children_of_one_parent_give_one_parent() {
    let config = MergeConfig { rule: by_children(0.0), ..MergeConfig::default() };
    let (list, log) = run("r(a(b c d e f g h) i(j k))", "bcj", &config, 1000);
    assert_eq!((list.as_str(), log.as_str()), ("aj", "a"));
}

fn by_children(ratio: f64) -> Rule {
    Rule::Ratio { ratio, by: RatioBy::Children }
}

fn with_rule(rule: Rule) -> MergeConfig {
    MergeConfig { rule, ..MergeConfig::default() }
}

#[test]
fn a_share_of_tokens_counts_large_children_more() {
    // `b` is a section of 30 tokens, `c` and `d` are leaves of 10.
    let half = |by| with_rule(Rule::Ratio { ratio: 0.7, by });
    let page = "r(a(b(x y z) c d) h i j k l m)";
    assert_eq!(run(page, "xyzc", &half(RatioBy::Children), 1000).1, "b a?");
    assert_eq!(run(page, "xyzc", &half(RatioBy::Tokens), 1000).1, "b<a a");
    let quarter = |by| with_rule(Rule::Ratio { ratio: 0.5, by });
    assert_eq!(run(page, "cd", &quarter(RatioBy::Children), 1000).1, "a");
    assert_eq!(run(page, "cd", &quarter(RatioBy::Tokens), 1000).1, "a?");
}

#[test]
fn the_budget_rule_asks_for_more_as_the_budget_fills() {
    let third = with_rule(Rule::Budget { base: 1.0 / 3.0 });
    // Two of five leaves are 20 of 50 tokens: enough while little is used, not at the end.
    let page = "r(a(b c d e f) g(h i j k l) m n o p)";
    assert_eq!(run(page, "bc", &third, 1000).1, "a");
    assert_eq!(run(page, "bc", &third, 80).1, "a?");
    // What was taken before counts as used: `a` is 50 of 100 tokens when `h` and `i` come.
    assert_eq!(run(page, "bchi", &third, 200), ("ahi".to_owned(), "a g?".to_owned()));
}

#[test]
fn the_budget_rule_merges_only_what_still_fits() {
    let third = with_rule(Rule::Budget { base: 1.0 / 3.0 });
    let page = "r(a(b c d) g(h i j) m n o p)";
    assert_eq!(run(page, "bchi", &third, 60).1, "a g r?");
    assert_eq!(run(page, "bchi", &third, 55).1, "a g!Budget");
}

#[test]
fn the_budget_rule_goes_up_and_takes_in_what_comes_later() {
    let third = with_rule(Rule::Budget { base: 1.0 / 3.0 });
    let page = "r(a(b(c d) e(f g)) h(i j k) l m n o p q)";
    // `b` fires at the second leaf; `a` has one matched child until `e` fires.
    assert_eq!(run(page, "cdfg", &third, 1000), ("a".to_owned(), "b<a e<a a".to_owned()));
    assert_eq!(run(page, "cfdg", &third, 1000), ("a".to_owned(), "b<a e<a a".to_owned()));
}

#[test]
fn what_is_too_large_is_blocked_with_the_reason() {
    let capped = MergeConfig { max_merge_tokens: 25, ..MergeConfig::default() };
    assert_eq!(run("r(a(b c d) e f g h)", "bc", &capped, 1000).1, "a!MaxMergeTokens");
    assert_eq!(run("r(a(b c d) e f g h)", "bc", &MergeConfig::default(), 25).1, "a!Budget");
    let protected = MergeConfig { merge_root: false, ..MergeConfig::default() };
    assert_eq!(run("r(a b)", "ab", &protected, 1000), ("ab".to_owned(), "r!Root".to_owned()));
    assert_eq!(run("r(a b)", "ab", &MergeConfig::default(), 1000).0, "r");
    let off = MergeConfig { enabled: false, ..MergeConfig::default() };
    assert_eq!(run("r(a b)", "ab", &off, 1000), ("ab".to_owned(), String::new()));
}

/// The list after merging and what fired or gave way, where the second document is a copy of the first: upper case is the
/// copy, and each letter of `found` brings along the other document's leaf of the same name.
fn run_copies(found: &str, config: &MergeConfig, standings: &Standings) -> (String, String) {
    let (document, names) = nested("r(a(b c d) e(f g h) i j k l m)");
    let library: Library<'_> = [(DocId(0), &document), (DocId(1), &document)].into_iter().collect();
    let lower = found.to_lowercase();
    let mut voices = voices(&document, &names, &lower);
    for (voice, letter) in voices.iter_mut().zip(found.chars()) {
        let mut copy = voice.hit.clone();
        copy.record.doc = DocId(1);
        if letter.is_uppercase() {
            std::mem::swap(&mut copy, &mut voice.hit);
        }
        voice.others.push(copy);
    }
    let list = Collapsed { standings: standings.clone(), ..list(&voices) };
    let (items, trace) = merge(&list, &library, config, 30, 1000);
    let name = |doc: DocId, node: u32| {
        let name = names[node as usize];
        if doc == DocId(1) { name.to_ascii_uppercase() } else { name }
    };
    let list = items.iter().map(|item| name(item.doc, item.node)).collect();
    let fired = trace.fires.iter().map(|fire| name(fire.share.node.doc, fire.share.node.node));
    let gave_way = trace.blocked.iter().map(|(share, reason)| {
        assert_eq!(*reason, BlockedBy::Rival);
        name(share.node.doc, share.node.node)
    });
    let log = fired.collect::<String>() + "!" + &gave_way.collect::<String>();
    (list, log)
}

#[track_caller]
fn check_copies(found: &str, standings: &[(u64, i64)], list: &str, log: &str) {
    let standing = |&(doc, authority)| (DocId(doc), Standing { authority, updated_at: None });
    let standings: Standings = standings.iter().map(standing).collect();
    for rule in [by_children(0.5), Rule::Budget { base: 1.0 / 3.0 }] {
        let got = run_copies(found, &with_rule(rule), &standings);
        assert_eq!(got, (list.to_owned(), log.to_owned()), "{found}, {rule:?}");
    }
}

#[test]
fn of_two_nodes_that_hold_the_same_clusters_one_fires() {
    check_copies("bc", &[], "a", "a!A");
    check_copies("BC", &[], "A", "A!a");
    // One speaks here, one there: the scores are the same, so the smaller id fires.
    check_copies("bC", &[], "a", "a!A");
}

#[test]
fn most_speakers_come_before_the_order_of_the_documents() {
    let copy_first = [(0, 1), (1, 2)];
    check_copies("bc", &copy_first, "a", "a!A");
    check_copies("bC", &copy_first, "A", "A!a");
    check_copies("Bc", &copy_first, "A", "A!a");
    check_copies("Bc", &[(0, 2), (1, 1)], "a", "a!A");
}

#[test]
fn copies_spread_over_two_documents_do_not_hide_that_three_siblings_matched() {
    let three = MergeConfig { min_siblings: 3, ..with_rule(by_children(0.5)) };
    for (found, fires) in [("bCd", "a"), ("bCD", "A"), ("Bcd", "a")] {
        let (list, log) = run_copies(found, &three, &Standings::default());
        // The node takes in all three, and no copy is delivered beside it.
        assert_eq!(list, fires, "{found}");
        assert!(log.starts_with(fires) && log.len() == 3, "{found}: {log}");
    }
    // Without the copies no document has three.
    let (document, names) = nested("r(a(b c d) e(f g h) i j k l m)");
    let library: Library<'_> = [(DocId(0), &document)].into_iter().collect();
    let two = list(&voices(&document, &names, "bd"));
    assert!(merge(&two, &library, &three, 30, 1000).1.fires.is_empty());
}

#[test]
fn mirrored_nodes_in_two_places_each_fire_once() {
    let by_share = with_rule(by_children(0.5));
    let fired = run_copies("bcFG", &by_share, &Standings::default());
    assert_eq!(fired, ("aE".to_owned(), "aE!eA".to_owned()));
}

#[test]
fn a_cluster_counts_by_any_member_and_is_then_gone_everywhere() {
    // `c` speaks in the copy, its twin stands beside `b`.
    check_copies("bC", &[], "a", "a!A");
    let by_share = run_copies("bCD", &MergeConfig::default(), &Standings::default());
    assert_eq!(by_share, ("A".to_owned(), "A!a".to_owned()));
}

/// A tree as `a(b(c d) e)`, each inner node with two to four children, and names for up to 60 nodes.
fn any_tree() -> impl Strategy<Value = String> {
    let leaf = Just("x".to_owned());
    let tree = leaf.prop_recursive(3, 40, 4, |inner| {
        prop::collection::vec(inner, 2..5).prop_map(|below| format!("x({})", below.concat()))
    });
    let inner = prop::collection::vec(tree, 2..5);
    inner.prop_map(|below| {
        let mut names = (0..).filter_map(|n| char::from_u32(0x4e00 + n));
        let shape = format!("x({})", below.concat());
        shape.chars().map(|c| if c == 'x' { names.next().unwrap_or(c) } else { c }).collect()
    })
}

proptest! {
    #[test]
    fn raising_the_share_adds_no_fire_and_the_absorbed_are_counted(
        text in any_tree(),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..20),
        (low, high) in (0.0f64..=1.0, 0.0f64..=1.0),
        by_tokens in any::<bool>(),
        min_siblings in 1usize..4,
    ) {
        let (document, names) = nested(&text);
        let library: Library<'_> = [(DocId(0), &document)].into_iter().collect();
        let leaves: Vec<char> =
            document.tree.leaves.iter().map(|leaf| names[leaf.node as usize]).collect();
        let mut found: Vec<char> = picks.iter().map(|pick| leaves[pick.index(leaves.len())]).collect();
        let mut seen = std::collections::BTreeSet::new();
        found.retain(|name| seen.insert(*name));
        let voices = voices(&document, &names, &found.iter().collect::<String>());
        let by = if by_tokens { RatioBy::Tokens } else { RatioBy::Children };
        let fires = |ratio: f64| {
            let rule = Rule::Ratio { ratio, by };
            let config = MergeConfig { rule, min_siblings, ..MergeConfig::default() };
            let (items, trace) = merge(&list(&voices), &library, &config, 30, 10_000);
            let evidence: usize = items.iter().map(|item| item.evidence.len()).sum();
            assert_eq!(evidence, voices.len(), "each leaf is evidence for one item");
            let topmost = trace.fires.iter().filter(|fire| fire.absorbed_by.is_none()).count();
            let merged = items.iter().filter(|item| item.kind == ItemKind::Merged).count();
            assert_eq!(topmost, merged);
            assert!(trace.fires.is_empty() || trace.could_fire);
            for item in &items {
                let scores = item.evidence.iter().map(|e| e.scores.final_score());
                assert!(scores.fold(f32::MIN, f32::max).total_cmp(&item.score()).is_eq());
                assert!(item.evidence.iter().all(|e| item.span.contains(e.span)));
            }
            trace.fires.iter().map(|fire| fire.share.node).collect::<std::collections::BTreeSet<_>>()
        };
        prop_assert!(fires(low.max(high)).is_subset(&fires(low.min(high))));
    }
}

#[test]
fn no_hits_give_an_empty_list() {
    check("r(a b)", "", "", "");
}
