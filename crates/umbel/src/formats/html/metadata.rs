//! Page → what it says of itself: title, language, when it was changed.
//!
//! Invariant: a change counts before a publication, and what the page does not say stays empty.

use super::page::{Data, Page, fold};
use crate::metadata::parse_date;
use dom_smoothie::Readability;
use std::collections::BTreeMap;

/// What a page says of itself.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    pub(super) title: Option<String>,
    pub(super) language: Option<String>,
    pub(super) updated_at: Option<i64>,
    /// Whether the page calls itself an article: news, a blog post.
    pub(super) is_article: bool,
}

impl Metadata {
    /// Takes the title that readability cleans of the site's name.
    pub(super) fn read_by_readability(&mut self, readability: &Readability) {
        let found = readability.get_article_metadata(readability.parse_json_ld());
        let title = fold(&found.title);
        if !title.is_empty() {
            self.title = Some(title);
        }
    }
}

/// What the whole page says of itself, content or not.
pub(super) fn read(page: &Page) -> Metadata {
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
    let named = |names: &[&str]| names.iter().find_map(|name| field(name).and_then(parse_date));
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

/// The first time that the content marks up; `own` says which elements are content.
pub(super) fn time_in(page: &Page, own: &[bool]) -> Option<i64> {
    page.named("time")
        .filter(|&at| own[at])
        .find_map(|at| page.attribute(at, "datetime").and_then(parse_date))
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
            .and_then(parse_date)
            .or_else(|| object.get("@graph").and_then(|graph| linked_time(graph, key))),
        Value::Array(values) => values.iter().find_map(|value| linked_time(value, key)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_a_tag() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(language_tag(text).as_deref(), expected, "{text:?}");
        };
        check("en", Some("en"));
        check("pt_BR", Some("pt-BR"));
        check("zh-Hant-TW", Some("zh-Hant-TW"));
        check("", None);
        check("e n", None);
        check("-", None);
    }

    #[test]
    fn a_linked_time_is_found_in_lists_and_graphs() {
        let check = |json: &str, expected: Option<i64>| {
            let value = serde_json::from_str(json).unwrap();
            assert_eq!(linked_time(&value, "t"), expected, "{json}");
        };
        check(r#"{"t":"1970-01-01T00:01:00Z"}"#, Some(60));
        check(r#"[{"t":"soon"},{"t":"1970-01-02"}]"#, Some(86_400));
        check(r#"{"@graph":[{"t":"1970-01-02"}]}"#, Some(86_400));
        check(r#"{"t":7}"#, None);
    }
}
