//! An answer → the JSON that every door gives and the query log keeps.
//!
//! Invariant: fields may be added, never renamed. `docs/schema/search.json` is the schema of [`SearchJson`], as tested.

use super::answer::{AskResponse, SearchResponse, Shortage};
use crate::catalog::StoredDocument;
use crate::generate::Finish;
use crate::metadata::{Metadata, show_date};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use umbel_core::document::Document;
use umbel_core::hit::Scores;
use umbel_core::id::{ClusterId, DocId};
use umbel_core::merge::{BlockedBy, Evidence, ItemKind, NodeRef, RatioBy, Share};
use umbel_core::pack::{DropReason, Passage};
use umbel_core::span::{Span, slice};
use umbel_core::tree::NodeKind;

/// One of a few words.
type Word = Cow<'static, str>;

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

/// The JSON Schema of [`AskJson`], draft 7.
pub fn ask_schema() -> serde_json::Value {
    serde_json::to_value(schemars::schema_for!(AskJson)).expect("a schema is JSON")
}

/// The JSON Schema of [`SearchJson`], draft 7.
pub fn schema() -> serde_json::Value {
    serde_json::to_value(schemars::schema_for!(SearchJson)).expect("a schema is JSON")
}

/// The word for what a passage is.
pub fn kind(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Leaf => "leaf",
        ItemKind::Merged => "merged",
        ItemKind::Parent => "parent",
        ItemKind::Siblings => "siblings",
        ItemKind::Window => "window",
        ItemKind::Cropped => "cropped",
    }
}

/// The word for a node's place.
pub fn level(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Root => "root",
        NodeKind::Section => "section",
        NodeKind::Part => "part",
        NodeKind::Leaf => "leaf",
    }
}

/// Why a node was not merged.
pub fn blocked(reason: BlockedBy) -> &'static str {
    match reason {
        BlockedBy::MaxMergeTokens => "max_merge_tokens",
        BlockedBy::Budget => "budget",
        BlockedBy::Root => "merge_root",
        BlockedBy::ParentMissing => "parent missing",
        BlockedBy::Rival => "rival",
    }
}

/// Why something was not delivered.
pub fn drop_reason(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Budget => "budget",
        DropReason::Limit => "limit",
        DropReason::DocumentMissing => "document missing",
    }
}

/// A document's name, or its number where the catalog lost it.
pub fn doc_name(response: &SearchResponse, doc: DocId) -> String {
    response
        .documents
        .get(&doc)
        .map_or_else(|| format!("#{}", doc.0), |stored| stored.entry.name.clone())
}

/// A node as a citation: `guide/billing.md:120..980`.
pub fn node_name(response: &SearchResponse, node: NodeRef, span: Option<Span>) -> String {
    let stored = response.documents.get(&node.doc);
    let span = span.or_else(|| stored?.document.tree.node(node.node).map(|n| n.span));
    match span {
        Some(span) => format!("{}:{span}", doc_name(response, node.doc)),
        None => format!("{}#{}", doc_name(response, node.doc), node.node),
    }
}

/// The share of the tokens that compression removed, 0 to 1; `None` where nothing was compressed.
pub fn removed(response: &SearchResponse) -> Option<f64> {
    let (before, after) = response.compressed.filter(|&(before, _)| before > 0)?;
    Some(1.0 - after as f64 / before as f64)
}

/// The headings of a passage: those above it, and those inside it.
pub fn headings(document: &Document, passage: &Passage) -> (Vec<String>, Vec<String>) {
    let tree = &document.tree;
    let path = tree.node(passage.node).map(|node| node.path.clone()).unwrap_or_default();
    let inside = tree.headings.iter().enumerate().filter(|(at, heading)| {
        passage.span.contains(heading.span) && !path.contains(&(*at as u32))
    });
    (tree.heading_texts(&path), inside.map(|(_, heading)| heading.text.clone()).collect())
}

fn scores(scores: Scores) -> ScoresJson {
    let Scores { dense, lexical, fused, support, rerank } = scores;
    ScoresJson { dense, lexical, fused, support, rerank, final_score: scores.final_score() }
}

fn evidence(stored: &StoredDocument, evidence: &Evidence) -> EvidenceJson {
    let tree = &stored.document.tree;
    let leaf = tree.leaves_in(evidence.span).next().and_then(|at| tree.leaves.get(at));
    EvidenceJson {
        leaf: evidence.leaf.to_string(),
        span: evidence.span.into(),
        heading_path: leaf.map(|leaf| tree.heading_texts(&leaf.path)).unwrap_or_default(),
        scores: scores(evidence.scores),
    }
}

/// The cluster of a passage's best evidence, and the other documents that say the same.
pub fn cluster(response: &SearchResponse, passage: &Passage) -> ClusterJson {
    let best = passage.evidence.first();
    let members = best.and_then(|evidence| response.clusters.get(&evidence.cluster.0));
    let members = members.map(Vec::as_slice).unwrap_or_default();
    let others = members.iter().map(|member| &member.document);
    let others: BTreeMap<&str, Option<String>> = others
        .filter(|entry| entry.id != passage.doc)
        .map(|entry| (entry.name.as_str(), entry.metadata.url.clone()))
        .collect();
    ClusterJson {
        id: best.map(|e| e.cluster.0.to_string()).unwrap_or_default(),
        score: best.map_or(0.0, |e| e.cluster_score),
        seen: best.map_or(0, |e| e.cluster.1),
        in_index: members.len().max(1),
        also_in: others
            .into_iter()
            .map(|(doc, url)| AlsoInJson { doc: doc.to_owned(), url })
            .collect(),
    }
}

fn passage(
    response: &SearchResponse,
    stored: &StoredDocument,
    passage: &Passage,
    rank: usize,
) -> PassageJson {
    let document = &stored.document;
    let (heading_path, headings) = headings(document, passage);
    PassageJson {
        rank,
        doc: stored.entry.name.clone(),
        title: document.title.clone(),
        heading_path,
        headings,
        span: passage.span.into(),
        tokens: passage.tokens,
        kind: kind(passage.kind).into(),
        text: slice(&document.text, passage.span).to_owned(),
        page: document.page_at(passage.span.start),
        page_end: document.page_at(passage.span.end.saturating_sub(1)),
        anchor: document.element_at(passage.span.start).map(str::to_owned),
        line: document.line_at(passage.span.start),
        metadata: (&stored.entry.metadata).into(),
        prefix: passage.prefix.iter().map(|&span| span.into()).collect(),
        kept: passage.kept.iter().map(|&span| span.into()).collect(),
        rendered: passage.rendered(document),
        scores: scores(passage.scores()),
        score_from: if passage.kind == ItemKind::Leaf && passage.evidence.len() == 1 {
            "leaf".into()
        } else {
            "max of evidence".into()
        },
        evidence: passage.evidence.iter().map(|e| evidence(stored, e)).collect(),
        cluster: cluster(response, passage),
    }
}

fn share(response: &SearchResponse, share: &Share) -> ShareJson {
    ShareJson {
        node: node_name(response, share.node, share.span),
        level: share.kind.map(|kind| level(kind).into()),
        matched: share.matched,
        of: share.of,
        ratio_by: match share.by {
            RatioBy::Children => "children".into(),
            RatioBy::Tokens => "tokens".into(),
        },
        ratio: share.ratio,
        wanted: share.wanted,
    }
}

fn shortage(shortage: &Shortage) -> ShortageJson {
    let seen = |&(id, seen): &(ClusterId, usize)| SeenJson { id: id.to_string(), seen };
    ShortageJson {
        query: Some(shortage.query.clone()),
        wanted: shortage.wanted,
        clusters: shortage.clusters.iter().map(seen).collect(),
    }
}

/// Why the context is what it is.
pub fn trace(response: &SearchResponse) -> TraceJson {
    let trace = &response.trace;
    let fires = trace.merge.fires.iter().map(|fire| FireJson {
        share: share(response, &fire.share),
        tokens_before: fire.tokens_before,
        tokens_after: fire.tokens_after,
        absorbed_by: fire.absorbed_by.map(|node| node_name(response, node, None)),
    });
    let timings = response.timings.iter().map(|(name, took)| {
        let ms = (took.as_secs_f64() * 1e6).round() / 1e3;
        ((*name).to_owned(), ms)
    });
    TraceJson {
        config: response.config.clone(),
        generation: response.generation,
        cluster_run: response.cluster_run.map(|run| run.to_string()),
        depth: response.reading.depth,
        k_prime: response.reading.k_prime,
        fused: response.reading.fused,
        repeats: response.reading.repeats.clone(),
        exhausted: response.reading.is_whole,
        retrieved: trace.retrieved,
        examined: trace.examined,
        shortfall: trace.shortfall,
        shortage: response.shortage.as_ref().map(shortage),
        retry: response.reading.retry,
        fired: !trace.merge.fires.is_empty(),
        could_fire: trace.merge.could_fire,
        fires: fires.collect(),
        near_misses: trace.merge.near_misses.iter().map(|missed| share(response, missed)).collect(),
        blocked: trace
            .merge
            .blocked
            .iter()
            .map(|(node, reason)| BlockedJson {
                share: share(response, node),
                reason: blocked(*reason).into(),
            })
            .collect(),
        crops: trace
            .crops
            .iter()
            .map(|crop| CropJson {
                node: node_name(response, crop.node, None),
                tokens: crop.tokens,
                window: crop.window.into(),
            })
            .collect(),
        compressed: response.compressed.zip(removed(response)).map(|((before, after), removed)| {
            CompressedJson { tokens_before: before, tokens_after: after, removed }
        }),
        counts: CountsJson {
            children_retrieved: trace.counts.children_retrieved,
            after_merge: trace.counts.after_merge,
            parents_substituted: trace.counts.parents_substituted,
            final_context: trace.counts.final_context,
        },
        timings_ms: timings.collect(),
        warnings: response.warnings.clone(),
    }
}

/// The answer to a search.
pub fn search(response: &SearchResponse) -> SearchJson {
    let context = &response.context;
    let ranks = ranks(&context.passages);
    let passages = context.passages.iter().zip(ranks).filter_map(|(found, rank)| {
        response.documents.get(&found.doc).map(|stored| passage(response, stored, found, rank))
    });
    SearchJson {
        query: response.query.clone(),
        also: response.also.clone(),
        context: ContextJson {
            budget: response.budget_tokens,
            tokens: context.tokens,
            passages: passages.collect(),
            dropped: context
                .dropped
                .iter()
                .map(|dropped| DroppedJson {
                    doc: doc_name(response, dropped.doc),
                    span: dropped.span.into(),
                    reason: drop_reason(dropped.reason).into(),
                })
                .collect(),
        },
        trace: trace(response),
        total: TotalJson {
            clusters: response.total_clusters,
            relation: if response.reading.is_whole { "exact" } else { "at least" }.into(),
        },
        cursor: response.cursor.clone(),
    }
}

/// The place of each passage by its best evidence, from 1.
pub fn ranks(passages: &[Passage]) -> Vec<usize> {
    let better = |one: &Passage| passages.iter().filter(|other| other.rank() < one.rank()).count();
    passages.iter().map(|passage| better(passage) + 1).collect()
}

/// An answer that a model wrote.
pub fn ask(response: &AskResponse) -> AskJson {
    let search = search(&response.search);
    let citations = response.citations.iter().map(|citation| {
        let passage = citation.passage.and_then(|at| search.context.passages.get(at));
        CitationJson {
            number: citation.number,
            passage: citation.passage,
            mentions: citation.mentions.iter().map(|&span| span.into()).collect(),
            doc: passage.map(|passage| passage.doc.clone()),
            span: passage.map(|passage| passage.span),
            also_in: passage.map_or(0, |passage| passage.cluster.also_in.len()),
        }
    });
    AskJson {
        answer: response.answer.clone(),
        citations: citations.collect(),
        model: response.model.clone(),
        finish: response.finish.as_ref().map(finish),
        usage: response.usage.map(|usage| UsageJson {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
        }),
        error: response
            .failure
            .as_ref()
            .map(|error| ErrorJson { message: with_causes(error), hint: error.hint() }),
        search,
    }
}

fn finish(finish: &Finish) -> Word {
    match finish {
        Finish::Stop => "stop".into(),
        Finish::Length => "length".into(),
        Finish::Filtered => "filtered".into(),
        Finish::Broken => "broken off".into(),
        Finish::Unstated => "unstated".into(),
        Finish::Other(reason) => reason.clone().into(),
    }
}

/// An error with what caused it.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut words: Vec<String> = causes.map(ToString::to_string).collect();
    // An error that only passes on another says the same.
    words.dedup();
    words.join(": ")
}
