//! The fields of an answer, as every door gives it and the query log keeps it.
//!
//! Invariant: fields may be added, never renamed.

use crate::metadata::{Metadata, show_date};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use umbel_core::span::Span;

/// One of a few words.
pub(super) type Word = Cow<'static, str>;

/// The bytes `start..end` of a document's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpanJson {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl From<Span> for SpanJson {
    fn from(span: Span) -> SpanJson {
        SpanJson { start: span.start, end: span.end }
    }
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchJson {
    /// The question.
    pub query: String,
    /// The other questions whose lists were fused with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// What is to be read.
    pub context: ContextJson,
    /// Why.
    pub trace: TraceJson,
    /// How much there is for this question.
    pub total: TotalJson,
    /// What the next page is asked with; null when there is no more.
    pub cursor: Option<String>,
}

/// How much there is for a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TotalJson {
    /// Distinct clusters of duplicates that it has met, on this page and on earlier ones.
    pub clusters: usize,
    /// `exact` where these are all that match, `at least` where the index may hold more.
    pub relation: Word,
}

/// What is to be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContextJson {
    /// Tokens that were allowed.
    pub budget: usize,
    /// Tokens of all passages.
    pub tokens: usize,
    /// The passages, in the order asked for.
    pub passages: Vec<PassageJson>,
    /// What was not delivered, in rank order.
    pub dropped: Vec<DroppedJson>,
}

/// A span to read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PassageJson {
    /// Its place by best evidence, from 1.
    pub rank: usize,
    /// The document's name.
    pub doc: String,
    /// The document's title.
    pub title: String,
    /// The headings above the passage, outermost first.
    pub heading_path: Vec<String>,
    /// The headings inside it.
    pub headings: Vec<String>,
    /// Its bytes.
    pub span: SpanJson,
    /// Tokens counted for it.
    pub tokens: usize,
    /// `leaf`, `merged`, `parent`, `siblings`, `window` or `cropped`.
    pub kind: Word,
    /// The bytes of `span`.
    pub text: String,
    /// The page of the file that it starts on, from 1; null for a file without pages.
    pub page: Option<u32>,
    /// The page that it ends on.
    pub page_end: Option<u32>,
    /// The id of the element of an HTML page that it starts in.
    pub anchor: Option<String>,
    /// The line of the text that it starts on, from 1.
    pub line: usize,
    /// What is known of the document.
    #[serde(flatten)]
    pub metadata: MetadataJson,
    /// Table header rows or a fence line that are shown before it.
    pub prefix: Vec<SpanJson>,
    /// After compression: the pieces of it that were kept.
    pub kept: Vec<SpanJson>,
    /// What a generator receives.
    pub rendered: String,
    /// The scores of its best evidence.
    pub scores: ScoresJson,
    /// Whose scores they are: `leaf` or `max of evidence`.
    pub score_from: Word,
    /// The retrieved leaves in it, best first.
    pub evidence: Vec<EvidenceJson>,
    /// The cluster of duplicates of its best evidence.
    pub cluster: ClusterJson,
}

/// What is known of a document besides its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MetadataJson {
    /// Where it comes from.
    pub connector: Option<String>,
    /// Its address.
    pub url: Option<String>,
    /// When it was last changed, RFC 3339.
    pub updated_at: Option<String>,
    /// Which of several dates that is: `rule`, `front matter`, `format`, `git` or `file`.
    pub updated_from: Option<Word>,
    /// Its labels.
    pub labels: Vec<String>,
    /// The language of its text, two or three letters.
    pub language: Option<String>,
}

impl From<&Metadata> for MetadataJson {
    fn from(metadata: &Metadata) -> MetadataJson {
        let Metadata { connector, url, updated, labels, language } = metadata.clone();
        MetadataJson {
            connector,
            url,
            updated_at: updated.map(|updated| show_date(updated.at)),
            updated_from: updated.map(|updated| updated.from.name().into()),
            labels: labels.into_iter().collect(),
            language,
        }
    }
}

/// What a leaf was given by each step; higher is better.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScoresJson {
    /// Cosine, -1 to 1; null where the dense leg did not find the leaf.
    pub dense: Option<f32>,
    /// BM25, 0 and up; null where the lexical leg did not find it.
    pub lexical: Option<f32>,
    /// What fusion made of both.
    pub fused: f32,
    /// What the best others of its section and document add to that.
    pub support: f32,
    /// What a reranker gave it, if one ran.
    pub rerank: Option<f32>,
    /// What the list is ordered by.
    #[serde(rename = "final")]
    pub final_score: f32,
}

/// A retrieved leaf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvidenceJson {
    /// Its id.
    pub leaf: String,
    /// Its bytes.
    pub span: SpanJson,
    /// The headings above it, outermost first.
    pub heading_path: Vec<String>,
    /// Its scores.
    pub scores: ScoresJson,
}

/// A cluster of duplicates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterJson {
    /// Its id.
    pub id: String,
    /// What it is ranked by: the best score of its members in the list, or what a reranker gave the one that speaks.
    pub score: f32,
    /// Members that the list held.
    pub seen: usize,
    /// Members that the index holds, of documents that the asker may know of.
    pub in_index: usize,
    /// Where else the same is said.
    pub also_in: Vec<AlsoInJson>,
}

/// A document that says the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AlsoInJson {
    /// Its name.
    pub doc: String,
    /// Its address.
    pub url: Option<String>,
}

/// Something that was not delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DroppedJson {
    /// The document's name.
    pub doc: String,
    /// The bytes that were to be delivered.
    pub span: SpanJson,
    /// `budget`, `limit` or `document missing`.
    pub reason: Word,
}

/// Why the context is what it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, as it is published")]
pub struct TraceJson {
    /// Hash of the configuration.
    pub config: String,
    /// The catalog's generation: it rises with every change of the documents.
    pub generation: u64,
    /// The run that marked duplicates; null where there was none.
    pub cluster_run: Option<String>,
    /// Distinct clusters that were wanted; 0 in records of versions that did not keep it.
    #[serde(default)]
    pub depth: usize,
    /// Leaves that the fused list was cut at.
    pub k_prime: usize,
    /// Leaves that fusion gave, before the cut.
    #[serde(default)]
    pub fused: usize,
    /// The places in these, from 1, at which a cluster of duplicates came again: what any other `k_prime` would have given
    /// follows from them.
    #[serde(default)]
    pub repeats: Vec<usize>,
    /// Whether the search met every cluster that matches.
    #[serde(default)]
    pub exhausted: bool,
    /// Leaves that were read before duplicates were collapsed.
    pub retrieved: usize,
    /// Leaves that were looked at until the list had its length.
    pub examined: usize,
    /// Distinct clusters that were wanted and not found.
    pub shortfall: usize,
    /// What is known of a list that duplicates left short; null where it is not, or where no more leaves match.
    #[serde(default)]
    pub shortage: Option<ShortageJson>,
    /// Whether the index was searched a second time, further, and without the clusters that were found.
    pub retry: bool,
    /// Whether any node replaced its children.
    pub fired: bool,
    /// Whether any node above the list could have.
    pub could_fire: bool,
    /// Every node that replaced its children.
    pub fires: Vec<FireJson>,
    /// Nodes that met one condition and missed the other.
    pub near_misses: Vec<ShareJson>,
    /// Nodes that met both and were not merged.
    pub blocked: Vec<BlockedJson>,
    /// Parents that were cropped.
    pub crops: Vec<CropJson>,
    /// What compression removed; null where nothing was compressed.
    pub compressed: Option<CompressedJson>,
    /// How many things there were after each step.
    pub counts: CountsJson,
    /// How long each step took, in milliseconds.
    pub timings_ms: BTreeMap<String, f64>,
    /// What the reader should know, in words.
    pub warnings: Vec<String>,
}

/// What the merge rule saw of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShareJson {
    /// The node, as `guide/billing.md:120..980`.
    pub node: String,
    /// `root`, `section` or `part`; null where the catalog lacks it.
    pub level: Option<Word>,
    /// Children that were retrieved, or merged just below.
    pub matched: usize,
    /// Children in all.
    pub of: usize,
    /// What the rule counts shares in: `children` or `tokens`.
    pub ratio_by: Word,
    /// The share that was retrieved, 0 to 1.
    pub ratio: f64,
    /// The share that the rule wanted.
    pub wanted: f64,
}

/// A list that duplicates left shorter than was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShortageJson {
    /// The question; null in a log that keeps no text.
    pub query: Option<String>,
    /// Distinct clusters that were wanted.
    pub wanted: usize,
    /// The clusters that were found, best first.
    pub clusters: Vec<SeenJson>,
}

/// A cluster of duplicates in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeenJson {
    /// Its id.
    pub id: String,
    /// Members that the list held.
    pub seen: usize,
}

/// A node that replaced its children.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FireJson {
    /// What the rule saw.
    #[serde(flatten)]
    pub share: ShareJson,
    /// Tokens of the matched children.
    pub tokens_before: usize,
    /// Tokens of the node.
    pub tokens_after: usize,
    /// The node above that took this one in.
    pub absorbed_by: Option<String>,
}

/// A node that met the rule and was not merged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockedJson {
    /// What the rule saw.
    #[serde(flatten)]
    pub share: ShareJson,
    /// `max_merge_tokens`, `budget`, `merge_root`, `parent missing` or `rival`.
    pub reason: Word,
}

/// A parent that was cropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CropJson {
    /// The node.
    pub node: String,
    /// Its tokens.
    pub tokens: usize,
    /// What is left of it.
    pub window: SpanJson,
}

/// What compression removed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompressedJson {
    /// Tokens before.
    pub tokens_before: usize,
    /// Tokens after.
    pub tokens_after: usize,
    /// The share that was removed, 0 to 1.
    pub removed: f64,
}

/// How many things there were after each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountsJson {
    /// Leaves that were kept of the list.
    pub children_retrieved: usize,
    /// Items after merging.
    pub after_merge: usize,
    /// Topmost nodes that replaced their children.
    pub parents_substituted: usize,
    /// Passages delivered.
    pub final_context: usize,
}

/// An answer that a model wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskJson {
    /// What it wrote; where it failed, what came before.
    pub answer: String,
    /// What the answer cites, each number once.
    pub citations: Vec<CitationJson>,
    /// The model.
    pub model: String,
    /// Why the text ends: `stop`, `length`, `filtered`, `broken off`, `unstated`, or what the server says; null where the model
    /// failed or was not asked.
    pub finish: Option<Word>,
    /// What it cost, where the model says so.
    pub usage: Option<UsageJson>,
    /// Why there is no answer, or only part of one.
    pub error: Option<ErrorJson>,
    /// What was found: the passages that the model was given, and why.
    #[serde(flatten)]
    pub search: SearchJson,
}

/// A number in an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CitationJson {
    /// The number.
    pub number: usize,
    /// The passage that it names, as its place in `context.passages`, from 0; null where no such passage was delivered.
    pub passage: Option<usize>,
    /// Where in the answer it stands.
    pub mentions: Vec<SpanJson>,
    /// The document that the passage is of.
    pub doc: Option<String>,
    /// The passage's bytes in it.
    pub span: Option<SpanJson>,
    /// In how many other places the same is said.
    pub also_in: usize,
}

/// Tokens, as the model counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsageJson {
    /// Those of the prompt.
    pub prompt_tokens: u64,
    /// Those of the answer.
    pub completion_tokens: u64,
}

/// Why something failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorJson {
    /// What happened, with what caused it.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}
