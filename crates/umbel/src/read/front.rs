//! The start of a Markdown file → what its author says of it, and where the body begins.
//!
//! Invariant: front matter that does not parse is text, with a warning.

use crate::metadata::{Stated, parse_date};
use serde_json::{Map, Value};
use umbel_core::span::{Span, next_line, slice};

/// What stands before the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FrontMatter {
    /// Where the body begins: behind byte order mark and front matter.
    pub(super) body_start: usize,
    /// What it says.
    pub(super) stated: Stated,
    /// What was odd about it.
    pub(super) warnings: Vec<String>,
}

/// Keys that hold the date, the first one found wins.
const DATE_KEYS: [&str; 9] = [
    "updated_at",
    "updated",
    "last_updated",
    "lastmod",
    "last_modified",
    "modified",
    "last_reviewed",
    "published",
    "date",
];

impl FrontMatter {
    /// A text without front matter.
    pub(super) fn none(text: &str) -> FrontMatter {
        FrontMatter {
            body_start: if text.starts_with('\u{feff}') { 3 } else { 0 },
            stated: Stated::default(),
            warnings: Vec::new(),
        }
    }

    /// Reads YAML between `---` lines or TOML between `+++` lines at the start of a text.
    pub(super) fn of(text: &str) -> FrontMatter {
        let none = FrontMatter::none(text);
        let start = none.body_start;
        let first = Span::new(start, next_line(text, start));
        let fence = slice(text, first).trim_end();
        if !matches!(fence, "---" | "+++") {
            return none;
        }
        let mut at = first.end;
        while at < text.len() {
            let line = Span::new(at, next_line(text, at));
            let content = slice(text, line).trim_end();
            if content == fence || (fence == "---" && content == "...") {
                return match mapping(slice(text, Span::new(first.end, line.start)), fence) {
                    Ok(mapping) => {
                        let (stated, warnings) = stated(&mapping);
                        FrontMatter { body_start: line.end, stated, warnings }
                    }
                    Err(reason) => FrontMatter {
                        warnings: vec![format!(
                            "front matter does not parse and was read as text: {reason}"
                        )],
                        ..none
                    },
                };
            }
            at = line.end;
        }
        none
    }
}

/// Front matter that parses as a mapping.
fn mapping(front: &str, fence: &str) -> Result<Map<String, Value>, String> {
    let value: Value = if fence == "+++" {
        let table: toml::Table =
            front.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
        serde_json::to_value(table).map_err(|error| error.to_string())?
    } else if front.trim().is_empty() {
        return Ok(Map::new());
    } else if bracket_depth(front) > BRACKET_DEPTH {
        return Err(format!("its brackets nest more than {BRACKET_DEPTH} deep"));
    } else {
        serde_norway::from_str(front).map_err(|error| error.to_string())?
    };
    match value {
        Value::Object(mapping) => Ok(mapping),
        _ => Err("it is not a mapping".to_owned()),
    }
}

/// How deep brackets may nest in YAML: the reader gives up here too, but only after a time that grows with the square of the
/// depth. Source: `remaining_depth` in `serde_norway`.
const BRACKET_DEPTH: usize = 128;

/// How many brackets are open at once, quoted ones too.
fn bracket_depth(front: &str) -> usize {
    let (mut open, mut deepest) = (0_usize, 0);
    for byte in front.bytes() {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest
}

/// What a mapping says, and what of it cannot be used.
fn stated(mapping: &Map<String, Value>) -> (Stated, Vec<String>) {
    let mut warnings = Vec::new();
    let first = |keys: &[&str]| keys.iter().find_map(|key| words(mapping.get(*key)?));
    let updated_at = DATE_KEYS.iter().find_map(|key| {
        let text = words(mapping.get(*key)?)?;
        let date = parse_date(&text);
        if date.is_none() {
            warnings.push(format!("front matter `{key}` is no date: `{text}`, want `2024-05-01`"));
        }
        date
    });
    let stated = Stated {
        title: first(&["title"]),
        connector: first(&["connector"]),
        url: first(&["url", "canonical_url"]),
        updated_at,
        labels: mapping.get("labels").map(list),
        language: first(&["language", "lang"]),
    };
    (stated, warnings)
}

/// A value as words; `None` for an empty one and for one that is not a single value.
fn words(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        // This is how the TOML reader hands a date on.
        Value::Object(date) if date.len() == 1 => date.values().next()?.as_str()?.to_owned(),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// One value or a list of them.
fn list(value: &Value) -> std::collections::BTreeSet<String> {
    match value {
        Value::Array(values) => values.iter().filter_map(words).collect(),
        value => words(value).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::show_date;

    fn check(front: &str, expected: &Stated) {
        let found = FrontMatter::of(front);
        assert_eq!((&found.stated, found.warnings.len()), (expected, 0), "{front}");
        assert_eq!(found.body_start, front.len());
    }

    #[test]
    fn each_field_is_read() {
        let all = Stated {
            title: Some("A".to_owned()),
            connector: Some("wiki".to_owned()),
            url: Some("https://example.com/a".to_owned()),
            updated_at: Some(1_714_521_600),
            labels: Some(["hr".to_owned(), "staff".to_owned()].into()),
            language: Some("en".to_owned()),
        };
        check(
            "---\ntitle: A\nconnector: wiki\nurl: https://example.com/a\ndate: 2024-05-01\nlabels: [staff, hr]\nlang: en\n---\n",
            &all,
        );
        check(
            "+++\ntitle = \"A\"\nconnector = \"wiki\"\nurl = \"https://example.com/a\"\ndate = 2024-05-01\nlabels = [\"staff\", \"hr\"]\nlang = \"en\"\n+++\n",
            &all,
        );
    }

    #[test]
    fn an_update_counts_more_than_a_publication() {
        let found = FrontMatter::of("---\ndate: 2020-01-01\nlastmod: 2024-05-01T00:00:00Z\n---\n");
        assert_eq!(found.stated.updated_at.map(show_date).unwrap(), "2024-05-01T00:00:00Z");
    }

    #[test]
    fn a_date_that_is_none_is_a_warning() {
        let found = FrontMatter::of("---\ndate: soon\n---\n");
        assert_eq!(found.stated.updated_at, None);
        assert!(found.warnings[0].contains("soon"), "{:?}", found.warnings);
    }

    #[test]
    fn deep_brackets_are_text_at_once() {
        let check = |open: &str, close: &str| {
            let front = format!("---\na: {}{}\n---\n", open.repeat(1 << 20), close.repeat(1 << 20));
            let found = FrontMatter::of(&front);
            assert_eq!(found.body_start, 0, "{open}");
            assert!(found.warnings[0].contains("128 deep"), "{:?}", found.warnings);
        };
        check("[", "]");
        check("{a: ", "}");
        check("[", "");
    }

    #[test]
    fn one_label_needs_no_list() {
        let found = FrontMatter::of("---\nlabels: staff\n---\n");
        assert_eq!(found.stated.labels, Some(["staff".to_owned()].into()));
    }
}
