//! What the pages of a search have delivered ↔ an opaque text that the next page is asked with.
//!
//! Invariant: a text that this version wrote is read back as it was; one that is damaged, or of another store, model,
//! configuration or question, is refused.

use super::answer::{SearchRequest, SearchResponse};
use super::{Engine, EngineError};
use crate::catalog::{CatalogInfo, StoredDocument};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use umbel_core::collapse::{Collapsed, Voice};
use umbel_core::id::{ClusterId, DocId, LeafId};
use umbel_core::page::Delivered;
use umbel_core::span::{Span, SpanSet, fits};

/// The version of the layout, its first byte.
const VERSION: u8 = 1;
/// Bytes of the hash at its end.
const CHECKSUM_BYTES: usize = 4;

/// What a cursor must agree on with the search that it is given to, as the first bytes of hashes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Scope {
    store: [u8; 8],
    model: [u8; 8],
    config: [u8; 8],
    /// The questions and the conditions.
    question: [u8; 8],
}

/// What earlier pages delivered; of a first page nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Cursor {
    scope: Scope,
    /// The catalog's generation.
    generation: u64,
    /// How many of the clusters the question had met.
    n_met: u64,
    /// The clusters of every leaf that was delivered.
    pub(super) clusters: BTreeSet<ClusterId>,
    documents: BTreeMap<DocId, Given>,
}

/// What was delivered of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Given {
    /// The first bytes of the document's fingerprint: spans mean nothing in another text.
    fingerprint: [u8; 4],
    spans: Vec<Span>,
}

/// Why a cursor cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CursorError {
    /// Not a cursor, or not all of it.
    #[error("the cursor is damaged")]
    Damaged,
    /// Written by another version.
    #[error("the cursor has version {found}, this version reads {VERSION}")]
    Version {
        /// The version found.
        found: u8,
    },
    /// It belongs to another search.
    #[error("the cursor belongs to another {what}")]
    Foreign {
        /// `store`, `model`, `configuration` or `question`.
        what: &'static str,
    },
}

impl CursorError {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            CursorError::Damaged => "copy the whole `cursor` that the page before came with",
            CursorError::Foreign { what: "question" } => {
                "ask the same question, with the same conditions, as for the page before"
            }
            CursorError::Foreign { what: "configuration" } => {
                "give the same settings, budget and flags as for the page before"
            }
            _ => "ask for the first page again, without a cursor",
        }
    }
}

impl Cursor {
    fn encode(&self) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend(postcard::to_stdvec(self).expect("numbers and lists can be written"));
        bytes.extend(checksum(&bytes));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn decode(text: &str) -> Result<Cursor, CursorError> {
        let bytes = URL_SAFE_NO_PAD.decode(text.trim()).map_err(|_| CursorError::Damaged)?;
        let body = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or(CursorError::Damaged)?;
        let (body, sum) = bytes.split_at(body);
        if checksum(body) != sum {
            return Err(CursorError::Damaged);
        }
        match body.split_first() {
            Some((&VERSION, body)) => postcard::from_bytes(body).map_err(|_| CursorError::Damaged),
            Some((&found, _)) => Err(CursorError::Version { found }),
            None => Err(CursorError::Damaged),
        }
    }

    /// The bytes of these documents that were delivered; of a document that has changed since, none.
    pub(super) fn delivered(&self, documents: &BTreeMap<DocId, Arc<StoredDocument>>) -> Delivered {
        let same = |(id, stored): (&DocId, &Arc<StoredDocument>)| {
            let given = self.documents.get(id)?;
            let text = &stored.document.text;
            let is_same = given.fingerprint == fingerprint(stored)
                && given.spans.iter().all(|&span| fits(text, span));
            is_same.then(|| (*id, given.spans.iter().copied().collect()))
        };
        documents.iter().filter_map(same).collect()
    }

    /// How many clusters the question has met, those of this page's list among them.
    pub(super) fn n_met(&self, met: &BTreeSet<ClusterId>) -> usize {
        self.n_met as usize + met.len()
    }
}

impl Scope {
    /// The first thing that differs.
    fn differs(&self, other: &Scope) -> Option<&'static str> {
        let parts = [
            ("store", self.store, other.store),
            ("model", self.model, other.model),
            ("configuration", self.config, other.config),
            ("question", self.question, other.question),
        ];
        parts.into_iter().find(|(_, ours, theirs)| ours != theirs).map(|(what, ..)| what)
    }
}

impl Engine {
    /// Where a search goes on: what earlier pages delivered. A store that has changed since is gone on with, and a warning
    /// says so.
    ///
    /// # Errors
    /// [`EngineError::Cursor`] for a cursor that cannot be used.
    pub(super) fn resume(
        &self,
        request: &SearchRequest,
        info: &CatalogInfo,
        warnings: &mut Vec<String>,
    ) -> Result<Cursor, EngineError> {
        let conditions: Vec<&str> = request.filter.conditions().collect();
        let question = serde_json::json!([request.query, request.also, conditions]).to_string();
        let setting = |key: &str| info.settings.get(key).map(String::as_str).unwrap_or_default();
        let scope = Scope {
            store: key(setting(super::STORE_ID)),
            model: key(setting("model")),
            config: key(&request.config.hash()),
            question: key(&question),
        };
        let generation = info.generation;
        let Some(text) = &request.cursor else {
            return Ok(Cursor { scope, generation, ..Cursor::default() });
        };
        let cursor = Cursor::decode(text)?;
        if let Some(what) = cursor.scope.differs(&scope) {
            return Err(CursorError::Foreign { what }.into());
        }
        if cursor.generation != generation {
            warnings.push(format!(
                "the store has changed since the page before (generation {}, now {generation}): passages may be missing or come again",
                cursor.generation
            ));
        }
        Ok(Cursor { generation, ..cursor })
    }

    /// The cursor of the page behind this one; `None` where there is no more, or where nothing was delivered.
    pub(super) async fn next_page(
        &self,
        mut cursor: Cursor,
        response: &SearchResponse,
        list: &Collapsed,
        met: &BTreeSet<ClusterId>,
    ) -> Result<Option<String>, EngineError> {
        let passages = &response.context.passages;
        if passages.is_empty() {
            return Ok(None);
        }
        let evidence = passages.iter().flat_map(|passage| &passage.evidence);
        let known: BTreeMap<LeafId, ClusterId> =
            evidence.map(|evidence| (evidence.leaf, evidence.cluster.0)).collect();
        let mut beside = Vec::new();
        for passage in passages {
            let Some(stored) = response.documents.get(&passage.doc) else { continue };
            let fresh = Given { fingerprint: fingerprint(stored), spans: Vec::new() };
            let given = cursor.documents.entry(passage.doc).or_insert_with(|| fresh.clone());
            if given.fingerprint != fresh.fingerprint {
                *given = fresh;
            }
            given.spans.push(passage.span);
            let leaves = stored.document.tree.leaves.iter().zip(&stored.leaf_ids);
            let inside = leaves.filter(|(leaf, _)| passage.span.contains(leaf.span));
            beside.extend(inside.map(|(_, &id)| id).filter(|id| !known.contains_key(id)));
        }
        let beside = self.index.fetch(&beside).await?;
        let beside = beside.into_iter().flatten().map(|kept| kept.record.cluster);
        let delivered: BTreeSet<ClusterId> = known.into_values().chain(beside).collect();
        cursor.n_met += delivered.intersection(met).count() as u64;
        cursor.clusters.extend(delivered);
        for given in cursor.documents.values_mut() {
            let joined: SpanSet = given.spans.iter().copied().collect();
            given.spans = joined.spans().to_vec();
        }
        let is_left = |voice: &Voice| !cursor.clusters.contains(&voice.hit.record.cluster);
        let is_more = !response.reading.is_whole
            || met.len() > list.voices.len()
            || list.voices.iter().any(is_left);
        Ok(is_more.then(|| cursor.encode()))
    }
}

fn key(text: &str) -> [u8; 8] {
    first(text.as_bytes())
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    first(bytes)
}

/// The first bytes of a hash.
fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut first = [0; N];
    blake3::Hasher::new().update(bytes).finalize_xof().fill(&mut first);
    first
}

fn fingerprint(stored: &StoredDocument) -> [u8; 4] {
    let [a, b, c, d, ..] = stored.entry.fingerprint;
    [a, b, c, d]
}
