//! Real documents: every file in, every promise kept.

use super::cli::{Place, list, number, shared, text};
use std::path::Path;

#[test]
fn all_1759_files_of_three_corpora_keep_every_promise() {
    let corpora = ["rust-book", "tight-redis-doc", "sprawling-sourcegraph-handbook"];
    let mut folders = Vec::new();
    for corpus in corpora {
        let Some(folder) = shared(&format!("data/{corpus}/corpus")) else { return };
        folders.push(folder.to_str().unwrap().to_owned());
    }
    let place = Place::new();
    let mut args: Vec<&str> = vec!["index", "--lexical", "--json"];
    args.extend(folders.iter().map(String::as_str));
    let report = place.run(&args).succeeds().json();
    assert_eq!(number(&report, "/documents"), 1759);
    let again = place.run(&args).succeeds().json();
    assert_eq!((number(&again, "/unchanged"), number(&again, "/embedded")), (1759, 0));
    place.run(&["check"]).succeeds();
    let stats = place.run(&["stats", "--json"]).succeeds().json();
    assert_eq!((number(&stats, "/empty_bodies"), number(&stats, "/across_top_level")), (0, 0));
    assert!(number(&stats, "/leaf_tokens/max") <= 200);
    assert!(number(&stats, "/before_merge/chunks") > 0);

    let found = place
        .run(&["search", "how do I limit the memory that keys use", "--json"])
        .succeeds()
        .json();
    let sources = list(&stats, "/sources");
    for passage in list(&found, "/context/passages") {
        let doc = text(passage, "/doc");
        let file = sources.iter().map(|source| {
            let (name, root) = (text(source, "/name"), Path::new(text(source, "/root")));
            root.join(doc.strip_prefix(&format!("{name}/")).unwrap_or(doc))
        });
        let bytes = file.into_iter().find_map(|file| fs_err::read(file).ok()).unwrap();
        let span = number(passage, "/span/start") as usize..number(passage, "/span/end") as usize;
        assert_eq!(text(passage, "/text").as_bytes(), &bytes[span], "{doc}");
    }
}

#[test]
fn the_samples_are_judged_by_spans_that_hold_their_answers() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let questions = fs_err::read_to_string(samples.join("questions.jsonl")).unwrap();
    let (mut count, mut siblings) = (0, 0);
    for line in questions.lines() {
        let question: serde_json::Value = serde_json::from_str(line).unwrap();
        let mut evidence = String::new();
        for span in list(&question, "/relevant") {
            let page = fs_err::read_to_string(samples.join(text(span, "/doc"))).unwrap();
            let range = number(span, "/start") as usize..number(span, "/end") as usize;
            let piece = page
                .get(range)
                .unwrap_or_else(|| panic!("{} cuts a character", text(&question, "/id")));
            assert_eq!(piece.trim(), piece);
            evidence.push_str(piece);
        }
        for answer in list(&question, "/answers") {
            assert!(
                evidence.contains(answer.as_str().unwrap()),
                "{}: {answer}",
                text(&question, "/id")
            );
        }
        count += 1;
        siblings += usize::from(text(&question, "/kind") == "siblings");
    }
    assert!(count >= 60 && siblings * 3 >= count, "{siblings} of {count}");
}
