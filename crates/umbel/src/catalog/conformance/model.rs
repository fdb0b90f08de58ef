//! What a catalog should hold after the calls that were made to it, and the random calls.

use super::clusters::ClustersModel;
use super::{Random, State, hash, metadata, must, new_document};
use crate::catalog::{Catalog, CatalogInfo, Change, DocumentEntry, NewDocument, Pending, Source};
use std::collections::{BTreeMap, BTreeSet};
use umbel_core::id::{DocId, LeafId};

/// What a catalog should hold.
#[derive(Default)]
pub(super) struct Model {
    generation: u64,
    sources: BTreeMap<String, Source>,
    documents: BTreeMap<(String, String), (DocId, NewDocument, bool)>,
    used: BTreeSet<DocId>,
    deletes: BTreeSet<LeafId>,
    settings: BTreeMap<String, String>,
    cache: BTreeMap<(String, [u8; 32]), Vec<f32>>,
    clusters: ClustersModel,
}

impl Model {
    /// Makes one random call to both and says which.
    pub(super) async fn call(
        &mut self,
        catalog: &dyn Catalog,
        random: &mut Random,
    ) -> &'static str {
        match random.below(18) {
            0 => {
                let mut change = self.change(random);
                change.put.push(new_document("nowhere", "x", "x"));
                assert!(
                    catalog.commit(change).await.is_err(),
                    "a document of a source that is not there"
                );
                "a failed commit"
            }
            1 => {
                must(catalog.unsettle().await);
                self.documents.values_mut().for_each(|(.., indexed)| *indexed = false);
                "unsettle"
            }
            2..=4 => {
                let done = must(catalog.pending(random.below(5)).await);
                must(catalog.settle(&done).await);
                let indexed = |id: &DocId| done.documents.contains(id);
                self.documents
                    .values_mut()
                    .filter(|(id, ..)| indexed(id))
                    .for_each(|(.., indexed)| *indexed = true);
                done.deletes
                    .iter()
                    .for_each(|leaf| assert!(self.deletes.remove(leaf), "it was pending"));
                self.clusters.settle(&done.clusters);
                "settle"
            }
            5 => {
                let (key, value) = (random.pick(&["a", "b", "ä"]), random.pick(&["", "1", "'"]));
                must(catalog.set(&[(key, value)]).await);
                self.settings.insert(key.to_owned(), value.to_owned());
                "set"
            }
            6 => {
                let (model, text) = (random.pick(MODELS), hash(random.pick(LINES)));
                let vector = vec![random.below(100) as f32 / 7.0; random.below(4)];
                must(catalog.cache(model, &[(text, vector.clone())]).await);
                self.cache.insert((model.to_owned(), text), vector);
                "cache"
            }
            7 => {
                let model = random.pick(MODELS);
                let keep = LINES.iter().filter(|_| random.below(2) == 0).map(|line| hash(line));
                let keep: BTreeSet<[u8; 32]> = keep.collect();
                let n_before = self.cache.len();
                self.cache.retain(|(of, text), _| of == model && keep.contains(text));
                let n_gone = must(catalog.prune(model, &keep).await);
                assert_eq!(n_gone, n_before - self.cache.len(), "as many as went");
                "prune"
            }
            8 => {
                must(catalog.compact().await);
                "compact"
            }
            9 | 10 => {
                let leaves = self.documents.values();
                let leaves =
                    leaves.flat_map(|(id, new, _)| new.leaf_ids.iter().map(|&leaf| (leaf, *id)));
                self.clusters.mark(catalog, leaves.collect(), random).await;
                "mark"
            }
            11 => {
                self.clusters.revert(catalog, random).await;
                "revert"
            }
            _ => {
                let change = self.change(random);
                let ids = must(catalog.commit(change.clone()).await);
                self.commit(change, &ids);
                "commit"
            }
        }
    }

    /// A random change that is allowed: the sources that it removes are empty after it.
    fn change(&self, random: &mut Random) -> Change {
        let mut change = Change::default();
        for _ in 0..random.below(4) {
            let name = random.pick(SOURCES);
            let text: String = (0..random.below(5)).map(|_| random.pick(LINES)).collect();
            if !self.sources.contains_key(name) || random.below(6) == 0 {
                change.sources.push(Source {
                    name: name.to_owned(),
                    root: format!("/{}", random.below(9)).into(),
                    rules: random.pick(&["", "a = 1\n", "# ä\0"]).to_owned(),
                });
            }
            let mut new = NewDocument {
                metadata: metadata(random),
                ..new_document(name, random.pick(PATHS), &text)
            };
            if random.below(3) == 0 {
                new.document.anchors.retain(|_| random.below(2) == 0);
            }
            change.put.push(new);
        }
        let present = self.documents.values().map(|(id, ..)| *id);
        change.remove = present.chain([DocId(u64::MAX)]).filter(|_| random.below(6) == 0).collect();
        let name = random.pick(SOURCES);
        if random.below(5) == 0 && !change.put.iter().any(|new| new.source == name) {
            let of_source = self.documents.iter().filter(|((source, _), _)| source == name);
            change.remove.extend(of_source.map(|(_, (id, ..))| *id));
            change.remove_sources.push(name.to_owned());
        }
        change
    }

    fn commit(&mut self, change: Change, ids: &[DocId]) {
        let empty = change.sources.is_empty() && change.put.is_empty();
        self.generation +=
            u64::from(!empty || !change.remove.is_empty() || !change.remove_sources.is_empty());
        let before = self.leaves();
        self.sources.extend(change.sources.into_iter().map(|source| (source.name.clone(), source)));
        let goes = |id: &DocId| change.remove.contains(id);
        let removed = self.documents.values().filter(|(id, ..)| goes(id));
        let removed: Vec<LeafId> = removed.flat_map(|(_, new, _)| new.leaf_ids.clone()).collect();
        self.clusters.leave(&removed);
        self.documents.retain(|_, (id, ..)| !change.remove.contains(id));
        assert_eq!(change.put.len(), ids.len(), "an id for each document put");
        for (new, &id) in change.put.into_iter().zip(ids) {
            let key = (new.source.clone(), new.path.clone());
            let stay = new.leaf_ids.clone();
            let replaced = self.documents.insert(key, (id, new, false));
            let before = replaced.iter().flat_map(|(_, old, _)| &old.leaf_ids);
            let gone: Vec<LeafId> = before.filter(|leaf| !stay.contains(leaf)).copied().collect();
            self.clusters.leave(&gone);
            let expected =
                replaced.as_ref().map_or_else(|| !self.used.contains(&id), |(old, ..)| *old == id);
            self.deletes.extend(replaced.into_iter().flat_map(|(_, old, _)| old.leaf_ids));
            assert!(expected, "{id:?} is new, or the one of the document replaced");
            self.used.insert(id);
        }
        self.sources.retain(|name, _| !change.remove_sources.contains(name));
        let after = self.leaves();
        self.deletes.extend(before);
        self.deletes.retain(|leaf| !after.contains(leaf));
    }

    fn leaves(&self) -> BTreeSet<LeafId> {
        self.documents.values().flat_map(|(_, new, _)| new.leaf_ids.iter().copied()).collect()
    }

    fn name(&self, source: &str, path: &str) -> String {
        let long_name = format!("{source}/{path}");
        let shares_it =
            |(s, p): &(&str, &str)| (*s, *p) != (source, path) && self.goes_by_long_name(p);
        if !self.goes_by_long_name(path) {
            path.to_owned()
        } else if self.with_long_name(&long_name).any(|document| shares_it(&document)) {
            format!("{source}//{path}")
        } else {
            long_name
        }
    }

    /// Whether documents with this path need the source in their name.
    fn goes_by_long_name(&self, path: &str) -> bool {
        self.documents.keys().filter(|(_, p)| p == path).count() > 1
            || self.with_long_name(path).any(|(_, p)| self.goes_by_long_name(p))
    }

    fn with_long_name(&self, name: &str) -> impl Iterator<Item = (&str, &str)> {
        let keys = self.documents.keys().map(|(source, path)| (source.as_str(), path.as_str()));
        keys.filter(move |(source, path)| format!("{source}/{path}") == name)
    }

    pub(super) fn state(&self) -> State {
        let stored = self.documents.iter().map(|((source, path), (id, new, indexed))| {
            let entry = DocumentEntry {
                id: *id,
                source: source.clone(),
                path: path.clone(),
                name: self.name(source, path),
                title: new.document.title.clone(),
                metadata: new.metadata.clone(),
                fingerprint: new.fingerprint,
                leaves: new.leaf_ids.len(),
                indexed: *indexed,
            };
            (entry, new.document.clone(), new.leaf_ids.clone())
        });
        let waiting: BTreeSet<DocId> =
            self.documents.values().filter(|(.., indexed)| !indexed).map(|(id, ..)| *id).collect();
        let info = CatalogInfo {
            generation: self.generation,
            documents: self.documents.len(),
            leaves: self.documents.values().map(|(_, new, _)| new.leaf_ids.len()).sum(),
            pending: waiting.len() + self.deletes.len() + self.clusters.pending().len(),
            cluster_run: self.clusters.run(),
            settings: self.settings.clone(),
        };
        State {
            info,
            sources: self.sources.values().cloned().collect(),
            stored: stored.collect(),
            pending: Pending {
                documents: waiting.into_iter().collect(),
                deletes: self.deletes.iter().copied().collect(),
                clusters: self.clusters.pending(),
            },
            clusters: self.clusters.shown(),
        }
    }

    pub(super) async fn check_cache(&self, catalog: &dyn Catalog) {
        let texts: Vec<[u8; 32]> = LINES.iter().map(|line| hash(line)).collect();
        for model in MODELS {
            let want =
                texts.iter().map(|text| self.cache.get(&((*model).to_owned(), *text)).cloned());
            assert_eq!(must(catalog.cached(model, &texts).await), want.collect::<Vec<_>>());
        }
    }
}

const SOURCES: &[&str] = &["a", "a/b", "b", "ß"];
const PATHS: &[&str] = &["x.md", "b/x.md", "a/b/x.md", "y.md", "ß/y.md"];
const LINES: &[&str] = &["# One\n", "two\r\n", "\n", "\u{feff}drei 三\n", "four\0\n", "five"];
const MODELS: &[&str] = &["m", "n"];
