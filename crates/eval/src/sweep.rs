//! Stored candidates under many settings → what the rule does on the queries it reaches, and what that costs.
//!
//! Invariant: each setting is held against the same setting without merging, query by query, so a row says what the rule does and
//! nothing else does.

mod tune;

use crate::compare::Verdict;
use crate::interval::{Interval, Level, Pairs, exact_difference, wilson};
use crate::judgment::Reference;
use crate::measure::{Covered, Wanted, is_success};
use crate::metric::Place;
use crate::parent::relevance_ratio;
use crate::replay::{Ranked, Ranker, collapsed, fused};
use crate::run::{Entry, Spot};
use crate::share::Share;
use serde::Serialize;
use umbel_core::collapse::{Collapsed, Standings};
use umbel_core::document::Library;
use umbel_core::expand::expand;
use umbel_core::hit::Hit;
use umbel_core::merge::{Item, MergeConfig, MergeTrace, Rule, Satisfiability, merge};
use umbel_core::pack::{Passage, pack};
use umbel_core::trace::AssembleConfig;
use umbel_core::tree::Tree;

pub use tune::{Choice, Recommendation, held_out, tune};

/// A setting of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// What is varied, and how: `merge.ratio` and `0.5`.
    pub varied: Vec<(String, String)>,
    /// How candidates become one list.
    pub ranker: Ranker,
    /// How the list becomes a context.
    pub assemble: AssembleConfig,
}

/// When a query counts as answered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Success {
    /// How many references must be covered.
    pub wanted: Wanted,
    /// From when on one is.
    pub covered: Covered,
}

/// A query under a setting, and under the same setting without merging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scored {
    /// Whether the rule fired.
    pub fired: bool,
    /// Whether it was answered without merging.
    pub plain: bool,
    /// Whether it was answered.
    pub merged: bool,
    /// Tokens without merging.
    pub plain_tokens: usize,
    /// Tokens.
    pub merged_tokens: usize,
    /// Parents that took the place of their children in the list.
    pub parents: u64,
    /// Those of them of which less than half is relevant.
    pub mostly_unrelated: u64,
}

/// Scores a query under each setting, in their order. The documents of the library and of the standings are named by
/// their places in the entry.
///
/// A list is fused once for all settings that rank alike to whatever depth, merged once for all whose rule does the same with it, and packed once for all
/// that merge it into the same items.
pub fn score(
    entry: &Entry,
    library: &Library<'_>,
    standings: &Standings,
    settings: &[Setting],
    success: Success,
) -> Vec<Scored> {
    let mut bench = Bench {
        entry,
        library,
        standings,
        success,
        fused: Vec::new(),
        lists: Vec::new(),
        merges: Vec::new(),
        variants: Vec::new(),
        packed: Vec::new(),
    };
    settings.iter().map(|setting| bench.score(setting)).collect()
}

/// A query, and what has been worked out of it.
struct Bench<'a> {
    entry: &'a Entry,
    library: &'a Library<'a>,
    standings: &'a Standings,
    success: Success,
    /// Fused lists, by rankers of depth 0.
    fused: Vec<(Ranker, Vec<Hit>)>,
    lists: Vec<(Ranker, Ranked)>,
    merges: Vec<((Ranker, MergeConfig, usize), Merged)>,
    /// Lists of items that merging gave, each once.
    variants: Vec<Vec<Item>>,
    packed: Vec<((usize, AssembleConfig), (bool, usize))>,
}

/// What merging made of a list.
#[derive(Debug, Clone, Copy)]
struct Merged {
    /// The items, by their place among the variants.
    variant: usize,
    fired: bool,
    parents: u64,
    mostly_unrelated: u64,
}

impl Bench<'_> {
    fn score(&mut self, setting: &Setting) -> Scored {
        let plain = without_merging(&setting.assemble);
        let merged = self.merge(&setting.ranker, &setting.assemble);
        let unmerged = self.merge(&setting.ranker, &plain);
        let (right, tokens) = self.pack(merged.variant, &plain);
        let (plain_right, plain_tokens) = self.pack(unmerged.variant, &plain);
        Scored {
            fired: merged.fired,
            plain: plain_right,
            merged: right,
            plain_tokens,
            merged_tokens: tokens,
            parents: merged.parents,
            mostly_unrelated: merged.mostly_unrelated,
        }
    }

    fn merge(&mut self, ranker: &Ranker, config: &AssembleConfig) -> Merged {
        let room = config.pack.room();
        // Under a fixed share the budget only stops nodes that are larger, and none is larger than the cap.
        let matters = match config.merge.rule {
            Rule::Ratio { .. } => room.min(config.merge.max_merge_tokens),
            Rule::Budget { .. } => room,
        };
        let key = (*ranker, config.merge.clone(), matters);
        if let Some((_, known)) = self.merges.iter().find(|(known, _)| *known == key) {
            return *known;
        }
        if self.lists.iter().all(|(known, _)| known != ranker) {
            let ranked = self.rank(ranker);
            self.lists.push((*ranker, ranked));
        }
        let list = self.lists.iter().find(|(known, _)| known == ranker);
        let nothing = Collapsed::default();
        let list = list.map_or(&nothing, |(_, ranked)| &ranked.list);
        let (items, trace) = merge(list, self.library, &config.merge, config.depth, room);
        let (parents, mostly_unrelated) = audit(self.entry, &trace);
        let known = self.variants.iter().position(|variant| *variant == items);
        let variant = known.unwrap_or_else(|| {
            self.variants.push(items);
            self.variants.len() - 1
        });
        let merged = Merged { variant, fired: !trace.fires.is_empty(), parents, mostly_unrelated };
        self.merges.push((key, merged));
        merged
    }

    fn rank(&mut self, ranker: &Ranker) -> Ranked {
        let candidates = &self.entry.candidates;
        let without_depth = Ranker { depth: 0, ..*ranker };
        let known = self.fused.iter().position(|(known, _)| *known == without_depth);
        let at = known.unwrap_or_else(|| {
            self.fused.push((without_depth, fused(candidates, ranker)));
            self.fused.len() - 1
        });
        let hits = self.fused.get(at).map(|(_, hits)| hits.clone()).unwrap_or_default();
        collapsed(hits, candidates, self.standings, ranker)
    }

    /// Whether the query is answered by what comes of some items, and the tokens of that. `config` is one without merging.
    fn pack(&mut self, variant: usize, config: &AssembleConfig) -> (bool, usize) {
        let same =
            |known: &&((usize, AssembleConfig), _)| known.0.0 == variant && known.0.1 == *config;
        if let Some((_, answered)) = self.packed.iter().find(same) {
            return *answered;
        }
        let AssembleConfig { expansion, parent_cap_tokens, pack: limits, .. } = *config;
        let items = self.variants.get(variant).cloned().unwrap_or_default();
        let (items, _) = expand(items, self.library, expansion, parent_cap_tokens);
        let context = pack(&items, self.library, limits, None);
        let spot = |passage: &Passage| Spot { doc: passage.doc.0 as u32, span: passage.span };
        let delivered: Vec<Place<'_>> =
            context.passages.iter().filter_map(|p| self.entry.place(spot(p))).collect();
        let Success { wanted, covered } = self.success;
        let right = is_success(&delivered, &self.entry.relevant, wanted, covered).unwrap_or(false);
        self.packed.push(((variant, config.clone()), (right, context.tokens)));
        (right, context.tokens)
    }
}

/// The same without merging, in one form whatever the rule.
fn without_merging(config: &AssembleConfig) -> AssembleConfig {
    let merge = MergeConfig { enabled: false, ..MergeConfig::default() };
    AssembleConfig { merge, ..config.clone() }
}

/// How many parents took the place of their children, and of how many of them less than half is relevant.
fn audit(entry: &Entry, trace: &MergeTrace) -> (u64, u64) {
    let (mut parents, mut mostly_unrelated) = (0, 0);
    for fire in trace.fires.iter().filter(|fire| fire.absorbed_by.is_none()) {
        let doc = fire.share.node.doc.0 as u32;
        let spot = fire.share.span.map(|span| Spot { doc, span });
        let Some(place) = spot.and_then(|spot| entry.place(spot)) else { continue };
        let of_doc = entry.relevant.iter().filter(|reference| reference.doc == place.doc);
        let ratio = relevance_ratio(place.span, of_doc.map(Reference::span));
        parents += 1;
        mostly_unrelated += u64::from(ratio.is_some_and(|ratio| ratio < 0.5));
    }
    (parents, mostly_unrelated)
}

/// What a setting came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What is varied, and how.
    pub setting: Vec<(String, String)>,
    /// On how many queries the rule fired.
    pub fire_rate: Share,
    /// The fired queries answered without merging, and with it.
    pub fired: Pairs,
    /// The Wilson interval of those answered with it; `None` where none fired.
    pub fired_interval: Option<Interval>,
    /// The interval of the difference on fired queries; `None` where none fired.
    pub effect: Option<Interval>,
    /// What the difference on fired queries comes to.
    pub verdict: Verdict,
    /// All queries answered with merging.
    pub pooled: Share,
    /// Tokens delivered a query, on average.
    pub tokens: f64,
    /// Tokens a query more than without merging, on average.
    pub extra_tokens: f64,
    /// The same for each fired query: excess / fire rate. `None` where none fired.
    pub extra_per_fired: Option<f64>,
    /// Of the parents that were merged, those of which less than half is relevant.
    pub audit: Share,
    /// Of all parents in the documents, those for which the rule can be met in a list of this depth.
    pub satisfiable: Share,
    /// Those of them that are small enough as well.
    pub can_fire: Share,
    /// Those that must take more than half of the list before they fire.
    pub greedy: Share,
}

/// For how many nodes of some trees a setting's rule can fire.
pub fn satisfiability<'t>(
    trees: impl IntoIterator<Item = &'t Tree>,
    setting: &Setting,
) -> Satisfiability {
    let mut counted = Satisfiability::default();
    let AssembleConfig { depth, merge, pack, .. } = &setting.assemble;
    for tree in trees {
        counted.add(tree, merge, *depth, pack.room());
    }
    counted
}

/// What the queries of a setting came to, taken together.
pub fn row<'s>(
    setting: &Setting,
    scored: impl IntoIterator<Item = &'s Scored>,
    satisfiability: Satisfiability,
    confidence: Level,
    power: Level,
) -> Row {
    let scored: Vec<&Scored> = scored.into_iter().collect();
    let fire_rate = Share::count_of(&scored, |s| s.fired);
    let fired = Pairs::of(scored.iter().filter(|s| s.fired).map(|s| (s.plain, s.merged)));
    let mean = |of: fn(&Scored) -> usize| {
        scored.iter().map(|s| of(s) as f64).sum::<f64>() / scored.len().max(1) as f64
    };
    let tokens = mean(|s| s.merged_tokens);
    let extra_tokens = tokens - mean(|s| s.plain_tokens);
    let sum = |of: fn(&Scored) -> u64| scored.iter().map(|s| of(s)).sum::<u64>();
    let share = |count: u64, of: u64| Share::new(count, of).expect("a part is not above the whole");
    let of_parents = |count: usize| share(count as u64, satisfiability.parents as u64);
    Row {
        setting: setting.varied.clone(),
        fired_interval: wilson(fired.b(), confidence),
        effect: exact_difference(fired, confidence),
        verdict: Verdict::of_pairs(fired, confidence, power),
        pooled: Share::count_of(&scored, |s| s.merged),
        tokens,
        extra_tokens,
        extra_per_fired: excess_per_fired(extra_tokens, fire_rate),
        audit: share(sum(|s| s.mostly_unrelated), sum(|s| s.parents)),
        satisfiable: of_parents(satisfiability.satisfiable),
        can_fire: of_parents(satisfiability.can_fire),
        greedy: of_parents(satisfiability.greedy),
        fire_rate,
        fired,
    }
}

/// Tokens that each fired query costs: the excess over the same setting without merging / the fire rate. `None` where none fired.
pub fn excess_per_fired(excess_tokens: f64, fire_rate: Share) -> Option<f64> {
    fire_rate.proportion().filter(|rate| *rate > 0.0).map(|rate| excess_tokens / rate)
}

#[cfg(test)]
mod tests;
