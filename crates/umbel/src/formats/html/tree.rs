//! Text → tree of bounded depth.
//!
//! Invariant: no more elements are open at once than browsers allow, and text is kept whatever becomes of its tags.

use super::elements::{is_block, is_formatting, is_raw, is_void};
use dom_query::Document;
use html5ever::buffer_queue::BufferQueue;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts, TreeSink as _};
use html5ever::{LocalName, local_name};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Open elements that the parser may hold; tags of deeper ones are left out, and blocks become line breaks.
///
/// Source: the limit of Chromium and WebKit, which is what pages are tested against.
const MAX_DEPTH: usize = 512;

/// Formatting elements that may be open at once: the parser opens each again in every paragraph, which is quadratic.
const MAX_FORMATTING: usize = 16;

/// The document, and how many tags were left out because they were too deep.
pub(super) fn parse(text: &str) -> (Document, usize) {
    let options = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let sink = Shallow {
        builder: TreeBuilder::new(Document::default(), options),
        state: RefCell::new(Depth::default()),
    };
    let tokenizer = Tokenizer::new(sink, TokenizerOpts::default());
    let queue = BufferQueue::default();
    queue.push_back(StrTendril::from_slice(text));
    while !queue.is_empty() {
        let _script = tokenizer.feed(&queue);
    }
    tokenizer.end();
    let left_out = tokenizer.sink.state.borrow().left_out;
    (tokenizer.sink.builder.sink.finish(), left_out)
}

/// Passes tokens on to the tree builder, but for tags that would make the tree too deep.
///
/// The tree builder looks through its open elements for most tags, so a deep page costs quadratic time, and readability
/// recurses. The depth is followed roughly: by tags, with the end tags that authors leave out.
struct Shallow {
    builder: TreeBuilder<dom_query::NodeId, Document>,
    state: RefCell<Depth>,
}

#[derive(Default)]
struct Depth {
    open: Vec<LocalName>,
    /// How many elements of each name are open.
    count: BTreeMap<LocalName, usize>,
    /// How many start tags of each name were left out and are not yet closed.
    skipped: BTreeMap<LocalName, usize>,
    formatting: usize,
    left_out: usize,
}

/// What becomes of a tag.
enum Verdict {
    Pass,
    Drop,
    Break,
}

impl Depth {
    fn judge(&mut self, tag: &Tag) -> Verdict {
        let verdict = match tag.kind {
            TagKind::StartTag => self.start(tag),
            TagKind::EndTag => self.end(&tag.name),
        };
        if !matches!(verdict, Verdict::Pass) {
            self.left_out += usize::from(tag.kind == TagKind::StartTag);
            if is_block(&tag.name) {
                return Verdict::Break;
            }
        }
        verdict
    }

    fn start(&mut self, tag: &Tag) -> Verdict {
        let name = &tag.name;
        let foreign = self.is_open(&local_name!("svg")) || self.is_open(&local_name!("math"));
        if is_void(name) || (foreign && tag.self_closing) {
            return Verdict::Pass;
        }
        self.close_implied(name);
        let raw = is_raw(name);
        let formatting = is_formatting(name);
        if !raw
            && (self.open.len() >= MAX_DEPTH || (formatting && self.formatting >= MAX_FORMATTING))
        {
            *self.skipped.entry(name.clone()).or_default() += 1;
            return Verdict::Drop;
        }
        self.formatting += usize::from(formatting);
        *self.count.entry(name.clone()).or_default() += 1;
        self.open.push(name.clone());
        Verdict::Pass
    }

    fn end(&mut self, name: &LocalName) -> Verdict {
        if let Some(skipped) = self.skipped.get_mut(name).filter(|count| **count > 0) {
            *skipped -= 1;
            return Verdict::Drop;
        }
        // Only its own end tag closes a formatting element: the end of a block around it does not.
        if is_formatting(name) {
            self.formatting = self.formatting.saturating_sub(1);
        }
        if self.is_open(name) {
            while let Some(last) = self.pop() {
                if last == *name {
                    break;
                }
            }
        }
        Verdict::Pass
    }

    fn is_open(&self, name: &LocalName) -> bool {
        self.count.get(name).is_some_and(|&count| count > 0)
    }

    fn pop(&mut self) -> Option<LocalName> {
        let name = self.open.pop()?;
        if let Some(count) = self.count.get_mut(&name) {
            *count -= 1;
        }
        Some(name)
    }

    /// Closes what the start tag closes by itself: the item before it, the paragraph around it.
    fn close_implied(&mut self, name: &LocalName) {
        let (closes, stops): (&[LocalName], &[LocalName]) = match *name {
            local_name!("li") => (
                &[local_name!("li")],
                &[local_name!("ul"), local_name!("ol"), local_name!("table")],
            ),
            local_name!("dt") | local_name!("dd") => (
                &[local_name!("dt"), local_name!("dd")],
                &[local_name!("dl"), local_name!("table")],
            ),
            local_name!("td") | local_name!("th") => {
                (&[local_name!("td"), local_name!("th")], &[local_name!("table")])
            }
            local_name!("tr")
            | local_name!("tbody")
            | local_name!("thead")
            | local_name!("tfoot") => (&[local_name!("tr")], &[local_name!("table")]),
            local_name!("option") | local_name!("optgroup") => {
                (&[local_name!("option")], &[local_name!("select")])
            }
            local_name!("a") => {
                (&[local_name!("a")], &[local_name!("td"), local_name!("th"), local_name!("table")])
            }
            _ if is_block(name) => (
                &[local_name!("p")],
                &[
                    local_name!("td"),
                    local_name!("th"),
                    local_name!("table"),
                    local_name!("button"),
                ],
            ),
            _ => return,
        };
        if !closes.iter().any(|name| self.is_open(name)) {
            return;
        }
        let found =
            self.open.iter().rposition(|open| closes.contains(open) || stops.contains(open));
        if let Some(at) =
            found.filter(|&at| self.open.get(at).is_some_and(|open| closes.contains(open)))
        {
            while self.open.len() > at {
                self.pop();
            }
        }
    }
}

impl TokenSink for Shallow {
    type Handle = dom_query::NodeId;

    fn process_token(&self, token: Token, line_number: u64) -> TokenSinkResult<dom_query::NodeId> {
        let verdict = match &token {
            Token::TagToken(tag) => self.state.borrow_mut().judge(tag),
            Token::ParseError(_) => return TokenSinkResult::Continue,
            _ => Verdict::Pass,
        };
        match verdict {
            Verdict::Pass => self.builder.process_token(token, line_number),
            Verdict::Drop => TokenSinkResult::Continue,
            Verdict::Break => {
                let line_break = Tag {
                    kind: TagKind::StartTag,
                    name: local_name!("br"),
                    self_closing: false,
                    attrs: Vec::new(),
                    had_duplicate_attributes: false,
                };
                self.builder.process_token(Token::TagToken(line_break), line_number)
            }
        }
    }

    fn end(&self) {
        self.builder.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.builder.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_beyond_the_depth_are_left_out() {
        let check = |tag: &str, expected: usize| {
            let (document, left_out) = parse(&format!("<{tag}>a").repeat(MAX_DEPTH + 7));
            assert_eq!(left_out, expected, "{tag}");
            assert_eq!(document.text().matches('a').count(), MAX_DEPTH + 7, "{tag}");
        };
        check("div", 7);
        check("span", 7);
        check("b", MAX_DEPTH + 7 - MAX_FORMATTING);
        // The next of these closes the one before.
        check("p", 0);
        check("li", 0);
        check("br", 0);
    }
}
