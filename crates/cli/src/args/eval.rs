//! `umbel eval` as it is typed.

use clap::Subcommand;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use umbel_eval::measure::Measure;

#[derive(Debug, clap::Args)]
pub(crate) struct Eval {
    #[command(subcommand)]
    pub(crate) what: EvalCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EvalCommand {
    /// Look whether judgments can be placed in the store's documents.
    Check(EvalCheck),
    /// Ask every judged query and keep what was found and delivered; goes on where it stopped.
    Run(EvalRun),
    /// Make a run's contexts anew under other settings (`--set`), from its stored candidates: no index, no model.
    Replay(EvalReplay),
    /// Give a run's queries outcomes that were judged elsewhere: lines of `{"id", "correct"}`.
    Outcomes(EvalOutcomes),
    /// Have a language model answer a run's questions from what was delivered, and others judge the answers: right or wrong, or, of two
    /// runs, which one is better.
    Answer(EvalAnswer),
    /// Measure a run.
    Score(EvalScore),
    /// Compare runs of the same judgments with the first one, or check a printed table of shares.
    Compare(EvalCompare),
    /// Try settings on a run's stored candidates: fire rate, what the rule does where it fires, tokens, audit.
    Sweep(EvalSweep),
    /// Recommend one of the settings of a sweep by what it surely gains for each token, judged on queries that were held out.
    Tune(EvalTune),
    /// How much of the parents that judged queries expand to is relevant, whether expansion will help, and the worst pages.
    Relevance(EvalRelevance),
    /// Where the evidence of a run's badly answered queries lies, and which of them the merge rule let go.
    Misses(EvalMisses),
    /// The judgments for which the merge rule is there: several leaves of one parent hold their evidence, and it can fire.
    Harvest(EvalHarvest),
    /// On how many queries the rule fired in a run, beside the searches of the log.
    FireRate(EvalFireRate),
    /// What collapsing duplicates does to a run: unique clusters, recall and success with and without it, by each policy, crediting
    /// the judged copy only and any member of its cluster.
    Collapse(EvalCollapse),
    /// One page of HTML that shows runs: what a rule does where it acts, what it costs, and each query with its texts.
    Report(EvalReport),
    /// Make judgments of those of other tools, and runs of theirs.
    Import(EvalImport),
    /// Run a public benchmark, with the chunkers of its table and with ours.
    Bench(EvalBench),
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalBench {
    #[command(subcommand)]
    pub(crate) which: Benchmark,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Benchmark {
    /// Chroma's "Evaluating Chunking Strategies for Retrieval".
    Chroma(ChromaBench),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ChromaBench {
    /// A folder with `corpus/` (the five texts) and `queries.jsonl` (the questions and their spans in bytes).
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Only what cutting alone allows: the number of chunks, and PrecisionΩ.
    #[arg(long)]
    pub(crate) no_model: bool,
    /// Where a chunk is said to be: where it was cut, or, as in the published code, where its text stands first.
    #[arg(long, value_name = "HOW", default_value = "exact")]
    pub(crate) locate: LocateBy,
    /// Chunks that are retrieved.
    #[arg(long, value_name = "K", default_value = "5")]
    pub(crate) top: NonZeroUsize,
    /// Only these chunkers, as `TokenText 250/0` or `Umbel`; may be repeated. All of the table by default.
    #[arg(long = "only", value_name = "NAME")]
    pub(crate) only: Vec<String>,
}

/// Where a chunk is said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LocateBy {
    /// Where it was cut.
    Exact,
    /// At the first place of its file where the same text stands.
    First,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalRelevance {
    /// The judgments: one JSON object a line.
    #[arg(value_name = "FILE")]
    pub(crate) queries: PathBuf,
    /// What documents are grouped by.
    #[arg(long, value_name = "WHAT", default_value = "folder")]
    pub(crate) by: KindBy,
    /// Leave out judgments that cannot be placed in the documents, and say how many.
    #[arg(long)]
    pub(crate) allow_unjudged: bool,
    /// How many of the worst parents are listed.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) worst: usize,
}

/// What documents are grouped by.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum KindBy {
    /// The folder that they lie in.
    Folder,
    /// Who says it, as their metadata have it.
    Connector,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalMisses {
    /// The run.
    pub(crate) run: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalCollapse {
    /// The run.
    pub(crate) run: PathBuf,
    /// How far ranked lists are looked at.
    #[arg(long, value_name = "K", default_value = "10")]
    pub(crate) top: NonZeroUsize,
    /// When a query counts as answered: `Success(…)`.
    #[arg(long = "metric", value_name = "METRIC", default_value = "Success(all>=0.95)")]
    pub(crate) measure: Measure,
    #[command(flatten)]
    pub(crate) resampling: Resampling,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalHarvest {
    /// The judgments: one JSON object a line.
    #[arg(value_name = "FILE")]
    pub(crate) queries: PathBuf,
    /// Where those that are for the rule are written.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Leave out judgments that cannot be placed in the documents, and say how many.
    #[arg(long)]
    pub(crate) allow_unjudged: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalFireRate {
    /// The run.
    pub(crate) run: PathBuf,
    /// Only the last so many days of the log, today among them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub(crate) days: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalCheck {
    /// The judgments: one JSON object a line.
    #[arg(value_name = "FILE")]
    pub(crate) queries: PathBuf,
    /// Write those that can be placed, in spans, with the texts that stand there: they are found again when documents change.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalRun {
    /// The judgments: one JSON object a line.
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: PathBuf,
    /// Where the run is kept; one that is half done is finished.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Leave out judgments that cannot be placed in the documents, and say how many.
    #[arg(long)]
    pub(crate) allow_unjudged: bool,
    /// Keep how long each query took; then two runs are not the same bytes.
    #[arg(long)]
    pub(crate) latency: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalReplay {
    /// The run.
    pub(crate) run: PathBuf,
    /// Where the new run is kept.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalOutcomes {
    /// The run.
    pub(crate) run: PathBuf,
    /// The outcomes.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: PathBuf,
    /// Where the run with these outcomes is kept.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalAnswer {
    /// The run.
    pub(crate) run: PathBuf,
    /// A second run of the same judgments: then the answers of both are compared, and the judge does not know whose is whose.
    pub(crate) other: Option<PathBuf>,
    /// Where answers and verdicts are written, one object a line.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// What judges: a model, as its server calls it, of the generator's server or of another, `MODEL@http://…`; twice for two judges.
    /// Without it the generator judges itself.
    #[arg(long = "judge", value_name = "MODEL[@URL]")]
    pub(crate) judges: Vec<JudgeName>,
    /// The variable of the environment that holds the key of judges at another address.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) judge_key_variable: String,
    /// Questions that are under way at once.
    #[arg(long, value_name = "N", default_value = "4")]
    pub(crate) concurrency: NonZeroUsize,
    /// Where answers and verdicts are kept by what was asked, so that nothing is asked twice; by default
    /// `answers.cache.jsonl` beside `--out`.
    #[arg(long, value_name = "FILE")]
    pub(crate) cache: Option<PathBuf>,
    /// Which of two answers is shown first.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

/// A model that judges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JudgeName {
    /// What its server calls it.
    pub(crate) model: String,
    /// The address, where it is another than the generator's.
    pub(crate) url: Option<String>,
}

impl FromStr for JudgeName {
    type Err = String;

    fn from_str(text: &str) -> Result<JudgeName, String> {
        let (model, url) = match text.split_once("@http") {
            Some((model, rest)) => (model, Some(format!("http{rest}"))),
            None => (text, None),
        };
        if model.trim().is_empty() {
            return Err("name the model, as `llama3@http://127.0.0.1:11434`".to_owned());
        }
        Ok(JudgeName { model: model.to_owned(), url })
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalScore {
    /// The run.
    pub(crate) run: PathBuf,
    /// What to measure, as `nDCG@10`; may be repeated. The usual ones by default.
    #[arg(long = "metric", value_name = "METRIC")]
    pub(crate) measures: Vec<Measure>,
    #[command(flatten)]
    pub(crate) resampling: Resampling,
}

/// How means are resampled.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Resampling {
    /// Where the random sequence of the bootstrap starts.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Samples of the bootstrap.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub(crate) resamples: u32,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalCompare {
    /// Runs of the same judgments; the first one is what the others are compared with.
    #[arg(required_unless_present = "table", value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) how: Comparing,
    /// A printed table of shares to check instead, in JSON: `{"fired": 16, "unfired": 384, "systems": [{"name", "fired": "56.3",
    /// "unfired": "74.2", "pooled": "73.5"}]}`.
    #[arg(long, value_name = "FILE", conflicts_with = "runs")]
    pub(crate) table: Option<PathBuf>,
}

/// How runs are compared.
#[derive(Debug, clap::Args)]
pub(crate) struct Comparing {
    /// What to measure, as `EvidenceRecall`; may be repeated.
    #[arg(long = "metric", value_name = "METRIC")]
    pub(crate) measures: Vec<Measure>,
    /// What queries are split by.
    #[arg(long, value_name = "WHAT", default_value = "fired")]
    pub(crate) by: SplitBy,
    #[command(flatten)]
    pub(crate) resampling: Resampling,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalReport {
    /// Runs of the same judgments; the first one is what the others are compared with. One alone is compared with itself without
    /// merging.
    #[arg(required = true, value_name = "RUN", num_args = 1..=6)]
    pub(crate) runs: Vec<PathBuf>,
    /// Where the page is written.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub(crate) out: PathBuf,
    /// What stands above it.
    #[arg(long, value_name = "TEXT", default_value = "What the rule does where it acts")]
    pub(crate) title: String,
    /// Queries that are shown with their texts, those that changed first.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: usize,
    /// What documents are grouped by.
    #[arg(long, value_name = "WHAT", default_value = "folder")]
    pub(crate) kinds: KindBy,
    #[command(flatten)]
    pub(crate) how: Comparing,
}

/// What queries are split by.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum SplitBy {
    /// Whether the rule of either run fired.
    Fired,
    /// The group that judgments name.
    Group,
    /// Not at all.
    Nothing,
}

/// A run and the settings to try on it.
#[derive(Debug, clap::Args)]
pub(crate) struct Grid {
    /// The run.
    pub(crate) run: PathBuf,
    /// Shares of a parent that must be retrieved: `0.3,0.5`, `0.2..0.8` in steps of 0.1, or `0.2..0.8:0.15`.
    #[arg(long, value_name = "VALUES")]
    pub(crate) ratio: Option<Values>,
    /// The same for the budget rule, while nothing is used.
    #[arg(long, value_name = "VALUES")]
    pub(crate) base: Option<Values>,
    /// Children that must be retrieved.
    #[arg(long, value_name = "VALUES")]
    pub(crate) min_siblings: Option<Values>,
    /// Distinct clusters that merging sees.
    #[arg(long, value_name = "VALUES")]
    pub(crate) depth: Option<Values>,
    /// How lists are fused: `convex`, `rrf`.
    #[arg(long, value_name = "VALUES")]
    pub(crate) fusion: Option<Values>,
    /// What the lexical leg counts.
    #[arg(long, value_name = "VALUES")]
    pub(crate) lexical_weight: Option<Values>,
    /// Tokens of all passages together.
    #[arg(long, value_name = "VALUES")]
    pub(crate) budget: Option<Values>,
    /// Any other setting of `search` or `merge`, as `merge.max_merge_tokens=400,800`; may be repeated.
    #[arg(long, value_name = "KEY=VALUES")]
    pub(crate) vary: Vec<String>,
    /// When a query counts as answered.
    #[arg(long = "metric", value_name = "METRIC", default_value = "Success(all>=0.95)")]
    pub(crate) measure: Measure,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalSweep {
    #[command(flatten)]
    pub(crate) grid: Grid,
    /// Measure how long each setting takes for a query, in microseconds, on one core; then two sweeps are not the same bytes.
    #[arg(long)]
    pub(crate) latency: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalTune {
    #[command(flatten)]
    pub(crate) grid: Grid,
    /// The share of the queries that judges the recommendation and has no part in it.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    pub(crate) hold_out: f64,
    /// Which queries are held out: the same number gives the same ones.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalImport {
    #[command(subcommand)]
    pub(crate) from: ImportFrom,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImportFrom {
    /// TREC judgments (`query iteration document grade`) and questions (`query<TAB>question`).
    Trec {
        /// The judgments.
        #[arg(long, value_name = "FILE")]
        qrels: PathBuf,
        /// The questions.
        #[arg(long, value_name = "FILE")]
        queries: PathBuf,
        /// What stands behind a document's id in the name of its file, as `.md`.
        #[arg(long, value_name = "TEXT", default_value = "")]
        suffix: String,
        /// Where the judgments are written.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// A run of another tool, in TREC's format (`query Q0 document rank score tag`): a run to score and compare by document.
    TrecRun {
        /// The run.
        run: PathBuf,
        /// The judgments, as `import trec` makes them of qrels.
        #[arg(long, value_name = "FILE")]
        queries: PathBuf,
        /// What stands behind a document's id in the judgments, as `.md`.
        #[arg(long, value_name = "TEXT", default_value = "")]
        suffix: String,
        /// Where the run is written.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// A BEIR folder: its documents become files to index, its judgments a file beside them.
    Beir {
        /// The folder, with `corpus.jsonl`, `queries.jsonl` and `qrels/`.
        folder: PathBuf,
        /// Which of its judgments.
        #[arg(long, value_name = "NAME", default_value = "test")]
        split: String,
        /// Where `corpus/` and `queries.jsonl` are written.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

/// Values to try: a list, or a range with a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Values(pub(crate) Vec<String>);

impl FromStr for Values {
    type Err = String;

    fn from_str(text: &str) -> Result<Values, String> {
        let mut values = Vec::new();
        for part in text.split(',').map(str::trim) {
            match part.split_once("..") {
                None if part.is_empty() => return Err(format!("`{text}` has an empty value")),
                None => values.push(part.to_owned()),
                Some((first, rest)) => values.extend(range(first, rest).ok_or_else(|| {
                    format!("`{part}` is no range such as `0.2..0.8` or `12..60:12`")
                })?),
            }
        }
        Ok(Values(values))
    }
}

/// The values from `first` to the last one, both included, in steps of a tenth or, between whole numbers, of one.
fn range(first: &str, rest: &str) -> Option<Vec<String>> {
    let (last, step) = match rest.split_once(':') {
        Some((last, step)) => (last, step),
        None if [first, rest].iter().all(|end| end.parse::<u32>().is_ok()) => (rest, "1"),
        None => (rest, "0.1"),
    };
    let [first, last, step] = [first, last, step].map(|n| n.parse::<f64>().ok());
    let (first, last, step) = (first?, last?, step?);
    let n = ((last - first) / step + 1e-9).floor();
    // Sums of a tenth are no tenths: nine decimals are more than anybody types.
    let value = |index: u32| (first + f64::from(index) * step).mul_add(1e9, 0.0).round() / 1e9;
    let possible = step > 0.0 && (0.0..=1_000.0).contains(&n);
    possible.then(|| (0..=n as u32).map(|index| value(index).to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(text.parse::<Values>().unwrap().0, expected);
    }

    #[test]
    fn values_are_a_list_or_a_range() {
        check("2,3", &["2", "3"]);
        check("0.2..0.5", &["0.2", "0.3", "0.4", "0.5"]);
        check("0.2..0.8:0.15", &["0.2", "0.35", "0.5", "0.65", "0.8"]);
        check("1..3,9", &["1", "2", "3", "9"]);
        check("12..60:24", &["12", "36", "60"]);
        check("convex,rrf", &["convex", "rrf"]);
        for wrong in ["", "1,,2", "1..", "0.5..0.2", "1..2:0", "0..1:0.0001", "a..b"] {
            assert!(wrong.parse::<Values>().is_err(), "{wrong}");
        }
    }
}
