//! `umbel dupes calibrate`.

use super::{method, open};
use crate::args::{Args, DupesCalibrate};
use crate::output::{Output, counted, number, usage};
use serde::{Deserialize, Serialize};
use std::path::Path;
use umbel::dedup::Method;
use umbel::engine::dupes::sample::{SampledLeaf, SampledPair};
use umbel::engine::wire::SpanJson;
use umbel_eval::calibration::{Calibration, Estimate, JudgedPair, calibrate};
use umbel_eval::interval::Level;

/// A pair to be judged: a line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    id: usize,
    /// What a person says: true or false; null until then.
    duplicate: Option<bool>,
    a: LeafLine,
    b: LeafLine,
    similarity: f64,
    band: (f64, f64),
    pairs_in_band: u64,
    accepted: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct LeafLine {
    doc: String,
    span: SpanJson,
    text: String,
}

impl From<SampledLeaf> for LeafLine {
    fn from(leaf: SampledLeaf) -> LeafLine {
        LeafLine { doc: leaf.document, span: leaf.span.into(), text: leaf.text }
    }
}

pub(super) async fn run(
    args: &Args,
    asked: &DupesCalibrate,
    output: &Output,
) -> anyhow::Result<u8> {
    match (&asked.write, &asked.read) {
        (Some(file), _) => write(args, asked, file, output).await,
        (None, Some(file)) => read(asked, file, output),
        (None, None) => Err(usage("there is no file", "give one with `--write FILE`")),
    }
}

async fn write(
    args: &Args,
    asked: &DupesCalibrate,
    file: &Path,
    output: &Output,
) -> anyhow::Result<u8> {
    if asked.method.exact {
        return Err(usage(
            "`--exact` has no threshold to calibrate",
            "leave it out, or give `--semantic`",
        ));
    }
    let from = asked.from.unwrap_or(if asked.method.semantic { 0.8 } else { 0.6 });
    let method: Method = method(&asked.method, Some(from), Some(from), None);
    let bar = output.progress();
    let step = |step| bar.show(step);
    let engine = open(args, Some(method), output, &step).await?;
    let pairs = engine.sample_pairs(method, asked.pairs, asked.seed, &step).await?;
    drop(engine);
    drop(bar);
    let mut text = String::new();
    for (id, pair) in pairs.iter().cloned().enumerate() {
        let SampledPair { band, pairs_in_band, similarity, accepted, a, b } = pair;
        let (a, b, pairs_in_band) = (a.into(), b.into(), pairs_in_band as u64);
        let duplicate = None;
        let line = Line { id, duplicate, a, b, similarity, band, pairs_in_band, accepted };
        text += &(serde_json::to_string(&line)? + "\n");
    }
    fs_err::write(file, text).map_err(|error| {
        usage(format!("the pairs cannot be written: {error}"), "give a file with `--write FILE`")
    })?;
    if output.is_json() {
        output.json(&serde_json::json!({ "pairs": pairs.len(), "file": file }))?;
    } else {
        output.line(format!(
            "{} in `{}`: set `duplicate` of each to true or false, then `umbel dupes calibrate --read {}`",
            counted(pairs.len(), "pair", "pairs"),
            file.display(),
            file.display()
        ));
    }
    Ok(u8::from(pairs.is_empty()))
}

fn read(asked: &DupesCalibrate, file: &Path, output: &Output) -> anyhow::Result<u8> {
    let hint = "draw pairs with `umbel dupes calibrate --write FILE`";
    let text = fs_err::read_to_string(file)
        .map_err(|error| usage(format!("the pairs cannot be read: {error}"), hint))?;
    let (mut judged, mut n_open) = (Vec::new(), 0);
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let line: Line = serde_json::from_str(line).map_err(|error| {
            usage(format!("line {} of `{}` is no pair: {error}", at + 1, file.display()), hint)
        })?;
        match line.duplicate {
            Some(duplicate) => judged.push(JudgedPair {
                band: line.band,
                pairs_in_band: line.pairs_in_band,
                accepted: line.accepted,
                duplicate,
            }),
            None => n_open += 1,
        }
    }
    let found = calibrate(&judged, asked.precision, Level::CONFIDENCE);
    if output.is_json() {
        output.json(&serde_json::json!({
            "judged": judged.len(), "not_judged": n_open, "wanted_precision": asked.precision,
            "thresholds": found.thresholds, "bands": found.bands, "too_expensive": found.too_expensive,
        }))?;
    } else {
        print(&found, asked.precision, output);
    }
    if n_open > 0 {
        output.warning(format!("{} not judged yet", counted(n_open, "pair is", "pairs are")));
    }
    Ok(u8::from(judged.is_empty()))
}

fn print(found: &Calibration, wanted: f64, output: &Output) {
    if found.bands.is_empty() {
        output.line("no pair is judged: set `duplicate` of each line to true or false");
        return;
    }
    output.line(format!(
        "{:<13} {:>9} {:>20} {:>9} {:>9}",
        "band", "pairs", "judged duplicates", "right", "wrong"
    ));
    for band in &found.bands {
        output.line(format!(
            "{:<13} {:>9} {:>20} {:>9.0} {:>9.0}",
            format!("{:.3}-{:.3}", band.band.0, band.band.1),
            number(band.pairs_in_band as usize),
            format!("{} of {}", band.duplicates.count(), band.duplicates.of()),
            band.right,
            band.wrong
        ));
    }
    output.line(format!(
        "\n{:<10} {:>9} {:>32} {:>32}",
        "threshold", "pairs", "precision (Wilson, 95 %)", "recall (Wilson, 95 %)"
    ));
    for row in &found.thresholds {
        output.line(format!(
            "{:<10.3} {:>9.0} {:>32} {:>32}",
            row.threshold,
            row.pairs,
            estimate(row.precision),
            estimate(row.recall)
        ));
    }
    output.line(match found.too_expensive {
        Some(band) => format!(
            "\ntoo expensive to reach: {:.3}-{:.3}. With it precision falls below {:.0} %: {:.0} more duplicates, {:.0} more that are none",
            band.band.0,
            band.band.1,
            wanted * 100.0,
            band.right,
            band.wrong
        ),
        None => format!("\nevery band can be reached with a precision of {:.0} %", wanted * 100.0),
    });
}

/// "97.5 % (88.2 to 99.6, n 45)".
fn estimate(estimate: Option<Estimate>) -> String {
    let Some(Estimate { share, effective_n, interval }) = estimate else { return "–".to_owned() };
    let interval = interval.map_or_else(String::new, |interval| {
        format!("{:.1} to {:.1}, ", interval.low * 100.0, interval.high * 100.0)
    });
    format!("{:.1} % ({interval}n {effective_n:.0})", share * 100.0)
}
