//! Text → its blocks and headings in document order, as a CommonMark reader sees them.
//!
//! Invariant: parsing never fails; every non-blank byte of the body is in exactly one top block.

mod admonition;
mod fence;
mod html;
mod mdx;

use crate::span::{Span, is_blank, lines, next_line, slice};
use crate::tree::Heading;
use html::{html_headings, is_comment};
use mdx::Island;
use std::borrow::Cow;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// How a text is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// CommonMark with tables, footnotes, task lists and strikethrough.
    Markdown,
    /// Markdown with JSX elements, `import` and `export` statements, and expressions in braces. Indented text is code, as in
    /// Markdown.
    Mdx,
    /// Paragraphs between blank lines; no headings.
    Plain,
}

/// What a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// A heading of the document itself, as an index into [`Outline::headings`].
    Heading(u32),
    /// Running text.
    Paragraph,
    /// A list; its children are items.
    List,
    /// A list item.
    Item,
    /// A table; its children are the head and the rows.
    Table,
    /// A table's header row with its delimiter row.
    TableHead,
    /// A table row.
    Row,
    /// A code block with fences.
    FencedCode,
    /// A code block by indentation.
    IndentedCode,
    /// A block quote, or an admonition between `:::` lines.
    Quote,
    /// Raw HTML; in MDX an element or an expression.
    Html,
    /// An HTML comment, in MDX also an `import` or `export`: text for coverage, not a body.
    Comment,
    /// A link definition: text for coverage, not a body.
    Definition,
    /// A footnote.
    Footnote,
    /// A thematic break: dropped where it is at the edge of a leaf.
    Rule,
}

impl BlockKind {
    /// Whether a section that holds only such blocks counts as having a body.
    pub fn is_body(self) -> bool {
        !matches!(
            self,
            BlockKind::Heading(_) | BlockKind::Comment | BlockKind::Definition | BlockKind::Rule
        )
    }
}

/// A block with the blocks inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// What it is.
    pub kind: BlockKind,
    /// Its bytes, without blanks at its ends.
    pub span: Span,
    /// The blocks inside it, in document order; the bytes between them are its own.
    pub children: Vec<Block>,
}

/// The blocks and headings of a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outline {
    /// The top blocks in document order, headings among them.
    pub blocks: Vec<Block>,
    /// The headings in document order.
    pub headings: Vec<Heading>,
}

/// Reads the outline of `text[body]`. Linear in the text.
pub fn parse(text: &str, body: Span, format: Format) -> Outline {
    match format {
        Format::Markdown => markdown(&with_line_feeds(text, body), body, Vec::new()),
        Format::Mdx => {
            let text = with_line_feeds(text, body);
            let islands = mdx::islands(&text, body);
            markdown(&text, body, islands)
        }
        Format::Plain => Outline { blocks: paragraphs(text, body), headings: Vec::new() },
    }
}

/// The stretches between blank lines.
fn paragraphs(text: &str, body: Span) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Span> = None;
    for line in lines(text, body) {
        if is_blank(text, line) {
            blocks.extend(open.take());
        } else {
            open = Some(open.map_or(line, |span| span.hull(line)));
        }
    }
    blocks.extend(open);
    blocks
        .into_iter()
        .map(|span| Block {
            kind: BlockKind::Paragraph,
            span: span.trim(text),
            children: Vec::new(),
        })
        .collect()
}

/// The text with line feeds for lone carriage returns, at the same offsets: the parser takes those for blanks.
fn with_line_feeds(text: &str, body: Span) -> Cow<'_, str> {
    let body = slice(text, body);
    let is_lone = |pair: &[u8]| matches!(pair, [b'\r', behind] if *behind != b'\n');
    if !body.contains('\r') || !(body.ends_with('\r') || body.as_bytes().windows(2).any(is_lone)) {
        return Cow::Borrowed(text);
    }
    let mut read = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        read.push(if c == '\r' && rest.peek() != Some(&'\n') { '\n' } else { c });
    }
    Cow::Owned(read)
}

/// The outline of Markdown around `islands` of other languages, which the parser takes for blank lines.
fn markdown(text: &str, body: Span, islands: Vec<Island>) -> Outline {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS;
    let visible = mdx::without(text, &islands);
    let admonitions = admonition::spans(&visible, body);
    let mut islands = islands.into_iter().peekable();
    let mut reader = Reader {
        text: &visible,
        admonitions: &admonitions,
        outline: Outline::default(),
        open: Vec::new(),
        too_deep: 0,
        heading: None,
    };
    for (event, range) in Parser::new_ext(slice(&visible, body), options).into_offset_iter() {
        let span = Span::new(body.start + range.start, body.start + range.end);
        if reader.open.is_empty() {
            while let Some(island) = islands.next_if(|island| island.span.start < span.start) {
                reader.island(text, &island);
            }
        }
        reader.read(&event, span);
    }
    islands.for_each(|island| reader.island(text, &island));
    let mut outline = reader.outline;
    let blocks = admonition::grouped(std::mem::take(&mut outline.blocks), &admonitions);
    outline.blocks = with_definitions(text, body, blocks);
    outline
}

/// Puts what the parser passes over (link definitions) between the blocks that it reports.
fn with_definitions(text: &str, body: Span, blocks: Vec<Block>) -> Vec<Block> {
    let mut all = Vec::with_capacity(blocks.len());
    let mut at = body.start;
    let gap = |from: usize, to: usize| {
        let span = if from < to { Span::new(from, to).trim(text) } else { Span::new(from, from) };
        (!span.is_empty()).then_some(Block {
            kind: BlockKind::Definition,
            span,
            children: Vec::new(),
        })
    };
    for block in blocks {
        all.extend(gap(at, block.span.start));
        at = at.max(block.span.end);
        all.push(block);
    }
    all.extend(gap(at, body.end));
    all
}

/// Blocks nested deeper than this are text of the block around them.
const MAX_DEPTH: usize = 64;

/// Builds blocks from the parser's events.
struct Reader<'a> {
    text: &'a str,
    /// A heading in one of these is text, as one in a quote.
    admonitions: &'a [Span],
    outline: Outline,
    open: Vec<Block>,
    /// Blocks that are open and too deep to be kept.
    too_deep: usize,
    /// The text of the heading that is being read.
    heading: Option<String>,
}

impl Reader<'_> {
    fn read(&mut self, event: &Event<'_>, span: Span) {
        match event {
            Event::Start(tag) => self.start(tag, span),
            Event::End(tag) => self.end(*tag),
            Event::Rule if self.too_deep > 0 => {}
            Event::Rule => self.close(Block { kind: BlockKind::Rule, span, children: Vec::new() }),
            Event::Text(piece) | Event::Code(piece) => {
                if let Some(heading) = &mut self.heading {
                    heading.push_str(piece);
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some(heading) = &mut self.heading {
                    heading.push(' ');
                }
            }
            _ => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>, span: Span) {
        let kind = match tag {
            Tag::Paragraph => BlockKind::Paragraph,
            Tag::Heading { level, .. } => {
                if self.open.is_empty() && !admonition::holds(self.admonitions, span) {
                    let at = self.outline.headings.len() as u32;
                    let heading = Heading { span, level: *level as u8, text: String::new() };
                    self.outline.headings.push(heading);
                    self.heading = Some(String::new());
                    BlockKind::Heading(at)
                } else {
                    BlockKind::Paragraph
                }
            }
            Tag::BlockQuote(_) => BlockKind::Quote,
            Tag::CodeBlock(CodeBlockKind::Fenced(_)) => BlockKind::FencedCode,
            Tag::CodeBlock(CodeBlockKind::Indented) => BlockKind::IndentedCode,
            Tag::HtmlBlock => BlockKind::Html,
            Tag::List(_) => BlockKind::List,
            Tag::Item => BlockKind::Item,
            Tag::FootnoteDefinition(_) => BlockKind::Footnote,
            Tag::Table(_) => BlockKind::Table,
            Tag::TableHead => BlockKind::TableHead,
            Tag::TableRow => BlockKind::Row,
            _ => return,
        };
        if self.open.len() < MAX_DEPTH {
            self.open.push(Block { kind, span, children: Vec::new() });
        } else {
            self.too_deep += 1;
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph
            | TagEnd::Heading(_)
            | TagEnd::BlockQuote(_)
            | TagEnd::CodeBlock
            | TagEnd::HtmlBlock
            | TagEnd::List(_)
            | TagEnd::Item
            | TagEnd::FootnoteDefinition
            | TagEnd::Table
            | TagEnd::TableHead
            | TagEnd::TableRow => {}
            _ => return,
        }
        if self.too_deep > 0 {
            self.too_deep -= 1;
        } else if let Some(block) = self.open.pop() {
            self.close(block);
        }
    }

    fn close(&mut self, mut block: Block) {
        block.span = block.span.trim(self.text);
        if block.span.is_empty() {
            return;
        }
        if let Some(parent) = self.open.last_mut() {
            if block.kind == BlockKind::TableHead {
                // The delimiter row belongs to the header; the parser reports it nowhere.
                let head_end = next_line(self.text, block.span.end);
                let delimiter_end = next_line(self.text, head_end).min(parent.span.end);
                block.span =
                    Span::new(block.span.start, delimiter_end.max(block.span.end)).trim(self.text);
            }
            parent.children.push(block);
            return;
        }
        match block.kind {
            BlockKind::Heading(at) => {
                let text = self.heading.take().unwrap_or_default();
                if let Some(heading) = self.outline.headings.get_mut(at as usize) {
                    heading.text = fold_blanks(&text);
                    heading.span = block.span;
                }
                self.outline.blocks.push(block);
            }
            BlockKind::Html => self.html(self.text, block.span),
            _ => self.outline.blocks.push(block),
        }
    }

    /// Takes in what the parser did not see, unless it stands inside a block.
    fn island(&mut self, text: &str, island: &Island) {
        if self.outline.blocks.last().is_some_and(|block| block.span.end > island.span.start) {
            return;
        }
        match island.kind {
            BlockKind::Html => self.html(text, island.span),
            kind => {
                self.outline.blocks.push(Block { kind, span: island.span, children: Vec::new() });
            }
        }
    }

    /// Splits a raw HTML block at the headings that start a line in it.
    fn html(&mut self, text: &str, span: Span) {
        let mut at = span.start;
        let headings = if admonition::holds(self.admonitions, span) {
            Vec::new()
        } else {
            html_headings(text, span)
        };
        for (found, level, title) in headings {
            self.html_rest(text, Span::new(at, found.start));
            let index = self.outline.headings.len() as u32;
            self.outline.headings.push(Heading { span: found, level, text: title });
            self.outline.blocks.push(Block {
                kind: BlockKind::Heading(index),
                span: found,
                children: Vec::new(),
            });
            at = found.end;
        }
        self.html_rest(text, Span::new(at, span.end));
    }

    fn html_rest(&mut self, text: &str, span: Span) {
        let span = span.trim(text);
        if span.is_empty() {
            return;
        }
        let kind = if is_comment(slice(text, span)) { BlockKind::Comment } else { BlockKind::Html };
        self.outline.blocks.push(Block { kind, span, children: Vec::new() });
    }
}

fn fold_blanks(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !folded.is_empty() {
            folded.push(' ');
        }
        folded.push_str(word);
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn outline(text: &str) -> Outline {
        parse(text, Span::new(0, text.len()), Format::Markdown)
    }

    /// The headings as `level:text`.
    fn check_headings(text: &str, expected: &[&str]) {
        let found: Vec<_> =
            outline(text).headings.iter().map(|h| format!("{}:{}", h.level, h.text)).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    /// The top blocks as `Kind text`.
    fn check_blocks(text: &str, expected: &[&str]) {
        let found: Vec<_> = outline(text)
            .blocks
            .iter()
            .map(|b| format!("{:?} {}", b.kind, slice(text, b.span)))
            .collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn atx_setext_and_html_headings_open_sections() {
        check_headings(
            "# A ##\n\nB\n=\n\nC *d*\n---\n\n<h2 id=\"x\">E &amp; <b>f</b></h2>\n",
            &["1:A", "1:B", "2:C d", "2:E & f"],
        );
    }

    #[test]
    fn what_only_looks_like_a_heading_does_not() {
        check_headings(
            "```\n# a\n```\n\n    # b\n\n<!--\n# c\n<h1>c</h1>\n-->\n\n> # d\n\n- # e\n",
            &[],
        );
        check_headings(
            "<div>\n<!-- <h2>a</h2>\n<h2>b</h2> -->\n<pre>\n<h2>c</h2>\n</pre>\nx <h2>d</h2>\n</div>",
            &[],
        );
        check_headings("| # a |\n|---|\n| # b |\n", &[]);
        check_headings("<header>\n<hr>\n<h7>x</h7>\n", &[]);
    }

    #[test]
    fn an_html_heading_splits_its_block() {
        check_blocks(
            "<div>\n<h2>A</h2>\n<p>b</p>\n</div>",
            &["Html <div>", "Heading(0) <h2>A</h2>", "Html <p>b</p>\n</div>"],
        );
        check_blocks("<h3>open\nmore", &["Heading(0) <h3>open", "Html more"]);
    }

    #[test]
    fn comments_definitions_and_rules_are_no_body() {
        check_blocks(
            "a\n\n[x]: http://example.com\n\n<!-- c -->\n\n---\n",
            &[
                "Paragraph a",
                "Definition [x]: http://example.com",
                "Comment <!-- c -->",
                "Rule ---",
            ],
        );
        check_blocks(
            "<!-- a --> <!-- b -->\n\n<!-- c --><p>\n",
            &["Comment <!-- a --> <!-- b -->", "Html <!-- c --><p>"],
        );
    }

    #[test]
    fn the_delimiter_row_belongs_to_the_table_head() {
        let text = "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n";
        let table = outline(text).blocks.remove(0);
        let rows: Vec<_> = table.children.iter().map(|row| slice(text, row.span)).collect();
        assert_eq!(rows, ["| a | b |\n|---|---|", "| 1 | 2 |", "| 3 | 4 |"]);
    }

    #[test]
    fn plain_text_has_paragraphs_only() {
        let text = "# not a heading\nsecond line\n \nnext\r\n";
        let outline = parse(text, Span::new(0, text.len()), Format::Plain);
        let found: Vec<_> = outline.blocks.iter().map(|b| slice(text, b.span)).collect();
        assert_eq!(found, ["# not a heading\nsecond line", "next"]);
        assert!(outline.headings.is_empty());
    }

    #[test]
    fn deep_nesting_is_cut_off_and_still_covered() {
        for text in [
            ">".repeat(20_000) + " a",
            "- ".repeat(5_000) + "a",
            (0..300).fold(String::new(), |text, n| text + &" ".repeat(n) + "- a\n"),
        ] {
            let outline = outline(&text);
            assert!(outline.blocks.iter().all(children_nest));
            assert!(depth(&outline.blocks) <= MAX_DEPTH);
        }
    }

    fn depth(blocks: &[Block]) -> usize {
        blocks.iter().map(|block| 1 + depth(&block.children)).max().unwrap_or_default()
    }

    proptest! {
        #[test]
        fn every_text_is_covered_by_disjoint_blocks(text in "([#>\\-*`|~<!h1= \\[\\]:a-cé\\t]{0,12}\n{1,2}){0,14}") {
            for format in [Format::Markdown, Format::Plain] {
                let outline = parse(&text, Span::new(0, text.len()), format);
                let mut at = 0;
                for block in &outline.blocks {
                    prop_assert!(block.span.start >= at, "blocks overlap in {:?}: {:?}", text, outline.blocks);
                    prop_assert!(is_blank(&text, Span::new(at, block.span.start)));
                    prop_assert!(children_nest(block));
                    at = block.span.end;
                }
                prop_assert!(is_blank(&text, Span::new(at, text.len())));
            }
        }
    }

    fn children_nest(block: &Block) -> bool {
        block.children.windows(2).all(|pair| pair[0].span.end <= pair[1].span.start)
            && block
                .children
                .iter()
                .all(|child| block.span.contains(child.span) && children_nest(child))
    }
}
