//! Files → documents: decoding, front matter, title, outline, tree and offsets.
//!
//! Invariant: for Markdown and plain text the canonical text is the file's bytes, all of them.

use crate::config::{Config, Unit};
use std::path::Path;
use umbel_core::document::Document;
use umbel_core::leaf::{EmbedLimit, Source, build, lone_title};
use umbel_core::measure::{CharacterOffsets, Ruler, measure};
use umbel_core::offsets::TokenCounter;
use umbel_core::outline::{Format, parse};
use umbel_core::span::{Span, next_line, slice};

/// The format of a file by its extension; `None` for one that is not read.
pub fn format_of(path: &Path) -> Option<Format> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    match extension.as_str() {
        "md" | "markdown" => Some(Format::Markdown),
        "txt" => Some(Format::Plain),
        _ => None,
    }
}

/// Why a file is not a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It holds NUL bytes.
    #[error("is a binary file (a NUL byte at {offset})")]
    Binary {
        /// Where.
        offset: usize,
    },
    /// It is not UTF-8.
    #[error("is not UTF-8 (byte {offset})")]
    Encoding {
        /// The first byte that does not fit.
        offset: usize,
    },
    /// Offsets are kept in 32 bits.
    #[error("has {size_bytes} bytes, at most {limit_bytes} are read")]
    TooLarge {
        /// Its size.
        size_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
}

/// The largest file that is read: offsets are kept in 32 bits, and a tree is held in memory.
pub const MAX_FILE_BYTES: usize = 1 << 30;

/// Decodes a file.
///
/// # Errors
/// A binary file, another encoding than UTF-8, or a file over [`MAX_FILE_BYTES`].
pub fn decode(bytes: Vec<u8>) -> Result<String, ReadError> {
    if bytes.len() > MAX_FILE_BYTES {
        return Err(ReadError::TooLarge { size_bytes: bytes.len(), limit_bytes: MAX_FILE_BYTES });
    }
    if let Some(offset) = bytes.iter().position(|&byte| byte == 0) {
        return Err(ReadError::Binary { offset });
    }
    String::from_utf8(bytes)
        .map_err(|error| ReadError::Encoding { offset: error.utf8_error().valid_up_to() })
}

/// Builds the document of a text. Never fails: what is odd becomes a warning.
///
/// `name` is the file's name without extension, the last resort for a title.
pub fn document(
    text: String,
    name: &str,
    format: Format,
    config: &Config,
    counter: &dyn TokenCounter,
    limit: Option<&dyn EmbedLimit>,
) -> Document {
    let mut warnings = Vec::new();
    let front =
        if format == Format::Markdown { front_matter(&text) } else { FrontMatter::none(&text) };
    warnings.extend(front.warning);
    let body = Span::new(front.body_start, text.len());
    let outline = parse(&text, body, format);
    let title = front.title.unwrap_or_else(|| match lone_title(&outline) {
        Some(title) if !title.is_empty() => title.to_owned(),
        _ => name.to_owned(),
    });
    let offsets = measure(&text, &outline, counter);
    let ruler = match config.settings().leaf.unit {
        Unit::Tokens => Ruler::Tokens(&offsets.tokens),
        Unit::Characters => Ruler::Characters(CharacterOffsets::of(&text)),
    };
    let source = Source { text: &text, body, title: &title, outline: &outline };
    let tokens = Ruler::Tokens(&offsets.tokens);
    let (tree, odd) = build(source, &ruler, &tokens, &config.leaf(), limit);
    warnings.extend(odd);
    Document { body, title, tree, offsets, warnings, text }
}

/// What stands before the body.
struct FrontMatter {
    body_start: usize,
    title: Option<String>,
    warning: Option<String>,
}

impl FrontMatter {
    fn none(text: &str) -> FrontMatter {
        FrontMatter {
            body_start: if text.starts_with('\u{feff}') { 3 } else { 0 },
            title: None,
            warning: None,
        }
    }
}

/// Reads YAML between `---` lines or TOML between `+++` lines at the start of a text. What does not parse is text.
fn front_matter(text: &str) -> FrontMatter {
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
            return match title_of(slice(text, Span::new(first.end, line.start)), fence) {
                Ok(title) => FrontMatter { body_start: line.end, title, warning: None },
                Err(reason) => FrontMatter {
                    warning: Some(format!(
                        "front matter does not parse and was read as text: {reason}"
                    )),
                    ..none
                },
            };
        }
        at = line.end;
    }
    none
}

/// The title in front matter that parses as a mapping.
fn title_of(front: &str, fence: &str) -> Result<Option<String>, String> {
    let value: serde_json::Value = if fence == "+++" {
        let table: toml::Table =
            front.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
        serde_json::to_value(table).map_err(|error| error.to_string())?
    } else if front.trim().is_empty() {
        return Ok(None);
    } else {
        serde_norway::from_str(front).map_err(|error| error.to_string())?
    };
    let Some(mapping) = value.as_object() else { return Err("it is not a mapping".to_owned()) };
    Ok(match mapping.get("title") {
        Some(serde_json::Value::String(title)) => {
            Some(title.trim().to_owned()).filter(|title| !title.is_empty())
        }
        Some(serde_json::Value::Number(number)) => Some(number.to_string()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::O200k;

    fn read(text: &str) -> Document {
        document(text.to_owned(), "file", Format::Markdown, &Config::default(), &O200k::new(), None)
    }

    /// Title, and what the leaves hold.
    fn check(text: &str, title: &str, leaves: &[&str]) {
        let document = read(text);
        let found: Vec<_> =
            document.tree.leaves.iter().map(|leaf| slice(&document.text, leaf.span)).collect();
        assert_eq!((document.title.as_str(), found.as_slice()), (title, leaves), "{text:?}");
        assert_eq!(document.text, text);
    }

    #[test]
    fn front_matter_is_in_no_leaf_and_gives_the_title() {
        check("---\ntitle: A\n---\nb\n", "A", &["b"]);
        check("\u{feff}---\r\ntitle: A\r\n---\r\nb\r\n", "A", &["b"]);
        check("+++\ntitle = \"A\"\n+++\nb\n", "A", &["b"]);
        check("---\n---\nb", "file", &["b"]);
    }

    #[test]
    fn front_matter_that_does_not_parse_is_text() {
        check("---\n: : :\n- a\n---\nb\n", "file", &[": : :\n- a\n---\nb"]);
        assert!(!read("---\na: [\n---\nb\n").warnings.is_empty());
        check("---\nnever closed\n", "file", &["never closed"]);
    }

    #[test]
    fn the_title_is_front_matter_then_lone_heading_then_file_name() {
        check("# H\n\nb\n", "H", &["# H\n\nb"]);
        check("# H\n\nb\n\n# I\n\nc\n", "file", &["# H\n\nb", "# I\n\nc"]);
    }

    #[test]
    fn what_is_no_text_is_named() {
        assert_eq!(decode(b"a\0b".to_vec()), Err(ReadError::Binary { offset: 1 }));
        assert_eq!(decode(b"ab\xff".to_vec()), Err(ReadError::Encoding { offset: 2 }));
    }

    #[test]
    fn a_blank_document_has_no_leaf() {
        check("", "file", &[]);
        check("---\ntitle: A\n---\n", "A", &[]);
    }
}
