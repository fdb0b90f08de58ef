//! A collapsed list → the same list in a reranker's order; passages → what of them is nearest to the question.
//!
//! Invariant: a model that fails costs its step, which a warning says, and nothing else.

use super::answer::SearchRequest;
use super::wire::with_causes;
use super::{Engine, EngineError};
use crate::catalog::StoredDocument;
use crate::config::RerankStage as Stage;
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
    /// Sorts the list by what the reranker says of its leaves; whether it did.
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
                true
            }
            Ok(scores) => {
                warnings.push(format!(
                    "the order is that of fusion: the reranker gave {} scores for {n_leaves} leaves",
                    scores.len()
                ));
                false
            }
            Err(error) => {
                warnings.push(format!("the order is that of fusion: {}", with_causes(&error)));
                false
            }
        }
    }

    /// Sorts passages by what the reranker says of them; whether it did.
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
                true
            }
            Ok(scores) => {
                warnings.push(format!(
                    "passages are in their own order: the reranker gave {} scores for {}",
                    scores.len(),
                    texts.len()
                ));
                false
            }
            Err(error) => {
                warnings.push(format!("passages are in their own order: {}", with_causes(&error)));
                false
            }
        }
    }

    fn reranker_for(
        &self,
        request: &SearchRequest,
        stage: Stage,
    ) -> Option<&dyn crate::rerank::Reranker> {
        let wanted = request.config.settings().rerank.stage == stage;
        self.reranker.as_deref().filter(|_| wanted)
    }

    /// Keeps of each passage the sentences nearest to the question. Returns tokens before and after; `None` where all is kept.
    pub(super) async fn compress(
        &self,
        request: &SearchRequest,
        context: &mut Context,
        documents: &Documents,
        warnings: &mut Vec<String>,
    ) -> Option<(usize, usize)> {
        let keep = request.config.settings().search.keep;
        if keep >= 1.0 {
            return None;
        }
        let before = context.tokens;
        for passage in &mut context.passages {
            let Some(stored) = documents.get(&passage.doc) else { continue };
            let document = &stored.document;
            let texts: Vec<&str> = sentences(document, passage.span)
                .into_iter()
                .map(|sentence| slice(&document.text, sentence))
                .collect();
            match self.nearness(&request.query, &texts).await {
                Ok(scores) => passage.keep(select(document, passage.span, &scores, keep), document),
                Err(error) => {
                    warnings.push(format!("not all is compressed: {}", with_causes(&error)));
                    break;
                }
            }
        }
        context.tokens = context.passages.iter().map(|passage| passage.tokens).sum();
        Some((before, context.tokens))
    }

    /// How near texts are to a question: the cosine of their vectors, or by the words they share where there are none.
    async fn nearness(&self, query: &str, texts: &[&str]) -> Result<Vec<f32>, EngineError> {
        if let Some(embedder) = &self.embedder {
            let limit = embedder.describe().max_tokens;
            // A sentence that the model does not take is judged by its beginning.
            let cut: Vec<&str> = texts
                .iter()
                .map(|text| {
                    let mut end = text.len();
                    while end > 0
                        && embedder.count_tokens(text.get(..end).unwrap_or_default()) > limit
                    {
                        end = text.floor_char_boundary(end / 2);
                    }
                    text.get(..end).unwrap_or_default()
                })
                .collect();
            let question = embedder.embed_query(query).await?;
            let vectors = embedder.embed_passages(&cut).await?;
            let cosine = |vector: Vec<f32>| vector.iter().zip(&question).map(|(a, b)| a * b).sum();
            return Ok(vectors.into_iter().map(cosine).collect());
        }
        let question = self.lexical.query(query);
        let shared = |text: &&str| {
            let words = self.lexical.passage(text);
            let common = words.indices.iter().filter(|word| question.indices.contains(word));
            common.count() as f32
        };
        Ok(texts.iter().map(shared).collect())
    }
}
