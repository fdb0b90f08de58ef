//! A catalog → trees, texts, counts and broken promises; works beside a process that holds the store.
//!
//! Invariant: nothing here writes.

use super::EngineError;
use super::ingest::{LEAF_SETTINGS, leaf_ids, similar};
use crate::catalog::sqlite::SqliteCatalog;
use crate::catalog::{Catalog, CatalogInfo, DocumentEntry, Source, StoredDocument};
use crate::config::{Config, LeafSettings};
use crate::read::format_of;
use crate::store::{Layout, StoreError};
use std::collections::BTreeMap;
use std::path::Path;
use umbel_core::check::{Allowed, across_top_level, check, empty_bodies};
use umbel_core::merge::{satisfiable, share_of_list};
use umbel_core::outline::{Format, Outline, parse};
use umbel_core::span::{Span, fits};
use umbel_core::tree::NodeKind;

/// Documents that are loaded together.
const DOCUMENTS_PER_LOAD: usize = 200;

/// A store that is looked at only.
#[derive(Debug)]
pub struct Inspector {
    catalog: SqliteCatalog,
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
    /// Share of the nodes for which the merge rule can fire, 0 to 1; `None` without nodes.
    pub satisfiable_share: Option<f64>,
    /// Nodes that must take more than half of the list before they can fire.
    pub greedy_parents: usize,
    /// Documents with warnings.
    pub documents_with_warnings: usize,
    /// The model of the vectors; `None` for a store that searches by words only.
    pub model: Option<String>,
    /// What the numbers suggest, in words.
    pub advice: Vec<String>,
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
        Ok(Inspector { catalog: SqliteCatalog::open_read_only(&layout.catalog())? })
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
            for node in tree.nodes.iter().filter(|node| node.kind != NodeKind::Leaf) {
                *stats.children_per_parent.entry(node.children.len()).or_default() += 1;
            }
            stats.documents_with_warnings += usize::from(!document.warnings.is_empty());
            short += usize::from(document.offsets.tokens.total() <= config.settings().leaf.target);
        })
        .await?;
        stats.leaf_histogram = Histogram::of_tokens(&after);
        stats.before_histogram = Histogram::of_tokens(&before);
        stats.leaf_tokens = Distribution::of(after);
        stats.before_merge = Distribution::of(before);
        let (merge, depth) = (config.merge(), config.settings().search.depth);
        let nodes: usize = stats.children_per_parent.values().sum();
        let can = |(&children, &count): (&usize, &usize)| {
            if satisfiable(children, merge.min_siblings, merge.ratio, depth) { count } else { 0 }
        };
        let satisfied: usize = stats.children_per_parent.iter().map(can).sum();
        let greedy = |&&children: &&usize| {
            let share = share_of_list(children, merge.min_siblings, merge.ratio, depth);
            satisfiable(children, merge.min_siblings, merge.ratio, depth) && share > 0.5
        };
        stats.greedy_parents = stats
            .children_per_parent
            .iter()
            .filter(|(children, _)| greedy(children))
            .map(|(_, count)| count)
            .sum();
        stats.satisfiable_share = (nodes > 0).then(|| satisfied as f64 / nodes as f64);
        stats.advice = advice(&stats, short, config);
        Ok(stats)
    }

    /// Checks every promise of every document.
    ///
    /// # Errors
    /// The catalog fails.
    pub async fn check(&self) -> Result<Vec<Finding>, EngineError> {
        let entries = self.catalog.list().await?;
        let mut findings = Vec::new();
        let leaf = leaf_settings(&self.catalog.describe().await?);
        self.for_each(&entries, |stored, outline| {
            let document = &stored.document;
            let allowed = Allowed { overlap: leaf.overlap > 0, whole: whole(stored, &leaf) };
            let name = &stored.entry.name;
            let mut add =
                |problem: String| findings.push(Finding { document: name.clone(), problem });
            for violation in check(document, outline, allowed) {
                add(violation.to_string());
            }
            if stored.leaf_ids != leaf_ids(&stored.entry.source, &stored.entry.path, document) {
                add("leaf ids do not belong to the leaves' texts".to_owned());
            }
        })
        .await?;
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
                let format = format_of(Path::new(&stored.entry.path)).unwrap_or(Format::Markdown);
                let outline = parse(&stored.document.text, stored.document.body, format);
                visit(&stored, &outline);
            }
        }
        Ok(())
    }
}

/// How the leaves of a store were cut; the defaults for a store that says nothing of it.
fn leaf_settings(info: &CatalogInfo) -> LeafSettings {
    let stored = info.settings.get(LEAF_SETTINGS).and_then(|json| serde_json::from_str(json).ok());
    stored.unwrap_or_default()
}

/// Whether a document was kept whole, across its top-level sections.
fn whole(stored: &StoredDocument, leaf: &LeafSettings) -> bool {
    leaf.keep_whole_tokens > 0 && stored.document.tree.leaves.len() == 1
}

/// What the numbers suggest.
fn advice(stats: &Stats, short: usize, config: &Config) -> Vec<String> {
    let mut advice = Vec::new();
    let leaf = &config.settings().leaf;
    if stats.documents >= 20 && short * 2 > stats.documents && leaf.keep_whole_tokens == 0 {
        advice.push(format!(
            "{short} of {} documents fit one leaf: if they are tickets or short articles, set `leaf.keep_whole_tokens = {}`",
            stats.documents, leaf.target
        ));
    }
    if stats.satisfiable_share.is_some_and(|share| share < 0.5) {
        advice.push("the merge rule can fire for fewer than half of all parents: lower `merge.ratio` or raise `search.depth`".to_owned());
    }
    if stats.satisfiable_share == Some(0.0) {
        advice.push(
            "the merge rule cannot fire at all: its fire rate is 0 whatever is asked".to_owned(),
        );
    }
    if stats.greedy_parents > 0 {
        advice.push(format!(
            "{} parents must take more than half of the list before they are merged: raise `search.depth` or lower `merge.ratio`",
            stats.greedy_parents
        ));
    }
    if config.settings().merge.ratio == 0.0 && config.settings().merge.enabled {
        advice.push(
            "`merge.ratio` is 0: three children of forty merge as three of four do".to_owned(),
        );
    }
    advice
}
