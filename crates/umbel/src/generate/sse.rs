//! Bytes as they come → the data of server-sent events.
//!
//! Invariant: how the bytes are cut into pieces changes nothing. Lines end in LF, CRLF or CR; comments and all fields but `data`
//! are passed over.
//!
//! Source: the HTML standard, section 9.2.6, "Interpreting an event stream".

/// Collects bytes until they are events.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The data of the event that has not ended yet.
    data: Option<Vec<u8>>,
    /// The last byte was a CR, so an LF belongs to it.
    after_cr: bool,
    /// A byte order mark may stand before the first line.
    has_begun: bool,
}

impl Events {
    /// The events that end in these bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut events = Vec::new();
        for &byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                byte => self.line.push(byte),
            }
        }
        events
    }

    /// The event that was left without its blank line when the bytes ended, if there is one.
    pub(super) fn finish(&mut self) -> Option<Vec<u8>> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.data.take()
    }

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if !std::mem::replace(&mut self.has_begun, true) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            return self.data.take();
        }
        let value = match line.strip_prefix(b"data") {
            Some(b"") => b"",
            // One space behind the colon belongs to it.
            Some([b':', b' ', value @ ..] | [b':', value @ ..]) => value,
            _ => return None,
        };
        match &mut self.data {
            Some(data) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            none => *none = Some(value.to_vec()),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The events of a text that comes in pieces of `n` bytes, the unfinished one included.
    fn events(text: &str, n: usize) -> Vec<String> {
        let mut events = Events::default();
        let mut found: Vec<_> =
            text.as_bytes().chunks(n).flat_map(|piece| events.push(piece)).collect();
        found.extend(events.finish());
        found.into_iter().map(|data| String::from_utf8(data).unwrap()).collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        for n in [1, 2, 3, 1000] {
            assert_eq!(events(text, n), expected, "{text:?} in pieces of {n}");
        }
    }

    #[test]
    fn an_event_ends_with_a_blank_line() {
        check("data: a\n\ndata: b\n\n", &["a", "b"]);
        check("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]);
        check("data: a\r\rdata: b\r\r", &["a", "b"]);
        check("data: a\n\n\n\ndata: b\n\n", &["a", "b"]);
        check("data: a\ndata: b\n\n", &["a\nb"]);
        check("data: é漢🙂\n\n", &["é漢🙂"]);
        check("\u{feff}data: a\n\n", &["a"]);
    }

    #[test]
    fn what_is_no_data_is_passed_over() {
        check(": hello\n\ndata: a\n: still here\n\n", &["a"]);
        check("event: message\nid: 7\nretry: 10\ndata: a\n\n", &["a"]);
        check("<html>\n<body>database: no</body>\n\n", &[]);
        check("", &[]);
        check("\n\n\n", &[]);
    }

    #[test]
    fn one_space_behind_the_colon_belongs_to_it() {
        check("data:a\n\ndata:  b\n\ndata\n\ndata:\n\n", &["a", " b", "", ""]);
    }

    #[test]
    fn an_event_without_its_blank_line_is_handed_over_at_the_end() {
        check("data: a\n\ndata: b\n", &["a", "b"]);
        check("data: a\n\ndata: b", &["a", "b"]);
        check("data: a\n\nda", &["a"]);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in "(data: ?|[a-c:é🙂\r\n]|\n\n){0,40}", n in 1_usize..9) {
            prop_assert_eq!(events(&text, n), events(&text, 1000));
        }
    }
}
