//! What writers of documentation add to CommonMark: MDX, admonitions, tabs, footnotes, tables, raw HTML, other line ends.

use crate::support::{blocks, document, headings, keeps_its_promises, outline, target};
use umbel_core::leaf::embedded_text;
use umbel_core::outline::Format;
use umbel_core::span::slice;

/// The headings, and the top blocks; all that is promised holds with every kind of line end and behind a byte order mark.
fn check(format: Format, text: &str, wanted_headings: &[&str], wanted_blocks: &[&str]) {
    let read = outline(text, format);
    assert_eq!(headings(&read), wanted_headings, "{text:?}");
    assert_eq!(blocks(text, &read), wanted_blocks, "{text:?}");
    for text in [text.to_owned(), format!("\u{feff}{text}")] {
        for line_end in ["\n", "\r\n", "\r"] {
            let text = text.replace('\n', line_end);
            let other = outline(&text, format);
            assert_eq!(headings(&other), wanted_headings, "{text:?}");
            assert_eq!(blocks(&text, &other), wanted_blocks, "{text:?}");
            keeps_its_promises(&text, format);
        }
    }
}

fn markdown(text: &str, headings: &[&str], blocks: &[&str]) {
    check(Format::Markdown, text, headings, blocks);
}

fn mdx(text: &str, headings: &[&str], blocks: &[&str]) {
    check(Format::Mdx, text, headings, blocks);
}

#[test]
fn a_heading_in_an_admonition_is_text_of_it() {
    markdown(
        "# A\n\n:::note[Title]\n\n## B\n\nb\n\n- c\n:::\n\nd\n",
        &["1:A"],
        &["Heading(0) # A", "Quote :::note[Title]//## B//b//- c/:::", "Paragraph d"],
    );
    markdown(
        "::::tip\n\na\n\n:::info\n<h2>b</h2>\n:::\n\n## c\n\n::::\n\n# D\n",
        &["1:D"],
        &["Quote ::::tip//a//:::info/<h2>b</h2>/::://## c//::::", "Heading(0) # D"],
    );
    markdown(":::note a\nb\n:::\n", &[], &["Paragraph :::note a/b/:::"]);
}

#[test]
fn colons_that_close_nothing_or_are_code_are_no_admonition() {
    markdown(
        ":::note\n\n## A\n\na\n",
        &["2:A"],
        &["Paragraph :::note", "Heading(0) ## A", "Paragraph a"],
    );
    markdown(
        "```\n:::note\n```\n\n## A\n\n```\n:::\n```\n",
        &["2:A"],
        &["FencedCode ```/:::note/```", "Heading(0) ## A", "FencedCode ```/:::/```"],
    );
}

#[test]
fn indented_admonitions_and_tabs_open_no_section() {
    markdown(
        "!!! note \"Title\"\n    # a\n\n    # b\n\nc\n",
        &[],
        &["Paragraph !!! note \"Title\"/    # a", "IndentedCode # b", "Paragraph c"],
    );
    markdown(
        "=== \"Tab 1\"\n\n    # a\n\n=== \"Tab 2\"\n\n    b\n",
        &[],
        &[
            "Paragraph === \"Tab 1\"",
            "IndentedCode # a",
            "Paragraph === \"Tab 2\"",
            "IndentedCode b",
        ],
    );
    markdown("> [!NOTE]\n> # a\n>\n> b\n", &[], &["Quote > [!NOTE]/> # a/>/> b"]);
}

#[test]
fn footnotes_tables_and_html_are_blocks() {
    markdown(
        "a[^1]\n\n[^1]: b\n\n    # c\n\nd\n",
        &[],
        &["Paragraph a[^1]", "Footnote [^1]: b//    # c", "Paragraph d"],
    );
    markdown(
        "| # a | b |\n|:--|--:|\n| # 1 | 2 \\| 3 |\n\n# C\n",
        &["1:C"],
        &["Table | # a | b |/|:--|--:|/| # 1 | 2 \\| 3 |", "Heading(0) # C"],
    );
    markdown(
        "<details>\n<summary>a</summary>\n# no\n\n## B\n\n</details>\n",
        &["2:B"],
        &["Html <details>/<summary>a</summary>/# no", "Heading(0) ## B", "Html </details>"],
    );
    markdown(
        "<Tabs>\n<Tab title=\"x\">\n\n## A\n\n</Tab>\n</Tabs>\n",
        &["2:A"],
        &["Html <Tabs>/<Tab title=\"x\">", "Heading(0) ## A", "Html </Tab>/</Tabs>"],
    );
}

#[test]
fn statements_and_comments_of_mdx_are_comments() {
    mdx(
        "import A from 'a'\nimport {\n  B,\n\n  C\n} from \"b\";\n\nexport const d = {\n  # e\n\n  text: `\n\n# f\n`\n}\n\n# G\n\n{/* # h\n\n# i */}\n\nj\n",
        &["1:G"],
        &[
            "Comment import A from 'a'/import {/  B,//  C/} from \"b\";",
            "Comment export const d = {/  # e//  text: `//# f/`/}",
            "Heading(0) # G",
            "Comment {/* # h//# i */}",
            "Paragraph j",
        ],
    );
}

#[test]
fn elements_and_expressions_of_mdx_are_html() {
    mdx(
        "<Code\n  text={`\n# a\n\n# b\n`}\n/>\n\n## C\n\n{\n  list.map(x => (\n\n# d\n  ))\n}\n\n<h2>E</h2>\n",
        &["2:C", "2:E"],
        &[
            "Html <Code/  text={`/# a//# b/`}//>",
            "Heading(0) ## C",
            "Html {/  list.map(x => (//# d/  ))/}",
            "Heading(1) <h2>E</h2>",
        ],
    );
    mdx(
        "<Tabs>\n  <Tab title=\"a > b\">\n# no\n\n## A\n\n  </Tab>\n</Tabs>\n",
        &["2:A"],
        &["Html <Tabs>/  <Tab title=\"a > b\">/# no", "Heading(0) ## A", "Html </Tab>/</Tabs>"],
    );
}

#[test]
fn prose_and_code_in_mdx_stay_what_they_are() {
    mdx(
        "import duties rose.\n\nexport them, don't wait.\n\n{x} is a number.\n\n<b>a</b> b\n\n<https://e.com>\n\n```js\nimport a from 'a'\n\n{\n```\n\n- a\n\n  {/* b */}\n\n- b\n\n{ # c\n\n# D\n",
        &["1:D"],
        &[
            "Paragraph import duties rose.",
            "Paragraph export them, don't wait.",
            "Paragraph {x} is a number.",
            "Paragraph <b>a</b> b",
            "Paragraph <https://e.com>",
            "FencedCode ```js/import a from 'a'//{/```",
            "List - a//  {/* b */}//- b",
            "Paragraph { # c",
            "Heading(0) # D",
        ],
    );
}

#[test]
fn text_that_opens_and_never_closes_takes_linear_time() {
    let n = 40_000;
    for part in [
        "{\n\n",
        "<A\n\n",
        "<A b=\"\n\n",
        "`\\`\n\n",
        "export let a = {\n\n",
        "{/*\n\n",
        ":::a\n\n",
        ":::\n\n",
    ] {
        for text in [part.repeat(n), format!("{}{}", part.repeat(n), "}x\n".repeat(n))] {
            assert!(!outline(&text, Format::Mdx).blocks.is_empty());
        }
    }
}

#[test]
fn a_statement_goes_with_the_text_behind_it() {
    let text = "import A from 'a'\n\n# T\n\na\n\n## B\n\n<A />\n";
    let (document, _) = document(text, Format::Mdx, &target(200));
    let found: Vec<_> = document.tree.leaves.iter().map(|leaf| slice(text, leaf.span)).collect();
    assert_eq!(found, ["import A from 'a'\n\n# T\n\na", "## B\n\n<A />"]);
    let embedded = embedded_text(text, "T", &document.tree, &document.tree.leaves[1]);
    assert_eq!(embedded, "T > B\n## B\n\n<A />");
}
