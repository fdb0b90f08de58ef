//! What stands between a page and its Markdown: blocks, and the pieces of their lines.
//!
//! Invariant: text is as the page says it; escapes and what lines start with are the writer's.

/// A block, or the start or end of what holds blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Block {
    Paragraph(Vec<Piece>),
    /// With its level, from 1.
    Heading(usize, Vec<Piece>),
    Rule,
    Code(Pre),
    /// Rows of cells, each as wide as the first, which names the columns.
    Table(Vec<Vec<Vec<Piece>>>),
    Start(Container),
    /// The innermost container ends.
    End,
}

/// What holds blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    Quote,
    /// With its number; `None` for a bullet.
    Item(Option<u64>),
    /// Lies in the item of the term before it, if there is one; else it is an item.
    Description,
}

/// The text of a code block, with the offsets of its anchors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Pre {
    pub(super) text: String,
    pub(super) anchors: Vec<(usize, String)>,
    pub(super) language: String,
}

/// A stretch of inline content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Code(String),
    Open(&'static str),
    Close(&'static str),
    LinkStart,
    LinkEnd(String),
    Break,
    Anchor(String),
}

/// What inline content stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    Paragraph,
    Heading,
    Cell,
}

/// Adds a piece: text joins text, code joins code, and a pair with nothing in it goes.
pub(super) fn push(pieces: &mut Vec<Piece>, piece: Piece) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_and_empty_pairs_go() {
        let check = |pieces: Vec<Piece>, expected: Vec<Piece>| {
            let mut found = Vec::new();
            for piece in pieces {
                push(&mut found, piece);
            }
            assert_eq!(found, expected);
        };
        let text = |text: &str| Piece::Text(text.to_owned());
        let code = |text: &str| Piece::Code(text.to_owned());
        let anchor = || Piece::Anchor("x".to_owned());
        check(vec![text("a"), text("b"), Piece::Break], vec![text("ab"), Piece::Break]);
        check(vec![Piece::Open("*"), Piece::Close("*"), text("a")], vec![text("a")]);
        check(vec![Piece::LinkStart, Piece::LinkEnd("u".to_owned())], vec![]);
        check(vec![code("a"), anchor(), code("b")], vec![anchor(), code("ab")]);
        check(vec![code("a"), text(" "), code("b")], vec![code("a"), text(" "), code("b")]);
    }
}
