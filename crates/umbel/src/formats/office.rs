//! Office files → Markdown, by slide and by sheet.
//!
//! Invariant: an archive is measured before it is read, and no text of the file becomes a heading, HTML or code by its look.
//!
//! `docling` reads the formats and writes the Markdown. This module adds the limit, the anchors and the escaping.

use super::{ConvertError, Converted, FileFormat};
use crate::metadata::parse_date;
use docling::{
    ContentLayer, ContentLayers, ConversionError, DoclingDocument, DocumentConverter, InputFormat,
    MarkdownExportOptions, Node, SourceDocument,
};
use std::io::{self, Cursor, Read};
use umbel_core::document::{Anchor, Place};

/// How much the parts of one file may hold when they are unpacked: a reader keeps several times that in memory.
const UNPACKED_BYTES: u64 = 256 << 20;

/// Reads an office file: headings, lists, tables as pipes, code; an anchor where each slide or sheet with text starts.
///
/// Headers, footers, comments, hidden sheets and pictures are left out; the notes of slides and alternative texts are kept.
///
/// # Errors
/// [`ConvertError::Encrypted`], [`ConvertError::Damaged`], [`ConvertError::NoText`], [`ConvertError::UnpacksToTooMuch`] where
/// it unpacks to more than 256 MiB, and [`ConvertError::NotBuilt`] for a format that is not an office format.
pub fn convert(format: FileFormat, bytes: &[u8]) -> Result<Converted, ConvertError> {
    let input = match format {
        FileFormat::Docx => InputFormat::Docx,
        FileFormat::Pptx => InputFormat::Pptx,
        FileFormat::Xlsx => InputFormat::Xlsx,
        FileFormat::Doc => InputFormat::Doc,
        FileFormat::Ppt => InputFormat::Ppt,
        FileFormat::Xls => InputFormat::Xls,
        FileFormat::Odt => InputFormat::Odt,
        FileFormat::Odp => InputFormat::Odp,
        FileFormat::Ods => InputFormat::Ods,
        FileFormat::Epub => InputFormat::Epub,
        FileFormat::Rtf => InputFormat::Rtf,
        FileFormat::Email => InputFormat::Email,
        FileFormat::AsciiDoc => InputFormat::Asciidoc,
        FileFormat::Csv => InputFormat::Csv,
        _ => return Err(ConvertError::NotBuilt { format }),
    };
    let mut converted = read(input, bytes)?;
    if format == FileFormat::Email {
        converted.updated_at = converted.updated_at.or_else(|| sent_at(bytes));
    }
    Ok(converted)
}

/// When an e-mail was sent, by its header: the library does not tell.
fn sent_at(mail: &[u8]) -> Option<i64> {
    let header = mail.split(|&byte| byte == b'\n').take_while(|line| !line.trim_ascii().is_empty());
    let date = header.filter_map(|line| std::str::from_utf8(line).ok()).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("date").then_some(value)
    });
    parse_date(date?)
}

/// As [`convert`], for any format that the library reads.
fn read(input: InputFormat, bytes: &[u8]) -> Result<Converted, ConvertError> {
    measure(bytes, UNPACKED_BYTES)?;
    let source = SourceDocument::from_bytes("file", input, bytes.to_vec());
    let converter = DocumentConverter::with_allowed_formats([input]).compact_tables(true);
    let metadata = converter.document_metadata(&source);
    let result = converter.convert(source).map_err(|error| reason(&error))?;

    let mut converted = Converted {
        title: metadata
            .title
            .map(|title| title.trim().to_owned())
            .filter(|title| !title.is_empty()),
        updated_at: [metadata.modified, metadata.date, metadata.created]
            .iter()
            .flatten()
            .find_map(|date| parse_date(date)),
        language: metadata.language.filter(|language| !language.is_empty()),
        warnings: result.errors.into_iter().map(|error| error.error_message).collect(),
        ..Converted::default()
    };
    let pages = split_pages(result.document.nodes);
    let n_pages = pages.len();
    for page in pages {
        let body = write(page.nodes);
        if body.is_empty() {
            continue;
        }
        if !converted.text.is_empty() {
            converted.text.push_str("\n\n");
        }
        if let Some(number) = page.number {
            converted
                .anchors
                .push(Anchor { offset: converted.text.len(), place: Place::Page(number) });
        }
        if let Some(name) = page.name {
            converted.text.push_str("## ");
            converted.text.push_str(tame(&name).trim());
            converted.text.push_str("\n\n");
        }
        converted.text.push_str(&body);
    }
    if converted.text.is_empty() {
        return Err(ConvertError::NoText { pages: n_pages });
    }
    converted.text.push('\n');
    Ok(converted)
}

/// Reads every part of an archive to its end, as the sizes that it states may be lies. Anything else passes.
fn measure(bytes: &[u8], limit_bytes: u64) -> Result<(), ConvertError> {
    if !bytes.starts_with(b"PK") {
        return Ok(());
    }
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes))
        .map_err(|error| ConvertError::Damaged { detail: error.to_string() })?;
    let mut left = limit_bytes;
    for index in 0..archive.len() {
        // A part that cannot be read is the library's to judge: it may not need it.
        let Ok(part) = archive.by_index(index) else { continue };
        let mut part = part.take(left + 1);
        let _: io::Result<u64> = io::copy(&mut part, &mut io::sink());
        let read_bytes = left + 1 - part.limit();
        left =
            left.checked_sub(read_bytes).ok_or(ConvertError::UnpacksToTooMuch { limit_bytes })?;
    }
    Ok(())
}

fn reason(error: &ConversionError) -> ConvertError {
    if error.encryption().is_some() {
        ConvertError::Encrypted
    } else {
        ConvertError::Damaged { detail: error.to_string() }
    }
}

/// A slide, a sheet, or a file that has neither.
#[derive(Debug, Default)]
struct Page {
    number: Option<u32>,
    name: Option<String>,
    nodes: Vec<Node>,
}

fn split_pages(nodes: Vec<Node>) -> Vec<Page> {
    let mut pages = vec![Page::default()];
    for node in nodes {
        if let Node::PageInfo { page_no, .. } = node {
            pages.push(Page { number: u32::try_from(page_no).ok(), ..Page::default() });
            continue;
        }
        if matches!(node, Node::CommentSection { .. }) {
            continue;
        }
        if let Some(page) = pages.last_mut() {
            if let Node::Group { label, name, .. } = &node
                && label == "sheet"
            {
                page.name.clone_from(name);
            }
            page.nodes.push(node);
        }
    }
    if pages.len() > 1 && pages[0].nodes.is_empty() {
        pages.remove(0);
    }
    pages
}

fn write(mut nodes: Vec<Node>) -> String {
    nodes.iter_mut().for_each(tame_node);
    let mut document = DoclingDocument::new("page");
    document.nodes = nodes;
    document.strict_markdown = true;
    document.compact_tables = true;
    let options = MarkdownExportOptions {
        layers: ContentLayers::BODY.with(ContentLayer::Notes),
        image_placeholder: String::new(),
        escape_underscores: false,
        ..MarkdownExportOptions::default()
    };
    let (markdown, _) = document.export_to_markdown_with_options(&options);
    unescape(markdown.trim())
}

/// Escapes what looks like a block in the texts that are none.
fn tame_node(node: &mut Node) {
    match node {
        Node::Paragraph { text }
        | Node::InlineGroup { md_text: text, .. }
        | Node::LabeledText { text, .. } => *text = tame(text),
        Node::Group { children, .. } => children.iter_mut().for_each(tame_node),
        Node::Furniture { inner, .. }
        | Node::Commented { inner, .. }
        | Node::Located { inner, .. }
        | Node::Prov { inner, .. } => tame_node(inner),
        _ => {}
    }
}

/// Lines without the look of a heading, its underline, a fence or an indented block.
fn tame(text: &str) -> String {
    let tame_line = |(at, line): (usize, &str)| {
        let line = line.trim_start();
        let is_underline = at > 0
            && (line.trim_end().chars().all(|c| c == '=')
                || line.trim_end().chars().all(|c| c == '-'));
        let is_markup = ["#", "```", "~~~"].iter().any(|mark| line.starts_with(mark));
        let backslash = if !line.is_empty() && (is_markup || is_underline) { "\\" } else { "" };
        format!("{backslash}{line}")
    };
    text.split('\n').enumerate().map(tame_line).collect::<Vec<_>>().join("\n")
}

/// The text with `&` as it is, and a backslash before what would begin a tag: entities would hide words from a search.
fn unescape(markdown: &str) -> String {
    let mut in_code = false;
    let unescape_line = |line: &str| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        if in_code || is_fence {
            return line.to_owned();
        }
        let mut parts = line.split("&lt;");
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let is_tag =
                part.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?'));
            text.push_str(if is_tag { "\\<" } else { "<" });
            text.push_str(part);
        }
        text.replace("&gt;", ">").replace("&#124;", "\\|").replace("&amp;", "&")
    };
    markdown.split('\n').map(unescape_line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use umbel_core::span::{Span, slice};

    const RELATIONS: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    const PACKAGE: &str = "http://schemas.openxmlformats.org/package/2006";
    const WORD: &str = "http://schemas.openxmlformats.org/wordprocessingml/2006/main";
    const SHEET: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    const SLIDE: &str = "http://schemas.openxmlformats.org/presentationml/2006/main";
    const DRAWING: &str = "http://schemas.openxmlformats.org/drawingml/2006/main";

    /// A package of these parts; relations are `(of, id, type, target)`.
    fn package(parts: &[(&str, String)], relations: &[(&str, &str, &str, &str)]) -> Vec<u8> {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let mut add = |name: &str, content: &str| {
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(content.as_bytes()).unwrap();
        };
        add(
            "[Content_Types].xml",
            &format!(
                "<Types xmlns=\"{PACKAGE}/content-types\"><Default Extension=\"xml\" ContentType=\"application/xml\"/>\
                 <Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\
                 </Types>"
            ),
        );
        let mut owners: Vec<&str> = relations.iter().map(|relation| relation.0).collect();
        owners.dedup();
        for owner in owners {
            let (folder, name) = owner.rsplit_once('/').unwrap_or(("", owner));
            let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
            let list: String = relations
                .iter()
                .filter(|relation| relation.0 == owner)
                .map(|(_, id, kind, target)| {
                    format!("<Relationship Id=\"{id}\" Type=\"{RELATIONS}/{kind}\" Target=\"{target}\"/>")
                })
                .collect();
            add(
                &format!("{folder}_rels/{name}.rels"),
                &format!("<Relationships xmlns=\"{PACKAGE}/relationships\">{list}</Relationships>"),
            );
        }
        for (name, content) in parts {
            add(name, content);
        }
        zip.finish().unwrap().into_inner()
    }

    fn docx(body: &str) -> Vec<u8> {
        let style = |id: &str, name: &str| {
            format!(
                "<w:style w:type=\"paragraph\" w:styleId=\"{id}\"><w:name w:val=\"{name}\"/></w:style>"
            )
        };
        package(
            &[
                (
                    "word/document.xml",
                    format!("<w:document xmlns:w=\"{WORD}\"><w:body>{body}</w:body></w:document>"),
                ),
                (
                    "word/styles.xml",
                    format!(
                        "<w:styles xmlns:w=\"{WORD}\">{}{}</w:styles>",
                        style("Heading1", "heading 1"),
                        style("Heading2", "heading 2")
                    ),
                ),
                (
                    "docProps/core.xml",
                    format!(
                        "<cp:coreProperties xmlns:cp=\"{PACKAGE}/metadata/core-properties\" \
                         xmlns:dc=\"http://purl.org/dc/elements/1.1/\" xmlns:dcterms=\"http://purl.org/dc/terms/\">\
                         <dc:title>Field manual</dc:title><dc:language>en-GB</dc:language>\
                         <dcterms:modified>2024-01-15T09:30:00Z</dcterms:modified></cp:coreProperties>"
                    ),
                ),
            ],
            &[
                ("", "rId1", "officeDocument", "word/document.xml"),
                ("", "rId2", "metadata/core-properties", "docProps/core.xml"),
                ("word/document.xml", "rId1", "styles", "styles.xml"),
            ],
        )
    }

    fn paragraph(style: &str, text: &str) -> String {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        format!(
            "<w:p><w:pPr><w:pStyle w:val=\"{style}\"/></w:pPr><w:r><w:t xml:space=\"preserve\">{text}</w:t></w:r></w:p>"
        )
    }

    fn xlsx() -> Vec<u8> {
        let cell = |at: &str, text: &str| {
            format!("<c r=\"{at}\" t=\"inlineStr\"><is><t>{text}</t></is></c>")
        };
        let sheet = |rows: &str| {
            format!("<worksheet xmlns=\"{SHEET}\"><sheetData>{rows}</sheetData></worksheet>")
        };
        let first = format!(
            "<row r=\"1\">{}{}</row><row r=\"2\">{}<c r=\"B2\"><v>1234.5</v></c></row>",
            cell("A1", "Region"),
            cell("B1", "Sum"),
            cell("A2", "North | East")
        );
        package(
            &[
                (
                    "xl/workbook.xml",
                    format!(
                        "<workbook xmlns=\"{SHEET}\" xmlns:r=\"{RELATIONS}\"><sheets>\
                         <sheet name=\"Sales\" sheetId=\"1\" r:id=\"rId1\"/><sheet name=\"Empty\" sheetId=\"2\" r:id=\"rId2\"/>\
                         <sheet name=\"Costs\" sheetId=\"3\" r:id=\"rId3\"/></sheets></workbook>"
                    ),
                ),
                ("xl/worksheets/sheet1.xml", sheet(&first)),
                ("xl/worksheets/sheet2.xml", sheet("")),
                (
                    "xl/worksheets/sheet3.xml",
                    sheet(&format!(
                        "<row r=\"1\">{}</row><row r=\"2\">{}</row>",
                        cell("A1", "Item"),
                        cell("A2", "Rent")
                    )),
                ),
            ],
            &[
                ("", "rId1", "officeDocument", "xl/workbook.xml"),
                ("xl/workbook.xml", "rId1", "worksheet", "worksheets/sheet1.xml"),
                ("xl/workbook.xml", "rId2", "worksheet", "worksheets/sheet2.xml"),
                ("xl/workbook.xml", "rId3", "worksheet", "worksheets/sheet3.xml"),
            ],
        )
    }

    fn pptx() -> Vec<u8> {
        let shape = |kind: &str, text: &str| {
            format!(
                "<p:sp><p:nvSpPr><p:cNvPr id=\"2\" name=\"s\"/><p:cNvSpPr/><p:nvPr><p:ph type=\"{kind}\"/></p:nvPr></p:nvSpPr>\
                 <p:spPr/><p:txBody><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
            )
        };
        let slide = |shapes: &str| {
            format!(
                "<p:sld xmlns:p=\"{SLIDE}\" xmlns:a=\"{DRAWING}\" xmlns:r=\"{RELATIONS}\"><p:cSld><p:spTree>\
                 <p:nvGrpSpPr><p:cNvPr id=\"1\" name=\"\"/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>{shapes}\
                 </p:spTree></p:cSld></p:sld>"
            )
        };
        package(
            &[
                (
                    "ppt/presentation.xml",
                    format!(
                        "<p:presentation xmlns:p=\"{SLIDE}\" xmlns:r=\"{RELATIONS}\"><p:sldIdLst>\
                         <p:sldId id=\"256\" r:id=\"rId1\"/><p:sldId id=\"257\" r:id=\"rId2\"/></p:sldIdLst>\
                         <p:sldSz cx=\"9144000\" cy=\"6858000\"/></p:presentation>"
                    ),
                ),
                ("ppt/slides/slide1.xml", slide(&shape("title", "Pumps"))),
                (
                    "ppt/slides/slide2.xml",
                    slide(&(shape("title", "Valves") + &shape("subTitle", "They close."))),
                ),
            ],
            &[
                ("", "rId1", "officeDocument", "ppt/presentation.xml"),
                ("ppt/presentation.xml", "rId1", "slide", "slides/slide1.xml"),
                ("ppt/presentation.xml", "rId2", "slide", "slides/slide2.xml"),
            ],
        )
    }

    fn check(format: FileFormat, bytes: &[u8], expected: &str) {
        assert_eq!(convert(format, bytes).unwrap().text, expected);
    }

    /// Number of each page, and the line that it starts with.
    fn starts(converted: &Converted) -> Vec<(Place, &str)> {
        let first_line = |offset| {
            let rest = slice(&converted.text, Span::new(offset, converted.text.len()));
            rest.lines().next().unwrap_or_default()
        };
        converted.anchors.iter().map(|a| (a.place.clone(), first_line(a.offset))).collect()
    }

    #[test]
    fn styles_are_headings_and_tables_are_pipes() {
        let cell = |text: &str| format!("<w:tc>{}</w:tc>", paragraph("", text));
        let row = |a: &str, b: &str| format!("<w:tr>{}{}</w:tr>", cell(a), cell(b));
        let body = paragraph("Heading1", "Pumps")
            + &paragraph("", "They run.")
            + &paragraph("Heading2", "Parts & prices")
            + &format!("<w:tbl>{}{}</w:tbl>", row("Part", "Price"), row("Seal", "4"));
        check(
            FileFormat::Docx,
            &docx(&body),
            "## Pumps\n\nThey run.\n\n### Parts & prices\n\n| Part | Price |\n| - | - |\n| Seal | 4 |\n",
        );
    }

    #[test]
    fn text_that_looks_like_markup_stays_text() {
        let body = paragraph("", "# no heading")
            + &paragraph("", "    a < b & <script>alert(1)</script>")
            + &paragraph("", "~~~");
        check(
            FileFormat::Docx,
            &docx(&body),
            "\\# no heading\n\na < b & \\<script>alert(1)\\</script>\n\n\\~~~\n",
        );
    }

    #[test]
    fn properties_give_title_date_and_language() {
        let converted = convert(FileFormat::Docx, &docx(&paragraph("", "They run."))).unwrap();
        assert_eq!(converted.title.as_deref(), Some("Field manual"));
        assert_eq!(converted.updated_at, Some(1_705_311_000));
        assert_eq!(converted.language.as_deref(), Some("en-GB"));
    }

    #[test]
    fn each_sheet_with_cells_is_a_page_under_its_name() {
        let converted = convert(FileFormat::Xlsx, &xlsx()).unwrap();
        assert_eq!(
            starts(&converted),
            [(Place::Page(1), "## Sales"), (Place::Page(3), "## Costs")]
        );
        assert!(converted.text.contains("| North \\| East | 1234.5 |\n"), "{}", converted.text);
    }

    #[test]
    fn each_slide_is_a_page() {
        let converted = convert(FileFormat::Pptx, &pptx()).unwrap();
        assert_eq!(starts(&converted), [(Place::Page(1), "# Pumps"), (Place::Page(2), "# Valves")]);
        assert!(converted.text.contains("They close."), "{}", converted.text);
    }

    /// An archive of these parts.
    fn archive(parts: &[(&str, &str)]) -> Vec<u8> {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in parts {
            zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(content.as_bytes()).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    #[test]
    fn an_open_document_has_headings_and_lists() {
        let namespaces = "xmlns:office=\"urn:oasis:names:tc:opendocument:xmlns:office:1.0\" \
             xmlns:text=\"urn:oasis:names:tc:opendocument:xmlns:text:1.0\"";
        let content = format!(
            "<office:document-content {namespaces}><office:body><office:text>\
             <text:h text:outline-level=\"1\">Guide</text:h><text:p>Some text.</text:p>\
             <text:list><text:list-item><text:p>one</text:p></text:list-item></text:list>\
             </office:text></office:body></office:document-content>"
        );
        let file = archive(&[
            ("mimetype", "application/vnd.oasis.opendocument.text"),
            ("content.xml", &content),
        ]);
        check_text(FileFormat::Odt, &file, &["# Guide", "Some text.", "- one"]);
    }

    #[test]
    fn a_book_is_read_in_the_order_of_its_chapters() {
        let chapter = |title: &str| {
            format!(
                "<html xmlns=\"http://www.w3.org/1999/xhtml\"><head><title>x</title></head><body><h1>{title}</h1><p>Text of {title}.</p></body></html>"
            )
        };
        let container = "<container xmlns=\"urn:oasis:names:tc:opendocument:xmlns:container\" version=\"1.0\"><rootfiles>\
             <rootfile full-path=\"book.opf\" media-type=\"application/oebps-package+xml\"/></rootfiles></container>";
        let book = "<package xmlns=\"http://www.idpf.org/2007/opf\" version=\"3.0\"><metadata xmlns:dc=\"http://purl.org/dc/elements/1.1/\">\
             <dc:title>The Book</dc:title><dc:language>en</dc:language></metadata><manifest>\
             <item id=\"b\" href=\"b.xhtml\" media-type=\"application/xhtml+xml\"/>\
             <item id=\"a\" href=\"a.xhtml\" media-type=\"application/xhtml+xml\"/></manifest>\
             <spine><itemref idref=\"a\"/><itemref idref=\"b\"/></spine></package>";
        let file = archive(&[
            ("mimetype", "application/epub+zip"),
            ("META-INF/container.xml", container),
            ("book.opf", book),
            ("a.xhtml", &chapter("First")),
            ("b.xhtml", &chapter("Second")),
        ]);
        check_text(
            FileFormat::Epub,
            &file,
            &["# First", "Text of First.", "# Second", "Text of Second."],
        );
        assert_eq!(convert(FileFormat::Epub, &file).unwrap().title.as_deref(), Some("The Book"));
    }

    #[test]
    fn an_e_mail_has_its_subject_date_and_text() {
        let file = b"From: a@example.com\r\nTo: b@example.com\r\nSubject: Refunds\r\nDate: Wed, 1 May 2024 12:00:00 +0000\r\n\
            Content-Type: text/plain; charset=utf-8\r\n\r\nRefunds are paid within fourteen days.\r\n";
        check_text(FileFormat::Email, file, &["Refunds", "Refunds are paid within fourteen days."]);
        let converted = convert(FileFormat::Email, file).unwrap();
        assert_eq!(converted.updated_at, Some(1_714_564_800));
    }

    #[test]
    fn plain_markups_become_markdown() {
        let rich = b"{\\rtf1\\ansi Some \\b bold\\b0  text.\\par More text.\\par}";
        check_text(FileFormat::Rtf, rich, &["Some **bold** text.", "More text."]);
        let ascii = b"= Guide\n\nSome text.\n\n== Part\n\n* one\n* two\n";
        check_text(
            FileFormat::AsciiDoc,
            ascii,
            &["# Guide", "Some text.", "## Part", "- one", "- two"],
        );
        check_text(FileFormat::Csv, b"a,b\n1,2\n", &["| a", "| 1"]);
    }

    /// The text holds these pieces, in this order.
    fn check_text(format: FileFormat, file: &[u8], pieces: &[&str]) {
        let text = convert(format, file).unwrap().text;
        let mut rest = text.as_str();
        for piece in pieces {
            let (_, behind) =
                rest.split_once(piece).unwrap_or_else(|| panic!("no {piece:?} in {text:?}"));
            rest = behind;
        }
    }

    #[test]
    fn a_file_without_text_says_so() {
        let empty = convert(FileFormat::Docx, &docx(""));
        assert_eq!(empty, Err(ConvertError::NoText { pages: 1 }));
    }

    #[test]
    fn a_file_that_unpacks_to_too_much_is_not_read() {
        let bytes = package(&[("word/document.xml", " ".repeat(1 << 20))], &[]);
        assert_eq!(
            measure(&bytes, 1 << 19),
            Err(ConvertError::UnpacksToTooMuch { limit_bytes: 1 << 19 })
        );
        assert_eq!(measure(&bytes, 1 << 21), Ok(()));
    }

    #[test]
    fn a_cut_file_is_damaged() {
        let bytes = docx(&paragraph("", "They run."));
        for end in (0..bytes.len()).step_by(97) {
            let cut = convert(FileFormat::Docx, &bytes[..end]);
            assert!(matches!(cut, Err(ConvertError::Damaged { .. })), "{end}: {cut:?}");
        }
    }
}
