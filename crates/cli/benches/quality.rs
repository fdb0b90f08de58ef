//! Retrieval quality on judged questions: fusion and leaf target swept first, then what each rule delivers for a budget.
//!
//! The sets are folders with `corpus/` (Markdown) and `queries.jsonl`, below the folder that `UMBEL_JUDGED` names, or that of
//! the shared test data; the samples are always there. Vectors are kept between runs in the file that
//! `UMBEL_BENCH_VECTORS` names; with `UMBEL_BENCH_INT8` the model computes in bytes. `UMBEL_BENCH_SETTINGS` compares settings
//! of your own instead: rows with `;` between them, the settings of a row with `,`. With `UMBEL_BENCH_RUN` the passages of the
//! defaults go to a file, one line for each budget and question, as the peers' harness reads them.

use super::{block_on, print};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use umbel::config::Config;
use umbel::core::document::{Document, Library};
use umbel::core::hit::{self, RankedList, fuse};
use umbel::core::id::{DocId, LeafId};
use umbel::core::leaf::{EmbedLimit, embedded_text};
use umbel::core::outline::Format;
use umbel::core::support::support;
use umbel::core::trace::{Trace, assemble};
use umbel::embed::Embedder;
use umbel::embed::local::{LocalEmbedder, LocalOptions};
use umbel::engine::ingest::{leaf_ids, leaf_records};
use umbel::index::exact::ExactIndex;
use umbel::index::lexical::LexicalEncoder;
use umbel::index::{Facets, Index as _, Leg, Point, SearchRequest};
use umbel::model::{FetchOptions, ModelSpec, fetch};
use umbel::read::{self, Draft};
use umbel::tokens::OpenAiTokens;
use umbel_eval::judgment::{Judgment, Page, check, parse};
use umbel_eval::metric::{Place, evidence};

const BUDGETS: [usize; 4] = [500, 1000, 2000, 4000];
/// Leaves that each leg is read to.
const DEPTH: usize = 200;
/// The leaf target that rules are compared at, the default of the configuration.
pub(super) const TARGET: usize = 200;

/// A judged set before it is cut into leaves.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) pages: Vec<(String, String)>,
    pub(super) judgments: Vec<Judgment>,
}

/// A judged set, cut, embedded and searched: both lists of each question.
pub(super) struct Set<'a> {
    pub(super) source: &'a Source,
    pub(super) documents: Vec<Document>,
    pub(super) lists: Vec<Found>,
}

/// What both legs found for a question.
pub(super) struct Found {
    pub(super) dense: RankedList,
    pub(super) lexical: RankedList,
}

/// What a way of delivering came to over the questions of a set.
#[derive(Default)]
struct Score {
    recall: Vec<f64>,
    full: usize,
    precision: Vec<f64>,
    tokens: Vec<f64>,
    fired: usize,
}

pub(crate) fn quality() {
    let sources = sources();
    let mut vectors = Vectors::open();
    let sets: Vec<Set<'_>> = sources.iter().map(|s| cut(s, TARGET, &mut vectors)).collect();
    if let Ok(rows) = std::env::var("UMBEL_BENCH_SETTINGS") {
        for row in rows.split(';') {
            line(row, &sets, &configured(&row.split(',').collect::<Vec<_>>()));
        }
        return;
    }
    let parts = [
        ("Fusion: recall / full evidence, %, nothing raised or merged", fusions()),
        ("Support, at the other defaults", supports()),
        ("How far lists are read, at the other defaults", depths()),
        ("Rules, at the other defaults", rules()),
    ];
    for (title, ways) in parts {
        print(&format!("\n## {title}"));
        for (name, settings) in ways {
            line(&name, &sets, &configured(&settings));
        }
    }
    print("\n## Leaf target, at the other defaults");
    for target in [128, 160, 224, 256] {
        let sets: Vec<Set<'_>> = sources.iter().map(|s| cut(s, target, &mut vectors)).collect();
        line(&format!("{target}"), &sets, &Config::default());
    }
    if let Some(path) = std::env::var_os("UMBEL_BENCH_RUN") {
        write_run(&PathBuf::from(path), &sets, &Config::default());
    }
}

/// A way to answer: a name, and the settings that make it.
type Way = (String, Vec<String>);

/// Ways to fuse.
fn fusions() -> Vec<Way> {
    let plain = ["merge.enabled=false", "search.section_support=0", "search.document_support=0"];
    let way = |fusion: &str, weight: f32| {
        let sets = [format!("search.fusion={fusion}"), format!("search.lexical_weight={weight}")];
        let settings = plain.iter().map(|&set| set.to_owned()).chain(sets).collect();
        (format!("{fusion}, lexical {weight}"), settings)
    };
    let convex =
        [0.0, 0.25, 0.3, 0.4, 0.5, 0.55, 0.6, 0.7, 1.0].map(|weight| way("convex", weight));
    convex.into_iter().chain([0.25, 0.5].map(|weight| way("rrf", weight))).collect()
}

/// How much leaves raise each other.
fn supports() -> Vec<Way> {
    let shares = [
        (0.0, 0.0),
        (0.0, 0.1),
        (0.0, 0.2),
        (0.2, 0.0),
        (0.2, 0.1),
        (0.2, 0.2),
        (0.3, 0.0),
        (0.3, 0.1),
        (0.3, 0.2),
        (0.3, 0.3),
        (0.4, 0.2),
    ];
    shares
        .iter()
        .map(|(section, document)| {
            let sets = [
                format!("search.section_support={section}"),
                format!("search.document_support={document}"),
            ];
            (format!("section {section}, document {document}"), sets.to_vec())
        })
        .collect()
}

/// How far lists are read.
fn depths() -> Vec<Way> {
    let mut ways = Vec::new();
    for fusion_depth in [50, 100, 200] {
        for depth in [30, 60, 100] {
            let k_prime = depth.max(60);
            let sets = [
                format!("search.fusion_depth={fusion_depth}"),
                format!("search.depth={depth}"),
                format!("search.k_prime={k_prime}"),
            ];
            ways.push((format!("legs to {fusion_depth}, depth {depth}"), sets.to_vec()));
        }
    }
    ways
}

/// Ways to deliver.
fn rules() -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    let mut add = |name: &str, sets: &[&str]| {
        ways.push((name.to_owned(), sets.iter().map(|&set| set.to_owned()).collect()));
    };
    add("default", &[]);
    add("none", &["merge.enabled=false", "search.expand=none"]);
    for ratio in ["0.34", "0.5", "0.65", "0.8"] {
        let ratio_set = format!("merge.ratio={ratio}");
        add(
            &format!("merge, ratio {ratio}"),
            &["merge.rule=ratio", "search.expand=none", &ratio_set],
        );
        add(
            &format!("merge, ratio {ratio} of tokens"),
            &["merge.rule=ratio", "merge.ratio_by=tokens", "search.expand=none", &ratio_set],
        );
    }
    for (base, flat) in
        [("0.2", "0.4"), ("0.25", "0.25"), ("0.25", "0.5"), ("0.25", "0.7"), ("0.3333", "0.6667")]
    {
        let (base_set, flat_set) =
            (format!("merge.base={base}"), format!("merge.flat_base={flat}"));
        add(
            &format!("merge, budget {base}, flat {flat}"),
            &["merge.rule=budget", "search.expand=none", &base_set, &flat_set],
        );
    }
    for expand in ["parent", "siblings:1", "sentences:3", "tokens:100", "auto"] {
        let set = format!("search.expand={expand}");
        add(&format!("{expand}, no merge"), &["merge.enabled=false", &set]);
    }
    for expand in
        ["parent", "siblings:1", "sentences:1", "sentences:2", "sentences:3", "tokens:50", "auto"]
    {
        let set = format!("search.expand={expand}");
        add(&format!("{expand}, merge by budget"), &["merge.rule=budget", &set]);
    }
    ways
}

pub(super) fn configured<S: AsRef<str>>(sets: &[S]) -> Config {
    let sets: Vec<String> = sets.iter().map(|set| set.as_ref().to_owned()).collect();
    Config::load(None, &[], &sets).unwrap()
}

/// One row: every set at every budget, and the mean over the sets.
fn line(name: &str, sets: &[Set<'_>], config: &Config) {
    let mut means = [(0.0, 0.0); BUDGETS.len()];
    for set in sets {
        let scores: Vec<Score> = BUDGETS.iter().map(|&budget| score(set, config, budget)).collect();
        for (mean, score) in means.iter_mut().zip(&scores) {
            mean.0 += percent(&score.recall) / sets.len() as f64;
            mean.1 += 100.0 * score.full as f64 / score.recall.len() as f64 / sets.len() as f64;
        }
        print(&format!("{name:<30} {:<22} {}", set.source.name, cells(&scores)));
    }
    let mean: Vec<String> =
        means.iter().map(|(recall, full)| format!("{recall:.1} / {full:.1}")).collect();
    print(&format!("{name:<30} {:<22} {}", "mean", mean.join("  ")));
}

fn cells(scores: &[Score]) -> String {
    let cell = |score: &Score| {
        let n = score.recall.len() as f64;
        format!(
            "{:.1} / {:.1} ±{:.1} p{:.1} t{:.0} f{:.0}",
            percent(&score.recall),
            100.0 * score.full as f64 / n,
            half_width(&score.recall),
            percent(&score.precision),
            score.tokens.iter().sum::<f64>() / n,
            100.0 * score.fired as f64 / n
        )
    };
    scores.iter().map(cell).collect::<Vec<_>>().join("  ")
}

fn percent(values: &[f64]) -> f64 {
    100.0 * values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Half the width of the 95 % interval of a mean, in points, by the normal approximation.
fn half_width(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    196.0 * (variance / n).sqrt()
}

fn score(set: &Set<'_>, config: &Config, budget: usize) -> Score {
    let mut score = Score::default();
    for (judgment, found) in set.source.judgments.iter().zip(&set.lists) {
        let (delivered, tokens, trace) = deliver(set, found, config, budget);
        let places: Vec<Place<'_>> = delivered
            .iter()
            .map(|&(doc, span)| Place { doc: &set.source.pages[doc].0, span })
            .collect();
        let Some(found) = evidence(&places, &judgment.relevant) else { continue };
        score.recall.push(found.recall());
        score.full += usize::from(found.is_full());
        score.precision.extend(found.precision());
        score.tokens.push(tokens as f64);
        score.fired += usize::from(!trace.merge.fires.is_empty());
    }
    score
}

type Delivered = Vec<(usize, umbel::core::span::Span)>;

fn deliver(
    set: &Set<'_>,
    found: &Found,
    config: &Config,
    budget: usize,
) -> (Delivered, usize, Trace) {
    let settings = config.settings();
    let weight = settings.search.lexical_weight;
    let lists: Vec<RankedList> = [(&found.dense, 1.0 - weight), (&found.lexical, weight)]
        .into_iter()
        .filter(|&(_, weight)| weight > 0.0)
        .map(|(list, weight)| {
            let leaves = list.leaves.iter().take(settings.search.fusion_depth).cloned().collect();
            RankedList { leg: list.leg, weight, leaves }
        })
        .collect();
    let mut hits = fuse(&lists, config.fusion());
    support(&mut hits, config.support());
    hits.truncate(settings.search.k_prime);
    let library: Library<'_> =
        set.documents.iter().enumerate().map(|(at, d)| (DocId(at as u64), d)).collect();
    let mut assembling = config.assemble(None);
    assembling.pack.budget_tokens = budget;
    let (context, trace) = assemble(hits, &library, &assembling, None);
    let places = context.passages.iter().map(|p| (p.doc.0 as usize, p.span)).collect();
    (places, context.tokens, trace)
}

fn write_run(path: &Path, sets: &[Set<'_>], config: &Config) {
    let mut lines: Vec<String> = Vec::new();
    for set in sets {
        for (judgment, found) in set.source.judgments.iter().zip(&set.lists) {
            for budget in BUDGETS {
                let (delivered, _, trace) = deliver(set, found, config, budget);
                let passages: Vec<serde_json::Value> = delivered
                    .iter()
                    .map(|&(doc, span)| {
                        let name = &set.source.pages[doc].0;
                        serde_json::json!({ "doc": name, "start": span.start, "end": span.end })
                    })
                    .collect();
                let line = serde_json::json!({
                    "data": set.source.name, "q": judgment.id, "k": budget, "passages": passages,
                    "fired": !trace.merge.fires.is_empty(),
                });
                lines.push(line.to_string());
            }
        }
    }
    fs_err::write(path, lines.join("\n") + "\n").unwrap();
}

/// The judged sets that are there.
pub(super) fn sources() -> Vec<Source> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let judged = std::env::var_os("UMBEL_JUDGED")
        .map_or_else(|| here.join("../../../shared/data"), PathBuf::from);
    let mut sources = vec![source("samples", &here.join("../../samples"), "questions.jsonl")];
    let mut folders: Vec<PathBuf> = fs_err::read_dir(judged)
        .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    folders.sort();
    for folder in folders.iter().filter(|folder| folder.join("queries.jsonl").exists()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let found = source(&name, &folder.join("corpus"), "../queries.jsonl");
        if !found.judgments.is_empty() {
            sources.push(found);
        }
    }
    sources
}

fn source(name: &str, folder: &Path, judgments: &str) -> Source {
    let mut pages = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs_err::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs_err::read_to_string(&path)
                && path.extension().is_some_and(|e| e == "md")
            {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                pages.push((name, text));
            }
        }
    }
    pages.sort();
    let texts: BTreeMap<&str, &str> =
        pages.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let claims = parse(&fs_err::read_to_string(folder.join(judgments)).unwrap()).unwrap();
    let page = |doc: &str| texts.get(doc).map(|&text| Page { text, tree: None });
    let judgments = check(&claims, page).judged;
    Source { name: name.to_owned(), pages, judgments }
}

/// Cuts the pages of a set, embeds the leaves and searches every question exactly.
pub(super) fn cut<'a>(source: &'a Source, target: usize, vectors: &mut Vectors) -> Set<'a> {
    let config = configured(&[format!("leaf.target={target}")]);
    let counter = OpenAiTokens::cl100k();
    let lexical = LexicalEncoder::new("english", target as u32).unwrap();
    let embedder = &vectors.embedder.clone();
    let limit = Limit(embedder);
    let index = ExactIndex::new(Some(embedder.describe().dimension));
    let mut documents = Vec::new();
    let mut points = Vec::new();
    for (at, (name, text)) in source.pages.iter().enumerate() {
        let draft = Draft::of_text(text.clone(), Format::Markdown);
        let title = draft.front_matter.title.clone();
        let document = read::document(draft, title, name, &config, &counter, Some(&limit));
        let texts: Vec<String> = document
            .tree
            .leaves
            .iter()
            .map(|leaf| embedded_text(&document.text, &document.title, &document.tree, leaf))
            .collect();
        let ids = leaf_ids(&source.name, name, &document);
        let dense = vectors.passages(&texts);
        let records = leaf_records(DocId(at as u64), &document, &ids);
        for ((record, text), dense) in records.zip(&texts).zip(dense) {
            let lexical = lexical.passage(text);
            points.push(Point { record, facets: Facets::default(), dense: Some(dense), lexical });
        }
        documents.push(document);
    }
    block_on(index.upsert(points)).unwrap();
    let search = |leg: hit::Leg, asked: Leg| {
        let request = SearchRequest { leg: asked, limit: DEPTH, filter: Vec::new() };
        let found = block_on(index.search(&request)).unwrap();
        let leaves = found.into_iter().map(|scored| (scored.record, scored.score)).collect();
        RankedList { leg, weight: 1.0, leaves }
    };
    let lists = source.judgments.iter().map(|judgment| Found {
        dense: search(hit::Leg::Dense, Leg::Dense(vectors.query(&judgment.query))),
        lexical: search(hit::Leg::Lexical, Leg::Lexical(lexical.query(&judgment.query))),
    });
    let lists = lists.collect();
    vectors.save();
    Set { source, documents, lists }
}

struct Limit<'a>(&'a LocalEmbedder);

impl EmbedLimit for Limit<'_> {
    fn max_tokens(&self) -> usize {
        self.0.describe().max_tokens
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.0.count_tokens(text)
    }
}

type Key = [u8; 16];

/// Vectors by the hash of what was embedded.
pub(super) struct Vectors {
    embedder: std::sync::Arc<LocalEmbedder>,
    path: Option<PathBuf>,
    known: BTreeMap<Key, Vec<f32>>,
}

impl Vectors {
    pub(super) fn open() -> Vectors {
        let model =
            fetch(&ModelSpec::default(), &FetchOptions::from_env().unwrap(), &mut |_| {}).unwrap();
        let int8 = std::env::var_os("UMBEL_BENCH_INT8").is_some();
        let options = LocalOptions { int8, ..LocalOptions::default() };
        let embedder = LocalEmbedder::load(&model, &options).unwrap();
        let path = std::env::var_os("UMBEL_BENCH_VECTORS").map(PathBuf::from);
        let bytes = path.as_ref().and_then(|path| fs_err::read(path).ok()).unwrap_or_default();
        let dimension = embedder.describe().dimension;
        let known = bytes
            .chunks_exact(size_of::<Key>() + 4 * dimension)
            .map(|row| {
                let (key, vector) = row.split_at(size_of::<Key>());
                let floats = vector.chunks_exact(4);
                let vector = floats.map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
                (key.try_into().unwrap(), vector)
            })
            .collect();
        Vectors { embedder: std::sync::Arc::new(embedder), path, known }
    }

    fn passages(&mut self, texts: &[String]) -> Vec<Vec<f32>> {
        let keys: Vec<Key> = texts.iter().map(|text| self.key("p", text)).collect();
        let new: BTreeMap<Key, &str> = keys
            .iter()
            .zip(texts)
            .filter(|(key, _)| !self.known.contains_key(*key))
            .map(|(&key, text)| (key, text.as_str()))
            .collect();
        let texts: Vec<&str> = new.values().copied().collect();
        let made = block_on(self.embedder.embed_passages(&texts)).unwrap();
        self.known.extend(new.into_keys().zip(made));
        keys.iter().map(|key| self.known[key].clone()).collect()
    }

    fn query(&mut self, text: &str) -> Vec<f32> {
        let key = self.key("q", text);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let made = block_on(self.embedder.embed_query(text)).unwrap();
        self.known.insert(key, made.clone());
        made
    }

    /// The name of a text in the file: what a leaf id is made by.
    fn key(&self, what: &str, text: &str) -> Key {
        LeafId::of(what, &self.embedder.describe().model, text, 0).0
    }

    fn save(&self) {
        let Some(path) = &self.path else { return };
        let mut bytes = Vec::new();
        for (key, vector) in &self.known {
            bytes.extend(key);
            bytes.extend(vector.iter().flat_map(|x| x.to_le_bytes()));
        }
        fs_err::write(path, bytes).unwrap();
    }
}
