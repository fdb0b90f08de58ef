//! The repository → broken rules that a reader cannot see at a glance.
//!
//! Invariant: each rule says file, line and what to do.

use std::fs;
use std::path::{Path, PathBuf};

/// Which crates of the workspace a crate may use.
const ARROWS: [(&str, &[&str]); 4] = [
    ("core", &[]),
    ("umbel", &["umbel-core"]),
    ("eval", &["umbel-core"]),
    ("cli", &["umbel", "umbel-core", "umbel-eval"]),
];

/// What the pure crates may depend on.
const PURE: [(&str, &[&str]); 2] = [
    ("core", &["blake3", "pulldown-cmark", "serde", "thiserror", "unicode-segmentation"]),
    ("eval", &["serde", "serde_json", "statrs", "thiserror", "umbel-core"]),
];

/// Checks every rule; the error lists what is broken.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let mut broken = Vec::new();
    for (name, allowed) in ARROWS {
        let manifest = root.join("crates").join(name).join("Cargo.toml");
        let text = read(&manifest)?;
        for dependency in dependencies(&text) {
            let ours = dependency.starts_with("umbel");
            let pure = PURE.iter().find(|(pure, _)| *pure == name).map(|(_, list)| *list);
            if ours && !allowed.contains(&dependency.as_str()) {
                broken.push(format!(
                    "{}: `{dependency}` is no arrow of crate {name}",
                    manifest.display()
                ));
            }
            if !ours && pure.is_some_and(|list| !list.contains(&dependency.as_str())) {
                broken.push(format!(
                    "{}: crate {name} is pure and may not use `{dependency}`",
                    manifest.display()
                ));
            }
        }
    }
    for manifest in manifests(root)? {
        if !read(&manifest)?.contains("[lints]\nworkspace = true") {
            broken.push(format!("{}: add `[lints]` with `workspace = true`", manifest.display()));
        }
    }
    for name in ["core", "umbel", "eval"] {
        broken.extend(module_arrows(&root.join("crates").join(name).join("src"))?);
    }
    if broken.is_empty() { Ok(()) } else { Err(format!("tidy:\n  {}", broken.join("\n  "))) }
}

fn read(path: &Path) -> Result<String, String> {
    fs::File::open(path)
        .and_then(std::io::read_to_string)
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn manifests(root: &Path) -> Result<Vec<PathBuf>, String> {
    let crates = root.join("crates");
    let mut found = vec![root.join("xtask/Cargo.toml")];
    #[expect(clippy::disallowed_methods, reason = "the error below names the path")]
    let entries =
        fs::read_dir(&crates).map_err(|error| format!("{}: {error}", crates.display()))?;
    for entry in entries {
        let manifest = entry.map_err(|error| error.to_string())?.path().join("Cargo.toml");
        if manifest.exists() {
            found.push(manifest);
        }
    }
    Ok(found)
}

/// The names under `[dependencies]`.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line == "[dependencies]";
        } else if inside && let Some((name, _)) = line.split_once('=') {
            let name = name.trim().trim_end_matches(".workspace");
            names.push(name.to_owned());
        }
    }
    names
}

/// Modules are declared in the order in which data flows, and use only those above them.
fn module_arrows(src: &Path) -> Result<Vec<String>, String> {
    let lib = read(&src.join("lib.rs"))?;
    let order: Vec<&str> = lib
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(';')))
        .collect();
    let mut broken = Vec::new();
    for (place, module) in order.iter().enumerate() {
        let mut files = vec![src.join(format!("{module}.rs"))];
        collect(&src.join(module), &mut files)?;
        for file in files {
            let text = read(&file)?;
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            for (number, line) in code.lines().enumerate() {
                if line.trim_start().starts_with("//") {
                    continue;
                }
                for used in line.split("crate::").skip(1) {
                    let name: String =
                        used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                    let later = order
                        .iter()
                        .position(|other| *other == name)
                        .is_some_and(|other| other > place);
                    if later {
                        let file = file.display();
                        broken.push(format!(
                            "{file}:{}: `{module}` comes before `{name}` and may not use it",
                            number + 1
                        ));
                    }
                }
            }
        }
    }
    Ok(broken)
}

/// The Rust files below a folder, tests left out.
fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    if !dir.is_dir() {
        return Ok(());
    }
    #[expect(clippy::disallowed_methods, reason = "the error below names the path")]
    let entries = fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs")
            && path.file_stem().is_some_and(|s| s != "tests")
        {
            files.push(path);
        }
    }
    Ok(())
}
