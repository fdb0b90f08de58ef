//! Files → documents: decoding or conversion, metadata, outline, tree and offsets.
//!
//! Invariant: for Markdown and plain text the canonical text is the file's bytes, all of them.

pub mod dates;
mod front;
pub mod rules;

use crate::config::{Config, Unit};
use crate::formats::worker::{self, Limits};
use crate::formats::{ConvertError, Converted, FileFormat};
use crate::metadata::Stated;
use front::FrontMatter;
use std::path::Path;
use umbel_core::document::{Anchor, Document};
use umbel_core::leaf::{EmbedLimit, Source, build, lone_title};
use umbel_core::measure::{CharacterOffsets, Ruler, measure};
use umbel_core::offsets::TokenCounter;
use umbel_core::outline::{Format, parse};
use umbel_core::span::{Span, slice};

/// How a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its bytes are the text.
    Text(Format),
    /// It is converted to Markdown.
    Converted(FileFormat),
}

impl Kind {
    /// By the file's extension; `None` for one that is not read.
    pub fn of(path: &Path) -> Option<Kind> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "md" | "markdown" => Some(Kind::Text(Format::Markdown)),
            "mdx" => Some(Kind::Text(Format::Mdx)),
            "txt" | "text" => Some(Kind::Text(Format::Plain)),
            other => FileFormat::of_extension(other).map(Kind::Converted),
        }
    }

    /// What the canonical text is written in.
    pub fn outline(self) -> Format {
        match self {
            Kind::Text(format) => format,
            Kind::Converted(_) => Format::Markdown,
        }
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
    /// Its format was not converted.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// Offsets are kept in 32 bits.
    #[error("has {size_bytes} bytes, at most {limit_bytes} are read")]
    TooLarge {
        /// Its size.
        size_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
}

impl ReadError {
    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ReadError::Encoding { .. } => Some("save it as UTF-8"),
            ReadError::Convert(error) => error.hint(),
            ReadError::TooLarge { .. } => Some("split it into smaller files"),
            ReadError::Binary { .. } => None,
        }
    }
}

/// The largest file that is read: offsets are kept in 32 bits, and a tree is held in memory.
pub const MAX_FILE_BYTES: usize = 1 << 30;

/// A file's text, and what it says of itself, before a tree is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// The canonical text.
    pub text: String,
    /// What it is written in.
    pub format: Format,
    /// The text behind byte order mark and front matter.
    pub body: Span,
    /// Places in the file, for a converted one.
    pub anchors: Vec<Anchor>,
    /// What its front matter says.
    pub front_matter: Stated,
    /// What its format says.
    pub format_says: Stated,
    /// What was odd about it.
    pub warnings: Vec<String>,
}

impl Draft {
    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// A binary file, another encoding than UTF-8, a file over [`MAX_FILE_BYTES`], or one that its converter refuses.
    pub fn read(kind: Kind, bytes: Vec<u8>, limits: &Limits) -> Result<Draft, ReadError> {
        match kind {
            Kind::Text(format) => Ok(Draft::of_text(decode(bytes)?, format)),
            Kind::Converted(format) => {
                Ok(Draft::of_converted(worker::convert(format, &bytes, limits)?))
            }
        }
    }

    /// A text, with its front matter if it is Markdown.
    pub fn of_text(text: String, format: Format) -> Draft {
        let front =
            if format == Format::Plain { FrontMatter::none(&text) } else { FrontMatter::of(&text) };
        Draft {
            body: Span::new(front.body_start, text.len()),
            text,
            format,
            anchors: Vec::new(),
            front_matter: front.stated,
            format_says: Stated::default(),
            warnings: front.warnings,
        }
    }

    /// A file that was converted.
    pub fn of_converted(converted: Converted) -> Draft {
        let Converted { text, anchors, title, updated_at, language, warnings } = converted;
        Draft {
            body: Span::new(0, text.len()),
            text,
            format: Format::Markdown,
            anchors,
            front_matter: Stated::default(),
            format_says: Stated { title, updated_at, language, ..Stated::default() },
            warnings,
        }
    }
}

/// Bytes of the body that its language is told from.
const LANGUAGE_BYTES: usize = 4096;

/// The language of a text, if it is long enough to tell and its words leave little doubt: an ISO 639 code of two letters
/// where there is one, else of three.
pub fn detect_language(draft: &Draft) -> Option<String> {
    let body = slice(&draft.text, draft.body);
    let end = body.floor_char_boundary(LANGUAGE_BYTES);
    let found = whatlang::detect(slice(body, Span::new(0, end)))?;
    if !found.is_reliable() {
        return None;
    }
    let code = found.lang().code();
    let short = isolang::Language::from_639_3(code).and_then(|language| language.to_639_1());
    Some(short.unwrap_or(code).to_owned())
}

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

/// Builds the document of a draft. Never fails: what is odd becomes a warning.
///
/// Its title is the one given, else its lone level-1 heading, else `name`: the file's name without extension.
pub fn document(
    draft: Draft,
    title: Option<String>,
    name: &str,
    config: &Config,
    counter: &dyn TokenCounter,
    limit: Option<&dyn EmbedLimit>,
) -> Document {
    let Draft { text, format, body, anchors, mut warnings, .. } = draft;
    let outline = parse(&text, body, format);
    let title = title.unwrap_or_else(|| match lone_title(&outline) {
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
    Document { body, title, tree, offsets, anchors, warnings, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::OpenAiTokens;

    fn read(text: &str) -> Document {
        let draft = Draft::of_text(text.to_owned(), Format::Markdown);
        let title = draft.front_matter.title.clone();
        document(draft, title, "file", &Config::default(), &OpenAiTokens::o200k(), None)
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
    fn a_language_is_told_where_there_is_no_doubt() {
        let check = |text: &str, language: Option<&str>| {
            let draft = Draft::of_text(text.to_owned(), Format::Plain);
            assert_eq!(detect_language(&draft).as_deref(), language, "{text}");
        };
        check(
            "Invoices are issued on the first working day of each month and are due within thirty days.",
            Some("en"),
        );
        check(
            "Rechnungen werden am ersten Werktag des Monats ausgestellt und sind innerhalb von dreißig Tagen fällig.",
            Some("de"),
        );
        check("ok", None);
        check("", None);
    }

    #[test]
    fn a_blank_document_has_no_leaf() {
        check("", "file", &[]);
        check("---\ntitle: A\n---\n", "A", &[]);
    }
}
