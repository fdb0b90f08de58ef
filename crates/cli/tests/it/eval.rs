//! `umbel eval`, as it is typed.

use crate::cli::{Place, list, number, shared, text};
use serde_json::Value;

/// Four sections of one leaf each.
const BIRDS: &str = "# Birds\n\n## Pelican\n\nThe pelican sleeps by the lake.\n\n## Heron\n\nThe heron wakes by the lake.\n\n\
                     ## Stork\n\nThe stork eats frogs.\n\n## Crane\n\nThe crane dances.\n";
const FISH: &str =
    "# Fish\n\n## Carp\n\nThe carp hides in mud.\n\n## Pike\n\nThe pike hunts at dawn.\n";

/// A judgment of a piece of a text.
fn judgment(id: &str, query: &str, doc: &str, text: &str, piece: &str) -> String {
    let start = text.find(piece).unwrap();
    let end = start + piece.len();
    format!(
        r#"{{"id":"{id}","query":"{query}","relevant":[{{"doc":"{doc}","start":{start},"end":{end}}}]}}"#
    )
}

/// A store with two pages, leaves of one section each, and three judged queries.
fn judged() -> Place {
    let place = Place::new();
    place.write("docs/birds.md", BIRDS);
    place.write("docs/fish.md", FISH);
    place.write("umbel.toml", "[leaf]\ntarget = 16\nlevels = []\n\n[merge]\nrule = \"ratio\"\n");
    place.run(&["index", "docs", "--lexical"]).succeeds();
    let queries = [
        judgment("lake", "pelican heron lake", "birds.md", BIRDS, "The stork eats frogs."),
        judgment("pike", "pike", "fish.md", FISH, "The pike hunts at dawn."),
        judgment("frogs", "stork frogs", "birds.md", BIRDS, "The stork eats frogs."),
    ];
    place.write("q.jsonl", queries.join("\n"));
    place
}

fn bytes(place: &Place, path: &str) -> String {
    fs_err::read_to_string(place.path().join(path)).unwrap()
}

fn make_run(place: &Place, out: &str, more: &[&str]) -> Value {
    let args = ["eval", "run", "--queries", "q.jsonl", "--out", out, "--json"];
    place.run(&[&args, more].concat()).succeeds().json()
}

#[test]
fn a_run_holds_what_a_search_delivers() {
    let place = judged();
    let summary = make_run(&place, "run.jsonl", &[]);
    assert_eq!((number(&summary, "/queries"), number(&summary, "/fire_rate/count")), (3, 1));
    let written = bytes(&place, "run.jsonl");
    let entry: Value = serde_json::from_str(written.lines().nth(1).unwrap()).unwrap();
    let found = place.run(&["search", "pelican heron lake", "--json"]).succeeds().json();
    let spans: Vec<(String, u64, u64)> = list(&found, "/context/passages")
        .iter()
        .map(|p| (text(p, "/doc").to_owned(), number(p, "/span/start"), number(p, "/span/end")))
        .collect();
    let kept: Vec<(String, u64, u64)> = list(&entry, "/delivery/passages")
        .iter()
        .map(|p| {
            let doc = &list(&entry, "/docs")[number(p, "/0") as usize];
            (doc.as_str().unwrap().to_owned(), number(p, "/1"), number(p, "/2"))
        })
        .collect();
    assert_eq!(kept, spans);
    assert_eq!(number(&entry, "/delivery/tokens"), number(&found, "/context/tokens"));
    assert_eq!(list(&entry, "/delivery/fires").len(), list(&found, "/trace/fires").len());
    // Judging is no use of the store: its log knows nothing of it.
    assert_eq!(place.run(&["log", "export"]).succeeds().stdout().lines().count(), 1);
}

#[test]
fn what_searches_warn_of_is_said_once_and_kept() {
    let place = judged();
    let args = ["eval", "run", "--queries", "q.jsonl", "--out", "run.jsonl"];
    let reranked = ["--set", "rerank.backend=tei", "--set", "rerank.url=http://127.0.0.1:9"];
    let ran =
        place.run(&[&args[..], &reranked, &["--set", "rerank.retries=0"]].concat()).succeeds();
    let said = ran.stderr();
    let fallback = said.lines().filter(|line| line.contains("the order is that of fusion"));
    assert_eq!(fallback.count(), 1, "{said}");
    assert!(said.contains("warning: 3 of 3 queries: "), "{said}");
    let entry: Value =
        serde_json::from_str(bytes(&place, "run.jsonl").lines().nth(1).unwrap()).unwrap();
    assert!(!list(&entry, "/warnings").is_empty());
}

#[test]
fn the_same_run_is_the_same_bytes_and_so_is_its_replay() {
    let place = judged();
    make_run(&place, "run.jsonl", &[]);
    make_run(&place, "again.jsonl", &[]);
    place.run(&["eval", "replay", "run.jsonl", "--out", "replayed.jsonl"]).succeeds();
    let run = bytes(&place, "run.jsonl");
    assert_eq!(bytes(&place, "again.jsonl"), run);
    assert_eq!(bytes(&place, "replayed.jsonl"), run);
}

#[test]
fn a_run_that_was_cut_short_goes_on() {
    let place = judged();
    make_run(&place, "run.jsonl", &[]);
    let run = bytes(&place, "run.jsonl");
    let second = run.match_indices('\n').nth(1).unwrap().0;
    place.write("run.jsonl", run.get(..second + 40).unwrap());
    place.run(&["eval", "score", "run.jsonl"]).fails(2, "not a query of a run");
    place
        .run(&["eval", "run", "--queries", "q.jsonl", "--out", "run.jsonl"])
        .succeeds()
        .warns("going on behind 1 of 3 queries");
    assert_eq!(bytes(&place, "run.jsonl"), run);
    // Another configuration is another run.
    place
        .run(&[
            "eval",
            "run",
            "--queries",
            "q.jsonl",
            "--out",
            "run.jsonl",
            "--set",
            "merge.ratio=0.9",
        ])
        .fails(2, "it is a run of another configuration");
    place.write("letter.txt", "Dear reader,\n");
    place
        .run(&["eval", "run", "--queries", "q.jsonl", "--out", "letter.txt"])
        .fails(2, "it is there, and no run");
}

#[test]
fn runs_are_compared_where_the_rule_fired() {
    let place = judged();
    make_run(&place, "merged.jsonl", &[]);
    place
        .run(&[
            "eval",
            "replay",
            "merged.jsonl",
            "--set",
            "merge.enabled=false",
            "--out",
            "plain.jsonl",
        ])
        .succeeds();
    let args = ["eval", "compare", "plain.jsonl", "merged.jsonl"];
    let compared = place.run(&[&args[..], &["--json"]].concat()).succeeds().json();
    let verdicts: Vec<(&str, &str)> = list(&compared, "/verdicts")
        .iter()
        .map(|v| (text(v, "/stratum"), text(v, "/verdict")))
        .collect();
    assert_eq!(verdicts[1], ("unfired", "identical by construction"));
    assert!(verdicts[0].1.starts_with("not resolved"), "{verdicts:?}");
    assert_eq!(compared["comparisons"][0]["closes"], true);
    let words = place.run(&args).succeeds().stdout();
    for wanted in [
        "fire rate 1 of 3 = 33.3 % × Δ fired",
        "closure: the strata rebuild the pooled counts to the query",
        "Connor 1987",
        "McNemar, exact",
    ] {
        assert!(words.contains(wanted), "no `{wanted}` in {words}");
    }
    assert_eq!(place.run(&args).succeeds().stdout(), words);
    place.run(&["eval", "compare", "plain.jsonl"]).fails(2, "one run alone");
    place
        .run(&["eval", "compare", "plain.jsonl", "merged.jsonl", "--metric", "R@99"])
        .fails(2, "`R@99` looks at 99 leaves, and the run ranks 60");
    place.run(&["eval", "score", "plain.jsonl", "--metric", "nDCG"]).code(2);
}

#[test]
fn a_printed_table_is_checked_for_closure() {
    let place = Place::new();
    let table = |pooled: &str| {
        format!(
            r#"{{"fired":16,"unfired":384,"systems":[
            {{"name":"flat","fired":"56.3","unfired":"74.2","pooled":"73.5"}},
            {{"name":"merged","fired":"68.8","unfired":"74.2","pooled":"{pooled}"}}]}}"#
        )
    };
    place.write("open.json", table("73.4"));
    place.write("closed.json", table("74.0"));
    let open = place.run(&["eval", "compare", "--table", "open.json"]).code(1);
    let open = open.warns("strata give 296 of 400 = 74.0, the pooled cell says 73.4").stdout();
    let closed = place.run(&["eval", "compare", "--table", "closed.json"]).succeeds().stdout();
    for words in [open, closed] {
        for wanted in [
            "flat 9 of 16 = 56.3 %, merged 11 of 16 = 68.8 %: not resolved",
            "Δ -19.4 to 41.2 (Newcombe, 95 %)",
            "Δ -20.8 to 45.8 (Wald, 95 %)",
            "Δ overall 0.5 points by the counts, 0.5 by fire rate × Δ fired",
            "9 of 16 = 56.3 % on the fired queries and 294 of 400 = 73.5 % on all",
            "under the noise floor of ±4.3 points",
        ] {
            assert!(words.contains(wanted), "no `{wanted}` in {words}");
        }
    }
    let json = place.run(&["eval", "compare", "--table", "open.json", "--json"]).code(1).json();
    assert_eq!(json["closes"], false);
    assert_eq!(json["systems"][0]["pooled"], "294 of 400 = 73.5");
    place.write("broken.json", r#"{"fired":16}"#);
    place.run(&["eval", "compare", "--table", "broken.json"]).fails(2, "missing field `unfired`");
}

#[test]
fn e4_judgments_that_name_unknown_documents_are_an_error_and_never_zeros() {
    let place = judged();
    let known = judgment("pike", "pike", "fish.md", FISH, "The pike");
    place.write("half.jsonl", format!("{known}\n{}", judgment("gone", "x", "gone.md", "xyz", "y")));
    let args = ["eval", "run", "--queries", "half.jsonl", "--out", "run.jsonl"];
    let wanted = "1 of 2 = 50.0 % of the judgments cannot be placed in this store: `gone`: no document `gone.md`";
    place.run(&args).fails(2, wanted);
    assert!(!place.path().join("run.jsonl").exists());
    let ran = place.run(&[&args[..], &["--allow-unjudged", "--json"]].concat()).succeeds();
    let summary = ran.warns("1 query is left out: 1 of 2 = 50.0 %").json();
    assert_eq!((number(&summary, "/queries"), number(&summary, "/identity/unjudged")), (1, 1));
    // Where nothing can be judged, nothing is left to allow.
    place.write("none.jsonl", judgment("gone", "x", "gone.md", "xyz", "y"));
    place
        .run(&["eval", "run", "--queries", "none.jsonl", "--out", "none.run", "--allow-unjudged"])
        .fails(2, "1 of 1 = 100.0 %");
}

#[test]
fn malformed_judgments_and_runs_are_refused_by_line() {
    let place = judged();
    let one = judgment("a", "pike", "fish.md", FISH, "The pike");
    let files = [
        ("empty.jsonl", String::new(), "no judgment in it"),
        ("twice.jsonl", format!("{one}\n{one}"), "line 2: id `a` is that of line 1 too"),
        ("nan.jsonl", one.replace("}]}", r#","grade":NaN}]}"#), "line 1: not a judgment"),
        ("cut.jsonl", format!("{one}\n{{"), "line 2: not a judgment"),
    ];
    for (name, content, wanted) in files {
        place.write(name, content);
        place.run(&["eval", "run", "--queries", name, "--out", "run.jsonl"]).fails(2, wanted);
        place.run(&["eval", "check", name]).fails(2, wanted);
    }
    place.run(&["eval", "check", "absent.jsonl"]).fails(2, "absent.jsonl");
    make_run(&place, "run.jsonl", &[]);
    let run = bytes(&place, "run.jsonl");
    place.write("empty.run", "");
    place.run(&["eval", "score", "empty.run"]).fails(2, "the run is empty");
    let last = run.lines().last().unwrap();
    place.write("twice.run", format!("{run}{last}\n"));
    place
        .run(&["eval", "score", "twice.run"])
        .fails(2, "line 5: query `frogs` is that of line 4 too");
    place.write("other.run", "{\"documents\": 3}\n");
    place.run(&["eval", "score", "other.run"]).fails(2, "line 1: not the head of a run");
}

#[test]
fn a_run_of_other_data_is_not_replayed() {
    let place = judged();
    make_run(&place, "run.jsonl", &[]);
    place.write("docs/fish.md", FISH.replace("dawn", "dusk"));
    place.run(&["index", "docs"]).succeeds();
    let replay = ["eval", "replay", "run.jsonl", "--out", "new.jsonl"];
    place.run(&replay).fails(2, "holds other data");
    place.run(&["eval", "sweep", "run.jsonl", "--ratio", "0.5"]).fails(2, "holds other data");
    // What was measured can be read all the same.
    place.run(&["eval", "score", "run.jsonl"]).succeeds();
}

#[test]
fn a_replay_refuses_what_candidates_cannot_answer() {
    let place = judged();
    make_run(&place, "run.jsonl", &[]);
    for (set, wanted) in [
        ("leaf.target=100", "settings of `leaf` change the candidates"),
        ("lexical.language=german", "settings of `lexical` change the candidates"),
        ("search.keep=0.5", "`search.keep` needs the model"),
        ("search.fusion_depth=500", "each leg was read to 100 leaves, wanted are 500"),
        ("search.depth=101", "search.k_prime"),
    ] {
        place
            .run(&["eval", "replay", "run.jsonl", "--out", "x.jsonl", "--set", set])
            .fails(2, wanted);
    }
    make_run(&place, "words.jsonl", &["--set", "search.lexical_weight=1.0"]);
    place
        .run(&[
            "eval",
            "replay",
            "words.jsonl",
            "--out",
            "x.jsonl",
            "--set",
            "search.lexical_weight=0.5",
        ])
        .fails(2, "the run has no dense leg");
}

#[test]
fn a_sweep_has_a_row_for_each_setting() {
    let place = judged();
    make_run(&place, "run.jsonl", &[]);
    let args = ["eval", "sweep", "run.jsonl", "--ratio", "0.5,0.9", "--min-siblings", "2..3"];
    let swept = place.run(&[&args[..], &["--json"]].concat()).succeeds().json();
    let rows = list(&swept, "/rows");
    assert_eq!(rows.len(), 4);
    let fired: Vec<u64> = rows.iter().map(|row| number(row, "/fire_rate/count")).collect();
    // Two of four birds were found: enough for one half.
    assert_eq!(fired, [1, 0, 0, 0]);
    assert!(rows[0]["extra_per_fired"].as_f64().unwrap() > 0.0);
    assert_eq!((number(&rows[0], "/audit/count"), number(&rows[0], "/audit/of")), (1, 1));
    let words = place.run(&args).succeeds().stdout();
    assert_eq!(words.lines().count(), 6, "{words}");
    assert_eq!(place.run(&args).succeeds().stdout(), words);
    place
        .run(&["eval", "sweep", "run.jsonl", "--min-siblings", "9"])
        .succeeds()
        .warns("no parent can meet the rule");
    place
        .run(&["eval", "sweep", "run.jsonl", "--ratio", "0.5", "--base", "0.2"])
        .fails(2, "belongs to one rule");
    place
        .run(&["eval", "sweep", "run.jsonl", "--metric", "Tokens"])
        .fails(2, "not a yes or no that a replay can give");
    place.run(&["eval", "sweep", "run.jsonl", "--ratio", "1..0"]).code(2);
    let tuned = place.run(&["eval", "tune", "run.jsonl", "--ratio", "0.5,0.9"]).code(1).stdout();
    assert!(tuned.contains("nothing is recommended"), "{tuned}");
}

#[test]
fn judgments_with_texts_are_found_again_in_the_next_version() {
    let place = judged();
    place.run(&["eval", "check", "q.jsonl", "--out", "kept.jsonl"]).succeeds();
    place.write("docs/fish.md", format!("# News\n\nNone.\n\n{FISH}"));
    place.run(&["index", "docs"]).succeeds();
    let check = place.run(&["eval", "check", "kept.jsonl", "--json"]).succeeds().json();
    assert_eq!((number(&check, "/judged"), number(&check, "/moved")), (3, 1));
    place.write("docs/fish.md", FISH.replace("dawn", "dusk"));
    place.run(&["index", "docs"]).succeeds();
    let check = place.run(&["eval", "check", "kept.jsonl"]).code(1).stdout();
    assert!(check.contains("`pike`: `fish.md` has another text"), "{check}");
}

#[test]
fn outcomes_that_were_judged_elsewhere_are_compared_too() {
    let place = judged();
    make_run(&place, "run.jsonl", &[]);
    place.write(
        "o.jsonl",
        "{\"id\":\"lake\",\"correct\":true}\n{\"id\":\"pike\",\"correct\":false}\n",
    );
    let args = ["eval", "outcomes", "run.jsonl", "--from", "o.jsonl", "--out", "judged.jsonl"];
    let ran = place.run(&args).succeeds().warns("1 query without an outcome");
    assert_eq!(ran.stdout().trim(), "1 of 2 = 50.0 % of the queries right");
    let score = ["eval", "score", "judged.jsonl", "--metric", "Outcome", "--json"];
    let scored = place.run(&score).succeeds().json();
    assert_eq!(number(&scored, "/metrics/0/figure/count/share/of"), 2);
}

/// The judged store with two more queries: one whose evidence lies in two sections, and one that nothing is found for.
fn spread() -> Place {
    let place = judged();
    let two = |text: &str| {
        format!(
            r#"{{"doc":"birds.md","start":{},"end":{}}}"#,
            BIRDS.find(text).unwrap(),
            BIRDS.find(text).unwrap() + text.len()
        )
    };
    let both = format!("{},{}", two("The heron wakes by the lake."), two("The stork eats frogs."));
    let more = [
        format!(r#"{{"id":"both","query":"heron","relevant":[{both}]}}"#),
        format!(r#"{{"id":"none","query":"zebra","relevant":[{}]}}"#, two("The crane dances.")),
    ];
    place.write("q.jsonl", bytes(&place, "q.jsonl") + "\n" + &more.join("\n"));
    place
}

#[test]
fn misses_are_counted_by_where_their_evidence_lies() {
    let place = spread();
    make_run(&place, "run.jsonl", &["--set", "merge.min_siblings=3"]);
    let missed = place.run(&["eval", "misses", "run.jsonl", "--json"]).succeeds().json();
    // `lake` finds two other birds, `both` one of its two, `none` nothing.
    assert_eq!((number(&missed, "/wrong/count"), number(&missed, "/wrong/of")), (3, 5));
    assert_eq!(number(&missed, "/by_spread/0/1/count"), 2);
    assert_eq!(number(&missed, "/by_spread/1/1/count"), 1);
    assert_eq!(number(&missed, "/missed_merges/count"), 1);
    // One of four was retrieved, so two would not have done either.
    assert_eq!(number(&missed, "/fire_at_two/count"), 0);
    let words = place.run(&["eval", "misses", "run.jsonl"]).succeeds().stdout();
    assert!(words.contains("answered badly: 3 of 5 = 60.0 %"), "{words}");
    assert!(
        words.contains("both: several leaves of one parent, retrieved 1 of 2, missed merge"),
        "{words}"
    );
}

#[test]
fn relevance_names_the_parents_that_bring_most_about_something_else() {
    let place = spread();
    let found = place.run(&["eval", "relevance", "q.jsonl", "--json"]).succeeds().json();
    assert_eq!((number(&found, "/all/queries"), number(&found, "/all/spanning/count")), (5, 1));
    assert_eq!(text(&found, "/worst/0/doc"), "birds.md");
    assert_eq!(list(&found, "/worst/0/queries").len(), 4);
    let words = place.run(&["eval", "relevance", "q.jsonl", "--worst", "1"]).succeeds().stdout();
    assert!(words.contains("split these pages first") && words.contains("birds.md:"), "{words}");
}

#[test]
fn a_slice_for_the_rule_is_harvested() {
    let place = spread();
    let args = ["eval", "harvest", "q.jsonl", "--out", "slice.jsonl"];
    let words = place.run(&args).succeeds().stdout();
    assert!(words.contains("1 of 5 = 20.0 % of the judgments are for the rule"), "{words}");
    assert!(words.contains("label 149 more"), "{words}");
    place.run(&["eval", "check", "slice.jsonl"]).succeeds();
    assert!(bytes(&place, "slice.jsonl").starts_with(r#"{"id":"both""#));
    let set = ["--set", "merge.min_siblings=9"];
    place.run(&[&args[..], &set[..]].concat()).code(1);
}

#[test]
fn the_fire_rate_of_a_run_stands_beside_that_of_the_log() {
    let place = judged();
    make_run(&place, "run.jsonl", &[]);
    place.run(&["eval", "fire-rate", "run.jsonl"]).code(1);
    place.run(&["search", "pelican heron lake"]).succeeds();
    let words = place.run(&["eval", "fire-rate", "run.jsonl"]).succeeds().stdout();
    assert!(words.contains("run: fired on 1 of 3 = 33.3 %"), "{words}");
    assert!(words.contains("log: fired on 1 of 1 = 100.0 %"), "{words}");
    assert!(words.contains("not resolved"), "{words}");
}

#[test]
fn judgments_of_other_tools_are_read() {
    let place = Place::new();
    place.write("beir/corpus.jsonl", "{\"_id\":\"d/1\",\"title\":\"Pike\",\"text\":\"It hunts at dawn.\"}\n{\"_id\":\"d2\",\"text\":\"Nothing.\"}\n");
    place.write("beir/queries.jsonl", "{\"_id\":\"1\",\"text\":\"what hunts at dawn\"}\n");
    place.write("beir/qrels/test.tsv", "query-id\tcorpus-id\tscore\n1\td/1\t1\n1\td2\t0\n");
    let import =
        place.run(&["eval", "import", "beir", "beir", "--out", "set", "--json"]).succeeds();
    assert_eq!((number(&import.json(), "/queries"), number(&import.json(), "/documents")), (1, 2));
    place.run(&["index", "set/corpus", "--lexical"]).succeeds();
    let run = ["eval", "run", "--queries", "set/queries.jsonl", "--out", "run.jsonl"];
    place.run(&run).succeeds();
    let score =
        ["eval", "score", "run.jsonl", "--metric", "R@1", "--metric", "Success(any>0)", "--json"];
    let scored = place.run(&score).succeeds().json();
    assert_eq!(scored["metrics"][0]["figure"]["mean"]["mean"], 1.0);
    assert_eq!(number(&scored, "/metrics/1/figure/count/share/count"), 1);

    place.write("qrels", "1 0 d2 1\n2 0 d2 0\n");
    place.write("topics", "1\twhat is there\n2\tmore\n");
    let trec = [
        "eval",
        "import",
        "trec",
        "--qrels",
        "qrels",
        "--queries",
        "topics",
        "--suffix",
        ".md",
        "--out",
        "t.jsonl",
    ];
    place.run(&trec).succeeds().warns("1 query is left out: nothing relevant");
    place.run(&["eval", "check", "t.jsonl"]).succeeds();
    place.write("qrels", "1 0 d2 NaN\n");
    place.run(&trec).fails(2, "qrels line 1");
}

#[test]
fn runs_of_other_tools_are_scored_and_compared_by_document() {
    let place = Place::new();
    place.write("qrels", "1 0 d1 3\n1 0 d2 1\n2 0 d3 1\n");
    place.write("topics", "1\tlake\n2\tmud\n");
    let import =
        ["eval", "import", "trec", "--qrels", "qrels", "--queries", "topics", "--out", "q.jsonl"];
    place.run(&import).succeeds();
    place.write(
        "bm25",
        "1 Q0 d2 1 9.5 bm25\n1 Q0 d1 2 8 bm25\n2 Q0 d9 1 7 bm25\n3 Q0 d9 1 7 bm25\n",
    );
    place.write("dense", "1 Q0 d1 1 0.9 dense\n1 Q0 d2 2 0.8 dense\n");
    let run = |name: &str| {
        let out = format!("{name}.jsonl");
        let args = ["eval", "import", "trec-run", name, "--queries", "q.jsonl", "--out", &out];
        place.run(&args)
    };
    run("bm25").succeeds().warns("1 query is left out: not judged");
    run("dense").succeeds().warns("1 query is without a list");
    let scored = place.run(&["eval", "score", "bm25.jsonl", "--metric", "nDCG@2"]).succeeds();
    // (1 + 3 / log2 3) / (3 + 1 / log2 3) and 0, on average.
    assert!(scored.stdout().contains("39.8 %"), "{}", scored.stdout());
    let args =
        ["eval", "compare", "bm25.jsonl", "dense.jsonl", "--metric", "MRR", "--by", "nothing"];
    place.run(&args).succeeds();
    place
        .run(&["eval", "score", "bm25.jsonl", "--metric", "Tokens"])
        .fails(2, "only ranks documents");
    let replay = ["eval", "replay", "bm25.jsonl", "--out", "x.jsonl"];
    place.run(&replay).fails(2, "nothing was delivered");
    place.write("bm25", "1 Q0 d2 1 inf bm25\n");
    run("bm25").fails(2, "line 1: score `inf`");

    let ours = judged();
    make_run(&ours, "run.jsonl", &[]);
    ours.write("theirs", "lake Q0 birds.md 1 1 t\n");
    let args =
        ["eval", "import", "trec-run", "theirs", "--queries", "q.jsonl", "--out", "theirs.jsonl"];
    ours.run(&args).succeeds();
    ours.run(&["eval", "compare", "run.jsonl", "theirs.jsonl", "--metric", "MRR"])
        .fails(2, "different things");
}

#[test]
fn a_public_set_is_judged_by_words_alone() {
    let Some(folder) = shared("data/anthropic-docs-rag") else { return };
    let place = Place::new();
    let (corpus, queries) = (folder.join("corpus"), folder.join("queries.jsonl"));
    place.run(&["index", corpus.to_str().unwrap(), "--lexical"]).succeeds();
    let run =
        ["eval", "run", "--queries", queries.to_str().unwrap(), "--out", "run.jsonl", "--json"];
    // A budget at which some queries do not fire.
    let small = ["--set", "search.budget=500"];
    let summary = place.run(&[&run[..], &small].concat()).succeeds().json();
    assert_eq!(number(&summary, "/queries"), 100);
    place.run(&["eval", "replay", "run.jsonl", "--out", "again.jsonl"]).succeeds();
    assert_eq!(bytes(&place, "again.jsonl"), bytes(&place, "run.jsonl"));
    place
        .run(&[
            "eval",
            "replay",
            "run.jsonl",
            "--set",
            "merge.enabled=false",
            "--out",
            "plain.jsonl",
        ])
        .succeeds();
    let compare = ["eval", "compare", "plain.jsonl", "run.jsonl", "--json"];
    let compared = place.run(&compare).succeeds().json();
    assert_eq!(text(&compared, "/verdicts/1/verdict"), "identical by construction");
    assert_eq!(compared["comparisons"][0]["closes"], true);
}

/// A page, its newer copy in another folder, and a query that is judged by the page.
fn mirrored() -> Place {
    let place = Place::new();
    let section = |name: &str, word: &str| {
        let words: Vec<String> = (0..60).map(|n| format!("{word}{n}")).collect();
        format!("## {name}\n\nThe {word} text says {}.\n\n", words.join(" "))
    };
    let page = format!("# Page\n\n{}{}", section("Pump", "pump"), section("Valve", "valve"));
    let other = format!("# Other\n\n{}", section("Boiler", "boiler"));
    place.write("docs/page.md", format!("---\nupdated_at: 2020-01-01\n---\n{page}"));
    place.write("docs/mirror/page.md", format!("---\nupdated_at: 2024-01-01\n---\n{page}"));
    place.write("docs/other.md", &other);
    place.write("umbel.toml", "[leaf]\ntarget = 160\nlevels = []\n\n[merge]\nenabled = false\n");
    place.run(&["index", "docs", "--lexical"]).succeeds();
    let text = bytes(&place, "docs/page.md");
    let judged = format!("The pump text says pump0 {}", text.split("pump0 ").nth(1).unwrap());
    let judged = judged.split('.').next().unwrap();
    place.write("q.jsonl", judgment("pump", "pump3 pump4", "page.md", &text, judged));
    place
}

#[test]
fn collapse_is_measured_by_the_judged_copy_and_by_any() {
    let place = mirrored();
    make_run(&place, "before.jsonl", &[]);
    place.run(&["eval", "collapse", "before.jsonl"]).fails(2, "no duplicate was marked");

    place.run(&["dupes", "run"]).succeeds();
    make_run(&place, "run.jsonl", &[]);
    let head: Value =
        serde_json::from_str(bytes(&place, "run.jsonl").lines().next().unwrap()).unwrap();
    assert_eq!(text(&head, "/clusters/run"), "r1");
    assert_eq!(text(&head, "/clusters/method"), "near, jaccard 0.8");

    let found =
        place.run(&["eval", "collapse", "run.jsonl", "--top", "2", "--json"]).succeeds().json();
    assert_eq!((text(&found, "/policy"), number(&found, "/top")), ("authority", 2));
    // System by system: evidence recall by the judged copy, and by any.
    let figure = |system: usize, measure: &str| {
        let figures = list(&found, &format!("/report/systems/{system}/figures"));
        let of = figures.iter().find(|figure| text(figure, "/0") == measure).unwrap();
        of.pointer("/1/mean/mean").unwrap().as_f64().unwrap()
    };
    let both = |system| ["EvidenceRecall", "ClusterEvidenceRecall"].map(|m| figure(system, m));
    // Without collapse both copies are delivered; the fresh one is the mirror, whose leaf is not the judged one.
    assert_eq!((both(0), both(2)), ([1.0, 1.0], [0.0, 1.0]));
    assert_eq!((figure(0, "UniqueClusters@2"), figure(2, "UniqueClusters@2")), (1.0, 1.0));

    let shown = place.run(&["eval", "collapse", "run.jsonl"]).succeeds().stdout();
    for line in
        ["cluster run r1 (near, jaccard 0.8), k' = 100", "fresh against no collapse", "any copy"]
    {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    place
        .run(&["eval", "collapse", "run.jsonl", "--metric", "Tokens"])
        .fails(2, "cannot be credited to copies");
}
