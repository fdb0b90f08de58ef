//! The 655 examples of the CommonMark specification, version 0.31.2.

use crate::support::{keeps_its_promises, outline};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::path::Path;
use umbel_core::outline::Format;

/// What a heading is by the specification's HTML.
#[derive(Debug, PartialEq)]
struct Heading {
    level: u8,
    text: String,
}

/// The examples as Markdown and HTML; none where the shared data are not on this machine.
fn examples() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/robustness/commonmark/spec.txt");
    #[expect(clippy::disallowed_methods, reason = "a test reads its corpus")]
    let read = std::fs::read_to_string(&path);
    let Ok(spec) = read else {
        #[expect(clippy::print_stderr, reason = "says why nothing was tested")]
        {
            eprintln!("skipped: {} is not there", path.display());
        }
        return Vec::new();
    };
    let fence = "`".repeat(32);
    let mut examples = Vec::new();
    let mut lines = spec.lines();
    while let Some(line) = lines.next() {
        if line.starts_with(&fence) {
            let until = |end: &str, lines: &mut std::str::Lines<'_>| {
                let taken = lines.take_while(|&line| line != end);
                taken.map(|line| line.replace('→', "\t") + "\n").collect::<String>()
            };
            let markdown = until(".", &mut lines);
            examples.push((markdown, until(&fence, &mut lines)));
        }
    }
    assert_eq!(examples.len(), 655);
    examples
}

/// The headings in HTML, and whether each stands outside quotes and list items.
fn headings_in(html: &str) -> Vec<(Heading, bool)> {
    let mut found: Vec<(Heading, bool)> = Vec::new();
    let (mut depth, mut open) = (0_usize, false);
    for (at, piece) in html.split('<').enumerate() {
        let (tag, behind) =
            if at == 0 { ("", piece) } else { piece.split_once('>').unwrap_or_default() };
        match tag.as_bytes() {
            [b'h', level @ b'1'..=b'6'] => {
                found.push((Heading { level: level - b'0', text: String::new() }, depth == 0));
                open = true;
            }
            [b'/', b'h', b'1'..=b'6'] => open = false,
            b"blockquote" | b"li" => depth += 1,
            b"/blockquote" | b"/li" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if open && let Some((heading, _)) = found.last_mut() {
            heading.text.push_str(behind);
        }
    }
    for (heading, _) in &mut found {
        let decoded = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")]
            .iter()
            .fold(heading.text.clone(), |text, (from, to)| text.replace(from, to));
        heading.text = folded(&decoded);
    }
    found
}

fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The headings that a parser with these options reports.
fn headings_parsed(markdown: &str, options: Options) -> Vec<Heading> {
    let mut found: Vec<Heading> = Vec::new();
    let mut open = false;
    for event in Parser::new_ext(markdown, options) {
        match (event, found.last_mut()) {
            (Event::Start(Tag::Heading { level, .. }), _) => {
                found.push(Heading { level: level as u8, text: String::new() });
                open = true;
            }
            (Event::End(TagEnd::Heading(_)), _) => open = false,
            (Event::Text(text) | Event::Code(text), Some(heading)) if open => {
                heading.text.push_str(&text);
            }
            (Event::SoftBreak | Event::HardBreak, Some(heading)) if open => heading.text.push(' '),
            _ => {}
        }
    }
    for heading in &mut found {
        heading.text = folded(&heading.text);
    }
    found
}

#[test]
fn the_parser_reports_the_headings_of_the_specification() {
    let ours = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS;
    for (markdown, html) in examples() {
        let wanted: Vec<Heading> = headings_in(&html).into_iter().map(|(h, _)| h).collect();
        for options in [Options::empty(), ours] {
            assert_eq!(headings_parsed(&markdown, options), wanted, "{markdown:?}");
        }
    }
}

#[test]
fn sections_open_at_the_headings_outside_quotes_and_list_items() {
    let mut compared = 0;
    for (markdown, html) in examples() {
        // A raw HTML heading at the start of its line opens a section too, but would be none of the parser's events: the
        // comparison would have to set such an example aside. There is none.
        let raw = markdown.to_ascii_lowercase();
        assert!((1..=6).all(|level| !raw.contains(&format!("<h{level}"))), "{markdown:?}");
        let wanted: Vec<Heading> = headings_in(&html)
            .into_iter()
            .filter(|(_, outside)| *outside)
            .map(|(h, _)| h)
            .collect();
        let found: Vec<Heading> = outline(&markdown, Format::Markdown)
            .headings
            .into_iter()
            .map(|h| Heading { level: h.level, text: h.text })
            .collect();
        assert_eq!(found, wanted, "{markdown:?}");
        compared += wanted.len();
    }
    assert!(compared == 0 || compared > 50, "{compared} headings");
}

#[test]
fn every_example_keeps_the_promises_of_a_document() {
    for (markdown, _) in examples() {
        for format in [Format::Markdown, Format::Plain] {
            keeps_its_promises(&markdown, format);
            keeps_its_promises(&markdown.replace('\n', "\r\n"), format);
        }
    }
}

#[test]
fn the_whole_specification_keeps_the_promises_of_a_document() {
    let all: String = examples().into_iter().map(|(markdown, _)| markdown + "\n").collect();
    keeps_its_promises(&all, Format::Markdown);
}
