//! One query of a run.

use crate::judgment::Reference;
use crate::metric::Place;
use serde::{Deserialize, Serialize};
use umbel_core::hit::{Ancestor, Hit, LeafRecord, Scores};
use umbel_core::id::{ClusterId, DocId, IdError, LeafId};
use umbel_core::span::Span;

/// A span of one of an entry's documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "(u32, usize, usize)", into = "(u32, usize, usize)")]
pub struct Spot {
    /// Its place in [`Entry::docs`].
    pub doc: u32,
    /// Its bytes.
    pub span: Span,
}

impl From<(u32, usize, usize)> for Spot {
    fn from((doc, start, end): (u32, usize, usize)) -> Spot {
        // A file may hold anything: what ends before it starts is empty.
        Spot { doc, span: Span::new(start, end.max(start)) }
    }
}

impl From<Spot> for (u32, usize, usize) {
    fn from(spot: Spot) -> (u32, usize, usize) {
        (spot.doc, spot.span.start, spot.span.end)
    }
}

/// A leaf that a query found, with what the index knows of it and what each leg gave it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "CandidateRow", into = "CandidateRow")]
pub struct Candidate {
    /// The leaf; its document is a place in [`Entry::docs`].
    pub record: LeafRecord,
    /// Cosine; `None` where the dense leg did not find it.
    pub dense: Option<f32>,
    /// BM25; `None` where the lexical leg did not find it.
    pub lexical: Option<f32>,
}

/// A candidate in the file, where names would be most of it: leaf, spot, ordinal, tokens, node, ancestors with their numbers
/// of children, cluster where it is not the leaf itself, dense, lexical.
type CandidateRow =
    (String, Spot, u32, u32, u32, Vec<(u32, u32)>, Option<String>, Option<f32>, Option<f32>);

impl TryFrom<CandidateRow> for Candidate {
    type Error = IdError;
    fn try_from(row: CandidateRow) -> Result<Candidate, IdError> {
        let (leaf, spot, ordinal, tokens, node, ancestors, cluster, dense, lexical) = row;
        let leaf: LeafId = leaf.parse()?;
        let ancestor = |(node, children)| Ancestor { node, children };
        let record = LeafRecord {
            leaf,
            doc: DocId(u64::from(spot.doc)),
            span: spot.span,
            ordinal,
            tokens,
            node,
            ancestors: ancestors.into_iter().map(ancestor).collect(),
            cluster: cluster.map_or(Ok(leaf.into()), |cluster| cluster.parse())?,
        };
        Ok(Candidate { record, dense, lexical })
    }
}

impl From<Candidate> for CandidateRow {
    fn from(candidate: Candidate) -> CandidateRow {
        let Candidate { record, dense, lexical } = candidate;
        let spot = Spot { doc: record.doc.0 as u32, span: record.span };
        let ancestors = record.ancestors.iter().map(|a| (a.node, a.children)).collect();
        let own: ClusterId = record.leaf.into();
        let cluster = (record.cluster != own).then(|| record.cluster.to_string());
        let LeafRecord { leaf, ordinal, tokens, node, .. } = record;
        (leaf.to_string(), spot, ordinal, tokens, node, ancestors, cluster, dense, lexical)
    }
}

impl Candidate {
    /// What is kept of a hit whose document is the `doc`-th of its entry.
    pub fn of(hit: &Hit, doc: u32) -> Candidate {
        let record = LeafRecord { doc: DocId(u64::from(doc)), ..hit.record.clone() };
        let Scores { dense, lexical, .. } = hit.scores;
        Candidate { record, dense, lexical }
    }

    /// Where it stands.
    pub fn spot(&self) -> Spot {
        Spot { doc: self.record.doc.0 as u32, span: self.record.span }
    }
}

/// A leaf of a judged document that overlaps or touches a reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedLeaf {
    /// Where it stands.
    pub spot: Spot,
    /// Its cluster, as 32 hexadecimal digits.
    pub cluster: String,
    /// The other members of its cluster in documents that the entry names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<Spot>,
}

/// A node that replaced its retrieved children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fire {
    /// The node's bytes.
    pub spot: Spot,
    /// Its index in the document's tree.
    pub node: u32,
    /// Children that were retrieved, or merged just below.
    pub matched: u32,
    /// Children in all.
    pub of: u32,
    /// Tokens of the matched children.
    pub tokens_before: u32,
    /// Tokens of the node.
    pub tokens_after: u32,
    /// Whether a node above took it in.
    pub absorbed: bool,
}

/// A node that nearly fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Near {
    /// Its document, as its place in [`Entry::docs`].
    pub doc: u32,
    /// Its index in the document's tree.
    pub node: u32,
    /// Children that were retrieved, or merged just below.
    pub matched: u32,
    /// Children in all.
    pub of: u32,
}

/// What a system delivered for a query, and why.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Delivery {
    /// Tokens of all passages, as they were counted.
    pub tokens: usize,
    /// The passages, in the order in which they are read.
    pub passages: Vec<Spot>,
    /// Sentences that follow each other in the context, and those of them that do in their document too.
    pub neighbours: (u32, u32),
    /// The candidates that merging saw, in rank order, one a cluster.
    pub ranked: Vec<u32>,
    /// Nodes that fired.
    pub fires: Vec<Fire>,
    /// Nodes that nearly did.
    pub near_misses: Vec<Near>,
    /// Nodes that met the rule and were not merged, being too large or protected.
    pub blocked: u32,
    /// Whether any node above the list could have fired.
    pub could_fire: bool,
    /// Hits that were looked at until there were as many clusters as wanted.
    pub examined: u32,
    /// Clusters that were wanted and not found.
    pub shortfall: u32,
}

impl Delivery {
    /// Whether the rule acted.
    pub fn fired(&self) -> bool {
        !self.fires.is_empty()
    }

    /// The nodes that stand in the context in place of their children.
    pub fn topmost_fires(&self) -> impl Iterator<Item = &Fire> {
        self.fires.iter().filter(|fire| !fire.absorbed)
    }
}

/// What came of one query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Names the query.
    pub id: String,
    /// The question.
    pub query: String,
    /// Right answers, if any are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<String>,
    /// The group that it is reported with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The documents that the line speaks of, in the order of the catalog.
    pub docs: Vec<String>,
    /// The evidence.
    pub relevant: Vec<Reference>,
    /// The leaves of the judged documents that overlap or touch the evidence.
    pub leaves: Vec<JudgedLeaf>,
    /// What both legs found, fused, best first.
    pub candidates: Vec<Candidate>,
    /// What was delivered.
    pub delivery: Delivery,
    /// Whether the query was answered well: by its evidence, or as it was judged elsewhere.
    pub outcome: Option<bool>,
    /// What the search that found the candidates warned of, as a reranker that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Microseconds that retrieval took, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_us: Option<u64>,
}

impl Entry {
    /// A spot by the name of its document; `None` for a document that the entry does not name.
    pub fn place(&self, spot: Spot) -> Option<Place<'_>> {
        let doc = self.docs.get(spot.doc as usize)?;
        Some(Place { doc, span: spot.span })
    }

    /// The passages of a delivery by the names of their documents.
    pub fn delivered<'e>(&'e self, delivery: &Delivery) -> Vec<Place<'e>> {
        delivery.passages.iter().filter_map(|&spot| self.place(spot)).collect()
    }

    /// The leaves of a delivery's ranked list, best first.
    pub fn ranked<'e>(&'e self, delivery: &'e Delivery) -> impl Iterator<Item = &'e Candidate> {
        delivery.ranked.iter().filter_map(|&index| self.candidates.get(index as usize))
    }

    /// Whether every place that it names is there.
    pub(super) fn is_sound(&self) -> bool {
        let known = |spot: &Spot| (spot.doc as usize) < self.docs.len();
        self.candidates.iter().all(|c| known(&c.spot()))
            && self.leaves.iter().all(|leaf| known(&leaf.spot) && leaf.copies.iter().all(known))
            && self.delivery.passages.iter().all(known)
            && self.delivery.fires.iter().all(|fire| known(&fire.spot))
            && self.delivery.ranked.iter().all(|&i| (i as usize) < self.candidates.len())
            && self.relevant.iter().all(|r| r.start < r.end && self.docs.contains(&r.doc))
    }
}
