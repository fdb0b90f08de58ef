//! Duplicates, as they are typed.

use crate::cli::{Place, list, number, old_store, text};
use serde_json::Value;

/// Text of about 60 words that names what it is about.
fn about(thing: &str) -> String {
    format!(
        "The {thing} is looked after by the people of the night shift, who write down what they find. Whoever hears \
         a noise that was not there before calls the office and waits until somebody comes. Nothing is taken apart \
         while it runs, and nothing is put back without a word in the book that hangs beside the door of the hall."
    )
}

/// A wiki that mirrors the handbook: one page the same, one with another blank, one that has grown, and one of its own.
fn place() -> Place {
    let place = Place::new();
    let page = |title: &str, text: &str| format!("# {title}\n\n{text}\n");
    place.write("handbook/pump.md", page("Pump", &about("pump")));
    place.write("handbook/valve.md", page("Valve", &about("valve")));
    place.write("handbook/boiler.md", page("Boiler", &about("boiler")));
    place.write("wiki/pump.md", page("Pump", &about("pump")));
    let grown = format!("{} This page was moved here.", about("valve").replace(' ', "  "));
    place.write("wiki/valve.md", page("Valve", &grown));
    place.write("wiki/ladder.md", page("Ladder", &about("ladder")));
    place.write(
        "handbook.toml",
        "connector = \"policy\"\nurl = \"https://policy.example/{stem}\"\n",
    );
    place.write("wiki.toml", "connector = \"wiki\"\nlabels = [\"staff\"]\n");
    for source in ["handbook", "wiki"] {
        let meta = format!("{source}.toml");
        place.run(&["index", source, "--source", source, "--lexical", "--meta", &meta]).succeeds();
    }
    place
}

fn run(place: &Place, args: &[&str]) -> Value {
    let args: Vec<&str> = ["dupes", "run", "--json"].iter().chain(args).copied().collect();
    place.run(&args).succeeds().json()
}

/// The passages of a search, by document, with the documents that say the same.
fn also_in(place: &Place, args: &[&str]) -> Vec<(String, u64, Vec<String>)> {
    let args: Vec<&str> = ["search", "--json", "noise"].iter().chain(args).copied().collect();
    let found = place.run(&args).succeeds().json();
    list(&found, "/context/passages")
        .iter()
        .map(|passage| {
            let others = list(passage, "/cluster/also_in").iter();
            let others = others.map(|other| text(other, "/doc").to_owned()).collect();
            (text(passage, "/doc").to_owned(), number(passage, "/cluster/in_index"), others)
        })
        .collect()
}

/// Index and catalog agree, on clusters too.
fn sound(place: &Place) {
    place.run(&["check"]).succeeds();
}

#[test]
fn a_run_marks_copies_and_an_answer_names_them() {
    let place = place();
    assert!(also_in(&place, &[]).iter().all(|(_, n, others)| *n == 1 && others.is_empty()));
    let report = run(&place, &[]);
    assert_eq!(text(&report, "/run"), "r1");
    let counts = ["/leaves", "/clusters", "/members", "/singletons"].map(|at| number(&report, at));
    assert_eq!(counts, [6, 2, 4, 2]);
    sound(&place);
    let found = place.run(&["search", "noise", "--json"]).succeeds().json();
    assert_eq!(text(&found, "/trace/cluster_run"), "r1");
    let passages = list(&found, "/context/passages");
    assert_eq!(passages.len(), 4, "one of each cluster: {passages:?}");
    let printed = place.run(&["search", "noise"]).succeeds().stdout();
    assert_eq!(printed.lines().filter(|line| line.contains("also in ")).count(), 2, "{printed}");
    let pump = passages.iter().find(|passage| text(passage, "/title") == "Pump").unwrap();
    assert_eq!((number(pump, "/cluster/seen"), number(pump, "/cluster/in_index")), (2, 2));
    let others = list(pump, "/cluster/also_in");
    assert_eq!(others.len(), 1, "each document once, and not itself: {others:?}");
    assert_ne!(text(&others[0], "/doc"), text(pump, "/doc"));
    assert!(others[0].pointer("/url").is_some());

    // Who may not read the wiki is not told that it says the same.
    for (doc, in_index, others) in also_in(&place, &["--filter", "label="]) {
        assert!(doc.starts_with("handbook/") || doc == "boiler.md", "{doc}");
        assert_eq!((in_index, others), (1, Vec::new()), "{doc}");
    }
    // A filter on something else hides nothing.
    let by_connector = also_in(&place, &["--filter", "connector=policy"]);
    assert_eq!(by_connector.iter().filter(|(_, n, _)| *n == 2).count(), 2);
}

#[test]
fn methods_and_thresholds_find_more_or_less() {
    let place = place();
    let counts = |args: &[&str]| {
        let report = run(&place, args);
        (number(&report, "/clusters"), number(&report, "/members"))
    };
    assert_eq!(counts(&["--exact"]), (1, 2));
    assert_eq!(counts(&["--near"]), (2, 4));
    assert_eq!(counts(&["--jaccard", "1"]), (1, 2));
    // Another thing in the same words: only a lower threshold joins pages on different things.
    assert_eq!(counts(&["--jaccard", "0.8"]), (2, 4));
    place.run(&["dupes", "run", "--semantic"]).fails(3, "no vectors");
    place.run(&["dupes", "run", "--jaccard", "0.3"]).code(2);
    place.run(&["dupes", "run", "--exact", "--near"]).code(2);
    sound(&place);
}

#[test]
fn a_run_is_reverted_and_the_one_before_counts_again() {
    let place = place();
    let before = also_in(&place, &[]);
    run(&place, &[]);
    let near = also_in(&place, &[]);
    run(&place, &["--exact"]);
    let exact = also_in(&place, &[]);
    assert!(near != exact && exact != before);
    let reverted = place.run(&["dupes", "revert", "r2", "--json"]).succeeds().json();
    assert_eq!(text(&reverted, "/in_effect"), "r1");
    assert_eq!(also_in(&place, &[]), near);
    sound(&place);
    place.run(&["dupes", "revert", "r2"]).fails(2, "no cluster run `r2`");
    place.run(&["dupes", "revert", "r1"]).succeeds();
    assert_eq!(also_in(&place, &[]), before);
    sound(&place);
    place.run(&["dupes", "revert", "nonsense"]).code(2);
    let runs = place.run(&["dupes", "runs", "--json"]).succeeds().json();
    let states = list(&runs, "/runs").iter().map(|run| (text(run, "/run"), &run["reverted"]));
    assert_eq!(
        states.collect::<Vec<_>>(),
        [("r2", &Value::Bool(true)), ("r1", &Value::Bool(true))]
    );
    assert_eq!(text(&runs, "/runs/1/method/method"), "near");
}

#[test]
fn clusters_last_until_their_documents_change() {
    let place = place();
    run(&place, &[]);
    let marked = also_in(&place, &[]);
    // The same files again, and one of them touched.
    place.run(&["index", "handbook", "--source", "handbook", "--lexical"]).succeeds();
    place.write("handbook/pump.md", format!("# Pump\n\n{}\n", about("pump")));
    place.run(&["index", "handbook", "--source", "handbook", "--lexical"]).succeeds();
    assert_eq!(also_in(&place, &[]), marked);
    // A copy that changes leaves its cluster, and a cluster of one is none.
    place.write("handbook/pump.md", format!("# Pump\n\n{}\n", about("old pump")));
    place.run(&["index", "handbook", "--source", "handbook", "--lexical"]).succeeds();
    sound(&place);
    let now = also_in(&place, &[]);
    assert_eq!(now.iter().filter(|(_, n, _)| *n == 2).count(), 1, "{now:?}");
    fs_err::remove_file(place.path().join("wiki/valve.md")).unwrap();
    place.run(&["index", "wiki", "--source", "wiki", "--lexical"]).succeeds();
    sound(&place);
    assert!(also_in(&place, &[]).iter().all(|(_, n, _)| *n == 1));
    // The index made anew has the clusters of the catalog.
    place.write("wiki/boiler.md", format!("# Boiler\n\n{}\n", about("boiler")));
    place.run(&["index", "wiki", "--source", "wiki", "--lexical"]).succeeds();
    run(&place, &[]);
    let marked = also_in(&place, &[]);
    assert_eq!(marked.iter().filter(|(_, n, _)| *n == 2).count(), 2, "{marked:?}");
    fs_err::remove_dir_all(place.path().join(".umbel/index")).unwrap();
    assert_eq!(also_in(&place, &[]), marked);
    sound(&place);
}

#[test]
fn a_run_over_what_is_new_gives_what_a_run_over_everything_gives() {
    let place = Place::new();
    let write = |n: usize| {
        let thing = ["pump", "valve", "boiler"][n % 3];
        let text = format!("# {thing}\n\n{} {}\n", about(thing), "More. ".repeat(n % 4));
        place.write(&format!("docs/{n}.md"), text);
    };
    let clusters = |store: &str| {
        let shown = place.run(&["--store", store, "dupes", "show", "--json"]).succeeds().json();
        let members = |cluster: &Value| {
            let docs =
                list(cluster, "/members").iter().map(|member| text(member, "/doc").to_owned());
            (text(cluster, "/cluster").to_owned(), docs.collect::<Vec<_>>())
        };
        list(&shown, "/clusters").iter().map(members).collect::<Vec<_>>()
    };
    for n in 0..24 {
        write(n);
        if n % 6 == 5 {
            place.run(&["index", "docs", "--lexical"]).succeeds();
            place.run(&["dupes", "run"]).succeeds();
        }
    }
    place.run(&["--store", "fresh", "index", "docs", "--lexical"]).succeeds();
    place.run(&["--store", "fresh", "dupes", "run"]).succeeds();
    assert_eq!(clusters(".umbel"), clusters("fresh"));
    assert_eq!(clusters("fresh").len(), 3);
}

#[test]
fn clusters_are_shown_with_what_their_members_differ_in() {
    let place = place();
    place.run(&["dupes", "show"]).code(1);
    place.run(&["dupes", "report"]).code(1);
    place.run(&["dupes", "runs"]).code(1);
    run(&place, &[]);
    let shown = place.run(&["dupes", "show", "--json"]).succeeds().json();
    assert_eq!((list(&shown, "/clusters").len(), number(&shown, "/of")), (2, 2));
    let valve = list(&shown, "/clusters").iter().find(|cluster| {
        list(cluster, "/members").iter().any(|member| text(member, "/doc").ends_with("valve.md"))
    });
    let id = text(valve.unwrap(), "/cluster");
    let one = place.run(&["dupes", "show", id.get(..12).unwrap(), "--json"]).succeeds().json();
    let connectors: Vec<&str> =
        list(&one, "/members").iter().map(|member| text(member, "/connector")).collect();
    assert!(connectors.contains(&"policy") && connectors.contains(&"wiki"));
    let changes = list(&one, "/members/1/difference");
    let added = changes.iter().filter(|change| text(change, "/kept") != "equal");
    let added: Vec<&str> = added.map(|change| text(change, "/words")).collect();
    assert_eq!(added, ["This page was moved here."]);
    let printed = place.run(&["dupes", "show", id]).succeeds().stdout();
    assert!(printed.contains("This page was moved here."), "{printed}");
    place.run(&["dupes", "show", "ffff0000"]).fails(2, "no cluster `ffff0000`");

    let report = place.run(&["dupes", "report", "--json"]).succeeds().json();
    let pairs = list(&report, "/pairs");
    assert_eq!(pairs.len(), 1);
    assert_eq!((text(&pairs[0], "/a"), text(&pairs[0], "/b")), ("policy", "wiki"));
    let counts = ["/clusters", "/leaves_of_a", "/all_of_a", "/leaves_of_b", "/all_of_b"];
    assert_eq!(counts.map(|at| number(&pairs[0], at)), [2, 2, 3, 2, 3]);
}

#[test]
fn pairs_are_drawn_judged_and_read_back() {
    let place = place();
    let written =
        place.run(&["dupes", "calibrate", "--write", "pairs.jsonl", "--json"]).succeeds().json();
    let lines = fs_err::read_to_string(place.path().join("pairs.jsonl")).unwrap();
    assert_eq!(lines.lines().count() as u64, number(&written, "/pairs"));
    assert!(number(&written, "/pairs") >= 2, "{lines}");
    place.run(&["dupes", "calibrate", "--read", "pairs.jsonl"]).code(1).warns("not judged yet");
    let judged: String = lines
        .lines()
        .map(|line| {
            let mut pair: Value = serde_json::from_str(line).unwrap();
            let same = text(&pair, "/a/doc").rsplit('/').next()
                == text(&pair, "/b/doc").rsplit('/').next();
            pair["duplicate"] = same.into();
            pair.to_string() + "\n"
        })
        .collect();
    place.write("pairs.jsonl", judged);
    let found =
        place.run(&["dupes", "calibrate", "--read", "pairs.jsonl", "--json"]).succeeds().json();
    assert_eq!(number(&found, "/judged"), number(&written, "/pairs"));
    let rows = list(&found, "/thresholds");
    assert!(rows.iter().all(|row| row["threshold"].as_f64().unwrap() >= 0.6));
    assert_eq!(rows[0]["precision"]["share"], 1.0);
    assert_eq!(rows[0]["precision"]["interval"]["method"], "wilson");
    let printed = place.run(&["dupes", "calibrate", "--read", "pairs.jsonl"]).succeeds().stdout();
    assert!(printed.contains("threshold") && printed.contains("Wilson"), "{printed}");
    place.run(&["dupes", "calibrate", "--read", "nowhere.jsonl"]).fails(2, "cannot be read");
    place.run(&["dupes", "calibrate"]).code(2);
    place.run(&["dupes", "calibrate", "--exact", "--write", "x.jsonl"]).fails(2, "no threshold");
}

#[test]
fn a_paraphrase_is_found_with_the_model() {
    let place = Place::new();
    let page = |text: &str| format!("# Refunds\n\n{text}\n");
    place.write(
        "docs/a.md",
        page("A customer can return the goods and get the money back within two weeks after delivery, if the box is not opened."),
    );
    place.write(
        "docs/b.md",
        page("A customer who returns the goods within two weeks after delivery gets the money back, if the box is not opened."),
    );
    place.write(
        "docs/c.md",
        page("A customer who returns the goods within six weeks after delivery gets the money back, if the box is not opened."),
    );
    place.write(
        "docs/d.md",
        "# Parking\n\nThe garage behind the station closes at night, except on days of the fair.\n",
    );
    place.run(&["index", "docs"]).succeeds();
    assert_eq!(
        number(&run(&place, &["--near"]), "/clusters"),
        0,
        "they are worded too differently"
    );
    let found = run(&place, &["--semantic", "--cosine", "0.85"]);
    assert_eq!(
        (number(&found, "/clusters"), number(&found, "/members")),
        (1, 2),
        "not the one of six weeks"
    );
    let shown = place.run(&["dupes", "show", "--json"]).succeeds().json();
    let mut docs: Vec<&str> =
        list(&shown, "/clusters/0/members").iter().map(|member| text(member, "/doc")).collect();
    docs.sort_unstable();
    assert_eq!(docs, ["a.md", "b.md"]);
    sound(&place);
    // Nothing is new, and the clusters are the same.
    assert_eq!(number(&run(&place, &["--semantic", "--cosine", "0.85"]), "/clusters"), 1);
    assert_eq!(
        number(&run(&place, &["--semantic", "--cosine", "0.85", "--floor", "1"]), "/clusters"),
        0
    );
}

#[test]
fn runs_of_a_store_of_an_older_format_work() {
    for format in ["format_1", "format_2"] {
        let place = old_store(format);
        place.run(&["check", "--repair"]).succeeds();
        run(&place, &["--exact"]);
        sound(&place);
    }
    let place = old_store("format_3");
    let shown = place.run(&["dupes", "show", "--json"]).succeeds().json();
    assert_eq!(list(&shown, "/clusters/0/members").len(), 2, "{shown}");
    sound(&place);
    place.run(&["dupes", "revert", "r1"]).succeeds();
    sound(&place);
    let place = Place::new();
    place.run(&["dupes", "runs"]).fails(3, "no store");
    place.run(&["dupes", "run"]).fails(3, "no store");
}
