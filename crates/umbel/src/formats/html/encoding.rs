//! Bytes → the encoding they are in.
//!
//! Invariant: a byte order mark beats a declaration, a declaration beats a guess, and any bytes have an encoding.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use std::collections::HashSet;

/// Where a declaration of the encoding is looked for: the standard's 1,024 bytes, and those in which browsers still heed one.
const MAX_PRESCAN_BYTES: usize = 65_536;

/// The encoding of a page.
pub(super) fn choose(bytes: &[u8]) -> &'static Encoding {
    if let Some((encoding, _)) = Encoding::for_bom(bytes) {
        return encoding;
    }
    if let Some(encoding) = declared(bytes.get(..MAX_PRESCAN_BYTES).unwrap_or(bytes)) {
        return encoding;
    }
    if std::str::from_utf8(bytes).is_ok() {
        return UTF_8;
    }
    let mut detector = chardetng::EncodingDetector::new(chardetng::Iso2022JpDetection::Allow);
    detector.feed(bytes, true);
    detector.guess(None, chardetng::Utf8Detection::Deny)
}

/// The encoding that a page declares.
///
/// Source: HTML Standard, "prescan a byte stream to determine its encoding".
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    if bytes.starts_with(b"<\0?\0x\0") {
        return Some(UTF_16LE);
    }
    if bytes.starts_with(b"\0<\0?\0x") {
        return Some(UTF_16BE);
    }
    let mut scan = Scan { bytes, at: 0 };
    while let Some(byte) = scan.peek() {
        let rest = bytes.get(scan.at..).unwrap_or_default();
        if rest.starts_with(b"<!--") {
            scan.at += 2;
            scan.behind(b"-->");
        } else if is_meta(rest) {
            scan.at += 5;
            if let Some(encoding) = scan.meta() {
                return Some(encoding);
            }
        } else if byte == b'<' && is_tag(rest) {
            scan.at += 1;
            while scan.peek().is_some_and(|b| !b.is_ascii_whitespace() && b != b'>') {
                scan.at += 1;
            }
            while scan.attribute().is_some() {}
        } else if [&b"<!"[..], b"</", b"<?"].iter().any(|start| rest.starts_with(start)) {
            scan.behind(b">");
        } else {
            scan.at += 1;
        }
    }
    xml_declared(bytes)
}

fn is_meta(rest: &[u8]) -> bool {
    rest.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"<meta"))
        && rest.get(5).is_some_and(|&b| b.is_ascii_whitespace() || b == b'/')
}

fn is_tag(rest: &[u8]) -> bool {
    let name = rest.get(1..).unwrap_or_default();
    name.strip_prefix(b"/").unwrap_or(name).first().is_some_and(u8::is_ascii_alphabetic)
}

/// The `encoding` of an XML declaration at the start.
fn xml_declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let rest = bytes.strip_prefix(b"<?xml")?;
    let line = rest.get(..rest.iter().position(|&b| b == b'>')?)?;
    let line = String::from_utf8_lossy(line);
    let (_, value) = line.split_once("encoding")?;
    let value = value.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    html_encoding(value.split(quote).nth(1)?.as_bytes())
}

/// The encoding of a label in a page that could be read as ASCII so far.
fn html_encoding(label: &[u8]) -> Option<&'static Encoding> {
    let encoding = Encoding::for_label(label)?;
    if encoding == UTF_16BE || encoding == UTF_16LE {
        Some(UTF_8)
    } else if encoding == encoding_rs::X_USER_DEFINED {
        Some(WINDOWS_1252)
    } else {
        Some(encoding)
    }
}

/// A place in the bytes of a page.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn behind(&mut self, end: &[u8]) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let found = rest.windows(end.len()).position(|window| window == end);
        self.at = found.map_or(self.bytes.len(), |at| self.at + at + end.len());
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// What a `<meta` tag declares, up to its end.
    fn meta(&mut self) -> Option<&'static Encoding> {
        let (mut pragma, mut needs_pragma, mut charset) = (false, None, None);
        let mut seen = HashSet::new();
        while let Some((name, value)) = self.attribute() {
            if !seen.insert(name.clone()) {
                continue;
            }
            match name.as_slice() {
                b"http-equiv" => pragma = value == b"content-type",
                b"content" if charset.is_none() => {
                    if let Some(encoding) = charset_in(&value) {
                        charset = Some(encoding);
                        needs_pragma = Some(true);
                    }
                }
                b"charset" => {
                    charset = html_encoding(&value);
                    needs_pragma = Some(false);
                }
                _ => {}
            }
        }
        charset.filter(|_| needs_pragma.is_some_and(|needs| !needs || pragma))
    }

    /// The next attribute of a tag, in lower case; `None` at the tag's end.
    fn attribute(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace() || b == b'/') {
            self.at += 1;
        }
        if self.peek()? == b'>' {
            return None;
        }
        let (mut name, mut value) = (Vec::new(), Vec::new());
        loop {
            match self.peek()? {
                b'=' if !name.is_empty() => break,
                b'/' | b'>' => return Some((name, value)),
                b if b.is_ascii_whitespace() => {
                    self.blanks();
                    if self.peek()? != b'=' {
                        return Some((name, value));
                    }
                    break;
                }
                b => name.push(b.to_ascii_lowercase()),
            }
            self.at += 1;
        }
        self.at += 1;
        self.blanks();
        let first = self.peek()?;
        if first == b'"' || first == b'\'' {
            self.at += 1;
            while self.peek()? != first {
                value.push(self.peek()?.to_ascii_lowercase());
                self.at += 1;
            }
            self.at += 1;
            return Some((name, value));
        }
        while !(self.peek()?.is_ascii_whitespace() || self.peek()? == b'>') {
            value.push(self.peek()?.to_ascii_lowercase());
            self.at += 1;
        }
        Some((name, value))
    }
}

/// The encoding in the `content` of a meta element, which is in lower case.
fn charset_in(content: &[u8]) -> Option<&'static Encoding> {
    let mut rest = content;
    loop {
        let at = rest.windows(7).position(|window| window == b"charset")?;
        rest = rest.get(at + 7..)?.trim_ascii_start();
        if let Some(value) = rest.strip_prefix(b"=") {
            rest = value.trim_ascii_start();
            break;
        }
    }
    let first = *rest.first()?;
    let label = if first == b'"' || first == b'\'' {
        let inside = rest.get(1..)?;
        inside.get(..inside.iter().position(|&b| b == first)?)?
    } else {
        let end = rest.iter().position(|&b| b.is_ascii_whitespace() || b == b';');
        rest.get(..end.unwrap_or(rest.len()))?
    };
    html_encoding(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_is_the_one_that_is_stated_or_fits() {
        let check = |bytes: &[u8], expected: &str| assert_eq!(choose(bytes).name(), expected);
        check(b"\xef\xbb\xbf<meta charset=latin1>", "UTF-8");
        check(b"\xff\xfea\0", "UTF-16LE");
        check(b"<meta charset=iso-8859-1>", "windows-1252");
        check(b"<meta charset=utf-16>", "UTF-8");
        check(
            b"<!-- <meta charset=koi8-r> --><meta http-equiv=content-type content='text/html; charset=koi8-r'>",
            "KOI8-R",
        );
        check(b"<?xml version='1.0' encoding='shift_jis'?>", "Shift_JIS");
        check("<p>é".as_bytes(), "UTF-8");
        check(b"<p>\xe9t\xe9 fran\xe7ais", "windows-1252");
    }
}
