//! Runs that are read back, go on, and are refused.

use super::testing::{candidate, entry, run};
use super::*;
use proptest::prelude::*;
use umbel_core::id::ClusterId;

/// The lines of a run.
fn written(run: &Run) -> String {
    let mut lines = vec![serde_json::to_string(&run.identity).unwrap()];
    lines.extend(run.entries.iter().map(|entry| serde_json::to_string(entry).unwrap()));
    lines.join("\n") + "\n"
}

fn two() -> Run {
    run(vec![entry("1", (0, 9), &[(0, 9)], false), entry("2", (10, 19), &[(0, 39)], true)])
}

/// The error's text.
fn check(text: &str, expected: &str) {
    let error = parse(text).unwrap_err();
    assert!(!error.hint().is_empty());
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_run_reads_back_as_the_same_bytes() {
    let text = written(&two());
    let read = parse(&text).unwrap();
    assert_eq!(read, two());
    assert_eq!(written(&read), text);
}

#[test]
fn an_error_names_its_line() {
    let text = written(&two());
    let lines: Vec<&str> = text.lines().collect();
    check("", "the run is empty");
    check("{}\n", "line 1: not the head of a run");
    check(&text.replace(r#""run":1"#, r#""run":9"#), "the run is of version `9`, read is `1`");
    check(&format!("{}\n{{\n", lines[0]), "line 2: not a query of a run");
    check(&format!("{}\n{}\n", lines[0], lines[1]), "the run holds 1 of 2 queries");
    check(
        &format!("{}\n{}\n{}\n", lines[0], lines[1], lines[1]),
        "line 3: query `1` is that of line 2 too",
    );
    check(
        &text.replace(r#""docs":["a"]"#, r#""docs":[]"#),
        "line 2: query `1` points at a document or candidate that it does not name",
    );
    check(
        &text.replace(r#""ranked":[0"#, r#""ranked":[7"#),
        "line 2: query `1` points at a document or candidate that it does not name",
    );
}

#[test]
fn a_score_that_is_no_number_is_refused() {
    let text = written(&two()).replacen("0.9,null]", "NaN,null]", 1);
    check(&text, "line 2: not a query of a run");
}

#[test]
fn a_run_goes_on_behind_its_last_whole_line() {
    let run = two();
    let text = written(&run);
    let bytes = |lines: usize| text.split_inclusive('\n').take(lines).map(str::len).sum::<usize>();
    let check = |text: &str, bytes: usize, entries: usize| {
        assert_eq!(begun(text, &run.identity), Ok(Begun { bytes, entries }));
    };
    check("", 0, 0);
    check(&text, text.len(), 2);
    check(text.get(..bytes(1)).unwrap(), bytes(1), 0);
    check(text.get(..bytes(2) + 5).unwrap(), bytes(2), 1);
    check(text.get(..20).unwrap(), 0, 0);
}

#[test]
fn what_is_no_beginning_of_this_run_is_left_alone() {
    let run = two();
    assert_eq!(begun("a letter", &run.identity), Err(ResumeError::NoRun));
    assert_eq!(begun("a letter\n", &run.identity), Err(ResumeError::NoRun));
    let other = Identity { config: "ff".to_owned(), ..run.identity.clone() };
    assert_eq!(
        begun(&written(&run), &other).unwrap_err().to_string(),
        "it is a run of another configuration: `0000000000000004`, now `ff`"
    );
}

#[test]
fn outcomes_from_elsewhere_replace_those_of_the_run() {
    let mut run = two();
    let given =
        run.give_outcomes("{\"id\":\"2\",\"correct\":true}\n\n{\"id\":\"9\",\"correct\":true}");
    let given = given.unwrap();
    assert_eq!(
        (given.right.to_string().as_str(), given.without, given.unknown),
        ("1 of 1 = 100.0 %", 1, 1)
    );
    assert_eq!(run.entries.iter().map(|e| e.outcome).collect::<Vec<_>>(), [None, Some(true)]);
    for (text, expected) in [
        ("\n", "no outcome in it"),
        ("{\"id\":\"1\"}", "line 1: not an outcome"),
        (
            "{\"id\":\"1\",\"correct\":true}\n{\"id\":\"1\",\"correct\":false}",
            "line 2: query `1` has an outcome already",
        ),
        ("{\"id\":\"9\",\"correct\":true}", "the run holds none of these queries"),
    ] {
        let error = run.give_outcomes(text).unwrap_err();
        assert!(!error.hint().is_empty());
        assert_eq!(error.to_string(), expected);
    }
}

proptest! {
    #[test]
    fn a_candidate_keeps_its_scores_to_the_bit(
        dense in prop::option::of(-1.0f32..1.0), lexical in prop::option::of(0.0f32..40.0), own in any::<bool>(),
    ) {
        let mut candidate = candidate(3, dense, lexical);
        if !own {
            candidate.record.cluster = ClusterId([9; 16]);
        }
        let text = serde_json::to_string(&candidate).unwrap();
        prop_assert_eq!(serde_json::from_str::<Candidate>(&text).unwrap(), candidate);
    }
}
