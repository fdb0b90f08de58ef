//! HTML → Markdown of the main content, with anchors at the elements that have an id.
//!
//! Invariant: the headings of the text are headings of the page, and no text of the page turns into Markdown structure.

mod encoding;
mod elements;
mod tree;
mod page;
mod metadata;
mod content;
mod blocks;
mod attributes;
mod table;
mod walk;
mod marks;
mod escape;
mod writer;
#[cfg(test)]
mod tests;

use super::{ConvertError, Converted};
use metadata::Metadata;
use page::Page;

/// The page's main content as Markdown, with its metadata.
///
/// Time and memory are linear in the page. Headings, lists, tables, code, quotes and links are kept; images are their alternative
/// text; scripts, forms, navigation and what is hidden are left out. An anchor lies where the element's text begins; an element
/// at a heading's start, or right before it, has its anchor at the heading.
///
/// # Errors
/// [`ConvertError::NoText`]: nothing on the page is content.
///
/// # Panics
/// Where a parser does: [`super::convert`] makes an error of it.
pub fn convert(bytes: &[u8]) -> Result<Converted, ConvertError> {
    let encoding = encoding::choose(bytes);
    let (text, _, odd) = encoding.decode(bytes);
    let mut warnings = Vec::new();
    if odd {
        warnings
            .push(format!("has bytes that are not {}: they became `\u{fffd}`", encoding.name()));
    }
    let (document, left_out) = tree::parse(&text);
    drop(text);
    if left_out > 0 {
        warnings.push(format!("is nested too deeply: {left_out} tags were left out"));
    }
    let page = Page::new(&document);
    let mut metadata = metadata::read(&page);
    let kept = content::choose(&page, document, &mut metadata);
    let blocks = walk::walk(&page, &kept);
    let (text, anchors) = writer::write(blocks);
    if text.is_empty() {
        return Err(ConvertError::NoText { pages: 1 });
    }
    let updated_at = metadata.updated_at.or_else(|| metadata::time_in(&page, &kept.own));
    let Metadata { title, language, .. } = metadata;
    Ok(Converted { text, anchors, title, updated_at, language, warnings })
}

/// The name of the encoding that [`convert`] reads the bytes in, as the Encoding Standard spells it.
///
/// In this order: byte order mark, declaration of the page, UTF-8 if valid, the most likely one.
///
/// Source: HTML Standard, "determining the character encoding".
pub fn encoding_name(bytes: &[u8]) -> &'static str {
    encoding::choose(bytes).name()
}
