//! Fused hits → context, and the reason for each decision on the way: the pure core of a search.
//!
//! Invariant: same hits, documents and settings, same result.

use crate::collapse::{Collapsed, collapse};
use crate::document::Library;
use crate::expand::{Crop, Expansion, expand};
use crate::hit::Hit;
use crate::merge::{MergeConfig, MergeTrace, merge};
use crate::pack::{Context, Frame, PackConfig, pack};
use crate::page::{Delivered, without_delivered};

/// How hits become a context.
#[derive(Debug, Clone, PartialEq)]
pub struct AssembleConfig {
    /// Distinct clusters that are kept of the list.
    pub depth: usize,
    /// When siblings are merged.
    pub merge: MergeConfig,
    /// What leaves that were not merged are delivered as.
    pub expansion: Expansion,
    /// The tokens that an expanded parent may have before it is cropped.
    pub parent_cap_tokens: usize,
    /// How much may be delivered.
    pub pack: PackConfig,
}

/// Why the context is what it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// Hits that the list held before it was collapsed.
    pub retrieved: usize,
    /// Hits that were looked at until `depth` distinct clusters were found.
    pub examined: usize,
    /// Distinct clusters that were wanted and not found.
    pub shortfall: usize,
    /// What merging did, and nearly did.
    pub merge: MergeTrace,
    /// Parents that were cropped.
    pub crops: Vec<Crop>,
    /// How many things there were after each step.
    pub counts: Counts,
}

/// How many things there were after each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Leaves that were kept of the list.
    pub children_retrieved: usize,
    /// Items after merging.
    pub after_merge: usize,
    /// Topmost nodes that replaced their children.
    pub parents_substituted: usize,
    /// Passages delivered.
    pub final_context: usize,
}

/// Collapses, merges, expands and packs, in that order; each cluster speaks through its best member. `frame` is the tokens of what
/// stands around a passage in the prompt; `None` where nothing does.
pub fn assemble(
    hits: Vec<Hit>,
    library: &Library<'_>,
    config: &AssembleConfig,
    frame: Option<&Frame<'_>>,
) -> (Context, Trace) {
    deliver(&collapse(hits, config.depth), library, &Delivered::new(), config, frame)
}

/// Merges, expands and packs a collapsed list, in that order, without the bytes that earlier pages delivered: what [`assemble`]
/// does with one that no policy and no reranker looks at.
pub fn deliver(
    list: &Collapsed,
    library: &Library<'_>,
    delivered: &Delivered,
    config: &AssembleConfig,
    frame: Option<&Frame<'_>>,
) -> (Context, Trace) {
    let (items, merge) = merge(list, library, &config.merge, config.depth, config.pack.room());
    let after_merge = items.len();
    let (items, crops) = expand(items, library, config.expansion, config.parent_cap_tokens);
    let items = without_delivered(items, delivered, library);
    let context = pack(&items, library, config.pack, frame);
    let counts = Counts {
        children_retrieved: list.voices.len(),
        after_merge,
        parents_substituted: merge.fires.iter().filter(|fire| fire.absorbed_by.is_none()).count(),
        final_context: context.passages.len(),
    };
    let shortfall = config.depth.saturating_sub(list.voices.len());
    let (retrieved, examined) = (list.retrieved, list.examined);
    (context, Trace { retrieved, examined, shortfall, merge, crops, counts })
}
