//! Files as people have them: each becomes a document or has a named reason, within its limits.

use super::cli::{Place, list, number, shared, text};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// Extensions that are read, of the formats that the shared test data has.
const READ: [&str; 6] = ["md", "txt", "html", "htm", "pdf", "xhtml"];

/// Indexes a folder of broken and odd files; returns how many of each extension gave a document, and the reasons of the others.
fn every_file_is_accounted_for(folder: &Path) {
    let place = Place::new();
    let source = folder.to_str().unwrap();
    let report =
        place.run(&["index", source, "--lexical", "--source", "files", "--json"]).succeeds().json();
    let read = |path: &Path| {
        let extension = path.extension().map(|e| e.to_string_lossy().to_lowercase());
        extension.filter(|extension| READ.contains(&extension.as_str()))
    };
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for extension in files(folder).iter().filter_map(|path| read(path)) {
        counts.entry(extension).or_default().0 += 1;
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for skipped in list(&report, "/skipped") {
        let (path, reason) = (text(skipped, "/path"), text(skipped, "/reason"));
        let Some(extension) = read(Path::new(path)) else { continue };
        for bad in
            ["panicked", "crashes", "took longer", "too much memory", "more than", "no process"]
        {
            assert!(!reason.contains(bad), "{path}: {reason}");
        }
        eprintln!("{path}: {reason}");
        *reasons.entry(reason.split(':').next().unwrap_or_default()).or_default() += 1;
        counts.entry(extension).or_default().1 += 1;
    }
    for (extension, (all, skipped)) in &counts {
        eprintln!("{extension}: {} documents, {skipped} with a reason", all - skipped);
    }
    eprintln!("{reasons:?}");
    let (all, skipped) = counts.values().fold((0, 0), |sum, n| (sum.0 + n.0, sum.1 + n.1));
    assert_eq!(number(&report, "/documents"), (all - skipped) as u64);
    place.run(&["check"]).succeeds();
}

#[test]
fn every_broken_or_odd_file_gives_a_document_or_a_reason() {
    let Some(folder) = shared("data/robustness") else { return };
    every_file_is_accounted_for(&folder);
}

#[test]
fn every_quarterly_report_gives_a_document_and_a_citation_names_its_page() {
    let Some(folder) = shared("data/kg-rag-sec10q/pdfs") else { return };
    every_file_is_accounted_for(&folder);
    let place = Place::new();
    let report =
        files(&folder).into_iter().find(|path| path.ends_with("2023 Q1 AAPL.pdf")).unwrap();
    place.run(&["index", report.to_str().unwrap(), "--lexical", "--source", "reports"]).succeeds();
    let found = place.run(&["search", "total net sales of iPhone", "--json"]).succeeds().json();
    let page = number(&found, "/context/passages/0/page");
    assert!((1..60).contains(&page), "{page}");
    let printed = place.run(&["search", "total net sales of iPhone"]).succeeds().stdout();
    assert!(printed.contains(&format!("page {page}")), "{printed}");
}

#[test]
fn a_citation_of_a_web_page_names_its_element() {
    let place = Place::new();
    place.write(
        "docs/page.html",
        "<html lang=\"en\"><head><title>Guide</title></head><body><nav>Home</nav><main><h1>Guide</h1>\
         <p>A short introduction to what follows here.</p><h2 id=\"refunds\">Refunds</h2>\
         <p>Refunds are paid within fourteen days of the request.</p></main></body></html>",
    );
    place.run(&["index", "docs", "--lexical"]).succeeds();
    let found = place.run(&["search", "when are refunds paid", "--json"]).succeeds().json();
    let passage = list(&found, "/context/passages")
        .iter()
        .find(|passage| text(passage, "/text").contains("fourteen days"))
        .unwrap();
    assert_eq!((text(passage, "/anchor"), text(passage, "/language")), ("refunds", "en"));
    let passages = text(passage, "/text");
    assert!(!passages.contains("Home"), "{passages}");
}

#[test]
fn a_damaged_file_is_named_and_costs_nothing_else() {
    let place = Place::new();
    place.write("docs/a.md", "# A\n\ntext of a\n");
    place.write("docs/b.pdf", "%PDF-1.7\nnothing that follows is a PDF");
    place.write("docs/c.docx", "PK\u{3}\u{4} nor is this an archive");
    let ran = place.run(&["index", "docs", "--lexical"]).succeeds();
    let ran = ran.warns("skipped `b.pdf`: is damaged");
    ran.warns("skipped `c.docx`: is damaged");
    place.run(&["search", "text"]).succeeds();
}

#[test]
fn a_file_that_is_not_read_says_what_to_do_where_something_can_be_done() {
    let place = Place::new();
    place.write("docs/latin.md", b"# Men\xfc\n");
    place.write("docs/binary.md", b"# \0\n");
    place.write("docs/empty.html", "<html></html>");
    place
        .run(&["index", "docs", "--lexical"])
        .succeeds()
        .warns("skipped `latin.md`: is not UTF-8 (byte 5); save it as UTF-8");
    let report = place.run(&["index", "docs", "--lexical", "--json"]).succeeds().json();
    let hint = |path: &str| {
        let skipped = list(&report, "/skipped").iter().find(|row| text(row, "/path") == path);
        skipped.unwrap_or_else(|| panic!("{path} was read")).pointer("/hint").cloned()
    };
    assert_eq!(hint("latin.md"), Some("save it as UTF-8".into()));
    assert_eq!(hint("empty.html"), Some("if its pages are scans, run OCR over it first".into()));
    assert_eq!(hint("binary.md"), None);
}

#[test]
fn a_file_that_was_read_and_is_broken_now_is_kept_as_it_was() {
    let place = Place::new();
    place.write(
        "docs/page.html",
        "<main><h1>Page</h1><p>The pelican sleeps in the afternoon.</p></main>",
    );
    place.run(&["index", "docs", "--lexical"]).succeeds();
    place.write("docs/page.html", "<html></html>");
    place.run(&["index", "docs", "--lexical"]).succeeds().warns("skipped `page.html`");
    place.run(&["search", "pelican"]).succeeds();
}
