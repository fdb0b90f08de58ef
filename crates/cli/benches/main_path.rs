//! The main path in numbers, leaf building aside: `cargo xtask bench [FILTER]`.
//!
//! Each row gives the median of several runs, and its spread; compare rows of one run only.

#![expect(clippy::unwrap_used, reason = "a bench stops at the first surprise")]

mod dupes;
mod ingest;
mod mirror;
mod quality;
mod sweep;

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use umbel::config::Config;
use umbel::core::collapse::{Policy, Standing, Standings, collapse, repeats};
use umbel::core::document::{Document, Library};
use umbel::core::expand::Expansion;
use umbel::core::hit::{self, Ancestor, Fusion, Hit, LeafRecord, RankedList, Scores, fuse};
use umbel::core::id::{DocId, LeafId};
use umbel::core::merge::{MergeConfig, Rule};
use umbel::core::outline::Format;
use umbel::core::pack::{Order, PackConfig};
use umbel::core::span::Span;
use umbel::core::trace::{AssembleConfig, assemble};
use umbel::embed::Embedder as _;
use umbel::embed::local::{LocalEmbedder, LocalOptions};
use umbel::engine::ingest::{leaf_ids, leaf_records};
use umbel::index::edge::{EdgeIndex, EdgeOptions};
use umbel::index::lexical::LexicalEncoder;
use umbel::index::{Clause, Facets, Index as _, Leg, Point, SearchRequest, SparseVector, Test};
use umbel::model::{FetchOptions, ModelSpec, fetch};
use umbel::read::{self, Draft};
use umbel::tokens::OpenAiTokens;

fn main() {
    umbel::formats::worker::serve();
    if ingest::serve() || dupes::serve() {
        return;
    }
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let benches: [(&str, fn()); 8] = [
        ("assemble", assembly),
        ("embed", embedding),
        ("search", searching),
        ("ingest", ingest::ingestion),
        ("dupes", dupes::duplicates),
        ("quality", quality::quality),
        ("mirror", mirror::mirrored),
        ("sweep", sweep::sweep),
    ];
    for (name, bench) in benches {
        if name.contains(&filter) {
            bench();
        }
    }
}

fn row(name: &str, value: &str) {
    print(&format!("{name:<58} {value}"));
}

#[expect(clippy::print_stdout, reason = "the bench's own report")]
fn print(line: &str) {
    println!("{line}");
}

/// The median and the extremes of `n` runs.
fn timed(n: usize, mut run: impl FnMut()) -> (Duration, Duration, Duration) {
    let mut times: Vec<Duration> = (0..n)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    (times[n / 2], times[0], times[n - 1])
}

fn rate(amount: f64, (median, best, worst): (Duration, Duration, Duration), unit: &str) -> String {
    let per = |time: Duration| amount / time.as_secs_f64();
    format!("{:.1} {unit} ({:.1} to {:.1})", per(median), per(worst), per(best))
}

/// Three public Markdown corpora, by name; none where the shared test data is not beside the repository.
fn corpora() -> Vec<(&'static str, Vec<String>)> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let names = ["rust-book", "sprawling-sourcegraph-handbook", "tight-redis-doc"];
    let found = names.map(|name| (name, pages(shared.join(name).join("corpus"))));
    found.into_iter().filter(|(_, pages)| !pages.is_empty()).collect()
}

/// The Markdown pages below a folder, in order of their paths; none where there is no folder.
fn pages(folder: PathBuf) -> Vec<String> {
    let mut pages = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs_err::read_dir(folder) else { continue };
        let mut entries: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                pages.extend(fs_err::read_to_string(path).ok());
            }
        }
    }
    pages
}

fn samples() -> Vec<String> {
    pages(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples"))
}

/// The pages of the corpora, or of the samples where they are not there.
fn markdown() -> Vec<String> {
    let pages: Vec<String> = corpora().into_iter().flat_map(|(_, pages)| pages).collect();
    if pages.is_empty() { samples() } else { pages }
}

/// The samples, again and again, up to about 8 MB.
fn corpus() -> Vec<String> {
    let pages = samples();
    let once: usize = pages.iter().map(String::len).sum();
    let times = (8_000_000 / once).max(1);
    pages.iter().cycle().take(pages.len() * times).cloned().collect()
}

/// A page as it is taken in.
fn document(page: &str, config: &Config, counter: &OpenAiTokens) -> Document {
    read::document(
        Draft::of_text(page.to_owned(), Format::Markdown),
        None,
        "t",
        config,
        counter,
        None,
    )
}

fn assembly() {
    let (config, counter) = (Config::default(), OpenAiTokens::o200k());
    let pages = corpus();
    let documents: Vec<Document> = pages
        .iter()
        .take(45)
        .map(|page| document(page, &config, &counter))
        .filter(|document| document.tree.leaves.len() > 3)
        .collect();
    let library: Library<'_> =
        documents.iter().enumerate().map(|(at, d)| (DocId(at as u64), d)).collect();
    let hits: Vec<Hit> = (0..60)
        .map(|rank| {
            // Neighbouring leaves of few documents, so that rules fire and spans touch.
            let at = (rank * 7) % documents.len().min(12);
            let document = &documents[at];
            let ordinal = (rank * 5 / 3) % document.tree.leaves.len();
            hit(document, at, ordinal, rank)
        })
        .collect();
    let by_budget =
        MergeConfig { rule: Rule::Budget { base: 0.25, flat_base: 0.5 }, ..MergeConfig::default() };
    collapsing(&hits);
    let ways = [
        ("merge, expand none", MergeConfig::default(), Expansion::None),
        ("merge by budget, expand none", by_budget, Expansion::None),
        ("merge, expand parent", MergeConfig::default(), Expansion::Parent),
        ("merge, expand siblings:1", MergeConfig::default(), Expansion::Siblings(1)),
        ("merge, expand sentences:3", MergeConfig::default(), Expansion::Sentences(3)),
        ("merge, expand auto", MergeConfig::default(), Expansion::Auto),
    ];
    for (name, merge, expansion) in ways {
        let settings = AssembleConfig {
            depth: 60,
            merge,
            expansion,
            parent_cap_tokens: 800,
            pack: PackConfig {
                budget_tokens: 4000,
                reserve_tokens: 0,
                limit: None,
                order: Order::Evidence,
            },
        };
        let mut times: Vec<Duration> = (0..2000)
            .map(|_| {
                let hits = hits.clone();
                let start = Instant::now();
                black_box(assemble(hits, &library, &settings, None));
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        let at = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e6;
        row(
            &format!("collapse, {name}, pack 60 hits"),
            &format!("{:.0} µs p50, {:.0} µs p95", at(0.5), at(0.95)),
        );
    }
}

/// Collapse alone: no duplicates, then three members a cluster in documents of different standing.
fn collapsing(hits: &[Hit]) {
    let standings: Standings = (0..45_u32)
        .map(|doc| {
            let updated_at = Some(i64::from(doc % 7));
            (DocId(doc.into()), Standing { authority: 0, updated_at })
        })
        .collect();
    let in_threes: Vec<Hit> = hits
        .iter()
        .enumerate()
        .map(|(at, hit)| {
            let mut hit = hit.clone();
            hit.record.leaf = LeafId([at as u8; 16]);
            hit.record.cluster = LeafId([at as u8 / 3; 16]).into();
            hit
        })
        .collect();
    for (name, hits) in [("none alike", hits), ("in threes", &in_threes)] {
        let mut times: Vec<Duration> = (0..2000)
            .map(|_| {
                let hits = hits.to_vec();
                let start = Instant::now();
                let mut list = collapse(hits, 60);
                list.choose(Policy::Authority, &standings);
                black_box(list);
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        let at = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e6;
        row(
            &format!("collapse 60 hits, {name}"),
            &format!("{:.1} µs p50, {:.1} µs p95", at(0.5), at(0.95)),
        );
    }
}

fn hit(document: &Document, doc: usize, ordinal: usize, rank: usize) -> Hit {
    let ids = leaf_ids("s", &doc.to_string(), document);
    let record = leaf_records(DocId(doc as u64), document, &ids).nth(ordinal).unwrap();
    Hit { record, scores: Scores { fused: 1.0 / (rank as f32 + 1.0), ..Scores::default() } }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn embedding() {
    let folder =
        fetch(&ModelSpec::default(), &FetchOptions::from_env().unwrap(), &mut |_| {}).unwrap();
    let load = |int8| {
        LocalEmbedder::load(&folder, &LocalOptions { int8, ..LocalOptions::default() }).unwrap()
    };
    let embedders = [("fp32", load(false)), ("int8", load(true))];
    // 123 words that are one word piece each, and the two special tokens.
    let words =
        ["the", "river", "door", "green", "house", "light", "water", "stone", "paper", "north"];
    let texts: Vec<String> = (0..64)
        .map(|n| {
            (0..123)
                .map(|at| words[(n * 3 + at * 7 + at / 9) % words.len()])
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    for (name, embedder) in &embedders {
        assert_eq!(embedder.count_tokens(texts[0]), 125);
        let passages = timed(5, || {
            black_box(block_on(embedder.embed_passages(&texts)).unwrap());
        });
        row(
            &format!("embedding, {name}, 125 tokens a chunk"),
            &rate(texts.len() as f64, passages, "chunks/s"),
        );
        let (median, best, worst) = timed(31, || {
            black_box(
                block_on(embedder.embed_query("how do I limit the memory that keys use")).unwrap(),
            );
        });
        row(
            &format!("embedding one query, {name}"),
            &format!("{:.1} ms ({:.1} to {:.1})", ms(median), ms(best), ms(worst)),
        );
    }
}

fn searching() {
    const POINTS: usize = 100_000;
    const DIMENSION: usize = 384;
    let dir = std::env::temp_dir().join(format!("umbel-bench-{}", std::process::id()));
    let index = EdgeIndex::open(&dir, &EdgeOptions { dimension: Some(DIMENSION) }).unwrap();
    let encoder = LexicalEncoder::new("english", 200).unwrap();
    let mut random = 42_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    // Vectors around 500 centres, as those of texts on 500 subjects.
    let centres: Vec<Vec<f32>> =
        (0..500).map(|_| (0..DIMENSION).map(|_| unit(next())).collect()).collect();
    let start = Instant::now();
    let mut queries = Vec::new();
    for chunk in 0..POINTS / 1000 {
        let points: Vec<Point> = (0..1000)
            .map(|at| {
                let n = chunk * 1000 + at;
                let centre = &centres[(next() % 500) as usize];
                let dense = normal(centre.iter().map(|c| c + 0.6 * unit(next())).collect());
                let text: String =
                    (0..120).map(|_| format!("w{} ", zipf(next(), 30_000))).collect();
                if n % 500 == 0 {
                    let words: String =
                        (0..7).map(|_| format!("w{} ", zipf(next(), 30_000))).collect();
                    queries.push((dense.clone(), encoder.query(&words)));
                }
                point(n, dense, encoder.passage(&text))
            })
            .collect();
        block_on(index.upsert(points)).unwrap();
    }
    row("index: load 100,000 leaves", &format!("{:.1} s", start.elapsed().as_secs_f64()));
    let start = Instant::now();
    block_on(async {
        index.optimize().await.unwrap();
        index.flush().await.unwrap();
    });
    row("index: optimize", &format!("{:.1} s", start.elapsed().as_secs_f64()));
    for (name, dense, lexical) in
        [("dense", true, false), ("lexical", false, true), ("hybrid", true, true)]
    {
        for limit in [10, 100] {
            let mut times: Vec<Duration> = Vec::new();
            for (vector, words) in queries.iter().chain(&queries) {
                let start = Instant::now();
                if dense {
                    let request = SearchRequest {
                        leg: Leg::Dense(vector.clone()),
                        limit,
                        filter: Vec::new(),
                    };
                    black_box(block_on(index.search(&request)).unwrap());
                }
                if lexical {
                    let request = SearchRequest {
                        leg: Leg::Lexical(words.clone()),
                        limit,
                        filter: Vec::new(),
                    };
                    black_box(block_on(index.search(&request)).unwrap());
                }
                times.push(start.elapsed());
            }
            times.sort_unstable();
            let at = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e3;
            row(
                &format!("search at 100,000 leaves: {name}, top {limit}"),
                &format!("{:.2} ms p50, {:.2} ms p95", at(0.5), at(0.95)),
            );
        }
    }
    collapsed_searching(&index, &queries);
    drop(index);
    fs_err::remove_dir_all(dir).unwrap();
}

/// A search by both legs of a question.
type Search<'a> = dyn Fn(&[(hit::Leg, Leg)]) + 'a;

/// A hybrid search of sixty leaves, plain; with a hundred read and collapsed to sixty clusters; and with the second search, which
/// leaves the clusters of the first out.
fn collapsed_searching(index: &EdgeIndex, queries: &[(Vec<f32>, SparseVector)]) {
    let read = |legs: &[(hit::Leg, Leg)], limit: usize, filter: &[Clause]| {
        let lists: Vec<RankedList> = legs
            .iter()
            .map(|(kind, leg)| {
                let request = SearchRequest { leg: leg.clone(), limit, filter: filter.to_vec() };
                let found = block_on(index.search(&request)).unwrap().into_iter();
                let leaves = found.map(|scored| (scored.record, scored.score)).collect();
                RankedList { leg: *kind, weight: 0.5, leaves }
            })
            .collect();
        fuse(&lists, Fusion::Convex)
    };
    let standings = Standings::new();
    let ways: [(&str, &Search<'_>); 3] = [
        ("plain, 60 leaves", &|legs| {
            let mut hits = read(legs, 100, &[]);
            hits.truncate(60);
            black_box(hits);
        }),
        ("collapsed, k' 100, 60 clusters", &|legs| {
            let mut hits = read(legs, 100, &[]);
            black_box(repeats(&hits));
            hits.truncate(100);
            let mut list = collapse(hits, 60);
            list.choose(Policy::Authority, &standings);
            black_box(list);
        }),
        ("collapsed, with the second search", &|legs| {
            let mut hits = read(legs, 100, &[]);
            let known = hits.iter().take(30).map(|hit| hit.record.cluster).collect();
            let others = Clause { test: Test::Clusters(known), negated: true };
            hit::extend(&mut hits, read(legs, 400, &[others]));
            hits.truncate(400);
            let mut list = collapse(hits, 60);
            list.choose(Policy::Authority, &standings);
            black_box(list);
        }),
    ];
    let mut times = [const { Vec::new() }; 3];
    for (vector, words) in queries.iter().chain(queries) {
        let legs = [
            (hit::Leg::Dense, Leg::Dense(vector.clone())),
            (hit::Leg::Lexical, Leg::Lexical(words.clone())),
        ];
        // One after the other, so that what else the machine does slows all of them.
        for ((_, search), times) in ways.iter().zip(&mut times) {
            let start = Instant::now();
            search(&legs);
            times.push(start.elapsed());
        }
    }
    for ((name, _), mut times) in ways.into_iter().zip(times) {
        times.sort_unstable();
        let at = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e3;
        row(
            &format!("search at 100,000 leaves: hybrid, {name}"),
            &format!("{:.2} ms p50, {:.2} ms p95", at(0.5), at(0.95)),
        );
    }
}

/// A number between -1 and 1.
fn unit(bits: u64) -> f32 {
    (bits >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// A word's rank: small ones are frequent.
fn zipf(bits: u64, n: u64) -> u64 {
    let share = (bits >> 11) as f64 / (1_u64 << 53) as f64;
    ((n as f64).powf(share)) as u64
}

fn normal(vector: Vec<f32>) -> Vec<f32> {
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.into_iter().map(|x| x / norm).collect()
}

fn point(n: usize, dense: Vec<f32>, lexical: SparseVector) -> Point {
    let leaf = LeafId::of("bench", &n.to_string(), "", 0);
    let record = LeafRecord {
        leaf,
        doc: DocId((n / 20) as u64),
        span: Span::new(n % 20 * 800, n % 20 * 800 + 790),
        ordinal: (n % 20) as u32,
        tokens: 180,
        node: (n % 20) as u32 + 3,
        ancestors: vec![Ancestor { node: 1, children: 10 }, Ancestor { node: 0, children: 2 }],
        // One leaf in four is a copy of the one before it.
        cluster: LeafId::of("bench", &(n - usize::from(n % 4 == 3)).to_string(), "", 0).into(),
    };
    Point { record, facets: Facets::default(), dense: Some(dense), lexical }
}
