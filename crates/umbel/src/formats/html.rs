//! HTML → Markdown of the main content, with anchors at the elements that have an id.
//!
//! Invariant: the headings of the text are headings of the page, and no text of the page turns into Markdown structure.

use super::{ConvertError, Converted};
use dom_query::Document;
use dom_smoothie::Readability;
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use html5ever::buffer_queue::BufferQueue;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts, TreeSink as _};
use html5ever::{Attribute, LocalName, local_name};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use umbel_core::document::{Anchor, Place};
use umbel_core::span::{Span, slice};
use url::Url;

/// Open elements that the parser may hold; tags of deeper ones are left out, and blocks become line breaks.
///
/// Source: the limit of Chromium and WebKit, which is what pages are tested against.
const MAX_DEPTH: usize = 512;

/// Formatting elements that may be open at once: the parser opens each again in every paragraph, which is quadratic.
const MAX_FORMATTING: usize = 16;

/// Elements of a page that readability is tried on; larger pages are reference works, not articles.
const MAX_ARTICLE_ELEMENTS: usize = 60_000;

/// Bytes of text, likewise: readability takes quadratic time for text full of `&`.
const MAX_ARTICLE_BYTES: usize = 400_000;

/// Readability is believed if it keeps this share of the text that is neither navigation nor link.
const ARTICLE_SHARE: f64 = 0.6;

/// Readability is not tried on pages with less text of their own than this.
const MIN_ARTICLE_BYTES: usize = 1_000;

/// Where a declaration of the encoding is looked for: the standard's 1,024 bytes, and those in which browsers still heed one.
const MAX_PRESCAN_BYTES: usize = 65_536;

/// Lists and quotes nested deeper than this are written as if they were this deep.
const MAX_NESTING: usize = 12;

/// Link destinations longer than this are left out.
const MAX_DESTINATION_BYTES: usize = 2_000;

/// The attribute that carries an element's number through readability.
const MARK: &str = "data-umbel-node";

/// The page's main content as Markdown, with its metadata.
///
/// Time and memory are linear in the page. Headings, lists, tables, code, quotes and links are kept; images are their alternative
/// text; scripts, forms, navigation and what is hidden are left out. An anchor lies where the element's text begins; an element
/// at a heading's start, or right before it, has its anchor at the heading.
///
/// # Errors
/// [`ConvertError::NoText`]: nothing on the page is content. [`ConvertError::Damaged`]: a parser gave up on it.
pub fn convert(bytes: &[u8]) -> Result<Converted, ConvertError> {
    catch_unwind(AssertUnwindSafe(|| read(bytes))).unwrap_or_else(|_| {
        Err(ConvertError::Damaged { detail: "the HTML parser gave up on it".to_owned() })
    })
}

/// The name of the encoding that [`convert`] reads the bytes in, as the Encoding Standard spells it.
///
/// In this order: byte order mark, declaration of the page, UTF-8 if valid, the most likely one.
///
/// Source: HTML Standard, "determining the character encoding".
pub fn encoding_name(bytes: &[u8]) -> &'static str {
    encoding_of(bytes).name()
}

fn read(bytes: &[u8]) -> Result<Converted, ConvertError> {
    let encoding = encoding_of(bytes);
    let (text, _, odd) = encoding.decode(bytes);
    let mut warnings = Vec::new();
    if odd {
        warnings
            .push(format!("has bytes that are not {}: they became `\u{fffd}`", encoding.name()));
    }
    let (document, left_out) = parse(&text);
    drop(text);
    if left_out > 0 {
        warnings.push(format!("is nested too deeply: {left_out} tags were left out"));
    }
    let page = Page::new(&document);
    let mut metadata = metadata(&page);
    let kept = choose(&page, document, &mut metadata);
    let mut walk = Walk::new(&page, &kept);
    walk.run();
    let (text, anchors) = walk.writer.finish();
    if text.is_empty() {
        return Err(ConvertError::NoText { pages: 1 });
    }
    let updated_at = metadata.updated_at.or_else(|| time_in(&page, &kept));
    let Metadata { title, language, .. } = metadata;
    Ok(Converted { text, anchors, title, updated_at, language, warnings })
}

// Bytes → text.

fn encoding_of(bytes: &[u8]) -> &'static Encoding {
    if let Some((encoding, _)) = Encoding::for_bom(bytes) {
        return encoding;
    }
    if let Some(encoding) = declared(bytes.get(..MAX_PRESCAN_BYTES).unwrap_or(bytes)) {
        return encoding;
    }
    if std::str::from_utf8(bytes).is_ok() {
        return UTF_8;
    }
    let mut detector = chardetng::EncodingDetector::new(chardetng::Iso2022JpDetection::Allow);
    detector.feed(bytes, true);
    detector.guess(None, chardetng::Utf8Detection::Deny)
}

/// The encoding that a page declares.
///
/// Source: HTML Standard, "prescan a byte stream to determine its encoding".
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    if bytes.starts_with(b"<\0?\0x\0") {
        return Some(UTF_16LE);
    }
    if bytes.starts_with(b"\0<\0?\0x") {
        return Some(UTF_16BE);
    }
    let mut scan = Scan { bytes, at: 0 };
    while let Some(byte) = scan.peek() {
        let rest = bytes.get(scan.at..).unwrap_or_default();
        if rest.starts_with(b"<!--") {
            scan.at += 2;
            scan.behind(b"-->");
        } else if is_meta(rest) {
            scan.at += 5;
            if let Some(encoding) = scan.meta() {
                return Some(encoding);
            }
        } else if byte == b'<' && is_tag(rest) {
            scan.at += 1;
            while scan.peek().is_some_and(|b| !b.is_ascii_whitespace() && b != b'>') {
                scan.at += 1;
            }
            while scan.attribute().is_some() {}
        } else if [&b"<!"[..], b"</", b"<?"].iter().any(|start| rest.starts_with(start)) {
            scan.behind(b">");
        } else {
            scan.at += 1;
        }
    }
    xml_declared(bytes)
}

fn is_meta(rest: &[u8]) -> bool {
    rest.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"<meta"))
        && rest.get(5).is_some_and(|&b| b.is_ascii_whitespace() || b == b'/')
}

fn is_tag(rest: &[u8]) -> bool {
    let name = rest.get(1..).unwrap_or_default();
    name.strip_prefix(b"/").unwrap_or(name).first().is_some_and(u8::is_ascii_alphabetic)
}

/// The `encoding` of an XML declaration at the start.
fn xml_declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let rest = bytes.strip_prefix(b"<?xml")?;
    let line = rest.get(..rest.iter().position(|&b| b == b'>')?)?;
    let line = String::from_utf8_lossy(line);
    let (_, value) = line.split_once("encoding")?;
    let value = value.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    html_encoding(value.split(quote).nth(1)?.as_bytes())
}

/// The encoding of a label in a page that could be read as ASCII so far.
fn html_encoding(label: &[u8]) -> Option<&'static Encoding> {
    let encoding = Encoding::for_label(label)?;
    if encoding == UTF_16BE || encoding == UTF_16LE {
        Some(UTF_8)
    } else if encoding == encoding_rs::X_USER_DEFINED {
        Some(WINDOWS_1252)
    } else {
        Some(encoding)
    }
}

/// A place in the bytes of a page.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn behind(&mut self, end: &[u8]) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let found = rest.windows(end.len()).position(|window| window == end);
        self.at = found.map_or(self.bytes.len(), |at| self.at + at + end.len());
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// What a `<meta` tag declares, up to its end.
    fn meta(&mut self) -> Option<&'static Encoding> {
        let (mut pragma, mut needs_pragma, mut charset) = (false, None, None);
        let mut seen = HashSet::new();
        while let Some((name, value)) = self.attribute() {
            if !seen.insert(name.clone()) {
                continue;
            }
            match name.as_slice() {
                b"http-equiv" => pragma = value == b"content-type",
                b"content" if charset.is_none() => {
                    if let Some(encoding) = charset_in(&value) {
                        charset = Some(encoding);
                        needs_pragma = Some(true);
                    }
                }
                b"charset" => {
                    charset = html_encoding(&value);
                    needs_pragma = Some(false);
                }
                _ => {}
            }
        }
        charset.filter(|_| needs_pragma.is_some_and(|needs| !needs || pragma))
    }

    /// The next attribute of a tag, in lower case; `None` at the tag's end.
    fn attribute(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace() || b == b'/') {
            self.at += 1;
        }
        if self.peek()? == b'>' {
            return None;
        }
        let (mut name, mut value) = (Vec::new(), Vec::new());
        loop {
            match self.peek()? {
                b'=' if !name.is_empty() => break,
                b'/' | b'>' => return Some((name, value)),
                b if b.is_ascii_whitespace() => {
                    self.blanks();
                    if self.peek()? != b'=' {
                        return Some((name, value));
                    }
                    break;
                }
                b => name.push(b.to_ascii_lowercase()),
            }
            self.at += 1;
        }
        self.at += 1;
        self.blanks();
        let first = self.peek()?;
        if first == b'"' || first == b'\'' {
            self.at += 1;
            while self.peek()? != first {
                value.push(self.peek()?.to_ascii_lowercase());
                self.at += 1;
            }
            self.at += 1;
            return Some((name, value));
        }
        while !(self.peek()?.is_ascii_whitespace() || self.peek()? == b'>') {
            value.push(self.peek()?.to_ascii_lowercase());
            self.at += 1;
        }
        Some((name, value))
    }
}

/// The encoding in the `content` of a meta element, which is in lower case.
fn charset_in(content: &[u8]) -> Option<&'static Encoding> {
    let mut rest = content;
    loop {
        let at = rest.windows(7).position(|window| window == b"charset")?;
        rest = rest.get(at + 7..)?.trim_ascii_start();
        if let Some(value) = rest.strip_prefix(b"=") {
            rest = value.trim_ascii_start();
            break;
        }
    }
    let first = *rest.first()?;
    let label = if first == b'"' || first == b'\'' {
        let inside = rest.get(1..)?;
        inside.get(..inside.iter().position(|&b| b == first)?)?
    } else {
        let end = rest.iter().position(|&b| b.is_ascii_whitespace() || b == b';');
        rest.get(..end.unwrap_or(rest.len()))?
    };
    html_encoding(label)
}

// Text → tree.

/// The document, and how many tags were left out because they were too deep.
fn parse(text: &str) -> (Document, usize) {
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

fn is_void(name: &LocalName) -> bool {
    matches!(
        &**name,
        "area"
            | "base"
            | "basefont"
            | "bgsound"
            | "br"
            | "col"
            | "embed"
            | "frame"
            | "hr"
            | "image"
            | "img"
            | "input"
            | "keygen"
            | "link"
            | "meta"
            | "param"
            | "source"
            | "track"
            | "wbr"
            | "html"
            | "head"
            | "body"
    )
}

/// Elements whose content is text to the tokenizer.
fn is_raw(name: &LocalName) -> bool {
    matches!(
        &**name,
        "script"
            | "style"
            | "textarea"
            | "title"
            | "xmp"
            | "iframe"
            | "noembed"
            | "noframes"
            | "plaintext"
    )
}

/// Elements that the parser opens again behind a misplaced end tag. Of `a` only one is open at a time.
fn is_formatting(name: &LocalName) -> bool {
    matches!(
        &**name,
        "b" | "big"
            | "code"
            | "em"
            | "font"
            | "i"
            | "nobr"
            | "s"
            | "small"
            | "strike"
            | "strong"
            | "tt"
            | "u"
    )
}

fn is_block(name: &LocalName) -> bool {
    matches!(
        &**name,
        "address"
            | "article"
            | "aside"
            | "blockquote"
            | "body"
            | "caption"
            | "center"
            | "col"
            | "colgroup"
            | "dd"
            | "details"
            | "dialog"
            | "dir"
            | "div"
            | "dl"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "header"
            | "hgroup"
            | "hr"
            | "html"
            | "legend"
            | "li"
            | "listing"
            | "main"
            | "menu"
            | "nav"
            | "ol"
            | "optgroup"
            | "option"
            | "p"
            | "plaintext"
            | "pre"
            | "search"
            | "section"
            | "summary"
            | "table"
            | "tbody"
            | "td"
            | "tfoot"
            | "th"
            | "thead"
            | "tr"
            | "ul"
            | "xmp"
    )
}

/// A node of a page.
struct Node {
    /// One past its last descendant.
    end: usize,
    parent: usize,
    data: Data,
    /// Whether it is left out with all it holds: script, form control, hidden.
    hidden: bool,
    /// Whether it is navigation by its element or role.
    navigation: bool,
    /// Whether a block is inside it.
    has_block: bool,
}

enum Data {
    Element(LocalName, Vec<Attribute>),
    Text(StrTendril),
}

/// The nodes of a page in document order, the root first: a subtree is a range.
struct Page {
    nodes: Vec<Node>,
    elements: usize,
    text_bytes: usize,
}

impl Page {
    /// Copies the tree, and numbers its elements in place. A page of any depth costs no stack.
    fn new(document: &Document) -> Page {
        let mut page = Page { nodes: Vec::new(), elements: 0, text_bytes: 0 };
        let root = document.root();
        page.push(0, Data::Element(local_name!(""), Vec::new()));
        let mut open = vec![0];
        let mut next = root.first_child();
        while let Some(node) = next {
            let at = page.nodes.len();
            let parent = open.last().copied().unwrap_or(0);
            let mut inside = false;
            if node.is_element() {
                let name = node.qual_name_ref().map_or(local_name!(""), |name| name.local.clone());
                page.push(parent, Data::Element(name, node.attrs()));
                node.set_attr(MARK, &at.to_string());
                page.elements += 1;
                inside = true;
            } else if node.is_text() {
                let text = node.text();
                if !page.nodes[parent].hidden {
                    page.text_bytes += text.len();
                }
                page.push(parent, Data::Text(text));
            }
            next = if inside { node.first_child() } else { None };
            if next.is_some() {
                open.push(at);
                continue;
            }
            let mut last = node;
            loop {
                next = last.next_sibling();
                if next.is_some() {
                    break;
                }
                let (Some(parent), Some(closed)) = (last.parent(), open.pop()) else { break };
                page.close(closed);
                if open.is_empty() {
                    break;
                }
                last = parent;
            }
        }
        page.close(0);
        for at in (1..page.nodes.len()).rev() {
            let node = &page.nodes[at];
            let block = node.has_block
                || matches!(&node.data, Data::Element(name, _) if is_block(name) && !node.hidden);
            let parent = node.parent;
            page.nodes[parent].has_block |= block;
        }
        page
    }

    fn push(&mut self, parent: usize, data: Data) {
        let at = self.nodes.len();
        let mut node =
            Node { end: at + 1, parent, data, hidden: false, navigation: false, has_block: false };
        if let Data::Element(name, attributes) = &node.data {
            let (hidden, navigation) = role_of(name, attributes);
            node.hidden = hidden || self.nodes.get(parent).is_some_and(|parent| parent.hidden);
            node.navigation = navigation;
        }
        self.nodes.push(node);
    }

    fn close(&mut self, at: usize) {
        let end = self.nodes.len();
        self.nodes[at].end = end;
    }

    fn name(&self, at: usize) -> &str {
        match &self.nodes[at].data {
            Data::Element(name, _) => name,
            Data::Text(_) => "",
        }
    }

    fn attribute(&self, at: usize, name: &str) -> Option<&str> {
        match &self.nodes[at].data {
            Data::Element(_, attributes) => attribute(attributes, name),
            Data::Text(_) => None,
        }
    }

    fn inside(&self, at: usize) -> std::ops::Range<usize> {
        at + 1..self.nodes[at].end
    }

    /// The children of a node.
    fn children(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.nodes[at].end;
        let mut next = at + 1;
        std::iter::from_fn(move || {
            let child = (next < end).then_some(next)?;
            next = self.nodes[child].end;
            Some(child)
        })
    }

    /// All text inside, hidden or not, with its blanks folded.
    fn text(&self, at: usize) -> String {
        let mut text = String::new();
        for at in at..self.nodes[at].end {
            if let Data::Text(piece) = &self.nodes[at].data {
                text.push_str(piece);
            }
        }
        fold(&text)
    }

    /// The elements of a name.
    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = usize> + 'a {
        (0..self.nodes.len()).filter(move |&at| self.name(at) == name)
    }

    fn is_under(&self, at: usize, names: &[&str]) -> bool {
        let mut at = at;
        while at != 0 {
            at = self.nodes[at].parent;
            if names.contains(&self.name(at)) {
                return true;
            }
        }
        false
    }
}

fn attribute<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a str> {
    attributes.iter().find(|a| &*a.name.local == name).map(|a| &*a.value)
}

fn fold(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether an element is left out wherever it stands, and whether it is navigation of the page.
fn role_of(name: &LocalName, attributes: &[Attribute]) -> (bool, bool) {
    let gone = matches!(
        &**name,
        "head"
            | "script"
            | "style"
            | "template"
            | "noscript"
            | "iframe"
            | "noframes"
            | "noembed"
            | "embed"
            | "canvas"
            | "svg"
            | "audio"
            | "video"
            | "button"
            | "select"
            | "textarea"
            | "datalist"
            | "input"
            | "progress"
            | "meter"
            | "map"
            | "annotation"
            | "annotation-xml"
            | "dialog"
    );
    let class = attribute(attributes, "class").unwrap_or_default();
    let line_numbers = class
        .split_ascii_whitespace()
        .any(|class| matches!(class, "linenos" | "lineno" | "linenodiv" | "gutter"));
    let hidden = attribute(attributes, "hidden").is_some_and(|value| value != "until-found")
        || attribute(attributes, "aria-hidden") == Some("true")
        || attribute(attributes, "style").is_some_and(|style| {
            let style: String = style.split_whitespace().collect::<String>().to_ascii_lowercase();
            style.contains("display:none") || style.contains("visibility:hidden")
        });
    let role = attribute(attributes, "role").unwrap_or_default();
    let navigation = matches!(&**name, "nav" | "header" | "footer" | "aside")
        || matches!(
            role,
            "navigation"
                | "banner"
                | "contentinfo"
                | "complementary"
                | "search"
                | "menu"
                | "menubar"
                | "toolbar"
                | "tablist"
        );
    (gone || line_numbers || hidden, navigation)
}

// Tree → the elements that are content.

/// Which elements' own text is content.
struct Kept {
    own: Vec<bool>,
    /// How many of the elements before each node are content.
    before: Vec<usize>,
}

impl Kept {
    fn new(own: Vec<bool>) -> Kept {
        let mut before = Vec::with_capacity(own.len() + 1);
        let mut count = 0;
        for &kept in &own {
            before.push(count);
            count += usize::from(kept);
        }
        before.push(count);
        Kept { own, before }
    }

    /// Whether anything in a range is content.
    fn any(&self, range: &std::ops::Range<usize>) -> bool {
        self.before[range.start] < self.before[range.end]
    }
}

/// Chooses the content: what the page states as its content; else what readability finds, if that is most of the page's own text;
/// else all but the navigation.
///
/// On a page that states its content and does not call itself an article readability could only lose: of the standard library's
/// page on `Option` it drops every method's signature. Short pages are below what it is made for.
fn choose(page: &Page, document: Document, metadata: &mut Metadata) -> Kept {
    let stated = stated(page);
    let mut own = own_text(page, stated);
    let own_bytes = plain_bytes(page, &own);
    let small = page.elements <= MAX_ARTICLE_ELEMENTS && page.text_bytes <= MAX_ARTICLE_BYTES;
    if small && let Ok(mut readability) = Readability::with_document(document, None, None) {
        metadata.read_by_readability(&readability);
        if (stated.is_none() || metadata.is_article)
            && own_bytes >= MIN_ARTICLE_BYTES
            && let Some(article) = article(page, &mut readability)
            && plain_bytes(page, &article) as f64 >= ARTICLE_SHARE * own_bytes as f64
        {
            own = article;
        }
    }
    add_title(page, &mut own, metadata);
    Kept::new(own)
}

/// The page's only `main` or only `article`; of two such, the `article` if it holds most of the text.
fn stated(page: &Page) -> Option<usize> {
    let only = |is_it: &dyn Fn(usize) -> bool| {
        let mut found = (0..page.nodes.len())
            .filter(|&at| is_it(at) && !page.nodes[at].hidden && !page.text(at).is_empty());
        let first = found.next()?;
        // What lies inside the first is no second one.
        found.all(|at| at < page.nodes[first].end).then_some(first)
    };
    let main = only(&|at| page.name(at) == "main" || page.attribute(at, "role") == Some("main"));
    let article = only(&|at| page.name(at) == "article");
    let bytes = |at| plain_bytes(page, &own_text(page, Some(at)));
    match (main, article) {
        (Some(main), Some(article)) if bytes(article) * 2 >= bytes(main) => Some(article),
        (Some(stated), _) | (None, Some(stated)) => Some(stated),
        (None, None) => None,
    }
}

/// The elements of the page, or of the element that it states as its content, without navigation.
fn own_text(page: &Page, stated: Option<usize>) -> Vec<bool> {
    let root = stated.unwrap_or(0);
    let mut own = vec![false; page.nodes.len()];
    let mut at = root;
    let end = page.nodes[root].end;
    // The end of the innermost element in which headers, footers and asides belong to the content.
    let mut content_end = if root == 0 { 0 } else { end };
    while at < end {
        let node = &page.nodes[at];
        let name = page.name(at);
        if matches!(name, "article" | "main") && node.end > content_end {
            content_end = node.end;
        }
        let outside = at >= content_end;
        let navigation = node.navigation
            && (outside || name == "nav" || page.attribute(at, "role") == Some("navigation"));
        if node.hidden || navigation {
            at = node.end;
            continue;
        }
        own[at] = matches!(node.data, Data::Element(..));
        at += 1;
    }
    own
}

/// The elements that readability keeps; `None` where it finds no article.
fn article(page: &Page, readability: &mut Readability) -> Option<Vec<bool>> {
    let article = readability.parse().ok()?;
    let mut own = vec![false; page.nodes.len()];
    for piece in article.content.split(&format!("{MARK}=\"")).skip(1) {
        let digits = piece.split('"').next().unwrap_or_default();
        if let Some(kept) = digits.parse().ok().and_then(|at: usize| own.get_mut(at)) {
            *kept = true;
        }
    }
    // Readability puts new elements in the place of these.
    for at in 1..own.len() {
        let script_link = page.name(at) == "a"
            && page
                .attribute(at, "href")
                .is_some_and(|href| href.trim_start().starts_with("javascript:"));
        if page.name(at) == "font" || script_link {
            own[at] |= own[page.nodes[at].parent];
        }
        if page.name(at) == "body" {
            own[at] = own[at] || page.children(at).any(|child| own[child]);
        }
    }
    for (own, node) in own.iter_mut().zip(&page.nodes) {
        *own &= !node.hidden;
    }
    Some(own)
}

/// Keeps the page's only `h1` if it says the title: readability leaves it out as a repetition.
fn add_title(page: &Page, own: &mut [bool], metadata: &Metadata) {
    let mut headings = page.named("h1").filter(|&at| !page.nodes[at].hidden);
    let (Some(heading), None) = (headings.next(), headings.next()) else { return };
    let text = page.text(heading).to_lowercase();
    let title = metadata.title.as_deref().unwrap_or_default().to_lowercase();
    let says_title =
        !text.is_empty() && (title.contains(&text) || text.contains(&title)) && !title.is_empty();
    let is_first = !page.nodes.iter().take(heading).any(|node| match &node.data {
        Data::Text(text) => own[node.parent] && !text.trim().is_empty(),
        Data::Element(..) => false,
    });
    if says_title && is_first {
        let range = heading..page.nodes[heading].end;
        for (own, node) in own.iter_mut().zip(&page.nodes).skip(range.start).take(range.len()) {
            *own |= !node.hidden && matches!(node.data, Data::Element(..));
        }
    }
}

/// Bytes of text that is content and in no link, blanks aside.
fn plain_bytes(page: &Page, own: &[bool]) -> usize {
    let mut bytes = 0;
    let mut link_end = 0;
    for (at, node) in page.nodes.iter().enumerate() {
        match &node.data {
            Data::Element(name, attributes) => {
                if *name == local_name!("a") && attribute(attributes, "href").is_some() {
                    link_end = node.end;
                }
            }
            Data::Text(text) if at >= link_end && own[node.parent] => {
                bytes += text.bytes().filter(|b| !b.is_ascii_whitespace()).count();
            }
            Data::Text(_) => {}
        }
    }
    bytes
}

// What the page says of itself.

#[derive(Debug, Default)]
struct Metadata {
    title: Option<String>,
    language: Option<String>,
    updated_at: Option<i64>,
    /// Whether the page calls itself an article: news, a blog post.
    is_article: bool,
}

impl Metadata {
    /// Takes the title that readability cleans of the site's name.
    fn read_by_readability(&mut self, readability: &Readability) {
        let found = readability.get_article_metadata(readability.parse_json_ld());
        let title = fold(&found.title);
        if !title.is_empty() {
            self.title = Some(title);
        }
    }
}

fn metadata(page: &Page) -> Metadata {
    let mut metadata = Metadata::default();
    let mut fields: BTreeMap<String, &str> = BTreeMap::new();
    let mut linked: Vec<serde_json::Value> = Vec::new();
    let (mut title, mut heading, mut language) = (None, None, None);
    for at in 0..page.nodes.len() {
        let get = |name| page.attribute(at, name);
        match page.name(at) {
            "html" => language = language.or_else(|| get("lang").or_else(|| get("xml:lang"))),
            "title" if title.is_none() && !page.is_under(at, &["svg"]) => {
                title = Some(page.text(at));
            }
            "h1" if heading.is_none() && !page.nodes[at].hidden => heading = Some(page.text(at)),
            "meta" => {
                let keys = ["property", "name", "itemprop", "http-equiv"];
                if let (Some(key), Some(content)) = (keys.into_iter().find_map(get), get("content"))
                {
                    fields.entry(key.trim().to_ascii_lowercase()).or_insert(content);
                }
            }
            "script"
                if get("type")
                    .is_some_and(|kind| kind.eq_ignore_ascii_case("application/ld+json")) =>
            {
                let text: String = page
                    .inside(at)
                    .filter_map(|at| match &page.nodes[at].data {
                        Data::Text(text) => Some(&**text),
                        Data::Element(..) => None,
                    })
                    .collect();
                linked.extend(serde_json::from_str::<serde_json::Value>(&text).ok());
            }
            "time" => {
                if let (Some(key), Some(time)) = (get("itemprop"), get("datetime")) {
                    fields.entry(key.to_ascii_lowercase()).or_insert(time);
                }
            }
            _ => {}
        }
    }
    let field = |name: &str| fields.get(name).copied();
    let named = |names: &[&str]| names.iter().find_map(|name| field(name).and_then(seconds));
    let stated = |key: &str| linked.iter().find_map(|value| linked_time(value, key));
    metadata.updated_at = named(&[
        "article:modified_time",
        "og:updated_time",
        "datemodified",
        "dcterms.modified",
        "dc.date.modified",
        "last-modified",
        "revised",
    ])
    .or_else(|| stated("dateModified"))
    .or_else(|| {
        named(&[
            "article:published_time",
            "datepublished",
            "dcterms.date",
            "dcterms.created",
            "dc.date",
            "dc.date.issued",
            "date",
            "pubdate",
            "publishdate",
            "parsely-pub-date",
        ])
    })
    .or_else(|| stated("datePublished"));
    metadata.is_article =
        field("og:type") == Some("article") || field("article:published_time").is_some();
    metadata.language = [language, field("content-language"), field("og:locale")]
        .into_iter()
        .flatten()
        .find_map(language_tag);
    let stated_title = field("og:title").map(fold);
    metadata.title =
        [title, stated_title, heading].into_iter().flatten().find(|title| !title.is_empty());
    metadata
}

/// A language as a BCP 47 tag, if it is one.
fn language_tag(text: &str) -> Option<String> {
    let tag = text.trim().replace('_', "-");
    let mut parts = tag.split('-');
    let first = parts.next()?;
    let right = |part: &str| {
        (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    let known = (2..=8).contains(&first.len()) && first.bytes().all(|b| b.is_ascii_alphabetic());
    (known && parts.all(right)).then_some(tag)
}

/// The time under a key of a JSON-LD object, of one in a list, or of one in its graph.
fn linked_time(value: &serde_json::Value, key: &str) -> Option<i64> {
    use serde_json::Value;
    match value {
        Value::Object(object) => object
            .get(key)
            .and_then(Value::as_str)
            .and_then(seconds)
            .or_else(|| object.get("@graph").and_then(|graph| linked_time(graph, key))),
        Value::Array(values) => values.iter().find_map(|value| linked_time(value, key)),
        _ => None,
    }
}

/// A date or time as seconds since 1970 in UTC; one without a zone is read as UTC.
fn seconds(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(time.as_second());
    }
    let utc = |time: jiff::civil::DateTime| {
        time.to_zoned_datetime(jiff::tz::TimeZone::UTC)
            .ok()
            .map(|time| time.timestamp().as_second())
    };
    if let Ok(time) = text.parse::<jiff::civil::DateTime>() {
        return utc(time);
    }
    if let Ok(date) = text.parse::<jiff::civil::Date>() {
        return utc(date.at(0, 0, 0, 0));
    }
    jiff::fmt::rfc2822::parse(text).ok().map(|time| time.timestamp().as_second())
}

/// The first time that the content marks up.
fn time_in(page: &Page, kept: &Kept) -> Option<i64> {
    page.named("time")
        .filter(|&at| kept.own[at])
        .find_map(|at| page.attribute(at, "datetime").and_then(seconds))
}

// Tree → Markdown.

/// A stretch of inline content.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Code(String),
    Open(&'static str),
    Close(&'static str),
    LinkStart,
    LinkEnd(String),
    Break,
    Anchor(String),
}

/// What happens when the walk leaves an element.
enum Leave {
    /// A block ends.
    Block,
    /// An inline piece ends.
    Inline(Piece),
    /// A quote, item or list ends.
    Container,
    List,
    Pre,
}

struct Walk<'a> {
    page: &'a Page,
    kept: &'a Kept,
    base: Option<Url>,
    writer: Writer,
    pieces: Vec<Piece>,
    leaves: Vec<(usize, Leave)>,
    /// The next number of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    ids: HashSet<String>,
    /// The text of the open `pre`, with its anchors.
    pre: Option<Pre>,
}

#[derive(Default)]
struct Pre {
    text: String,
    anchors: Vec<(usize, String)>,
    language: String,
}

impl<'a> Walk<'a> {
    fn new(page: &'a Page, kept: &'a Kept) -> Walk<'a> {
        let base = page
            .named("base")
            .find_map(|at| page.attribute(at, "href"))
            .and_then(|href| Url::parse(href.trim()).ok());
        Walk {
            page,
            kept,
            base,
            writer: Writer::default(),
            pieces: Vec::new(),
            leaves: Vec::new(),
            lists: Vec::new(),
            ids: HashSet::new(),
            pre: None,
        }
    }

    fn run(&mut self) {
        let end = self.page.nodes.len();
        let mut at = 1;
        while at < end {
            self.leave_until(at);
            at = self.enter(at);
        }
        self.leave_until(end);
        self.flush();
    }

    fn leave_until(&mut self, at: usize) {
        while self.leaves.last().is_some_and(|(end, _)| *end <= at) {
            let Some((_, leave)) = self.leaves.pop() else { return };
            match leave {
                Leave::Block => self.flush(),
                Leave::Inline(piece) => self.push(piece),
                Leave::Container => {
                    self.flush();
                    self.writer.pop_container();
                }
                Leave::List => {
                    self.flush();
                    self.lists.pop();
                }
                Leave::Pre => {
                    self.flush();
                    self.pre = None;
                }
            }
        }
    }

    /// Reads a node, and says where to go on.
    fn enter(&mut self, at: usize) -> usize {
        let page = self.page;
        let node = &page.nodes[at];
        let name = match &node.data {
            Data::Text(text) => {
                if self.kept.own[node.parent] {
                    self.text(text);
                }
                return at + 1;
            }
            Data::Element(name, _) => name.clone(),
        };
        if node.hidden {
            return node.end;
        }
        if !self.kept.any(&(at..node.end)) && !self.stands_in_content(at) {
            if self.kept.own[node.parent] && page.text(at).is_empty() {
                self.anchors_of(at);
            }
            return node.end;
        }
        if is_block(&name) {
            self.flush();
        }
        self.anchor(at);
        let own = self.kept.own[at] || self.stands_in_content(at);
        match &*name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let level = name.bytes().nth(1).map_or(1, |b| usize::from(b - b'0'));
                let pieces = self.inline(at, Inside::Heading);
                self.writer.heading(level, &pieces);
                return node.end;
            }
            "br" => self.line_break(),
            "hr" => self.writer.rule(),
            "img" => {
                if let Some(alt) = page.attribute(at, "alt").map(fold).filter(|_| own) {
                    self.push(Piece::Text(alt));
                }
            }
            "table" if own && self.pre.is_none() => {
                if let Some(grid) = self.grid(at) {
                    self.table(at, &grid);
                    return node.end;
                }
                self.leaves.push((node.end, Leave::Block));
            }
            "pre" | "listing" | "xmp" | "plaintext" if self.pre.is_none() => {
                self.pre = Some(Pre { language: self.language(at), ..Pre::default() });
                self.leaves.push((node.end, Leave::Pre));
            }
            "blockquote" if own => {
                self.leaves.push((node.end, Leave::Container));
                self.writer.push_container(Container::quote());
            }
            "ul" | "ol" | "menu" | "dir" | "dl" if own => {
                let start = page.attribute(at, "start").and_then(|start| start.trim().parse().ok());
                self.lists.push((*name == *"ol").then(|| start.unwrap_or(1)));
                self.leaves.push((node.end, Leave::List));
            }
            "li" if own => {
                let number = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let value =
                            page.attribute(at, "value").and_then(|value| value.trim().parse().ok());
                        let this = value.unwrap_or(*number).min(999_999_999);
                        *number = this + 1;
                        Some(this)
                    }
                    _ => None,
                };
                self.leaves.push((node.end, Leave::Container));
                self.writer.push_container(Container::item(number));
            }
            "dt" if own => {
                let pieces = self.inline(at, Inside::Heading);
                self.leaves.push((node.end, Leave::Container));
                self.writer.push_container(Container::item(None));
                let mut bold = vec![Piece::Open("**")];
                bold.extend(pieces);
                bold.push(Piece::Close("**"));
                self.writer.paragraph(&bold);
                self.leave_until(node.end);
                return node.end;
            }
            "dd" if own => {
                self.leaves.push((node.end, Leave::Container));
                let follows = self.writer.is_after_item();
                let container =
                    if follows { Container::description() } else { Container::item(None) };
                self.writer.push_container(container);
            }
            _ if is_block(&name) => self.leaves.push((node.end, Leave::Block)),
            _ => return self.enter_inline(at, own),
        }
        at + 1
    }

    /// Opens an inline element, and says where to go on.
    fn enter_inline(&mut self, at: usize, own: bool) -> usize {
        let page = self.page;
        let node = &page.nodes[at];
        if node.has_block || !own || self.pre.is_some() {
            return at + 1;
        }
        match page.name(at) {
            "code" | "kbd" | "samp" | "tt" => {
                for inner in page.inside(at) {
                    self.anchor(inner);
                }
                let text = self.visible_text(at);
                if !text.trim().is_empty() {
                    if text.starts_with(char::is_whitespace) {
                        self.push(Piece::Text(" ".to_owned()));
                    }
                    self.push(Piece::Code(fold(&text)));
                    if text.ends_with(char::is_whitespace) {
                        self.push(Piece::Text(" ".to_owned()));
                    }
                }
                return node.end;
            }
            "strong" | "b" => self.marked(at, "**"),
            "em" | "i" => self.marked(at, "*"),
            "del" | "s" | "strike" => self.marked(at, "~~"),
            "q" => {
                self.push(Piece::Text("\"".to_owned()));
                self.leaves.push((node.end, Leave::Inline(Piece::Text("\"".to_owned()))));
            }
            "a" => {
                if let Some(url) =
                    page.attribute(at, "href").and_then(|href| self.destination(href))
                {
                    self.push(Piece::LinkStart);
                    self.leaves.push((node.end, Leave::Inline(Piece::LinkEnd(url))));
                }
            }
            _ => {}
        }
        at + 1
    }

    fn marked(&mut self, at: usize, mark: &'static str) {
        self.push(Piece::Open(mark));
        self.leaves.push((self.page.nodes[at].end, Leave::Inline(Piece::Close(mark))));
    }

    /// Whether an element that readability takes out or replaces stands in text that it keeps.
    fn stands_in_content(&self, at: usize) -> bool {
        matches!(self.page.name(at), "br" | "wbr") && self.kept.own[self.page.nodes[at].parent]
    }

    /// The text of the content inside.
    fn visible_text(&self, at: usize) -> String {
        let page = self.page;
        let mut text = String::new();
        let mut next = at + 1;
        while next < page.nodes[at].end {
            let node = &page.nodes[next];
            if node.hidden {
                next = node.end;
                continue;
            }
            match &node.data {
                Data::Text(piece) if self.kept.own[node.parent] => text.push_str(piece),
                Data::Element(name, _) if *name == local_name!("br") => text.push('\n'),
                _ => {}
            }
            next += 1;
        }
        clean(&text).collect()
    }

    fn text(&mut self, text: &str) {
        match &mut self.pre {
            Some(pre) => pre.text.extend(clean(text)),
            None => {
                let text: String = clean(text).collect();
                self.push(Piece::Text(text));
            }
        }
    }

    fn line_break(&mut self) {
        match &mut self.pre {
            Some(pre) => pre.text.push('\n'),
            None => self.push(Piece::Break),
        }
    }

    fn push(&mut self, piece: Piece) {
        if let Some(pre) = &mut self.pre {
            match piece {
                Piece::Text(text) | Piece::Code(text) => pre.text.push_str(&text),
                Piece::Anchor(id) => pre.anchors.push((pre.text.len(), id)),
                _ => {}
            }
            return;
        }
        push(&mut self.pieces, piece);
    }

    /// Writes the paragraph or code that is open.
    fn flush(&mut self) {
        if let Some(pre) = &mut self.pre {
            let done = Pre { language: pre.language.clone(), ..Pre::default() };
            let pre = std::mem::replace(pre, done);
            self.writer.code(&pre);
        }
        let pieces = std::mem::take(&mut self.pieces);
        self.writer.paragraph(&pieces);
    }

    fn anchor(&mut self, at: usize) {
        let page = self.page;
        let name = (page.name(at) == "a").then(|| page.attribute(at, "name")).flatten();
        for id in [page.attribute(at, "id"), name].into_iter().flatten() {
            if !id.is_empty() && !self.ids.contains(id) {
                self.ids.insert(id.to_owned());
                self.push(Piece::Anchor(id.to_owned()));
            }
        }
    }

    fn anchors_of(&mut self, at: usize) {
        self.anchor(at);
        for inner in self.page.inside(at) {
            if !self.page.nodes[inner].hidden {
                self.anchor(inner);
            }
        }
    }

    /// Where a link leads, if that can be said without knowing the page's own address.
    fn destination(&self, href: &str) -> Option<String> {
        let href = href.trim();
        if href.len() > MAX_DESTINATION_BYTES || href.starts_with('#') {
            return None;
        }
        let url = match (Url::parse(href), &self.base) {
            (Ok(url), _) => url,
            (Err(_), Some(base)) => base.join(href).ok()?,
            (Err(_), None) => return None,
        };
        if !matches!(url.scheme(), "http" | "https" | "mailto" | "ftp" | "tel") {
            return None;
        }
        let mut text = String::new();
        for c in url.as_str().chars().filter(|c| !c.is_control()) {
            if matches!(c, '(' | ')' | '<' | '>' | '|' | '\\' | ' ' | '`' | '*') {
                text.extend(['%'].into_iter().chain(format!("{:02X}", u32::from(c)).chars()));
            } else {
                text.push(c);
            }
        }
        (text.len() <= MAX_DESTINATION_BYTES).then_some(text)
    }

    /// The language of a code block, by the classes of `pre`, its `code` or the element around it.
    fn language(&self, at: usize) -> String {
        let page = self.page;
        let inner = page.children(at).find(|&at| page.name(at) == "code");
        let around = page.nodes[at].parent;
        [Some(at), inner, Some(around), Some(page.nodes[around].parent)]
            .into_iter()
            .flatten()
            .filter(|&at| matches!(page.name(at), "pre" | "code" | "div" | "figure"))
            .filter_map(|at| {
                page.attribute(at, "data-lang")
                    .or_else(|| page.attribute(at, "data-language"))
                    .map(str::to_owned)
                    .or_else(|| {
                        page.attribute(at, "class")?
                            .split_ascii_whitespace()
                            .find_map(language_in)
                            .map(str::to_owned)
                    })
            })
            .find(|language| is_language(language))
            .unwrap_or_default()
    }
}

fn is_language(text: &str) -> bool {
    let right = |b: u8| b.is_ascii_alphanumeric() || b"+#-._".contains(&b);
    (1..=30).contains(&text.len()) && text.bytes().all(right)
}

fn language_in(class: &str) -> Option<&str> {
    ["language-", "lang-", "highlight-source-", "highlight-", "sourceCode-", "brush:"]
        .into_iter()
        .find_map(|prefix| class.strip_prefix(prefix))
        .filter(|language| {
            !matches!(*language, "default" | "none" | "text" | "plaintext" | "wrapper")
        })
}

/// Text without what is no text: control characters, soft hyphens, byte order marks, zero-width spaces.
fn clean(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().filter_map(|c| match c {
        '\n' | '\t' => Some(c),
        '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => Some('\n'),
        '\u{ad}' | '\u{feff}' | '\u{200b}' => None,
        c if c.is_control() => None,
        c if c.is_whitespace() => Some(' '),
        c => Some(c),
    })
}

/// Adds a piece: text joins text, code joins code, and a pair with nothing in it goes.
fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    if let Piece::Code(code) = &piece {
        // Two code spans side by side would read as one; anchors between them move to its start.
        let before = pieces.iter().rposition(|piece| !matches!(piece, Piece::Anchor(_)));
        if let Some(Piece::Code(last)) = before.and_then(|at| pieces.get_mut(at)) {
            last.push_str(code);
            let anchors = before.map_or(0, |at| pieces.len() - at - 1);
            let from = pieces.len() - anchors - 1;
            pieces.get_mut(from..).unwrap_or_default().rotate_left(1);
            return;
        }
    }
    match (pieces.last_mut(), piece) {
        (Some(Piece::Text(last)), Piece::Text(text)) => last.push_str(&text),
        (Some(Piece::Open(open)), Piece::Close(close)) if *open == close => {
            pieces.pop();
        }
        (Some(Piece::LinkStart), Piece::LinkEnd(_)) => {
            pieces.pop();
        }
        (_, piece) => pieces.push(piece),
    }
}

/// What inline content stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Paragraph,
    Heading,
    Cell,
}

// Inline content of one element, and tables.

/// A table as rows of cells, each as wide as the first.
struct Grid {
    rows: Vec<Vec<usize>>,
    /// Whether the first row names the columns.
    has_head: bool,
    caption: Option<usize>,
}

/// Cells of a table with more text than this hold a layout, not a value.
const MAX_CELL_BYTES: usize = 2_000;

impl Walk<'_> {
    /// All content inside an element as one stretch of inline content, behind the anchors that wait.
    fn inline(&mut self, at: usize, inside: Inside) -> Vec<Piece> {
        let outer_leaves = std::mem::take(&mut self.leaves);
        let mut outer_pre = self.pre.take();
        if let Some(pre) = &mut outer_pre {
            self.pieces.extend(pre.anchors.drain(..).map(|(_, id)| Piece::Anchor(id)));
        }
        let end = self.page.nodes[at].end;
        let mut next = at + 1;
        while next < end {
            self.leave_until(next);
            next = self.inline_node(next, inside);
        }
        self.leave_until(end);
        self.leaves = outer_leaves;
        self.pre = outer_pre;
        std::mem::take(&mut self.pieces)
    }

    fn inline_node(&mut self, at: usize, inside: Inside) -> usize {
        let page = self.page;
        let node = &page.nodes[at];
        let Data::Element(name, _) = &node.data else { return self.enter(at) };
        if node.hidden {
            return node.end;
        }
        if inside == Inside::Heading && self.is_permalink(at) {
            self.anchors_of(at);
            return node.end;
        }
        if !is_block(name)
            && (node.has_block || matches!(&**name, "strong" | "b" | "em" | "i"))
            && inside == Inside::Heading
        {
            self.anchor(at);
            return at + 1;
        }
        if is_block(name) || &**name == "br" {
            self.anchor(at);
            self.push(Piece::Text(" ".to_owned()));
            self.leaves.push((node.end, Leave::Inline(Piece::Text(" ".to_owned()))));
            return at + 1;
        }
        self.enter(at)
    }

    /// Whether a link of a heading only leads to the heading itself: `¶`, `#`.
    fn is_permalink(&self, at: usize) -> bool {
        self.page.name(at) == "a"
            && self.page.attribute(at, "href").is_some_and(|href| href.contains('#'))
            && !self.page.text(at).chars().any(char::is_alphanumeric)
    }

    /// The table's cells, if it is one of values: two columns or more, and no blocks in it that a cell cannot hold.
    fn grid(&self, table: usize) -> Option<Grid> {
        let page = self.page;
        if matches!(page.attribute(table, "role"), Some("presentation" | "none")) {
            return None;
        }
        let mut rows: Vec<Vec<(usize, usize, usize)>> = Vec::new();
        let (mut caption, mut head_rows) = (None, 0);
        let mut at = table + 1;
        while at < page.nodes[table].end {
            let node = &page.nodes[at];
            if node.hidden {
                at = node.end;
                continue;
            }
            match page.name(at) {
                "table" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "pre" | "blockquote" | "ol"
                | "form" | "details" | "hr" => return None,
                "caption" => {
                    caption = Some(at);
                    at = node.end;
                    continue;
                }
                "tr" => {
                    rows.push(Vec::new());
                    head_rows += usize::from(page.name(node.parent) == "thead");
                }
                "td" | "th" => {
                    let span = |name| {
                        page.attribute(at, name)
                            .and_then(|n| n.trim().parse::<usize>().ok())
                            .unwrap_or(1)
                            .clamp(1, 1_000)
                    };
                    let text = self.visible_text(at);
                    if text.len() > MAX_CELL_BYTES || self.paragraphs(at) > 3 {
                        return None;
                    }
                    rows.last_mut()?.push((at, span("colspan"), span("rowspan")));
                }
                _ => {}
            }
            at += 1;
        }
        let head_is_stated = head_rows > 0
            || rows.first().is_some_and(|row| row.iter().all(|&(at, ..)| page.name(at) == "th"));
        let starts_with_name =
            rows.first().and_then(|row| row.first()).is_some_and(|&(at, ..)| page.name(at) == "th");
        let rows = spread(&rows)?;
        let width = rows.first()?.len();
        if width < 2 || (rows.len() < 2 && !head_is_stated) {
            return None;
        }
        Some(Grid { rows, has_head: head_is_stated || !starts_with_name, caption })
    }

    /// How many paragraphs and items stand in a cell.
    fn paragraphs(&self, cell: usize) -> usize {
        self.page.inside(cell).filter(|&at| matches!(self.page.name(at), "p" | "li" | "dd")).count()
    }

    fn table(&mut self, at: usize, grid: &Grid) {
        for inner in self.page.inside(at) {
            if !matches!(self.page.name(inner), "tbody" | "thead" | "tfoot" | "colgroup" | "col") {
                break;
            }
            self.anchor(inner);
        }
        if let Some(caption) = grid.caption {
            self.anchor(caption);
            let pieces = self.inline(caption, Inside::Cell);
            self.writer.paragraph(&pieces);
        }
        // Anchors of the table itself stand before its first row.
        let pending = std::mem::take(&mut self.pieces);
        self.writer.paragraph(&pending);
        let mut written: BTreeMap<usize, Vec<Piece>> = BTreeMap::new();
        let mut rows = Vec::with_capacity(grid.rows.len());
        for cells in &grid.rows {
            let mut row = Vec::with_capacity(cells.len());
            let spans_all = cells.iter().all(|cell| Some(cell) == cells.first());
            for (column, &cell) in cells.iter().enumerate() {
                if cell == 0 || (spans_all && column > 0) {
                    row.push(Vec::new());
                    continue;
                }
                if let Some(pieces) = written.get(&cell) {
                    row.push(pieces.clone());
                    continue;
                }
                if column == 0 {
                    self.anchor(self.page.nodes[cell].parent);
                }
                self.anchor(cell);
                let all = self.inline(cell, Inside::Cell);
                let repeated: Vec<_> = all
                    .iter()
                    .filter(|piece| !matches!(piece, Piece::Anchor(_)))
                    .cloned()
                    .collect();
                written.insert(cell, repeated);
                row.push(all);
            }
            let is_empty = row.iter().flatten().all(|piece| matches!(piece, Piece::Anchor(_)));
            if is_empty && !rows.is_empty() {
                self.pieces.extend(row.into_iter().flatten());
            } else {
                rows.push(row);
            }
        }
        if !grid.has_head {
            let width = rows.first().map_or(0, Vec::len);
            rows.insert(0, vec![Vec::new(); width]);
        }
        self.writer.table(&rows);
    }
}

/// Repeats merged cells in every place that they cover. `None` for a table that would grow too much.
fn spread(rows: &[Vec<(usize, usize, usize)>]) -> Option<Vec<Vec<usize>>> {
    let count: usize = rows.iter().map(Vec::len).sum();
    let most = count * 4 + 64;
    let mut places = 0;
    let mut grid: Vec<Vec<usize>> = Vec::new();
    // What each column still owes to a cell above: the cell and its rows to go.
    let mut owed: Vec<(usize, usize)> = Vec::new();
    for row in rows {
        let mut cells: Vec<usize> = Vec::new();
        let mut waiting = row.iter();
        loop {
            let column = cells.len();
            if let Some((cell, left)) = owed.get_mut(column).filter(|(_, left)| *left > 0) {
                *left -= 1;
                cells.push(*cell);
            } else if let Some(&(cell, columns, rows)) = waiting.next() {
                for _ in 0..columns {
                    if owed.get(cells.len()).is_some_and(|(_, left)| *left > 0) {
                        break;
                    }
                    if owed.len() <= cells.len() {
                        owed.resize(cells.len() + 1, (0, 0));
                    }
                    owed[cells.len()] = (cell, rows - 1);
                    cells.push(cell);
                    places += 1;
                    if places > most {
                        return None;
                    }
                }
            } else if column < owed.len() && owed.iter().skip(column).any(|(_, left)| *left > 0) {
                cells.push(0);
            } else {
                break;
            }
        }
        places += cells.len();
        if places > most * 4 {
            return None;
        }
        if !row.is_empty() {
            grid.push(cells);
        }
    }
    let width = grid.iter().map(Vec::len).max()?;
    if width * grid.len() > most * 4 {
        return None;
    }
    for row in &mut grid {
        row.resize(width, 0);
    }
    Some(grid)
}

// Pieces → text.

/// A quote, list item or description that is open: what its lines start with.
struct Container {
    /// What the first line starts with, until it is written.
    marker: Option<String>,
    rest: String,
}

impl Container {
    fn quote() -> Container {
        Container { marker: Some("> ".to_owned()), rest: "> ".to_owned() }
    }

    fn item(number: Option<u64>) -> Container {
        let marker = number.map_or_else(|| "- ".to_owned(), |number| format!("{number}. "));
        let rest = " ".repeat(marker.len());
        Container { marker: Some(marker), rest }
    }

    fn is_item(&self) -> bool {
        self.rest.trim().is_empty()
    }

    /// Lies in the item of the term before it.
    fn description() -> Container {
        Container { marker: None, rest: "  ".to_owned() }
    }
}

#[derive(Default)]
struct Writer {
    out: String,
    anchors: Vec<Anchor>,
    /// Ids of elements whose text is still to come.
    waiting: Vec<String>,
    containers: Vec<Container>,
    /// Containers beyond the deepest that is written.
    too_deep: usize,
    /// The depth of the item that has just ended.
    after_item: Option<usize>,
    /// The depth of the paragraph that has just ended.
    after_paragraph: Option<usize>,
}

impl Writer {
    fn push_container(&mut self, container: Container) {
        if self.containers.len() < MAX_NESTING {
            self.containers.push(container);
        } else {
            self.too_deep += 1;
        }
    }

    fn pop_container(&mut self) {
        if self.too_deep > 0 {
            self.too_deep -= 1;
        } else if let Some(container) = self.containers.pop()
            && container.marker.is_none()
            && container.is_item()
        {
            self.after_item = Some(self.containers.len());
        }
    }

    /// Whether a description would follow its term.
    fn is_after_item(&self) -> bool {
        self.after_item == Some(self.containers.len()) || self.containers.len() == MAX_NESTING
    }

    /// Starts a line for a block, behind what separates it from the block before.
    fn start_block(&mut self) {
        let open = self
            .containers
            .iter()
            .position(|c| c.marker.is_some())
            .unwrap_or(self.containers.len());
        let tight = match self.containers.get(open).and_then(|c| c.marker.as_deref()) {
            Some(">" | "> ") | None => false,
            Some(marker) => {
                self.after_item == Some(open)
                    || (self.after_paragraph == Some(open)
                        && open > 0
                        && self.containers[open - 1].is_item()
                        && matches!(marker, "- " | "1. "))
            }
        };
        if !self.out.is_empty() {
            self.out.push('\n');
            if !tight {
                let prefix: String =
                    self.containers.iter().take(open).map(|c| c.rest.as_str()).collect();
                self.out.push_str(prefix.trim_end());
                self.out.push('\n');
            }
        }
        for container in &mut self.containers {
            let start = container.marker.take();
            self.out.push_str(start.as_deref().unwrap_or(&container.rest));
        }
        self.after_paragraph = None;
        if self.after_item.is_some_and(|depth| self.containers.len() <= depth) {
            self.after_item = None;
        }
    }

    /// Starts another line of the same block.
    fn start_line(&mut self) {
        self.out.push('\n');
        for container in &self.containers {
            self.out.push_str(&container.rest);
        }
    }

    /// Places the anchors that wait for text.
    fn settle(&mut self) {
        let offset = self.out.len();
        self.anchors
            .extend(self.waiting.drain(..).map(|id| Anchor { offset, place: Place::Element(id) }));
    }

    fn finish(mut self) -> (String, Vec<Anchor>) {
        self.out.truncate(self.out.trim_end().len());
        if !self.out.is_empty() {
            self.settle();
            self.out.push('\n');
        }
        (self.out, self.anchors)
    }

    fn paragraph(&mut self, pieces: &[Piece]) {
        if !self.has_text(pieces) {
            return;
        }
        self.start_block();
        self.inline(pieces, Inside::Paragraph);
        self.after_paragraph = Some(self.containers.len());
    }

    fn heading(&mut self, level: usize, pieces: &[Piece]) {
        if !self.has_text(pieces) {
            return;
        }
        self.start_block();
        for piece in pieces {
            if let Piece::Anchor(id) = piece {
                self.waiting.push(id.clone());
            }
        }
        self.settle();
        for _ in 0..level {
            self.out.push('#');
        }
        self.out.push(' ');
        self.inline(pieces, Inside::Heading);
    }

    fn rule(&mut self) {
        if self.containers.is_empty() && !self.out.is_empty() {
            self.start_block();
            self.out.push_str("* * *");
        }
    }

    /// Whether there is anything to write; if not, its anchors wait for what comes next.
    fn has_text(&mut self, pieces: &[Piece]) -> bool {
        let found = pieces.iter().any(|piece| match piece {
            Piece::Text(text) | Piece::Code(text) => !text.trim().is_empty(),
            _ => false,
        });
        if !found {
            for piece in pieces {
                if let Piece::Anchor(id) = piece {
                    self.waiting.push(id.clone());
                }
            }
        }
        found
    }

    fn code(&mut self, pre: &Pre) {
        let text = pre.text.trim_end();
        // A first line feed belongs to the tag; other blank lines at the start say nothing.
        let start = text.len() - text.trim_start_matches(['\n', ' ', '\t']).len();
        let start = text.get(..start).and_then(|blank| blank.rfind('\n')).map_or(0, |at| at + 1);
        if text.is_empty() {
            self.waiting.extend(pre.anchors.iter().map(|(_, id)| id.clone()));
            return;
        }
        self.start_block();
        let text = slice(text, Span::new(start, text.len()));
        let fence = "`".repeat(longest_run(text, '`').max(2) + 1);
        let mut anchors = pre.anchors.iter().peekable();
        while let Some((_, id)) = anchors.next_if(|(at, _)| *at <= start) {
            self.waiting.push(id.clone());
        }
        self.settle();
        self.out.push_str(&fence);
        self.out.push_str(&pre.language);
        let mut at = start;
        for line in text.split('\n') {
            if line.trim().is_empty() {
                let prefix: String = self.containers.iter().map(|c| c.rest.as_str()).collect();
                self.out.push('\n');
                self.out.push_str(prefix.trim_end());
            } else {
                self.start_line();
                let mut written = 0;
                while let Some((place, id)) =
                    anchors.next_if(|(place, _)| *place <= at + line.len())
                {
                    let place = place.saturating_sub(at).max(written);
                    self.out.push_str(line.get(written..place).unwrap_or_default());
                    written = place;
                    self.waiting.push(id.clone());
                    self.settle();
                }
                self.out.push_str(line.get(written..).unwrap_or_default());
            }
            at += line.len() + 1;
        }
        self.start_line();
        self.out.push_str(&fence);
        self.waiting.extend(anchors.map(|(_, id)| id.clone()));
    }

    fn table(&mut self, rows: &[Vec<Vec<Piece>>]) {
        let Some(width) = rows.first().map(Vec::len) else { return };
        self.start_block();
        self.settle();
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                self.start_line();
            }
            for cell in row {
                self.out.push_str("| ");
                let before = self.out.len();
                self.inline(cell, Inside::Cell);
                if self.out.len() > before {
                    self.out.push(' ');
                }
            }
            self.out.push('|');
            if at == 0 {
                self.start_line();
                for _ in 0..width {
                    self.out.push_str("| --- ");
                }
                self.out.push('|');
            }
        }
    }

    /// Writes inline content at the end of the line.
    fn inline(&mut self, pieces: &[Piece], inside: Inside) {
        let pieces = readable(pieces, inside);
        let mut line = Line {
            start: true,
            first: true,
            space: false,
            breaks: 0,
            openers: Vec::new(),
            links: 0,
            inside,
        };
        for piece in &pieces {
            match piece {
                Piece::Text(text) => self.escaped(text, &mut line),
                Piece::Code(text) => {
                    self.open(&mut line);
                    let fence = "`".repeat(longest_run(text, '`') + 1);
                    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
                    let text = if inside == Inside::Cell {
                        text.replace('|', "\\|")
                    } else {
                        text.clone()
                    };
                    self.out.extend([fence.as_str(), pad, &text, pad, &fence]);
                    line.start = false;
                }
                Piece::Open(mark) => line.openers.push(mark),
                Piece::Close(mark) => self.out.push_str(mark),
                Piece::LinkStart => {
                    line.openers.push("[");
                    line.links += 1;
                }
                Piece::LinkEnd(url) => {
                    self.out.extend(["](", url, ")"]);
                    line.links -= 1;
                }
                Piece::Break if inside != Inside::Paragraph || line.links > 0 => line.space = true,
                Piece::Break => line.breaks += 1,
                Piece::Anchor(id) if inside != Inside::Heading => self.waiting.push(id.clone()),
                Piece::Anchor(_) => {}
            }
        }
        if inside == Inside::Heading {
            self.escape_closing_sequence();
        }
    }

    /// Writes what stands before the next visible character.
    fn open(&mut self, line: &mut Line) {
        if line.breaks > 0 && !line.first {
            if line.breaks == 1 {
                self.out.push_str("  ");
                self.start_line();
            } else {
                self.start_block();
            }
            line.start = true;
        } else if line.space && !line.start {
            self.out.push(' ');
        }
        line.breaks = 0;
        line.space = false;
        line.first = false;
        if line.openers.contains(&"[") && self.out.ends_with('!') {
            // Before a link it would make an image of it.
            self.out.pop();
            self.out.push_str("\\!");
        }
        self.settle();
        for opener in line.openers.drain(..) {
            self.out.push_str(opener);
            line.start = false;
        }
    }

    /// Writes text so that none of it is Markdown.
    fn escaped(&mut self, text: &str, line: &mut Line) {
        let mut at = 0;
        let bytes = text.as_bytes();
        while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
            if c.is_whitespace() {
                line.space = true;
                at += 1;
                continue;
            }
            let fresh = line.start || (line.breaks > 0 && !line.first);
            self.open(line);
            let at_start = fresh && line.start && line.inside == Inside::Paragraph;
            let before = self.out.chars().next_back().filter(|_| !line.start);
            let rest = text.get(at + c.len_utf8()..).unwrap_or_default();
            let mut length = c.len_utf8();
            let digits = bytes.get(at..).unwrap_or_default().iter().take(10);
            let numbered = digits.take_while(|b| b.is_ascii_digit()).count();
            if at_start && (1..=9).contains(&numbered) {
                // `1.` at the start of a line would be an item.
                self.out.push_str(text.get(at..at + numbered).unwrap_or_default());
                length = numbered;
                let behind = text.get(at + numbered..).unwrap_or_default();
                if behind.starts_with(['.', ')']) && blank_behind(behind, 1) {
                    self.out.push('\\');
                    self.out.push_str(behind.get(..1).unwrap_or_default());
                    length += 1;
                }
            } else {
                if self.needs_escape(c, before, rest, at_start, line) {
                    self.out.push('\\');
                }
                self.out.push(c);
            }
            at += length;
            line.start = false;
        }
    }

    fn needs_escape(
        &self,
        c: char,
        before: Option<char>,
        rest: &str,
        at_start: bool,
        line: &Line,
    ) -> bool {
        // Blanks at the end are put behind the mark that follows, if one does.
        let next =
            rest.chars().next().filter(|c| !c.is_whitespace() || !rest.trim_start().is_empty());
        let blank_before = before.is_none_or(char::is_whitespace);
        let blank_next = next.is_some_and(char::is_whitespace);
        let blank_or_end = next.is_none_or(char::is_whitespace);
        let word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        match c {
            '`' => true,
            '\\' => next.is_none_or(|next| next.is_ascii_punctuation()),
            '*' => at_start || !(blank_before && blank_next),
            '_' => at_start || !((word(before) && word(next)) || (blank_before && blank_next)),
            '~' => {
                !blank_before
                    || next.is_none_or(|next| next == '~')
                    || at_start && rest.starts_with('~')
            }
            '[' => at_start || line.links > 0,
            ']' => line.links > 0,
            '(' => self.out.ends_with(']'),
            '<' => next
                .is_none_or(|next| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?')),
            '&' => {
                let name = rest.strip_prefix('#').unwrap_or(rest);
                let behind = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
                behind.is_empty() || (behind.starts_with(';') && behind.len() < name.len())
            }
            '|' => line.inside == Inside::Cell || at_start,
            '#' => at_start && blank_behind(rest.trim_start_matches('#'), 0),
            '>' | '=' | ':' => at_start,
            '-' => at_start && (blank_or_end || matches!(next, Some('-' | '|' | ':'))),
            '+' => at_start && (blank_or_end || next == Some('+')),
            _ => false,
        }
    }

    /// Keeps number signs at the end of a heading from being read as its closing sequence.
    fn escape_closing_sequence(&mut self) {
        let signs = self.out.len() - self.out.trim_end_matches('#').len();
        let at = self.out.len() - signs;
        if signs > 0 && self.out.get(..at).is_some_and(|before| before.ends_with(' ')) {
            self.out.insert(at, '\\');
        }
    }
}

/// How a line of inline content stands.
struct Line {
    /// Whether nothing is on the line.
    start: bool,
    /// Whether nothing of the content is written.
    first: bool,
    space: bool,
    breaks: usize,
    /// Marks to be written before the next character.
    openers: Vec<&'static str>,
    links: usize,
    inside: Inside,
}

fn blank_behind(text: &str, skip: usize) -> bool {
    text.chars().nth(skip).is_none_or(char::is_whitespace)
}

fn longest_run(text: &str, sought: char) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c == sought { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// The pieces without the marks and links that cannot be written.
fn readable(pieces: &[Piece], inside: Inside) -> Vec<Piece> {
    let kept = balanced(pieces);
    let mut readable = Vec::with_capacity(pieces.len());
    for (piece, kept) in pieces.iter().zip(kept) {
        let written = match piece {
            Piece::Open(_) | Piece::Close(_) => kept && inside != Inside::Heading,
            Piece::LinkStart | Piece::LinkEnd(_) => kept,
            _ => true,
        };
        if written {
            push(&mut readable, piece.clone());
        }
    }
    readable
}

/// How far is looked for the characters beside a mark.
const MARK_REACH: usize = 16;

/// Which marks and links can be written: both ends are there, text is inside, and Markdown would read them as marks.
fn balanced(pieces: &[Piece]) -> Vec<bool> {
    let mut kept = vec![false; pieces.len()];
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut breaks = 0;
    let mut breaks_at = vec![0; pieces.len()];
    for (at, piece) in pieces.iter().enumerate() {
        breaks_at[at] = breaks;
        let mark = match piece {
            Piece::Break => {
                breaks += 1;
                continue;
            }
            Piece::Open(mark) => {
                open.push((at, mark));
                continue;
            }
            Piece::LinkStart => {
                open.push((at, "["));
                continue;
            }
            Piece::Close(mark) => mark,
            Piece::LinkEnd(_) => "[",
            _ => continue,
        };
        let Some(found) = open.iter().rposition(|&(_, open)| open == mark) else { continue };
        let (start, _) = open[found];
        open.truncate(found);
        let inside = pieces.get(start + 1..at).unwrap_or_default();
        let right = if mark == "[" {
            visible(inside.iter()) && !open.iter().any(|&(_, open)| open == "[")
        } else {
            open.iter().all(|&(_, open)| open == "[")
                && breaks_at[start] == breaks
                && mark_reads(pieces, start, at)
        };
        if right {
            kept[start] = true;
            kept[at] = true;
        }
    }
    kept
}

fn visible<'a>(pieces: impl Iterator<Item = &'a Piece>) -> bool {
    edge(pieces, false).is_some_and(|c| !c.is_whitespace())
}

/// Whether a pair of marks is one to a Markdown reader.
///
/// Source: CommonMark 0.31, left- and right-flanking delimiter runs.
fn mark_reads(pieces: &[Piece], start: usize, end: usize) -> bool {
    let before = pieces.get(..start).unwrap_or_default();
    let inside = pieces.get(start + 1..end).unwrap_or_default();
    let behind = pieces.get(end + 1..).unwrap_or_default();
    let is_mark = |piece: Option<&Piece>| matches!(piece, Some(Piece::Open(_) | Piece::Close(_)));
    let near = |piece: &&Piece| !matches!(piece, Piece::Anchor(_));
    if is_mark(before.iter().rev().take(MARK_REACH).find(near))
        || is_mark(behind.iter().take(MARK_REACH).find(near))
    {
        return false;
    }
    let reads = |outer: Option<char>, blank: bool, inner: Option<char>| {
        let Some(inner) = inner else { return false };
        blank
            || inner.is_alphanumeric()
            || outer.is_none_or(|c| c.is_whitespace() || c.is_ascii_punctuation())
    };
    let starts_blank =
        matches!(inside.first(), Some(Piece::Text(text)) if text.starts_with(char::is_whitespace));
    let ends_blank =
        matches!(inside.last(), Some(Piece::Text(text)) if text.ends_with(char::is_whitespace));
    let outer_before = before.iter().rev().take(MARK_REACH).find_map(last_char);
    let outer_behind = behind.iter().take(MARK_REACH).find_map(first_char);
    reads(outer_before, starts_blank, edge(inside.iter(), false))
        && reads(outer_behind, ends_blank, edge(inside.iter().rev(), true))
}

/// The first, or from behind the last, character that is no blank.
fn edge<'a>(pieces: impl Iterator<Item = &'a Piece>, from_behind: bool) -> Option<char> {
    pieces.take(MARK_REACH).find_map(|piece| match piece {
        Piece::Text(text) if from_behind => text.trim_end().chars().next_back(),
        Piece::Text(text) => text.trim_start().chars().next(),
        _ => first_char(piece),
    })
}

fn first_char(piece: &Piece) -> Option<char> {
    match piece {
        Piece::Text(text) => text.chars().next(),
        Piece::Code(_) => Some('`'),
        Piece::LinkStart => Some('['),
        Piece::LinkEnd(_) => Some(')'),
        Piece::Break => Some('\n'),
        _ => None,
    }
}

fn last_char(piece: &Piece) -> Option<char> {
    match piece {
        Piece::Text(text) => text.chars().next_back(),
        _ => first_char(piece),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use umbel_core::outline::{Format, parse as outline};

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
            assert_eq!(
                convert(html.as_bytes()),
                Err(ConvertError::NoText { pages: 1 }),
                "{html:?}"
            );
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
        for (tag, expected) in [
            ("en", Some("en")),
            ("pt_BR", Some("pt-BR")),
            ("zh-Hant-TW", Some("zh-Hant-TW")),
            ("", None),
            ("e n", None),
            ("-", None),
        ] {
            assert_eq!(language_tag(tag).as_deref(), expected, "{tag:?}");
        }
    }

    #[test]
    fn the_encoding_is_the_one_that_is_stated_or_fits() {
        for (bytes, expected) in [
            (&b"\xef\xbb\xbf<meta charset=latin1>"[..], "UTF-8"),
            (b"\xff\xfea\0", "UTF-16LE"),
            (b"<meta charset=iso-8859-1>", "windows-1252"),
            (b"<meta charset=utf-16>", "UTF-8"),
            (b"<!-- <meta charset=koi8-r> --><meta http-equiv=content-type content='text/html; charset=koi8-r'>", "KOI8-R"),
            (b"<?xml version='1.0' encoding='shift_jis'?>", "Shift_JIS"),
            ("<p>é".as_bytes(), "UTF-8"),
            (b"<p>\xe9t\xe9 fran\xe7ais", "windows-1252"),
        ] {
            assert_eq!(encoding_name(bytes), expected);
        }
        assert_eq!(convert(b"<meta charset=latin1><p>\xe9").unwrap().text, "é\n");
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
        let (document, _) = parse(html);
        let page = Page::new(&document);
        let kept = choose(&page, document, &mut metadata(&page));
        let walk = Walk::new(&page, &kept);
        let mut found = Vec::new();
        let mut at = 0;
        while at < page.nodes.len() {
            let name = page.name(at);
            let nested = matches!(name, "li" | "dd" | "dt" | "blockquote");
            if page.nodes[at].hidden
                || ((nested || (name == "table" && walk.grid(at).is_some())) && kept.own[at])
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
}
