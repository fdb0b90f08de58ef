//! Blocks of pages → Markdown, with an anchor at each page.
//!
//! Invariant: a word or sentence that a page's end broke is whole, and a page without blocks has no anchor.

use super::blocks::Block;
use umbel_core::document::{Anchor, Place};

/// The text of all pages, and where each that has text starts.
pub(super) fn write(pages: &[Vec<Block>]) -> (String, Vec<Anchor>) {
    let mut text = String::new();
    let mut anchors = Vec::new();
    let mut last: Option<&Block> = None;
    for (number, page) in (1..).zip(pages) {
        for (at, block) in page.iter().enumerate() {
            let between = match last {
                None => "",
                Some(last) if goes_on(last, block) => {
                    if drop_hyphen(&mut text) {
                        ""
                    } else {
                        " "
                    }
                }
                Some(_) => "\n\n",
            };
            text.push_str(between);
            if at == 0 {
                anchors.push(Anchor { offset: text.len(), place: Place::Page(number) });
            }
            match block {
                Block::Heading(level, _, title) => {
                    text.push_str(&"#".repeat(usize::from(*level)));
                    text.push(' ');
                    text.push_str(title);
                }
                Block::Text(lines) => text.push_str(lines),
            }
            last = Some(block);
        }
    }
    text.push('\n');
    (text, anchors)
}

/// Whether a paragraph goes on in the next column, or at the top of the next page.
fn goes_on(last: &Block, next: &Block) -> bool {
    let (Block::Text(last), Block::Text(next)) = (last, next) else { return false };
    let is_prose = |text: &str| !text.starts_with(['|', '`', '~']) && !text.ends_with('|');
    is_prose(last)
        && is_prose(next)
        && last.ends_with(|c: char| c.is_alphanumeric() || matches!(c, ',' | '-'))
        && next.starts_with(char::is_lowercase)
}

/// Takes off the hyphen of a word that the end of a page or column broke.
fn drop_hyphen(text: &mut String) -> bool {
    let broken = text.strip_suffix('-').is_some_and(|word| word.ends_with(char::is_lowercase));
    if broken {
        text.pop();
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_goes_on_over_a_page_end() {
        let check = |first: &str, second: &str, expected: &str| {
            let pages = [first, second].map(|text| vec![Block::Text(text.to_owned())]);
            assert_eq!(write(&pages).0, expected);
        };
        check("The pump runs", "for two hours.", "The pump runs for two hours.\n");
        check("The pump hesi-", "tates.", "The pump hesitates.\n");
        check("The pump runs.", "for two hours.", "The pump runs.\n\nfor two hours.\n");
        check("|a|b|", "for two hours.", "|a|b|\n\nfor two hours.\n");
    }
}
