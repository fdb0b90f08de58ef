//! What is known of a document besides its text: where it comes from, when it was changed, who may read it.
//!
//! Invariant: a date carries its source, so that an answer can say which of several dates was used.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;
use std::collections::BTreeSet;
use std::fmt;

/// What is known of a document besides its text and title.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata {
    /// The system it comes from, as `wiki`.
    pub connector: Option<String>,
    /// Where people read it.
    pub url: Option<String>,
    /// When it was last changed.
    pub updated: Option<Updated>,
    /// Who may read it: empty for everyone.
    pub labels: BTreeSet<String>,
    /// Its language, as a BCP 47 tag in lower case: `en`, `pt-br`.
    pub language: Option<String>,
}

/// When a document was last changed, and who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Updated {
    /// Seconds since 1970 in UTC.
    pub at: i64,
    /// Where the date comes from.
    pub from: DateSource,
}

/// Where the date of a document comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DateSource {
    /// A rule that was given for its path.
    Rule,
    /// Its front matter.
    FrontMatter,
    /// The file's own format: the properties of a PDF or an office file, the head of an HTML page.
    Format,
    /// The last commit that touched it.
    Git,
    /// The file system.
    File,
}

impl DateSource {
    /// Every source, strongest first.
    pub const ALL: [DateSource; 5] = [
        DateSource::Rule,
        DateSource::FrontMatter,
        DateSource::Format,
        DateSource::Git,
        DateSource::File,
    ];

    /// The word for it, as it is stored and printed.
    pub fn name(self) -> &'static str {
        match self {
            DateSource::Rule => "rule",
            DateSource::FrontMatter => "front matter",
            DateSource::Format => "format",
            DateSource::Git => "git",
            DateSource::File => "file",
        }
    }

    /// The source of this name.
    pub fn of_name(name: &str) -> Option<DateSource> {
        DateSource::ALL.into_iter().find(|source| source.name() == name)
    }
}

impl fmt::Display for DateSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What one voice says of a document: a rule, its front matter, its format. `None` where it says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stated {
    /// Its title.
    pub title: Option<String>,
    /// The system it comes from.
    pub connector: Option<String>,
    /// Where people read it.
    pub url: Option<String>,
    /// When it was last changed: seconds since 1970 in UTC.
    pub updated_at: Option<i64>,
    /// Who may read it.
    pub labels: Option<BTreeSet<String>>,
    /// Its language.
    pub language: Option<String>,
}

impl Stated {
    /// What this voice says, and `other` where it says nothing.
    #[must_use]
    pub fn or(self, other: Stated) -> Stated {
        Stated {
            title: self.title.or(other.title),
            connector: self.connector.or(other.connector),
            url: self.url.or(other.url),
            updated_at: self.updated_at.or(other.updated_at),
            labels: self.labels.or(other.labels),
            language: self.language.or(other.language),
        }
    }
}

/// The voices that speak of a document, strongest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Voices {
    /// The rules for its path.
    pub rule: Stated,
    /// Its front matter.
    pub front_matter: Stated,
    /// Its format.
    pub format: Stated,
    /// What holds for the whole source where nothing else is said.
    pub default: Stated,
    /// When its file was last changed.
    pub file: Option<Updated>,
}

impl Voices {
    /// Lets the strongest voice speak for each field; the title comes apart.
    pub fn settle(self) -> (Option<String>, Metadata) {
        let dated = [
            (self.rule.updated_at, DateSource::Rule),
            (self.front_matter.updated_at, DateSource::FrontMatter),
            (self.format.updated_at, DateSource::Format),
            (self.default.updated_at, DateSource::Rule),
        ];
        let stated = dated.into_iter().find_map(|(at, from)| Some(Updated { at: at?, from }));
        let said = self.rule.or(self.front_matter).or(self.format).or(self.default);
        let metadata = Metadata {
            connector: said.connector,
            url: said.url,
            updated: stated.or(self.file),
            labels: said.labels.unwrap_or_default(),
            language: said.language.map(|language| language.to_lowercase()),
        };
        (said.title, metadata)
    }
}

/// Reads a date as people and programs write it: `2024-05-01`, `2024-05-01T12:00:00Z`, `2024-05-01 12:00`, or that of an e-mail,
/// `Wed, 1 May 2024 12:00:00 +0000`. Without an offset it is UTC. `None` for anything else.
///
/// The result is in seconds since 1970 in UTC.
pub fn parse_date(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Some(timestamp.as_second());
    }
    let midnight = |date: Date| date.at(0, 0, 0, 0);
    let civil = text.parse::<DateTime>().ok().or_else(|| text.parse().ok().map(midnight));
    let timestamp = match civil {
        Some(civil) => TimeZone::UTC.to_timestamp(civil).ok()?,
        None => rfc2822::parse(text).ok()?.timestamp(),
    };
    Some(timestamp.as_second())
}

/// A date as `2024-05-01T12:00:00Z`; as a number of seconds where it is out of the range of years -9999 to 9999.
pub fn show_date(seconds: i64) -> String {
    Timestamp::from_second(seconds)
        .map_or_else(|_| seconds.to_string(), |timestamp| timestamp.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(parse_date(text).map(show_date).as_deref(), expected, "{text}");
    }

    #[test]
    fn dates_are_read_as_people_write_them() {
        check("2024-05-01", Some("2024-05-01T00:00:00Z"));
        check(" 2024-05-01T12:30:00+02:00 ", Some("2024-05-01T10:30:00Z"));
        check("2024-05-01 12:30", Some("2024-05-01T12:30:00Z"));
        check("2024-05-01T12:30:00.5", Some("2024-05-01T12:30:00Z"));
        check("1969-12-31", Some("1969-12-31T00:00:00Z"));
    }

    #[test]
    fn dates_are_read_as_e_mails_write_them() {
        check("Wed, 1 May 2024 12:30:00 +0200", Some("2024-05-01T10:30:00Z"));
        check("1 May 2024 12:30 -0000", Some("2024-05-01T12:30:00Z"));
        check(" Thu, 01 Jan 1970 00:00:05 GMT\n", Some("1970-01-01T00:00:05Z"));
        check("Thu, 1 May 2024 12:30:00 +0200", None);
        check("Wed, 1 May 2024", None);
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in ["", "yesterday", "2024-13-01", "12/05/2024", "20240501x"] {
            check(text, None);
        }
    }

    #[test]
    fn the_strongest_voice_speaks_for_each_field() {
        let stated = |title: &str, updated_at| Stated {
            title: (!title.is_empty()).then(|| title.to_owned()),
            updated_at,
            ..Stated::default()
        };
        let file = Some(Updated { at: 9, from: DateSource::File });
        let voices = Voices {
            rule: Stated { language: Some("EN".to_owned()), ..Stated::default() },
            front_matter: stated("front", None),
            format: stated("format", Some(3)),
            default: stated("default", Some(4)),
            file,
        };
        let (title, metadata) = voices.settle();
        assert_eq!(title.as_deref(), Some("front"));
        assert_eq!(metadata.updated, Some(Updated { at: 3, from: DateSource::Format }));
        assert_eq!(metadata.language.as_deref(), Some("en"));
        assert_eq!(Voices { file, ..Voices::default() }.settle().1.updated, file);
    }

    #[test]
    fn a_source_is_found_by_its_name() {
        for source in DateSource::ALL {
            assert_eq!(DateSource::of_name(source.name()), Some(source));
        }
        assert_eq!(DateSource::of_name("rumour"), None);
    }
}
