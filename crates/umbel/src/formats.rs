//! Files of other formats → Markdown, once, with anchors back into the file.
//!
//! Invariant: anchors are in order of their offsets, which lie on character boundaries of the text.

#[cfg(feature = "html")]
pub mod html;
#[cfg(feature = "pdf")]
pub mod pdf;
#[cfg(feature = "office")]
pub mod office;
pub mod worker;

use serde::{Deserialize, Serialize};
use std::any::Any;
use std::fmt;
use std::panic::catch_unwind;
use std::time::Duration;
use umbel_core::document::Anchor;

/// A format that is converted to Markdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FileFormat {
    /// A web page.
    Html,
    /// Pages as they are printed.
    Pdf,
    /// A Word document.
    Docx,
    /// A PowerPoint presentation.
    Pptx,
    /// An Excel workbook.
    Xlsx,
    /// A Word document of 1997 to 2004.
    Doc,
    /// A PowerPoint presentation of 1997 to 2003.
    Ppt,
    /// An Excel workbook of 1997 to 2004.
    Xls,
    /// An OpenDocument text.
    Odt,
    /// An OpenDocument presentation.
    Odp,
    /// An OpenDocument workbook.
    Ods,
    /// An electronic book.
    Epub,
    /// Rich text.
    Rtf,
    /// An e-mail.
    Email,
    /// AsciiDoc markup.
    AsciiDoc,
    /// A table of comma-separated values.
    Csv,
}

impl FileFormat {
    /// Every format.
    pub const ALL: [FileFormat; 16] = [
        FileFormat::Html,
        FileFormat::Pdf,
        FileFormat::Docx,
        FileFormat::Pptx,
        FileFormat::Xlsx,
        FileFormat::Doc,
        FileFormat::Ppt,
        FileFormat::Xls,
        FileFormat::Odt,
        FileFormat::Odp,
        FileFormat::Ods,
        FileFormat::Epub,
        FileFormat::Rtf,
        FileFormat::Email,
        FileFormat::AsciiDoc,
        FileFormat::Csv,
    ];

    /// By a file's extension, without the dot, in any case; `None` for one that is not converted.
    pub fn of_extension(extension: &str) -> Option<FileFormat> {
        match extension.to_ascii_lowercase().as_str() {
            "html" | "htm" | "xhtml" => Some(FileFormat::Html),
            "pdf" => Some(FileFormat::Pdf),
            "docx" => Some(FileFormat::Docx),
            "pptx" => Some(FileFormat::Pptx),
            "xlsx" => Some(FileFormat::Xlsx),
            "doc" => Some(FileFormat::Doc),
            "ppt" => Some(FileFormat::Ppt),
            "xls" => Some(FileFormat::Xls),
            "odt" => Some(FileFormat::Odt),
            "odp" => Some(FileFormat::Odp),
            "ods" => Some(FileFormat::Ods),
            "epub" => Some(FileFormat::Epub),
            "rtf" => Some(FileFormat::Rtf),
            "eml" => Some(FileFormat::Email),
            "adoc" | "asciidoc" => Some(FileFormat::AsciiDoc),
            "csv" => Some(FileFormat::Csv),
            _ => None,
        }
    }

    /// Its name, as people write it.
    pub fn name(self) -> &'static str {
        match self {
            FileFormat::Html => "HTML",
            FileFormat::Pdf => "PDF",
            FileFormat::Docx => "DOCX",
            FileFormat::Pptx => "PPTX",
            FileFormat::Xlsx => "XLSX",
            FileFormat::Doc => "DOC",
            FileFormat::Ppt => "PPT",
            FileFormat::Xls => "XLS",
            FileFormat::Odt => "ODT",
            FileFormat::Odp => "ODP",
            FileFormat::Ods => "ODS",
            FileFormat::Epub => "EPUB",
            FileFormat::Rtf => "RTF",
            FileFormat::Email => "e-mail",
            FileFormat::AsciiDoc => "AsciiDoc",
            FileFormat::Csv => "CSV",
        }
    }
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A file as Markdown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Converted {
    /// The canonical text: Markdown with `\n` line ends.
    pub text: String,
    /// Pages and elements, in order of their offsets.
    pub anchors: Vec<Anchor>,
    /// The title that the file states of itself.
    pub title: Option<String>,
    /// When the file says it was last changed: seconds since 1970 in UTC.
    pub updated_at: Option<i64>,
    /// The language that the file states, as a BCP 47 tag.
    pub language: Option<String>,
    /// What was lost or odd, in words for its author.
    pub warnings: Vec<String>,
}

/// Why a file gives no document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ConvertError {
    /// It asks for a password.
    #[error("is encrypted: a password is needed")]
    Encrypted,
    /// It does not hold what its format promises.
    #[error("is damaged: {detail}")]
    Damaged {
        /// What is wrong with it.
        detail: String,
    },
    /// It holds pictures of text, or nothing at all.
    #[error("holds no text ({pages} pages)")]
    NoText {
        /// How many pages it has.
        pages: usize,
    },
    /// This build leaves its converter out.
    #[error("is {format}, which this build does not convert")]
    NotBuilt {
        /// What it is.
        format: FileFormat,
    },
    /// Its conversion did not end in time: more time may help.
    #[error("took longer than {limit:?} to convert")]
    TimedOut {
        /// How long it was given.
        limit: Duration,
    },
    /// Its conversion wanted more memory than it was given, or than the system had: more memory may help.
    #[error("takes too much memory to convert, the limit is {limit_bytes} bytes")]
    OutOfMemory {
        /// How much it was given.
        limit_bytes: u64,
    },
    /// It is a compressed file whose parts are too large, which is what a decompression bomb looks like.
    #[error("unpacks to more than {limit_bytes} bytes")]
    UnpacksToTooMuch {
        /// How much it may unpack to.
        limit_bytes: u64,
    },
    /// The result is too large.
    #[error("converts to more than {limit_bytes} bytes")]
    TooLarge {
        /// How large it may be.
        limit_bytes: u64,
    },
    /// It brought down the process that converted it.
    #[error("crashes its converter: {detail}")]
    Crashed {
        /// The signal or exit code, and the last that the process said.
        detail: String,
    },
    /// The process that should have converted it did not start: nothing is known of the file, and the same call may pass
    /// later.
    #[error("was not converted, no process for it started: {detail}")]
    NoWorker {
        /// What the system said.
        detail: String,
    },
}

impl ConvertError {
    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ConvertError::Encrypted => Some("save it without a password"),
            ConvertError::NoText { .. } => Some("if its pages are scans, run OCR over it first"),
            ConvertError::TimedOut { .. } => Some("raise `read.timeout_seconds`"),
            ConvertError::OutOfMemory { .. } => Some("raise `read.memory_mb`"),
            ConvertError::TooLarge { .. } => Some("raise `read.output_mb`"),
            ConvertError::Damaged { .. }
            | ConvertError::UnpacksToTooMuch { .. }
            | ConvertError::NotBuilt { .. }
            | ConvertError::Crashed { .. }
            | ConvertError::NoWorker { .. } => None,
        }
    }
}

/// Converts a file in this process. Time, memory and stack are the caller's: [`worker::convert`] is for files that others
/// wrote.
///
/// # Errors
/// Whatever the file has that its converter cannot read. A panic of a parser is [`ConvertError::Damaged`].
#[cfg_attr(
    not(any(feature = "html", feature = "pdf", feature = "office")),
    expect(unused_variables, reason = "there is no converter to read the bytes")
)]
pub fn convert(format: FileFormat, bytes: &[u8]) -> Result<Converted, ConvertError> {
    let converted = catch_unwind(|| match format {
        #[cfg(feature = "html")]
        FileFormat::Html => html::convert(bytes),
        #[cfg(feature = "pdf")]
        FileFormat::Pdf => pdf::convert(bytes),
        #[cfg(feature = "office")]
        format if !matches!(format, FileFormat::Html | FileFormat::Pdf) => {
            office::convert(format, bytes)
        }
        // Those that this build leaves out.
        _ => Err(ConvertError::NotBuilt { format }),
    });
    converted.unwrap_or_else(|payload| Err(panicked(payload.as_ref())))
}

/// What a parser's panic says of its file.
fn panicked(payload: &(dyn Any + Send)) -> ConvertError {
    let message = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it did not say why");
    ConvertError::Damaged { detail: format!("the parser panicked: {message}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_read_in_any_case() {
        let check = |extension: &str, format: Option<FileFormat>| {
            assert_eq!(FileFormat::of_extension(extension), format, "{extension}");
        };
        check("html", Some(FileFormat::Html));
        check("HTM", Some(FileFormat::Html));
        check("Pdf", Some(FileFormat::Pdf));
        check("docx", Some(FileFormat::Docx));
        check("pptx", Some(FileFormat::Pptx));
        check("xlsx", Some(FileFormat::Xlsx));
        check("md", None);
        check("mdx", None);
        check("txt", None);
        check("", None);
    }

    #[test]
    fn bytes_that_are_no_document_are_an_error() {
        for format in [FileFormat::Pdf, FileFormat::Docx, FileFormat::Pptx, FileFormat::Xlsx] {
            assert!(convert(format, b"\0\xff no such file").is_err(), "{format}");
        }
    }

    #[test]
    fn a_limit_names_the_setting_that_raises_it() {
        let check = |error: ConvertError, setting: &str| {
            assert_eq!(error.hint(), Some(setting), "{error}");
        };
        check(ConvertError::TimedOut { limit: Duration::ZERO }, "raise `read.timeout_seconds`");
        check(ConvertError::OutOfMemory { limit_bytes: 0 }, "raise `read.memory_mb`");
        check(ConvertError::TooLarge { limit_bytes: 0 }, "raise `read.output_mb`");
        assert_eq!(ConvertError::Damaged { detail: String::new() }.hint(), None);
    }

    #[test]
    fn a_panic_says_what_it_said() {
        let check = |payload: &(dyn Any + Send), message: &str| {
            let detail = format!("the parser panicked: {message}");
            assert_eq!(panicked(payload), ConvertError::Damaged { detail });
        };
        check(&"no page", "no page");
        check(&"page 7".to_owned(), "page 7");
        check(&7, "it did not say why");
    }
}
