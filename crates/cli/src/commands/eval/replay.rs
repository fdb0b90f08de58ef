//! `umbel eval replay`: a run's candidates under other settings → another run, without index and model.
//!
//! Invariant: what the candidates cannot answer is refused.

use super::{documents, read_run, score, write_run};
use crate::args::Args;
use crate::args::eval::EvalReplay;
use crate::output::{Output, usage};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use umbel::catalog::StoredDocument;
use umbel::config::{Config, Settings};
use umbel::core::collapse::Standings;
use umbel::core::document::{Document, Library};
use umbel::core::id::DocId;
use umbel::engine::inspect::Inspector;
use umbel_eval::measure::Measure;
use umbel_eval::replay::{Ranker, assemble, rank};
use umbel_eval::run::{Delivery, Entry, Identity, Run, Unit};

pub(super) async fn run(args: &Args, replay: &EvalReplay, output: &Output) -> anyhow::Result<u8> {
    let run = read_run(&replay.run)?;
    let config = changed(&run.identity, &args.sets)?;
    let shelf = Shelf::open(&args.store, &run).await?;
    let run = replayed(&run, &shelf, &config);
    write_run(&replay.out, &run)?;
    score::print(&run, &[], score::FEW_RESAMPLES, output)
}

/// A run under another configuration, one that its candidates can answer.
pub(super) fn replayed(run: &Run, shelf: &Shelf, config: &Config) -> Run {
    let mut run = run.clone();
    for entry in &mut run.entries {
        entry.delivery = shelf.delivery(entry, &run.identity, config);
        entry.outcome = outcome(entry, &entry.delivery);
        entry.took_us = None;
    }
    run.identity = Identity {
        code: env!("CARGO_PKG_VERSION").to_owned(),
        config: config.hash(),
        settings: config.to_toml(),
        depth: config.settings().search.depth,
        ..run.identity
    };
    run
}

/// Whether a query is answered by what was delivered, as long as nobody else judges it.
pub(super) fn outcome(entry: &Entry, delivery: &Delivery) -> Option<bool> {
    Measure::FULL.value(entry, delivery).map(|value| value > 0.5)
}

/// Refuses a run from which nothing was delivered.
pub(super) fn delivers(run: &Identity) -> anyhow::Result<()> {
    match run.unit {
        Unit::Leaf => Ok(()),
        Unit::Document => Err(usage(
            "the run only ranks the documents of another tool: nothing was delivered",
            "make a run with `umbel eval run`",
        )),
    }
}

/// The configuration of a run with settings changed that its candidates can answer.
pub(super) fn changed(run: &Identity, sets: &[String]) -> anyhow::Result<Config> {
    delivers(run)?;
    if !run.replays {
        return Err(usage(
            "the run cannot be replayed: its passages were reranked or compressed",
            "make one with `--set rerank.backend=none --set search.keep=1`",
        ));
    }
    let was = Config::stored(&run.settings, &[])?;
    let config = Config::stored(&run.settings, sets)?;
    answerable(was.settings(), config.settings(), run.candidates)?;
    Ok(config)
}

/// The settings, if any, in which two configurations differ and that make another index.
pub(crate) fn other_index(was: &Settings, is: &Settings) -> Option<&'static str> {
    let parts = [
        ("read", was.read == is.read),
        ("leaf", was.leaf == is.leaf),
        ("embed", was.embed == is.embed),
        ("lexical", was.lexical == is.lexical),
    ];
    parts.iter().find(|(_, same)| !same).map(|(part, _)| *part)
}

/// Whether candidates of a run made with `was` answer for `is`.
fn answerable(was: &Settings, is: &Settings, candidates: usize) -> anyhow::Result<()> {
    let again = "make a run with these settings: `umbel eval run --set …`";
    let refuse = |what: String| Err(usage(what, again));
    let parts = other_index(was, is).or_else(|| (was.rerank != is.rerank).then_some("rerank"));
    if let Some(part) = parts {
        return refuse(format!(
            "settings of `{part}` change the candidates: no run holds the answer"
        ));
    }
    if is.search.keep < 1.0 {
        return refuse("`search.keep` needs the model: a replay has none".to_owned());
    }
    let wanted = is.search.fusion_depth.max(is.search.k_prime);
    if wanted > candidates {
        return refuse(format!("each leg was read to {candidates} leaves, wanted are {wanted}"));
    }
    let (was, is) = (was.search.lexical_weight, is.search.lexical_weight);
    let lacks =
        |leg: &str| refuse(format!("the run has no {leg} leg: its lexical weight is {was}"));
    match (was, is) {
        (was, is) if was <= 0.0 && is > 0.0 => lacks("lexical"),
        (was, is) if was >= 1.0 && is < 1.0 => lacks("dense"),
        _ => Ok(()),
    }
}

/// How a configuration ranks the candidates of a run.
pub(super) fn ranker(config: &Config, run: &Identity) -> Ranker {
    let search = &config.settings().search;
    Ranker {
        fusion: config.fusion(),
        // A store without vectors has one leg, which counts for all.
        lexical_weight: if run.model.is_some() { search.lexical_weight } else { 1.0 },
        fusion_depth: search.fusion_depth,
        k_prime: search.k_prime,
        depth: search.depth,
        support: config.support(),
        policy: config.settings().collapse.policy(),
    }
}

/// The documents that a run speaks of, by name.
#[derive(Debug, Default)]
pub(super) struct Shelf(BTreeMap<String, StoredDocument>);

impl Shelf {
    /// Reads them from the catalog, which must hold what the run was made of.
    pub(super) async fn open(store: &Path, run: &Run) -> anyhow::Result<Shelf> {
        let inspector = Inspector::open(store)?;
        let (is, was) = (inspector.identity().await?.data, &run.identity.data);
        if is != *was {
            return Err(usage(
                format!(
                    "the store `{}` holds other data: `{is}`, the run was made of `{was}`",
                    store.display()
                ),
                "name the store of the run with --store, or make a run of this one with `umbel eval run`",
            ));
        }
        let names: BTreeSet<&str> =
            run.entries.iter().flat_map(|entry| &entry.docs).map(String::as_str).collect();
        Ok(Shelf(documents(&inspector, &names).await?))
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &StoredDocument> {
        self.0.values()
    }

    /// Takes in those of another run of the same store.
    pub(super) fn add(&mut self, other: Shelf) {
        self.0.extend(other.0);
    }

    /// One of them, as it is stored.
    pub(super) fn stored(&self, name: &str) -> Option<&StoredDocument> {
        self.0.get(name)
    }

    /// One of them.
    pub(super) fn document(&self, name: &str) -> Option<&Document> {
        self.0.get(name).map(|stored| &stored.document)
    }

    /// Where those of an entry stand among copies, named by their places in it.
    pub(super) fn standings(&self, entry: &Entry, config: &Config) -> Standings {
        let collapse = &config.settings().collapse;
        let standing = |stored: &StoredDocument| {
            let metadata = &stored.entry.metadata;
            let updated_at = metadata.updated.map(|updated| updated.at);
            collapse.standing(metadata.connector.as_deref(), updated_at)
        };
        let places = entry.docs.iter().zip(0..);
        places.filter_map(|(name, at)| Some((DocId(at), standing(self.0.get(name)?)))).collect()
    }

    /// What a configuration delivers of an entry's candidates.
    pub(super) fn delivery(&self, entry: &Entry, run: &Identity, config: &Config) -> Delivery {
        let ranked = rank(&entry.candidates, &self.standings(entry, config), &ranker(config, run));
        assemble(&ranked, &self.library(entry), &config.assemble(None))
    }

    /// Those of an entry, named by their places in it.
    pub(super) fn library(&self, entry: &Entry) -> Library<'_> {
        let places = entry.docs.iter().zip(0..);
        places
            .filter_map(|(name, place)| Some((DocId(place), &self.0.get(name)?.document)))
            .collect()
    }
}
