//! Blocks → Markdown, with the places of its anchors.
//!
//! Invariant: anchors are in order of their offsets; only a heading, list, quote, table or code block of the page is one in the
//! text.

use super::blocks::{Block, Container, Inside, Piece, Pre};
use super::escape::{Around, blank_behind, escape_closing_sequence, longest_run, needs_escape};
use super::marks::readable;
use umbel_core::document::{Anchor, Place};
use umbel_core::span::{Span, slice};

/// Lists and quotes nested deeper than this are written as if they were this deep.
const MAX_NESTING: usize = 12;

/// The text of the blocks, with a line feed at its end, and the anchors in it; both empty where no block has text.
pub(super) fn write(blocks: Vec<Block>) -> (String, Vec<Anchor>) {
    let mut writer = Writer::default();
    for block in blocks {
        writer.block(&block);
    }
    writer.finish()
}

/// What the lines of an open quote, item or description start with.
struct Prefix {
    /// What the first line starts with, until it is written.
    marker: Option<String>,
    rest: String,
}

impl Prefix {
    /// A description that follows a term lies in the term's item.
    fn of(container: Container, follows_item: bool) -> Prefix {
        let marker = match container {
            Container::Quote => {
                return Prefix { marker: Some("> ".to_owned()), rest: "> ".to_owned() };
            }
            Container::Description if follows_item => {
                return Prefix { marker: None, rest: "  ".to_owned() };
            }
            Container::Item(Some(number)) => format!("{number}. "),
            Container::Item(None) | Container::Description => "- ".to_owned(),
        };
        let rest = " ".repeat(marker.len());
        Prefix { marker: Some(marker), rest }
    }

    fn is_item(&self) -> bool {
        self.rest.trim().is_empty()
    }
}

#[derive(Default)]
struct Writer {
    out: String,
    anchors: Vec<Anchor>,
    /// Ids of elements whose text is still to come.
    waiting: Vec<String>,
    containers: Vec<Prefix>,
    /// Containers beyond the deepest that is written.
    too_deep: usize,
    /// The depth of the item that has just ended.
    after_item: Option<usize>,
    /// The depth of the paragraph that has just ended.
    after_paragraph: Option<usize>,
}

impl Writer {
    fn block(&mut self, block: &Block) {
        match block {
            Block::Paragraph(pieces) => self.paragraph(pieces),
            Block::Heading(level, pieces) => self.heading(*level, pieces),
            Block::Rule => self.rule(),
            Block::Code(pre) => self.code(pre),
            Block::Table(rows) => self.table(rows),
            Block::Start(container) => self.start_container(*container),
            Block::End => self.end_container(),
        }
    }

    fn start_container(&mut self, container: Container) {
        if self.containers.len() < MAX_NESTING {
            let follows = self.after_item == Some(self.containers.len());
            self.containers.push(Prefix::of(container, follows));
        } else {
            self.too_deep += 1;
        }
    }

    fn end_container(&mut self) {
        if self.too_deep > 0 {
            self.too_deep -= 1;
        } else if let Some(container) = self.containers.pop()
            && container.marker.is_none()
            && container.is_item()
        {
            self.after_item = Some(self.containers.len());
        }
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
            escape_closing_sequence(&mut self.out);
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
                let around = Around {
                    out: &self.out,
                    before,
                    rest,
                    at_start,
                    in_link: line.links > 0,
                    in_cell: line.inside == Inside::Cell,
                };
                if needs_escape(c, around) {
                    self.out.push('\\');
                }
                self.out.push(c);
            }
            at += length;
            line.start = false;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn paragraph(text: &str) -> Block {
        Block::Paragraph(vec![Piece::Text(text.to_owned())])
    }

    fn check(blocks: Vec<Block>, expected: &str) {
        assert_eq!(write(blocks).0, expected);
    }

    #[test]
    fn a_container_marks_the_lines_of_its_blocks() {
        let start = Block::Start;
        let item = || start(Container::Item(None));
        check(
            vec![
                start(Container::Quote),
                paragraph("a"),
                paragraph("b"),
                Block::End,
                paragraph("c"),
            ],
            "> a\n>\n> b\n\nc\n",
        );
        check(
            vec![item(), paragraph("a"), Block::End, item(), paragraph("b"), Block::End],
            "- a\n- b\n",
        );
        let description = || start(Container::Description);
        check(
            vec![item(), paragraph("a"), Block::End, description(), paragraph("b"), Block::End],
            "- a\n\n  b\n",
        );
        check(vec![description(), paragraph("a"), Block::End], "- a\n");
    }

    #[test]
    fn blocks_without_text_write_nothing() {
        check(vec![], "");
        check(vec![paragraph(" "), Block::Rule, Block::Code(Pre::default())], "");
    }

    #[test]
    fn anchors_wait_for_text() {
        let anchor = |id: &str| Block::Paragraph(vec![Piece::Anchor(id.to_owned())]);
        let (text, anchors) = write(vec![anchor("a"), paragraph("é"), anchor("b")]);
        assert_eq!(text, "é\n");
        let places: Vec<_> = anchors.iter().map(|anchor| anchor.offset).collect();
        assert_eq!(places, [0, 2]);
    }
}
