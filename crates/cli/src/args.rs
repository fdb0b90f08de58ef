//! The command line as it is typed.

pub(crate) mod eval;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use umbel::catalog::RunId;
use umbel::core::expand::Expansion;

/// Finds the exact spans of your documents that are worth reading within a token budget, and says why.
#[derive(Debug, Parser)]
#[command(name = "umbel", version, arg_required_else_help = true)]
pub(crate) struct Args {
    /// The folder of the store.
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        default_value = ".umbel",
        env = "UMBEL_STORE",
        hide_env = true
    )]
    pub(crate) store: PathBuf,
    /// A configuration file; `umbel.toml` in this folder is read without being named.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Override a setting, as `--set search.budget=4000`; may be repeated.
    #[arg(long = "set", global = true, value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Index a sample company's knowledge and ask it three questions.
    Demo(Demo),
    /// Take in folders and files, and remove documents whose file is gone.
    Index(Index),
    /// Take a source or a document out of the store.
    Remove(Remove),
    /// Find the passages that are worth reading for a question.
    Search(Search),
    /// Have a language model answer a question from the passages that are found, with citations that are checked.
    Ask(Ask),
    /// Print a document, or the span of a citation.
    Show(Show),
    /// Print the tree of a document, or list the documents.
    Tree(Tree),
    /// Prove the promises of the store, over every leaf.
    Check(Check),
    /// Count documents, leaves and their lengths.
    Stats(Stats),
    /// What the searches of this store did: fire rates, near misses, tokens and times by day, or the records themselves.
    Log(Log),
    /// Ask the questions of the log again, as it is configured and with `--set`, side by side: what would change for those who asked?
    Replay(Replay),
    /// Find copies of the same knowledge, mark them, and look at them. Nothing is deleted.
    Dupes(Dupes),
    /// Judge what is found: run judged queries, measure, compare, sweep, tune.
    Eval(eval::Eval),
    /// Forget vectors that no document needs, merge the index, and give unused space back to the disk.
    Compact,
    /// Fetch an embedding model.
    Model(Model),
    /// Print the configuration.
    Config(Config),
    /// Look at model, store and environment, and say what is missing.
    Doctor,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    /// Where the demo's store is kept.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Search by words only, without a model.
    #[arg(long)]
    pub(crate) lexical: bool,
}

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own, as it is typed")]
pub(crate) struct Index {
    /// Folders or files; each is a source of its own.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// The name of the source; by default its path. For one path only.
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// Search by words only: no model, no vectors. A later `index` without it embeds what is missing.
    #[arg(long)]
    pub(crate) lexical: bool,
    /// Start over: remove the store first.
    #[arg(long)]
    pub(crate) rebuild: bool,
    /// Metadata by path, in TOML; remembered for the source.
    ///
    /// `title`, `connector`, `url`, `updated_at`, `labels` and `language` at the top hold where a document does not say
    /// otherwise; under `[[match]]` with `glob = "policies/**"` they hold whatever it says. In `url`, `{path}` is the
    /// document's path and `{stem}` the same without extension. An empty file forgets what was remembered.
    #[arg(long, value_name = "FILE")]
    pub(crate) meta: Option<PathBuf>,
    /// Say what would be added, updated, removed and embedded, and change nothing.
    #[arg(long, conflicts_with_all = ["rebuild", "watch"])]
    pub(crate) dry_run: bool,
    /// Stay, and take in changes as they happen, until Ctrl-C.
    #[arg(long)]
    pub(crate) watch: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Log {
    #[command(subcommand)]
    pub(crate) what: LogCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Fire rate, near misses, tokens and times by day.
    Stats(LogDays),
    /// Every record, one JSON object on a line, oldest first; `docs/schema/log.json` is their schema.
    Export(LogDays),
    /// How far lists must be read (`search.k_prime`) until enough distinct clusters of duplicates come, and whether that has moved.
    Overfetch(Overfetch),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Replay {
    /// Records that `umbel log export` made, of this store or of another one; the store's own log by default.
    #[arg(long, value_name = "FILE", conflicts_with = "days")]
    pub(crate) log: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) days: LogDays,
    /// How many of the questions with other passages are shown.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) show: usize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Overfetch {
    /// Distinct clusters of duplicates that a search is to deliver from; `search.depth` by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) target: Option<u32>,
    /// The share of searches that are to find them in one go.
    #[arg(long, value_name = "SHARE", default_value_t = 0.994, value_parser = quantile)]
    pub(crate) quantile: f64,
    /// The days that are looked at, today among them; they are compared with as many days before.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=18_250))]
    pub(crate) days: u32,
    /// Fail where the length that is needed has moved by more than so many leaves.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) moved: u32,
}

/// A number above 0, 1 at the most.
fn quantile(typed: &str) -> Result<f64, String> {
    let value = share(typed).ok().filter(|value| *value > 0.0);
    value.ok_or_else(|| "want a number above 0, 1 at the most".to_owned())
}

#[derive(Debug, clap::Args)]
pub(crate) struct Policies {
    /// The questions whose clusters are looked at; without any, those of the judgments, else those of the log.
    #[arg(value_name = "QUESTION")]
    pub(crate) questions: Vec<String>,
    /// Only questions of the last so many days of the log, today among them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub(crate) days: Option<u32>,
    /// Judged questions, as JSON lines `{id, query, relevant: [{doc, start, end}]}`.
    #[arg(long, value_name = "FILE")]
    pub(crate) judgments: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LogDays {
    /// Only the last so many days, today among them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub(crate) days: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Dupes {
    #[command(subcommand)]
    pub(crate) what: DupesCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DupesCommand {
    /// Look for duplicates and mark their clusters; only what is new is compared.
    Run(DupesRun),
    /// Take a run out of effect: the one before it counts again.
    Revert {
        /// The run, as `r3`.
        run: RunId,
    },
    /// List the runs, newest first.
    Runs,
    /// List the clusters, largest first, or show the members of one and what they differ in.
    Show(DupesShow),
    /// How much is said twice, by pair of connectors.
    Report,
    /// Draw pairs to be judged by a person, or read them back and print precision and recall by threshold.
    Calibrate(DupesCalibrate),
    /// How often the policies agree on the copy that speaks, and, with judgments, what each of them delivers.
    Policies(Policies),
}

/// How duplicates are recognised.
#[derive(Debug, clap::Args)]
pub(crate) struct DupesMethod {
    /// The same text but for blanks.
    #[arg(long, group = "method")]
    pub(crate) exact: bool,
    /// Much the same words in the same order, and no other facts; the default.
    #[arg(long, group = "method")]
    pub(crate) near: bool,
    /// Neighbours by their vectors that share words and state no other facts.
    #[arg(long, group = "method")]
    pub(crate) semantic: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DupesRun {
    #[command(flatten)]
    pub(crate) method: DupesMethod,
    /// `--near`: the share of five-word shingles that two leaves have in common, at the least: 0.5 to 1.
    #[arg(long, value_name = "SHARE", value_parser = jaccard, conflicts_with_all = ["exact", "semantic"])]
    pub(crate) jaccard: Option<f64>,
    /// `--semantic`: the cosine of their vectors, at the least: 0 to 1.
    #[arg(long, value_name = "COSINE", value_parser = share, requires = "semantic")]
    pub(crate) cosine: Option<f64>,
    /// `--semantic`: the share of words that they have in common, at the least: 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = share, requires = "semantic")]
    pub(crate) floor: Option<f64>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DupesShow {
    /// A cluster's id, or how it begins; without one, the clusters are listed.
    pub(crate) cluster: Option<String>,
    /// List so many clusters.
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with = "cluster")]
    pub(crate) limit: usize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DupesCalibrate {
    #[command(flatten)]
    pub(crate) method: DupesMethod,
    /// Draw pairs and write them to this file, one JSON object a line: set `duplicate` of each to true or false.
    #[arg(long, value_name = "FILE", required_unless_present = "read")]
    pub(crate) write: Option<PathBuf>,
    /// Read the judged pairs of this file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["write", "method"])]
    pub(crate) read: Option<PathBuf>,
    /// The similarity at which the lowest band begins; by default 0.6, for `--semantic` 0.8.
    #[arg(long, value_name = "SIMILARITY", value_parser = jaccard)]
    pub(crate) from: Option<f64>,
    /// Pairs of each band.
    #[arg(long, value_name = "N", default_value_t = 25)]
    pub(crate) pairs: usize,
    /// Which pairs are drawn: the same number draws the same ones.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// The precision that is wanted: a band that takes it below is too expensive to reach.
    #[arg(long, value_name = "SHARE", default_value_t = 0.95, value_parser = share)]
    pub(crate) precision: f64,
}

/// A number from 0 to 1.
fn share(typed: &str) -> Result<f64, String> {
    let value = typed.parse::<f64>().ok().filter(|value| (0.0..=1.0).contains(value));
    value.ok_or_else(|| "want a number from 0 to 1".to_owned())
}

/// A threshold for shingles: below a half, every second pair of pages would have to be compared.
fn jaccard(typed: &str) -> Result<f64, String> {
    let value = share(typed).ok().filter(|value| *value >= 0.5);
    value.ok_or_else(|| "want a number from 0.5 to 1".to_owned())
}

#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// A source's or a document's name.
    #[arg(value_name = "SOURCE|DOC")]
    pub(crate) name: String,
}

/// A question, and where and how its passages are found.
#[derive(Debug, clap::Args)]
pub(crate) struct Question {
    /// The question.
    pub(crate) query: String,
    /// The same question in other words, or one of its parts; may be repeated, the lists are fused.
    #[arg(long, value_name = "QUESTION")]
    pub(crate) also: Vec<String>,
    /// Tokens of all passages together.
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) budget: Option<u32>,
    /// Passages at the most, inside the budget.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// What leaves that were not merged are delivered as: none, parent, siblings:N, sentences:N, tokens:N or auto.
    #[arg(long, value_name = "HOW")]
    pub(crate) expand: Option<Expansion>,
    /// Search only documents that meet a condition, as `connector=wiki`, `label=hr|staff`, `path=guide/**` or
    /// `updated_at>=2024-01-01`; may be repeated, then all are to hold.
    ///
    /// Fields: `source`, `path`, `title`, `connector`, `url`, `updated_at`, `label`, `language`. `!=` excludes, `|` stands
    /// between alternatives, values may be globs, and an empty value stands for none.
    #[arg(long = "filter", value_name = "CONDITION")]
    pub(crate) filters: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Search {
    #[command(flatten)]
    pub(crate) question: Question,
    /// Show for each passage where it stands, its evidence and scores, and what fired, nearly fired and was dropped.
    #[arg(long)]
    pub(crate) explain: bool,
    /// The next page of the same question: the `cursor` that the page before came with.
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    pub(crate) cursor: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Ask {
    #[command(flatten)]
    pub(crate) question: Question,
    /// Show what was found and why below the answer, as `umbel search --explain` does.
    #[arg(long)]
    pub(crate) explain: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// A document, as `guide/billing.md`, or a span of it in bytes, as `guide/billing.md:120..980`.
    #[arg(value_name = "DOC[:START..END]")]
    pub(crate) citation: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Tree {
    /// A document; without one, all documents are listed.
    pub(crate) document: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// Make anew what can be derived: trees from their texts, the index from the catalog.
    #[arg(long)]
    pub(crate) repair: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Stats {
    /// Print so many leaves that were merged of several sections, to read: does each answer something completely?
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) sample: Option<u32>,
    /// Which leaves are printed: the same number gives the same ones.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "sample")]
    pub(crate) seed: u64,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Model {
    #[command(subcommand)]
    pub(crate) command: ModelCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Fetch a model into the cache: by name, hub id or folder; the configured one by default.
    Pull {
        /// The model.
        model: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every setting with its value, as a configuration file.
    Show,
}
