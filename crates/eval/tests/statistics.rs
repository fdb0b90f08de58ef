//! Statistics against an independent implementation: `statistics.py`, with scipy and statsmodels.
//!
//! `cargo xtask check` makes a Python with both, and names it in `UMBEL_STATISTICS_PYTHON`; without one the test says that it was
//! skipped.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use umbel_eval::interval::{
    Bootstrap, Interval, Level, Pairs, bootstrap_mean, exact_difference, holm, mcnemar, newcombe,
    required_n, required_n_of_mean, wald, wald_difference, wilson,
};
use umbel_eval::kappa::Kappa;
use umbel_eval::share::Share;

/// A call with its result, as the script reads it.
fn call(function: &str, arguments: &[f64], result: &[f64]) -> Value {
    json!({ "function": function, "arguments": arguments, "result": result })
}

fn ends(interval: Option<Interval>) -> [f64; 2] {
    let interval = interval.unwrap();
    [interval.low, interval.high]
}

fn share(count: u32, of: u32) -> Share {
    Share::new(count.into(), of.into()).unwrap()
}

fn calls() -> Vec<Value> {
    let levels = [Level::CONFIDENCE, Level::new(0.9).unwrap(), Level::new(0.99).unwrap()];
    let mut calls: Vec<Value> = levels.into_iter().flat_map(intervals).collect();
    for [only_a, only_b] in discordant() {
        let p =
            mcnemar(Pairs { both: 30, only_a: only_a.into(), only_b: only_b.into(), neither: 8 });
        calls.push(call("mcnemar", &[30.0, only_a.into(), only_b.into(), 8.0], &[p]));
    }
    for p_values in [vec![0.03], vec![0.01, 0.04, 0.03], vec![0.5, 0.2, 0.001, 0.04, 0.04]] {
        calls.push(call("holm", &p_values, &holm(&p_values)));
    }
    let (usual, power) = (Level::CONFIDENCE, Level::POWER);
    for (difference, other) in [(0.1, 0.2), (0.125, 0.25), (0.005, 0.02), (0.02, 0.3)] {
        let arguments = [difference, other, usual.probability(), power.probability()];
        let n = required_n(difference, other, usual, power).unwrap();
        calls.push(call("required_n", &arguments, &[n as f64]));
        let n = required_n_of_mean(difference, other, usual, power).unwrap();
        calls.push(call("required_n_of_mean", &arguments, &[n as f64]));
    }
    calls.extend(kappas());
    let values: Vec<f64> = (0..60).map(|n| f64::from(n * n % 17) / 17.0).collect();
    let arguments: Vec<f64> = std::iter::once(0.95).chain(values.iter().copied()).collect();
    let result = ends(bootstrap_mean(&values, &Bootstrap::default()));
    calls.push(call("bootstrap_mean", &arguments, &result));
    calls
}

/// Intervals of shares and of differences at a level.
fn intervals(level: Level) -> Vec<Value> {
    let mut calls = Vec::new();
    let at = level.probability();
    for [count, of] in
        [[0, 16], [9, 16], [11, 16], [16, 16], [1, 1], [292, 400], [23, 106], [1, 5000]]
    {
        let arguments = [count.into(), of.into(), at];
        let share = share(count, of);
        calls.push(call("wilson", &arguments, &ends(wilson(share, level))));
        calls.push(call("wald", &arguments, &ends(wald(share, level))));
    }
    for [a, of_a, b, of_b] in
        [[9, 16, 11, 16], [56, 70, 48, 80], [1, 30, 29, 31], [294, 400, 296, 400]]
    {
        let arguments = [a.into(), of_a.into(), b.into(), of_b.into(), at];
        let (a, b) = (share(a, of_a), share(b, of_b));
        calls.push(call("newcombe", &arguments, &ends(newcombe(a, b, level))));
        calls.push(call("wald_difference", &arguments, &ends(wald_difference(a, b, level))));
    }
    for [only_a, only_b] in discordant() {
        let pairs = Pairs { both: 30, only_a: only_a.into(), only_b: only_b.into(), neither: 8 };
        let arguments = [30.0, only_a.into(), only_b.into(), 8.0, at];
        calls.push(call("exact_difference", &arguments, &ends(exact_difference(pairs, level))));
    }
    calls
}

/// Agreement of two judges with two labels and with three.
fn kappas() -> Vec<Value> {
    let tables: [&[u32]; 5] = [
        &[20, 5, 10, 15],
        &[90, 1, 2, 3],
        &[3, 40, 38, 2],
        &[44, 5, 1, 7, 20, 3, 9, 5, 6],
        &[10, 0, 2, 0, 5, 0, 1, 1, 9],
    ];
    let call_of = |counts: &&[u32]| {
        let side = counts.len().isqrt();
        let cells = counts.iter().enumerate();
        let labels =
            cells.flat_map(|(at, &n)| std::iter::repeat_n((at / side, at % side), n as usize));
        let kappa = Kappa::of(labels, Level::CONFIDENCE);
        let [low, high] = ends(kappa.kappa_interval);
        let arguments: Vec<f64> = counts.iter().copied().map(f64::from).collect();
        call("kappa", &arguments, &[kappa.kappa.unwrap(), low, high])
    };
    tables.iter().map(call_of).collect()
}

/// Numbers of queries that only one side got right.
fn discordant() -> Vec<[u32; 2]> {
    [0, 1, 4, 17].iter().flat_map(|&a| [0, 2, 9, 40].map(|b| [a, b])).collect()
}

/// Runs the script on calls; what it prints, or what it complains of.
fn judged(python: &Path, calls: &[Value]) -> Result<String, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/statistics.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: Vec<String> = calls.iter().map(ToString::to_string).collect();
    // A script that stops at a line reads no further.
    let _ = child.stdin.take().unwrap().write_all(lines.join("\n").as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[test]
fn statistics_are_those_of_scipy_and_statsmodels() {
    let Some(python) = std::env::var_os("UMBEL_STATISTICS_PYTHON") else {
        eprintln!("skipped: UMBEL_STATISTICS_PYTHON names no Python with scipy and statsmodels");
        return;
    };
    let calls = calls();
    assert_eq!(judged(Path::new(&python), &calls), Ok(calls.len().to_string()));

    let wrong =
        [json!({ "function": "wilson", "arguments": [9, 16, 0.95], "result": [0.33, 0.77] })];
    assert!(judged(Path::new(&python), &wrong).unwrap_err().contains("should be"));
}
