//! A sweep of 100 settings over 1,000 queries, from stored candidates: fuse, collapse, merge and pack, expand `none`, all cores.
//!
//! The queries are those of the samples, found with the default model, each as often as is needed.

use super::quality::{Found, Set, TARGET, Vectors, configured, cut, sources};
use super::{print, timed};
use umbel::config::Config;
use umbel::core::collapse::Standings;
use umbel::core::document::Library;
use umbel::core::hit::{Fusion, Leg, RankedList, fuse};
use umbel::core::id::DocId;
use umbel_eval::judgment::Judgment;
use umbel_eval::measure::{Covered, Wanted};
use umbel_eval::replay::Ranker;
use umbel_eval::run::{Candidate, Delivery, Entry};
use umbel_eval::sweep::{Setting, Success, score};

const QUERIES: usize = 1_000;
/// Leaves that each leg is read to, the default of the configuration.
const DEPTH: usize = 100;

pub(crate) fn sweep() {
    let sources = sources();
    let Some(samples) = sources.iter().find(|source| source.name == "samples") else { return };
    let set = cut(samples, TARGET, &mut Vectors::open());
    let judged = samples.judgments.iter().zip(&set.lists);
    let entries: Vec<Entry> = judged
        .cycle()
        .take(QUERIES)
        .map(|(judgment, found)| entry(&set, judgment, found))
        .collect();
    let settings = settings();
    let library: Library<'_> =
        set.documents.iter().enumerate().map(|(at, d)| (DocId(at as u64), d)).collect();
    let standings = Standings::new();
    let success = Success { wanted: Wanted::All, covered: Covered::From(0.95) };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let mut fired = 0;
    let (median, best, worst) = timed(5, || {
        fired = std::thread::scope(|scope| {
            let part = |part: &[Entry]| {
                let scored =
                    part.iter().flat_map(|e| score(e, &library, &standings, &settings, success));
                scored.filter(|scored| scored.fired).count()
            };
            let parts: Vec<_> = entries
                .chunks(QUERIES.div_ceil(cores))
                .map(|chunk| scope.spawn(move || part(chunk)))
                .collect();
            parts.into_iter().map(|part| part.join().unwrap()).sum()
        });
    });
    print(&format!(
        "sweep of {} settings over {QUERIES} queries, {cores} cores       {:.2} s ({:.2} to {:.2}), fired {fired}",
        settings.len(),
        median.as_secs_f64(),
        best.as_secs_f64(),
        worst.as_secs_f64()
    ));
}

fn entry(set: &Set<'_>, judgment: &Judgment, found: &Found) -> Entry {
    let lists = [(&found.dense, Leg::Dense), (&found.lexical, Leg::Lexical)].map(|(list, leg)| {
        RankedList { leg, weight: 0.5, leaves: list.leaves.iter().take(DEPTH).cloned().collect() }
    });
    let hits = fuse(&lists, Fusion::Convex);
    let candidates = hits.iter().map(|hit| Candidate::of(hit, hit.record.doc.0 as u32));
    Entry {
        id: judgment.id.clone(),
        query: judgment.query.clone(),
        answers: Vec::new(),
        group: None,
        docs: set.source.pages.iter().map(|(name, _)| name.clone()).collect(),
        relevant: judgment.relevant.clone(),
        leaves: Vec::new(),
        candidates: candidates.collect(),
        delivery: Delivery::default(),
        outcome: None,
        warnings: Vec::new(),
        took_us: None,
    }
}

/// Five ratios, two counts, five depths and two budgets.
fn settings() -> Vec<Setting> {
    let mut settings = Vec::new();
    for depth in [12, 24, 36, 48, 60] {
        for budget in [1000, 2000] {
            for ratio in ["0.2", "0.35", "0.5", "0.65", "0.8"] {
                for min_siblings in [2, 3] {
                    let config = configured(&[
                        "merge.rule=ratio".to_owned(),
                        format!("merge.ratio={ratio}"),
                        format!("merge.min_siblings={min_siblings}"),
                        format!("search.depth={depth}"),
                        format!("search.budget={budget}"),
                    ]);
                    settings.push(setting(&config));
                }
            }
        }
    }
    settings
}

fn setting(config: &Config) -> Setting {
    let search = &config.settings().search;
    let ranker = Ranker {
        fusion: config.fusion(),
        lexical_weight: search.lexical_weight,
        fusion_depth: search.fusion_depth,
        k_prime: search.k_prime,
        depth: search.depth,
        support: config.support(),
        policy: config.settings().collapse.policy(),
    };
    Setting { varied: Vec::new(), ranker, assemble: config.assemble(None) }
}
