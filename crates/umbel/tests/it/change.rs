//! Edits, renames and deletes → a store that cannot be told from a fresh one.

use futures_lite::future::block_on;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use umbel::config::Config;
use umbel::core::id::LeafId;
use umbel::core::span::slice;
use umbel::embed::{EmbedError, Embedder, EmbedderInfo};
use umbel::engine::answer::SearchRequest;
use umbel::engine::ingest::{IngestReport, IngestRequest, plan};
use umbel::engine::inspect::Inspector;
use umbel::engine::{Engine, IndexCheck, check_index};
use umbel::metadata::Metadata;

/// Embeds a text as a bag of hashed words: quick, and the same everywhere. The real model is in the command line's tests.
struct HashedWords(EmbedderInfo);

impl HashedWords {
    fn embedder() -> Arc<dyn Embedder> {
        let info =
            EmbedderInfo { model: "hashed-words".to_owned(), dimension: 32, max_tokens: 10_000 };
        Arc::new(HashedWords(info))
    }

    fn vector(text: &str) -> Vec<f32> {
        let mut vector = [0.1_f32; 32];
        for word in text.split_whitespace() {
            let hash = word.bytes().fold(7_usize, |hash, byte| hash * 31 % 1009 + byte as usize);
            vector[hash % 32] += 1.0;
        }
        let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        vector.iter().map(|x| x / norm).collect()
    }
}

#[async_trait::async_trait]
impl Embedder for HashedWords {
    fn describe(&self) -> &EmbedderInfo {
        &self.0
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.split_whitespace().count()
    }

    async fn embed_passages(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(texts.iter().map(|text| HashedWords::vector(text)).collect())
    }

    async fn embed_query(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        Ok(HashedWords::vector(text))
    }
}

/// A folder of documents and a store.
struct Place {
    dir: TempDir,
    embedder: Option<Arc<dyn Embedder>>,
}

/// Everything of a store that can be seen.
#[derive(Debug, PartialEq)]
struct Seen {
    documents: BTreeMap<String, (String, String, Metadata, Vec<LeafId>, String)>,
    index: Option<IndexCheck>,
    points: usize,
    answers: Vec<Vec<Passage>>,
}

/// Document, text, and the scores of both legs.
type Passage = (String, String, Option<f32>, Option<f32>);

impl Place {
    fn new(embedder: Option<Arc<dyn Embedder>>) -> Place {
        let dir = tempfile::tempdir().unwrap();
        fs_err::create_dir(dir.path().join("docs")).unwrap();
        Place { dir, embedder }
    }

    fn docs(&self) -> PathBuf {
        self.dir.path().join("docs")
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.docs().join(path);
        fs_err::create_dir_all(file.parent().unwrap()).unwrap();
        fs_err::write(file, text).unwrap();
    }

    fn engine(&self, store: &str) -> Engine {
        let (dir, go_on) = (self.dir.path().join(store), |_| ControlFlow::Continue(()));
        block_on(Engine::open(&dir, Config::default(), self.embedder.clone(), &go_on)).unwrap()
    }

    fn request(&self) -> IngestRequest {
        IngestRequest { path: self.docs(), source: Some("docs".to_owned()), rules: None }
    }

    fn index(&self, store: &str) -> IngestReport {
        let engine = self.engine(store);
        let report =
            block_on(engine.ingest(&[self.request()], &|_| ControlFlow::Continue(()))).unwrap();
        assert_eq!(report.skipped.len(), 0, "{:?}", report.skipped);
        report
    }

    fn seen(&self, store: &str) -> Seen {
        let dir = self.dir.path().join(store);
        let inspector = Inspector::open(&dir).unwrap();
        let mut documents = BTreeMap::new();
        let mut points = 0;
        for entry in block_on(inspector.list()).unwrap() {
            let stored = block_on(inspector.document(&entry.name)).unwrap();
            points += stored.leaf_ids.len();
            let shape = format!(
                "{:?}",
                (&stored.document.tree, &stored.document.offsets, &stored.document.warnings)
            );
            documents.insert(
                entry.name,
                (
                    stored.document.text,
                    stored.document.title,
                    entry.metadata,
                    stored.leaf_ids,
                    shape,
                ),
            );
        }
        let index = block_on(check_index(&dir)).unwrap();
        let engine = self.engine(store);
        // Document frequencies forget what was deleted when the index is merged.
        block_on(engine.compact(&|_| ControlFlow::Continue(()))).unwrap();
        let answers = ["word3 word7", "red door", "word11"].map(|query| {
            let request = SearchRequest::new(query, Config::default());
            let answer = block_on(engine.search(&request)).unwrap();
            let passages = answer.context.passages.iter().map(|passage| {
                let stored = &answer.documents[&passage.doc];
                let scores = passage.scores();
                let text = slice(&stored.document.text, passage.span).to_owned();
                (stored.entry.name.clone(), text, scores.dense, scores.lexical)
            });
            let mut passages: Vec<_> = passages.collect();
            // Equal scores may come in any order of ids, which differ between stores.
            passages.sort_by(|a, b| a.partial_cmp(b).unwrap());
            passages
        });
        Seen { documents, index, points, answers: answers.to_vec() }
    }
}

/// Random numbers of a seed that is printed, and taken from `UMBEL_SEED` if that is set.
struct Random(fastrand::Rng);

impl Random {
    fn new() -> Random {
        let given = std::env::var("UMBEL_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| fastrand::u64(..));
        eprintln!("UMBEL_SEED={seed}");
        Random(fastrand::Rng::with_seed(seed))
    }

    fn below(&mut self, n: usize) -> usize {
        self.0.usize(..n)
    }

    fn paragraph(&mut self) -> String {
        let words: Vec<String> =
            (0..3 + self.below(40)).map(|_| format!("word{}", self.below(30))).collect();
        format!("{}.\n\n", words.join(" "))
    }

    fn section(&mut self) -> String {
        let body: String = (0..=self.below(2)).map(|_| self.paragraph()).collect();
        format!("{} Section {}\n\n{body}", "#".repeat(1 + self.below(3)), self.below(20))
    }

    fn page(&mut self) -> String {
        let front = if self.below(4) == 0 {
            format!(
                "---\ntitle: Title {}\ndate: 2024-0{}-01\nlabels: [a{}]\n---\n",
                self.below(5),
                1 + self.below(9),
                self.below(3)
            )
        } else {
            String::new()
        };
        let sections: String = (0..=self.below(4)).map(|_| self.section()).collect();
        front + &sections
    }

    fn path(&mut self) -> String {
        let folder = ["", "a/", "b/", "a/c/"][self.below(4)];
        format!("{folder}{}.{}", self.below(12), ["md", "txt", "html"][self.below(3)])
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// One change of the folder.
fn change(place: &Place, random: &mut Random) {
    let files = files(&place.docs());
    let kind = if files.is_empty() { 0 } else { random.below(10) };
    if kind <= 1 {
        let (path, page) = (random.path(), random.page());
        place.write(&path, &page);
        return;
    }
    let file = &files[random.below(files.len())];
    let other = place.docs().join(random.path());
    fs_err::create_dir_all(other.parent().unwrap()).unwrap();
    match kind {
        2..=5 => {
            // An edit: a paragraph is added, replaced or taken out.
            let text = fs_err::read_to_string(file).unwrap();
            let mut parts: Vec<String> = text.split("\n\n").map(str::to_owned).collect();
            let at = random.below(parts.len());
            match random.below(3) {
                0 => parts.insert(at, random.paragraph()),
                1 => parts[at] = random.section(),
                _ => drop(parts.remove(at)),
            }
            // A web page without text is skipped, and what the store has of it stays.
            let text = parts.join("\n\n");
            let text = if text.trim().is_empty() { random.section() } else { text };
            fs_err::write(file, text).unwrap();
        }
        6 | 7 => fs_err::rename(file, other).unwrap(),
        8 => fs_err::remove_file(file).unwrap(),
        // A file that is copied onto itself by the system is empty afterwards.
        _ => fs_err::write(other, fs_err::read(file).unwrap()).unwrap(),
    }
}

/// A thousand changes in all, taken in a few at a time.
fn a_changed_store_is_as_a_fresh_one(embedder: Option<Arc<dyn Embedder>>, changes: usize) {
    let mut random = Random::new();
    let place = Place::new(embedder);
    for n in 0..8 {
        place.write(&format!("{n}.md"), &random.page());
    }
    place.index("store");
    let (mut done, mut fresh) = (0, 0);
    while done < changes {
        for _ in 0..=random.below(8) {
            change(&place, &mut random);
            done += 1;
        }
        place.index("store");
        if done / 100 > fresh || done >= changes {
            fresh += 1;
            let store = format!("fresh{fresh}");
            place.index(&store);
            assert_eq!(place.seen("store"), place.seen(&store), "after {done} changes");
            let again = place.index("store");
            let total = again.documents;
            assert_eq!(
                (again.unchanged, again.added, again.updated, again.removed, again.embedded),
                (total, 0, 0, 0, 0)
            );
        }
    }
}

#[test]
fn five_hundred_changes_leave_a_store_with_vectors_as_a_fresh_one() {
    a_changed_store_is_as_a_fresh_one(Some(HashedWords::embedder()), 500);
}

#[test]
fn five_hundred_changes_leave_a_store_of_words_as_a_fresh_one() {
    a_changed_store_is_as_a_fresh_one(None, 500);
}

#[test]
fn p6_an_edit_leaves_nothing_of_the_old_text_and_a_delete_nothing_at_all() {
    let place = Place::new(Some(HashedWords::embedder()));
    let mut random = Random::new();
    let other = random.page();
    place.write("other.md", &other);
    place.index("store");
    let before = place.seen("store");

    let page = "# Page\n\n## One\n\nThe pelican sleeps.\n\n## Two\n\nThe heron wakes.\n";
    place.write("page.md", page);
    assert_eq!(place.index("store").embedded, 2);
    place.write("page.md", &page.replace("pelican", "cormorant"));
    let report = place.index("store");
    assert_eq!((report.updated, report.embedded), (1, 1), "one section changed");
    let engine = place.engine("store");
    let ask = |query: &str| {
        let request = SearchRequest::new(query, Config::default());
        let answer = block_on(engine.search(&request)).unwrap();
        let texts = answer.context.passages.iter().map(|passage| {
            slice(&answer.documents[&passage.doc].document.text, passage.span).to_owned()
        });
        texts.collect::<String>()
    };
    assert!(!ask("pelican").contains("pelican"));
    assert!(ask("cormorant").contains("cormorant"));
    drop(engine);

    fs_err::remove_file(place.docs().join("page.md")).unwrap();
    assert_eq!(place.index("store").removed, 1);
    assert_eq!(place.seen("store"), before);
}

#[test]
fn a_rename_and_a_copy_embed_nothing() {
    let place = Place::new(Some(HashedWords::embedder()));
    place.write("a.md", "# Page\n\n## One\n\nThe pelican sleeps.\n\n## Two\n\nThe heron wakes.\n");
    assert_eq!(place.index("store").embedded, 2);
    fs_err::rename(place.docs().join("a.md"), place.docs().join("b.md")).unwrap();
    fs_err::copy(place.docs().join("b.md"), place.docs().join("c.md")).unwrap();
    let report = place.index("store");
    assert_eq!((report.added, report.removed, report.embedded), (2, 1, 0));
}

#[test]
fn a_plan_says_what_then_happens_and_changes_nothing() {
    let place = Place::new(Some(HashedWords::embedder()));
    place.write("a.md", "# A\n\ntext of a\n");
    place.write("b.md", "# B\n\ntext of b\n");
    let store = place.dir.path().join("store");
    let ask = || {
        let embedder = place.embedder.as_deref();
        let go_on = |_| ControlFlow::Continue(());
        block_on(plan(&store, &Config::default(), embedder, &[place.request()], &go_on)).unwrap()
    };
    let first = ask();
    assert_eq!((first.added.len(), first.leaves, first.embedded), (2, 2, 2));
    assert!(!store.exists(), "a plan makes no store");

    place.index("store");
    place.write("a.md", "# A\n\nother text of a\n");
    place.write("c.md", "# B\n\ntext of b\n");
    fs_err::remove_file(place.docs().join("b.md")).unwrap();
    let before = place.seen("store");
    let second = ask();
    assert_eq!(
        (second.added, second.updated, second.removed, second.unchanged, second.embedded),
        (vec!["c.md".to_owned()], vec!["a.md".to_owned()], vec!["b.md".to_owned()], 0, 1)
    );
    assert_eq!(place.seen("store"), before);
    let report = place.index("store");
    assert_eq!((report.added, report.updated, report.removed, report.embedded), (1, 1, 1, 1));
}

#[test]
fn a_run_that_is_stopped_keeps_what_it_had_read() {
    let place = Place::new(Some(HashedWords::embedder()));
    for n in 0..250 {
        place.write(&format!("{n}.md"), &format!("# Page {n}\n\ntext of {n}\n"));
    }
    let engine = place.engine("store");
    let steps = std::sync::atomic::AtomicUsize::new(0);
    let stop_at = |limit: usize| {
        let steps = &steps;
        move |_| {
            let step = steps.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if step >= limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    };
    // Looking, then the first batch of a hundred.
    let report = block_on(engine.ingest(&[place.request()], &stop_at(2))).unwrap();
    assert!(report.interrupted);
    assert_eq!((report.documents, report.added), (100, 100));
    steps.store(0, std::sync::atomic::Ordering::Relaxed);
    // All is read, and the first leaves are embedded.
    let report = block_on(engine.ingest(&[place.request()], &stop_at(30))).unwrap();
    assert!(report.interrupted);
    assert_eq!((report.documents, report.unchanged), (250, 100));
    assert!(report.embedded > 0 && report.embedded < 250, "{}", report.embedded);
    drop(engine);
    let report = place.index("store");
    assert_eq!((report.documents, report.unchanged, report.interrupted), (250, 250, false));
    let seen = place.seen("store");
    assert_eq!((seen.points, seen.index), (250, Some(IndexCheck::default())));
}
