//! What went wrong between client and server → what a caller can do about it.
//!
//! Invariant: each error names the address, and none the key.

use std::fmt;
use std::io;

use ureq::Timeout;

use super::retry::Failure;

/// Why a server gave no answer that can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// An address that no route can be put behind.
    #[error(
        "`{url}` is not an address of the form `https://host` or `https://host/path`, without user, query and fragment"
    )]
    Url {
        /// The address, without what may be a secret.
        url: String,
    },
    /// The variable that is to hold the key does not.
    #[error("the variable `{variable}` holds no key")]
    Key {
        /// Its name.
        variable: String,
    },
    /// No connection, or one that broke before the whole answer was there: the same request may pass later.
    #[error("no answer from `{url}`")]
    Connection {
        /// The address.
        url: String,
        /// What the transport said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It took too long: the same request may pass later, or with more patience.
    #[error("`{url}` took too long to {phase}")]
    TimedOut {
        /// The address.
        url: String,
        /// What took too long.
        phase: Phase,
    },
    /// The server refused.
    #[error("`{url}` answered with status {status}: `{answer}`")]
    Status {
        /// The address.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The first 200 characters of the answer.
        answer: String,
    },
    /// The answer is longer than the limit.
    #[error("`{url}` answered with more than {limit_bytes} bytes")]
    TooLarge {
        /// The address.
        url: String,
        /// The longest answer that is read.
        limit_bytes: u64,
    },
    /// Something answered that is not the server expected.
    #[error("`{url}` answered with something else than the JSON expected: `{answer}`")]
    Nonsense {
        /// The address.
        url: String,
        /// The first 200 characters of the answer.
        answer: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// What took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Finding the host and connecting to it.
    Connect,
    /// Beginning its answer.
    Begin,
    /// Going on with its answer.
    GoOn,
    /// The whole attempt.
    Whole,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::Begin => "begin its answer",
            Self::GoOn => "go on with its answer",
            Self::Whole => "answer",
        })
    }
}

impl RemoteError {
    /// Whether the same request may pass later.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Connection { .. } | Self::TimedOut { .. } => true,
            Self::Status { status, .. } => super::retry::is_worth_another_try(*status),
            _ => false,
        }
    }

    /// Whether something answered that is not the server expected.
    pub fn is_nonsense(&self) -> bool {
        matches!(self, Self::Nonsense { .. })
    }

    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Url { .. } => "write an address as `https://api.openai.com`".to_owned(),
            Self::Key { variable } => format!("set `{variable}` to the key of the server"),
            Self::Connection { .. } => "check the address, and whether the server runs".to_owned(),
            Self::TimedOut { .. } => {
                "give the server more time, or smaller batches and fewer of them at once".to_owned()
            }
            Self::Status { status: 401 | 403, .. } => {
                "check the key, and which variable it is read from".to_owned()
            }
            Self::Status { status: 300..=399 | 404 | 405, .. } => {
                "check the address and the kind of server".to_owned()
            }
            Self::Status { status: 413 | 422, .. } => {
                "use smaller batches, or shorter texts".to_owned()
            }
            Self::Status { status: 429, .. } => {
                "use smaller batches and fewer of them at once, or wait".to_owned()
            }
            Self::Nonsense { .. } => "check the address and the kind of server".to_owned(),
            _ => return None,
        })
    }
}

/// Sorts what the transport says into what can be done about it.
pub(super) fn of_transport(url: &str, error: ureq::Error) -> Failure {
    let url = url.to_owned();
    match error {
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
            Failure::passing(RemoteError::TimedOut { url, phase: Phase::Connect }, None)
        }
        ureq::Error::Timeout(timeout) => {
            let phase = match timeout {
                Timeout::RecvResponse => Phase::Begin,
                Timeout::PerRead => Phase::GoOn,
                _ => Phase::Whole,
            };
            Failure::lasting(RemoteError::TimedOut { url, phase })
        }
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
            Failure::lasting(RemoteError::TimedOut { url, phase: Phase::GoOn })
        }
        error => {
            let is_passing = matches!(
                error,
                ureq::Error::Io(_) | ureq::Error::HostNotFound | ureq::Error::ConnectionFailed
            );
            let error = RemoteError::Connection { url, source: error.into() };
            if is_passing { Failure::passing(error, None) } else { Failure::lasting(error) }
        }
    }
}
