//! Documents and hits for tests that need no store.

use umbel::config::Config;
use umbel::core::document::{Document, Library};
use umbel::core::hit::{Hit, Scores};
use umbel::core::id::DocId;
use umbel::core::leaf::EmbedLimit;
use umbel::core::outline::Format;
use umbel::core::span::{Span, slice};
use umbel::core::trace::{AssembleConfig, Trace, assemble};
use umbel::core::{
    expand::Expansion, merge::MergeConfig, pack::Context, pack::Order, pack::PackConfig,
};
use umbel::engine::ingest::{leaf_ids, leaf_records};
use umbel::read::{Draft, document};
use umbel::tokens::OpenAiTokens;

/// A Markdown document under `file.md`, with settings.
pub(crate) fn read_with(text: &str, sets: &[&str], limit: Option<&dyn EmbedLimit>) -> Document {
    let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
    let config = Config::load(None, &[], &sets).unwrap();
    let draft = Draft::of_text(text.to_owned(), Format::Markdown);
    let title = draft.front_matter.title.clone();
    document(draft, title, "file", &config, &OpenAiTokens::o200k(), limit)
}

/// A Markdown document under `file.md`, with the defaults.
pub(crate) fn read(text: &str) -> Document {
    read_with(text, &[], None)
}

/// The text of each leaf.
pub(crate) fn leaf_texts(document: &Document) -> Vec<&str> {
    document.tree.leaves.iter().map(|leaf| slice(&document.text, leaf.span)).collect()
}

/// The text of a span.
pub(crate) fn text(document: &Document, span: Span) -> &str {
    slice(&document.text, span)
}

/// Hits on leaves, as document and ordinal, best first.
pub(crate) fn hits(documents: &[&Document], found: &[(usize, usize)]) -> Vec<Hit> {
    let hit = |(rank, &(doc, ordinal)): (usize, &(usize, usize))| {
        let ids = leaf_ids("source", &format!("{doc}.md"), documents[doc]);
        let record = leaf_records(DocId(doc as u64), documents[doc], &ids).nth(ordinal).unwrap();
        let fused = 1.0 / (rank as f32 + 1.0);
        Hit { record, scores: Scores { dense: Some(fused), fused, ..Scores::default() } }
    };
    found.iter().enumerate().map(hit).collect()
}

/// The library of some documents, by their places.
pub(crate) fn library<'a>(documents: &[&'a Document]) -> Library<'a> {
    documents.iter().enumerate().map(|(at, &document)| (DocId(at as u64), document)).collect()
}

/// The defaults of a search with this budget.
pub(crate) fn settings(budget_tokens: usize) -> AssembleConfig {
    AssembleConfig {
        depth: 30,
        merge: MergeConfig::default(),
        expansion: Expansion::None,
        parent_cap_tokens: 800,
        pack: PackConfig { budget_tokens, reserve_tokens: 0, limit: None, order: Order::Evidence },
    }
}

/// Assembles hits, and checks what must always hold.
pub(crate) fn context(
    documents: &[&Document],
    found: &[(usize, usize)],
    config: &AssembleConfig,
) -> (Context, Trace) {
    let (context, trace) = assemble(hits(documents, found), &library(documents), config, None);
    keeps_its_promises(documents, &context, config.pack.budget_tokens);
    (context, trace)
}

/// Within the budget by the count and by a fresh one, no byte twice, evidence inside.
pub(crate) fn keeps_its_promises(documents: &[&Document], context: &Context, budget_tokens: usize) {
    use umbel::core::offsets::TokenCounter as _;
    assert!(context.tokens <= budget_tokens, "{} of {budget_tokens}", context.tokens);
    let mut fresh = 0;
    for (at, passage) in context.passages.iter().enumerate() {
        let document = documents[passage.doc.0 as usize];
        let count = OpenAiTokens::o200k().count(&passage.rendered(document));
        assert!(
            count <= passage.tokens,
            "{count} > {} for {:?}",
            passage.tokens,
            passage.rendered(document)
        );
        fresh += count;
        assert!(!passage.evidence.is_empty());
        assert!(passage.evidence.iter().all(|e| passage.span.contains(e.span)));
        for other in &context.passages[at + 1..] {
            assert!(other.doc != passage.doc || !other.span.overlaps(passage.span), "a byte twice");
        }
    }
    assert!(fresh <= budget_tokens);
}
