//! Bytes → nothing: each target feeds them to one parser and panics where a promise is broken.
//!
//! Invariant: a target is a plain function, so that the corpus of small inputs is replayed by the tests without sanitizers.

use umbel::config::Config;
use umbel::core::check::{Allowed, check};
use umbel::core::document::Document;
use umbel::core::leaf::EmbedLimit;
use umbel::core::outline::{Format, parse};
use umbel::core::span::fits;
use umbel::filter::Filter;
use umbel::formats::{Converted, FileFormat, convert};
use umbel::metadata::parse_date;
use umbel::read::rules::Rules;
use umbel::read::{Draft, detect_language, document};
use umbel::tokens::O200k;

/// Panics inside of a parser that another project wrote are caught by `convert`, and are no findings: they cost one file and
/// have a reason. The fuzzer's own hook would end the process before they are caught.
#[cfg_attr(not(fuzzing), expect(dead_code, reason = "only the fuzzer has a hook of its own"))]
pub(crate) fn quiet() {
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
}

/// A model that takes few tokens: a word each.
struct Words(usize);

impl EmbedLimit for Words {
    fn max_tokens(&self) -> usize {
        self.0
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.split_whitespace().count() + 2
    }
}

/// Leaf building under settings that the first bytes choose.
pub(crate) fn leaves(data: &[u8]) {
    let [target, overlap, kind, limit, text @ ..] = data else { return };
    let target = usize::from(*target) + 1;
    let sets = [
        format!("leaf.target={target}"),
        format!("leaf.overlap={}", usize::from(*overlap) % target.div_ceil(2)),
        format!("leaf.levels=[{}, {}]", target * 8, target * 3),
        format!("leaf.unit={}", if kind & 1 == 0 { "tokens" } else { "characters" }),
        format!("leaf.keep_whole_tokens={}", if kind & 2 == 0 { 0 } else { target * 2 }),
    ];
    let config = Config::load(None, &[], &sets).expect("these settings agree with each other");
    let format = [Format::Markdown, Format::Mdx, Format::Plain][usize::from(kind >> 2) % 3];
    let limit = (*limit > 0).then(|| Words(usize::from(*limit) + 8));
    let text = String::from_utf8_lossy(text).into_owned();
    built(
        Draft::of_text(text, format),
        &config,
        limit.as_ref().map(|limit| limit as &dyn EmbedLimit),
    );
}

/// Text as it is read by default, and its language.
pub(crate) fn text(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    for format in [Format::Markdown, Format::Mdx, Format::Plain] {
        let draft = Draft::of_text(text.clone(), format);
        detect_language(&draft);
        built(draft, &Config::default(), None);
    }
}

/// A web page.
pub(crate) fn html(data: &[u8]) {
    converted(FileFormat::Html, data);
}

/// A PDF.
pub(crate) fn pdf(data: &[u8]) {
    converted(FileFormat::Pdf, data);
}

/// The other formats; the first byte chooses one.
pub(crate) fn office(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let formats: Vec<FileFormat> = FileFormat::ALL
        .into_iter()
        .filter(|format| !matches!(format, FileFormat::Html | FileFormat::Pdf))
        .collect();
    converted(formats[usize::from(*kind) % formats.len()], data);
}

/// What people type: dates, rules and conditions.
pub(crate) fn words(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    let _ = parse_date(&text);
    if let Ok(rules) = Rules::parse(&text) {
        let _ = rules.stated("guide/billing.md").or(rules.default("guide/billing.md"));
    }
    if let Ok(filter) = Filter::parse(&[text]) {
        filter.clauses(&[]);
    }
}

fn converted(format: FileFormat, data: &[u8]) {
    let Ok(Converted { text, anchors, .. }) = convert(format, data) else { return };
    let mut last = 0;
    for anchor in anchors {
        assert!(last <= anchor.offset && text.is_char_boundary(anchor.offset), "{anchor:?}");
        last = anchor.offset;
    }
    built(Draft::of_text(text, Format::Markdown), &Config::default(), None);
}

/// Builds a document and looks at every promise.
fn built(draft: Draft, config: &Config, limit: Option<&dyn EmbedLimit>) {
    let format = draft.format;
    let built: Document = document(draft, None, "name", config, &O200k::new(), limit);
    assert!(built.tree.leaves.iter().all(|leaf| fits(&built.text, leaf.span)));
    let leaf = &config.settings().leaf;
    let whole = leaf.keep_whole_tokens > 0 && built.tree.leaves.len() == 1;
    let outline = parse(&built.text, built.body, format);
    let broken = check(&built, &outline, Allowed { overlap: leaf.overlap > 0, whole });
    assert!(broken.is_empty(), "{broken:?} in {:?}", built.text);
}
