//! Files → Markdown, through the whole conversion, and what the catalog says of a file.
//!
//! Invariant: each file is drawn by the test that reads it.

use super::*;
use std::fmt::Write as _;
use umbel_core::document::Place;

const PLAIN: &str = "F1";
const BOLD: &str = "F2";

/// Draws lines from the top of a page: font, size, text.
fn page(lines: &[(&str, u32, &str)]) -> String {
    let mut stream = String::new();
    let mut y = 760;
    for (font, size, text) in lines {
        y -= size * 3 / 2;
        let _ = writeln!(stream, "BT /{font} {size} Tf 72 {y} Td ({text}) Tj ET");
    }
    stream
}

/// A file with these pages; `catalog`, `info` and `trailer` are put into those dictionaries, `objects` follow the pages
/// and have the numbers from 5 + 2 × pages.
#[derive(Default)]
struct Sample<'a> {
    pages: &'a [String],
    catalog: &'a str,
    info: &'a str,
    trailer: &'a str,
    objects: &'a [String],
}

impl Sample<'_> {
    fn bytes(&self) -> Vec<u8> {
        let n_pages = self.pages.len();
        let kids: String = (0..n_pages).map(|n| format!("{} 0 R ", 6 + 2 * n - 1)).collect();
        let font = |name| {
            format!(
                "<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>"
            )
        };
        let mut objects = vec![
            format!("<< /Type /Catalog /Pages 2 0 R {} >>", self.catalog),
            format!("<< /Type /Pages /Kids [{kids}] /Count {n_pages} >>"),
            font("Helvetica"),
            font("Helvetica-Bold"),
        ];
        for (n, stream) in self.pages.iter().enumerate() {
            objects.push(format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {} 0 R \
                 /Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> >>",
                6 + 2 * n
            ));
            objects.push(format!("<< /Length {} >>\nstream\n{stream}\nendstream", stream.len()));
        }
        objects.extend_from_slice(self.objects);
        objects.push(format!("<< {} >>", self.info));
        let mut file = "%PDF-1.4\n".to_owned();
        let mut xref = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
        for (n, object) in objects.iter().enumerate() {
            let _ = writeln!(xref, "{:010} 00000 n ", file.len());
            let _ = writeln!(file, "{} 0 obj\n{object}\nendobj", n + 1);
        }
        let _ = write!(
            xref,
            "trailer << /Size {} /Root 1 0 R /Info {} 0 R {} >>\nstartxref\n{}\n%%EOF",
            objects.len() + 1,
            objects.len(),
            self.trailer,
            file.len()
        );
        file.push_str(&xref);
        file.into_bytes()
    }
}

fn check(pages: &[String], expected: &str) {
    let converted = convert(&Sample { pages, ..Sample::default() }.bytes()).unwrap();
    assert_eq!(converted.text, expected);
    assert!(converted.anchors.is_sorted_by_key(|anchor| anchor.offset));
    for anchor in converted.anchors {
        assert!(converted.text.is_char_boundary(anchor.offset));
    }
}

const BODY: &str = "The pump runs for two hours and then it rests for one.";

#[test]
fn a_larger_line_is_a_heading_and_a_bold_one_lies_below_it() {
    let lines = [
        (PLAIN, 20, "Pumps"),
        (PLAIN, 10, BODY),
        (PLAIN, 10, BODY),
        (BOLD, 10, "Starting a pump"),
        (PLAIN, 10, BODY),
        (PLAIN, 10, BODY),
    ];
    check(
        &[page(&lines)],
        &format!("# Pumps\n\n{BODY} {BODY}\n\n## Starting a pump\n\n{BODY} {BODY}\n"),
    );
}

#[test]
fn labels_that_come_again_and_again_are_no_headings() {
    let lines = [(PLAIN, 10, BODY), (BOLD, 10, "Three Months Ended"), (PLAIN, 10, BODY)];
    let text = convert(&Sample { pages: &vec![page(&lines); 4], ..Sample::default() }.bytes());
    assert!(!text.unwrap().text.contains('#'));
}

#[test]
fn each_page_with_text_has_an_anchor_and_the_others_are_named() {
    let pages = [page(&[(PLAIN, 10, BODY)]), String::new(), page(&[(PLAIN, 10, "It is old.")])];
    let converted = convert(&Sample { pages: &pages, ..Sample::default() }.bytes()).unwrap();
    let places: Vec<_> = converted
        .anchors
        .iter()
        .map(|a| (a.place.clone(), slice(&converted.text, Span::new(a.offset, a.offset + 3))))
        .collect();
    assert_eq!(places, [(Place::Page(1), "The"), (Place::Page(3), "It ")]);
    assert_eq!(converted.warnings, ["no text on page 2"]);
}

#[test]
fn text_that_looks_like_markup_stays_text() {
    let lines = [
        (PLAIN, 10, "# no heading"),
        (PLAIN, 10, "    a < b <script>alert\\(1\\)</script> <!-- c -->"),
        (PLAIN, 10, BODY),
    ];
    let bytes = Sample { pages: &[page(&lines)], ..Sample::default() }.bytes();
    let text = convert(&bytes).unwrap().text;
    assert!(text.starts_with("\\# no heading"), "{text}");
    assert!(
        text.contains("a < b \\<script>") && text.contains("\\</script> \\<!-- c -->"),
        "{text}"
    );
    assert!(!text.contains("    "), "{text}");
}

#[test]
fn the_outline_gives_the_levels_and_finds_headings_that_look_like_text() {
    let lines =
        [(PLAIN, 20, "2.1 Pumps"), (PLAIN, 10, BODY), (PLAIN, 20, "Other"), (PLAIN, 10, BODY)];
    let second = page(&[(PLAIN, 10, "Valves"), (PLAIN, 30, " "), (PLAIN, 10, BODY)]);
    let objects = [
        "<< /Type /Outlines /First 10 0 R /Last 10 0 R /Count 2 >>".to_owned(),
        "<< /Title (Pumps) /Parent 9 0 R /Dest [5 0 R /Fit] /First 11 0 R /Last 11 0 R /Count 1 >>"
            .to_owned(),
        "<< /Title (Valves) /Parent 10 0 R /Dest [7 0 R /Fit] >>".to_owned(),
    ];
    let bytes = Sample {
        pages: &[page(&lines), second],
        catalog: "/Outlines 9 0 R",
        objects: &objects,
        ..Sample::default()
    }
    .bytes();
    let text = convert(&bytes).unwrap().text;
    let headings: Vec<_> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(headings, ["# 2.1 Pumps", "## Other", "## Valves"], "{text}");
}

#[test]
fn an_outline_that_leads_back_to_itself_is_left_out() {
    let check = |catalog: &str, objects: &[&str]| {
        let objects: Vec<String> = objects.iter().map(|&object| object.to_owned()).collect();
        let pages = [page(&[(PLAIN, 20, "Pumps"), (PLAIN, 10, BODY)])];
        let bytes =
            Sample { pages: &pages, catalog, objects: &objects, ..Sample::default() }.bytes();
        let text = convert(&bytes).unwrap().text;
        assert_eq!(text, format!("# Pumps\n\n{BODY}\n"), "{catalog} {objects:?}");
    };
    let outlines = "<< /Type /Outlines /First 8 0 R >>";
    let entry = |links: &str| format!("<< /Title (Pumps) /Dest [5 0 R /Fit] {links} >>");
    check("/Outlines 7 0 R", &[outlines, &entry("/Next 8 0 R")]);
    check("/Outlines 7 0 R", &[outlines, &entry("/Next 9 0 R"), &entry("/Next 8 0 R")]);
    check("/Outlines 7 0 R", &[outlines, &entry("/First 9 0 R"), &entry("/First 7 0 R")]);
    check("/Outlines 7 0 R", &[outlines, &entry("/First 9 0 R /Next 9 0 R"), &entry("")]);
    let names = "/Outlines 7 0 R /Names << /Dests 9 0 R >>";
    check(names, &[outlines, &entry(""), "<< /Kids [9 0 R 9 0 R] >>"]);
    // The library indexes an empty destination: that costs the outline, not the file.
    check("/Outlines 7 0 R", &[outlines, "<< /Title (Pumps) /Dest [] >>"]);
}

#[test]
fn running_heads_and_page_numbers_are_dropped() {
    let topics = ["Pumps", "Valves", "Pipes", "Tanks", "Gauges"];
    let pages: Vec<String> = (1..)
        .zip(topics)
        .map(|(number, topic)| {
            let head = "BT /F1 9 Tf 72 770 Td (Acme field manual 2024) Tj ET\n";
            let foot = format!("BT /F1 9 Tf 300 30 Td ({number}) Tj ET\n");
            let text = format!("{topic} are checked every week. {BODY}");
            let lines = [(PLAIN, 10, text.as_str()), (PLAIN, 10, BODY), (PLAIN, 10, BODY)];
            head.to_owned() + &page(&lines) + &foot
        })
        .collect();
    let text = convert(&Sample { pages: &pages, ..Sample::default() }.bytes()).unwrap().text;
    assert!(text.matches("Acme field manual").count() <= 1, "{text}");
    assert!(topics.iter().all(|topic| text.contains(topic)), "{text}");
    assert!(!text.lines().any(|line| line.trim().parse::<u32>().is_ok()), "{text}");
}

#[test]
fn title_date_and_language_come_from_the_file() {
    let bytes = Sample {
        pages: &[page(&[(PLAIN, 10, BODY)])],
        catalog: "/Lang (de-DE)",
        info: "/Title (Field manual) /CreationDate (D:20230101000000Z) /ModDate (D:20240115103000+01'00')",
        ..Sample::default()
    }
    .bytes();
    let converted = convert(&bytes).unwrap();
    assert_eq!(converted.title.as_deref(), Some("Field manual"));
    assert_eq!(converted.updated_at, Some(1_705_311_000));
    assert_eq!(converted.language.as_deref(), Some("de-DE"));
}

#[test]
fn a_title_of_a_program_is_no_title() {
    let check = |title: &str, expected: Option<&str>| {
        assert_eq!(sensible_title(title).as_deref(), expected, "{title}");
    };
    check("  The  pump ", Some("The pump"));
    check("Microsoft Word - The pump", Some("The pump"));
    check("Microsoft Word - pump_v2.docx", None);
    check("untitled", None);
    check("42", None);
}

#[test]
fn dates_are_read_to_the_second_and_less() {
    let check = |date: &str, expected: Option<i64>| assert_eq!(read_date(date), expected, "{date}");
    check("D:19700101000000Z", Some(0));
    check("D:19700102", Some(86_400));
    check("19700101010000+01'00'", Some(0));
    check("D:19700101000000-00'30", Some(1800));
    check("D:1970", Some(0));
    check("D:19701301", None);
    check("yesterday", None);
    check("", None);
}

#[test]
fn pages_are_named_as_ranges() {
    assert_eq!(name_pages(&[3]), "page 3");
    assert_eq!(name_pages(&[1, 4, 5, 6]), "pages 1, 4-6");
}

#[test]
fn a_file_without_text_says_so() {
    let pages = [String::new(), String::new()];
    let bytes = Sample { pages: &pages, ..Sample::default() }.bytes();
    assert_eq!(convert(&bytes), Err(ConvertError::NoText { pages: 2 }));
}

#[test]
fn a_file_with_a_password_is_encrypted() {
    let key = "00".repeat(32);
    let lock = format!("<< /Filter /Standard /V 1 /R 2 /P -4 /O <{key}> /U <{key}> >>");
    let bytes = Sample {
        pages: &[page(&[(PLAIN, 10, BODY)])],
        trailer: "/Encrypt 7 0 R /ID [<00> <00>]",
        objects: &[lock],
        ..Sample::default()
    }
    .bytes();
    assert_eq!(convert(&bytes), Err(ConvertError::Encrypted));
}

#[test]
fn a_cut_file_gives_its_text_or_a_reason() {
    let bytes = Sample { pages: &[page(&[(PLAIN, 10, BODY)])], ..Sample::default() }.bytes();
    for end in (0..bytes.len()).step_by(61) {
        if let Err(error) = convert(&bytes[..end]) {
            let is_named =
                matches!(error, ConvertError::Damaged { .. } | ConvertError::NoText { .. });
            assert!(is_named, "{end}: {error}");
        }
    }
}
