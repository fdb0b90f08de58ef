//! Bytes → nothing: each target feeds them to one parser and panics where a promise is broken.
//!
//! Invariant: a target is a plain function, so that the corpus of small inputs is replayed by the tests without sanitizers.

use std::cell::RefCell;
use std::io::{Cursor, Write as _};
use umbel::config::{Config, Unit};
use umbel::core::check::{Allowed, Violation, check};
use umbel::core::document::Document;
use umbel::core::leaf::EmbedLimit;
use umbel::core::outline::{BlockKind, Format, Outline, parse};
use umbel::core::span::{Span, fits, slice};
use umbel::filter::Filter;
use umbel::formats::{Converted, FileFormat, convert};
use umbel::metadata::parse_date;
use umbel::read::rules::Rules;
use umbel::read::{Draft, detect_language, document};
use umbel::tokens::OpenAiTokens;

thread_local! {
    /// Where this project's own code panicked last on this thread.
    static OWN_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics inside of a parser that another project wrote are caught by `convert`, and are no findings: they cost one file and
/// have a reason. This project's own are findings, though `convert` catches them too. The fuzzer's hook would end the process
/// before either is caught.
pub(crate) fn hook() {
    std::panic::set_hook(Box::new(|panic| {
        // The other projects' sources lie in folders of their own.
        let ours = |file: &str| file.contains("crates/") || file.starts_with("src/");
        if let Some(place) = panic.location().filter(|place| ours(place.file())) {
            OWN_PANIC.set(Some(place.to_string()));
        }
        let _ = writeln!(std::io::stderr(), "{panic}");
    }));
}

/// A model that takes few tokens: a word each.
struct Words(usize);

impl EmbedLimit for Words {
    fn max_tokens(&self) -> usize {
        self.0
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.split_whitespace().count() + 2
    }
}

/// Leaf building under settings that the first bytes choose.
pub(crate) fn leaves(data: &[u8]) {
    let [target, overlap, kind, limit, text @ ..] = data else { return };
    let target = usize::from(*target) + 1;
    let sets = [
        format!("leaf.target={target}"),
        format!("leaf.overlap={}", usize::from(*overlap) % target.div_ceil(2)),
        format!("leaf.levels=[{}, {}]", target * 8, target * 3),
        format!("leaf.unit={}", if kind & 1 == 0 { "tokens" } else { "characters" }),
        format!("leaf.keep_whole_tokens={}", if kind & 2 == 0 { 0 } else { target * 2 }),
    ];
    let config = Config::load(None, &[], &sets).expect("these settings agree with each other");
    let format = [Format::Markdown, Format::Mdx, Format::Plain][usize::from(kind >> 2) % 3];
    let limit = (*limit > 0).then(|| Words(usize::from(*limit) + 8));
    let text = String::from_utf8_lossy(text).into_owned();
    built(
        Draft::of_text(text, format),
        &config,
        limit.as_ref().map(|limit| limit as &dyn EmbedLimit),
    );
}

/// Text as it is read by default, and its language.
pub(crate) fn text(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    for format in [Format::Markdown, Format::Mdx, Format::Plain] {
        let draft = Draft::of_text(text.clone(), format);
        detect_language(&draft);
        built(draft, &Config::default(), None);
    }
}

/// A web page.
pub(crate) fn html(data: &[u8]) {
    converted(FileFormat::Html, data);
}

/// A PDF.
pub(crate) fn pdf(data: &[u8]) {
    converted(FileFormat::Pdf, data);
}

/// The other formats; the first byte chooses one. An archive may be given as its parts: a fuzzer does not keep checksums.
pub(crate) fn office(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let formats: Vec<FileFormat> = FileFormat::ALL
        .into_iter()
        .filter(|format| !matches!(format, FileFormat::Html | FileFormat::Pdf))
        .collect();
    let format = formats[usize::from(*kind) % formats.len()];
    if asks_for_too_much(data) {
        return;
    }
    let names = part_names(format);
    if names.is_empty() || data.starts_with(b"PK") {
        converted(format, data);
    } else {
        converted(format, &package(names, data));
    }
}

/// Whether an attribute asks for 100 000 columns, rows or blanks or more. The reader of DOCX and ODT makes a list of them before
/// it looks at the rest, and the process ends where memory does. The limits of the child process are what holds there.
fn asks_for_too_much(xml: &[u8]) -> bool {
    // `gridSpan`, `gridBefore` and `gridAfter`; `number-columns-spanned` and its like; `text:c`.
    let names: [&[u8]; 3] = [b"grid", b"number-", b"text:c"];
    (0..xml.len()).filter(|&at| names.iter().any(|name| xml[at..].starts_with(name))).any(|at| {
        let tag = xml[at..].split(|&byte| byte == b'>').next().unwrap_or_default();
        tag.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
            .any(|run| run.len() > 5 && run[0].is_ascii_digit())
    })
}

/// The parts of an archive that hold its content, the first one leading to the others; none for a format that is no archive.
fn part_names(format: FileFormat) -> &'static [&'static str] {
    match format {
        FileFormat::Docx => &[
            "word/document.xml",
            "word/styles.xml",
            "word/numbering.xml",
            "word/footnotes.xml",
            "word/comments.xml",
            "word/header1.xml",
            "docProps/core.xml",
        ],
        FileFormat::Pptx => &[
            "ppt/presentation.xml",
            "ppt/slides/slide1.xml",
            "ppt/slides/slide2.xml",
            "ppt/slideLayouts/slideLayout1.xml",
            "docProps/core.xml",
        ],
        FileFormat::Xlsx => &[
            "xl/workbook.xml",
            "xl/worksheets/sheet1.xml",
            "xl/worksheets/sheet2.xml",
            "xl/sharedStrings.xml",
            "xl/styles.xml",
            "docProps/core.xml",
        ],
        FileFormat::Odt | FileFormat::Odp | FileFormat::Ods => {
            &["content.xml", "styles.xml", "meta.xml"]
        }
        FileFormat::Epub => &["book.opf", "a.xhtml", "b.xhtml", "toc.ncx"],
        _ => &[],
    }
}

/// An archive of these parts, which are separated by NUL bytes, with what leads from one to the other.
fn package(names: &[&str], parts: &[u8]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let mut add = |name: &str, content: &[u8]| {
        zip.start_file(name, stored).expect("no name comes twice");
        zip.write_all(content).expect("it is written to memory");
    };
    let main = names[0];
    if let Some((folder, file)) = main.split_once('/') {
        let types = format!(
            "<Types xmlns=\"{PACKAGE}/content-types\"><Default Extension=\"xml\" ContentType=\"application/xml\"/></Types>"
        );
        add("[Content_Types].xml", types.as_bytes());
        let of_package = [main, "docProps/core.xml"].map(|name| (relation(name), name));
        add("_rels/.rels", relations(&of_package).as_bytes());
        let of_main = names.iter().skip(1).filter_map(|name| {
            Some((relation(name), name.strip_prefix(folder)?.strip_prefix('/')?))
        });
        let of_main: Vec<(&str, &str)> = of_main.collect();
        add(&format!("{folder}/_rels/{file}.rels"), relations(&of_main).as_bytes());
    } else {
        let container = format!(
            "<container><rootfiles><rootfile full-path=\"{main}\" media-type=\"application/oebps-package+xml\"/></rootfiles></container>"
        );
        add("META-INF/container.xml", container.as_bytes());
    }
    for (name, content) in names.iter().zip(parts.split(|&byte| byte == 0)) {
        add(name, content);
    }
    zip.finish().expect("it is written to memory").into_inner()
}

const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const PACKAGE: &str = "http://schemas.openxmlformats.org/package/2006";

fn relations(of: &[(&str, &str)]) -> String {
    let relation = |(n, (kind, target)): (usize, &(&str, &str))| {
        format!("<Relationship Id=\"rId{}\" Type=\"{OFFICE}/{kind}\" Target=\"{target}\"/>", n + 1)
    };
    let list: String = of.iter().enumerate().map(relation).collect();
    format!("<Relationships xmlns=\"{PACKAGE}/relationships\">{list}</Relationships>")
}

/// What a part is to the part that leads to it.
fn relation(name: &str) -> &str {
    let file = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".xml");
    match file.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "document" | "presentation" | "workbook" => "officeDocument",
        "core" => "metadata/core-properties",
        "sheet" => "worksheet",
        kind => kind,
    }
}

/// What people type: dates, rules and conditions.
pub(crate) fn words(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    let _ = parse_date(&text);
    if let Ok(rules) = Rules::parse(&text) {
        let _ = rules.stated("guide/billing.md").or(rules.default("guide/billing.md"));
    }
    if let Ok(filter) = Filter::parse(&[text]) {
        filter.clauses(&[]);
    }
}

fn converted(format: FileFormat, data: &[u8]) {
    OWN_PANIC.set(None);
    let result = convert(format, data);
    if let Some(place) = OWN_PANIC.take() {
        panic!("the converter of {format} panicked at {place}");
    }
    let Ok(Converted { text, anchors, .. }) = result else { return };
    let mut last = 0;
    for anchor in anchors {
        assert!(last <= anchor.offset && text.is_char_boundary(anchor.offset), "{anchor:?}");
        last = anchor.offset;
    }
    built(Draft::of_text(text, Format::Markdown), &Config::default(), None);
}

/// Builds a document and looks at every promise.
fn built(draft: Draft, config: &Config, limit: Option<&dyn EmbedLimit>) {
    let format = draft.format;
    let built: Document = document(draft, None, "name", config, &OpenAiTokens::o200k(), limit);
    assert!(built.tree.leaves.iter().all(|leaf| fits(&built.text, leaf.span)));
    let leaf = &config.settings().leaf;
    let whole = leaf.keep_whole_tokens > 0 && built.tree.leaves.len() == 1;
    let outline = parse(&built.text, built.body, format);
    let mut broken = check(&built, &outline, Allowed { overlap: leaf.overlap > 0, whole });
    // Headings that together take more than half of a leaf are cut like any text, and may stand alone.
    broken.retain(|found| match found {
        Violation::EmptyBody(span) => {
            let run = headings_around(&outline, *span);
            let size = match leaf.unit {
                Unit::Tokens => built.offsets.tokens.count(run),
                Unit::Characters => slice(&built.text, run).chars().count(),
            };
            limit.is_none() && leaf.target >= 64 && size <= (leaf.target - leaf.overlap) / 2
        }
        _ => true,
    });
    assert!(broken.is_empty(), "{broken:?} in {:?}", built.text);
}

/// The span with the headings that follow each other before and behind it.
fn headings_around(outline: &Outline, span: Span) -> Span {
    let is_heading = |kind: BlockKind| matches!(kind, BlockKind::Heading(_));
    let (before, behind) = outline
        .blocks
        .split_at(outline.blocks.partition_point(|block| block.span.start < span.start));
    let before = before.iter().rev().take_while(|block| is_heading(block.kind));
    let behind = behind.iter().take_while(|block| is_heading(block.kind));
    before.chain(behind).fold(span, |run, block| run.hull(block.span))
}
