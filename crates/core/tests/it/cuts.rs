//! What goes with the parts of a table, a code block and a list that are too large for one leaf.

use crate::support::{Words, document, keeps_its_promises, outline, target};
use std::cell::Cell;
use umbel_core::leaf::{EmbedLimit, LeafConfig, Source, build};
use umbel_core::measure::{Ruler, measure};
use umbel_core::offsets::TokenCounter;
use umbel_core::outline::Format;
use umbel_core::span::{Span, slice};
use umbel_core::tree::Tree;

fn shown(text: &str, tree: &Tree) -> Vec<String> {
    let of = |span: Span| slice(text, span).replace('\n', "/");
    let shown = tree.leaves.iter().map(|leaf| {
        let prefix: Vec<String> = leaf.prefix.iter().map(|&span| of(span)).collect();
        if prefix.is_empty() {
            of(leaf.span)
        } else {
            format!("[{}] {}", prefix.join("+"), of(leaf.span))
        }
    });
    shown.collect()
}

/// The leaves, each behind its prefix in brackets, line feeds as `/`. No prefix is counted twice.
fn check(text: &str, config: &LeafConfig, wanted: &[&str]) {
    let (document, _) = document(text, Format::Markdown, config);
    assert_eq!(shown(text, &document.tree), wanted);
    for leaf in &document.tree.leaves {
        assert_eq!(leaf.tokens as usize, document.offsets.tokens.count(leaf.span));
        let prefix: usize = leaf.prefix.iter().map(|&p| document.offsets.tokens.count(p)).sum();
        assert!(leaf.tokens as usize + prefix <= config.target, "{leaf:?}");
    }
    assert_eq!(document.warnings, [] as [&str; 0]);
    keeps_its_promises(text, Format::Markdown);
}

#[test]
fn parts_of_a_table_carry_header_and_delimiter_row() {
    check(
        "|a|b|\n|-|-|\n|1 2 3|\n|4 5 6|\n|7 8 9|\n|1 2 3|\n",
        &target(8),
        &["|a|b|/|-|-|/|1 2 3|/|4 5 6|", "[|a|b|/|-|-|] |7 8 9|/|1 2 3|"],
    );
}

#[test]
fn a_row_too_large_for_a_leaf_carries_the_header_too() {
    check(
        "|a|\n|-|\n|1 2 3 4 5 6 7 8 9 10|\n",
        &target(8),
        &["|a|/|-|/|1 2 3 4 5", "[|a|/|-|] 6 7 8 9 10|"],
    );
}

#[test]
fn tables_in_lists_and_quotes_carry_their_header() {
    check(
        "- |a|\n  |-|\n  |1 2 3|\n  |4 5 6|\n  |7 8 9|\n",
        &target(9),
        &["- |a|/  |-|/  |1 2 3|", "[|a|/  |-|] |4 5 6|/  |7 8 9|"],
    );
    check(
        "> |a|\n> |-|\n> |1 2 3|\n> |4 5 6|\n> |7 8 9|\n",
        &target(12),
        &["> |a|/> |-|/> |1 2 3|", "[|a|/> |-|] > |4 5 6|/> |7 8 9|"],
    );
}

#[test]
fn parts_of_code_carry_the_fence_line() {
    check(
        "```rust\na 1 2\n\nb 1 2\nc 1 2\nd 1 2\n```\n",
        &target(8),
        &["```rust/a 1 2//b 1 2", "[```rust] c 1 2/d 1 2/```"],
    );
    check(
        "- ~~~ rust x\n  a 1 2\n  b 1 2\n  c 1 2\n  d 1 2\n  ~~~\n",
        &target(12),
        &["- ~~~ rust x/  a 1 2/  b 1 2", "[~~~ rust x] c 1 2/  d 1 2/  ~~~"],
    );
    check(
        "> ```\n> a 1\n> b 1\n> c 1\n> ```\n",
        &target(8),
        &["> ```/> a 1/> b 1", "[```] > c 1/> ```"],
    );
    check("    a 1 2\n    b 1 2\n", &target(4), &["a 1 2", "b 1 2"]);
}

#[test]
fn a_line_of_quote_markers_before_a_fence_is_no_code() {
    for text in [
        "> a b c:\n>\n> ```x\n> 1 1\n> 2 2\n> 3 3\n> ```\n",
        "> >\n> > ```x\n> > 1 1\n> > 2 2\n> > 3 3\n",
        "- >\n  > ```\n  > 1 1\n  > 2 2\n  > 3 3\n",
    ] {
        for size in 3..9 {
            let (document, _) = document(text, Format::Markdown, &target(size));
            for leaf in &document.tree.leaves {
                assert!(
                    leaf.prefix.iter().all(|p| p.end <= leaf.span.start),
                    "{leaf:?} in {text:?}"
                );
            }
        }
    }
}

#[test]
fn a_list_keeps_its_introduction_where_it_fits() {
    check(
        "a b c\n\nUse one of:\n\n- 1 2 3\n- 4 5 6\n- 7 8 9\n",
        &target(8),
        &["a b c", "Use one of://- 1 2 3", "- 4 5 6/- 7 8 9"],
    );
    // An introduction of more than half a leaf is cut like any text.
    check(
        "Use one of these things here:\n\n- 1 2 3\n- 4 5 6\n",
        &target(8),
        &["Use one of these things here:", "- 1 2 3/- 4 5 6"],
    );
}

#[test]
fn an_overlap_does_not_reach_into_the_prefix() {
    let config = LeafConfig { overlap: 3, ..target(10) };
    for text in [
        "|a|b|\n|-|-|\n|1|\n|4 5 6 7|\n|7 8 9 10|\n|1 2 3|\n",
        "```rust\na 1\nb 1 2 3 4 5\nc 1 2 3 4\nd 1 2\n```\n",
    ] {
        let (document, _) = document(text, Format::Markdown, &config);
        assert!(document.tree.leaves.iter().any(|leaf| !leaf.prefix.is_empty()));
        for leaf in &document.tree.leaves {
            assert!(leaf.prefix.iter().all(|prefix| prefix.end <= leaf.span.start), "{leaf:?}");
        }
    }
}

/// An embedder that takes so many words.
struct Limit(usize);

impl EmbedLimit for Limit {
    fn max_tokens(&self) -> usize {
        self.0
    }

    fn count_tokens(&self, text: &str) -> usize {
        Words.count(text) + 2
    }
}

#[test]
fn a_prefix_above_a_quarter_of_the_limit_is_left_out_with_a_warning() {
    let check = |text: &str, target: usize, limit: Option<usize>, prefixed: bool, warning: &str| {
        let body = Span::new(0, text.len());
        let outline = outline(text, Format::Markdown);
        let offsets = measure(text, &outline, &Words);
        let ruler = Ruler::Tokens(&offsets.tokens);
        let source = Source { text, body, title: "", outline: &outline };
        let limit = limit.map(Limit);
        let limit = limit.as_ref().map(|limit| limit as &dyn EmbedLimit);
        let config = LeafConfig { target, ..LeafConfig::default() };
        let (tree, warnings) = build(source, &ruler, &ruler, &config, limit);
        assert!(tree.leaves.len() > 1);
        let all = tree.leaves.iter().skip(1).all(|leaf| leaf.prefix.is_empty() != prefixed);
        assert!(all, "{:?}", shown(text, &tree));
        assert_eq!(warnings.join("; "), warning);
    };
    let table = format!("|a b c d|\n|-|\n{}", "|1 2 3 4|\n".repeat(20));
    check(&table, 20, None, true, "");
    check(
        &table,
        19,
        None,
        false,
        "a table header of 5 tokens is left out of the parts behind the first one: more than a quarter of 19",
    );
    check(&table, 20, Some(28), true, "");
    check(
        &table,
        20,
        Some(27),
        false,
        "a table header of 7 tokens is left out of the parts behind the first one: more than a quarter of 27",
    );
    check(
        &table,
        9,
        Some(500),
        false,
        "a table header of 5 tokens is left out of the parts behind the first one: a leaf has 9",
    );
    let code = format!("```a b c d\n{}```\n", "1 2 3 4\n".repeat(20));
    check(
        &code,
        12,
        None,
        false,
        "a code fence of 4 tokens is left out of the parts behind the first one: more than a quarter of 12",
    );
}

/// Four bytes are a token, for the budget and for the embedder, which counts how often it is asked.
struct Fours(Cell<usize>);

impl EmbedLimit for Fours {
    fn max_tokens(&self) -> usize {
        256
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.0.set(self.0.get() + 1);
        text.len().div_ceil(4) + 2
    }
}

struct Bytes;

impl TokenCounter for Bytes {
    fn name(&self) -> &'static str {
        "four bytes"
    }

    fn count(&self, text: &str) -> usize {
        text.len().div_ceil(4)
    }

    fn starts(&self, text: &str) -> Vec<u32> {
        (0..text.len() as u32).step_by(4).collect()
    }
}

#[test]
fn a_word_of_a_megabyte_takes_few_calls_of_the_tokenizer() {
    let long = "a heading of many words ".repeat(12);
    for part in ["a", "ab1-", "漢", "a\u{301}"] {
        let text = format!("# {long}\n\n## {long}\n\n{}\n", part.repeat(1_000_000 / part.len()));
        let body = Span::new(0, text.len());
        let outline = outline(&text, Format::Markdown);
        let offsets = measure(&text, &outline, &Bytes);
        let ruler = Ruler::Tokens(&offsets.tokens);
        let source = Source { text: &text, body, title: "", outline: &outline };
        let limit = Fours(Cell::new(0));
        let (tree, _) = build(source, &ruler, &ruler, &LeafConfig::default(), Some(&limit));
        let calls = limit.0.get();
        assert!(calls < 20 * tree.leaves.len(), "{calls} calls, {} leaves", tree.leaves.len());
    }
}
