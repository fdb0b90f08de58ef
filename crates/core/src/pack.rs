//! Items in rank order → passages within a token budget.
//!
//! Invariant: the tokens of all passages are at most the budget; no byte is delivered twice; a fresh count of what is
//! delivered is not above what was counted.

use crate::document::{Document, Library};
use crate::hit::Scores;
use crate::id::DocId;
use crate::merge::{Evidence, Item, ItemKind};
use crate::span::{Span, SpanSet, fits, slice};
use std::collections::BTreeMap;

/// Tokens kept back for an edge that falls inside a token, word or sentence: a fresh count of the piece may differ there.
pub const EDGE_RESERVE_TOKENS: usize = 3;

/// What stands for sentences that compression left out.
const OMITTED: &str = " […] ";
/// At most so many tokens, in the encodings that are known.
const OMITTED_TOKENS: usize = 4;

/// How much may be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackConfig {
    /// Tokens of all passages and of what is reserved together.
    pub budget_tokens: usize,
    /// Tokens of the budget that are kept for what else the prompt holds.
    pub reserve_tokens: usize,
    /// Passages at the most; `None` for no limit but the budget.
    pub limit: Option<usize>,
    /// In which order passages are delivered.
    pub order: Order,
}

impl PackConfig {
    /// What passages may use.
    pub fn room(&self) -> usize {
        self.budget_tokens.saturating_sub(self.reserve_tokens)
    }
}

/// In which order passages are delivered. It does not change which are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By the rank of their best evidence.
    #[default]
    Evidence,
    /// As they stand in their documents, the document with the best evidence first.
    Document,
}

/// The tokens of what stands around a passage in the prompt, its header and separator: of a document, for a passage whose
/// smallest node is this one.
pub type Frame<'a> = dyn Fn(DocId, &Document, u32) -> usize + Sync + 'a;

/// A span to read.
#[derive(Debug, Clone, PartialEq)]
pub struct Passage {
    /// The document.
    pub doc: DocId,
    /// Its bytes.
    pub span: Span,
    /// What the largest span in it is.
    pub kind: ItemKind,
    /// Tokens counted for it: span, prefix, edges and what stands around it.
    pub tokens: usize,
    /// Table header rows or a fence line to show before it.
    pub prefix: Vec<Span>,
    /// After compression, the pieces of the span that are shown, in order; empty where all of it is.
    pub kept: Vec<Span>,
    /// The retrieved leaves in it, best first; never empty.
    pub evidence: Vec<Evidence>,
    /// The smallest node that contains it.
    pub node: u32,
}

impl Passage {
    /// The scores of its best evidence: those with the greatest final score, of equal ones those of the better rank.
    pub fn scores(&self) -> Scores {
        let final_score = |scores: &Scores| scores.final_score();
        let by_rank = self.evidence.iter().map(|evidence| evidence.scores).rev();
        by_rank.max_by(|a, b| final_score(a).total_cmp(&final_score(b))).unwrap_or_default()
    }

    /// The place of its best evidence in the ranked list, from 0.
    pub fn rank(&self) -> usize {
        self.evidence.first().map_or(usize::MAX, |best| best.rank)
    }

    /// What a generator receives: the prefix, then the text, or what compression kept of it.
    pub fn rendered(&self, document: &Document) -> String {
        let whole = [self.span];
        shown(document, &self.prefix, if self.kept.is_empty() { &whole } else { &self.kept })
    }

    /// Shows only these pieces of the passage, and counts what that costs.
    pub fn keep(&mut self, kept: Vec<Span>, document: &Document) {
        let tokens = &document.offsets.tokens;
        let dropped = tokens.count(self.span);
        let cost = |&piece: &Span| tokens.count(piece) + 2 * EDGE_RESERVE_TOKENS;
        let shown = kept.iter().map(cost).sum::<usize>() + OMITTED_TOKENS * kept.len();
        // Where pieces and marks cost more than they save, all of it stays.
        if shown < dropped {
            self.tokens = self.tokens - dropped + shown;
            self.kept = kept;
        }
    }
}

/// Why something was not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// Not even its best evidence fitted what was left of the budget.
    Budget,
    /// The limit on the number of passages was reached.
    Limit,
    /// The catalog has no such document, or not this span of it.
    DocumentMissing,
}

/// Something that was not delivered.
#[derive(Debug, Clone, PartialEq)]
pub struct Dropped {
    /// The document.
    pub doc: DocId,
    /// The span that was to be delivered.
    pub span: Span,
    /// Why it was not.
    pub reason: DropReason,
}

/// What is delivered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Context {
    /// Tokens of all passages.
    pub tokens: usize,
    /// Passages in the order asked for.
    pub passages: Vec<Passage>,
    /// What was not delivered, in rank order.
    pub dropped: Vec<Dropped>,
}

/// A span that was taken, and for what.
#[derive(Debug, Clone)]
struct Taken {
    span: Span,
    kind: ItemKind,
    rank: usize,
}

/// Fills the budget in rank order. O(n²) in the number of items of one document.
pub fn pack(
    items: &[Item],
    library: &Library<'_>,
    config: PackConfig,
    frame: Option<&Frame<'_>>,
) -> Context {
    let room = config.room();
    let whole_cost = |doc: DocId, document: &Document, span: Span| {
        let node = || document.tree.smallest_containing(span).unwrap_or_default();
        cost(document, span) + frame.map_or(0, |frame| frame(doc, document, node()))
    };
    let mut taken: BTreeMap<DocId, Vec<Taken>> = BTreeMap::new();
    let mut context = Context::default();
    let mut used: BTreeMap<DocId, Used> = BTreeMap::new();
    for item in items {
        let drop = |reason| Dropped { doc: item.doc, span: item.span, reason };
        let document = library
            .get(&item.doc)
            .filter(|d| fits(&d.text, item.span) && d.body.contains(item.span));
        let Some(&document) = document else {
            context.dropped.push(drop(DropReason::DocumentMissing));
            continue;
        };
        let before = taken.get(&item.doc).cloned().unwrap_or_default();
        let elsewhere = used.iter().filter(|(doc, _)| **doc != item.doc);
        let elsewhere = elsewhere.fold(Used::default(), |sum, (_, used)| Used {
            tokens: sum.tokens + used.tokens,
            passages: sum.passages + used.passages,
        });
        let attempt = |spans: &[Taken]| -> Result<Used, DropReason> {
            let joined = joined(document, spans);
            let tokens: usize =
                joined.iter().map(|group| whole_cost(item.doc, document, group.span)).sum();
            if tokens + elsewhere.tokens > room {
                return Err(DropReason::Budget);
            }
            match config.limit {
                Some(limit) if joined.len() + elsewhere.passages > limit => Err(DropReason::Limit),
                _ => Ok(Used { tokens, passages: joined.len() }),
            }
        };
        match add(item, &before, &attempt) {
            Ok(added) => {
                context.dropped.extend(added.left_out.into_iter().map(|span| Dropped {
                    doc: item.doc,
                    span,
                    reason: DropReason::Budget,
                }));
                taken.insert(item.doc, added.spans);
                used.insert(item.doc, added.used);
            }
            Err(reason) => context.dropped.push(drop(reason)),
        }
    }
    for (doc, spans) in &taken {
        if let Some(document) = library.get(doc) {
            context.passages.extend(passages(*doc, document, spans, items, &whole_cost));
        }
    }
    // What did not fit by itself may have come in with something else.
    let passages = &context.passages;
    context.dropped.retain(|dropped| {
        !passages.iter().any(|p| p.doc == dropped.doc && p.span.contains(dropped.span))
    });
    context.passages.sort_by_key(Passage::rank);
    if config.order == Order::Document {
        let mut places: BTreeMap<DocId, usize> = BTreeMap::new();
        for passage in &context.passages {
            let next = places.len();
            places.entry(passage.doc).or_insert(next);
        }
        context.passages.sort_by_key(|passage| (places.get(&passage.doc).copied(), passage.span));
    }
    context.tokens = context.passages.iter().map(|passage| passage.tokens).sum();
    context
}

/// What the passages of one document use.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    tokens: usize,
    passages: usize,
}

/// What came of adding an item.
struct Added {
    spans: Vec<Taken>,
    used: Used,
    /// Evidence that did not fit, where the best did.
    left_out: Vec<Span>,
}

/// Adds an item whole if it fits, else its evidence leaves one by one, whole ones only, best first; nothing of it if not
/// even the best one fits.
fn add(
    item: &Item,
    before: &[Taken],
    attempt: &dyn Fn(&[Taken]) -> Result<Used, DropReason>,
) -> Result<Added, DropReason> {
    let with = |spans: &[Taken], span: Span, kind: ItemKind, rank: usize| {
        let mut spans = spans.to_vec();
        spans.push(Taken { span, kind, rank });
        spans
    };
    let whole = with(before, item.span, item.kind, item.rank());
    let reason = match attempt(&whole) {
        Ok(used) => return Ok(Added { spans: whole, used, left_out: Vec::new() }),
        Err(reason) => reason,
    };
    let mut evidence: Vec<&Evidence> =
        item.evidence.iter().filter(|e| e.span != item.span).collect();
    evidence.sort_by_key(|e| e.rank);
    let (best, others) = evidence.split_first().ok_or(reason)?;
    let spans = with(before, best.span, ItemKind::Cropped, best.rank);
    let used = attempt(&spans)?;
    let mut added = Added { spans, used, left_out: Vec::new() };
    for other in others {
        let wider = with(&added.spans, other.span, ItemKind::Cropped, other.rank);
        match attempt(&wider) {
            Ok(used) => (added.spans, added.used) = (wider, used),
            Err(_) => added.left_out.push(other.span),
        }
    }
    Ok(added)
}

/// Taken spans that make one passage.
struct Group {
    span: Span,
    members: Vec<Taken>,
}

/// Joins spans that overlap, or that have only blank bytes or a dropped rule between them and lie in one top-level section.
fn joined(document: &Document, spans: &[Taken]) -> Vec<Group> {
    let mut spans = spans.to_vec();
    spans.sort_by_key(|taken| taken.span);
    let mut groups: Vec<Group> = Vec::new();
    for taken in spans {
        match groups.last_mut() {
            Some(group)
                if group.span.overlaps(taken.span) || adjoins(document, group.span, taken.span) =>
            {
                group.span = group.span.hull(taken.span);
                group.members.push(taken);
            }
            _ => groups.push(Group { span: taken.span, members: vec![taken] }),
        }
    }
    groups
}

/// Whether only blank bytes and dropped rules stand between two spans of one top-level section.
fn adjoins(document: &Document, before: Span, behind: Span) -> bool {
    let between = Span::new(before.end, behind.start);
    let rules: SpanSet =
        document.tree.dropped_rules.iter().filter(|rule| rule.overlaps(between)).copied().collect();
    let blank =
        rules.missing_from(between).iter().all(|&gap| slice(&document.text, gap).trim().is_empty());
    blank && top_level_of(document, before) == top_level_of(document, behind)
}

/// The top-level section that a span lies in; `None` for text above the top level, or a span over several.
fn top_level_of(document: &Document, span: Span) -> Option<usize> {
    document.tree.top_level.iter().position(|top| top.contains(span))
}

/// What a passage costs: the tokens that it overlaps, its prefix, and a reserve for each edge inside a sentence.
fn cost(document: &Document, span: Span) -> usize {
    let tokens = &document.offsets.tokens;
    let prefix = prefix(document, span);
    let prefix_cost: usize =
        prefix.iter().map(|&piece| tokens.count(piece) + EDGE_RESERVE_TOKENS).sum();
    tokens.count(span) + reserve(document, span) + prefix_cost
}

/// The reserve for the edges of a span that are not at the start of a line and of a token. A line's end inside of a token, as in
/// `}⏎`, costs one: the rest of the token may be cut otherwise without it.
fn reserve(document: &Document, span: Span) -> usize {
    let text = document.text.as_bytes();
    let tokens = &document.offsets.tokens;
    let starts_line = span.start == 0 || matches!(text.get(span.start - 1), Some(b'\n'));
    let ends_line = matches!(text.get(span.end), None | Some(b'\n' | b'\r'));
    let edges = [starts_line && tokens.is_boundary(span.start), ends_line];
    let in_token = ends_line && !tokens.is_boundary(span.end);
    edges.iter().filter(|clean| !**clean).count() * EDGE_RESERVE_TOKENS + usize::from(in_token)
}

/// What a generator receives of a span that is delivered whole: table header rows or a fence line above it, then its text.
pub fn rendered(document: &Document, span: Span) -> String {
    shown(document, &prefix(document, span), &[span])
}

fn shown(document: &Document, prefix: &[Span], pieces: &[Span]) -> String {
    let texts = |spans: &[Span], between: &str| {
        spans.iter().map(|&piece| slice(&document.text, piece)).collect::<Vec<_>>().join(between)
    };
    let mut lines = texts(prefix, "\n");
    if !lines.is_empty() {
        lines.push('\n');
    }
    lines + &texts(pieces, OMITTED)
}

/// The prefix of the leaf that a span starts in, where the span does not hold it itself.
fn prefix(document: &Document, span: Span) -> Vec<Span> {
    let tree = &document.tree;
    let first = tree.leaves_in(span).next().and_then(|at| tree.leaves.get(at));
    let prefix = first.map(|leaf| leaf.prefix.as_slice()).unwrap_or_default();
    prefix.iter().filter(|piece| !span.contains(**piece)).copied().collect()
}

/// The passages of one document, with all evidence that lies in them.
fn passages(
    doc: DocId,
    document: &Document,
    spans: &[Taken],
    items: &[Item],
    cost: &dyn Fn(DocId, &Document, Span) -> usize,
) -> Vec<Passage> {
    let evidence: Vec<&Evidence> =
        items.iter().filter(|item| item.doc == doc).flat_map(|item| &item.evidence).collect();
    let groups = joined(document, spans);
    let made = groups.into_iter().map(|group| {
        let mut inside: Vec<Evidence> =
            evidence.iter().filter(|e| group.span.contains(e.span)).map(|&e| e.clone()).collect();
        inside.sort_by_key(|e| e.rank);
        let largest = group
            .members
            .iter()
            .max_by_key(|taken| (taken.span.len(), std::cmp::Reverse(taken.rank)));
        Passage {
            doc,
            span: group.span,
            kind: largest.map_or(ItemKind::Leaf, |taken| taken.kind),
            tokens: cost(doc, document, group.span),
            prefix: prefix(document, group.span),
            kept: Vec::new(),
            evidence: inside,
            node: document.tree.smallest_containing(group.span).unwrap_or_default(),
        }
    });
    made.collect()
}
