//! Attributes → what Markdown says of them: where a link leads, the language of code.
//!
//! Invariant: neither can end what it stands in, whatever the page says.

use super::page::Page;
use url::Url;

/// Link destinations longer than this are left out.
const MAX_DESTINATION_BYTES: usize = 2_000;

/// The address that the page's links start from, if it states one.
pub(super) fn base(page: &Page) -> Option<Url> {
    page.named("base")
        .find_map(|at| page.attribute(at, "href"))
        .and_then(|href| Url::parse(href.trim()).ok())
}

/// Where a link leads, if that can be said without knowing the page's own address.
pub(super) fn destination(href: &str, base: Option<&Url>) -> Option<String> {
    let href = href.trim();
    if href.len() > MAX_DESTINATION_BYTES || href.starts_with('#') {
        return None;
    }
    let url = match (Url::parse(href), base) {
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
pub(super) fn language(page: &Page, at: usize) -> String {
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

#[cfg(test)]
mod tests {
    use super::super::tree::parse;
    use super::*;

    #[test]
    fn a_destination_is_an_address_that_can_be_followed() {
        let base = Url::parse("https://e.com/x/").unwrap();
        let check = |href: &str, expected: Option<&str>, with_base: Option<&str>| {
            assert_eq!(destination(href, None).as_deref(), expected, "{href}");
            assert_eq!(destination(href, Some(&base)).as_deref(), with_base, "{href}");
        };
        let both = |href: &str, expected: Option<&str>| check(href, expected, expected);
        both(" https://e.com/a b ", Some("https://e.com/a%20b"));
        both("https://e.com/(a)*", Some("https://e.com/%28a%29%2A"));
        both("mailto:a@e.com", Some("mailto:a@e.com"));
        both("javascript:a()", None);
        both("data:text/plain,x", None);
        both("#a", None);
        both(&format!("https://e.com/{}", "a".repeat(MAX_DESTINATION_BYTES)), None);
        check("../a", None, Some("https://e.com/a"));
    }

    #[test]
    fn a_language_stands_at_the_code_or_around_it() {
        let check = |html: &str, expected: &str| {
            let page = Page::new(&parse(html).0);
            let at = page.named("pre").next().unwrap();
            assert_eq!(language(&page, at), expected, "{html}");
        };
        check("<pre>a", "");
        check("<pre class='x language-rust'>a", "rust");
        check("<pre><code class=lang-c++>a", "c++");
        check("<div class=highlight-python><div><pre>a", "python");
        check("<pre data-lang=go class=language-rust>a", "go");
        check("<pre class=language-none>a", "");
        check("<pre data-lang='a b'>a", "");
    }
}
