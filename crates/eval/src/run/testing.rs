//! Small runs, and a document to replay them on.

use super::{Candidate, Delivery, Entry, Fire, Identity, JudgedLeaf, RUN_VERSION, Run, Spot, Unit};
use crate::judgment::Reference;
use umbel_core::document::Document;
use umbel_core::hit::{Ancestor, LeafRecord};
use umbel_core::id::{ClusterId, DocId, LeafId};
use umbel_core::offsets::{Offsets, TokenCounter, TokenOffsets};
use umbel_core::span::Span;
use umbel_core::tree::{Leaf, Node, NodeKind, Tree};

/// A place in the document `a`.
pub(crate) fn spot(start: usize, end: usize) -> Spot {
    Spot { doc: 0, span: Span::new(start, end) }
}

/// The `n`-th leaf of the document `a`: ten bytes, five tokens.
pub(crate) fn leaf(n: u8) -> Span {
    Span::new(10 * usize::from(n), 10 * usize::from(n) + 9)
}

/// A candidate: the `n`-th leaf of four below the node 1.
pub(crate) fn candidate(n: u8, dense: Option<f32>, lexical: Option<f32>) -> Candidate {
    let record = LeafRecord {
        leaf: LeafId([n; 16]),
        doc: DocId(0),
        span: leaf(n),
        ordinal: u32::from(n),
        tokens: 5,
        node: u32::from(n) + 1,
        ancestors: vec![Ancestor { node: 0, children: 4 }],
        cluster: LeafId([n; 16]).into(),
    };
    Candidate { record, dense, lexical }
}

/// A query whose evidence is one span of `a`, with these passages; where the rule fired, on the whole document.
pub(crate) fn entry(
    id: &str,
    evidence: (usize, usize),
    passages: &[(usize, usize)],
    fired: bool,
) -> Entry {
    let fire = Fire {
        spot: spot(0, 39),
        node: 0,
        matched: 2,
        of: 4,
        tokens_before: 10,
        tokens_after: 20,
        absorbed: false,
    };
    let judged = |n: u8| JudgedLeaf {
        spot: Spot { doc: 0, span: leaf(n) },
        cluster: ClusterId([n; 16]).to_string(),
        copies: Vec::new(),
    };
    let touches = |n: &u8| leaf(*n).start <= evidence.1 && evidence.0 <= leaf(*n).end;
    Entry {
        id: id.to_owned(),
        query: format!("what of {id}"),
        answers: Vec::new(),
        group: None,
        docs: vec!["a".to_owned()],
        relevant: vec![Reference {
            doc: "a".to_owned(),
            start: evidence.0,
            end: evidence.1,
            grade: None,
        }],
        leaves: (0..4).filter(touches).map(judged).collect(),
        candidates: (0..4).map(|n| candidate(n, Some(0.9 - 0.1 * f32::from(n)), None)).collect(),
        delivery: Delivery {
            tokens: passages.iter().map(|(start, end)| (end - start).div_ceil(2)).sum(),
            passages: passages.iter().map(|&(start, end)| spot(start, end)).collect(),
            ranked: vec![0, 1, 2, 3],
            fires: if fired { vec![fire] } else { Vec::new() },
            could_fire: true,
            examined: 4,
            ..Delivery::default()
        },
        outcome: None,
        warnings: Vec::new(),
        took_us: None,
    }
}

/// A run of these queries.
pub(crate) fn run(entries: Vec<Entry>) -> Run {
    let hash = |n: u32| format!("{n:016x}");
    let identity = Identity {
        run: RUN_VERSION,
        code: "0.1.0".to_owned(),
        data: hash(1),
        index: hash(2),
        model: Some("a model".to_owned()),
        queries: hash(3),
        judged: entries.len(),
        unjudged: 0,
        clusters: None,
        config: hash(4),
        settings: "[search]\nbudget = 2000\n".to_owned(),
        candidates: 100,
        depth: 60,
        replays: true,
        unit: Unit::Leaf,
    };
    Run { identity, entries }
}

/// One token every other byte.
struct Pairs;

impl TokenCounter for Pairs {
    fn name(&self) -> &'static str {
        "pairs"
    }

    fn count(&self, text: &str) -> usize {
        text.len().div_ceil(2)
    }

    fn starts(&self, text: &str) -> Vec<u32> {
        (0..text.len() as u32).step_by(2).collect()
    }
}

/// The document `a`: four leaves of nine letters below the root, a blank between them.
pub(crate) fn document() -> Document {
    let text = ["aaaaaaaaa", "bbbbbbbbb", "ccccccccc", "ddddddddd"].join(" ");
    let node = |kind, span: Span, parent, children| Node {
        kind,
        span,
        tokens: (span.end - span.start).div_ceil(2) as u32,
        parent,
        children,
        path: Vec::new(),
    };
    let root = node(NodeKind::Root, Span::new(0, text.len()), None, vec![1, 2, 3, 4]);
    let leaves = (0..4).map(|n| node(NodeKind::Leaf, leaf(n), Some(0), Vec::new()));
    let of_tree = |n: u8| Leaf {
        span: leaf(n),
        tokens: 5,
        node: u32::from(n) + 1,
        path: Vec::new(),
        embedded_headings: 0,
        prefix: Vec::new(),
        top_level: None,
        has_body: true,
    };
    let tree = Tree {
        nodes: std::iter::once(root).chain(leaves).collect(),
        leaves: (0..4).map(of_tree).collect(),
        ..Tree::default()
    };
    let starts: Vec<u32> = (0..4).map(|n| leaf(n).start as u32).collect();
    let tokens = TokenOffsets::of(&text, &Pairs);
    Document {
        body: Span::new(0, text.len()),
        title: "a".to_owned(),
        tree,
        offsets: Offsets { tokens, sentences: starts.clone(), blocks: starts },
        anchors: Vec::new(),
        warnings: Vec::new(),
        text,
    }
}
