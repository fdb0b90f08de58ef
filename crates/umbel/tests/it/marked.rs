//! Clusters in a store: what a run writes into the index, and what is left when it is reverted.

use futures_lite::future::block_on;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow::{Break, Continue};
use std::path::Path;
use umbel::catalog::Catalog as _;
use umbel::catalog::sqlite::SqliteCatalog;
use umbel::config::Config;
use umbel::core::id::LeafId;
use umbel::dedup::Method;
use umbel::engine::ingest::IngestRequest;
use umbel::engine::{Engine, EngineError, Progress};
use umbel::index::edge::{EdgeIndex, EdgeOptions};
use umbel::index::{Index as _, Kept};
use umbel::store::Layout;

fn open(store: &Path) -> Engine {
    block_on(Engine::open(store, Config::default(), None, &|_| Continue(()))).unwrap()
}

fn index(store: &Path, docs: &Path) {
    let request = IngestRequest { path: docs.to_owned(), ..IngestRequest::default() };
    block_on(open(store).ingest(&[request], &|_| Continue(()))).unwrap();
}

/// What the index keeps of every leaf of the catalog, read when nobody holds the store.
fn kept(store: &Path) -> BTreeMap<LeafId, Kept> {
    let layout = Layout::new(store);
    let catalog = SqliteCatalog::open(&layout.catalog()).unwrap();
    let index = EdgeIndex::open(&layout.index(), &EdgeOptions { dimension: None }).unwrap();
    block_on(async {
        let mut kept = BTreeMap::new();
        for entry in catalog.list().await.unwrap() {
            let stored = catalog.load(&[entry.id]).await.unwrap().remove(0).unwrap();
            let found = index.fetch(&stored.leaf_ids).await.unwrap();
            for (leaf, found) in stored.leaf_ids.iter().zip(found) {
                kept.insert(*leaf, found.unwrap());
            }
        }
        kept
    })
}

fn write(docs: &Path, texts: &[&str]) {
    fs_err::create_dir_all(docs).unwrap();
    for (at, text) in texts.iter().enumerate() {
        fs_err::write(docs.join(format!("{at}.md")), text).unwrap();
    }
}

const SENTENCES: [&str; 4] = [
    "The pump runs for a while and then it rests until somebody starts it again by hand, as the book asks.",
    "Write to the office and name the line of the letter that you are not content with, and say the reason.",
    "Nobody may enter the hall while the light above the door is red or while the bell rings for the shift.",
    "All of this is checked once a year by people who were never seen here before that, and never are again.",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn a_run_that_is_reverted_leaves_no_trace(
        pages in prop::collection::vec(prop::collection::vec(0_usize..4, 1..4), 2..16),
        jaccard in 0.5_f64..1.0,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (store, docs) = (dir.path().join("store"), dir.path().join("docs"));
        let texts: Vec<String> = pages
            .iter()
            .map(|page| page.iter().map(|&at| SENTENCES[at]).collect::<Vec<_>>().join("\n\n"))
            .collect();
        write(&docs, &texts.iter().map(String::as_str).collect::<Vec<_>>());
        index(&store, &docs);
        let before = kept(&store);
        let run = |method| block_on(open(&store).mark_duplicates(method, &|_| Continue(()))).unwrap();
        let near = run(Method::Near { jaccard });
        let marked = kept(&store);
        let changed = marked.iter().filter(|(leaf, kept)| before[leaf] != **kept).count();
        prop_assert_eq!(changed, near.members);
        let exact = run(Method::Exact);
        prop_assert!(exact.members <= near.members, "the same text is near");
        let revert = |id| block_on(open(&store).revert_duplicates(id, &|_| Continue(()))).unwrap();
        prop_assert_eq!(revert(exact.id), Some(near.id));
        prop_assert_eq!(kept(&store), marked);
        prop_assert_eq!(revert(near.id), None);
        prop_assert_eq!(kept(&store), before);
    }
}

#[test]
fn a_run_that_is_stopped_leaves_the_one_before_in_effect() {
    let dir = tempfile::tempdir().unwrap();
    let (store, docs) = (dir.path().join("store"), dir.path().join("docs"));
    let (page, other) = (SENTENCES.concat(), SENTENCES[1]);
    write(&docs, &[&page, &page, other]);
    index(&store, &docs);
    let first = block_on(open(&store).mark_duplicates(Method::Exact, &|_| Continue(()))).unwrap();
    let marked = kept(&store);
    for step in [Progress::Reading(0, 3), Progress::Comparing(0, 1)] {
        let stop = |at: Progress| {
            if std::mem::discriminant(&at) == std::mem::discriminant(&step) {
                Break(())
            } else {
                Continue(())
            }
        };
        write(&docs, &[&page, &page, &page.replace("by hand", "by foot")]);
        index(&store, &docs);
        let stopped = block_on(open(&store).mark_duplicates(Method::default(), &stop));
        assert!(matches!(stopped, Err(EngineError::Interrupted)), "{step:?}: {stopped:?}");
        let info =
            block_on(SqliteCatalog::open(&Layout::new(&store).catalog()).unwrap().describe());
        assert_eq!(info.unwrap().cluster_run, Some(first.id));
        assert!(marked.keys().filter(|leaf| kept(&store).contains_key(leaf)).count() >= 2);
    }
    let last =
        block_on(open(&store).mark_duplicates(Method::default(), &|_| Continue(()))).unwrap();
    assert_eq!((last.clusters, last.members), (1, 3));
}
