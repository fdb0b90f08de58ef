//! A program that uses the library: open, index, search, at once and from several places.

use futures_lite::future::block_on;
use std::ops::ControlFlow::Continue;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use umbel::config::Config;
use umbel::embed::{EmbedError, Embedder, EmbedderInfo};
use umbel::engine::Engine;
use umbel::engine::answer::{AskRequest, SearchRequest};
use umbel::engine::ingest::IngestRequest;
use umbel::engine::wire;
use umbel::rerank::{RerankError, RerankRequest, Reranker, RerankerInfo};

fn config(sets: &[&str]) -> Config {
    Config::load(None, &[], &sets.iter().map(|&set| set.to_owned()).collect::<Vec<_>>()).unwrap()
}

fn engine(dir: &std::path::Path) -> Engine {
    let docs = dir.join("docs");
    fs_err::create_dir_all(&docs).unwrap();
    for name in ["pumps", "valves", "boilers"] {
        let steps: String = (0..6)
            .map(|n| format!("## Step {n}\n\nThe {name} are opened. They run for {n} hours. Then they rest.\n\n"))
            .collect();
        fs_err::write(docs.join(format!("{name}.md")), format!("# {name}\n\n{steps}")).unwrap();
    }
    block_on(async {
        let engine = Engine::open(&dir.join("store"), Config::default(), None, &|_| Continue(()))
            .await
            .unwrap();
        engine
            .ingest(&[IngestRequest { path: docs, ..Default::default() }], &|_| Continue(()))
            .await
            .unwrap();
        engine
    })
}

#[test]
fn searches_at_once_answer_as_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Arc::new(engine(dir.path()));
    let ask = |engine: &Engine, query: &str| {
        let request = SearchRequest::new(query, config(&["log.enabled=false"]));
        let mut answer = wire::search(&block_on(engine.search(&request)).unwrap());
        answer.trace.timings_ms.clear();
        serde_json::to_string(&answer).unwrap()
    };
    let queries = ["pumps run", "valves opened", "boilers rest", "step 3 pumps"];
    let alone = queries.map(|query| ask(&engine, query));
    let threads: Vec<_> = (0..8)
        .map(|at| {
            let (engine, alone) = (Arc::clone(&engine), alone.clone());
            std::thread::spawn(move || {
                for turn in 0..10 {
                    let which = (at + turn) % queries.len();
                    assert_eq!(ask(&engine, queries[which]), alone[which]);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_search_can_be_sent_to_another_thread_and_dropped() {
    fn is_send<T: Send>(future: T) -> T {
        future
    }
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let request = SearchRequest::new("pumps run", Config::default());
    drop(is_send(engine.search(&request)));
    let asked = AskRequest { search: request.clone(), template: None };
    let mut on_delta = |_: &str| Continue(());
    drop(is_send(engine.ask(&asked, &mut on_delta)));
    assert!(!block_on(engine.search(&request)).unwrap().context.passages.is_empty());
}

#[test]
fn compression_keeps_offsets_and_says_what_it_removed() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let plain =
        block_on(engine.search(&SearchRequest::new(
            "how long do pumps rest",
            config(&["search.expand=parent"]),
        )))
        .unwrap();
    let sets = ["search.expand=parent", "search.keep=0.4"];
    let compressed =
        block_on(engine.search(&SearchRequest::new("how long do pumps rest", config(&sets))))
            .unwrap();
    let json = wire::search(&compressed);
    let (before, after) = compressed.compressed.unwrap();
    assert_eq!(before, plain.context.tokens);
    assert!(after == compressed.context.tokens && after < before, "{after} of {before}");
    let removed = json.trace.compressed.unwrap().removed;
    assert!((removed - (1.0 - after as f64 / before as f64)).abs() < 1e-9);
    for (passage, whole) in json.context.passages.iter().zip(&plain.context.passages) {
        assert_eq!((passage.span.start, passage.span.end), (whole.span.start, whole.span.end));
        let pieces: Vec<&str> = passage
            .kept
            .iter()
            .map(|piece| {
                let (start, end) =
                    (piece.start - passage.span.start, piece.end - passage.span.start);
                passage.text.get(start..end).unwrap()
            })
            .collect();
        assert!(pieces.is_empty() || passage.rendered.ends_with(&pieces.join(" […] ")));
    }
}

#[test]
fn where_nothing_is_found_nothing_is_compressed() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let request = SearchRequest::new("zebra", config(&["search.keep=0.4"]));
    let answer = block_on(engine.search(&request)).unwrap();
    assert!(answer.context.passages.is_empty());
    assert_eq!(wire::search(&answer).trace.compressed, None);
}

/// Takes its time, and then fails.
struct Slow(RerankerInfo);

#[async_trait::async_trait]
impl Reranker for Slow {
    fn describe(&self) -> &RerankerInfo {
        &self.0
    }

    async fn rerank(&self, _: &RerankRequest<'_>) -> Result<Vec<f32>, RerankError> {
        std::thread::sleep(std::time::Duration::from_millis(30));
        Ok(Vec::new())
    }
}

#[test]
fn the_time_of_a_reranker_that_fails_is_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let slow = Slow(RerankerInfo { model: "slow".to_owned() });
    let engine = engine(dir.path()).with_reranker(Arc::new(slow));
    let answer =
        block_on(engine.search(&SearchRequest::new("pumps run", Config::default()))).unwrap();
    let took = wire::search(&answer).trace.timings_ms;
    assert!(took["rerank"] >= 30.0, "{took:?}");
    assert!(answer.warnings.iter().any(|w| w.contains("0 scores for")), "{:?}", answer.warnings);
}

/// Embeds everything in one direction, until it breaks.
struct Breaks(EmbedderInfo, AtomicBool);

#[async_trait::async_trait]
impl Embedder for Breaks {
    fn describe(&self) -> &EmbedderInfo {
        &self.0
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.split_whitespace().count()
    }

    async fn embed_passages(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if self.1.load(Ordering::Relaxed) {
            return Err(EmbedError::Run { source: "the model is gone".into() });
        }
        Ok(texts.iter().map(|_| vec![1.0, 0.0]).collect())
    }

    async fn embed_query(&self, _: &str) -> Result<Vec<f32>, EmbedError> {
        Ok(vec![1.0, 0.0])
    }
}

#[test]
fn a_model_that_breaks_in_compression_costs_the_compression() {
    let dir = tempfile::tempdir().unwrap();
    fs_err::write(dir.path().join("a.md"), "# Pumps\n\nThey run. They rest.\n").unwrap();
    let info = EmbedderInfo { model: "breaks".to_owned(), dimension: 2, max_tokens: 100 };
    let embedder = Arc::new(Breaks(info, AtomicBool::new(false)));
    let answer = block_on(async {
        let store = dir.path().join("store");
        let model = Some(Arc::clone(&embedder) as Arc<dyn Embedder>);
        let go_on = |_| Continue(());
        let engine = Engine::open(&store, Config::default(), model, &go_on).await.unwrap();
        let request = IngestRequest { path: dir.path().join("a.md"), ..Default::default() };
        engine.ingest(&[request], &go_on).await.unwrap();
        embedder.1.store(true, Ordering::Relaxed);
        engine.search(&SearchRequest::new("rest", config(&["search.keep=0.5"]))).await.unwrap()
    });
    assert!(answer.context.passages[0].kept.is_empty());
    let warned = answer
        .warnings
        .iter()
        .any(|w| w.contains("not all is compressed: embedding failed: the model is gone"));
    assert!(warned, "{:?}", answer.warnings);
}

#[test]
fn what_compression_shows_is_within_what_it_counts() {
    use umbel::core::offsets::TokenCounter as _;
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    for keep in ["0.1", "0.3", "0.6", "0.9"] {
        let keep = format!("search.keep={keep}");
        let request = SearchRequest::new("pumps run", config(&["search.expand=parent", &keep]));
        let answer = wire::search(&block_on(engine.search(&request)).unwrap());
        for passage in answer.context.passages {
            let count = umbel::tokens::OpenAiTokens::o200k().count(&passage.rendered);
            assert!(count <= passage.tokens, "{count} of {}: {}", passage.tokens, passage.rendered);
        }
    }
}
