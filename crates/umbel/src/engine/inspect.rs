//! A catalog → trees, texts, counts and broken promises; works beside a process that holds the store.
//!
//! Invariant: nothing here writes.

use super::ingest::{LEAF_SETTINGS, similar};
use super::reader::leaf_ids;
use super::{EngineError, MODEL_LIMIT, read_catalog};
use crate::catalog::sqlite::SqliteCatalog;
use crate::catalog::{
    Catalog, CatalogError, CatalogInfo, ClusterRun, DocumentEntry, Source, StoredDocument,
};
use crate::config::{Config, LeafSettings, RuleKind, Unit};
use crate::read::Kind;
use crate::store::{Layout, StoreError};
use crate::tokens::counter;
use std::collections::BTreeMap;
use std::path::Path;
use umbel_core::check::{Allowed, across_top_level, check, empty_bodies};
use umbel_core::id::DocId;
use umbel_core::measure::measure;
use umbel_core::merge::Satisfiability;
use umbel_core::offsets::TokenCounter;
use umbel_core::outline::{Format, Outline, parse};
use umbel_core::span::{Span, fits, slice};
use umbel_core::tree::{Heading, Leaf, NodeKind, Tree};

/// Documents that are loaded together.
const DOCUMENTS_PER_LOAD: usize = 200;

/// A store that is looked at only.
#[derive(Debug)]
pub struct Inspector {
    pub(super) catalog: SqliteCatalog,
}

/// What a store holds, as hashes of 16 hexadecimal digits. Where they and the cluster run are equal, so are the answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreIdentity {
    /// Of the documents: their names, their bytes and the settings that they were cut by.
    pub data: String,
    /// Of data, model and what words are stemmed by.
    pub index: String,
    /// The model of the vectors; `None` where words alone are searched.
    pub model: Option<String>,
    /// The cluster run in effect; `None` where no duplicate is marked.
    pub cluster_run: Option<ClusterRun>,
}

/// Five numbers of a distribution; all 0 where it is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Distribution {
    /// How many values.
    pub n: usize,
    /// The smallest one.
    pub min: u32,
    /// One in ten is below or at it.
    pub p10: u32,
    /// Half are below or at it.
    pub p50: u32,
    /// Nine in ten are below or at it.
    pub p90: u32,
    /// The largest one.
    pub max: u32,
}

impl Distribution {
    /// The distribution of some values; quantiles by nearest rank.
    pub fn of(mut values: Vec<u32>) -> Distribution {
        values.sort_unstable();
        let at = |percent: usize| {
            let rank = (values.len() * percent).div_ceil(100).max(1) - 1;
            values.get(rank).copied().unwrap_or_default()
        };
        let (min, max) = (
            values.first().copied().unwrap_or_default(),
            values.last().copied().unwrap_or_default(),
        );
        Distribution { n: values.len(), min, p10: at(10), p50: at(50), p90: at(90), max }
    }
}

/// How many values fall in each class of a histogram.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram(pub Vec<(String, usize)>);

impl Histogram {
    /// Leaf lengths in tokens, in classes of 25 up to 250, then wider.
    pub fn of_tokens(values: &[u32]) -> Histogram {
        let bounds: Vec<u32> =
            (0..10).map(|n| n * 25).chain([250, 500, 1000, 2000, u32::MAX]).collect();
        let classes = bounds.windows(2).map(|pair| {
            let (low, high) = (
                pair.first().copied().unwrap_or_default(),
                pair.last().copied().unwrap_or_default(),
            );
            let count = values.iter().filter(|&&value| low <= value && value < high).count();
            let name =
                if high == u32::MAX { format!("{low}+") } else { format!("{low}-{}", high - 1) };
            (name, count)
        });
        Histogram(classes.collect())
    }
}

/// Counts over a whole store.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stats {
    /// Sources with their numbers of documents.
    pub sources: Vec<(Source, usize)>,
    /// Documents.
    pub documents: usize,
    /// Leaves.
    pub leaves: usize,
    /// Budget tokens of all texts.
    pub tokens: usize,
    /// Sizes of the leaves.
    pub leaf_tokens: Distribution,
    /// Sizes of the leaves, in classes.
    pub leaf_histogram: Histogram,
    /// Sizes of the chunks that splitting at every heading would give.
    pub before_merge: Distribution,
    /// The same, in classes.
    pub before_histogram: Histogram,
    /// Leaves of nothing but headings, in documents that have more.
    pub empty_bodies: usize,
    /// Documents of nothing but headings.
    pub heading_only: usize,
    /// Leaves with text of two top-level sections.
    pub across_top_level: usize,
    /// How many nodes have so many children.
    pub children_per_parent: BTreeMap<usize, usize>,
    /// How many documents have a tree of so many levels, the leaves' own among them; 0 for a document without leaves.
    pub tree_depth: BTreeMap<usize, usize>,
    /// Sizes of the nodes of each level.
    pub level_tokens: Vec<(NodeKind, Distribution)>,
    /// Share of the top-level sections that are one leaf, 0 to 1; `None` without such sections.
    pub whole_sections_share: Option<f64>,
    /// For how many nodes the merge rule can fire.
    pub merging: Satisfiability,
    /// Documents with warnings.
    pub documents_with_warnings: usize,
    /// The model of the vectors; `None` for a store that searches by words only.
    pub model: Option<String>,
    /// What the numbers suggest, in words.
    pub advice: Vec<String>,
}

/// A leaf that was merged of several sections, to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The document.
    pub document: String,
    /// The leaf's bytes in it.
    pub span: Span,
    /// Budget tokens of the leaf.
    pub tokens: u32,
    /// The headings above it.
    pub heading_path: Vec<String>,
    /// The headings inside it.
    pub headings: Vec<String>,
    /// The leaf.
    pub text: String,
}

/// A document that breaks a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The document.
    pub document: String,
    /// What is wrong, in words.
    pub problem: String,
}

impl Inspector {
    /// Opens a store for looking.
    ///
    /// # Errors
    /// No store there, or a catalog that does not open.
    pub fn open(dir: &Path) -> Result<Inspector, EngineError> {
        let layout = Layout::new(dir);
        if !layout.exists() {
            return Err(StoreError::Missing { dir: dir.to_owned() }.into());
        }
        Ok(Inspector { catalog: read_catalog(&layout)? })
    }

    /// Counts, generation and settings.
    ///
    /// # Errors
    /// The catalog fails.
    pub async fn describe(&self) -> Result<CatalogInfo, EngineError> {
        Ok(self.catalog.describe().await?)
    }

    /// All documents, by source, then path.
    ///
    /// # Errors
    /// The catalog fails.
    pub async fn list(&self) -> Result<Vec<DocumentEntry>, EngineError> {
        Ok(self.catalog.list().await?)
    }

    /// A document by its name.
    ///
    /// # Errors
    /// [`EngineError::Unknown`], with names that look like it.
    pub async fn document(&self, name: &str) -> Result<StoredDocument, EngineError> {
        let entries = self.catalog.list().await?;
        let unknown = || {
            let names = entries.iter().map(|entry| entry.name.as_str());
            EngineError::Unknown { name: name.to_owned(), similar: similar(name, names) }
        };
        let entry = entries.iter().find(|entry| entry.name == name).ok_or_else(unknown)?;
        let loaded = self.catalog.load(&[entry.id]).await?;
        loaded.into_iter().flatten().next().ok_or_else(unknown)
    }

    /// Documents by their ids, in that order; those that are gone are left out.
    ///
    /// # Errors
    /// The catalog fails.
    pub async fn documents(&self, ids: &[DocId]) -> Result<Vec<StoredDocument>, EngineError> {
        let mut documents = Vec::new();
        for part in ids.chunks(DOCUMENTS_PER_LOAD) {
            documents.extend(self.catalog.load(part).await?.into_iter().flatten());
        }
        Ok(documents)
    }

    /// What the store holds, told from every other content.
    ///
    /// # Errors
    /// The catalog fails.
    pub async fn identity(&self) -> Result<StoreIdentity, EngineError> {
        let info = self.catalog.describe().await?;
        let mut hasher = blake3::Hasher::new();
        for entry in self.catalog.list().await? {
            hasher.update(&(entry.name.len() as u64).to_le_bytes());
            hasher.update(entry.name.as_bytes());
            hasher.update(&entry.fingerprint);
        }
        let short = |hasher: &blake3::Hasher| hasher.finalize().to_hex().chars().take(16).collect();
        let data = short(&hasher);
        let setting = |key: &str| info.settings.get(key).map(String::as_str).unwrap_or_default();
        let model = Some(setting("model").to_owned()).filter(|model| !model.is_empty());
        hasher.update(setting("model").as_bytes());
        hasher.update(setting("language").as_bytes());
        let runs = self.catalog.runs().await?;
        let cluster_run = runs.into_iter().find(|run| Some(run.id) == info.cluster_run);
        Ok(StoreIdentity { data, index: short(&hasher), model, cluster_run })
    }

    /// A document, and the span that was asked for, or the whole body.
    ///
    /// # Errors
    /// [`EngineError::Unknown`], or [`EngineError::NoSpan`] for a span that is not in it.
    pub async fn citation(
        &self,
        name: &str,
        span: Option<(usize, usize)>,
    ) -> Result<(StoredDocument, Span), EngineError> {
        let stored = self.document(name).await?;
        let text = &stored.document.text;
        let Some((start, end)) = span else {
            let body = stored.document.body;
            return Ok((stored, body));
        };
        if start > end || !fits(text, Span { start, end }) {
            return Err(EngineError::NoSpan { name: name.to_owned(), start, end, len: text.len() });
        }
        Ok((stored, Span { start, end }))
    }

    /// Counts over the whole store, the rule's numbers under `config`.
    ///
    /// # Errors
    /// The catalog fails.
    pub async fn stats(&self, config: &Config) -> Result<Stats, EngineError> {
        let info = self.catalog.describe().await?;
        let entries = self.catalog.list().await?;
        let leaf = leaf_settings(&info);
        let (merge, depth_of_list) = (config.merge(), config.settings().search.depth);
        let mut stats = Stats {
            documents: info.documents,
            leaves: info.leaves,
            model: info.settings.get("model").filter(|model| !model.is_empty()).cloned(),
            ..Stats::default()
        };
        for source in self.catalog.sources().await? {
            let count = entries.iter().filter(|entry| entry.source == source.name).count();
            stats.sources.push((source, count));
        }
        let (mut after, mut before, mut short) = (Vec::new(), Vec::new(), 0);
        let mut levels: BTreeMap<NodeKind, Vec<u32>> = BTreeMap::new();
        let (mut sections, mut whole_sections) = (0_usize, 0_usize);
        self.for_each(&entries, |stored, outline| {
            let document = &stored.document;
            let tree = &document.tree;
            stats.tokens += document.offsets.tokens.total();
            after.extend(tree.leaves.iter().map(|leaf| leaf.tokens));
            before.extend(&tree.unmerged_tokens);
            stats.empty_bodies += empty_bodies(document, outline);
            let bodies = outline.blocks.iter().any(|block| block.kind.is_body());
            stats.heading_only += usize::from(!bodies && !tree.leaves.is_empty());
            if !whole(stored, &leaf) {
                stats.across_top_level += across_top_level(document, outline);
            }
            stats.merging.add(tree, &merge, depth_of_list, config.pack(None).room());
            *stats.tree_depth.entry(depth(tree)).or_default() += 1;
            for &section in &tree.top_level {
                sections += 1;
                whole_sections += usize::from(tree.leaves_in(section).count() == 1);
            }
            for node in &tree.nodes {
                levels.entry(node.kind).or_default().push(node.tokens);
            }
            for node in tree.nodes.iter().filter(|node| node.kind != NodeKind::Leaf) {
                *stats.children_per_parent.entry(node.children.len()).or_default() += 1;
            }
            stats.documents_with_warnings += usize::from(!document.warnings.is_empty());
            short += usize::from(document.offsets.tokens.total() <= config.settings().leaf.target);
        })
        .await?;
        stats.level_tokens =
            levels.into_iter().map(|(kind, tokens)| (kind, Distribution::of(tokens))).collect();
        stats.whole_sections_share =
            (sections > 0).then(|| whole_sections as f64 / sections as f64);
        stats.leaf_histogram = Histogram::of_tokens(&after);
        stats.before_histogram = Histogram::of_tokens(&before);
        stats.leaf_tokens = Distribution::of(after);
        stats.before_merge = Distribution::of(before);
        let limit = info.settings.get(MODEL_LIMIT).and_then(|limit| limit.parse().ok());
        stats.advice = advice(&stats, short, &leaf, limit, config);
        Ok(stats)
    }

    /// At most `n` of the leaves that hold several sections, spread over the store; the same `seed` gives the same ones.
    ///
    /// # Errors
    /// The catalog fails.
    pub async fn sample(&self, n: usize, seed: u64) -> Result<Vec<Sample>, EngineError> {
        let entries = self.catalog.list().await?;
        let mut chosen: BTreeMap<[u8; 32], Sample> = BTreeMap::new();
        self.for_each(&entries, |stored, _| {
            let (document, tree) = (&stored.document, &stored.document.tree);
            for (leaf, id) in tree.leaves.iter().zip(&stored.leaf_ids) {
                let inside = |(at, heading): &(usize, &Heading)| {
                    leaf.span.contains(heading.span) && !leaf.path.contains(&(*at as u32))
                };
                let headings: Vec<String> = tree
                    .headings
                    .iter()
                    .enumerate()
                    .filter(inside)
                    .map(|(_, heading)| heading.text.clone())
                    .collect();
                if headings.is_empty() {
                    continue;
                }
                let mut lot = blake3::Hasher::new();
                lot.update(&seed.to_le_bytes()).update(&id.0);
                let sample = Sample {
                    document: stored.entry.name.clone(),
                    span: leaf.span,
                    tokens: leaf.tokens,
                    heading_path: tree.heading_texts(&leaf.path),
                    headings,
                    text: slice(&document.text, leaf.span).to_owned(),
                };
                chosen.insert(*lot.finalize().as_bytes(), sample);
                if chosen.len() > n {
                    chosen.pop_last();
                }
            }
        })
        .await?;
        Ok(chosen.into_values().collect())
    }

    /// Checks every promise of every document.
    ///
    /// # Errors
    /// The catalog fails.
    pub async fn check(&self) -> Result<Vec<Finding>, EngineError> {
        let leaf = leaf_settings(&self.catalog.describe().await?);
        let counter = counter(&leaf.tokenizer)?;
        let mut findings = Vec::new();
        for entry in self.catalog.list().await? {
            let problems = match self.catalog.load(&[entry.id]).await {
                Ok(stored) => stored
                    .into_iter()
                    .flatten()
                    .flat_map(|s| problems(&s, &leaf, counter.as_ref()))
                    .collect(),
                Err(CatalogError::Corrupt { detail, .. }) => vec![detail],
                Err(error) => return Err(error.into()),
            };
            let document = &entry.name;
            findings.extend(
                problems.into_iter().map(|problem| Finding { document: document.clone(), problem }),
            );
        }
        Ok(findings)
    }

    /// Loads all documents, some at a time.
    async fn for_each(
        &self,
        entries: &[DocumentEntry],
        mut visit: impl FnMut(&StoredDocument, &Outline),
    ) -> Result<(), EngineError> {
        for some in entries.chunks(DOCUMENTS_PER_LOAD) {
            let ids: Vec<_> = some.iter().map(|entry| entry.id).collect();
            for stored in self.catalog.load(&ids).await?.into_iter().flatten() {
                visit(&stored, &outline_of(&stored));
            }
        }
        Ok(())
    }
}

/// The headings and blocks of a stored document.
fn outline_of(stored: &StoredDocument) -> Outline {
    let kind = Kind::of(Path::new(&stored.entry.path));
    let format = kind.map_or(Format::Markdown, Kind::outline);
    parse(&stored.document.text, stored.document.body, format)
}

/// The promises that a document breaks, in words.
fn problems(
    stored: &StoredDocument,
    leaf: &LeafSettings,
    counter: &dyn TokenCounter,
) -> Vec<String> {
    let (document, outline) = (&stored.document, outline_of(stored));
    let allowed = Allowed { overlap: leaf.overlap > 0, whole: whole(stored, leaf) };
    let mut problems: Vec<String> =
        check(document, &outline, allowed).iter().map(ToString::to_string).collect();
    if measure(&document.text, &outline, counter) != document.offsets {
        problems.push("token, sentence or block offsets do not belong to the text".to_owned());
    }
    if stored.leaf_ids != leaf_ids(&stored.entry.source, &stored.entry.path, document) {
        problems.push("leaf ids do not belong to the leaves' texts".to_owned());
    }
    problems
}

/// How the leaves of a store were cut; the defaults for a store that says nothing of it.
pub(super) fn leaf_settings(info: &CatalogInfo) -> LeafSettings {
    let stored = info.settings.get(LEAF_SETTINGS).and_then(|json| serde_json::from_str(json).ok());
    stored.unwrap_or_default()
}

/// Whether a document was kept whole, across its top-level sections.
fn whole(stored: &StoredDocument, leaf: &LeafSettings) -> bool {
    leaf.keep_whole_tokens > 0 && stored.document.tree.leaves.len() == 1
}

/// Levels from the root to the deepest leaf, both counted; 0 for an empty tree.
fn depth(tree: &Tree) -> usize {
    let above = |leaf: &Leaf| tree.ancestors(leaf.node).count() + 1;
    tree.leaves.iter().map(above).max().unwrap_or_default()
}

/// What the numbers suggest. `limit` is that of the store's model, in its own tokens, if it is known.
fn advice(
    stats: &Stats,
    short: usize,
    leaf: &LeafSettings,
    limit: Option<usize>,
    config: &Config,
) -> Vec<String> {
    let mut advice = Vec::new();
    if let Some(limit) = limit.filter(|&limit| leaf.unit == Unit::Tokens && leaf.target > limit) {
        advice.push(format!(
            "`leaf.target` is {}, the model takes {limit} tokens: longer leaves were cut at the model's limit, not where the text suggests; set `leaf.target` to {} or less",
            leaf.target,
            limit * 4 / 5
        ));
    }
    if stats.documents >= 20 && short * 2 > stats.documents && leaf.keep_whole_tokens == 0 {
        advice.push(format!(
            "{short} of {} documents fit one leaf: if they are tickets or short articles, set `leaf.keep_whole_tokens = {}`",
            stats.documents, leaf.target
        ));
    }
    advice.extend(advice_on_merging(&stats.merging, config));
    advice
}

/// What to know of a merge rule before the first query: whether it can fire, and for how many nodes.
pub(super) fn advice_on_merging(merging: &Satisfiability, config: &Config) -> Vec<String> {
    let settings = &config.settings().merge;
    let mut advice = Vec::new();
    if !settings.enabled {
        return advice;
    }
    let ratio = match settings.rule {
        RuleKind::Ratio => "merge.ratio",
        RuleKind::Budget => "merge.base",
    };
    match (merging.satisfiable_share(), merging.can_fire_share()) {
        (Some(0.0), _) => advice.push(format!(
            "the merge rule cannot fire at all, its fire rate is 0 whatever is asked: lower `{ratio}` or `merge.min_siblings`, or raise `search.depth`"
        )),
        (Some(share), Some(0.0)) if share < 1.0 => advice.push(format!(
            "the merge rule cannot fire at all: {:.0} % of all parents cannot meet it, and the others are too large: lower `{ratio}`, raise `search.depth`, or raise `merge.max_merge_tokens`",
            (1.0 - share) * 100.0
        )),
        (_, Some(0.0)) => advice.push(
            "the merge rule cannot fire at all, every parent is too large: raise `merge.max_merge_tokens`".to_owned(),
        ),
        (Some(share), _) if share < 0.5 => advice.push(format!(
            "the merge rule can fire for {:.0} % of all parents: lower `{ratio}` or raise `search.depth`",
            share * 100.0
        )),
        (_, Some(share)) if share < 0.5 => advice.push(format!(
            "{:.0} % of all parents are small enough to be merged: raise `merge.max_merge_tokens`, or add a level to `leaf.levels`",
            share * 100.0
        )),
        _ => {}
    }
    if merging.greedy > 0 {
        advice.push(format!(
            "{} parents must take more than half of the list before they are merged: raise `search.depth` or lower `{ratio}`",
            merging.greedy
        ));
    }
    advice.extend(count_only(config));
    advice
}

/// A rule that only counts treats a parent of four children and one of forty alike.
pub(super) fn count_only(config: &Config) -> Option<String> {
    let merge = &config.settings().merge;
    (merge.enabled && merge.rule == RuleKind::Ratio && merge.ratio == 0.0)
        .then(|| "`merge.ratio` is 0: three children of forty merge as three of four do".to_owned())
}
