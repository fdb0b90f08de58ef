//! What is asked, and what is answered.
//!
//! Invariant: every document that context and trace point into is in the answer.

use crate::catalog::{Member, RunId, StoredDocument};
use crate::config::Config;
use crate::filter::Filter;
use crate::generate::{Finish, GenerateError, Usage};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use umbel_core::id::{ClusterId, DocId};
use umbel_core::pack::Context;
use umbel_core::span::Span;
use umbel_core::trace::Trace;

/// What is asked.
#[derive(Debug, Clone)]
pub struct SearchRequest {
    /// The question.
    pub query: String,
    /// The same question in other words, or its parts: all lists are fused into one.
    pub also: Vec<String>,
    /// Which documents are searched.
    pub filter: Filter,
    /// Passages at the most; `None` for no limit but the budget.
    pub limit: Option<usize>,
    /// How leaves are found and delivered.
    pub config: Config,
}

impl SearchRequest {
    /// One question of the whole store, limited by the budget alone.
    pub fn new(query: impl Into<String>, config: Config) -> SearchRequest {
        SearchRequest {
            query: query.into(),
            also: Vec::new(),
            filter: Filter::default(),
            limit: None,
            config,
        }
    }
}

/// What is answered.
#[derive(Debug, Clone)]
pub struct SearchResponse {
    /// The question.
    pub query: String,
    /// The other questions whose lists were fused with it.
    pub also: Vec<String>,
    /// The token budget.
    pub budget_tokens: usize,
    /// What is to be read.
    pub context: Context,
    /// Tokens before and after compression; `None` where nothing was compressed.
    pub compressed: Option<(usize, usize)>,
    /// Why.
    pub trace: Trace,
    /// The documents that context and trace point into.
    pub documents: BTreeMap<DocId, Arc<StoredDocument>>,
    /// The members of the clusters of the passages' best evidence that the asker may know of; nothing of a leaf that is its own
    /// cluster.
    pub clusters: BTreeMap<ClusterId, Vec<Member>>,
    /// The cluster run in effect.
    pub cluster_run: Option<RunId>,
    /// Hash of the configuration.
    pub config: String,
    /// The catalog's generation.
    pub generation: u64,
    /// Leaves that were kept of the fused list.
    pub k_prime: usize,
    /// How long each step took, in the order in which they were first taken.
    pub timings: Vec<(&'static str, Duration)>,
    /// What the reader should know, in words.
    pub warnings: Vec<String>,
}

/// What is asked, and how the prompt is written.
#[derive(Debug, Clone)]
pub struct AskRequest {
    /// The question, and how its passages are found.
    pub search: SearchRequest,
    /// A prompt in which `{context}` and `{question}` are replaced; `None` for the built-in one.
    pub template: Option<String>,
}

/// What is answered.
#[derive(Debug)]
pub struct AskResponse {
    /// What was found: the passages that the model was given, and why.
    pub search: SearchResponse,
    /// The model.
    pub model: String,
    /// What it wrote; where it failed, what came before.
    pub answer: String,
    /// Why the text ends; `None` where the model failed, or was not asked.
    pub finish: Option<Finish>,
    /// What it cost, where the model says so.
    pub usage: Option<Usage>,
    /// What the answer cites, each number once, in the order of their first mention.
    pub citations: Vec<Citation>,
    /// Why there is no answer, or only part of one.
    pub failure: Option<GenerateError>,
}

/// A number in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    /// The number.
    pub number: usize,
    /// The passage that it names, as its place in the context, from 0; `None` where no such passage was delivered.
    pub passage: Option<usize>,
    /// Where in the answer it stands, in bytes, each time.
    pub mentions: Vec<Span>,
}
