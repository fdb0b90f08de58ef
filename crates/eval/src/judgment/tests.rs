//! What is read of judgments, and what cannot be placed.

use super::*;
use umbel_core::tree::Tree;

/// The error's text, or how many judgments came.
fn check_parse(text: &str, expected: &str) {
    let got = match parse(text) {
        Ok(judgments) => format!("{}", judgments.len()),
        Err(error) => {
            assert!(!error.hint().is_empty());
            error.to_string()
        }
    };
    assert_eq!(got, expected);
}

fn line(id: &str, reference: &str) -> String {
    format!(r#"{{"id":"{id}","query":"?","relevant":[{reference}]}}"#)
}

/// The faults of one reference in the document `a` with the text `aé`, four bytes with its line feed.
fn check_fault(reference: &str, expected: &[&str]) {
    let judgments = parse(&line("q", reference)).unwrap();
    let checked = check(&judgments, |doc| (doc == "a").then_some(page("aé\n")));
    let faults = checked.unjudged.iter().flat_map(|u| &u.faults).map(ToString::to_string);
    assert_eq!(faults.collect::<Vec<_>>(), expected);
}

#[test]
fn blank_lines_line_ends_and_a_byte_order_mark_do_not_matter() {
    let one = line("1", r#"{"doc":"a","start":0,"end":1,"grade":2}"#);
    let two = line("2", r#"{"doc":"a","start":0,"end":1}"#);
    check_parse(&format!("\u{feff}{one}\r\n\n  \n{two}"), "2");
    check_parse("", "no judgment in it");
    check_parse(" \n\n", "no judgment in it");
    let gains: Vec<f64> = parse(&format!("{one}\n{two}"))
        .unwrap()
        .iter()
        .flat_map(|j| &j.relevant)
        .filter_map(|claim| claim.grade)
        .collect();
    assert_eq!(gains, [2.0]);
}

#[test]
fn unknown_fields_are_ignored_and_written_judgments_read_back() {
    let text = r#"{"id":"1","query":"?","answers":["x"],"group":"g","more":1,"relevant":[{"doc":"a","start":0,"end":1}]}"#;
    let read = parse(text).unwrap();
    let written = serde_json::to_string(&read[0]).unwrap();
    assert_eq!(parse(&written).unwrap(), read);
    assert_eq!(written, text.replace(r#""more":1,"#, ""));
}

#[test]
fn an_error_names_its_line() {
    let good = line("1", r#"{"doc":"a","start":0,"end":1}"#);
    check_parse(&format!("{good}\n\n{{"), "line 3: not a judgment");
    check_parse(&format!("{good}\n{good}"), "line 2: id `1` is that of line 1 too");
    check_parse(
        &line("1", r#"{"doc":"a","start":2,"end":2}"#),
        "line 1: reference `a` `2..2` of `1` holds no byte",
    );
    check_parse(
        &line("1", r#"{"doc":"a","start":3,"end":2}"#),
        "line 1: reference `a` `3..2` of `1` holds no byte",
    );
    check_parse(&line("1", r#"{"doc":"a","start":-1,"end":2}"#), "line 1: not a judgment");
    check_parse(
        &line("1", r#"{"doc":"a","end":2}"#),
        "line 1: reference `a` of `1` needs `start` and `end`, or `node`, or none of them",
    );
    check_parse(
        &line("1", r#"{"doc":"a","start":0,"end":2,"node":1}"#),
        "line 1: reference `a` of `1` needs `start` and `end`, or `node`, or none of them",
    );
    check_parse(
        &line("1", r#"{"doc":"a","start":0,"end":2,"grade":NaN}"#),
        "line 1: not a judgment",
    );
    check_parse(
        &line("1", r#"{"doc":"a","start":0,"end":2,"grade":0}"#),
        "line 1: grade `0` of `1` is not above 0",
    );
}

#[test]
fn a_reference_must_lie_in_its_text_on_character_boundaries() {
    check_fault(r#"{"doc":"a","start":0,"end":4}"#, &[]);
    check_fault(r#"{"doc":"a","start":0,"end":5}"#, &["`0..5` leaves `a` of 4 bytes"]);
    check_fault(r#"{"doc":"a","start":0,"end":2}"#, &["`0..2` cuts a character of `a`"]);
    check_fault(r#"{"doc":"a","start":2,"end":3}"#, &["`2..3` cuts a character of `a`"]);
    check_fault(r#"{"doc":"b","start":0,"end":1}"#, &["no document `b`"]);
    check_fault("", &["names no evidence"]);
}

#[test]
fn what_cannot_be_judged_is_counted_not_scored() {
    let text = [("1", "a"), ("2", "b"), ("3", "a"), ("4", "a")]
        .map(|(id, doc)| line(id, &format!(r#"{{"doc":"{doc}","start":0,"end":1}}"#)))
        .join("\n");
    let judgments = parse(&text).unwrap();
    let checked = check(&judgments, |doc| (doc == "a").then_some(page("a")));
    let ids: Vec<&str> = checked.judged.iter().map(|j| j.id.as_str()).collect();
    assert_eq!(ids, ["1", "3", "4"]);
    assert_eq!(checked.unjudged_share().to_string(), "1 of 4 = 25.0 %");
}

#[test]
fn one_misplaced_reference_leaves_its_judgment_unjudged() {
    let both = r#"{"doc":"a","start":0,"end":1},{"doc":"b","start":0,"end":1}"#;
    let judgments = parse(&line("1", both)).unwrap();
    assert_eq!(check(&judgments, |doc| (doc == "a").then_some(page("a"))).judged.len(), 0);
}

fn page(text: &str) -> Page<'_> {
    Page { text, tree: None }
}

/// Where the one reference of a judgment comes to lie in a text, or why nowhere.
fn check_place(reference: &str, text: &str, expected: Result<(usize, usize), &str>) {
    let judgments = parse(&line("q", reference)).unwrap();
    let checked = check(&judgments, |_| Some(page(text)));
    let place = checked.judged.first().map(|j| (j.relevant[0].start, j.relevant[0].end));
    let fault = checked.unjudged.first().map(|u| u.faults[0].to_string());
    assert_eq!(place.ok_or(fault.as_deref().unwrap_or_default()), expected);
}

#[test]
fn a_document_alone_is_relevant_as_a_whole() {
    check_place(r#"{"doc":"a"}"#, "four", Ok((0, 4)));
    check_place(r#"{"doc":"a"}"#, "", Err("`a` is empty"));
}

#[test]
fn a_node_is_relevant_as_the_tree_has_it() {
    let node = |start, end| umbel_core::tree::Node {
        kind: umbel_core::tree::NodeKind::Root,
        span: Span::new(start, end),
        tokens: 1,
        parent: None,
        children: Vec::new(),
        path: Vec::new(),
    };
    let tree = Tree { nodes: vec![node(0, 9), node(2, 5)], ..Tree::default() };
    let judgments = parse(&line("q", r#"{"doc":"a","node":1}"#)).unwrap();
    let checked = check(&judgments, |_| Some(Page { text: "nine byte", tree: Some(&tree) }));
    assert_eq!(checked.judged[0].relevant[0].span(), Span::new(2, 5));
    check_place(r#"{"doc":"a","node":1}"#, "uncut", Err("no node `1` in `a`"));
}

#[test]
fn a_text_that_moved_is_found_where_it_stands_now() {
    let reference = r#"{"doc":"a","start":0,"end":3,"text":"two"}"#;
    check_place(reference, "two", Ok((0, 3)));
    check_place(reference, "one two", Ok((4, 7)));
    check_place(
        reference,
        "one",
        Err("`a` has another text at `0..3`, and the one that was judged in 0 places"),
    );
    check_place(
        reference,
        "one two two",
        Err("`a` has another text at `0..3`, and the one that was judged in 2 places"),
    );
    // Where it stands is where it was judged, however often it stands elsewhere.
    check_place(reference, "two two", Ok((0, 3)));
}

#[test]
fn excerpts_of_one_version_place_judgments_in_the_next() {
    let judgments = parse(&line("q", r#"{"doc":"a","start":4,"end":7}"#)).unwrap();
    let checked = check(&judgments, |_| Some(page("one two")));
    let written = excerpted(&checked.judged, |_| Some("one two"));
    let moved = check(&written, |_| Some(page("none, one two")));
    assert_eq!((moved.judged[0].relevant[0].span(), moved.moved), (Span::new(10, 13), 1));
}
