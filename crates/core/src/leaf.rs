//! Outline → tree: sections become leaves, small ones merged under their own parent, large ones cut.
//!
//! Invariant: leaves are in document order and disjoint (overlap aside); what lies between them is blank or a dropped
//! rule; no leaf spans two top-level sections that have a body; no leaf has an empty body unless it was cut from a heading
//! too long for one leaf, or the document holds nothing but headings.

mod absorb;
mod draft;
mod fit;
mod unit;
mod split;
mod parts;
mod up;
mod fold;
#[cfg(test)]
mod tests;

use crate::measure::Ruler;
use crate::outline::Outline;
use crate::span::{Span, slice};
use crate::tree::{Heading, Leaf, Tree};
use fit::Builder;

/// How leaves are cut. Sizes are in the ruler's unit: budget tokens, or characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafConfig {
    /// The size that a leaf should have at the most.
    pub target: usize,
    /// How much of the leaf before is repeated behind an artificial cut.
    pub overlap: usize,
    /// The sizes of the parts that long sections are grouped into, largest first.
    pub levels: Vec<usize>,
    /// Documents up to this size stay one leaf; 0 for none.
    pub keep_whole: usize,
}

impl Default for LeafConfig {
    fn default() -> LeafConfig {
        LeafConfig { target: 200, overlap: 0, levels: vec![2048, 512], keep_whole: 0 }
    }
}

/// Why a leaf configuration was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeafConfigError {
    /// Nothing fits a target of 0.
    #[error("`leaf.target` is 0, want at least 1")]
    NoTarget,
    /// Each leaf would repeat the whole one before.
    #[error("`leaf.overlap` is {overlap}, want less than `leaf.target`, which is {target}")]
    Overlap {
        /// The overlap asked for.
        overlap: usize,
        /// The target it must stay below.
        target: usize,
    },
    /// Levels go from large to small.
    #[error("`leaf.levels` holds {lower} behind {upper}, want falling sizes above 0")]
    Levels {
        /// The level before.
        upper: usize,
        /// The level that is not below it.
        lower: usize,
    },
}

impl LeafConfig {
    /// Checks that the sizes agree with each other.
    ///
    /// # Errors
    /// Each variant names the numbers that clash.
    pub fn check(&self) -> Result<(), LeafConfigError> {
        if self.target == 0 {
            return Err(LeafConfigError::NoTarget);
        }
        if self.overlap >= self.target {
            return Err(LeafConfigError::Overlap { overlap: self.overlap, target: self.target });
        }
        let mut upper = usize::MAX;
        for &lower in &self.levels {
            if lower >= upper || lower == 0 {
                return Err(LeafConfigError::Levels { upper, lower });
            }
            upper = lower;
        }
        Ok(())
    }
}

/// What an embedder takes: leaves are cut so that what is embedded fits.
pub trait EmbedLimit {
    /// The model's own tokens that one text may have, special tokens included.
    fn max_tokens(&self) -> usize;

    /// How many of them a text has, special tokens included.
    fn count_tokens(&self, text: &str) -> usize;
}

/// What leaves are cut from.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The canonical text.
    pub text: &'a str,
    /// The text behind byte order mark and front matter.
    pub body: Span,
    /// The document's title.
    pub title: &'a str,
    /// Its blocks and headings.
    pub outline: &'a Outline,
}

/// Builds the tree of a document, and says in words what was odd.
///
/// `ruler` is what the sizes of the configuration are counted in, `tokens` what the tree's token counts are. A blank document
/// gives a tree without nodes. `limit` is the embedder's; without one only the target counts.
pub fn build(
    source: Source<'_>,
    ruler: &Ruler<'_>,
    tokens: &Ruler<'_>,
    config: &LeafConfig,
    limit: Option<&dyn EmbedLimit>,
) -> (Tree, Vec<String>) {
    let builder = Builder::new(source, ruler, tokens, config, limit);
    let drafts = builder.document();
    let tree = builder.assemble(drafts);
    (tree, builder.warnings.into_inner().into_iter().collect())
}

/// The text that is embedded for a leaf, and indexed by the lexical leg: title unless the path starts with it, path, line
/// feed, prefix, leaf. Headings that did not fit the embedder are left out from the front.
pub fn embedded_text(text: &str, title: &str, tree: &Tree, leaf: &Leaf) -> String {
    let names = names(title, &tree.headings, &leaf.path);
    let kept = names
        .get(names.len().saturating_sub(leaf.embedded_headings as usize)..)
        .unwrap_or_default();
    compose(text, kept, &leaf.prefix, leaf.span)
}

/// The title and the headings of a path, the title not twice.
fn names<'a>(title: &'a str, headings: &'a [Heading], path: &[u32]) -> Vec<&'a str> {
    let mut names = Vec::with_capacity(path.len() + 1);
    names.push(title);
    names.extend(
        path.iter()
            .filter_map(|&at| headings.get(at as usize))
            .map(|heading| heading.text.as_str()),
    );
    if title.is_empty() || names.get(1) == Some(&title) {
        names.remove(0);
    }
    names
}

fn compose(text: &str, names: &[&str], prefix: &[Span], span: Span) -> String {
    let mut composed = names.join(" > ");
    for &piece in prefix.iter().chain([&span]) {
        if !composed.is_empty() {
            composed.push('\n');
        }
        composed.push_str(slice(text, piece));
    }
    composed
}

/// The document's lone level-1 heading, if it has exactly one.
pub fn lone_title(outline: &Outline) -> Option<&str> {
    let mut titles = outline.headings.iter().filter(|heading| heading.level == 1);
    titles.next().filter(|_| titles.next().is_none()).map(|heading| heading.text.as_str())
}
