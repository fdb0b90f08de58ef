//! Pages → Markdown, through the whole conversion.
//!
//! Invariant: a case names the smallest page that shows it.

use super::blocks::{Inside, Piece};
use super::page::fold;
use super::walk::Walk;
use super::*;
use proptest::prelude::*;
use umbel_core::document::Place;
use umbel_core::outline::{Format, parse as outline};
use umbel_core::span::{Span, slice};

fn text(html: &str) -> String {
    match convert(html.as_bytes()) {
        Ok(converted) => converted.text,
        Err(ConvertError::NoText { .. }) => String::new(),
        Err(error) => panic!("{error}"),
    }
}

/// The Markdown of a page, without its last line feed.
fn check(html: &str, expected: &str) {
    assert_eq!(text(html).trim_end_matches('\n'), expected, "{html:?}");
}

/// The anchors as `id:text behind it, up to eight characters`.
fn check_anchors(html: &str, expected: &[&str]) {
    let converted = convert(html.as_bytes()).unwrap();
    let found: Vec<_> = converted
        .anchors
        .iter()
        .map(|anchor| {
            let Place::Element(id) = &anchor.place else { panic!("{anchor:?}") };
            let rest = slice(&converted.text, Span::new(anchor.offset, converted.text.len()));
            format!("{id}:{}", rest.chars().take(8).collect::<String>())
        })
        .collect();
    assert_eq!(found, expected, "{html:?} gave {:?}", converted.text);
}

/// The text, and what pulldown-cmark shows of it as plain text.
fn check_verbatim(plain: &str) {
    let html: String = plain.chars().map(|c| format!("&#{};", c as u32)).collect();
    let text = text(&format!("<p>{html}"));
    let outline = outline(&text, Span::new(0, text.len()), Format::Markdown);
    assert!(outline.headings.is_empty(), "{text:?}");
    let kinds: Vec<_> = outline.blocks.iter().map(|block| block.kind).collect();
    assert_eq!(kinds, [umbel_core::outline::BlockKind::Paragraph], "{text:?}");
    let title = self::text(&format!("<h2>{html}</h2>"));
    let found = umbel_core::outline::parse(&title, Span::new(0, title.len()), Format::Markdown);
    assert_eq!(found.headings.first().map(|h| h.text.as_str()), Some(plain), "{title:?}");
}

#[test]
fn blocks_are_apart_and_blanks_fold() {
    check("<p>a\n  b&nbsp;c<p>d", "a b c\n\nd");
    check("<div>a<div>b</div>c</div>", "a\n\nb\n\nc");
    check("a<br>b<br><br>c", "a  \nb\n\nc");
    check("<h1>A</h1>x<h2> B <br> b</h2>y", "# A\n\nx\n\n## B b\n\ny");
    check("<p>a</p><hr><p>b</p>", "a\n\n* * *\n\nb");
    check("soft&shy;hyphen zero&#8203;width", "softhyphen zerowidth");
}

#[test]
fn lists_nest() {
    check("<ul><li>a<li>b<ul><li>c</ul><li>d</ul>e", "- a\n- b\n  - c\n- d\n\ne");
    check("<ol start=3><li>a<li><p>b</p><p>c</p></ol>", "3. a\n4. b\n\n   c");
    check("<ol><li value=7>a<li>b</ol>", "7. a\n8. b");
    check("<ul><li></li><li>a</ul>", "- a");
    check("<ul><li><ul><li>a</ul></ul>", "- - a");
    check("<ul><li>a<ol start=2><li>b</ol></ul>", "- a\n\n  2. b");
    check("<blockquote><p>a<p>b<ul><li>c</ul></blockquote>", "> a\n>\n> b\n>\n> - c");
}

#[test]
fn terms_are_items_that_hold_their_descriptions() {
    check("<dl><dt>a<dd>b<dd>c<dt>d</dl>", "- **a**\n\n  b\n\n  c\n- **d**");
    check("<dl><dd>a</dl>", "- a");
}

#[test]
fn tables_of_values_are_tables() {
    let two = "| a | b |\n| --- | --- |\n| 1 | 2 |";
    check("<table><tr><th>a<th>b<tr><td>1<td>2</table>", two);
    check(
        "<table><caption>c</caption><tr><th>a<th>b<tr><td>1<td>2</table>",
        &format!("c\n\n{two}"),
    );
    check(
        "<table><tr><td>a|b<td><p>c</p><p>d<tr><td>e</table>",
        "| a\\|b | c d |\n| --- | --- |\n| e | |",
    );
    check(
        "<table><tr><th>a<td>1<tr><th>b<td>2</table>",
        "| | |\n| --- | --- |\n| a | 1 |\n| b | 2 |",
    );
    check(
        "<table><tr><th colspan=2>a<th>b<tr><td rowspan=2>1<td>2<td>3<tr><td>4<td>5</table>",
        "| a | a | b |\n| --- | --- | --- |\n| 1 | 2 | 3 |\n| 1 | 4 | 5 |",
    );
    check(
        "<table><tr><td><code>a|b</code><td>c<tr><td>d<td>e</table>",
        "| `a\\|b` | c |\n| --- | --- |\n| d | e |",
    );
}

#[test]
fn tables_of_layout_are_their_content() {
    check("<table><tr><td>a</td></tr><tr><td>b</table>", "a\n\nb");
    check("<table role=presentation><tr><td>a<td>b<tr><td>c<td>d</table>", "a\n\nb\n\nc\n\nd");
    check("<table><tr><td><h2>a</h2>b<td>c<tr><td>d</table>", "## a\n\nb\n\nc\n\nd");
    check("<table><tr><td>a<td><table><tr><td>b</table><tr><td>c</table>", "a\n\nb\n\nc");
}

#[test]
fn code_keeps_its_lines_in_a_fence_that_is_long_enough() {
    check(
        "<pre><code class='language-rust'>fn a() {\n    b\n}\n</code></pre>",
        "```rust\nfn a() {\n    b\n}\n```",
    );
    check("<pre>\n\n a\n\n b</pre>", "```\n a\n\n b\n```");
    check("<pre>```\n# a</pre>", "````\n```\n# a\n````");
    check("<ul><li>a<pre>b\n\nc</pre></ul>", "- a\n\n  ```\n  b\n\n  c\n  ```");
    check("<div class='highlight-python'><pre>a</pre></div>", "```python\na\n```");
    check("<p>a<code>b`c</code>", "a``b`c``");
    check("<p><code>`</code>", "`` ` ``");
    check("<pre>a<h2>b</h2>c</pre>", "```\na\n```\n\n## b\n\n```\nc\n```");
}

#[test]
fn links_keep_a_destination_that_is_known() {
    check("<a href='https://e.com/a b'>c</a>d", "[c](https://e.com/a%20b)d");
    check("<a href='/a'>c</a> <a href='#x'>d</a> <a href='data:text/plain,x'>e</a>", "c d e");
    check("<base href='https://e.com/x/'><a href='../a'>c</a>", "[c](https://e.com/a)");
    check("<a href='https://e.com/'><p>a</p></a>", "a");
    check(
        "<a href='https://e.com/'>a]b</a>!<a href='https://e.com/'>c</a>",
        "[a\\]b](https://e.com/)\\![c](https://e.com/)",
    );
    check("<a href='https://e.com/(a)'> </a>b", "b");
    check("<p>a<img src=x alt='two words'>b", "atwo wordsb");
}

#[test]
fn marks_are_written_where_they_read_as_marks() {
    check("<p>a <b>b </b>c<i> d</i>", "a **b** c *d*");
    check("<p>a<b>b</b>c", "a**b**c");
    check("<p>a<b>(b)</b>c", "a(b)c");
    check("<p><b>a</b><b>b</b> <b></b> <b> </b>", "ab");
    check("<p><b><i>a</i></b> <s>b</s>", "**a** ~~b~~");
    check("<p><a href='https://e.com'>a\\ </a>b", "[a\\\\](https://e.com/) b");
    check("<p><s>~a</s>", "~~\\~a~~");
    check("<p><code>a</code><code>b</code>", "`ab`");
}

#[test]
fn text_does_not_turn_into_markdown() {
    for plain in [
        "# a",
        "#a",
        "###### a",
        "- a",
        "+ a",
        "* a",
        "-",
        "1. a",
        "12) a",
        "1.",
        "> a",
        "a # b",
        "a #",
        "a ##",
        "= a",
        "***",
        "---",
        "___",
        "* * *",
        "_a_",
        "*a*",
        "**a**",
        "snake_case_name",
        "`a`",
        "```",
        "~~~",
        "~~a~~",
        "~a~",
        "[a](b)",
        "[a]: b",
        "[^a]: b",
        "![a](b)",
        "<b>",
        "<!-- a",
        "</a",
        "<?a",
        "a < b",
        "&amp;",
        "&#35;",
        "AT&T;",
        "\\",
        "a\\",
        "\\#",
        "\\*a*",
        "C:\\dir",
        "| a | b |",
        "[ ] a",
        "[x] a",
        "a | b",
        ":-",
        "+++",
        "2 * 3 * 4",
        "1986\\. a",
        "a  b".trim_start_matches('x').split("  ").next().unwrap_or("a"),
    ] {
        check_verbatim(plain);
    }
    check(
        "<p>a<br># b<br>---<br>| - |<br>=<br>1. c",
        "a  \n\\# b  \n\\---  \n\\| - |  \n\\=  \n1\\. c",
    );
    check("<p>snake_case and 2 * 3", "snake_case and 2 * 3");
    check("<p>&lt;<b>b</b>", "\\<**b**");
}

#[test]
fn navigation_and_what_is_hidden_are_left_out() {
    check("<nav>n</nav><header>h</header><p>a</p><aside>s</aside><footer>f</footer>", "a");
    check(
        "<p>a<span hidden>b</span><span style='display: none'>c</span><i aria-hidden=true>d</i>",
        "a",
    );
    check("<script>a</script><style>b</style><template>c</template><p>d", "d");
    check(
        "<div>x</div><main><header><h1>a</h1></header><aside>b</aside><nav>n</nav></main><div>y</div>",
        "# a\n\nb",
    );
    check("<h2>a<a class=headerlink href='#a'>¶</a></h2>", "## a");
    check(
        "<details><summary>a</summary>b</details><figure><img alt=c><figcaption>d</figcaption></figure>",
        "a\n\nb\n\nc\n\nd",
    );
}

#[test]
fn a_page_without_content_has_no_text() {
    for html in
        ["", " ", "<title>a</title>", "<nav>a</nav>", "<p hidden>a", "<script>a</script>", "\0"]
    {
        assert_eq!(convert(html.as_bytes()), Err(ConvertError::NoText { pages: 1 }), "{html:?}");
    }
}

#[test]
fn an_anchor_lies_where_its_element_begins() {
    check_anchors("<p id=a>xy<p>z <b id=b>bold</b>", &["a:xy\n\nz **", "b:**bold**"]);
    check_anchors(
        "<h2 id=a>A</h2><h2><a name=b></a>B</h2><a id=c></a><h2>C</h2>",
        &["a:## A\n\n##", "b:## B\n\n##", "c:## C\n"],
    );
    check_anchors("<section id=s><h2 id=h>é</h2>", &["s:## é\n", "h:## é\n"]);
    check_anchors("<ul id=u><li id=l>é*</ul>", &["u:é\\*\n", "l:é\\*\n"]);
    check_anchors("<pre>ab\n<i id=x>cd</i></pre>", &["x:cd\n```\n"]);
    check_anchors(
        "<table id=t><tr id=r><td>a<td id=d>b<tr><td>c</table>",
        &["t:| a | b ", "r:a | b |\n", "d:b |\n| --"],
    );
    check_anchors("<p id=a>a<p id=a>b<p id=''>c<p id=e>", &["a:a\n\nb\n\nc\n", "e:\n"]);
}

#[test]
fn metadata_is_read() {
    let page = |head: &str| {
        convert(format!("<html lang=en-GB><head>{head}</head><p>a").as_bytes()).unwrap()
    };
    assert_eq!(page("").language.as_deref(), Some("en-GB"));
    assert_eq!(page("<title> A  b</title>").title.as_deref(), Some("A b"));
    assert_eq!(page("<meta property='og:title' content='O'>").title.as_deref(), Some("O"));
    assert_eq!(convert(b"<h1>H</h1>").unwrap().title.as_deref(), Some("H"));
    let at = |head: &str| page(head).updated_at;
    assert_eq!(
        at("<meta property='article:modified_time' content='1970-01-02T00:00:00+01:00'>"),
        Some(82_800)
    );
    assert_eq!(at("<meta name=date content='1970-01-02'>"), Some(86_400));
    assert_eq!(
        at(
            "<script type='application/ld+json'>{\"@graph\":[{\"dateModified\":\"1970-01-01T00:01:00Z\"}]}</script>"
        ),
        Some(60)
    );
    assert_eq!(
        at("<meta http-equiv='last-modified' content='Thu, 01 Jan 1970 00:00:05 GMT'>"),
        Some(5)
    );
    assert_eq!(at("<meta name=date content='soon'>"), None);
    assert_eq!(
        convert(b"<p>a <time datetime='1970-01-01T00:00:07'>b</time>").unwrap().updated_at,
        Some(7)
    );
}

#[test]
fn text_is_read_in_the_encoding_of_its_page() {
    let page = b"<meta charset=latin1><p>\xe9";
    assert_eq!(encoding_name(page), "windows-1252");
    assert_eq!(convert(page).unwrap().text, "é\n");
}

#[test]
fn a_deep_page_is_flattened() {
    for tag in ["div", "span", "b", "ul><li", "blockquote", "table><tr><td", "font"] {
        let html = format!("{}é", format!("<{tag}>a ").repeat(20_000));
        let converted = convert(html.as_bytes()).unwrap();
        assert!(converted.text.contains('é'), "{tag}");
        assert_eq!(converted.text.matches('a').count(), 20_000, "{tag}");
    }
}

fn any_html() -> impl Strategy<Value = String> {
    let tag = prop::sample::select(vec![
        "p",
        "div",
        "h1",
        "h2",
        "h6",
        "ul",
        "ol",
        "li",
        "table",
        "tr",
        "td",
        "th",
        "pre",
        "code",
        "b",
        "i",
        "a href='https://e.com'",
        "blockquote",
        "dl",
        "dt",
        "dd",
        "br",
        "hr",
        "section id=s",
        "a name=n",
        "details",
        "summary",
        "img alt=x",
        "main",
        "article",
        "nav",
        "header",
        "s",
        "q",
    ]);
    let piece = prop_oneof![
        3 => tag.clone().prop_map(|tag| format!("<{tag}>")),
        2 => tag.prop_map(|tag| format!("</{}>", tag.split(' ').next().unwrap_or_default())),
        3 => "[a-c#*_`~<>&;=+|\\[\\]()!:. \n0-9\\\\-]{0,6}",
        1 => "[ -~é中\u{ad}\u{a0}\u{2003}]{0,4}",
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// The visible headings of a page that are in no list, quote or table of values.
fn page_headings(html: &str) -> Vec<String> {
    let (document, _) = tree::parse(html);
    let page = Page::new(&document);
    let kept = content::choose(&page, document, &mut metadata::read(&page));
    let mut found = Vec::new();
    let mut at = 0;
    while at < page.nodes.len() {
        let name = page.name(at);
        let nested = matches!(name, "li" | "dd" | "dt" | "blockquote");
        if page.nodes[at].hidden
            || ((nested || (name == "table" && table::grid(&page, &kept, at).is_some()))
                && kept.own[at])
        {
            at = page.nodes[at].end;
            continue;
        }
        if matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6") {
            let mut walk = Walk::new(&page, &kept);
            let pieces = walk.inline(at, Inside::Heading);
            let text: String = pieces
                .iter()
                .map(|piece| match piece {
                    Piece::Text(text) | Piece::Code(text) => text.as_str(),
                    _ => "",
                })
                .collect();
            if !fold(&text).is_empty() {
                found.push(format!("{} {}", name.trim_start_matches('h'), fold(&text)));
            }
            at = page.nodes[at].end;
            continue;
        }
        at += 1;
    }
    found
}

proptest! {
    #[test]
    fn any_bytes_convert(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let found = convert(&bytes);
        prop_assert!(!matches!(found, Err(ConvertError::Damaged { .. })), "{:?}", found);
    }

    #[test]
    fn anchors_are_in_order_and_headings_are_those_of_the_page(html in any_html()) {
        let found = convert(html.as_bytes());
        prop_assert!(!matches!(found, Err(ConvertError::Damaged { .. })), "{:?}", found);
        let Converted { text, anchors, .. } = found.unwrap_or_default();
        prop_assert!(anchors.windows(2).all(|pair| pair[0].offset <= pair[1].offset));
        prop_assert!(anchors.iter().all(|anchor| text.is_char_boundary(anchor.offset)));
        let headings: Vec<_> = outline(&text, Span::new(0, text.len()), Format::Markdown)
            .headings
            .iter()
            .map(|heading| format!("{} {}", heading.level, heading.text))
            .collect();
        prop_assert_eq!(headings, page_headings(&html), "{}", text);
    }
}
