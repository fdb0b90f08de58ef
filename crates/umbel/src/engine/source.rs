//! A folder or file → the files of it that are read, and why the others are not.
//!
//! Invariant: what cannot be seen is not taken for gone.

use super::EngineError;
use crate::catalog::Source;
use crate::config::ReadSettings;
use crate::read::Kind;
use crate::read::rules::Rules;
use ignore::WalkBuilder;
use std::path::{Path, PathBuf};

/// What is to be taken in.
#[derive(Debug, Clone, Default)]
pub struct IngestRequest {
    /// A folder or file.
    pub path: PathBuf,
    /// The name of the source; the path as given if `None`.
    pub source: Option<String>,
    /// Metadata by path, remembered for the source; what it had if `None`.
    pub rules: Option<Rules>,
}

/// A file that was not taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The file, relative to its source.
    pub path: String,
    /// Why.
    pub reason: String,
    /// What to do about it, where there is something.
    pub hint: Option<&'static str>,
    /// Whether it was meant to be read: a broken file, not another format.
    pub broken: bool,
}

/// Files of one folder that say what in it is not to be read, beside `.gitignore`.
const IGNORE_FILE: &str = ".umbelignore";

/// A file that was found.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Its path below the source, with `/` between the parts.
    pub(super) path: String,
    /// Where it is.
    pub(super) file: PathBuf,
    pub(super) kind: Kind,
    pub(super) size_bytes: u64,
}

/// What a walk through a source saw.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// Files that are read, in order of their paths.
    pub(super) files: Vec<Found>,
    /// Files that are not.
    pub(super) skipped: Vec<Skipped>,
    /// Paths below which nothing could be seen: what is known of them is kept.
    unseen: Vec<String>,
}

impl Walked {
    /// Whether a path may be there though the walk did not see it.
    pub(super) fn may_hide(&self, path: &str) -> bool {
        self.unseen.iter().any(|dir| {
            dir.is_empty()
                || path
                    .strip_prefix(dir.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

/// The source that a path is: the one of `known` that has this root already, else a new one without rules.
pub(super) fn identify(request: &IngestRequest, known: &[Source]) -> Result<Source, EngineError> {
    let path = request.path.clone();
    let root = fs_err::canonicalize(&request.path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => EngineError::MissingPath { path },
        _ => EngineError::UnreachablePath { path, source },
    })?;
    let same_root = known.iter().find(|source| source.root == root);
    let rules_of = |source: Option<&Source>| match &request.rules {
        Some(rules) => rules.text().to_owned(),
        None => source.map(|source| source.rules.clone()).unwrap_or_default(),
    };
    match (&request.source, same_root) {
        (Some(name), Some(source)) if source.name != *name => {
            return Err(EngineError::SourceKnown { name: source.name.clone(), root });
        }
        (Some(name), _) => {
            // A folder that moved keeps the rules of its name.
            let rules = rules_of(known.iter().find(|source| source.name == *name));
            return Ok(Source { name: name.clone(), root, rules });
        }
        (None, Some(source)) => {
            return Ok(Source { rules: rules_of(Some(source)), ..source.clone() });
        }
        (None, None) => {}
    }
    let typed = request.path.to_string_lossy();
    let name = match typed.trim_end_matches('/').trim_start_matches("./") {
        "" | "." => root
            .file_name()
            .map_or_else(|| "root".to_owned(), |name| name.to_string_lossy().into_owned()),
        typed => typed.to_owned(),
    };
    match known.iter().find(|source| source.name == name) {
        Some(taken) => {
            let known = taken.root.clone();
            Err(EngineError::SourceTaken { name, known, given: root })
        }
        None => Ok(Source { name, root, rules: rules_of(None) }),
    }
}

/// The files of a source. Links are followed; one that leads back to a folder above it is reported. A store is not looked into.
pub(super) fn walk(root: &Path, store: &Path, settings: &ReadSettings) -> Walked {
    let store = fs_err::canonicalize(store).unwrap_or_else(|_| store.to_owned());
    let mut walker = WalkBuilder::new(root);
    walker
        .standard_filters(false)
        .hidden(!settings.hidden)
        .follow_links(true)
        .filter_entry(move |entry| !entry.path().starts_with(&store))
        .sort_by_file_path(Path::cmp);
    if settings.respect_ignore {
        walker
            .git_ignore(true)
            .git_exclude(true)
            .parents(true)
            .require_git(false)
            .add_custom_ignore_filename(IGNORE_FILE);
    }
    let mut walked = Walked::default();
    let skip = |path: &Path, reason: String, broken: bool| Skipped {
        path: relative(root, path).unwrap_or_else(|| path.to_string_lossy().into_owned()),
        reason,
        hint: None,
        broken,
    };
    for entry in walker.build() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                let path = error_path(&error).unwrap_or(root).to_owned();
                walked.skipped.push(skip(&path, error.to_string(), true));
                walked.unseen.push(relative(root, &path).unwrap_or_default());
                continue;
            }
        };
        if entry.file_type().is_some_and(|kind| kind.is_dir()) {
            continue;
        }
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        let size_bytes = entry.metadata().map_or(0, |metadata| metadata.len());
        let file = entry.into_path();
        let Some(kind) = Kind::of(&file) else {
            walked.skipped.push(skip(&file, "this format is not read".to_owned(), false));
            continue;
        };
        match relative(root, &file) {
            None => walked.skipped.push(skip(&file, "its name is not UTF-8".to_owned(), true)),
            Some(_) if !is_file => {
                walked.skipped.push(skip(&file, "is not a regular file".to_owned(), true));
            }
            Some(path) => walked.files.push(Found { path, file, kind, size_bytes }),
        }
    }
    walked
}

/// A path below a source's root, with `/` between the parts; the file's name where the file is the source itself. `None` for
/// one that is not UTF-8.
fn relative(root: &Path, path: &Path) -> Option<String> {
    let inside = path.strip_prefix(root).unwrap_or(path);
    if inside.as_os_str().is_empty() {
        return if path.is_dir() {
            Some(String::new())
        } else {
            path.file_name()?.to_str().map(str::to_owned)
        };
    }
    let parts: Option<Vec<&str>> =
        inside.components().map(|part| part.as_os_str().to_str()).collect();
    parts.map(|parts| parts.join("/"))
}

/// The path that a walk failed at.
fn error_path(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => {
            error_path(err)
        }
        ignore::Error::Loop { child, .. } => Some(child),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files that are read of a tree of `path → content`.
    fn check(files: &[(&str, &str)], settings: &ReadSettings, expected: &[&str]) {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let file = dir.path().join(path);
            fs_err::create_dir_all(file.parent().unwrap()).unwrap();
            fs_err::write(file, content).unwrap();
        }
        let walked = walk(dir.path(), &dir.path().join(".umbel"), settings);
        let found: Vec<_> = walked.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn ignored_files_are_not_read() {
        let files = [
            ("a.md", ""),
            ("draft/b.md", ""),
            ("sub/c.md", ""),
            ("sub/secret.md", ""),
            (".gitignore", "draft/"),
            ("sub/.umbelignore", "secret.md"),
            (".hidden/d.md", ""),
        ];
        check(&files, &ReadSettings::default(), &["a.md", "sub/c.md"]);
        let all = ReadSettings { respect_ignore: false, ..ReadSettings::default() };
        check(&files, &all, &["a.md", "draft/b.md", "sub/c.md", "sub/secret.md"]);
        let hidden = ReadSettings { hidden: true, ..ReadSettings::default() };
        check(&files, &hidden, &[".hidden/d.md", "a.md", "sub/c.md"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_back_is_reported_and_nothing_is_read_twice() {
        let dir = tempfile::tempdir().unwrap();
        fs_err::create_dir(dir.path().join("sub")).unwrap();
        fs_err::write(dir.path().join("sub/a.md"), "a").unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("sub/back")).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("dangling.md")).unwrap();
        let walked = walk(dir.path(), &dir.path().join(".umbel"), &ReadSettings::default());
        let found: Vec<_> = walked.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(found, ["sub/a.md"]);
        let skipped: Vec<_> = walked.skipped.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(skipped, ["dangling.md", "sub/back"]);
        assert!(walked.may_hide("sub/back/sub/a.md") && !walked.may_hide("sub/a.md"));
    }
}
