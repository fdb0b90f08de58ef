//! Pages and PDFs with known content, and inputs that parsers are tested with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use umbel::core::document::Place;
use umbel::formats::html::{convert, encoding_name};
use umbel::formats::{ConvertError, Converted, pdf};

/// A folder of the robustness data beside the repository; says so where it is absent.
fn shared(folder: &str) -> Option<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let found = shared.join("data/robustness").join(folder);
    if found.exists() {
        return Some(found);
    }
    eprintln!("skipped: ../shared is absent");
    None
}

/// The entries of a folder in order of their names.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> =
        fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

/// How often each word of letters and digits occurs, in lower case.
fn words(text: &str) -> BTreeMap<String, usize> {
    let mut words = BTreeMap::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        *words.entry(word.to_lowercase()).or_default() += 1;
    }
    words
}

/// The share of the expected words that were found, and of the found ones that were expected.
fn recall_and_precision(found: &str, expected: &str) -> (f64, f64) {
    let (found, expected) = (words(found), words(expected));
    let both: usize =
        expected.iter().map(|(word, n)| (*n).min(found.get(word).copied().unwrap_or(0))).sum();
    let share = |of: &BTreeMap<String, usize>| match of.values().sum::<usize>() {
        0 => 1.0,
        all => both as f64 / all as f64,
    };
    (share(&expected), share(&found))
}

/// Markdown without what is no text of it: link destinations, comments, escapes.
fn words_of_markdown(markdown: &str) -> String {
    let mut text = String::new();
    let mut pieces = markdown.split("](");
    text.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        text.push(' ');
        text.push_str(piece.split_once(')').map_or("", |(_, rest)| rest));
    }
    text.replace("<!-- image -->", "").replace("<!-- missing-text -->", "").replace('\\', "")
}

/// The text of an HTML page of nothing but content.
fn words_of_page(html: &str) -> String {
    let page = format!("<!DOCTYPE html><main>{html}</main>");
    convert(page.as_bytes()).map(|page| words_of_markdown(&page.text)).unwrap_or_default()
}

/// Checks the medians, and that the pages with a recall below 0.9 are the ones that are known.
fn check(scores: &[(String, f64, f64)], median_recall: f64, median_precision: f64, known: &[&str]) {
    let median = |score: fn(&(String, f64, f64)) -> f64| {
        let mut all: Vec<_> = scores.iter().map(score).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let (recall, precision) = (median(|s| s.1), median(|s| s.2));
    eprintln!("{} pages: median recall {recall:.3}, precision {precision:.3}", scores.len());
    assert!(recall >= median_recall, "recall {recall}");
    assert!(precision >= median_precision, "precision {precision}");
    let low: Vec<_> = scores.iter().filter(|s| s.1 < 0.9).map(|s| s.0.as_str()).collect();
    assert!(low.iter().all(|name| known.contains(name)), "{low:?}");
}

#[test]
fn the_main_content_of_articles_is_found() {
    let Some(folder) = shared("readability") else { return };
    let mut scores = Vec::new();
    for page in entries(&folder).into_iter().filter(|path| path.is_dir()) {
        let found = convert(&fs_err::read(page.join("source.html")).unwrap());
        let found = found.map(|page| words_of_markdown(&page.text)).unwrap_or_default();
        let expected = words_of_page(&fs_err::read_to_string(page.join("expected.html")).unwrap());
        let (recall, precision) = recall_and_precision(&found, &expected);
        scores.push((page.file_name().unwrap().display().to_string(), recall, precision));
    }
    // Japanese without blanks: one missing line break makes two long words into another one.
    check(&scores, 0.99, 0.99, &["hukumusume"]);
}

#[test]
fn documents_of_all_elements_keep_their_text() {
    let Some(folder) = shared("docling/html") else { return };
    let mut scores = Vec::new();
    for page in entries(&folder.join("sources")) {
        let name = page.file_name().unwrap().display().to_string();
        let expected = folder.join("groundtruth").join(format!("{name}.md"));
        if page.extension().is_none_or(|end| end != "html") || !expected.exists() {
            continue;
        }
        let found = convert(&fs_err::read(&page).unwrap());
        let found = found.map(|page| words_of_markdown(&page.text)).unwrap_or_default();
        let expected = words_of_markdown(&fs_err::read_to_string(expected).unwrap());
        let (recall, precision) = recall_and_precision(&found, &expected);
        scores.push((name, recall, precision));
    }
    // A page that is one navigation menu.
    check(&scores, 0.99, 0.99, &["hyperlink_03.html"]);
}

#[test]
fn the_text_of_pdfs_is_found() {
    let Some(folder) = shared("docling/pdf") else { return };
    let mut recalls = Vec::new();
    for file in entries(&folder.join("sources")) {
        let expected =
            folder.join("groundtruth").join(file.file_name().unwrap()).with_extension("md");
        let Ok(expected) = fs_err::read_to_string(expected) else { continue };
        let found = pdf::convert(&fs_err::read(&file).unwrap()).unwrap();
        assert!(found.anchors.iter().any(|anchor| anchor.place == Place::Page(1)), "{file:?}");
        let text = words_of_markdown(&found.text);
        let (recall, _) = recall_and_precision(&text, &words_of_markdown(&expected));
        eprintln!("{recall:.3} {}", file.display());
        recalls.push(recall);
    }
    recalls.sort_by(f64::total_cmp);
    let median = recalls[recalls.len() / 2];
    eprintln!("{} files: median recall {median:.3}", recalls.len());
    assert!(recalls.len() >= 10 && median >= 0.95, "{recalls:?}");
}

/// Converts, and checks what must hold for any input.
fn keeps_its_promises(bytes: &[u8]) {
    match convert(bytes) {
        Ok(Converted { text, anchors, .. }) => {
            assert!(!text.trim().is_empty());
            assert!(!text.contains(['\r', '\0']));
            assert!(anchors.windows(2).all(|pair| pair[0].offset <= pair[1].offset));
            for anchor in anchors {
                assert!(text.is_char_boundary(anchor.offset));
                assert!(matches!(anchor.place, Place::Element(id) if !id.is_empty()));
            }
        }
        Err(error) => assert_eq!(error, ConvertError::NoText { pages: 1 }),
    }
}

/// The strings in a JSON value.
fn strings(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => found.push(text.clone()),
        serde_json::Value::Array(values) => values.iter().for_each(|value| strings(value, found)),
        serde_json::Value::Object(object) => {
            object.values().for_each(|value| strings(value, found));
        }
        _ => {}
    }
}

#[test]
fn every_tokenizer_and_serializer_test_converts() {
    let Some(folder) = shared("html5lib-tests") else { return };
    let mut count = 0;
    for file in [entries(&folder.join("tokenizer")), entries(&folder.join("serializer"))].concat() {
        let tests: serde_json::Value =
            serde_json::from_str(&fs_err::read_to_string(file).unwrap()).unwrap();
        let mut inputs = Vec::new();
        strings(&tests, &mut inputs);
        for input in inputs {
            keeps_its_promises(input.as_bytes());
            keeps_its_promises(format!("<p>a</p>{input}<p>b").as_bytes());
            // The tests write lone surrogates and other escapes twice.
            if let Ok(text) = serde_json::from_str::<String>(&format!("\"{input}\"")) {
                keeps_its_promises(text.as_bytes());
            }
            count += 1;
        }
    }
    eprintln!("{count} inputs");
    assert!(count > 10_000, "{count}");
}

#[test]
fn the_declared_encoding_is_used() {
    let Some(folder) = shared("html5lib-tests/encoding") else { return };
    let (mut count, mut declared) = (0, 0);
    for file in entries(&folder).into_iter().filter(|path| path.is_file()) {
        let bytes = fs_err::read(&file).unwrap();
        for test in split(&bytes, b"#data\n") {
            let mut halves = split(test, b"\n#encoding\n").into_iter();
            let (Some(data), Some(expected)) = (halves.next(), halves.next()) else { continue };
            keeps_its_promises(data);
            count += 1;
            let expected = String::from_utf8_lossy(expected).trim().to_lowercase();
            // Without a declaration the tests expect the default of a Western locale; here valid UTF-8 is UTF-8.
            if expected == "windows-1252" && std::str::from_utf8(data).is_ok() {
                let found = encoding_name(data).to_lowercase();
                assert!(found == "windows-1252" || found == "utf-8", "{found}");
                continue;
            }
            declared += 1;
            let found = encoding_name(data).to_lowercase();
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(data));
        }
    }
    eprintln!("{count} encoding tests, {declared} of them with a declaration");
    assert!(declared > 30, "{declared}");
}

/// The stretches between separators, the empty one at the start aside.
fn split<'a>(bytes: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(separator.len()).position(|window| window == separator) {
        pieces.push(&rest[..at]);
        rest = &rest[at + separator.len()..];
    }
    pieces.push(rest);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

#[test]
fn hostile_pages_take_linear_time() {
    let repeated = |piece: &str, n: usize| piece.repeat(n);
    for page in [
        repeated("<div>", 100_000),
        repeated("<span>a ", 100_000),
        repeated("<b>a <p>", 100_000),
        repeated("<ul><li>a ", 100_000),
        repeated("<table><tr><td>a ", 50_000),
        repeated("<p>a ", 200_000),
        repeated("<td colspan=1000 rowspan=1000>x", 10_000),
        format!("<table><tr>{}", repeated("<td colspan=1000 rowspan=1000>x", 10_000)),
        (0..50_000).map(|n| format!("<b class={n}>a <p>b ")).collect(),
        (0..50_000).map(|n| format!("<a name=n{n}>a <p>b ")).collect(),
        repeated("<", 1_000_000),
        repeated("&", 500_000),
        repeated("&amp;a", 200_000),
        repeated("\0<p>\0a\0", 100_000),
        format!("<pre>{}</pre>", repeated("`\n", 500_000)),
    ] {
        let start = std::time::Instant::now();
        keeps_its_promises(page.as_bytes());
        let took = start.elapsed();
        let name: String = page.chars().take(40).collect();
        assert!(took.as_secs() < 60, "{name}: {took:?}");
    }
}
