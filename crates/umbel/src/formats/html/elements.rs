//! The name of an element → what parsers make of it.
//!
//! Invariant: only what the HTML Standard says of a name; what a page says of an element is for others to read.

use html5ever::LocalName;

/// Elements that hold nothing, and those that a page has once at the most.
pub(super) fn is_void(name: &LocalName) -> bool {
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
pub(super) fn is_raw(name: &LocalName) -> bool {
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
pub(super) fn is_formatting(name: &LocalName) -> bool {
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

/// Elements that stand on lines of their own.
pub(super) fn is_block(name: &LocalName) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_a_block_or_a_part_of_a_line() {
        for name in ["p", "h1", "li", "td", "pre", "dialog"] {
            assert!(is_block(&LocalName::from(name)), "{name}");
        }
        for name in ["b", "a", "br", "img", "code", "custom-element", ""] {
            assert!(!is_block(&LocalName::from(name)), "{name}");
        }
    }
}
