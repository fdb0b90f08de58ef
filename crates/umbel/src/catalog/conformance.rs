//! A back end → a panic where it differs from what [`Catalog`] promises.
//!
//! It is for whoever writes a `Catalog`.

mod clusters;
mod model;

use super::{Catalog, CatalogInfo, Change, DocumentEntry, NewDocument, Pending, Source};
use crate::metadata::{DateSource, Metadata, Updated};
use clusters::{
    Clusters, ClustersModel, a_document_that_goes_leaves_its_clusters,
    a_run_is_in_effect_until_it_is_reverted, old_runs_are_forgotten,
    sketches_go_with_their_document,
};
use fastrand::Rng;
use model::Model;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use umbel_core::document::{Anchor, Document, Place};
use umbel_core::id::{DocId, LeafId};
use umbel_core::offsets::{Offsets, TokenCounter, TokenOffsets};
use umbel_core::span::{self, Span};
use umbel_core::tree::{Heading, Leaf, Node, NodeKind, Tree};

/// Runs each fixed case on a catalog of its own, and opens it again to see that it kept everything.
///
/// `open` gives the catalog of a name: an empty one the first time, then what was committed under that name. A back end
/// that keeps nothing returns the same catalog again.
///
/// # Panics
/// Where the back end is wrong.
pub async fn fixed_cases(open: impl AsyncFn(&str) -> Arc<dyn Catalog>) {
    macro_rules! run {
        ($($case:ident)*) => {
            $({
                let name = stringify!($case);
                let catalog = open(name).await;
                $case(&*catalog).await;
                let before = State::of(&*catalog).await;
                drop(catalog);
                assert_eq!(State::of(&*open(name).await).await, before, "after opening `{name}` again");
            })*
        };
    }
    run! {
        a_new_catalog_is_empty
        documents_come_back_as_they_went_in
        a_replaced_document_keeps_its_id
        an_id_is_never_used_again
        leaves_that_vanish_are_deleted_and_leaves_that_return_are_not
        names_follow_the_sources
        pending_is_limited_and_settled
        a_failed_change_changes_nothing
        what_is_not_there_is_ignored
        sources_are_replaced_and_removed
        titles_and_metadata_come_back_and_are_replaced
        anchors_come_back
        a_run_is_in_effect_until_it_is_reverted
        a_document_that_goes_leaves_its_clusters
        old_runs_are_forgotten
        sketches_go_with_their_document
        vectors_are_cached_by_model_and_text
        vectors_of_other_models_and_texts_are_pruned
        a_compacted_catalog_is_the_same
        settings_are_replaced
        any_text_comes_back
    }
}

/// Runs random calls against a model of the catalog, comparing everything after each, and opens the catalog again from
/// time to time. The same seed gives the same calls.
///
/// # Panics
/// Where the back end is wrong; the message names the seed and the step.
pub async fn random_calls(open: impl AsyncFn(&str) -> Arc<dyn Catalog>, seed: u64, n_steps: usize) {
    let mut random = Random::new(seed);
    let mut model = Model::default();
    let name = format!("random_{seed}");
    let mut catalog = open(&name).await;
    for step in 0..n_steps {
        let call = model.call(&*catalog, &mut random).await;
        if random.below(8) == 0 {
            drop(catalog);
            catalog = open(&name).await;
        }
        assert_eq!(State::of(&*catalog).await, model.state(), "seed {seed}, step {step}: {call}");
        model.check_cache(&*catalog).await;
    }
}

/// A document with a leaf a line, a token every three bytes, a page a line and an element a heading: not a good tree, but
/// every field is in use.
pub fn sample(text: &str) -> Document {
    let body =
        Span::new(if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }, text.len());
    let tokens = TokenOffsets::of(text, &Thirds);
    let lines: Vec<Span> = span::lines(text, body);
    let pieces: Vec<Span> =
        lines.iter().map(|line| line.trim(text)).filter(|piece| !piece.is_empty()).collect();
    let mut tree = Tree::default();
    for (&piece, node) in pieces.iter().zip(1..) {
        let line = span::slice(text, piece);
        if let Some(heading) = line.strip_prefix('#') {
            tree.headings.push(Heading { span: piece, level: 1, text: heading.trim().to_owned() });
            tree.top_level.push(piece);
        }
        let path: Vec<u32> = (0..tree.headings.len() as u32).rev().take(2).collect();
        let n_tokens = tokens.count(piece) as u32;
        tree.leaves.push(Leaf {
            span: piece,
            tokens: n_tokens,
            node,
            path: path.clone(),
            embedded_headings: path.len() as u32,
            prefix: pieces.first().copied().into_iter().collect(),
            top_level: (tree.top_level.len() as u32).checked_sub(1),
            has_body: !line.starts_with('#'),
        });
        let kind = NodeKind::Leaf;
        tree.nodes.push(Node {
            kind,
            span: piece,
            tokens: n_tokens,
            parent: Some(0),
            children: Vec::new(),
            path,
        });
        tree.unmerged_tokens.push(n_tokens);
    }
    if let Some(span) = pieces.iter().copied().reduce(Span::hull) {
        let children = (1..=pieces.len() as u32).collect();
        let tokens = tokens.count(span) as u32;
        tree.nodes.insert(
            0,
            Node { kind: NodeKind::Root, span, tokens, parent: None, children, path: Vec::new() },
        );
    }
    let page = |(offset, page)| Anchor { offset, place: Place::Page(page) };
    let pages = lines.iter().map(|line| line.start).chain([text.len()]).zip(1..).map(page);
    let elements = tree.headings.iter().map(|heading| Anchor {
        offset: heading.span.start,
        place: Place::Element(heading.text.clone()),
    });
    let mut anchors: Vec<Anchor> = pages.chain(elements).collect();
    anchors.sort_by_key(|anchor| anchor.offset);
    let starts: Vec<u32> = lines.iter().map(|line| line.start as u32).collect();
    Document {
        body,
        title: text.lines().next().unwrap_or_default().to_owned(),
        tree,
        offsets: Offsets { tokens, sentences: starts.clone(), blocks: starts },
        anchors,
        warnings: text.lines().take(2).map(|line| format!("odd: `{line}`")).collect(),
        text: text.to_owned(),
    }
}

/// A [`sample`] as it is committed, with metadata that follow from path and text.
pub fn new_document(source: &str, path: &str, text: &str) -> NewDocument {
    let document = sample(text);
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let leaf_ids = document.tree.leaves.iter().map(|leaf| {
        let text = span::slice(text, leaf.span);
        let n_before = seen.entry(text).or_default();
        *n_before += 1;
        LeafId::of(source, path, text, *n_before - 1)
    });
    let leaf_ids = leaf_ids.collect();
    let fingerprint = hash(text);
    NewDocument {
        source: source.to_owned(),
        path: path.to_owned(),
        fingerprint,
        metadata: metadata(&mut Random::new(seed_of(&[path, text].concat()))),
        document,
        leaf_ids,
    }
}

/// Metadata that have each field or not, with odd values.
fn metadata(random: &mut Random) -> Metadata {
    let at = [0, -1, 1_714_521_600, i64::MIN, i64::MAX];
    let labels = ["", "a", "staff only", "\"[]\",", "ä\0\\", "B"];
    Metadata {
        connector: random.maybe(&["wiki", "", "'; --"]).map(ToOwned::to_owned),
        url: random.maybe(&["https://example.org/?a=1&b=%20#c", "ä\0"]).map(ToOwned::to_owned),
        updated: random
            .maybe(&at)
            .and_then(|at| random.maybe(&DateSource::ALL).map(|from| Updated { at, from })),
        labels: labels
            .into_iter()
            .filter(|_| random.below(4) == 0)
            .map(ToOwned::to_owned)
            .collect(),
        language: random.maybe(&["en", "pt-br"]).map(ToOwned::to_owned),
    }
}

fn seed_of(text: &str) -> u64 {
    u64::from_le_bytes(*hash(text).first_chunk().expect("a hash has 32 bytes"))
}

/// 32 bytes that differ where the text does.
fn hash(text: &str) -> [u8; 32] {
    let halves = [0, 1].map(|half| LeafId::of("", "", text, half).0);
    std::array::from_fn(|at| halves.as_flattened()[at])
}

/// Three bytes a token.
struct Thirds;

impl TokenCounter for Thirds {
    fn name(&self) -> &'static str {
        "thirds"
    }

    fn count(&self, text: &str) -> usize {
        text.len().div_ceil(3)
    }

    fn starts(&self, text: &str) -> Vec<u32> {
        (0..text.len() as u32).step_by(3).collect()
    }
}

/// All that a catalog shows but for its cache.
#[derive(Debug, PartialEq)]
struct State {
    info: CatalogInfo,
    sources: Vec<Source>,
    stored: Vec<Stored>,
    pending: Pending,
    clusters: Clusters,
}

/// A stored document, comparable.
type Stored = (DocumentEntry, Document, Vec<LeafId>);

impl State {
    async fn of(catalog: &dyn Catalog) -> State {
        let listed = must(catalog.list().await);
        let stored = load(catalog, &ids(&listed))
            .await
            .into_iter()
            .map(|found| found.expect("a listed document loads"));
        let stored: Vec<Stored> = stored.collect();
        let loaded: Vec<_> = stored.iter().map(|(entry, ..)| entry.clone()).collect();
        assert_eq!(listed, loaded, "`list` and `load` agree");
        let texts = must(catalog.texts(&ids(&listed)).await);
        let loaded = stored.iter().map(|(entry, document, _)| (entry, document.text.as_str()));
        assert!(
            texts.iter().flatten().map(|(entry, text)| (entry, text.as_str())).eq(loaded),
            "`texts` and `load` agree"
        );
        let names: BTreeSet<_> = listed.iter().map(|entry| &entry.name).collect();
        assert_eq!(names.len(), listed.len(), "names are unique: {listed:?}");
        let mut pending = must(catalog.pending(usize::MAX).await);
        pending.documents.sort_unstable();
        pending.deletes.sort_unstable();
        pending.clusters.sort_unstable();
        State {
            info: must(catalog.describe().await),
            sources: must(catalog.sources().await),
            clusters: Clusters::of(catalog, &stored).await,
            stored,
            pending,
        }
    }
}

fn ids(entries: &[DocumentEntry]) -> Vec<DocId> {
    entries.iter().map(|entry| entry.id).collect()
}

#[track_caller]
fn must<T>(result: Result<T, super::CatalogError>) -> T {
    result.expect("the call succeeds")
}

async fn load(catalog: &dyn Catalog, docs: &[DocId]) -> Vec<Option<Stored>> {
    let loaded = must(catalog.load(docs).await).into_iter();
    loaded
        .map(|found| found.map(|stored| (stored.entry, stored.document, stored.leaf_ids)))
        .collect()
}

/// A source with this name.
fn source(name: &str) -> Source {
    let rules = format!("[[rule]]\npath = \"{name}\"\n");
    Source { name: name.to_owned(), root: PathBuf::from("/data").join(name), rules }
}

/// A change that puts these documents, given as (source, path, text), and their sources.
fn put(documents: &[(&str, &str, &str)]) -> Change {
    let sources: BTreeSet<&str> = documents.iter().map(|(source, ..)| *source).collect();
    Change {
        sources: sources.into_iter().map(source).collect(),
        put: documents
            .iter()
            .map(|(source, path, text)| new_document(source, path, text))
            .collect(),
        ..Change::default()
    }
}

fn remove(docs: &[DocId]) -> Change {
    Change { remove: docs.to_vec(), ..Change::default() }
}

async fn commit(catalog: &dyn Catalog, change: Change) -> Vec<DocId> {
    must(catalog.commit(change).await)
}

/// Commits one document and returns its id.
async fn put_one(catalog: &dyn Catalog, source: &str, path: &str, text: &str) -> DocId {
    let ids = commit(catalog, put(&[(source, path, text)])).await;
    assert_eq!(ids.len(), 1, "one document, one id");
    ids[0]
}

async fn deletes(catalog: &dyn Catalog) -> BTreeSet<LeafId> {
    must(catalog.pending(usize::MAX).await).deletes.into_iter().collect()
}

fn leaf_ids(source: &str, path: &str, text: &str) -> BTreeSet<LeafId> {
    new_document(source, path, text).leaf_ids.into_iter().collect()
}

async fn a_new_catalog_is_empty(catalog: &dyn Catalog) {
    let info = CatalogInfo {
        generation: 0,
        documents: 0,
        leaves: 0,
        pending: 0,
        cluster_run: None,
        settings: BTreeMap::new(),
    };
    let state = State {
        info,
        sources: Vec::new(),
        stored: Vec::new(),
        pending: Pending::default(),
        clusters: ClustersModel::default().shown(),
    };
    assert_eq!(State::of(catalog).await, state);
    assert_eq!(commit(catalog, Change::default()).await, [], "an empty change");
    assert_eq!(must(catalog.describe().await).generation, 0, "an empty change is none");
}

async fn documents_come_back_as_they_went_in(catalog: &dyn Catalog) {
    let documents =
        [("b", "z.md", "# Z\n\none\ntwo\n"), ("b", "a/b.md", "one\none\n"), ("a", "c.md", "")];
    let ids = commit(catalog, put(&documents)).await;
    let stored = load(catalog, &ids).await;
    for ((stored, &id), (source, path, text)) in stored.into_iter().zip(&ids).zip(documents) {
        let (entry, document, leaf_ids) = stored.expect("it is there");
        let new = new_document(source, path, text);
        assert_eq!((&document, &leaf_ids), (&new.document, &new.leaf_ids));
        let (source, path, name) = (source.to_owned(), path.to_owned(), path.to_owned());
        let (title, metadata) = (new.document.title, new.metadata);
        let (fingerprint, leaves, indexed) = (new.fingerprint, leaf_ids.len(), false);
        assert_eq!(
            entry,
            DocumentEntry { id, source, path, name, title, metadata, fingerprint, leaves, indexed }
        );
    }
    let listed: Vec<_> =
        must(catalog.list().await).into_iter().map(|entry| (entry.source, entry.path)).collect();
    let by_source_and_path = [("a", "c.md"), ("b", "a/b.md"), ("b", "z.md")];
    assert_eq!(
        listed,
        by_source_and_path.map(|(source, path)| (source.to_owned(), path.to_owned()))
    );
    let info = must(catalog.describe().await);
    assert_eq!((info.generation, info.documents, info.leaves, info.pending), (1, 3, 5, 3));
    let asked = [ids[2], ids[0], ids[2]];
    let loaded: Vec<_> =
        load(catalog, &asked).await.into_iter().flatten().map(|(entry, ..)| entry.id).collect();
    assert_eq!(loaded, asked, "in the order asked, also twice");
    let texts = must(catalog.texts(&[ids[1], DocId(u64::MAX), ids[0]]).await);
    let texts: Vec<_> = texts.iter().map(|found| found.as_ref().map(|(_, text)| &**text)).collect();
    assert_eq!(texts, [Some("one\none\n"), None, Some("# Z\n\none\ntwo\n")]);
}

async fn a_replaced_document_keeps_its_id(catalog: &dyn Catalog) {
    let id = put_one(catalog, "a", "a.md", "one\n").await;
    must(catalog.settle(&Pending { documents: vec![id], ..Pending::default() }).await);
    assert_eq!(put_one(catalog, "a", "a.md", "one\ntwo\n").await, id);
    let listed = must(catalog.list().await);
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].id, listed[0].leaves, listed[0].indexed), (id, 2, false));
    assert_eq!(listed[0].fingerprint, hash("one\ntwo\n"));
    let twice = commit(catalog, put(&[("a", "a.md", "three\n"), ("a", "a.md", "four\n")])).await;
    assert_eq!(twice, [id, id], "the later one of a change holds");
    let texts: Vec<_> = load(catalog, &[id])
        .await
        .into_iter()
        .flatten()
        .map(|(_, document, _)| document.text)
        .collect();
    assert_eq!(texts, ["four\n"]);
}

async fn an_id_is_never_used_again(catalog: &dyn Catalog) {
    let first = put_one(catalog, "a", "a.md", "one\n").await;
    commit(catalog, remove(&[first])).await;
    assert_eq!(load(catalog, &[first]).await, [None]);
    let second = put_one(catalog, "a", "a.md", "one\n").await;
    let change = Change { remove: vec![second], ..put(&[("a", "a.md", "two\n")]) };
    let third = commit(catalog, change).await[0];
    assert_eq!(
        BTreeSet::from([first, second, third]).len(),
        3,
        "what is removed and put in one change is new"
    );
    commit(catalog, remove(&[third])).await;
    let fourth = put_one(catalog, "a", "b.md", "one\n").await;
    assert!(![first, second, third].contains(&fourth));
}

async fn leaves_that_vanish_are_deleted_and_leaves_that_return_are_not(catalog: &dyn Catalog) {
    let (old, new) = ("one\ntwo\ntwo\n", "two\nthree\n");
    let id = put_one(catalog, "a", "a.md", old).await;
    assert_eq!(deletes(catalog).await, BTreeSet::new());
    put_one(catalog, "a", "a.md", new).await;
    let (old_ids, new_ids) = (leaf_ids("a", "a.md", old), leaf_ids("a", "a.md", new));
    assert_eq!(deletes(catalog).await, &old_ids - &new_ids);
    put_one(catalog, "a", "a.md", old).await;
    assert_eq!(deletes(catalog).await, &new_ids - &old_ids);
    commit(catalog, remove(&[id])).await;
    assert_eq!(deletes(catalog).await, &new_ids | &old_ids);
    assert_eq!(must(catalog.describe().await).pending, (&new_ids | &old_ids).len());
    put_one(catalog, "a", "a.md", old).await;
    assert_eq!(deletes(catalog).await, &new_ids - &old_ids, "back under another id");
    put_one(catalog, "a", "b.md", new).await;
    assert_eq!(
        deletes(catalog).await,
        &new_ids - &old_ids,
        "the same text elsewhere is another leaf"
    );
}

async fn names_follow_the_sources(catalog: &dyn Catalog) {
    let names =
        async || must(catalog.list().await).into_iter().map(|entry| entry.name).collect::<Vec<_>>();
    put_one(catalog, "a", "x.md", "one\n").await;
    assert_eq!(names().await, ["x.md"]);
    let ids = commit(catalog, put(&[("b", "x.md", "two\n"), ("b", "y.md", "three\n")])).await;
    assert_eq!(names().await, ["a/x.md", "b/x.md", "y.md"]);
    commit(catalog, Change { remove_sources: vec!["b".to_owned()], ..remove(&ids) }).await;
    assert_eq!(names().await, ["x.md"]);
    let inner = commit(catalog, put(&[("a", "a/x.md", "four\n")])).await;
    assert_eq!(
        names().await,
        ["a/x.md", "x.md"],
        "a long name that nobody goes by is in nobody's way"
    );
    put_one(catalog, "b", "x.md", "two\n").await;
    assert_eq!(names().await, ["a/a/x.md", "a/x.md", "b/x.md"], "a path that another one goes by");
    put_one(catalog, "c", "a/a/x.md", "five\n").await;
    assert_eq!(names().await, ["a/a/x.md", "a/x.md", "b/x.md", "c/a/a/x.md"], "and so on");
    commit(catalog, remove(&inner)).await;
    assert_eq!(names().await, ["a/x.md", "b/x.md", "a/a/x.md"]);
    let inside =
        [("d", "e/f.md", "1"), ("d/e", "f.md", "2"), ("g", "e/f.md", "3"), ("g", "f.md", "4")];
    commit(catalog, put(&inside)).await;
    let of_inside = ["d//e/f.md", "d/e//f.md", "g/e/f.md", "g/f.md"];
    assert_eq!(names().await[3..], of_inside, "sources inside each other");
}

async fn pending_is_limited_and_settled(catalog: &dyn Catalog) {
    let ids = commit(
        catalog,
        put(&[("a", "1", "one"), ("a", "2", "two"), ("a", "3", "three"), ("a", "4", "x\ny")]),
    )
    .await;
    commit(catalog, remove(&ids[3..])).await;
    let generation = must(catalog.describe().await).generation;
    let some = must(catalog.pending(1).await);
    assert_eq!((some.documents.len(), some.deletes.len()), (1, 1));
    assert_eq!(must(catalog.pending(0).await), Pending::default());
    must(catalog.settle(&some).await);
    let rest = must(catalog.pending(9).await);
    assert_eq!((rest.documents.len(), rest.deletes.len()), (2, 1));
    assert!(
        !rest.documents.contains(&some.documents[0]) && !rest.deletes.contains(&some.deletes[0])
    );
    must(catalog.settle(&rest).await);
    must(catalog.settle(&rest).await);
    assert_eq!(must(catalog.pending(9).await), Pending::default());
    assert!(must(catalog.list().await).iter().all(|entry| entry.indexed));
    assert_eq!(must(catalog.describe().await).pending, 0);
    must(catalog.unsettle().await);
    assert_eq!(
        must(catalog.pending(9).await),
        Pending { documents: ids[..3].to_vec(), ..Pending::default() }
    );
    let info = must(catalog.describe().await);
    assert_eq!((info.pending, info.generation), (3, generation), "the documents are the same");
}

async fn a_failed_change_changes_nothing(catalog: &dyn Catalog) {
    let ids = commit(
        catalog,
        put(&[("a", "a.md", "one\n"), ("a", "b.md", "two\n"), ("b", "c.md", "three\n")]),
    )
    .await;
    let before = State::of(catalog).await;
    let good = Change {
        remove: vec![ids[1]],
        ..put(&[("a", "a.md", "other\n"), ("n", "new.md", "new\n")])
    };
    let mut of_no_source = good.clone();
    of_no_source.put.push(new_document("nowhere", "d.md", "four\n"));
    assert!(
        catalog.commit(of_no_source).await.is_err(),
        "a document of a source that is not there"
    );
    assert_eq!(State::of(catalog).await, before);
    let source_in_use = Change { remove_sources: vec!["b".to_owned()], ..good };
    assert!(catalog.commit(source_in_use).await.is_err(), "a source goes, a document of it stays");
    assert_eq!(State::of(catalog).await, before);
    put_one(catalog, "a", "d.md", "four\n").await;
}

async fn what_is_not_there_is_ignored(catalog: &dyn Catalog) {
    let id = put_one(catalog, "a", "a.md", "one\n").await;
    let nowhere = [DocId(0), DocId(id.0 + 1), DocId(u64::MAX), DocId(1 << 63)];
    let leaf = LeafId::of("a", "a.md", "two", 0);
    must(
        catalog
            .settle(&Pending {
                documents: nowhere.to_vec(),
                deletes: vec![leaf],
                ..Pending::default()
            })
            .await,
    );
    commit(catalog, Change { remove_sources: vec!["b".to_owned()], ..remove(&nowhere) }).await;
    let loaded = load(catalog, &[&nowhere[..], &[id]].concat()).await;
    assert_eq!(
        loaded.iter().map(Option::is_some).collect::<Vec<_>>(),
        [false, false, false, false, true]
    );
    assert_eq!(must(catalog.describe().await).generation, 2);
    assert_eq!(load(catalog, &[]).await, []);
}

async fn sources_are_replaced_and_removed(catalog: &dyn Catalog) {
    let with = |sources: &[Source]| Change { sources: sources.to_vec(), ..Change::default() };
    let moved = Source { root: PathBuf::from("/elsewhere/Ä b"), ..source("b") };
    commit(catalog, with(&[source("b"), source("a"), source("")])).await;
    let id = put_one(catalog, "b", "x.md", "one\n").await;
    commit(catalog, with(std::slice::from_ref(&moved))).await;
    assert_eq!(must(catalog.sources().await), [source(""), source("a"), moved.clone()]);
    let of_rules = |rules: &str| Source { rules: rules.to_owned(), ..moved.clone() };
    for rules in ["", "connector = 'wïki'\r\n\0"] {
        let generation = must(catalog.describe().await).generation;
        commit(catalog, with(&[of_rules(rules)])).await;
        assert_eq!(must(catalog.sources().await)[2], of_rules(rules), "its rules are replaced");
        assert_eq!(must(catalog.describe().await).generation, generation + 1);
    }
    assert_eq!(ids(&must(catalog.list().await)), [id], "a moved source keeps its documents");
    let gone = ["a".to_owned(), "b".to_owned()];
    commit(catalog, Change { remove_sources: gone.to_vec(), ..remove(&[id]) }).await;
    assert_eq!(must(catalog.sources().await), [source("")]);
}

async fn titles_and_metadata_come_back_and_are_replaced(catalog: &dyn Catalog) {
    let bare = Metadata::default();
    let updated = |from| Some(Updated { at: -62_135_596_800, from });
    let full = Metadata {
        connector: Some("wiki".to_owned()),
        url: Some("https://example.org/ä?q=\"1\"".to_owned()),
        updated: updated(DateSource::FrontMatter),
        labels: ["staff", "", "a\"b", "ß"].map(ToOwned::to_owned).into(),
        language: Some("pt-br".to_owned()),
    };
    let of_dates = DateSource::ALL
        .into_iter()
        .map(|from| Metadata { updated: updated(from), ..Metadata::default() });
    let all: Vec<Metadata> =
        [bare.clone(), full.clone()].into_iter().chain(of_dates).chain([bare, full]).collect();
    commit(catalog, Change { sources: vec![source("a")], ..Change::default() }).await;
    for (n, metadata) in all.into_iter().enumerate() {
        let mut new = NewDocument { metadata, ..new_document("a", "a.md", "one\n") };
        new.document.title = format!("{n}. „Title“\0 'of' it");
        let ids = commit(catalog, Change { put: vec![new.clone()], ..Change::default() }).await;
        let entry = must(catalog.list().await).remove(0);
        assert_eq!((&entry.title, &entry.metadata), (&new.document.title, &new.metadata));
        let (loaded, document, _) = load(catalog, &ids).await.remove(0).expect("it is there");
        assert_eq!((loaded, document), (entry, new.document));
    }
}

async fn anchors_come_back(catalog: &dyn Catalog) {
    let at = |offset, place| Anchor { offset, place };
    let element = |id: &str| Place::Element(id.to_owned());
    let text = "one ä\ntwo\n";
    let all = [
        vec![],
        vec![at(0, Place::Page(1)), at(0, element("")), at(0, Place::Page(u32::MAX))],
        vec![at(4, element("ä b")), at(6, Place::Page(0)), at(text.len(), Place::Page(2))],
    ];
    commit(catalog, Change { sources: vec![source("a")], ..Change::default() }).await;
    for anchors in all {
        let mut new = new_document("a", "a.md", text);
        new.document.anchors = anchors;
        let ids = commit(catalog, Change { put: vec![new.clone()], ..Change::default() }).await;
        let (_, document, _) = load(catalog, &ids).await.remove(0).expect("it is there");
        assert_eq!(document, new.document);
    }
}

async fn vectors_are_cached_by_model_and_text(catalog: &dyn Catalog) {
    let (one, two, three) = (hash("one"), hash("two"), hash("three"));
    assert_eq!(must(catalog.cached("m", &[one]).await), [None]);
    must(
        catalog
            .cache("m", &[(one, vec![1.0, -0.0, f32::MIN_POSITIVE]), (two, vec![0.1; 384])])
            .await,
    );
    must(catalog.cache("n", &[(one, vec![9.0]), (three, Vec::new())]).await);
    let found = must(catalog.cached("m", &[two, three, one, two]).await);
    assert_eq!(
        found,
        [
            Some(vec![0.1; 384]),
            None,
            Some(vec![1.0, -0.0, f32::MIN_POSITIVE]),
            Some(vec![0.1; 384])
        ]
    );
    must(catalog.cache("m", &[(one, vec![2.0]), (one, vec![3.0])]).await);
    assert_eq!(must(catalog.cached("m", &[one]).await), [Some(vec![3.0])], "the later one holds");
    assert_eq!(must(catalog.cached("n", &[one, three]).await), [Some(vec![9.0]), Some(Vec::new())]);
    assert_eq!(must(catalog.cached("M", &[one]).await), [None]);
    assert_eq!(must(catalog.describe().await).generation, 0);
}

async fn vectors_of_other_models_and_texts_are_pruned(catalog: &dyn Catalog) {
    let [one, two, three] = ["one", "two", "three"].map(hash);
    let vectors = [(one, vec![1.0]), (two, vec![2.0]), (three, Vec::new())];
    let keep = BTreeSet::from([one, three, hash("never cached")]);
    assert_eq!(must(catalog.prune("m", &keep).await), 0, "nothing is cached");
    for model in ["m", "n", "o"] {
        must(catalog.cache(model, &vectors).await);
    }
    assert_eq!(must(catalog.prune("m", &keep).await), 7);
    let texts = [one, two, three];
    assert_eq!(must(catalog.cached("m", &texts).await), [Some(vec![1.0]), None, Some(Vec::new())]);
    assert_eq!(must(catalog.cached("n", &texts).await), [None, None, None]);
    assert_eq!(must(catalog.prune("m", &keep).await), 0, "what is kept stays");
    must(catalog.cache("n", &vectors).await);
    assert_eq!(must(catalog.cached("n", &[two]).await), [Some(vec![2.0])], "a model comes back");
    assert_eq!(must(catalog.prune("another", &keep).await), 5, "a model that is not there");
    must(catalog.cache("m", &vectors).await);
    assert_eq!(must(catalog.prune("m", &BTreeSet::new()).await), 3, "nothing is kept");
    assert_eq!(must(catalog.describe().await).generation, 0);
}

async fn a_compacted_catalog_is_the_same(catalog: &dyn Catalog) {
    must(catalog.compact().await);
    let big = "some text of a document that goes\n".repeat(10_000);
    let documents = [("a", "a.md", "# One\n\ntwo\n"), ("a", "b.md", &big), ("b", "c.md", "three")];
    let ids = commit(catalog, put(&documents)).await;
    must(catalog.set(&[("model", "m")]).await);
    must(catalog.cache("m", &[(hash("one"), vec![1.0; 384]), (hash("two"), Vec::new())]).await);
    must(catalog.settle(&Pending { documents: vec![ids[0]], ..Pending::default() }).await);
    commit(catalog, remove(&ids[1..2])).await;
    let before = State::of(catalog).await;
    for _ in 0..2 {
        must(catalog.compact().await);
        assert_eq!(State::of(catalog).await, before);
        let cached = must(catalog.cached("m", &[hash("one"), hash("two")]).await);
        assert_eq!(cached, [Some(vec![1.0; 384]), Some(Vec::new())]);
    }
    let next = put_one(catalog, "a", "b.md", "one\n").await;
    assert!(!ids.contains(&next), "an id is not used again after it either");
}

async fn settings_are_replaced(catalog: &dyn Catalog) {
    must(catalog.set(&[("model", "a"), ("language", "")]).await);
    must(catalog.set(&[("model", "ä'\"\n"), ("model", "last")]).await);
    must(catalog.set(&[]).await);
    let want = [("language", ""), ("model", "last")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let info = must(catalog.describe().await);
    assert_eq!((info.settings, info.generation), (BTreeMap::from(want), 0));
}

async fn any_text_comes_back(catalog: &dyn Catalog) {
    let big = "A line of a big document, with ünïcödé and a number.\n".repeat(40_000);
    let texts = [
        "",
        "\n\n",
        "\u{feff}",
        "\u{feff}# BOM\r\n\r\nand CRLF\r\n",
        "a\0b\0\n\0",
        "日本語\n👩‍👩‍👧 e\u{301}\u{10ffff}",
        "'; --",
        &big,
    ];
    for text in texts {
        let path = format!(
            "{}\u{1f600}.md",
            text.chars().filter(|c| *c != '\0').take(5).collect::<String>()
        );
        let new = new_document("Quelle / 源", &path, text);
        let ids = commit(catalog, put(&[("Quelle / 源", &path, text)])).await;
        let (entry, document, leaf_ids) =
            load(catalog, &ids).await.into_iter().flatten().next().expect("it is there");
        assert_eq!((entry.path, entry.leaves), (path, new.leaf_ids.len()));
        assert!((document, leaf_ids) == (new.document, new.leaf_ids), "`{}`", entry.name);
    }
}

/// Random numbers that a seed repeats.
struct Random(Rng);

impl Random {
    fn new(seed: u64) -> Random {
        Random(Rng::with_seed(seed))
    }

    /// A number below `n`, which is not 0.
    fn below(&mut self, n: usize) -> usize {
        self.0.usize(..n)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// One of these, or every third time none.
    fn maybe<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        (self.below(3) > 0).then(|| self.pick(of))
    }
}
