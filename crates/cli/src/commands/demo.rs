//! `umbel demo`: the whole way on the sample corpus, with three questions that show three kinds of passages.

use super::{configuration, embedder};
use crate::args::{self, Args};
use crate::explain;
use crate::output::{Output, usage};
use std::path::{Path, PathBuf};
use umbel::engine::Engine;
use umbel::engine::answer::SearchRequest;
use umbel::engine::ingest::IngestRequest;
use umbel::engine::wire;

/// A question, what it shows, and the settings it is asked with.
struct Question {
    shows: &'static str,
    query: &'static str,
    sets: &'static [&'static str],
}

const QUESTIONS: [Question; 3] = [
    Question {
        shows: "one small leaf holds the answer",
        query: "Can somebody return frozen goods?",
        sets: &["search.budget=150"],
    },
    Question {
        shows: "enough siblings were found, so their section is delivered whole",
        query: "When are failed webhook events retried, in what order do events arrive, and when is a failing endpoint disabled?",
        sets: &["search.budget=800"],
    },
    Question {
        shows: "the text around the hit is long, so it is cropped around the evidence (a cap of 300 tokens)",
        query: "A door seal lets go in one place: how do I check it, and when must it be replaced?",
        sets: &["search.budget=320", "search.expand=parent", "search.parent_cap=300"],
    },
];

pub(crate) async fn run(args: &Args, demo: &args::Demo, output: &Output) -> anyhow::Result<u8> {
    let samples = samples()?;
    let store = demo.dir.clone().unwrap_or_else(|| std::env::temp_dir().join("umbel-demo"));
    let config = configuration(args, &[])?;
    let model = if demo.lexical { None } else { Some(embedder(&config, output).await?) };
    let bar = output.progress();
    let engine = Engine::open(&store, config, model, &|progress| bar.show(progress)).await?;
    let requests = ["docs", "archive"].map(|source| IngestRequest {
        path: samples.join(source),
        source: Some(source.to_owned()),
        rules: None,
    });
    let report = engine.ingest(&requests, &|progress| bar.show(progress)).await?;
    drop(bar);
    if !output.is_json() {
        output.line(format!("sample corpus: {}", samples.display()));
    }
    super::index::print(&report, output)?;
    for (at, question) in QUESTIONS.iter().enumerate() {
        let flags: Vec<String> = question.sets.iter().map(|&set| set.to_owned()).collect();
        let config = configuration(args, &flags)?;
        let request = SearchRequest::new(question.query, config);
        let response = engine.search(&request).await?;
        if output.is_json() {
            output.json(&wire::search(&response))?;
        } else {
            let asked = format!(
                "umbel search \"{}\" --explain --set {}",
                question.query,
                question.sets.join(" --set ")
            );
            output.line(format!(
                "\n── {} of {}: {} ──\n{asked}\n",
                at + 1,
                QUESTIONS.len(),
                question.shows
            ));
            output.text(&explain::answer(&response, true));
        }
    }
    if !output.is_json() {
        output.line(format!(
            "\nask your own: umbel --store {} search \"…\" --explain",
            store.display()
        ));
    }
    Ok(0)
}

/// The sample corpus: beside this folder, or where the program was built.
fn samples() -> anyhow::Result<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let places = [PathBuf::from("samples"), built];
    let found = places.into_iter().find(|place| place.join("docs").is_dir());
    let found = found.and_then(|place| fs_err::canonicalize(place).ok());
    found.ok_or_else(|| {
        usage("the sample corpus is not here", "run `umbel demo` in a clone of the repository")
    })
}
