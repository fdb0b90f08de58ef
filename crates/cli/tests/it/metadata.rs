//! Dates, labels, connectors, languages and addresses: where they come from, and searches that ask for them.

use super::cli::{Place, list, text};
use serde_json::Value;

fn documents(found: &Value) -> Vec<&str> {
    let mut names: Vec<_> =
        list(found, "/context/passages").iter().map(|passage| text(passage, "/doc")).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Three documents about refunds, told apart by what is known of them.
fn place() -> Place {
    let place = Place::new();
    place.write(
        "docs/policy/refunds.md",
        "---\ntitle: Refunds\ndate: 2020-03-01\nlabels: [staff, finance]\n---\nRefunds are paid within fourteen days of the request, always in the currency of the invoice.\n",
    );
    place.write(
        "docs/wiki/refunds.md",
        "---\nupdated: 2024-06-01T12:00:00+02:00\nconnector: wiki\n---\nRefunds of old orders need the approval of the head of finance before they are paid out.\n",
    );
    place.write("docs/erstattung.txt", "Erstattungen, auf Englisch refunds, werden innerhalb von vierzehn Tagen nach der Anfrage auf das Konto gezahlt.\n");
    place.write(
        "rules.toml",
        "url = \"https://example.com/{stem}\"\n[[match]]\nglob = \"policy/**\"\nconnector = \"policy\"\n",
    );
    place.run(&["index", "docs", "--lexical", "--meta", "rules.toml"]).succeeds();
    place
}

#[test]
fn d11_the_answer_says_which_of_several_dates_was_used() {
    let place = place();
    let found = place.run(&["search", "refunds", "--json"]).succeeds().json();
    let date = |name: &str| {
        let passages = list(&found, "/context/passages");
        let passage = passages.iter().find(|p| text(p, "/doc") == name).unwrap();
        (text(passage, "/updated_at").to_owned(), text(passage, "/updated_from").to_owned())
    };
    // The files were all written now.
    assert_eq!(
        date("policy/refunds.md"),
        ("2020-03-01T00:00:00Z".to_owned(), "front matter".to_owned())
    );
    assert_eq!(
        date("wiki/refunds.md"),
        ("2024-06-01T10:00:00Z".to_owned(), "front matter".to_owned())
    );
    assert_eq!(date("erstattung.txt").1, "file");
    let explained = place.run(&["search", "approval", "--explain"]).succeeds().stdout();
    assert!(explained.contains("updated 2024-06-01T10:00:00Z (by front matter)"), "{explained}");
}

#[test]
fn every_field_can_be_asked_for() {
    let place = place();
    let check = |filters: &[&str], expected: &[&str]| {
        let mut args = vec!["search", "refunds", "--json"];
        args.extend(filters.iter().flat_map(|filter| ["--filter", filter]));
        let ran = place.run(&args).code(i32::from(expected.is_empty()));
        assert_eq!(documents(&ran.json()), expected, "{filters:?}");
    };
    let (policy, wiki, german) = ("policy/refunds.md", "wiki/refunds.md", "erstattung.txt");
    check(&[], &[german, policy, wiki]);
    check(&["connector=wiki"], &[wiki]);
    check(&["connector=wiki|policy"], &[policy, wiki]);
    check(&["connector="], &[german]);
    check(&["connector!=wiki"], &[german, policy]);
    check(&["label=finance"], &[policy]);
    check(&["label="], &[german, wiki]);
    check(&["language=de"], &[german]);
    check(&["language=en"], &[policy, wiki]);
    check(&["source=docs"], &[german, policy, wiki]);
    check(&["path=policy/**"], &[policy]);
    check(&["title=Refunds"], &[policy]);
    check(&["url=https://example.com/wiki/*"], &[wiki]);
    check(&["updated_at<2021-01-01"], &[policy]);
    check(&["updated_at>=2021-01-01", "connector=wiki"], &[wiki]);
    check(&["updated_at<2021-01-01", "connector=wiki"], &[]);
}

#[test]
fn a_condition_that_cannot_be_used_is_named() {
    let place = place();
    place.run(&["search", "x", "--filter", "colour=red"]).fails(2, "`colour` is not a field");
    place.run(&["search", "x", "--filter", "wiki"]).fails(2, "`wiki` is not a condition");
    place.run(&["search", "x", "--filter", "updated_at<soon"]).fails(2, "`soon` is not a date");
    place
        .run(&["search", "refunds", "--filter", "connector=mail"])
        .code(1)
        .warns("no document passes the filter");
}

#[test]
fn rules_are_remembered_until_others_are_given() {
    let place = place();
    let connectors = || {
        let rows = place.run(&["tree", "--json"]).succeeds().json();
        let connector = |row: &Value| row["metadata"]["connector"].as_str().map(str::to_owned);
        rows.as_array().unwrap().iter().map(connector).collect::<Vec<_>>()
    };
    let some = |name: &str| Some(name.to_owned());
    assert_eq!(connectors(), [None, some("policy"), some("wiki")]);
    let again = place.run(&["index", "docs", "--lexical", "--json"]).succeeds().json();
    assert_eq!(again["unchanged"], 3);
    assert_eq!(connectors(), [None, some("policy"), some("wiki")]);
    place.write("other.toml", "connector = \"files\"\n");
    let other = ["index", "docs", "--lexical", "--json", "--meta", "other.toml"];
    assert_eq!(place.run(&other).succeeds().json()["updated"], 3);
    assert_eq!(connectors(), [some("files"), some("files"), some("wiki")]);
}

#[test]
fn rules_that_do_not_hold_are_named() {
    let place = place();
    let check = |rules: &str, words: &str| {
        place.write("bad.toml", rules);
        place.run(&["index", "docs", "--lexical", "--meta", "bad.toml"]).fails(2, words);
    };
    check("labls = [\"a\"]\n", "labls");
    check("[[match]]\nglob = \"{a\"\n", "{a");
    check("updated_at = \"soon\"\n", "soon");
    place.run(&["index", "docs", "--lexical", "--meta", "none.toml"]).fails(2, "none.toml");
}

#[test]
fn a_committed_file_has_the_date_of_its_commit() {
    let place = Place::new();
    place.write("docs/a.md", "# A\n\ncommitted text\n");
    let git = |args: &[&str]| {
        let ran = std::process::Command::new("git")
            .args(["-c", "user.name=Umbel", "-c", "user.email=umbel@localhost"])
            .args(args)
            .current_dir(place.path().join("docs"))
            .env("GIT_COMMITTER_DATE", "2021-05-06T07:08:09Z")
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "first"]);
    place.write("docs/b.md", "# B\n\nother text, not committed\n");
    place.run(&["index", "docs", "--lexical"]).succeeds();
    let rows = place.run(&["tree", "--json"]).succeeds().json();
    assert_eq!(rows[0]["metadata"]["updated_at"], "2021-05-06T07:08:09Z");
    assert_eq!(rows[0]["metadata"]["updated_from"], "git");
    assert_eq!(rows[1]["metadata"]["updated_from"], "file");
    let off = ["index", "docs", "--lexical", "--json", "--set", "read.git_dates=false"];
    assert_eq!(place.run(&off).succeeds().json()["updated"], 1);
}
