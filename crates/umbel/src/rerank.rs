//! A query and the texts of leaves → a score for each: the port, and the models behind it.
//!
//! Invariant: higher scores are better, and each is finite. Leaves are scored before they are expanded; what is no leaf is scored
//! only where that is asked for by name.

#[cfg(feature = "local")]
pub mod local;
#[cfg(feature = "remote")]
pub mod remote;

use std::borrow::Cow;
use std::path::PathBuf;

pub use crate::config::RerankStage;
use umbel_core::document::Document;
use umbel_core::leaf::embedded_text;
use umbel_core::span::slice;
use umbel_core::tree::Leaf;

/// What a reranker is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RerankerInfo {
    /// Names the model and its weights as far as they are known, wherever it runs.
    pub model: String,
}

/// The text of one leaf. It is made of a leaf and of nothing else, so a passage cannot take its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafText<'a>(Cow<'a, str>);

impl<'a> LeafText<'a> {
    /// The leaf alone, as it is delivered.
    ///
    /// # Panics
    /// If the leaf is one of another document.
    pub fn alone(document: &'a Document, leaf: &Leaf) -> Self {
        Self(Cow::Borrowed(slice(&document.text, leaf.span)))
    }

    /// The leaf with title, headings and prefix before it, as it is embedded: what a reader would see above it.
    ///
    /// # Panics
    /// If the leaf is one of another document.
    pub fn with_headings(document: &'a Document, leaf: &Leaf) -> Self {
        let Document { text, title, tree, .. } = document;
        Self(Cow::Owned(embedded_text(text, title, tree, leaf)))
    }

    /// What is scored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A query, and what is to be scored by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RerankRequest<'a> {
    query: &'a str,
    texts: Vec<Cow<'a, str>>,
    stage: RerankStage,
}

impl<'a> RerankRequest<'a> {
    /// Scores leaves.
    pub fn leaves(query: &'a str, leaves: impl IntoIterator<Item = LeafText<'a>>) -> Self {
        let texts = leaves.into_iter().map(|LeafText(text)| text).collect();
        Self { query, texts, stage: RerankStage::Leaves }
    }

    /// Scores what leaves were delivered as, for those who set that stage. Long texts hide what they were found for, so this is
    /// worth a warning.
    pub fn passages(query: &'a str, passages: impl IntoIterator<Item = &'a str>) -> Self {
        let texts = passages.into_iter().map(Cow::Borrowed).collect();
        Self { query, texts, stage: RerankStage::Passages }
    }

    /// The question.
    pub fn query(&self) -> &str {
        self.query
    }

    /// What is scored, in the order given.
    pub fn texts(&self) -> Vec<&str> {
        self.texts.iter().map(AsRef::as_ref).collect()
    }

    /// What the texts are.
    pub fn stage(&self) -> RerankStage {
        self.stage
    }
}

/// Scores texts by how well they answer a query.
#[async_trait::async_trait]
pub trait Reranker: Send + Sync {
    /// The model.
    fn describe(&self) -> &RerankerInfo;

    /// Scores of the request's texts, in the order given: finite, higher is better. Their unit is the model's own, so scores of
    /// two models or two queries do not compare. No texts give no scores.
    async fn rerank(&self, request: &RerankRequest<'_>) -> Result<Vec<f32>, RerankError>;
}

impl RerankError {
    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            #[cfg(feature = "remote")]
            RerankError::Unavailable { source, .. }
            | RerankError::Server { source, .. }
            | RerankError::Nonsense { source, .. } => {
                source.downcast_ref::<remote::RemoteRerankError>()?.hint()
            }
            _ => None,
        }
    }
}

/// Why texts were not scored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RerankError {
    /// The model's files do not load.
    #[error("the model in `{path}` does not load")]
    Model {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The tokenizer or the runtime failed on a batch.
    #[error("reranking failed")]
    Run {
        /// What went wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server of the model did not answer: the same request may pass later.
    #[error("the server of `{model}` did not answer")]
    Unavailable {
        /// The model.
        model: String,
        /// What came in place of an answer.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server of the model refused, or was asked for what it cannot give: correct the settings.
    #[error("the server of `{model}` gave no scores")]
    Server {
        /// The model.
        model: String,
        /// What is wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What came is not one finite score for each text.
    #[error("the server of `{model}` gave nonsense")]
    Nonsense {
        /// The model.
        model: String,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::conformance::sample;

    #[test]
    fn a_request_holds_leaves_as_they_are_delivered_or_as_they_are_embedded() {
        let document = sample("# Billing\n\nPay by card.\n");
        let leaf = &document.tree.leaves[0];
        let alone = LeafText::alone(&document, leaf);
        assert_eq!(alone.as_str(), slice(&document.text, leaf.span));
        let headed = LeafText::with_headings(&document, leaf);
        assert!(headed.as_str().ends_with(alone.as_str()));
        assert!(headed.as_str().len() >= alone.as_str().len());

        let request = RerankRequest::leaves("how?", [alone.clone(), headed.clone()]);
        assert_eq!(request.texts(), [alone.as_str(), headed.as_str()]);
        assert_eq!((request.query(), request.stage()), ("how?", RerankStage::Leaves));
    }

    #[test]
    fn passages_are_asked_for_by_name() {
        let request = RerankRequest::passages("how?", ["a", "b"]);
        assert_eq!((request.texts(), request.stage()), (vec!["a", "b"], RerankStage::Passages));
    }
}
