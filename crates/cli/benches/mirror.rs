//! What collapse does on a corpus with mirrors, by policy, with and without a reranker: `umbel` itself is run, as somebody would
//! type it.
//!
//! A third of a judged set's pages are copied, aged and trimmed: the copy lacks every fourth paragraph, bears an older date, or, one
//! in four, a newer one, as after a move, and comes from another connector. The samples have copies of their own. With
//! `UMBEL_BENCH_RERANK`, the URL of a reranker that speaks as text-embeddings-inference does, each system is run with it too.

use super::print;
use super::quality::{Source, sources};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use umbel::core::id::{ClusterId, LeafId};
use umbel_eval::collapse::{UNCOLLAPSED, measures};
use umbel_eval::compare::{Figure, figure};
use umbel_eval::interval::{Bootstrap, Level};
use umbel_eval::measure::Measure;
use umbel_eval::run::{Run, parse};

/// The sets that are shown.
const SETS: [&str; 2] = ["samples", "anthropic-docs-rag"];
const POLICIES: [&str; 3] = ["score", "fresh", "authority"];
/// Of so many pages one is mirrored, and of so many paragraphs the copy lacks one.
const MIRRORED: usize = 3;
const TRIMMED: usize = 4;

const RULES: &str = r#"
connector = "docs"
updated_at = 2025-06-01

[[match]]
glob = "mirror/**"
connector = "mirror"
updated_at = 2023-03-01

[[match]]
glob = "mirror/touched/**"
updated_at = 2025-09-01
"#;

/// A folder with documents, a store and the command.
struct Place {
    dir: tempfile::TempDir,
    umbel: PathBuf,
}

impl Place {
    fn new() -> Place {
        let umbel = std::env::current_exe().unwrap().with_file_name("umbel");
        assert!(umbel.exists(), "build it first: cargo build --release --bin umbel");
        Place { dir: tempfile::tempdir().unwrap(), umbel }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }

    fn run(&self, args: &[&str]) -> String {
        let output = Command::new(&self.umbel).args(args).current_dir(self.dir.path()).output();
        let output = output.unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "umbel {}: {error}", args.join(" "));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A run of the judged queries under some settings. A reranker that did not answer is no row of a table.
    fn judged(&self, out: &str, sets: &[String]) -> Run {
        let mut args = vec!["eval", "run", "--queries", "q.jsonl", "--out", out, "--json"];
        args.extend(sets.iter().flat_map(|set| ["--set", set.as_str()]));
        self.run(&args);
        let run = parse(&fs_err::read_to_string(self.path(out)).unwrap()).unwrap();
        let mut warnings = run.entries.iter().flat_map(|entry| &entry.warnings);
        assert_eq!(warnings.find(|w| w.contains("the order is that of fusion")), None);
        run
    }
}

pub(crate) fn mirrored() {
    for source in sources().iter().filter(|source| SETS.contains(&source.name.as_str())) {
        show(source);
    }
}

fn show(source: &Source) {
    let place = Place::new();
    let copies = write(&place, source);
    place.run(&["index", "pages", "--meta", "rules.toml"]);
    print(&format!(
        "\n## {}: {} pages, {copies} of them mirrored, {} queries",
        source.name,
        source.pages.len(),
        source.judgments.len()
    ));
    let rerankers: Vec<(&str, Vec<String>)> = [("", Vec::new())]
        .into_iter()
        .chain(std::env::var("UMBEL_BENCH_RERANK").ok().map(|url| {
            let sets = ["rerank.backend=tei".to_owned(), format!("rerank.url={url}")];
            (", reranked", sets.to_vec())
        }))
        .collect();
    // Before duplicates are marked each leaf speaks for itself.
    let mut runs: Vec<(String, Run)> = Vec::new();
    for (words, sets) in &rerankers {
        let name = format!("{UNCOLLAPSED}{words}");
        runs.push((name, place.judged(&format!("plain{}.jsonl", runs.len()), sets)));
    }
    print(place.run(&["dupes", "run"]).trim_end());
    for (words, sets) in &rerankers {
        for policy in POLICIES {
            let sets: Vec<String> =
                sets.iter().cloned().chain([format!("collapse.policy={policy}")]).collect();
            let run = place.judged(&format!("{policy}{}.jsonl", runs.len()), &sets);
            runs.push((format!("{policy}{words}"), run));
        }
    }
    mark(&mut runs);
    table(&runs);
    print(&format!("\n{}", place.run(&["eval", "collapse", &collapsed(&rerankers)])));
}

/// The run of the last policy, which is the default one.
fn collapsed(rerankers: &[(&str, Vec<String>)]) -> String {
    format!("authority{}.jsonl", rerankers.len() + POLICIES.len() - 1)
}

/// Writes pages, copies, judgments and rules; returns how many pages were copied.
fn write(place: &Place, source: &Source) -> usize {
    for (name, text) in &source.pages {
        place.write(&format!("pages/{name}"), text);
    }
    let lines = source.judgments.iter().map(|judgment| serde_json::to_string(judgment).unwrap());
    place.write("q.jsonl", &lines.collect::<Vec<_>>().join("\n"));
    if source.name == "samples" {
        place.write("rules.toml", "");
        return 0;
    }
    place.write("rules.toml", RULES);
    place.write("umbel.toml", "[collapse.authority]\ndocs = 1\n");
    let mirrored = source.pages.iter().step_by(MIRRORED).enumerate();
    mirrored
        .map(|(n, (name, text))| {
            let folder = if n % 4 == 3 { "mirror/touched" } else { "mirror" };
            place.write(&format!("pages/{folder}/{name}"), &trimmed(text));
        })
        .count()
}

/// The text without every fourth paragraph that is no heading.
fn trimmed(text: &str) -> String {
    let mut n = 0;
    let kept = text.split("\n\n").filter(|paragraph| {
        n += usize::from(!paragraph.starts_with('#'));
        paragraph.starts_with('#') || n % TRIMMED != 0
    });
    kept.collect::<Vec<_>>().join("\n\n")
}

/// Has runs from before the cluster run know the clusters of their leaves, to be measured by them.
fn mark(runs: &mut [(String, Run)]) {
    let mut clusters: BTreeMap<LeafId, ClusterId> = BTreeMap::new();
    let mut judged = BTreeMap::new();
    for (_, run) in runs.iter().filter(|(_, run)| run.identity.clusters.is_some()) {
        for entry in &run.entries {
            judged.insert(entry.id.clone(), (entry.docs.clone(), entry.leaves.clone()));
            let records = entry.candidates.iter().map(|candidate| &candidate.record);
            clusters.extend(records.map(|record| (record.leaf, record.cluster)));
        }
    }
    for (_, run) in runs.iter_mut().filter(|(_, run)| run.identity.clusters.is_none()) {
        for entry in &mut run.entries {
            for candidate in &mut entry.candidates {
                let record = &mut candidate.record;
                record.cluster = clusters.get(&record.leaf).copied().unwrap_or(record.cluster);
            }
            let (docs, leaves) = &judged[&entry.id];
            assert_eq!(docs, &entry.docs, "both read the same candidates");
            entry.leaves.clone_from(leaves);
        }
    }
}

fn table(runs: &[(String, Run)]) {
    let top = 10.try_into().unwrap();
    let success = [Measure::FULL].into_iter().chain(Measure::FULL.crediting_copies());
    let measures: Vec<Measure> = measures(top).into_iter().chain(success).collect();
    let names: Vec<String> = measures.iter().map(|measure| format!(" {measure} |")).collect();
    print(&format!("\n| |{}", names.concat()));
    print(&format!("|---|{}", "---|".repeat(measures.len())));
    for (name, run) in runs {
        let cells = measures.iter().map(|&measure| format!(" {} |", cell(run, measure)));
        print(&format!("| {name} |{}", cells.collect::<String>()));
    }
}

/// The mean of a measure: shares in per cent, with the interval.
fn cell(run: &Run, measure: Measure) -> String {
    let values: Vec<f64> =
        run.entries.iter().filter_map(|e| measure.value(e, &e.delivery)).collect();
    let bootstrap = Bootstrap { resamples: 2_000, seed: 0, level: Level::CONFIDENCE };
    let (value, interval) = match figure(&values, measure, &bootstrap) {
        Figure::Count { share, interval } => (share.proportion(), interval),
        Figure::Mean { mean, interval, .. } => (mean, interval),
    };
    let scale = if measure.describe().range.1 == Some(1.0) { 100.0 } else { 1.0 };
    let Some(value) = value else { return "none".to_owned() };
    let interval = interval.map(|i| format!(" ({:.1}–{:.1})", scale * i.low, scale * i.high));
    format!("{:.1}{}", scale * value, interval.unwrap_or_default())
}
