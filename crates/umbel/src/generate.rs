//! Messages → the text that a language model writes, piece by piece: the port, and the models behind it.
//!
//! Invariant: the pieces handed over, put together, are the text of the result, or the text that an error carries.

#[cfg(feature = "remote")]
pub mod remote;
#[cfg(feature = "remote")]
mod sse;

use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

/// What a generator is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratorInfo {
    /// The model, as its server calls it.
    pub model: String,
}

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The one who says how to answer.
    System,
    /// The one who asks.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// Its name in a request.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// What was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// By whom.
    pub role: Role,
    /// What.
    pub content: String,
}

impl Message {
    /// How to answer.
    pub fn system(content: impl Into<String>) -> Self {
        Self { role: Role::System, content: content.into() }
    }

    /// What is asked.
    pub fn user(content: impl Into<String>) -> Self {
        Self { role: Role::User, content: content.into() }
    }
}

/// What is to be answered, and how. What is `None` is left to the model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GenerateRequest {
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// The model's own tokens that the answer may have.
    pub max_tokens: Option<u32>,
    /// How freely words are chosen: 0 for the likeliest ones, 2 at the most.
    pub temperature: Option<f32>,
    /// Makes the same choices again, where the model knows how.
    pub seed: Option<u64>,
    /// Texts that end the answer before they are part of it; four at the most.
    pub stop: Vec<String>,
}

/// What a model wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generation {
    /// All of it.
    pub text: String,
    /// Why it ends.
    pub finish: Finish,
    /// What it cost, where the model says so.
    pub usage: Option<Usage>,
    /// Parameters of the request that the server does not take, by name: they were left out.
    pub left_out: Vec<&'static str>,
}

/// Why a text ends.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// The model had said what it had to say, or came to a stop text.
    Stop,
    /// It came to its limit of tokens: the text is cut.
    Length,
    /// Something on the server's side removed what came next.
    Filtered,
    /// The receiver of the pieces had enough.
    Broken,
    /// The server named another reason.
    Other(String),
    /// The server said that it was done, and not why.
    Unstated,
}

/// Tokens, as the model counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Those of the messages.
    pub prompt_tokens: u64,
    /// Those of the answer, its thoughts included.
    pub completion_tokens: u64,
}

/// Receives the pieces of a text as they come, none of them empty, and says whether to go on.
pub type OnDelta<'a> = &'a mut (dyn FnMut(&str) -> ControlFlow<()> + Send);

/// Writes texts.
#[async_trait::async_trait]
pub trait Generator: Send + Sync {
    /// The model.
    fn describe(&self) -> &GeneratorInfo;

    /// Answers the messages. Each piece goes to `on_delta` as soon as it is there; after a [`ControlFlow::Break`] the text ends
    /// with that piece, and the result says [`Finish::Broken`].
    ///
    /// # Errors
    /// All but [`GenerateError::Unreachable`] and [`GenerateError::Status`] may come after some pieces have been handed over.
    async fn generate(
        &self,
        request: &GenerateRequest,
        on_delta: OnDelta<'_>,
    ) -> Result<Generation, GenerateError>;
}

/// Why there is no answer, or only part of one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The settings name no server, or no key: correct them.
    #[error("the generator cannot be used")]
    Settings {
        /// What is wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Nothing answered: the same request may pass later.
    #[error("no answer from `{url}`")]
    Unreachable {
        /// The address.
        url: String,
        /// What came in place of an answer.
        source: Box<dyn std::error::Error + Send + Sync>,
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
    /// The server was silent for too long.
    #[error("`{url}` did not {wait} within {limit:?}")]
    TimedOut {
        /// The address.
        url: String,
        /// What was waited for.
        wait: Wait,
        /// For how long at the most.
        limit: Duration,
        /// What came before.
        text: String,
    },
    /// The answer ended half-way.
    #[error("the answer of `{url}` ended after {} bytes, before its end", text.len())]
    Cut {
        /// The address.
        url: String,
        /// What came before.
        text: String,
        /// What the transport said; `None` where the server hung up without a word.
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The server reported an error after it had begun to answer.
    #[error("`{url}` reported an error in its answer: `{answer}`")]
    Reported {
        /// The address.
        url: String,
        /// The first 200 characters of the report.
        answer: String,
        /// What came before.
        text: String,
    },
    /// What answered speaks another language.
    #[error("`{url}` answered with something else than a chat completion, {reason}: `{answer}`")]
    Nonsense {
        /// The address.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
        /// The first 200 characters of what is wrong.
        answer: String,
        /// What came before.
        text: String,
    },
    /// The answer is longer than the limit.
    #[error("`{url}` answered with more than {limit_bytes} bytes")]
    TooLarge {
        /// The address.
        url: String,
        /// The longest answer that is read.
        limit_bytes: u64,
        /// What came before.
        text: String,
    },
}

/// What was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// The first token.
    First,
    /// A token after others.
    Next,
    /// The end of the answer.
    End,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "begin its answer",
            Self::Next => "go on with its answer",
            Self::End => "end its answer",
        })
    }
}

impl GenerateError {
    /// What came of the text before the error; empty where nothing did.
    pub fn text(&self) -> &str {
        match self {
            Self::TimedOut { text, .. }
            | Self::Cut { text, .. }
            | Self::Reported { text, .. }
            | Self::Nonsense { text, .. }
            | Self::TooLarge { text, .. } => text,
            Self::Settings { .. } | Self::Unreachable { .. } | Self::Status { .. } => "",
        }
    }

    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            #[cfg(feature = "remote")]
            Self::Settings { source } => {
                return source.downcast_ref::<crate::remote::RemoteError>()?.hint();
            }
            Self::Unreachable { .. } => "check the address, and whether the server runs",
            Self::Status { status: 401 | 403, .. } => {
                "check the key, and which variable it is read from"
            }
            Self::Status { status: 404 | 405, .. } | Self::Nonsense { .. } => {
                "check the address, the model and the kind of server"
            }
            Self::Status { status: 429, .. } => "wait, or ask less often",
            Self::TimedOut { .. } => "give the server more time, or ask a smaller model",
            Self::Cut { .. } => "ask again; if it is cut again, look into the server's log",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
