//! A folder → a Python with scipy and statsmodels in it, where Python and a registry are there.
//!
//! Invariant: what is missing is said, and fails nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What the statistics are checked against.
const PACKAGES: [&str; 2] = ["scipy>=1.11,<2", "statsmodels>=0.14,<0.16"];

/// The Python, made in `folder` if it is not there yet.
///
/// # Errors
/// Why there is none, in one line.
pub(crate) fn python(folder: &Path) -> Result<PathBuf, String> {
    let python = folder.join("bin/python");
    if has_packages(&python) {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES))?;
    if has_packages(&python) { Ok(python) } else { Err("they do not import".to_owned()) }
}

fn has_packages(python: &Path) -> bool {
    let imported = Command::new(python).args(["-c", "import scipy, statsmodels"]).output();
    imported.is_ok_and(|output| output.status.success())
}

/// Runs a command; the error is its last line of complaint.
fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let Output { status, stderr, .. } =
        command.output().map_err(|error| format!("`{program}`: {error}"))?;
    if status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&stderr);
    Err(format!("`{program}`: {}", complaint.lines().last().unwrap_or("it failed")))
}
