//! `umbel eval import`: judgments of other tools → ours, and a BEIR corpus → files to index.

use super::{hash, read, read_judgments, refused, score, write_lines, write_run};
use crate::args::eval::{EvalImport, ImportFrom};
use crate::output::{Output, counted, usage};
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use umbel_eval::judgment::{Import, beir, trec};
use umbel_eval::run::trec_run;

#[derive(Serialize)]
struct ImportJson {
    queries: usize,
    without_relevant: usize,
    without_question: usize,
    documents: usize,
}

pub(super) fn run(import: &EvalImport, output: &Output) -> anyhow::Result<u8> {
    let (imported, documents) = match &import.from {
        ImportFrom::Trec { qrels, queries, suffix, out } => {
            let name = |doc: &str| format!("{doc}{suffix}");
            let imported = trec(&read(qrels)?, &read(queries)?, name)
                .map_err(|error| refused(qrels, &error, error.hint()))?;
            write_lines(out, &imported.judgments)?;
            (imported, 0)
        }
        ImportFrom::TrecRun { run, queries, suffix, out } => {
            return import_run(run, queries, suffix, out, output);
        }
        ImportFrom::Beir { folder, split, out } => {
            let qrels = folder.join("qrels").join(format!("{split}.tsv"));
            let imported = beir(&read(&qrels)?, &read(&folder.join("queries.jsonl"))?, file_name)
                .map_err(|error| refused(folder, &error, error.hint()))?;
            let documents = write_corpus(&folder.join("corpus.jsonl"), &out.join("corpus"))?;
            write_lines(&out.join("queries.jsonl"), &imported.judgments)?;
            (imported, documents)
        }
    };
    print(&imported, documents, output)?;
    Ok(u8::from(imported.judgments.is_empty()))
}

fn import_run(
    run: &Path,
    queries: &Path,
    suffix: &str,
    out: &Path,
    output: &Output,
) -> anyhow::Result<u8> {
    let (judgments_text, judgments) = read_judgments(queries)?;
    let name = |doc: &str| format!("{doc}{suffix}");
    let imported = trec_run(&read(run)?, &judgments, &hash(&judgments_text), name)
        .map_err(|error| refused(run, &error, error.hint()))?;
    write_run(out, &imported.run)?;
    for (n, what) in [
        (imported.without_list, "without a list: answered with nothing"),
        (imported.unjudged, "left out: not judged"),
    ] {
        if n > 0 {
            output.warning(format!("{} {what}", counted(n, "query is", "queries are")));
        }
    }
    score::print(&imported.run, &[], score::FEW_RESAMPLES, output)
}

fn print(imported: &Import, documents: usize, output: &Output) -> anyhow::Result<()> {
    let Import { judgments, without_relevant, without_question } = imported;
    if output.is_json() {
        return output.json(&ImportJson {
            queries: judgments.len(),
            without_relevant: *without_relevant,
            without_question: *without_question,
            documents,
        });
    }
    output.line(counted(judgments.len(), "judged query", "judged queries"));
    if documents > 0 {
        output.line(counted(documents, "document", "documents"));
    }
    for (n, why) in [(*without_relevant, "nothing relevant"), (*without_question, "no question")] {
        if n > 0 {
            output.warning(format!("{} left out: {why}", counted(n, "query is", "queries are")));
        }
    }
    Ok(())
}

#[derive(Deserialize)]
struct BeirDocument {
    #[serde(rename = "_id")]
    id: String,
    #[serde(default)]
    title: String,
    text: String,
}

/// Writes each document of a BEIR corpus to a file of its own, its title as a heading; returns how many there are.
fn write_corpus(corpus: &Path, folder: &Path) -> anyhow::Result<usize> {
    let file = fs_err::File::open(corpus)
        .map_err(|error| usage(error.to_string(), "a BEIR folder holds `corpus.jsonl`"))?;
    fs_err::create_dir_all(folder)?;
    let mut n = 0;
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let document: BeirDocument = serde_json::from_str(&line).map_err(|error| {
            let message =
                format!("`{}` line {}: not a document: {error}", corpus.display(), index + 1);
            usage(message, r#"one object a line: {"_id", "title", "text"}"#)
        })?;
        let title = document.title.trim();
        let heading = if title.is_empty() { String::new() } else { format!("# {title}\n\n") };
        fs_err::write(folder.join(file_name(&document.id)), heading + &document.text + "\n")?;
        n += 1;
    }
    Ok(n)
}

/// The file of a document: its id, with what a file system takes badly as hexadecimal digits.
fn file_name(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let letter = |byte: u8| {
        if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") }
    };
    id.bytes().map(letter).collect::<String>() + ".md"
}
