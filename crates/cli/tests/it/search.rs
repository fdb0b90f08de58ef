//! Questions and what comes back.

use super::cli::{Place, list, number, text};
use std::path::Path;

const BILLING: &str = "# Billing\n\n## Invoices\n\nInvoices are sent on the first of a month.\n\n## Licence\n\nUse it freely.\n";
const GUIDE: &str =
    "# Guide\n\n## Start\n\nPress the green button to start.\n\n## Licence\n\nUse it freely.\n";

/// One of each kind.
const EXPANSIONS: [&str; 6] = ["none", "parent", "siblings:1", "sentences:1", "tokens:20", "auto"];

#[test]
fn a_passage_is_the_bytes_of_its_file() {
    let place = Place::indexed(&[("billing.md", BILLING), ("guide.md", GUIDE)]);
    let found = place.run(&["search", "when are invoices sent", "--json"]).succeeds().json();
    let passage = &list(&found, "/context/passages")[0];
    let bytes = fs_err::read(place.path().join("docs").join(text(passage, "/doc"))).unwrap();
    let span = number(passage, "/span/start") as usize..number(passage, "/span/end") as usize;
    assert_eq!(text(passage, "/text").as_bytes(), &bytes[span]);
    assert_eq!(
        text(passage, "/text"),
        "# Billing\n\n## Invoices\n\nInvoices are sent on the first of a month."
    );
    assert_eq!(list(passage, "/heading_path"), ["Billing", "Invoices"]);
    assert!(number(&found, "/context/tokens") <= number(&found, "/context/budget"));
}

#[test]
fn l9_a_document_of_one_line_comes_back_unchanged() {
    let place = Place::indexed(&[
        ("billing.md", BILLING),
        ("note.md", "The spare key hangs behind the fuse box.\n"),
    ]);
    for expand in EXPANSIONS {
        let found = place
            .run(&["search", "spare key fuse box", "--expand", expand, "--json"])
            .succeeds()
            .json();
        let passage = &list(&found, "/context/passages")[0];
        assert_eq!(text(passage, "/text"), "The spare key hangs behind the fuse box.");
        assert_eq!(text(passage, "/kind"), "leaf");
    }
}

#[test]
fn l10_the_same_section_in_two_files_is_cited_from_each() {
    let place = Place::indexed(&[("billing.md", BILLING), ("guide.md", GUIDE)]);
    let found = place.run(&["search", "licence use freely", "--json"]).succeeds().json();
    for (doc, page) in [("billing.md", BILLING), ("guide.md", GUIDE)] {
        let passages = list(&found, "/context/passages");
        let passage = passages.iter().find(|passage| text(passage, "/doc") == doc).unwrap();
        let licence = page.find("## Licence").unwrap() as u64;
        let evidence = list(passage, "/evidence").iter();
        assert!(
            evidence.map(|e| number(e, "/span/start")).any(|start| start == licence),
            "{passage}"
        );
        let citation = format!("{doc}:{licence}..{}", page.trim_end().len());
        let shown = place.run(&["show", &citation]).succeeds().stdout();
        assert_eq!(shown.trim_end(), "## Licence\n\nUse it freely.");
    }
}

#[test]
fn d10_the_same_hit_of_two_questions_is_delivered_once() {
    let sentences: String = (0..60).map(|n| format!("Sentence {n} of the heron. ")).collect();
    let place = Place::indexed(&[("a.md", &format!("# A\n\n{sentences}\n")), ("guide.md", GUIDE)]);
    for expand in EXPANSIONS {
        let args =
            ["search", "heron", "--also", "sentence of the heron", "--expand", expand, "--json"];
        let found = place.run(&args).succeeds().json();
        assert_eq!(list(&found, "/also"), ["sentence of the heron"]);
        let span = |passage| (number(passage, "/span/start"), number(passage, "/span/end"));
        let passages = list(&found, "/context/passages").iter();
        let mut spans: Vec<(u64, u64)> =
            passages.filter(|p| text(p, "/doc") == "a.md").map(span).collect();
        spans.sort_unstable();
        assert!(
            !spans.is_empty() && spans.windows(2).all(|pair| pair[0].1 <= pair[1].0),
            "{spans:?}"
        );
    }
}

#[test]
fn l11_nothing_found_is_exit_code_1_and_no_error() {
    let place = Place::indexed(&[("billing.md", BILLING)]);
    let ran = place.run(&["search", "xylophone", "--json"]).code(1);
    let found = ran.json();
    assert!(list(&found, "/context/passages").is_empty());
    assert_eq!(found.pointer("/trace/fired").and_then(serde_json::Value::as_bool), Some(false));
    assert!(!ran.stderr().contains("error"));
    assert!(place.run(&["search", "xylophone"]).code(1).stdout().contains("nothing found"));
}

#[test]
fn p12_an_exact_identifier_is_found_with_any_expansion() {
    let place = Place::indexed(&[
        ("billing.md", BILLING),
        (
            "errors.md",
            "# Errors\n\n## Doors\n\nLCK-4093 means that the door is open.\n\n## Cards\n\nLCK-5001 means no card.\n",
        ),
    ]);
    for expand in EXPANSIONS {
        let found =
            place.run(&["search", "LCK-4093", "--expand", expand, "--json"]).succeeds().json();
        assert!(text(&list(&found, "/context/passages")[0], "/text").contains("LCK-4093"));
    }
}

#[test]
fn explain_shows_path_evidence_scores_and_what_fired() {
    let sections: String = (0..4)
        .map(|n| format!("### Step {n}\n\n{}\n\n", "Turn the brass valve slowly. ".repeat(18)))
        .collect();
    let page = format!("# Boiler\n\n## Valves\n\n{sections}## Pumps\n\nNothing to see.\n");
    let place = Place::indexed(&[("boiler.md", &page), ("billing.md", BILLING)]);
    let by_share = ["--set", "merge.rule=ratio"];
    let explained = [&["search", "brass valve", "--explain"], &by_share[..]].concat();
    let out = place.run(&explained).succeeds().stdout();
    for words in [
        "boiler.md:",
        "merged",
        "Boiler > Valves",
        "evidence: boiler.md > Boiler > Valves > Step",
        "leaf ",
        "lexical ",
        "fired: boiler.md:",
        "4 of 4 children (1.00, wanted 0.50)",
    ] {
        assert!(out.contains(words), "no `{words}` in\n{out}");
    }
    let found = [&["search", "brass valve", "--json"], &by_share[..]].concat();
    let found = place.run(&found).succeeds().json();
    let fire = &list(&found, "/trace/fires")[0];
    assert_eq!(
        (number(fire, "/matched"), number(fire, "/of"), text(fire, "/level")),
        (4, 4, "section")
    );
    assert_eq!(text(&list(&found, "/context/passages")[0], "/score_from"), "max of evidence");
    assert_eq!(number(&found, "/trace/counts/parents_substituted"), 1);
    let plain = place
        .run(&["search", "brass valve", "--json", "--set", "merge.enabled=false"])
        .succeeds()
        .json();
    assert!(list(&plain, "/trace/fires").is_empty());
}

#[test]
fn budget_and_limit_bound_what_is_delivered() {
    let pages: Vec<(String, String)> = (0..12)
        .map(|n| {
            (
                format!("{n}.md"),
                format!("# Page {n}\n\n{}\n", "The heron stands in the reeds. ".repeat(20)),
            )
        })
        .collect();
    let pages: Vec<(&str, &str)> =
        pages.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let place = Place::indexed(&pages);
    let found = place.run(&["search", "heron", "--json", "--budget", "500"]).succeeds().json();
    assert!(number(&found, "/context/tokens") <= 500);
    assert!(!list(&found, "/context/dropped").is_empty());
    let found = place.run(&["search", "heron", "--json", "--limit", "2"]).succeeds().json();
    assert_eq!(list(&found, "/context/passages").len(), 2);
}

#[test]
fn compression_says_what_share_it_removed() {
    let sentences: String =
        (0..40).map(|n| format!("Sentence {n} is about herons and reeds. ")).collect();
    let place = Place::indexed(&[("a.md", &format!("# A\n\n{sentences}The otter swims.\n"))]);
    let args = ["search", "otter swims", "--set", "search.keep=0.3"];
    let out = place.run(&args).succeeds().stdout();
    assert!(
        out.contains(" tokens; compression removed ") && out.contains("The otter swims."),
        "{out}"
    );
    let plain = place.run(&args[..2]).succeeds().stdout();
    assert!(!plain.contains("compression"), "{plain}");
}

#[test]
fn the_model_finds_what_words_do_not_and_a_second_index_embeds_nothing() {
    let place = Place::new();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/docs/tickets");
    let samples = samples.to_str().unwrap();
    let first = place.run(&["index", samples, "--source", "tickets", "--json"]).succeeds().json();
    assert!(number(&first, "/embedded") > 0);
    let second = place.run(&["index", samples, "--source", "tickets", "--json"]).succeeds().json();
    assert_eq!(
        (number(&second, "/embedded"), number(&second, "/unchanged")),
        (0, number(&first, "/documents"))
    );
    let found =
        place.run(&["search", "the fridge compartment is frozen over", "--json"]).succeeds().json();
    let best = &list(&found, "/context/passages")[0];
    assert!(best.pointer("/scores/dense").is_some_and(serde_json::Value::is_number), "{best}");
    place.run(&["check"]).succeeds();
}
