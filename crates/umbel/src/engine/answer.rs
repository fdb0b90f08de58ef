//! What is asked, and what is answered.
//!
//! Invariant: every document that context and trace point into is in the answer.

use crate::catalog::{Member, RunId, StoredDocument};
use crate::config::Config;
use crate::filter::Filter;
use crate::generate::{Finish, GenerateError, Usage};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use umbel_core::collapse::Collapsed;
use umbel_core::hit::Hit;
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
    /// [`SearchResponse::cursor`] of the page before; `None` for the first page.
    pub cursor: Option<String>,
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
            cursor: None,
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
    /// The leaves that the list was collapsed from, best first.
    pub candidates: Vec<Hit>,
    /// How far they were read.
    pub reading: Reading,
    /// What duplicates took from the list, where it is short of them.
    pub shortage: Option<Shortage>,
    /// Distinct clusters that the question has met, on this page and on earlier ones: all that match where
    /// [`Reading::is_whole`], else some of them.
    pub total_clusters: usize,
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
    /// How long each step took, in the order in which they were first taken.
    pub timings: Vec<(&'static str, Duration)>,
    /// What the reader should know, in words.
    pub warnings: Vec<String>,
    /// What the next page is asked with; `None` where there is no more.
    pub cursor: Option<String>,
}

/// How far a ranked list was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading {
    /// Distinct clusters that were wanted.
    pub depth: usize,
    /// Leaves that the list was cut at, those of the second search among them.
    pub k_prime: usize,
    /// Leaves that the first search gave, before the cut.
    pub fused: usize,
    /// The places in these, from 1, at which a cluster came again.
    pub repeats: Vec<usize>,
    /// Whether the index was searched a second time, for leaves of other clusters.
    pub retry: bool,
    /// Whether the search met every cluster that matches.
    pub is_whole: bool,
}

/// A list that collapsing left shorter than was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// The question.
    pub query: String,
    /// Distinct clusters that were wanted.
    pub wanted: usize,
    /// The clusters that were found, best first, each with its members in the list.
    pub clusters: Vec<(ClusterId, usize)>,
}

impl Shortage {
    /// What a list lacks. `None` where it is as long as was asked for, or where so few leaves match that it would be short
    /// without duplicates as well.
    pub fn of(query: &str, list: &Collapsed, reading: &Reading) -> Option<Shortage> {
        let is_small = reading.is_whole && list.retrieved < reading.depth;
        let clusters = list.voices.iter().map(|voice| (voice.hit.record.cluster, voice.seen()));
        (list.voices.len() < reading.depth && !is_small).then(|| Shortage {
            query: query.to_owned(),
            wanted: reading.depth,
            clusters: clusters.collect(),
        })
    }
}

impl fmt::Display for Shortage {
    /// Without the question, which a log may not hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leaves: usize = self.clusters.iter().map(|(_, seen)| seen).sum();
        let (found, wanted) = (self.clusters.len(), self.wanted);
        write!(f, "distinct clusters: {found} of {wanted} wanted, in {leaves} leaves")?;
        let largest = self.clusters.iter().max_by_key(|(_, seen)| *seen);
        match largest.filter(|(_, seen)| *seen > 1) {
            Some((cluster, seen)) => {
                write!(f, ", {seen} of which say the same (cluster {cluster})")
            }
            None => Ok(()),
        }
    }
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
