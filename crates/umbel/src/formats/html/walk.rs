//! Page and its content → blocks.
//!
//! Invariant: text comes once, but for cells that are merged; each start of a container has its end; each id is an anchor once.

use super::attributes;
use super::blocks::{Block, Container, Inside, Piece, Pre, push};
use super::content::Kept;
use super::elements::is_block;
use super::page::{Data, Page, clean, fold};
use super::table::{self, Grid};
use std::collections::{BTreeMap, HashSet};
use url::Url;

/// The blocks of the page's content.
pub(super) fn walk(page: &Page, kept: &Kept) -> Vec<Block> {
    let mut walk = Walk::new(page, kept);
    walk.run();
    walk.blocks
}

/// A way through a page, and what is open on it.
pub(super) struct Walk<'a> {
    page: &'a Page,
    kept: &'a Kept,
    base: Option<Url>,
    blocks: Vec<Block>,
    pieces: Vec<Piece>,
    leaves: Vec<(usize, Leave)>,
    /// The next number of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    ids: HashSet<String>,
    /// The text of the open `pre`, with its anchors.
    pre: Option<Pre>,
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

impl<'a> Walk<'a> {
    pub(super) fn new(page: &'a Page, kept: &'a Kept) -> Walk<'a> {
        Walk {
            page,
            kept,
            base: attributes::base(page),
            blocks: Vec::new(),
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
                    self.blocks.push(Block::End);
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
                self.blocks.push(Block::Heading(level, pieces));
                return node.end;
            }
            "br" => self.line_break(),
            "hr" => self.blocks.push(Block::Rule),
            "img" => {
                if let Some(alt) = page.attribute(at, "alt").map(fold).filter(|_| own) {
                    self.push(Piece::Text(alt));
                }
            }
            "table" if own && self.pre.is_none() => {
                if let Some(grid) = table::grid(page, self.kept, at) {
                    self.table(at, &grid);
                    return node.end;
                }
                self.leaves.push((node.end, Leave::Block));
            }
            "pre" | "listing" | "xmp" | "plaintext" if self.pre.is_none() => {
                self.pre = Some(Pre { language: attributes::language(page, at), ..Pre::default() });
                self.leaves.push((node.end, Leave::Pre));
            }
            "blockquote" if own => {
                self.leaves.push((node.end, Leave::Container));
                self.blocks.push(Block::Start(Container::Quote));
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
                self.blocks.push(Block::Start(Container::Item(number)));
            }
            "dt" if own => {
                let pieces = self.inline(at, Inside::Heading);
                self.leaves.push((node.end, Leave::Container));
                self.blocks.push(Block::Start(Container::Item(None)));
                let mut bold = vec![Piece::Open("**")];
                bold.extend(pieces);
                bold.push(Piece::Close("**"));
                self.paragraph(bold);
                self.leave_until(node.end);
                return node.end;
            }
            "dd" if own => {
                self.leaves.push((node.end, Leave::Container));
                self.blocks.push(Block::Start(Container::Description));
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
                let text = self.kept.text(page, at);
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
                if let Some(url) = page
                    .attribute(at, "href")
                    .and_then(|href| attributes::destination(href, self.base.as_ref()))
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
            if !pre.text.is_empty() || !pre.anchors.is_empty() {
                self.blocks.push(Block::Code(pre));
            }
        }
        self.end_paragraph();
    }

    /// Ends the paragraph that is open.
    fn end_paragraph(&mut self) {
        let pieces = std::mem::take(&mut self.pieces);
        self.paragraph(pieces);
    }

    fn paragraph(&mut self, pieces: Vec<Piece>) {
        if !pieces.is_empty() {
            self.blocks.push(Block::Paragraph(pieces));
        }
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

    /// All content inside an element as one stretch of inline content, behind the anchors that wait.
    pub(super) fn inline(&mut self, at: usize, inside: Inside) -> Vec<Piece> {
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
            self.paragraph(pieces);
        }
        // Anchors of the table itself stand before its first row.
        self.end_paragraph();
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
        self.blocks.push(Block::Table(rows));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{content, metadata, tree};
    use super::*;

    fn check(html: &str, expected: &[Block]) {
        let (document, _) = tree::parse(html);
        let page = Page::new(&document);
        let kept = content::choose(&page, document, &mut metadata::read(&page));
        assert_eq!(walk(&page, &kept), expected, "{html}");
    }

    fn pieces(text: &str) -> Vec<Piece> {
        vec![Piece::Text(text.to_owned())]
    }

    #[test]
    fn containers_start_and_end_around_their_blocks() {
        let item = |number| Block::Start(Container::Item(number));
        let paragraph = |text| Block::Paragraph(pieces(text));
        check(
            "<ol start=3><li>a<li>b</ol>",
            &[item(Some(3)), paragraph("a"), Block::End, item(Some(4)), paragraph("b"), Block::End],
        );
        check(
            "<blockquote><h2>a</h2><hr></blockquote>",
            &[
                Block::Start(Container::Quote),
                Block::Heading(2, pieces("a")),
                Block::Rule,
                Block::End,
            ],
        );
        check(
            "<dl><dd>a</dl>",
            &[Block::Start(Container::Description), paragraph("a"), Block::End],
        );
    }

    #[test]
    fn a_merged_cell_has_its_anchor_once() {
        let anchor = || Piece::Anchor("x".to_owned());
        let cell = |text: &str| pieces(text);
        check(
            "<table><tr><td rowspan=2 id=x>a<td>b<tr><td>c</table>",
            &[Block::Table(vec![
                vec![[vec![anchor()], cell("a")].concat(), cell("b")],
                vec![cell("a"), cell("c")],
            ])],
        );
    }
}
