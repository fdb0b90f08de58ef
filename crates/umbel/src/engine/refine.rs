//! A collapsed list → the same list in a reranker's order; passages → what of them is nearest to the question.
//!
//! Invariant: a model that fails costs its step, which a warning says, and nothing else.

use super::answer::SearchRequest;
use super::wire::with_causes;
use super::{Engine, EngineError};
use crate::catalog::StoredDocument;
use crate::config::RerankStage as Stage;
use crate::embed::Embedder;
use crate::index::lexical::LexicalEncoder;
use crate::rerank::{LeafText, RerankRequest};
use std::collections::BTreeMap;
use std::sync::Arc;
use umbel_core::collapse::Collapsed;
use umbel_core::compress::{select, sentences};
use umbel_core::id::DocId;
use umbel_core::pack::Context;
use umbel_core::span::slice;

type Documents = BTreeMap<DocId, Arc<StoredDocument>>;

impl Engine {
    /// Sorts the list by what the reranker says of its leaves; whether there is one that was asked.
    pub(super) async fn rerank_leaves(
        &self,
        request: &SearchRequest,
        list: &mut Collapsed,
        documents: &Documents,
        warnings: &mut Vec<String>,
    ) -> bool {
        let Some(reranker) = self.reranker_for(request, Stage::Leaves) else { return false };
        let leaves: Vec<LeafText<'_>> = list
            .voices
            .iter()
            .filter_map(|voice| {
                let record = &voice.hit.record;
                let document = &documents.get(&record.doc)?.document;
                let leaf = document.tree.leaves.get(record.ordinal as usize)?;
                Some(LeafText::with_headings(document, leaf))
            })
            .collect();
        let n_leaves = leaves.len();
        match reranker.rerank(&RerankRequest::leaves(&request.query, leaves)).await {
            Ok(scores) if scores.len() == list.voices.len() => {
                list.rerank(&scores);
            }
            Ok(scores) => warnings.push(format!(
                "the order is that of fusion: the reranker gave {} scores for {n_leaves} leaves",
                scores.len()
            )),
            Err(error) => {
                warnings.push(format!("the order is that of fusion: {}", with_causes(&error)));
            }
        }
        true
    }

    /// Sorts passages by what the reranker says of them; whether there is one that was asked.
    pub(super) async fn rerank_passages(
        &self,
        request: &SearchRequest,
        context: &mut Context,
        documents: &Documents,
        warnings: &mut Vec<String>,
    ) -> bool {
        let Some(reranker) = self.reranker_for(request, Stage::Passages) else { return false };
        warnings.push(
            "`rerank.stage` is `passages`: long texts hide what they were found for, and are scored unreliably"
                .to_owned(),
        );
        let texts: Vec<String> = context
            .passages
            .iter()
            .map(|passage| {
                let stored = documents.get(&passage.doc);
                stored.map(|stored| passage.rendered(&stored.document)).unwrap_or_default()
            })
            .collect();
        let asked = RerankRequest::passages(&request.query, texts.iter().map(String::as_str));
        match reranker.rerank(&asked).await {
            Ok(scores) if scores.len() == context.passages.len() => {
                let mut scored: Vec<_> =
                    scores.into_iter().zip(context.passages.drain(..)).collect();
                scored.sort_by(|(a, _), (b, _)| b.total_cmp(a));
                context.passages.extend(scored.into_iter().map(|(_, passage)| passage));
            }
            Ok(scores) => warnings.push(format!(
                "passages are in their own order: the reranker gave {} scores for {}",
                scores.len(),
                texts.len()
            )),
            Err(error) => {
                warnings.push(format!("passages are in their own order: {}", with_causes(&error)));
            }
        }
        true
    }

    fn reranker_for(
        &self,
        request: &SearchRequest,
        stage: Stage,
    ) -> Option<&dyn crate::rerank::Reranker> {
        let wanted = request.config.settings().rerank.stage == stage;
        self.reranker.as_deref().filter(|_| wanted)
    }

    /// Keeps of each passage the sentences nearest to the question. Returns tokens before and after; `None` where nothing was
    /// to be compressed.
    pub(super) async fn compress(
        &self,
        request: &SearchRequest,
        context: &mut Context,
        documents: &Documents,
        warnings: &mut Vec<String>,
    ) -> Option<(usize, usize)> {
        let keep = request.config.settings().search.keep;
        if keep >= 1.0 || context.passages.is_empty() {
            return None;
        }
        let before = context.tokens;
        if let Err(error) = self.keep_nearest(&request.query, keep, context, documents).await {
            warnings.push(format!("not all is compressed: {}", with_causes(&error)));
        }
        context.tokens = context.passages.iter().map(|passage| passage.tokens).sum();
        Some((before, context.tokens))
    }

    /// Compresses passages, one after the other, until the model fails.
    async fn keep_nearest(
        &self,
        query: &str,
        keep: f64,
        context: &mut Context,
        documents: &Documents,
    ) -> Result<(), EngineError> {
        let question = match self.embedder.as_deref() {
            Some(embedder) => Question::Vector(embedder.embed_query(query).await?, embedder),
            None => Question::Words(self.lexical.query(query).indices, &self.lexical),
        };
        for passage in &mut context.passages {
            let Some(stored) = documents.get(&passage.doc) else { continue };
            let document = &stored.document;
            let texts: Vec<&str> = sentences(document, passage.span)
                .into_iter()
                .map(|sentence| slice(&document.text, sentence))
                .collect();
            let scores = question.nearness(&texts).await?;
            passage.keep(select(document, passage.span, &scores, keep), document);
        }
        Ok(())
    }
}

/// A question as sentences are compared with it, and what makes the same of them.
enum Question<'a> {
    /// By the cosine of vectors.
    Vector(Vec<f32>, &'a dyn Embedder),
    /// By the words that both have, in a store without vectors.
    Words(Vec<u32>, &'a LexicalEncoder),
}

impl Question<'_> {
    /// How near texts are, each; higher is nearer.
    async fn nearness(&self, texts: &[&str]) -> Result<Vec<f32>, EngineError> {
        match self {
            Question::Vector(question, embedder) => {
                let cut: Vec<&str> = texts.iter().map(|text| beginning(text, *embedder)).collect();
                let vectors = embedder.embed_passages(&cut).await?;
                let cosine =
                    |vector: Vec<f32>| vector.iter().zip(question).map(|(a, b)| a * b).sum();
                Ok(vectors.into_iter().map(cosine).collect())
            }
            Question::Words(question, lexical) => {
                let shared = |text: &&str| {
                    let words = lexical.passage(text).indices;
                    words.iter().filter(|word| question.contains(word)).count() as f32
                };
                Ok(texts.iter().map(shared).collect())
            }
        }
    }
}

/// What a model takes of a text: all of it, else a half of it, or of that, from its start.
fn beginning<'a>(text: &'a str, embedder: &dyn Embedder) -> &'a str {
    let limit = embedder.describe().max_tokens;
    let mut taken = text;
    while !taken.is_empty() && embedder.count_tokens(taken) > limit {
        let half = taken.floor_char_boundary(taken.len() / 2);
        taken = taken.get(..half).unwrap_or_default();
    }
    taken
}
