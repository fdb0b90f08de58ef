//! A document of any text, with a counter that needs no tables, and its broken promises.

use umbel_core::check::{Allowed, Violation, check};
use umbel_core::document::Document;
use umbel_core::leaf::{LeafConfig, Source, build};
use umbel_core::measure::{Ruler, measure};
use umbel_core::offsets::TokenCounter;
use umbel_core::outline::{Format, Outline, parse};
use umbel_core::span::{Span, slice};

/// A token is a word with the blanks before it.
pub(crate) struct Words;

impl TokenCounter for Words {
    fn name(&self) -> &'static str {
        "words"
    }

    fn count(&self, text: &str) -> usize {
        self.starts(text).len()
    }

    fn starts(&self, text: &str) -> Vec<u32> {
        let mut starts = Vec::new();
        let mut in_word = true;
        for (at, c) in text.char_indices() {
            if at == 0 || (in_word && c.is_whitespace()) {
                starts.push(at as u32);
            }
            in_word = !c.is_whitespace();
        }
        starts
    }
}

/// Where the body of a text starts: behind a byte order mark.
fn body(text: &str) -> Span {
    Span::new(if text.starts_with('\u{feff}') { 3 } else { 0 }, text.len())
}

/// The outline of a text behind its byte order mark.
pub(crate) fn outline(text: &str, format: Format) -> Outline {
    parse(text, body(text), format)
}

/// The document of a text, and its outline.
pub(crate) fn document(text: &str, format: Format, config: &LeafConfig) -> (Document, Outline) {
    let (text, body) = (text.to_owned(), body(text));
    let outline = parse(&text, body, format);
    let offsets = measure(&text, &outline, &Words);
    let ruler = Ruler::Tokens(&offsets.tokens);
    let source = Source { text: &text, body, title: "title", outline: &outline };
    let (tree, warnings) = build(source, &ruler, &ruler, config, None);
    (
        Document {
            body,
            title: "title".to_owned(),
            tree,
            offsets,
            anchors: Vec::new(),
            warnings,
            text,
        },
        outline,
    )
}

/// A configuration with levels that fit its target.
pub(crate) fn target(target: usize) -> LeafConfig {
    LeafConfig { target, levels: vec![8 * target, 3 * target], ..LeafConfig::default() }
}

/// Checks what is promised of every document, at targets from one token to the whole text.
pub(crate) fn keeps_its_promises(text: &str, format: Format) {
    for size in [1, 3, 8, 200] {
        let (document, outline) = document(text, format, &target(size));
        let Document { tree, offsets, .. } = &document;
        let mut broken = check(&document, &outline, Allowed::default());
        // Headings that together take more than half of a leaf are cut like any text, and may stand alone.
        broken.retain(|found| {
            size == 200 || !matches!(found, Violation::EmptyBody(_) | Violation::BrokenPath(_))
        });
        assert_eq!(broken, [], "{text:?} at {size}");
        for starts in [&offsets.sentences, &offsets.blocks] {
            assert!(starts.windows(2).all(|pair| pair[0] < pair[1]), "{text:?}: {starts:?}");
            assert!(starts.iter().all(|&at| text.is_char_boundary(at as usize)));
        }
        for leaf in &tree.leaves {
            assert!(leaf.prefix.iter().all(|prefix| prefix.end <= leaf.span.start), "{text:?}");
            let prefix: usize = leaf.prefix.iter().map(|&span| offsets.tokens.count(span)).sum();
            let single = slice(text, leaf.span).split_whitespace().count() == 1;
            let fits = leaf.tokens as usize + prefix <= size;
            assert!(fits || single || !leaf.has_body, "{text:?}: {leaf:?} is over {size}");
        }
    }
}

/// The headings as `level:text`.
pub(crate) fn headings(outline: &Outline) -> Vec<String> {
    outline.headings.iter().map(|h| format!("{}:{}", h.level, h.text)).collect()
}

/// The top blocks as `Kind text`, line ends as `/`.
pub(crate) fn blocks(text: &str, outline: &Outline) -> Vec<String> {
    let shown = |span: Span| slice(text, span).replace("\r\n", "/").replace(['\n', '\r'], "/");
    outline.blocks.iter().map(|b| format!("{:?} {}", b.kind, shown(b.span))).collect()
}
