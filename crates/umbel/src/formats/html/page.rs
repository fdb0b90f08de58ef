//! Tree → its nodes in document order.
//!
//! Invariant: a node stands behind its parent and before its next sibling, so that a subtree is a range; an element carries its
//! number in the tree too.

use super::elements::is_block;
use dom_query::Document;
use html5ever::tendril::StrTendril;
use html5ever::{Attribute, LocalName, local_name};

/// The attribute that carries an element's number through readability.
pub(super) const MARK: &str = "data-umbel-node";

/// The nodes of a page in document order, the root first: a subtree is a range.
pub(super) struct Page {
    pub(super) nodes: Vec<Node>,
    pub(super) elements: usize,
    pub(super) text_bytes: usize,
}

/// A node of a page.
pub(super) struct Node {
    /// One past its last descendant.
    pub(super) end: usize,
    pub(super) parent: usize,
    pub(super) data: Data,
    /// Whether it is left out with all it holds: script, form control, hidden.
    pub(super) hidden: bool,
    /// Whether it is navigation by its element or role.
    pub(super) navigation: bool,
    /// Whether a block is inside it.
    pub(super) has_block: bool,
}

/// What a node is.
pub(super) enum Data {
    Element(LocalName, Vec<Attribute>),
    Text(StrTendril),
}

impl Page {
    /// Copies the tree, and numbers its elements in place. A page of any depth costs no stack.
    pub(super) fn new(document: &Document) -> Page {
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

    pub(super) fn name(&self, at: usize) -> &str {
        match &self.nodes[at].data {
            Data::Element(name, _) => name,
            Data::Text(_) => "",
        }
    }

    pub(super) fn attribute(&self, at: usize, name: &str) -> Option<&str> {
        match &self.nodes[at].data {
            Data::Element(_, attributes) => attribute(attributes, name),
            Data::Text(_) => None,
        }
    }

    pub(super) fn inside(&self, at: usize) -> std::ops::Range<usize> {
        at + 1..self.nodes[at].end
    }

    /// The children of a node.
    pub(super) fn children(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.nodes[at].end;
        let mut next = at + 1;
        std::iter::from_fn(move || {
            let child = (next < end).then_some(next)?;
            next = self.nodes[child].end;
            Some(child)
        })
    }

    /// All text inside, hidden or not, with its blanks folded.
    pub(super) fn text(&self, at: usize) -> String {
        let mut text = String::new();
        for at in at..self.nodes[at].end {
            if let Data::Text(piece) = &self.nodes[at].data {
                text.push_str(piece);
            }
        }
        fold(&text)
    }

    /// The elements of a name.
    pub(super) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = usize> + 'a {
        (0..self.nodes.len()).filter(move |&at| self.name(at) == name)
    }

    pub(super) fn is_under(&self, at: usize, names: &[&str]) -> bool {
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

pub(super) fn attribute<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a str> {
    attributes.iter().find(|a| &*a.name.local == name).map(|a| &*a.value)
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

/// Text with its blanks folded.
pub(super) fn fold(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text without what is no text: control characters, soft hyphens, byte order marks, zero-width spaces.
pub(super) fn clean(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().filter_map(|c| match c {
        '\n' | '\t' => Some(c),
        '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => Some('\n'),
        '\u{ad}' | '\u{feff}' | '\u{200b}' => None,
        c if c.is_control() => None,
        c if c.is_whitespace() => Some(' '),
        c => Some(c),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::parse;
    use super::*;

    #[test]
    fn a_subtree_is_a_range() {
        let page = Page::new(&parse("<p id=a>b<i>c</i><p>d").0);
        let paragraph = page.named("p").next().unwrap();
        assert_eq!(page.attribute(paragraph, "id"), Some("a"));
        assert_eq!(page.text(paragraph), "bc");
        let children: Vec<_> = page.children(paragraph).map(|at| page.name(at)).collect();
        assert_eq!(children, ["", "i"]);
        assert_eq!(page.inside(paragraph).len(), 3);
        assert!(page.is_under(paragraph, &["body"]) && !page.is_under(paragraph, &["p"]));
    }

    #[test]
    fn what_is_hidden_or_navigation_is_known() {
        let check = |html: &str, hidden: bool, navigation: bool| {
            let page = Page::new(&parse(&format!("<body>{html}")).0);
            let node =
                &page.nodes[page.children(page.named("body").next().unwrap()).next().unwrap()];
            assert_eq!((node.hidden, node.navigation), (hidden, navigation), "{html}");
        };
        check("<p>a", false, false);
        check("<p hidden>a", true, false);
        check("<p hidden=until-found>a", false, false);
        check("<p aria-hidden=true>a", true, false);
        check("<p style='Display : none'>a", true, false);
        check("<script>a</script>", true, false);
        check("<div class='a gutter'>1</div>", true, false);
        check("<nav>a</nav>", false, true);
        check("<div role=search>a</div>", false, true);
    }

    #[test]
    fn blanks_fold_and_what_is_no_text_goes() {
        assert_eq!(fold(" a\n\u{a0}b\t"), "a b");
        assert_eq!(clean("a\u{ad}b\rc\u{a0}d\0\u{feff}").collect::<String>(), "ab\nc d");
    }
}
