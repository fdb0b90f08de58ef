//! Page → the elements that are content.
//!
//! Invariant: nothing that is hidden is content.

use super::metadata::Metadata;
use super::page::{Data, MARK, Page, attribute, clean};
use dom_query::Document;
use dom_smoothie::Readability;
use html5ever::local_name;

/// Elements of a page that readability is tried on; larger pages are reference works, not articles.
const MAX_ARTICLE_ELEMENTS: usize = 60_000;

/// Bytes of text, likewise: readability takes quadratic time for text full of `&`.
const MAX_ARTICLE_BYTES: usize = 400_000;

/// Readability is believed if it keeps this share of the text that is neither navigation nor link.
const ARTICLE_SHARE: f64 = 0.6;

/// Readability is not tried on pages with less text of their own than this.
const MIN_ARTICLE_BYTES: usize = 1_000;

/// Which elements' own text is content.
pub(super) struct Kept {
    pub(super) own: Vec<bool>,
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
    pub(super) fn any(&self, range: &std::ops::Range<usize>) -> bool {
        self.before[range.start] < self.before[range.end]
    }

    /// The text of the content inside an element.
    pub(super) fn text(&self, page: &Page, at: usize) -> String {
        let mut text = String::new();
        let mut next = at + 1;
        while next < page.nodes[at].end {
            let node = &page.nodes[next];
            if node.hidden {
                next = node.end;
                continue;
            }
            match &node.data {
                Data::Text(piece) if self.own[node.parent] => text.push_str(piece),
                Data::Element(name, _) if *name == local_name!("br") => text.push('\n'),
                _ => {}
            }
            next += 1;
        }
        clean(&text).collect()
    }
}

/// Chooses the content: what the page states as its content; else what readability finds, if that is most of the page's own text;
/// else all but the navigation.
///
/// On a page that states its content and does not call itself an article readability could only lose: of the standard library's
/// page on `Option` it drops every method's signature. Short pages are below what it is made for.
pub(super) fn choose(page: &Page, document: Document, metadata: &mut Metadata) -> Kept {
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

#[cfg(test)]
mod tests {
    use super::super::page::fold;
    use super::super::{metadata, tree};
    use super::*;

    /// The text of a page's content, with its blanks folded.
    fn check(html: &str, expected: &str) {
        let (document, _) = tree::parse(html);
        let page = Page::new(&document);
        let kept = choose(&page, document, &mut metadata::read(&page));
        assert_eq!(fold(&kept.text(&page, 0)), expected, "{html}");
    }

    #[test]
    fn stated_content_is_the_content() {
        check("<p>a </p><main>b</main>", "b");
        check("<p>a </p><article>b</article>", "b");
        check("<main>a <article>long text</article></main>", "long text");
        check("<main>much more text <article>b</article></main>", "much more text b");
        check("<article>a </article><article>b</article>", "a b");
        check("<p>a </p><nav>b</nav><footer>c</footer>", "a");
        check("<main><header>a </header><aside>b </aside><nav>c</nav></main>", "a b");
    }

    #[test]
    fn content_is_found_by_range() {
        let kept = Kept::new(vec![false, true, false]);
        assert!(kept.any(&(0..2)) && kept.any(&(1..2)));
        assert!(!kept.any(&(0..1)) && !kept.any(&(2..3)) && !kept.any(&(1..1)));
    }
}
