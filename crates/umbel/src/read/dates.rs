//! A folder → when each of its files was last changed.
//!
//! Invariant: a file that differs from its last commit has the file system's date, not the commit's.

use crate::metadata::{DateSource, Updated};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// How long the history is read at the most.
const PATIENCE: Duration = Duration::from_secs(20);

/// The dates of commits, by path below the folder.
///
/// Nothing that a repository's own configuration names is run: no filters, no monitors, no signature checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommitDates(BTreeMap<String, Commit>);

/// The last commit of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Commit {
    /// Seconds since 1970 in UTC.
    at: i64,
    /// What was committed: the hash of the content.
    blob: String,
}

impl CommitDates {
    /// Reads the history of the repository that the folder lies in, newest first, until each of these paths was seen.
    /// Empty where there is no repository, no `git`, or the history takes more than 20 seconds: then files have their own date.
    pub fn of<'a>(root: &Path, paths: impl Iterator<Item = &'a str>) -> CommitDates {
        let paths: BTreeSet<&str> = paths.collect();
        let mut wanted: BTreeMap<String, String> = BTreeMap::new();
        let Some(tree) = git(root, &["ls-tree", "-r", "-z", "HEAD", "."]) else {
            return CommitDates::default();
        };
        let (mut tree, mut record) = (BufReader::new(tree), Vec::new());
        // An entry is `MODE TYPE HASH\tNAME`.
        while let Some(entry) = read_record(&mut tree, &mut record) {
            let Some((kind, name)) = entry.split_once('\t') else { continue };
            if let Some(blob) = kind.rsplit(' ').next().filter(|_| paths.contains(name)) {
                wanted.insert(name.to_owned(), blob.to_owned());
            }
        }
        let log = [
            "log",
            "--format=format:%x01%ct",
            "--name-only",
            "--no-renames",
            "--relative",
            "-z",
            "--",
            ".",
        ];
        let Some(history) = git(root, &log).filter(|_| !wanted.is_empty()) else {
            return CommitDates::default();
        };
        let (mut history, begun) = (BufReader::new(history), Instant::now());
        let (mut dates, mut at) = (BTreeMap::new(), None);
        while !wanted.is_empty()
            && let Some(mut name) = read_record(&mut history, &mut record)
        {
            if begun.elapsed() > PATIENCE {
                return CommitDates::default();
            }
            // A commit is `\x01SECONDS\nFIRST NAME`, then the other names.
            if let Some(commit) = name.strip_prefix('\u{1}') {
                let (seconds, first) = commit.split_once('\n').unwrap_or((commit, ""));
                at = seconds.parse().ok();
                name = first;
            }
            if let Some(((path, blob), at)) = wanted.remove_entry(name).zip(at) {
                dates.insert(path, Commit { at, blob });
            }
        }
        CommitDates(dates)
    }

    /// The date of a path, if what was committed is what it holds.
    pub fn get(&self, path: &str, content: &[u8]) -> Option<Updated> {
        let commit = self.0.get(path)?;
        (commit.blob == blob_hash(content, commit.blob.len()))
            .then_some(Updated { at: commit.at, from: DateSource::Git })
    }
}

/// What git calls a file's content, in as many hexadecimal digits as the repository uses: 40 of SHA-1 or 64 of SHA-256.
fn blob_hash(content: &[u8], digits: usize) -> String {
    let header = format!("blob {}\0", content.len());
    let hex = |hash: &[u8]| hash.iter().map(|byte| format!("{byte:02x}")).collect();
    if digits == 64 {
        hex(&Sha256::new().chain_update(header).chain_update(content).finalize())
    } else {
        hex(&Sha1::new().chain_update(header).chain_update(content).finalize())
    }
}

/// When the file system says that a file was last changed.
pub fn file_date(metadata: &std::fs::Metadata) -> Option<Updated> {
    let modified = metadata.modified().ok()?;
    let at = match modified.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).ok()?,
        Err(before) => -i64::try_from(before.duration().as_secs()).ok()?,
    };
    Some(Updated { at, from: DateSource::File })
}

/// A running `git`, stopped when it is dropped.
struct Git(std::process::Child);

impl std::io::Read for Git {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match &mut self.0.stdout {
            Some(stdout) => stdout.read(buffer),
            None => Ok(0),
        }
    }
}

impl Drop for Git {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn git(root: &Path, args: &[&str]) -> Option<Git> {
    let folder = if root.is_dir() { root } else { root.parent()? };
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(["-c", "core.fsmonitor=false", "-c", "log.showSignature=false"]);
    git.args(args);
    let null = Stdio::null;
    git.stdin(null()).stdout(Stdio::piped()).stderr(null()).spawn().ok().map(Git)
}

/// Reads up to the next NUL; `None` at the end. A record that is not UTF-8 is empty: no document has such a path.
fn read_record<'a>(from: &mut BufReader<Git>, record: &'a mut Vec<u8>) -> Option<&'a str> {
    record.clear();
    let n = from.read_until(0, record).ok()?;
    (n > 0).then(|| {
        std::str::from_utf8(record.strip_suffix(&[0]).unwrap_or(record)).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(root: &Path, args: &[&str]) {
        let author = ["-c", "user.name=Umbel", "-c", "user.email=umbel@localhost"];
        let status = Command::new("git").arg("-C").arg(root).args(author).args(args).status();
        assert!(status.unwrap().success(), "git {args:?}");
    }

    #[test]
    fn a_committed_file_has_the_date_of_its_last_commit() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        run(root, &["init", "-q"]);
        fs_err::create_dir(root.join("sub")).unwrap();
        for (path, date) in
            [("sub/a b.md", "2020-01-01T00:00:00Z"), ("sub/ä.md", "2021-01-01T00:00:00Z")]
        {
            fs_err::write(root.join(path), "text").unwrap();
            run(root, &["add", "."]);
            let commit = Command::new("git")
                .arg("-C")
                .arg(root)
                .args(["-c", "user.name=Umbel", "-c", "user.email=umbel@localhost"])
                .args(["commit", "-qm", "change"])
                .env("GIT_COMMITTER_DATE", date)
                .status();
            assert!(commit.unwrap().success());
        }
        let all = ["sub/a b.md", "sub/ä.md", "new.md"];
        let dates = CommitDates::of(root, all.into_iter());
        let at = |dates: &CommitDates, path: &str, content: &str| {
            dates.get(path, content.as_bytes()).map(|updated| updated.at)
        };
        assert_eq!(
            all.map(|path| at(&dates, path, "text")),
            [Some(1_577_836_800), Some(1_609_459_200), None]
        );
        assert_eq!(at(&dates, "sub/ä.md", "other text"), None);

        let inside = CommitDates::of(&root.join("sub"), ["a b.md"].into_iter());
        assert_eq!(at(&inside, "a b.md", "text"), Some(1_577_836_800));
    }

    #[test]
    fn without_a_repository_there_are_no_commit_dates() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(CommitDates::of(dir.path(), ["a.md"].into_iter()), CommitDates::default());
    }
}
