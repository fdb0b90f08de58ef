//! Duplicates in searches of a store: which copy speaks, how far lists are read, and what comes on the next page.

use futures_lite::future::block_on;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow::Continue;
use std::path::Path;
use tempfile::TempDir;
use umbel::config::Config;
use umbel::core::collapse::Policy;
use umbel::core::id::{ClusterId, LeafId};
use umbel::core::leaf::embedded_text;
use umbel::core::span::{Span, slice};
use umbel::engine::answer::{SearchRequest, SearchResponse};
use umbel::engine::ingest::{IngestRequest, leaf_records};
use umbel::engine::inspect::Inspector;
use umbel::engine::log::{Days, LogRecord, QueryLog};
use umbel::engine::{CursorError, Engine, EngineError, wire};
use umbel::filter::Filter;
use umbel::index::edge::{EdgeIndex, EdgeOptions};
use umbel::index::lexical::{DEFAULT_LANGUAGE, LexicalEncoder};
use umbel::index::{Index as _, Point};
use umbel::store::Layout;

/// A folder with documents and a store.
struct Place {
    dir: TempDir,
}

impl Place {
    /// Indexes documents; `cluster_of` names the cluster of a leaf by its text, none for one that is alone.
    fn new(
        files: &[(String, String)],
        sets: &[&str],
        cluster_of: impl Fn(&str) -> Option<u8>,
    ) -> Place {
        let place = Place { dir: tempfile::tempdir().unwrap() };
        for (name, text) in files {
            let path = place.dir.path().join("docs").join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        place.ingest(sets);
        block_on(place.mark(cluster_of));
        place
    }

    fn store(&self) -> std::path::PathBuf {
        self.dir.path().join("store")
    }

    fn engine(&self, sets: &[&str]) -> Engine {
        open(&self.store(), sets)
    }

    fn ingest(&self, sets: &[&str]) {
        let request = IngestRequest { path: self.dir.path().join("docs"), ..Default::default() };
        block_on(self.engine(sets).ingest(&[request], &|_| Continue(()))).unwrap();
    }

    /// Writes clusters into the index, as a run that marks duplicates does.
    async fn mark(&self, cluster_of: impl Fn(&str) -> Option<u8>) {
        let inspector = Inspector::open(&self.store()).unwrap();
        let encoder = LexicalEncoder::new(DEFAULT_LANGUAGE, 200).unwrap();
        let layout = Layout::new(&self.store());
        let index = EdgeIndex::open(&layout.index(), &EdgeOptions { dimension: None }).unwrap();
        let mut points = Vec::new();
        for entry in inspector.list().await.unwrap() {
            let stored = inspector.document(&entry.name).await.unwrap();
            let document = &stored.document;
            let kept = index.fetch(&stored.leaf_ids).await.unwrap();
            let records = leaf_records(entry.id, document, &stored.leaf_ids);
            for ((mut record, leaf), kept) in records.zip(&document.tree.leaves).zip(kept) {
                let Some(cluster) = cluster_of(slice(&document.text, leaf.span)) else { continue };
                record.cluster = ClusterId([cluster; 16]);
                let text = embedded_text(&document.text, &document.title, &document.tree, leaf);
                let facets = kept.unwrap().facets;
                let lexical = encoder.passage(&text);
                points.push(Point { record, facets, dense: None, lexical });
            }
        }
        index.upsert(points).await.unwrap();
        index.flush().await.unwrap();
    }
}

fn config(sets: &[&str]) -> Config {
    Config::load(None, &[], &sets.iter().map(|&set| set.to_owned()).collect::<Vec<_>>()).unwrap()
}

fn open(store: &Path, sets: &[&str]) -> Engine {
    block_on(Engine::open(store, config(sets), None, &|_| Continue(()))).unwrap()
}

fn ask(engine: &Engine, query: &str, sets: &[&str]) -> SearchResponse {
    block_on(engine.search(&SearchRequest::new(query, config(sets)))).unwrap()
}

/// The documents of the passages, in order.
fn docs(response: &SearchResponse) -> Vec<String> {
    let json = wire::search(response);
    json.context.passages.iter().map(|passage| passage.doc.clone()).collect()
}

/// The clusters of the list's evidence, in order of the passages.
fn clusters(response: &SearchResponse) -> Vec<ClusterId> {
    let passages = &response.context.passages;
    passages.iter().flat_map(|p| &p.evidence).map(|evidence| evidence.cluster.0).collect()
}

fn file(name: impl Into<String>, text: impl Into<String>) -> (String, String) {
    (name.into(), text.into())
}

/// A cluster for each `cluster N` that a text begins with.
fn by_words(text: &str) -> Option<u8> {
    let (_, rest) = text.split_once("cluster ")?;
    rest.split_whitespace().next()?.parse().ok()
}

/// A wiki's copy of 2022 that matches more purely, the policy's of 2025, and two pages that match between them.
fn two_copies() -> Place {
    let page = |connector: &str, year: u32, labels: &str, text: &str| {
        format!(
            "---\nconnector: {connector}\nupdated_at: {year}-01-01\nlabels: [{labels}]\n---\n{text}\n"
        )
    };
    let files = [
        file("old.md", page("wiki", 2022, "all", "The dispute window of invoices: cluster 7")),
        file(
            "new.md",
            page(
                "policy",
                2025,
                "staff",
                "The dispute window of invoices takes sixty days: customers write letters, clerks read ledgers, banks move money, courts stay quiet, cluster 7",
            ),
        ),
        file(
            "more.md",
            page(
                "wiki",
                2020,
                "all",
                "The dispute window of invoices, beside trains, boats, ferries and bridges",
            ),
        ),
    ];
    Place::new(&files, &[], by_words)
}

#[test]
fn d1_the_copy_that_the_policy_prefers_is_delivered_at_the_rank_of_the_best() {
    let place = two_copies();
    let engine = place.engine(&[]);
    let check = |sets: &[&str], expected: &[&str]| {
        let response = ask(&engine, "invoice dispute window", sets);
        assert_eq!(docs(&response), expected, "{sets:?}");
        let json = wire::search(&response);
        let passage = &json.context.passages[0];
        assert_eq!((passage.cluster.seen, passage.rank), (2, 1));
        [passage.cluster.score, passage.scores.fused].map(f32::to_bits)
    };
    let [score, own] = check(&["collapse.policy=score"], &["old.md", "more.md"]);
    assert_eq!(score, own);
    let ranked = ["collapse.authority={policy = 3, wiki = 1}"];
    for sets in [&["collapse.policy=fresh"][..], &ranked, &[]] {
        let [kept, speakers_own] = check(sets, &["new.md", "more.md"]);
        assert_eq!(kept, score, "the cluster keeps its score");
        assert!(
            f32::from_bits(speakers_own) < f32::from_bits(kept),
            "the speaker's own score is shown"
        );
    }
    check(&["collapse.authority={wiki = 1}"], &["old.md", "more.md"]);
}

#[test]
fn a_copy_that_the_filter_keeps_out_does_not_speak() {
    let place = two_copies();
    let engine = place.engine(&[]);
    let filter = Filter::parse(&["label=all".to_owned()]).unwrap();
    let request = SearchRequest { filter, ..SearchRequest::new("invoice dispute", config(&[])) };
    let response = block_on(engine.search(&request)).unwrap();
    assert_eq!(docs(&response), ["old.md", "more.md"]);
    let json = wire::search(&response);
    assert_eq!(json.context.passages[0].cluster.seen, 1, "what may not be read is not counted");
}

#[test]
fn policies_are_compared_over_the_clusters_that_a_question_meets() {
    let place = two_copies();
    let engine = place.engine(&[]);
    let request = SearchRequest::new("invoice dispute window", config(&[]));
    let choices = block_on(engine.choices(&request)).unwrap();
    assert_eq!(choices.len(), 1, "what is alone leaves no choice");
    let [score, fresh, authority] = choices[0].speakers;
    assert!(score != fresh && fresh == authority);
    assert_eq!(Policy::ALL.len(), choices[0].speakers.len());
}

/// Fifty topics, each in one to four documents that say the same.
fn fifty_clusters() -> Place {
    let mut files = Vec::new();
    for topic in 0..50 {
        for copy in 0..=topic % 4 {
            let text =
                format!("The heron stands in reed number {topic}. Pond {copy}, cluster {topic}\n");
            files.push(file(format!("{topic}-{copy}.md"), text));
        }
    }
    Place::new(&files, &[], by_words)
}

/// Every page of a question, until there is no more.
fn pages(engine: &Engine, request: &SearchRequest) -> Vec<SearchResponse> {
    let mut pages: Vec<SearchResponse> = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let request = SearchRequest { cursor: cursor.take(), ..request.clone() };
        let page = block_on(engine.search(&request)).unwrap();
        cursor.clone_from(&page.cursor);
        pages.push(page);
        assert!(pages.len() < 200, "pages end");
        if cursor.is_none() {
            return pages;
        }
    }
}

/// Checks that no page repeats a cluster or a byte of those before.
fn check_distinct(pages: &[SearchResponse]) {
    let mut seen: BTreeSet<ClusterId> = BTreeSet::new();
    let mut spans: BTreeMap<u64, Vec<Span>> = BTreeMap::new();
    for page in pages {
        let here: BTreeSet<ClusterId> = clusters(page).into_iter().collect();
        assert!(here.is_disjoint(&seen), "a cluster comes again");
        seen.extend(here);
        for passage in &page.context.passages {
            let before = spans.entry(passage.doc.0).or_default();
            assert!(before.iter().all(|span| !span.overlaps(passage.span)), "a byte comes again");
            before.push(passage.span);
        }
        assert!(page.context.tokens <= page.budget_tokens);
    }
}

#[test]
fn d3_pages_of_ten_hold_distinct_clusters() {
    let place = fifty_clusters();
    let engine = place.engine(&[]);
    let request = SearchRequest {
        limit: Some(10),
        ..SearchRequest::new("heron reed", config(&["search.depth=20"]))
    };
    let pages = pages(&engine, &request);
    check_distinct(&pages);
    let sizes: Vec<usize> = pages.iter().map(|page| page.context.passages.len()).collect();
    assert_eq!(sizes, [10, 10, 10, 10, 10], "every cluster comes once");
    // 123 leaves match, and the legs are read to 100; what is left for the last page is fewer.
    let totals: Vec<_> = pages.iter().map(|page| wire::search(page).total).collect();
    assert_eq!((totals[0].clusters <= 50, totals[0].relation.as_ref()), (true, "at least"));
    assert_eq!((totals[4].clusters, totals[4].relation.as_ref()), (50, "exact"));
    // The last one has no more than it delivers, and says so where its leaves would have been enough without duplicates.
    let mut warnings = pages.iter().take(4).flat_map(|page| &page.warnings);
    assert!(warnings.all(|warning| !warning.contains("distinct clusters:")));
}

#[test]
fn totals_are_exact_where_every_match_was_met() {
    let place = fifty_clusters();
    let engine = place.engine(&[]);
    let sets = ["search.fusion_depth=400"];
    let request =
        SearchRequest { limit: Some(20), ..SearchRequest::new("heron reed", config(&sets)) };
    let pages = pages(&engine, &request);
    check_distinct(&pages);
    let totals: Vec<usize> = pages.iter().map(|page| page.total_clusters).collect();
    assert_eq!(totals, [50, 50, 50]);
    assert!(pages.iter().all(|page| page.reading.is_whole));
}

#[test]
fn pages_of_sections_repeat_no_byte() {
    let mut files = Vec::new();
    for copy in 0..2 {
        for page in 0..4 {
            let sections: String = (0..6)
                .map(|n| {
                    format!(
                        "## Step {n}\n\n{} cluster {}\n\n",
                        "The heron wades on. ".repeat(20 + n),
                        page * 6 + n
                    )
                })
                .collect();
            files.push(file(format!("{copy}/{page}.md"), format!("# Page {page}\n\n{sections}")));
        }
    }
    let place = Place::new(&files, &[], by_words);
    let engine = place.engine(&[]);
    for expand in ["none", "parent", "siblings:1", "tokens:60", "auto"] {
        for (budget, merge) in [("500", "true"), ("1500", "true"), ("700", "false")] {
            let sets = [
                format!("search.expand={expand}"),
                format!("search.budget={budget}"),
                format!("merge.enabled={merge}"),
            ];
            let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
            let pages = pages(&engine, &SearchRequest::new("heron wades", config(&sets)));
            check_distinct(&pages);
            assert!(pages.len() > 1, "{sets:?}");
            let met: BTreeSet<ClusterId> = pages.iter().flat_map(clusters).collect();
            // Steps that a passage brought along are not met again; all that is evidence is there once.
            assert!(met.len() <= 24 && met.len() > 4, "{sets:?}: {}", met.len());
        }
    }
}

/// A thousand leaves about herons: the best `copies` say the same, the others are in so many clusters, 0 for each its own.
fn thousand(copies: usize, clusters: usize) -> Place {
    let mut files = Vec::new();
    for n in 0..1000 {
        let text = if n < copies {
            format!("Heron, heron, heron, heron. cluster 200 {n}\n")
        } else if clusters > 0 {
            format!("A heron was seen once more by number {n}. cluster {}\n", n % clusters)
        } else {
            format!("A heron was seen once more by number {n}.\n")
        };
        files.push(file(format!("{n}.md"), text));
    }
    Place::new(&files, &[], by_words)
}

const TEN: [&str; 2] = ["search.depth=10", "search.budget=20000"];

#[test]
fn d4_copies_that_fill_the_list_cost_one_further_search() {
    let place = thousand(60, 0);
    let engine = place.engine(&[]);
    let of_60 = [&TEN[..], &["search.k_prime=60", "search.fusion_depth=60"]].concat();
    let response = ask(&engine, "heron", &of_60);
    assert!(response.reading.retry);
    let found = clusters(&response);
    assert_eq!(found.len(), 10);
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), 10);
    assert_eq!(found[0], ClusterId([200; 16]), "the copies keep their rank");
    assert_eq!((response.trace.shortfall, response.shortage.clone()), (0, None));
    assert_eq!((response.reading.k_prime, response.trace.retrieved), (240, 240));
    assert_eq!(response.trace.examined, 69, "sixty copies, and nine others");
    // Without a second search there is one, and a warning that names it.
    let once = [&of_60[..], &["collapse.retry_factor=0"]].concat();
    let response = ask(&engine, "heron", &once);
    assert!(!response.reading.retry);
    let shortage = response.shortage.unwrap();
    assert_eq!((shortage.query.as_str(), shortage.wanted), ("heron", 10));
    assert_eq!(shortage.clusters, [(ClusterId([200; 16]), 60)]);
    let words = &response.warnings[1];
    assert!(
        words.contains("distinct clusters: 1 of 10 wanted, in 60 leaves, 60 of which"),
        "{words}"
    );
    assert!(words.contains(&ClusterId([200; 16]).to_string()), "{words}");
}

#[test]
fn d7_a_list_as_short_as_what_is_wanted_is_made_up_for() {
    let place = thousand(60, 0);
    let engine = place.engine(&[]);
    for k_prime in ["10", "12", "30"] {
        let k_prime = format!("search.k_prime={k_prime}");
        let response =
            ask(&engine, "heron", &[&TEN[..], &[&k_prime, "search.fusion_depth=10"]].concat());
        assert!(response.reading.retry);
        let found: BTreeSet<ClusterId> = clusters(&response).into_iter().collect();
        assert_eq!((found.len(), response.shortage), (10, None), "{k_prime}");
    }
}

#[test]
fn what_a_second_search_cannot_find_is_delivered_short_with_a_warning() {
    let place = thousand(500, 3);
    let engine = place.engine(&[]);
    let response = ask(&engine, "heron", &TEN);
    assert!(response.reading.retry);
    let json = wire::search(&response);
    let shortage = json.trace.shortage.unwrap();
    assert_eq!((shortage.wanted, shortage.clusters.len(), json.trace.shortfall), (10, 4, 6));
    assert_eq!(shortage.query.as_deref(), Some("heron"));
    assert!(json.trace.warnings.iter().any(|w| w.starts_with("distinct clusters: 4 of 10 wanted")));
    // A list that fills the budget is short all the same, and needs no words about it.
    let filled = ask(&engine, "heron", &["search.depth=10", "search.budget=20"]);
    assert!(filled.shortage.is_some());
    assert!(filled.warnings.iter().all(|warning| !warning.contains("distinct clusters:")));
}

#[test]
fn a_small_store_is_not_warned_about() {
    let place = two_copies();
    let response = ask(&place.engine(&[]), "invoice dispute window", &[]);
    assert_eq!((response.trace.shortfall, response.shortage), (58, None));
    assert!(!response.reading.retry && response.reading.is_whole);
}

#[test]
fn the_head_is_the_same_at_every_length() {
    let place = fifty_clusters();
    let engine = place.engine(&[]);
    let head = |k_prime: usize, policy: &str| {
        let sets = [format!("search.k_prime={k_prime}"), format!("collapse.policy={policy}")];
        let sets: Vec<&str> = TEN.iter().copied().chain(sets.iter().map(String::as_str)).collect();
        let response = ask(&engine, "heron reed pond 2", &sets);
        let passages = wire::search(&response).context.passages;
        let head = passages.iter().map(|p| (p.cluster.id.clone(), p.cluster.score.to_bits()));
        head.collect::<Vec<_>>()
    };
    let long = head(60, "fresh");
    assert_eq!(long.len(), 10);
    for (k_prime, policy) in
        [(10, "fresh"), (14, "fresh"), (24, "fresh"), (60, "score"), (14, "score")]
    {
        assert_eq!(head(k_prime, policy), long, "k' = {k_prime}");
    }
}

#[test]
fn d5_a_cursor_is_good_for_its_own_search_only() {
    let place = fifty_clusters();
    let engine = place.engine(&[]);
    let request = SearchRequest::new("heron reed", config(&[]));
    let request = SearchRequest { limit: Some(10), ..request };
    let first = block_on(engine.search(&request)).unwrap();
    let cursor = first.cursor.clone().unwrap();
    let next = |engine: &Engine, cursor: &str, change: &dyn Fn(&mut SearchRequest)| {
        let mut request = SearchRequest { cursor: Some(cursor.to_owned()), ..request.clone() };
        change(&mut request);
        block_on(engine.search(&request))
    };
    let refused = |engine: &Engine, cursor: &str, change: &dyn Fn(&mut SearchRequest)| match next(
        engine, cursor, change,
    ) {
        Err(EngineError::Cursor(error)) => error,
        other => panic!("{other:?}"),
    };
    let foreign = |what| CursorError::Foreign { what };
    let other_query = |request: &mut SearchRequest| "heron".clone_into(&mut request.query);
    assert_eq!(refused(&engine, &cursor, &other_query), foreign("question"));
    let other_filter = |request: &mut SearchRequest| {
        request.filter = Filter::parse(&["path=1*".to_owned()]).unwrap();
    };
    assert_eq!(refused(&engine, &cursor, &other_filter), foreign("question"));
    let other_budget = |request: &mut SearchRequest| request.config = config(&["search.budget=99"]);
    assert_eq!(refused(&engine, &cursor, &other_budget), foreign("configuration"));
    let other_store = fifty_clusters();
    assert_eq!(refused(&other_store.engine(&[]), &cursor, &|_| {}), foreign("store"));
    for damaged in ["", "x", "AQ", cursor.get(2..).unwrap(), &cursor.replacen('A', "B", 1), "é"] {
        assert_eq!(refused(&engine, damaged, &|_| {}), CursorError::Damaged, "{damaged}");
    }
    // Another page size is fine: the page is a search of its own.
    let second = next(&engine, &cursor, &|request| request.limit = Some(5)).unwrap();
    assert_eq!(second.context.passages.len(), 5);
    check_distinct(&[first.clone(), second]);

    drop(engine);
    fs_err::write(place.dir.path().join("docs/fresh.md"), "Another heron in the reed.\n").unwrap();
    place.ingest(&[]);
    let engine = place.engine(&[]);
    let later = next(&engine, &cursor, &|_| {}).unwrap();
    let warned = later.warnings.iter().any(|w| w.starts_with("the store has changed since"));
    assert!(warned, "{:?}", later.warnings);
    check_distinct(&[first, later]);
}

#[test]
fn d10_two_wordings_with_one_hit_deliver_no_byte_twice() {
    let text: String = (0..12).map(|n| format!("The heron counts to {n}. ")).collect();
    let place =
        Place::new(&[file("a.md", format!("# A\n\n{text}\n"))], &["leaf.target=16"], by_words);
    let engine = place.engine(&["leaf.target=16"]);
    for expand in ["sentences:2", "tokens:30", "siblings:1"] {
        let sets = ["leaf.target=16", "merge.enabled=false", &format!("search.expand={expand}")];
        let mut request = SearchRequest::new("heron counts to 5", config(&sets));
        request.also = vec!["heron counts to 6".to_owned()];
        let response = block_on(engine.search(&request)).unwrap();
        assert!(!response.context.passages.is_empty());
        check_distinct(std::slice::from_ref(&response));
        for (at, passage) in response.context.passages.iter().enumerate() {
            let others = &response.context.passages[at + 1..];
            assert!(others.iter().all(|other| !other.span.overlaps(passage.span)), "{expand}");
        }
    }
}

#[test]
fn of_mirrored_sections_one_is_merged_and_no_copy_is_left() {
    let section =
        |n: u32| format!("### Step {n}\n\n{} cluster {n}\n\n", "Turn the brass valve. ".repeat(20));
    let page: String = (1..4).map(section).collect();
    let page = format!("# Boiler\n\n## Valves\n\n{page}## Pumps\n\nNothing to see.\n");
    let place = Place::new(&[file("a.md", page.clone()), file("b.md", page)], &[], by_words);
    let engine = place.engine(&[]);
    for rule in ["merge.rule=ratio", "merge.rule=budget"] {
        let response = ask(&engine, "brass valve", &[rule]);
        let json = wire::search(&response);
        assert_eq!(json.trace.fires.len(), 1, "{rule}");
        let passage = &json.context.passages[0];
        assert_eq!((json.context.passages.len(), passage.evidence.len()), (1, 3), "{rule}");
        assert_eq!(passage.kind, "merged");
        assert_eq!(json.trace.blocked.iter().filter(|b| b.reason == "rival").count(), 1, "{rule}");
    }
}

fn records(place: &Place) -> Vec<LogRecord> {
    let mut records = Vec::new();
    let log = QueryLog::of(&Layout::new(&place.store()));
    log.read(Days::default(), &mut |record| {
        records.push(record);
        Continue(())
    })
    .unwrap();
    records
}

#[test]
fn the_log_keeps_how_far_a_list_was_read_and_its_candidates_when_asked() {
    let place = fifty_clusters();
    let engine = place.engine(&[]);
    ask(&engine, "heron reed", &TEN);
    let response = ask(&engine, "heron reed", &[&TEN[..], &["log.candidates=true"]].concat());
    let records = records(&place);
    let trace = &records[0].trace;
    assert_eq!((trace.depth, trace.k_prime, trace.fused, trace.exhausted), (10, 100, 100, false));
    assert_eq!(trace.fused - trace.repeats.len(), response.total_clusters);
    assert_eq!(trace.examined, response.trace.examined);
    assert_eq!(records[0].candidates, None);
    let candidates = records[1].candidates.as_ref().unwrap();
    assert_eq!(candidates.len(), 100);
    for (kept, hit) in candidates.iter().zip(&response.candidates) {
        assert_eq!(kept.0.parse::<LeafId>().unwrap(), hit.record.leaf);
        let cluster = kept.2.as_ref().map(|id| id.parse::<ClusterId>().unwrap());
        assert_eq!(cluster.unwrap_or(hit.record.leaf.into()), hit.record.cluster);
        let scores = (None, hit.scores.lexical, hit.scores.fused);
        assert_eq!((kept.1, (kept.3, kept.4, kept.5)), (hit.record.doc.0, scores));
    }
}

#[test]
fn a_log_of_hashes_keeps_no_question_of_a_short_list() {
    let place = thousand(300, 3);
    let engine = place.engine(&[]);
    let response = ask(&engine, "heron", &[&TEN[..], &["log.queries=hash"]].concat());
    assert!(response.shortage.is_some());
    let records = records(&place);
    let shortage = records[0].trace.shortage.as_ref().unwrap();
    assert_eq!((shortage.query.as_ref(), shortage.clusters.len()), (None, 4));
    let line = serde_json::to_string(&records[0]).unwrap();
    assert!(!line.contains("heron"), "{line}");
}
