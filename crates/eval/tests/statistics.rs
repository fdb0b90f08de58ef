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
use umbel_eval::share::Share;

/// Calls with their results.
struct Calls(Vec<Value>);

impl Calls {
    fn add(&mut self, function: &str, arguments: Value, result: Vec<f64>) {
        self.0.push(json!({ "function": function, "arguments": arguments, "result": result }));
    }
}

fn ends(interval: Option<Interval>) -> Vec<f64> {
    let interval = interval.unwrap();
    vec![interval.low, interval.high]
}

fn share(count: u64, of: u64) -> Share {
    Share::new(count, of).unwrap()
}

fn calls() -> Vec<Value> {
    let mut calls = Calls(Vec::new());
    let (power, usual) = (Level::POWER, Level::CONFIDENCE);
    for level in [usual, Level::new(0.9).unwrap(), Level::new(0.99).unwrap()] {
        let p = level.probability();
        for (count, of) in
            [(0, 16), (9, 16), (11, 16), (16, 16), (1, 1), (292, 400), (23, 106), (1, 5000)]
        {
            calls.add("wilson", json!([count, of, p]), ends(wilson(share(count, of), level)));
            calls.add("wald", json!([count, of, p]), ends(wald(share(count, of), level)));
        }
        for (a, of_a, b, of_b) in
            [(9, 16, 11, 16), (56, 70, 48, 80), (1, 30, 29, 31), (294, 400, 296, 400)]
        {
            let arguments = json!([a, of_a, b, of_b, p]);
            let (a, b) = (share(a, of_a), share(b, of_b));
            calls.add("newcombe", arguments.clone(), ends(newcombe(a, b, level)));
            calls.add("wald_difference", arguments, ends(wald_difference(a, b, level)));
        }
        for only_a in [0, 1, 4, 17] {
            for only_b in [0, 2, 9, 40] {
                let pairs = Pairs { both: 30, only_a, only_b, neither: 8 };
                let counts = [30, only_a, only_b, 8];
                let [w, x, y, z] = counts;
                let result = ends(exact_difference(pairs, level));
                calls.add("exact_difference", json!([w, x, y, z, p]), result);
                if level == usual {
                    calls.add("mcnemar", json!(counts), vec![mcnemar(pairs)]);
                }
            }
        }
    }
    for p_values in [vec![0.03], vec![0.01, 0.04, 0.03], vec![0.5, 0.2, 0.001, 0.04, 0.04]] {
        calls.add("holm", json!(p_values), holm(&p_values));
    }
    for (difference, other) in [(0.1, 0.2), (0.125, 0.25), (0.005, 0.02), (0.02, 0.3)] {
        let arguments = json!([difference, other, usual.probability(), power.probability()]);
        let n = required_n(difference, other, usual, power).unwrap();
        calls.add("required_n", arguments.clone(), vec![n as f64]);
        let n = required_n_of_mean(difference, other, usual, power).unwrap();
        calls.add("required_n_of_mean", arguments, vec![n as f64]);
    }
    let values: Vec<f64> = (0..60).map(|n| f64::from(n * n % 17) / 17.0).collect();
    let arguments: Vec<f64> = std::iter::once(0.95).chain(values.iter().copied()).collect();
    let result = ends(bootstrap_mean(&values, &Bootstrap::default()));
    calls.add("bootstrap_mean", json!(arguments), result);
    calls.0
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
