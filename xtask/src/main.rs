//! A task's name → the commands that do it. `cargo xtask check` is everything that CI runs.
//!
//! Invariant: the standard library is the only dependency, so the first task starts at once.

mod statistics;
mod tidy;

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

const USAGE: &str = "usage: cargo xtask check | tidy | bench [FILTER]";

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let done = match args.next().as_deref() {
        Some("check") => check(),
        Some("tidy") => tidy::run(&root()),
        Some("bench") => bench(args.next().as_deref()),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            say(&format!("xtask: {message}"));
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "the task runner's own words")]
fn say(line: &str) {
    eprintln!("{line}");
}

/// The checkout that cargo runs this in, which is not where it was compiled where checkouts share a target folder.
fn root() -> PathBuf {
    let here = env::var_os("CARGO_MANIFEST_DIR");
    let here = here.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().unwrap_or(&here).to_owned()
}

/// Formatting, lints, arrows, features, docs and tests; the tests last, so that their summary is the last line.
fn check() -> Result<(), String> {
    step("format", cargo(&["fmt", "--all", "--check"]))?;
    say("── tidy");
    tidy::run(&root())?;
    step("lint", cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    for features in ["", "sqlite", "local", "remote", "edge", "html", "pdf", "office"] {
        let name = if features.is_empty() { "no feature" } else { features };
        let mut command =
            cargo(&["check", "--quiet", "--package", "umbel", "--no-default-features"]);
        command.args(["--features", features]);
        step(&format!("feature: {name}"), command)?;
    }
    // The command and the library share a name, so their pages share a folder: one after the other, the library's last.
    let document_all = ["--", "--document-private-items", "-D", "warnings"];
    let mut of_command = cargo(&["rustdoc", "--quiet", "--package", "umbel-cli", "--bin", "umbel"]);
    of_command.args(document_all);
    step("docs of the command", of_command)?;
    let mut docs =
        cargo(&["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    step("docs", docs)?;
    step("doctests", cargo(&["test", "--workspace", "--doc", "--quiet"]))?;
    let mut tests = if succeeds(cargo(&["nextest", "--version"])) {
        cargo(&["nextest", "run", "--workspace"])
    } else {
        say("cargo-nextest is not installed: `cargo test` runs the tests instead");
        cargo(&["test", "--workspace", "--lib", "--bins", "--tests"])
    };
    say("── statistics");
    match statistics::python(&target().join("statistics")) {
        Ok(python) => {
            say("   checked against scipy and statsmodels, among the tests");
            tests.env("UMBEL_STATISTICS_PYTHON", python);
        }
        Err(reason) => {
            say(&format!("   skipped: no scipy and statsmodels to check against, {reason}"));
        }
    }
    step("tests", tests)
}

/// The folder that Cargo builds into.
fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The benches, in release: those of leaf building, then those that need index and model, which take much longer to compile.
fn bench(filter: Option<&str>) -> Result<(), String> {
    let leaves = ["run", "--release", "--manifest-path", "bench/Cargo.toml", "--"];
    // Both programs: one part of the bench runs the command as it is typed.
    let build = ["build", "--release", "--package", "umbel-cli", "--features", "bench", "--bins"];
    let path = ["run", "--release", "--package", "umbel-cli", "--features", "bench"];
    let path: Vec<&str> = path.into_iter().chain(["--bin", "umbel-bench", "--"]).collect();
    let is_of_leaves = |filter: &str| ["leaves", "peers"].iter().any(|name| name.contains(filter));
    let wanted = filter.unwrap_or_default();
    if is_of_leaves(wanted) {
        let mut command = cargo(&leaves);
        command.args(filter);
        step("bench of leaf building", command)?;
    }
    if wanted.is_empty() || !is_of_leaves(wanted) {
        step("programs of the bench", cargo(&build))?;
        let mut command = cargo(&path);
        command.args(filter);
        step("bench of the main path", command)?;
    }
    Ok(())
}

fn cargo(args: &[&str]) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(root()).args(args).env("INSTA_UPDATE", "no");
    // What `cargo run` says of this package would make build scripts that look at it run again, and all behind them compile.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}

fn succeeds(mut command: Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn step(name: &str, mut command: Command) -> Result<(), String> {
    say(&format!("── {name}"));
    let start = Instant::now();
    let status = command.status().map_err(|error| format!("{name}: {error}"))?;
    if !status.success() {
        return Err(format!("{name} failed"));
    }
    if name != "tests" {
        say(&format!("   {name}: {} s", start.elapsed().as_secs()));
    }
    Ok(())
}
