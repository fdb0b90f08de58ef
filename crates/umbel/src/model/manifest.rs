//! A model folder ↔ `manifest.json`: what is in the folder, where it came from, and its digests.
//!
//! Invariant: the manifest is written last, so a folder that has one was whole at that moment. A digest in it is trusted
//! only while the file's size and time of change are those recorded: otherwise the file is read again.

use std::io::{self, Read};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::FetchError;

/// The version written, and the only one read.
const VERSION: u32 = 1;

const FILE_NAME: &str = "manifest.json";

#[derive(Serialize, Deserialize)]
struct Manifest {
    version: u32,
    origin: String,
    files: Vec<Entry>,
}

/// One file of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its place in the folder, with `/`.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// When it was last changed, since 1970.
    pub modified_nanos: u64,
    /// Its digest, in hex.
    pub sha256: String,
}

impl Entry {
    fn of(folder: &Path, name: &str) -> io::Result<Self> {
        let path = folder.join(name);
        let (size_bytes, modified_nanos) = stamp(&path)?;
        Ok(Self { name: name.to_owned(), size_bytes, modified_nanos, sha256: sha256(&path)? })
    }

    /// Whether the file is as recorded; it is read only if its time of change differs.
    fn holds(&self, folder: &Path) -> io::Result<bool> {
        let path = folder.join(&self.name);
        let (size_bytes, modified_nanos) = stamp(&path)?;
        if size_bytes != self.size_bytes {
            return Ok(false);
        }
        Ok(modified_nanos == self.modified_nanos || sha256(&path)? == self.sha256)
    }
}

/// Describes every file in the folder, and writes that down.
pub(super) fn write(folder: &Path, origin: &str) -> io::Result<()> {
    let mut names = list(folder)?;
    names.retain(|name| name != FILE_NAME);
    let files = names.iter().map(|name| Entry::of(folder, name)).collect::<io::Result<_>>()?;
    let manifest = Manifest { version: VERSION, origin: origin.to_owned(), files };
    fs_err::write(folder.join(FILE_NAME), serde_json::to_vec_pretty(&manifest)?)
}

/// Gives the files of a folder if each of them is as it was written.
pub(super) fn verify(folder: &Path) -> Result<Vec<Entry>, FetchError> {
    let Some(manifest) = read(folder)? else { return Err(FetchError::Absent) };
    for entry in &manifest.files {
        if !entry.holds(folder).is_ok_and(|holds| holds) {
            return Err(FetchError::Damaged { file: entry.name.clone() });
        }
    }
    Ok(manifest.files)
}

/// The sha256 of a file, in hex: from the manifest where it still holds, else computed.
pub(super) fn digest(folder: &Path, name: &str) -> io::Result<String> {
    let entry = read(folder)
        .ok()
        .flatten()
        .and_then(|manifest| manifest.files.into_iter().find(|file| file.name == name));
    match entry {
        Some(entry) if stamp(&folder.join(name))? == (entry.size_bytes, entry.modified_nanos) => {
            Ok(entry.sha256)
        }
        _ => sha256(&folder.join(name)),
    }
}

/// The sha256 of a file, in hex.
pub(super) fn sha256(path: &Path) -> io::Result<String> {
    let mut file = fs_err::File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n_bytes = file.read(&mut buffer)?;
        if n_bytes == 0 {
            return Ok(format!("{:x}", hasher.finalize()));
        }
        hasher.update(&buffer[..n_bytes]);
    }
}

fn read(folder: &Path) -> Result<Option<Manifest>, FetchError> {
    let bytes = match fs_err::read(folder.join(FILE_NAME)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let manifest: Option<Manifest> = serde_json::from_slice(&bytes).ok();
    match manifest.filter(|manifest| manifest.version == VERSION) {
        Some(manifest) => Ok(Some(manifest)),
        None => Err(FetchError::Manifest { wanted: VERSION }),
    }
}

/// Size and time of change.
fn stamp(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs_err::metadata(path)?;
    // A time before 1970 or after 2554 is as good as none: it then differs from what was recorded, or is equal to it.
    let age = metadata
        .modified()
        .unwrap_or(SystemTime::UNIX_EPOCH)
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Ok((metadata.len(), u64::try_from(age.as_nanos()).unwrap_or(u64::MAX)))
}

/// The files below a folder by their place in it, with `/`, in order.
pub(super) fn list(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(prefix) = folders.pop() {
        for entry in fs_err::read_dir(folder.join(&prefix))? {
            let entry = entry?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                folders.push(format!("{name}/"));
            } else {
                names.push(name);
            }
        }
    }
    names.sort();
    Ok(names)
}
