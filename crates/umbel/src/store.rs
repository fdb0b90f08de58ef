//! A folder → a store: where its parts lie, and the lock that keeps a second process out.
//!
//! Invariant: whoever holds the lock is the only process that writes to the folder.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

/// Where the parts of a store lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The folder itself.
    pub dir: PathBuf,
}

impl Layout {
    /// The layout of a store in `dir`.
    pub fn new(dir: &Path) -> Layout {
        Layout { dir: dir.to_owned() }
    }

    /// The catalog's file.
    pub fn catalog(&self) -> PathBuf {
        self.dir.join("catalog.sqlite")
    }

    /// The index's folder.
    pub fn index(&self) -> PathBuf {
        self.dir.join("index")
    }

    /// The folder of the query log.
    pub fn queries(&self) -> PathBuf {
        self.dir.join("queries")
    }

    fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// Whether there is a store.
    pub fn exists(&self) -> bool {
        self.catalog().exists()
    }
}

/// The right to write to a store, until it is dropped.
#[derive(Debug)]
pub struct StoreLock {
    _file: File,
}

/// Why a store was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is none.
    #[error("there is no store in `{dir}`")]
    Missing {
        /// The folder.
        dir: PathBuf,
    },
    /// Another process holds it.
    #[error("the store `{dir}` is held by process {pid}")]
    Held {
        /// The folder.
        dir: PathBuf,
        /// The process, `unknown` where it did not say.
        pid: String,
    },
    /// The folder holds something else.
    #[error("`{dir}` is no store, and holds `{entry}`")]
    Foreign {
        /// The folder.
        dir: PathBuf,
        /// A file or folder in it that no store has.
        entry: String,
    },
    /// The folder cannot be written.
    #[error("the store `{dir}` cannot be used")]
    Unusable {
        /// The folder.
        dir: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Takes the lock of a store, making the folder if need be.
///
/// # Errors
/// [`StoreError::Held`] at once where another process has it.
pub fn lock(layout: &Layout) -> Result<StoreLock, StoreError> {
    let unusable = |source| StoreError::Unusable { dir: layout.dir.clone(), source };
    if let Some(entry) = foreign(layout) {
        return Err(StoreError::Foreign { dir: layout.dir.clone(), entry });
    }
    fs_err::create_dir_all(&layout.dir).map_err(unusable)?;
    let path = layout.lock();
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let read = file.read_to_string(&mut pid);
            let pid = if read.is_ok() && !pid.trim().is_empty() {
                pid.trim().to_owned()
            } else {
                "unknown".to_owned()
            };
            return Err(StoreError::Held { dir: layout.dir.clone(), pid });
        }
        Err(TryLockError::Error(source)) => return Err(unusable(source)),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| write!(file, "{}", std::process::id()))
        .map_err(unusable)?;
    Ok(StoreLock { _file: file })
}

/// What a folder without a catalog holds besides a lock, the draft of a catalog and a query log: a store is not made beside it.
fn foreign(layout: &Layout) -> Option<String> {
    if layout.exists() {
        return None;
    }
    let names =
        fs_err::read_dir(&layout.dir).ok()?.filter_map(Result::ok).map(|entry| entry.file_name());
    let mut names = names.map(|name| name.to_string_lossy().into_owned());
    let ours = |name: &str| match name {
        "lock" => fs_err::read_to_string(layout.lock())
            .is_ok_and(|pid| pid.bytes().all(|b| b.is_ascii_digit())),
        "queries" => fs_err::read_dir(layout.queries()).is_ok_and(|mut files| {
            files.all(|file| {
                file.is_ok_and(|file| file.path().extension() == Some("jsonl".as_ref()))
            })
        }),
        _ => name.starts_with("catalog.sqlite") || name.starts_with(".catalog.sqlite"),
    };
    names.find(|name| !ours(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_store_names_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        let held = lock(&layout).unwrap();
        let error = lock(&layout).unwrap_err().to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        drop(held);
        lock(&layout).unwrap();
    }

    #[test]
    fn a_folder_that_holds_something_else_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs_err::create_dir_all(dir.path().join("index")).unwrap();
        let error = lock(&Layout::new(dir.path())).unwrap_err().to_string();
        assert!(error.ends_with("is no store, and holds `index`"), "{error}");
        fs_err::remove_dir_all(dir.path().join("index")).unwrap();
        fs_err::write(dir.path().join("lock"), "mine").unwrap();
        lock(&Layout::new(dir.path())).unwrap_err();
        assert_eq!(fs_err::read_to_string(dir.path().join("lock")).unwrap(), "mine");
    }
}
