//! Conditions as people type them → the documents that a search may look at.
//!
//! Invariant: conditions are all to hold; of the alternatives within one, any.

use crate::catalog::DocumentEntry;
use crate::index::{Clause, Facet, Test};
use crate::metadata::parse_date;
use globset::{Glob, GlobSet};
use std::fmt;

/// Conditions on the documents of a search.
#[derive(Debug, Clone, Default)]
pub struct Filter(Vec<Condition>);

/// One condition, as `connector=wiki|policy`.
#[derive(Debug, Clone)]
pub struct Condition {
    typed: String,
    test: Typed,
    negated: bool,
}

#[derive(Debug, Clone)]
enum Typed {
    /// One of these values or globs.
    Words(Field, Vec<Pattern>),
    /// A date in `from..to`, in seconds since 1970.
    Updated { from: Option<i64>, to: Option<i64> },
}

#[derive(Debug, Clone)]
enum Pattern {
    Exactly(String),
    Glob(GlobSet),
}

/// What a condition looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    /// Kept beside each leaf in the index.
    Indexed(Facet),
    Path,
    Title,
    Url,
}

/// The fields that conditions name.
pub const FIELDS: [&str; 8] =
    ["source", "path", "title", "connector", "url", "updated_at", "label", "language"];

/// Why a condition cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// No operator.
    #[error("`{got}` is not a condition, want `FIELD=VALUE`")]
    Syntax {
        /// What was typed.
        got: String,
    },
    /// A field that is not known.
    #[error("`{field}` is not a field")]
    Field {
        /// What was typed.
        field: String,
    },
    /// An operator that the field does not have.
    #[error("`{field}` cannot be compared with `{operator}`")]
    Operator {
        /// The field.
        field: String,
        /// The operator.
        operator: String,
    },
    /// A date that is none.
    #[error("`{got}` is not a date, want one as `2024-05-01`")]
    Date {
        /// What was typed.
        got: String,
    },
    /// A glob that is none.
    #[error("`{got}` is not a glob: {detail}")]
    Glob {
        /// What was typed.
        got: String,
        /// What is wrong.
        detail: String,
    },
}

impl FilterError {
    /// What to type.
    pub fn hint(&self) -> String {
        match self {
            FilterError::Field { .. } | FilterError::Syntax { .. } => {
                format!("the fields are `{}`", FIELDS.join("`, `"))
            }
            FilterError::Operator { field, .. } if field == "updated_at" => {
                "write `updated_at>=2024-01-01` or `updated_at<2024-01-01`".to_owned()
            }
            FilterError::Operator { field, .. } => format!(
                "write `{field}=VALUE`, `{field}!=VALUE`, or several values as `{field}=ONE|OTHER`"
            ),
            FilterError::Date { .. } => {
                "write a day as `2024-05-01`, or a moment as `2024-05-01T12:00:00Z`".to_owned()
            }
            FilterError::Glob { .. } => {
                "put characters that mean something in a glob in brackets, as `[*]`".to_owned()
            }
        }
    }
}

impl Filter {
    /// Reads conditions: `FIELD=VALUE`, `FIELD!=VALUE`, `FIELD=ONE|OTHER`, and for dates `<`, `<=`, `>`, `>=`. A value may be a
    /// glob; an empty one stands for a document that has none.
    ///
    /// # Errors
    /// [`FilterError`] for the first one that cannot be used.
    pub fn parse(conditions: &[String]) -> Result<Filter, FilterError> {
        conditions.iter().map(|typed| Condition::parse(typed)).collect::<Result<_, _>>().map(Filter)
    }

    /// The conditions as they were typed.
    pub fn conditions(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|condition| condition.typed.as_str())
    }

    /// Whether every document passes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the catalog's list is needed to hand the conditions to an index.
    pub fn needs_documents(&self) -> bool {
        self.0.iter().any(|condition| condition.indexed().is_none())
    }

    /// The conditions as an index takes them. `documents` may be empty where [`needs_documents`](Filter::needs_documents) says so.
    pub fn clauses(&self, documents: &[DocumentEntry]) -> Vec<Clause> {
        let clause = |condition: &Condition| match condition.indexed() {
            Some(test) => Clause { test, negated: condition.negated },
            None => {
                let hits = documents.iter().filter(|entry| condition.holds(entry));
                Clause { test: Test::Docs(hits.map(|entry| entry.id).collect()), negated: false }
            }
        };
        self.0.iter().map(clause).collect()
    }

    /// Whether the conditions on labels let a document pass: whether its name may be told, other conditions aside.
    pub fn may_name(&self, entry: &DocumentEntry) -> bool {
        let on_labels = |condition: &&Condition| {
            matches!(condition.test, Typed::Words(Field::Indexed(Facet::Label), _))
        };
        self.0.iter().filter(on_labels).all(|condition| condition.holds(entry))
    }

    /// Whether a document passes.
    pub fn holds(&self, entry: &DocumentEntry) -> bool {
        self.0.iter().all(|condition| condition.holds(entry))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.typed)
    }
}

impl Condition {
    fn parse(typed: &str) -> Result<Condition, FilterError> {
        let syntax = || FilterError::Syntax { got: typed.to_owned() };
        let at = typed.find(['=', '!', '<', '>']).ok_or_else(syntax)?;
        let (field, rest) = typed.split_at(at);
        let operator = ["!=", "<=", ">=", "=", "<", ">"]
            .into_iter()
            .find(|operator| rest.starts_with(operator))
            .ok_or_else(syntax)?;
        let value = rest.strip_prefix(operator).unwrap_or_default().trim();
        let field = field.trim();
        let refused =
            || FilterError::Operator { field: field.to_owned(), operator: operator.to_owned() };
        let test = if matches!(field, "updated_at" | "updated") {
            let at =
                parse_date(value).ok_or_else(|| FilterError::Date { got: value.to_owned() })?;
            let (from, to) = match operator {
                "<" => (None, Some(at)),
                "<=" => (None, Some(at.saturating_add(1))),
                ">" => (Some(at.saturating_add(1)), None),
                ">=" => (Some(at), None),
                _ => return Err(refused()),
            };
            Typed::Updated { from, to }
        } else {
            let field =
                Field::of(field).ok_or_else(|| FilterError::Field { field: field.to_owned() })?;
            if !matches!(operator, "=" | "!=") {
                return Err(refused());
            }
            let patterns = value.split('|').map(|value| Pattern::of(value.trim(), field));
            Typed::Words(field, patterns.collect::<Result<_, _>>()?)
        };
        Ok(Condition { typed: typed.to_owned(), test, negated: operator == "!=" })
    }

    /// What an index can test by itself.
    fn indexed(&self) -> Option<Test> {
        match &self.test {
            &Typed::Updated { from, to } => Some(Test::Updated { from, to }),
            Typed::Words(Field::Indexed(facet), patterns) => {
                let exact = patterns.iter().map(|pattern| match pattern {
                    Pattern::Exactly(value) => Some(value.clone()),
                    Pattern::Glob(_) => None,
                });
                Some(Test::Facet(*facet, exact.collect::<Option<_>>()?))
            }
            Typed::Words(..) => None,
        }
    }

    fn holds(&self, entry: &DocumentEntry) -> bool {
        let metadata = &entry.metadata;
        let any = |values: &[&str], patterns: &[Pattern]| {
            patterns.iter().any(|pattern| values.iter().any(|value| pattern.holds(value)))
        };
        let one = |value: &Option<String>, patterns: &[Pattern]| {
            any(&[value.as_deref().unwrap_or_default()], patterns)
        };
        let holds = match &self.test {
            Typed::Updated { from, to } => metadata.updated.is_some_and(|updated| {
                from.is_none_or(|from| from <= updated.at) && to.is_none_or(|to| updated.at < to)
            }),
            Typed::Words(field, patterns) => match field {
                Field::Indexed(Facet::Source) => any(&[&entry.source], patterns),
                Field::Indexed(Facet::Connector) => one(&metadata.connector, patterns),
                Field::Indexed(Facet::Language) => one(&metadata.language, patterns),
                Field::Indexed(Facet::Label) if metadata.labels.is_empty() => any(&[""], patterns),
                Field::Indexed(Facet::Label) => {
                    any(&metadata.labels.iter().map(String::as_str).collect::<Vec<_>>(), patterns)
                }
                Field::Path => any(&[&entry.path, &entry.name], patterns),
                Field::Title => any(&[&entry.title], patterns),
                Field::Url => one(&metadata.url, patterns),
            },
        };
        holds != self.negated
    }
}

impl Field {
    fn of(name: &str) -> Option<Field> {
        Some(match name {
            "source" => Field::Indexed(Facet::Source),
            "connector" => Field::Indexed(Facet::Connector),
            "language" | "lang" => Field::Indexed(Facet::Language),
            "label" | "labels" => Field::Indexed(Facet::Label),
            "path" | "doc" => Field::Path,
            "title" => Field::Title,
            "url" => Field::Url,
            _ => return None,
        })
    }
}

impl Pattern {
    fn of(value: &str, field: Field) -> Result<Pattern, FilterError> {
        let value = match field {
            Field::Indexed(Facet::Language) => value.to_lowercase(),
            _ => value.to_owned(),
        };
        if !value.contains(['*', '?', '[', '{']) {
            return Ok(Pattern::Exactly(value));
        }
        // A set says what does not compile, where a matcher of one glob panics.
        match Glob::new(&value).and_then(|glob| GlobSet::new([glob])) {
            Ok(glob) => Ok(Pattern::Glob(glob)),
            Err(error) => Err(FilterError::Glob { detail: error.kind().to_string(), got: value }),
        }
    }

    fn holds(&self, value: &str) -> bool {
        match self {
            Pattern::Exactly(wanted) => wanted == value,
            Pattern::Glob(glob) => glob.is_match(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::{DateSource, Metadata, Updated};
    use umbel_core::id::DocId;

    fn entry() -> DocumentEntry {
        DocumentEntry {
            id: DocId(7),
            source: "docs".to_owned(),
            path: "guide/billing.md".to_owned(),
            name: "guide/billing.md".to_owned(),
            title: "Billing".to_owned(),
            metadata: Metadata {
                connector: Some("wiki".to_owned()),
                url: None,
                updated: Some(Updated { at: 1_714_521_600, from: DateSource::Git }),
                labels: ["staff".to_owned(), "hr".to_owned()].into(),
                language: Some("en".to_owned()),
            },
            fingerprint: [0; 32],
            leaves: 1,
            indexed: true,
        }
    }

    /// Whether the document above passes, and whether the index can tell by itself.
    fn check(condition: &str, holds: bool, by_index: bool) {
        let filter = Filter::parse(&[condition.to_owned()]).unwrap();
        assert_eq!(
            (filter.holds(&entry()), !filter.needs_documents()),
            (holds, by_index),
            "{condition}"
        );
        if !by_index {
            let wanted = if holds { vec![DocId(7)] } else { Vec::new() };
            let clause = Clause { test: Test::Docs(wanted), negated: false };
            assert_eq!(filter.clauses(&[entry()]), [clause], "{condition}");
        }
    }

    #[test]
    fn a_condition_names_values() {
        check("connector=wiki", true, true);
        check("connector = policy | wiki", true, true);
        check("connector!=wiki", false, true);
        check("label=hr", true, true);
        check("labels!=legal", true, true);
        check("label=", false, true);
        check("language=EN", true, true);
        check("source=docs", true, true);
    }

    #[test]
    fn a_value_may_be_a_glob() {
        check("path=guide/**", true, false);
        check("path!=guide/**", false, false);
        check("path=guide/billing.md", true, false);
        check("connector=w*", true, false);
        check("title=Bill*|Other", true, false);
        check("url=", true, false);
        check("url=https://*", false, false);
    }

    #[test]
    fn dates_are_compared() {
        check("updated_at>=2024-05-01", true, true);
        check("updated_at>2024-05-01", false, true);
        check("updated_at<=2024-05-01", true, true);
        check("updated_at<2024-05-01", false, true);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let check = |typed: &str, word: &str| {
            let error = Filter::parse(&[typed.to_owned()]).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
            assert!(!error.hint().is_empty());
        };
        check("wiki", "wiki");
        check("colour=red", "colour");
        check("connector>wiki", ">");
        check("updated_at=2024-05-01", "=");
        check("updated_at<soon", "soon");
        check("path={a", "{a");
        check(&format!("path={}{}", "{".repeat(300), "}".repeat(300)), "is not a glob");
    }
}
