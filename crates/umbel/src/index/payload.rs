//! What is kept of a leaf ↔ the JSON payload of a Qdrant point, one layout for the embedded index and for a cluster.
//!
//! Invariant: `decode(id, encode(kept)) == kept`; every field is a plain JSON number, string or list of them, so any Qdrant
//! client can read and filter it.

use super::{Facet, Facets, Kept};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use umbel_core::hit::{Ancestor, LeafRecord};
use umbel_core::id::{ClusterId, DocId, LeafId};
use umbel_core::span::Span;

/// The field that names the document: the one that filters and deletes look at.
pub(super) const DOC: &str = "doc";

/// The field that names the cluster of duplicates, for filters; the one that is written anew by itself.
pub(super) const CLUSTER: &str = "cluster";

/// The field that holds a document's date.
pub(super) const UPDATED_AT: &str = "updated_at";

/// The fields of words that filters look at.
pub(super) const FACETS: [Facet; 4] =
    [Facet::Source, Facet::Connector, Facet::Language, Facet::Label];

/// The field of a facet.
pub(super) fn facet_field(facet: Facet) -> &'static str {
    match facet {
        Facet::Source => "source",
        Facet::Connector => "connector",
        Facet::Language => "language",
        Facet::Label => "labels",
    }
}

/// The payload of a point; the leaf itself is the point's id.
#[derive(Serialize, Deserialize)]
struct Payload {
    /// Qdrant indexes signed integers only: ids from 2^63 on are stored as negative numbers.
    doc: i64,
    start: usize,
    end: usize,
    ordinal: u32,
    tokens: u32,
    node: u32,
    /// The nodes above, nearest first.
    ancestors: Vec<u32>,
    /// How many children each of `ancestors` has.
    children: Vec<u32>,
    /// Written as Qdrant writes ids: a UUID. A point without one is its own cluster.
    #[serde(default)]
    cluster: Option<String>,
    // Points of a store of format 1 have none of these.
    #[serde(default)]
    source: String,
    #[serde(default)]
    connector: String,
    #[serde(default)]
    language: String,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    updated_at: Option<i64>,
}

/// Why a payload is not that of a leaf.
#[derive(Debug, thiserror::Error)]
pub(super) enum PayloadError {
    #[error("a field is missing or of another type")]
    Field(#[from] serde_json::Error),
    #[error("`{0}` is not a cluster id")]
    Cluster(String),
    #[error("{start}..{end} is not a span")]
    Span { start: usize, end: usize },
    #[error("{ancestors} ancestors, but {children} numbers of children")]
    Ancestors { ancestors: usize, children: usize },
}

/// A document as a filter names it.
pub(super) fn doc_key(doc: DocId) -> i64 {
    doc.0.cast_signed()
}

/// A cluster as a filter names it: as Qdrant writes ids, a UUID.
pub(super) fn cluster_key(cluster: ClusterId) -> String {
    hyphenate(&cluster.to_string())
}

/// What is stored beside the vectors of this leaf.
pub(super) fn encode(record: &LeafRecord, facets: Facets) -> Map<String, Value> {
    let Facets { source, connector, language, labels, updated_at } = facets;
    let payload = Payload {
        source,
        connector,
        language,
        labels,
        updated_at,
        doc: doc_key(record.doc),
        start: record.span.start,
        end: record.span.end,
        ordinal: record.ordinal,
        tokens: record.tokens,
        node: record.node,
        ancestors: record.ancestors.iter().map(|ancestor| ancestor.node).collect(),
        children: record.ancestors.iter().map(|ancestor| ancestor.children).collect(),
        cluster: Some(cluster_key(record.cluster)),
    };
    match serde_json::to_value(payload) {
        Ok(Value::Object(fields)) => fields,
        other => unreachable!("a struct of numbers and strings is a JSON object, not {other:?}"),
    }
}

/// The leaf whose point has this id and payload.
pub(super) fn decode(leaf: LeafId, fields: Map<String, Value>) -> Result<Kept, PayloadError> {
    let payload: Payload = serde_json::from_value(Value::Object(fields))?;
    let Payload { doc, start, end, ordinal, tokens, node, ancestors, children, cluster, .. } =
        payload;
    let Payload { source, connector, language, labels, updated_at, .. } = payload;
    if start > end {
        return Err(PayloadError::Span { start, end });
    }
    if ancestors.len() != children.len() {
        return Err(PayloadError::Ancestors {
            ancestors: ancestors.len(),
            children: children.len(),
        });
    }
    let cluster = match cluster {
        Some(cluster) => {
            cluster.replace('-', "").parse().map_err(|_| PayloadError::Cluster(cluster))?
        }
        None => leaf.into(),
    };
    let record = LeafRecord {
        leaf,
        doc: DocId(doc.cast_unsigned()),
        span: Span::new(start, end),
        ordinal,
        tokens,
        node,
        ancestors: ancestors
            .into_iter()
            .zip(children)
            .map(|(node, children)| Ancestor { node, children })
            .collect(),
        cluster,
    };
    let facets = Facets { source, connector, language, labels, updated_at };
    Ok(Kept { record, facets })
}

/// 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12.
fn hyphenate(hex: &str) -> String {
    let before_digit = |idx| matches!(idx, 8 | 12 | 16 | 20);
    hex.chars()
        .enumerate()
        .flat_map(|(idx, digit)| before_digit(idx).then_some('-').into_iter().chain([digit]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record() -> LeafRecord {
        LeafRecord {
            leaf: LeafId([7; 16]),
            doc: DocId(u64::MAX),
            span: Span::new(3, 90),
            ordinal: 1,
            tokens: 20,
            node: 9,
            ancestors: vec![Ancestor { node: 4, children: 2 }, Ancestor { node: 0, children: 5 }],
            cluster: "00112233445566778899aabbccddeeff".parse().unwrap(),
        }
    }

    fn facets() -> Facets {
        Facets {
            source: "docs".to_owned(),
            connector: "wiki".to_owned(),
            language: "en".to_owned(),
            labels: vec!["hr".to_owned(), "staff".to_owned()],
            updated_at: Some(-1),
        }
    }

    #[test]
    fn what_is_kept_comes_back() {
        for facets in [facets(), Facets::default()] {
            let kept = Kept { record: record(), facets: facets.clone() };
            assert_eq!(decode(LeafId([7; 16]), encode(&record(), facets)).unwrap(), kept);
        }
    }

    #[test]
    fn the_layout_is_what_stores_out_there_hold() {
        let wanted = json!({
            "doc": -1, "start": 3, "end": 90, "ordinal": 1, "tokens": 20, "node": 9, "ancestors": [4, 0], "children": [2, 5],
            "cluster": "00112233-4455-6677-8899-aabbccddeeff",
            "source": "docs", "connector": "wiki", "language": "en", "labels": ["hr", "staff"], "updated_at": -1,
        });
        assert_eq!(Value::Object(encode(&record(), facets())), wanted);
    }

    #[test]
    fn a_point_without_a_cluster_is_its_own() {
        let mut fields = encode(&record(), facets());
        fields.remove(CLUSTER);
        let found = decode(LeafId([7; 16]), fields).unwrap().record;
        assert_eq!(found, LeafRecord { cluster: LeafId([7; 16]).into(), ..record() });
        // 16 bytes of 4.2 million leaves are 67.2 MB.
        assert_eq!(size_of::<ClusterId>() * 4_200_000, 67_200_000);
    }

    #[test]
    fn a_damaged_payload_is_an_error() {
        for (field, value) in [
            ("doc", json!("x")),
            ("end", json!(0)),
            ("children", json!([1])),
            ("cluster", json!("é")),
            ("node", json!(-1)),
            ("labels", json!("staff")),
        ] {
            let mut fields = encode(&record(), facets());
            fields.insert(field.to_owned(), value);
            assert!(decode(LeafId([7; 16]), fields).is_err(), "{field}");
        }
        assert!(decode(LeafId([7; 16]), Map::new()).is_err());
    }
}
