//! Outlines through all rooms, at small targets.

use super::*;
use crate::measure::measure;
use crate::measure::words;
use crate::offsets::TokenCounter;
use crate::outline::{Format, parse};
use crate::span::SpanSet;
use crate::span::is_blank;
use crate::tree::NodeKind;
use proptest::prelude::*;

/// A token is a word with the blanks before it.
struct Words;
impl TokenCounter for Words {
    fn name(&self) -> &'static str {
        "words"
    }
    fn count(&self, text: &str) -> usize {
        text.split_whitespace().count()
    }
    fn starts(&self, text: &str) -> Vec<u32> {
        let ends = words(text, Span::new(0, text.len())).into_iter().map(|word| word.end as u32);
        let mut starts: Vec<u32> = std::iter::once(0).chain(ends).collect();
        starts.pop_if(|start| *start as usize >= text.len());
        starts
    }
}

/// An embedder that takes so many words.
struct Limit(usize);
impl EmbedLimit for Limit {
    fn max_tokens(&self) -> usize {
        self.0
    }
    fn count_tokens(&self, text: &str) -> usize {
        text.split_whitespace().count() + 2
    }
}

fn build_with(
    text: &str,
    config: &LeafConfig,
    limit: Option<&dyn EmbedLimit>,
) -> (Tree, Vec<String>) {
    let body = Span::new(0, text.len());
    let outline = parse(text, body, Format::Markdown);
    let offsets = measure(text, &outline, &Words);
    let source = Source { text, body, title: "doc", outline: &outline };
    let ruler = Ruler::Tokens(&offsets.tokens);
    build(source, &ruler, &ruler, config, limit)
}

fn tree(text: &str, target: usize) -> Tree {
    build_with(
        text,
        &LeafConfig { target, levels: vec![4 * target], ..LeafConfig::default() },
        None,
    )
    .0
}

/// The leaves as `path: text`, line feeds as `/`.
fn check(text: &str, target: usize, expected: &[&str]) {
    let tree = tree(text, target);
    let found: Vec<String> = tree
        .leaves
        .iter()
        .map(|leaf| {
            let path = tree.heading_texts(&leaf.path).join(">");
            format!("{path}: {}", slice(text, leaf.span).replace('\n', "/"))
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_section_that_fits_is_one_leaf_with_its_own_path() {
    check("# T\n\n## A\n\na\n\n### B\n\nb\n", 20, &["T>A: # T//## A//a//### B//b"]);
}

#[test]
fn top_level_sections_are_never_joined() {
    check(
        "# T\n\nt\n\n## A\n\na\n\n## B\n\nb\n",
        1000,
        &["T: # T//t", "T>A: ## A//a", "T>B: ## B//b"],
    );
    check("# A\n\na\n\n# B\n\nb\n", 1000, &["A: # A//a", "B: # B//b"]);
    check("## A\n\na\n\n# T\n\nt\n", 1000, &["A: ## A//a", "T: # T//t"]);
}

#[test]
fn small_siblings_are_grouped_under_their_parents_path() {
    check(
        "## A\n\n### a\n\n1 2 3\n\n### b\n\n1 2 3\n\n### c\n\n1 2 3\n\n### d\n\n1 2 3\n",
        12,
        &["A: ## A//### a//1 2 3//### b//1 2 3", "A: ### c//1 2 3//### d//1 2 3"],
    );
}

#[test]
fn a_group_of_one_keeps_its_own_path() {
    check(
        "## A\n\n### a\n\n1 2 3\n\n### b\n\n1 2 3 4 5 6 7 8\n\n### c\n\n1 2\n",
        8,
        &["A>a: ## A//### a//1 2 3", "A>b: ### b//1 2 3", "A>b: 4 5 6 7 8", "A>c: ### c//1 2"],
    );
}

#[test]
fn a_heading_without_body_joins_the_next_content_of_its_parent() {
    check(
        "# T\n\n## A\n\n### x\n\n### y\n\ny\n\n## B\n\nb\n",
        9,
        &["T>A: # T//## A//### x//### y//y", "T>B: ## B//b"],
    );
}

#[test]
fn the_last_heading_without_body_joins_the_content_before() {
    check("## A\n\na\n\n### x\n\n## B\n\nb\n", 9, &["A: ## A//a//### x", "B: ## B//b"]);
    check("## A\n\na\n\n## B\n", 9, &["A: ## A//a//## B"]);
    check("## A\n\n### x\n\n## B\n\nb\n", 9, &["B: ## A//### x//## B//b"]);
}

#[test]
fn rules_and_comments_are_no_body() {
    check(
        "## A\n\n---\n\n<!-- c -->\n\n## B\n\nb\n\n---\n",
        9,
        &["B: ## A//---//<!-- c -->//## B//b"],
    );
    check("---\n\na\n\n---\n\n# B\n\nb\n", 9, &[": a", "B: # B//b"]);
}

#[test]
fn a_document_of_headings_is_one_leaf() {
    check("# A\n\n## B\n\n## C\n", 2, &[": # A//## B//## C"]);
    let tree = tree("# A\n\n## B\n", 2);
    assert!(!tree.leaves[0].has_body);
    for text in ["# TODO\n", "Some text.\n\n# Title\n", "# Title\n\n<!-- c -->\n"] {
        let tree = super::tests::tree(text, 200);
        assert_eq!((tree.nodes.len(), tree.leaves.len()), (1, 1), "{text:?}");
    }
    check("\n \n", 9, &[]);
    check("---\n", 9, &[]);
}

#[test]
fn blocks_before_sentences_before_words() {
    check(
        "1 2 3\n\n4 5 6\n\n7 8. 9 10 11 12 13. 14.\n",
        6,
        &[": 1 2 3//4 5 6", ": 7 8.", ": 9 10 11 12 13. 14."],
    );
    check("1 2 3 4 5 6 7\n", 3, &[": 1", ": 2 3 4", ": 5 6 7"]);
}

#[test]
fn a_heading_stays_with_the_text_that_it_heads() {
    check("## A\n\n1 2 3 4 5 6 7 8 9 10\n", 5, &["A: ## A//1 2", "A: 3 4 5 6", "A: 7 8 9 10"]);
}

#[test]
fn a_list_keeps_its_introduction() {
    check(
        "a b c d\n\nsuch as:\n\n- 1 2\n- 3 4\n- 5 6\n",
        8,
        &[": a b c d", ": such as://- 1 2", ": - 3 4/- 5 6"],
    );
}

#[test]
fn table_parts_carry_the_header_and_code_parts_the_fence() {
    let table = "|a|b|\n|-|-|\n| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |\n| 7 | 8 |\n";
    let code = "```rust\na 1 2 3\nb 1 2 3\nc 1 2 3\nd 1 2 3\n```\n";
    for (text, target, prefix) in [(table, 13, "|a|b|\n|-|-|"), (code, 9, "```rust")] {
        let found = tree(text, target);
        assert!(found.leaves.len() > 1, "{:?}", found.leaves);
        assert!(found.leaves[0].prefix.is_empty());
        for leaf in &found.leaves[1..] {
            assert_eq!(
                leaf.prefix.iter().map(|&span| slice(text, span)).collect::<Vec<_>>(),
                [prefix]
            );
        }
    }
}

#[test]
fn long_runs_of_leaves_get_parts_of_several() {
    let text = (0..40).map(|n| format!("w{n} x y z.")).collect::<Vec<_>>().join("\n\n");
    let found = tree(&text, 4);
    let parts: Vec<_> =
        found.nodes.iter().filter(|n| n.kind == NodeKind::Part).map(|n| n.children.len()).collect();
    assert_eq!(parts, [4; 10]);
    assert!(found.nodes.iter().all(|node| node.children.len() != 1));
}

#[test]
fn overlap_repeats_the_end_of_the_leaf_before() {
    let config = LeafConfig { target: 6, overlap: 2, ..LeafConfig::default() };
    let text = "1 2. 3 4. 5 6. 7 8. 9 10.";
    let (tree, _) = build_with(text, &config, None);
    let found: Vec<_> = tree.leaves.iter().map(|leaf| slice(text, leaf.span)).collect();
    assert_eq!(found, ["1 2.", "3 4. 5 6.", "5 6. 7 8. 9 10."]);
}

#[test]
fn the_path_gives_way_before_the_leaf_is_cut() {
    let text = "# one two three\n\n## four five\n\na b c d e f\n";
    let shorter = build_with(text, &LeafConfig::default(), Some(&Limit(18)));
    assert_eq!((shorter.0.leaves.len(), shorter.0.leaves[0].embedded_headings), (1, 1));
    assert!(!shorter.1.is_empty());
    let cut = build_with(text, &LeafConfig::default(), Some(&Limit(12)));
    assert!(cut.0.leaves.len() > 1);
}

#[test]
fn what_a_configuration_gets_wrong_is_named() {
    let check = |config: LeafConfig, words: &str| {
        assert_eq!(config.check().unwrap_err().to_string(), words);
    };
    let config = LeafConfig::default();
    check(
        LeafConfig { overlap: 200, ..config.clone() },
        "`leaf.overlap` is 200, want less than `leaf.target`, which is 200",
    );
    check(
        LeafConfig { levels: vec![512, 2048], ..config.clone() },
        "`leaf.levels` holds 2048 behind 512, want falling sizes above 0",
    );
    assert_eq!(config.check(), Ok(()));
}

/// Markdown with every kind of block, in random order.
fn any_markdown() -> impl Strategy<Value = String> {
    let words = "[a-eé漢]{1,9}( [a-eé漢🙂]{1,9}){0,12}[.!:]?";
    let block = prop_oneof![
        4 => (1usize..5, words).prop_map(|(level, text)| format!("{} {text}", "#".repeat(level))),
        6 => words.prop_map(|text| text),
        2 => prop::collection::vec(words, 1..6).prop_map(|items| items.join("\n- ")).prop_map(|items| format!("- {items}")),
        1 => prop::collection::vec(words, 1..6).prop_map(|rows| format!("| x |\n|---|\n| {} |", rows.join(" |\n| "))),
        1 => prop::collection::vec(words, 1..6).prop_map(|lines| format!("```\n{}\n```", lines.join("\n"))),
        1 => words.prop_map(|text| format!("> {text}\n>\n> - {text}\n>   - {text}")),
        1 => Just("---".to_owned()),
        1 => Just("<!-- # c -->".to_owned()),
        1 => Just("[x]: http://e".to_owned()),
        1 => Just("<div>\n<h2>h</h2>\ntext\n</div>".to_owned()),
        1 => "[#>|`\\-\\[\\]: \\t\na-c\u{a0}]{0,20}".prop_map(|text| text),
    ];
    prop::collection::vec(block, 0..24).prop_map(|blocks| blocks.join("\n\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 3000, ..ProptestConfig::default() })]
    #[test]
    fn every_tree_keeps_its_promises(
        text in any_markdown(),
        target in 1usize..40,
        overlap in 0usize..3,
        limit in prop::option::of(6usize..40),
    ) {
        let overlap = overlap.min(target - 1);
        let config = LeafConfig { target, overlap, levels: vec![8 * target, 3 * target], keep_whole: 0 };
        let limit = limit.map(Limit);
        let (tree, _) = build_with(&text, &config, limit.as_ref().map(|l| l as &dyn EmbedLimit));
        promises(&text, &tree, &config, limit.as_ref());
    }
}

fn promises(text: &str, tree: &Tree, config: &LeafConfig, limit: Option<&Limit>) {
    let rules: SpanSet = tree.dropped_rules.iter().copied().collect();
    let mut at = 0;
    for leaf in &tree.leaves {
        let start = leaf.span.start;
        assert_eq!(leaf.span.trim(text), leaf.span, "blank edge in {text:?}");
        assert!(config.overlap > 0 || start >= at, "leaves overlap in {text:?}");
        if at < start {
            assert!(
                rules.missing_from(Span::new(at, start)).iter().all(|&gap| is_blank(text, gap)),
                "lost {:?} of {text:?}",
                slice(text, Span::new(at, start))
            );
        }
        at = leaf.span.end;
        assert!(
            leaf.has_body || tree.leaves.len() == 1,
            "empty body {:?} of {text:?}",
            slice(text, leaf.span)
        );
        if let Some(limit) = limit {
            let embedded = embedded_text(text, "doc", tree, leaf);
            let single = slice(text, leaf.span).split_whitespace().count() == 1;
            assert!(
                single || limit.count_tokens(&embedded) <= limit.max_tokens(),
                "{embedded:?} is over {}",
                limit.0
            );
        }
    }
    assert!(
        rules.missing_from(Span::new(at, text.len())).iter().all(|&gap| is_blank(text, gap)),
        "lost the end of {text:?}"
    );
    for (index, node) in tree.nodes.iter().enumerate() {
        assert_eq!(node.children.is_empty(), node.kind == NodeKind::Leaf, "{node:?} in {text:?}");
        assert_ne!(node.children.len(), 1, "one child in {text:?}");
        let hull =
            node.children.iter().map(|&child| tree.nodes[child as usize].span).reduce(Span::hull);
        assert_eq!(hull.unwrap_or(node.span), node.span);
        for &child in &node.children {
            assert_eq!(tree.nodes[child as usize].parent, Some(index as u32));
        }
    }
    for top in tree.top_level.windows(2) {
        assert!(top[0].end <= top[1].start, "a leaf spans two top-level sections of {text:?}");
    }
}

#[test]
fn an_overlap_never_repeats_the_whole_leaf_before() {
    let config = LeafConfig { target: 2, overlap: 1, ..LeafConfig::default() };
    let text = "a b c d e f g h";
    let (tree, _) = build_with(text, &config, None);
    assert!(tree.leaves.is_sorted_by(|a, b| a.span.start < b.span.start), "{:?}", tree.leaves);
}
