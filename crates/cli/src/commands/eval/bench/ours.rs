//! The texts of a benchmark in a store of ours → rows of its table.

use super::{Bench, Row};
use crate::args::Args;
use crate::commands::configuration;
use std::path::Path;
use std::sync::Arc;
use umbel::core::hit::LeafRecord;
use umbel::core::id::DocId;
use umbel::embed::Embedder;
use umbel::engine::answer::SearchRequest;
use umbel::engine::ingest::IngestRequest;
use umbel::engine::inspect::Inspector;
use umbel::engine::observe::Observed;
use umbel::engine::{Engine, EngineError};
use umbel_eval::chunking::Chunk;

/// The nearest leaves.
pub(super) const LEAVES: &str = "Umbel leaves";
/// The leaves that a search ranks first.
pub(super) const HYBRID: &str = "Umbel leaves, hybrid";
/// What a search delivers.
pub(super) const PASSAGES: &str = "Umbel passages";

/// The dense leg alone, and nothing but it.
const DENSE: [&str; 3] =
    ["search.lexical_weight=0", "search.section_support=0", "search.document_support=0"];

/// A store of the texts, removed at the end.
pub(super) struct Ours<'a> {
    args: &'a Args,
    bench: &'a Bench<'a>,
    engine: Engine,
    has_model: bool,
    /// The texts of the store's documents, by their place in the benchmark.
    places: Vec<(DocId, usize)>,
    leaves: Vec<Chunk>,
    _folder: tempfile::TempDir,
}

impl<'a> Ours<'a> {
    pub(super) async fn open(
        args: &'a Args,
        bench: &'a Bench<'a>,
        data: &Path,
        model: Option<Arc<dyn Embedder>>,
    ) -> anyhow::Result<Ours<'a>> {
        let folder = tempfile::tempdir()?;
        let store = folder.path().join("store");
        let config = configuration(args, &["leaf.tokenizer=cl100k_base".to_owned()])?;
        let bar = bench.output.progress();
        let has_model = model.is_some();
        let engine = Engine::open(&store, config, model, &|step| bar.show(step)).await?;
        let request = IngestRequest { path: data.join("corpus"), ..IngestRequest::default() };
        let report = engine.ingest(&[request], &|step| bar.show(step)).await?;
        if report.interrupted {
            return Err(EngineError::Interrupted.into());
        }
        let inspector = Inspector::open(&store)?;
        let entries = inspector.list().await?;
        let place = |name: &str| bench.data.texts.iter().position(|(known, _)| known == name);
        let places: Vec<(DocId, usize)> =
            entries.iter().filter_map(|entry| Some((entry.id, place(&entry.name)?))).collect();
        let ids: Vec<DocId> = places.iter().map(|(id, _)| *id).collect();
        let documents = inspector.documents(&ids).await?;
        let leaves = documents.iter().flat_map(|stored| {
            let text = place(&stored.entry.name);
            let leaves = stored.document.tree.leaves.iter();
            leaves.filter_map(move |leaf| Some(Chunk { text: text?, span: leaf.span }))
        });
        let leaves = leaves.collect();
        Ok(Ours { args, bench, engine, has_model, places, leaves, _folder: folder })
    }

    /// Our rows; what is delivered within a budget only where there is one.
    pub(super) async fn rows(&self, budget: Option<usize>) -> anyhow::Result<Vec<Row>> {
        let leaves = self.bench.placed(&self.leaves);
        let leaf_row = |name: &str, retrieval| Row {
            name: name.to_owned(),
            chunks: Some(leaves.len()),
            precision_omega: Some(self.bench.omega(&leaves)),
            retrieval,
        };
        if !self.has_model {
            return Ok(vec![leaf_row(LEAVES, None)]);
        }
        let dense: Vec<String> = DENSE.iter().map(|&set| set.to_owned()).collect();
        let best = |observed: &Observed| {
            let voices = observed.lists.collapsed.voices.iter().take(self.bench.top);
            voices.filter_map(|voice| self.chunk_of(&voice.hit.record)).collect()
        };
        let mut rows = vec![
            leaf_row(LEAVES, Some(self.retrieval(&dense, best).await?)),
            leaf_row(HYBRID, Some(self.retrieval(&[], best).await?)),
        ];
        if let Some(budget) = budget {
            let delivered = |observed: &Observed| {
                let passages = observed.response.context.passages.iter();
                passages
                    .filter_map(|p| Some(Chunk { text: self.text(p.doc)?, span: p.span }))
                    .collect()
            };
            let sets = [format!("search.budget={budget}")];
            rows.push(Row {
                name: format!("{PASSAGES}, {budget} tokens"),
                chunks: None,
                precision_omega: None,
                retrieval: Some(self.retrieval(&sets, delivered).await?),
            });
        }
        Ok(rows)
    }

    /// The figures of what is taken of each search, in bytes.
    async fn retrieval(
        &self,
        sets: &[String],
        take: impl Fn(&Observed) -> Vec<Chunk>,
    ) -> anyhow::Result<super::Retrieval> {
        let tokenizer = ["leaf.tokenizer=cl100k_base".to_owned()];
        let flags: Vec<String> = tokenizer.iter().chain(sets).cloned().collect();
        let config = configuration(self.args, &flags)?;
        let bar = self.bench.output.progress();
        let questions = &self.bench.data.questions;
        let mut retrieved = Vec::with_capacity(questions.len());
        for (at, question) in questions.iter().enumerate() {
            if bar.step("searching", at, questions.len()).is_break() {
                return Err(EngineError::Interrupted.into());
            }
            let request = SearchRequest::new(&question.query, config.clone());
            let chunks = take(&self.engine.observe(&request).await?);
            retrieved.push((self.bench.placed(&chunks), self.bench.tokens(&chunks)));
        }
        Ok(self.bench.summed(&retrieved))
    }

    fn text(&self, doc: DocId) -> Option<usize> {
        self.places.iter().find(|(id, _)| *id == doc).map(|(_, text)| *text)
    }

    fn chunk_of(&self, record: &LeafRecord) -> Option<Chunk> {
        Some(Chunk { text: self.text(record.doc)?, span: record.span })
    }
}
