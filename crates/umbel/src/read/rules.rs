//! A file of rules → what is stated of each path.
//!
//! Invariant: of several rules for one path, the last one speaks for each field.

use crate::metadata::{Stated, parse_date};
use globset::{GlobBuilder, GlobSet};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;

/// Metadata by path: defaults for a whole source, and rules for globs.
///
/// Written in TOML: `title`, `connector`, `url`, `updated_at`, `labels` and `language` at the top hold where a document does
/// not say otherwise itself; under `[[match]]` with a `glob` they hold whatever it says. In `url`, `{path}` is the
/// document's path and `{stem}` the same without its extension.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    text: String,
    default: Fields,
    matches: Vec<(GlobSet, Fields)>,
}

/// Why rules do not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// Not TOML, or a key that is not known.
    #[error("the rules do not parse: {detail}")]
    Syntax {
        /// What is wrong.
        detail: String,
    },
    /// A glob that is none.
    #[error("`{glob}` is not a glob: {detail}")]
    Glob {
        /// The glob.
        glob: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A date that is none.
    #[error("`updated_at` is `{date}`, want a date as `2024-05-01`")]
    Date {
        /// What came.
        date: String,
    },
}

#[derive(Debug, Clone, Default, Deserialize)]
struct RawRules {
    #[serde(flatten)]
    default: RawFields,
    #[serde(default, rename = "match")]
    matches: Vec<RawMatch>,
}

#[derive(Debug, Clone, Deserialize)]
struct RawMatch {
    glob: String,
    #[serde(flatten)]
    fields: RawFields,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct RawFields {
    title: Option<String>,
    connector: Option<String>,
    url: Option<String>,
    updated_at: Option<toml::Value>,
    labels: Option<BTreeSet<String>>,
    language: Option<String>,
    #[serde(flatten)]
    unknown: toml::Table,
}

#[derive(Debug, Clone, Default)]
struct Fields(Stated);

impl Rules {
    /// Reads rules.
    ///
    /// # Errors
    /// [`RulesError`], naming what is wrong.
    pub fn parse(text: &str) -> Result<Rules, RulesError> {
        let raw: RawRules = toml::from_str(text).map_err(|error| RulesError::Syntax {
            detail: error.to_string().trim_end().to_owned(),
        })?;
        let matches = raw.matches.into_iter().map(|RawMatch { glob, fields }| {
            let matcher = path_glob(&glob)?;
            Ok((matcher, Fields::of(fields)?))
        });
        Ok(Rules {
            text: text.to_owned(),
            matches: matches.collect::<Result<_, RulesError>>()?,
            default: Fields::of(raw.default)?,
        })
    }

    /// The rules as they were written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What is stated of a path, whatever the document says.
    pub fn stated(&self, path: &str) -> Stated {
        let hits = self.matches.iter().rev().filter(|(glob, _)| glob.is_match(path));
        hits.fold(Stated::default(), |said, (_, fields)| said.or(fields.at(path)))
    }

    /// What is stated of a path where the document says nothing.
    pub fn default(&self, path: &str) -> Stated {
        self.default.at(path)
    }
}

/// A glob over paths: `*` stays within a folder, `**` does not.
///
/// # Errors
/// [`RulesError::Glob`].
pub fn path_glob(glob: &str) -> Result<GlobSet, RulesError> {
    let built = GlobBuilder::new(glob).literal_separator(true).build();
    // A set says what does not compile, where a matcher of one glob panics.
    built.and_then(|glob| GlobSet::new([glob])).map_err(|error| RulesError::Glob {
        glob: glob.to_owned(),
        detail: error.kind().to_string(),
    })
}

impl Fields {
    fn of(raw: RawFields) -> Result<Fields, RulesError> {
        if let Some(key) = raw.unknown.keys().next() {
            return Err(RulesError::Syntax { detail: format!("`{key}` is not known") });
        }
        let date = |value: toml::Value| {
            let text = match value {
                toml::Value::String(text) => text,
                other => other.to_string(),
            };
            parse_date(&text).ok_or(RulesError::Date { date: text })
        };
        Ok(Fields(Stated {
            title: raw.title,
            connector: raw.connector,
            url: raw.url,
            updated_at: raw.updated_at.map(date).transpose()?,
            labels: raw.labels,
            language: raw.language,
        }))
    }

    fn at(&self, path: &str) -> Stated {
        let stem = Path::new(path).with_extension("");
        let url = self
            .0
            .url
            .as_ref()
            .map(|url| url.replace("{path}", path).replace("{stem}", &stem.to_string_lossy()));
        Stated { url, ..self.0.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
        connector = "files"
        url = "https://example.com/{stem}"
        [[match]]
        glob = "wiki/**"
        connector = "wiki"
        labels = ["staff"]
        [[match]]
        glob = "wiki/*.md"
        labels = ["everyone"]
        updated_at = 2024-05-01
    "#;

    fn check(path: &str, connector: Option<&str>, labels: Option<&[&str]>) {
        let stated = Rules::parse(RULES).unwrap().stated(path);
        let wanted = labels.map(|labels| labels.iter().map(|&label| label.to_owned()).collect());
        assert_eq!((stated.connector.as_deref(), stated.labels), (connector, wanted), "{path}");
    }

    #[test]
    fn the_last_rule_speaks_for_each_field() {
        check("wiki/a.md", Some("wiki"), Some(&["everyone"]));
        check("wiki/b/a.md", Some("wiki"), Some(&["staff"]));
        check("a.md", None, None);
    }

    #[test]
    fn defaults_hold_for_every_path_and_a_url_is_made_of_it() {
        let default = Rules::parse(RULES).unwrap().default("a/b.md");
        assert_eq!(default.url.as_deref(), Some("https://example.com/a/b"));
        assert_eq!(default.connector.as_deref(), Some("files"));
    }

    #[test]
    fn what_does_not_hold_is_named() {
        let check = |text: &str, word: &str| {
            let error = Rules::parse(text).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        };
        check("labls = []", "labls");
        check("[[match]]\nlabels = []", "glob");
        check("[[match]]\nglob = \"a\"\nlabls = []", "labls");
        check("[[match]]\nglob = \"{a\"", "{a");
        let deep = "{".repeat(300) + &"}".repeat(300);
        check(&format!("[[match]]\nglob = \"{deep}\""), "is not a glob");
        check("updated_at = \"soon\"", "soon");
        check("updated_at", "parse");
    }
}
