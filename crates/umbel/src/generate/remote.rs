//! A chat completion behind HTTP → a [`Generator`]: one request, its answer read as it is written.
//!
//! Invariant: a call ends. What waits for a token has a deadline that only a token moves; the whole has one that nothing moves;
//! and once the caller has dropped its future, the threads end with the next byte or time-out.
//!
//! One thread reads, a second one watches the clock and takes the answer apart: a blocked read cannot look at a deadline of its
//! own. The caller's executor is told of pieces through a channel and is never blocked.

mod answer;
mod refusal;

use std::fmt;
use std::io::{self, Read as _};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use futures_channel::mpsc as futures_mpsc;
use serde::Serialize;

use self::answer::{Answer, End, Fault, Token};
use self::refusal::Refused;
use super::{
    Finish, GenerateError, GenerateRequest, Generation, Generator, GeneratorInfo, OnDelta, Usage,
    Wait,
};
use crate::remote::{Client, Endpoint, Opened, Phase, RemoteError, read_error};

const ROUTE: &str = "/v1/chat/completions";

/// How often a watching thread looks whether anyone still waits for the answer.
const LOOK: Duration = Duration::from_millis(250);

/// Pieces of an answer that may wait to be taken apart.
const N_WAITING: usize = 16;

/// Which model is asked, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteOptions {
    /// Where the server is. `timeout` is that of the whole answer; tried again is only what comes before the answer begins.
    pub endpoint: Endpoint,
    /// The model to ask for.
    pub model: String,
    /// How long the first token may take once the request is sent. A thought is a token, a comment that keeps the connection
    /// alive is none.
    pub first_token_timeout: Duration,
    /// How long each further token may take.
    pub next_token_timeout: Duration,
    /// Whether the server is asked to count tokens, by `stream_options`, which a few servers do not know.
    pub ask_usage: bool,
}

impl RemoteOptions {
    /// 60 s for the first token, 30 s for each further one, 10 minutes for all of them, and tokens counted.
    pub fn new(url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            endpoint: Endpoint { timeout: Duration::from_mins(10), ..Endpoint::new(url) },
            model: model.into(),
            first_token_timeout: Duration::from_mins(1),
            next_token_timeout: Duration::from_secs(30),
            ask_usage: true,
        }
    }
}

/// A model behind `/v1/chat/completions`. A parameter that the server refuses by name is left out, or sent under its newer
/// name, from then on.
pub struct RemoteGenerator {
    info: GeneratorInfo,
    shared: Arc<Shared>,
}

/// What the threads need.
struct Shared {
    client: Client,
    url: String,
    first_token_timeout: Duration,
    next_token_timeout: Duration,
    ask_usage: bool,
    refused: Refused,
}

impl fmt::Debug for RemoteGenerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteGenerator").field("info", &self.info).finish_non_exhaustive()
    }
}

impl RemoteGenerator {
    /// A generator that has sent nothing yet.
    ///
    /// # Errors
    /// [`GenerateError::Settings`]: the address is none, or there is no key where one is said to be.
    pub fn new(options: RemoteOptions) -> Result<Self, GenerateError> {
        let client = Client::new(options.endpoint)
            .map_err(|error| GenerateError::Settings { source: error.into() })?;
        let shared = Shared {
            url: client.url(ROUTE),
            client,
            first_token_timeout: options.first_token_timeout,
            next_token_timeout: options.next_token_timeout,
            ask_usage: options.ask_usage,
            refused: Refused::default(),
        };
        Ok(Self { info: GeneratorInfo { model: options.model }, shared: Arc::new(shared) })
    }
}

#[async_trait::async_trait]
impl Generator for RemoteGenerator {
    fn describe(&self) -> &GeneratorInfo {
        &self.info
    }

    async fn generate(
        &self,
        request: &GenerateRequest,
        on_delta: OnDelta<'_>,
    ) -> Result<Generation, GenerateError> {
        let shared = &self.shared;
        let no_thread = |source: Box<dyn std::error::Error + Send + Sync>| {
            GenerateError::Unreachable { url: shared.url.clone(), source }
        };
        let body = serde_json::to_value(Body::new(&self.info.model, request, shared.ask_usage))
            .map_err(|error| no_thread(error.into()))?;
        let (sender, mut pieces) = futures_mpsc::unbounded();
        let (of_thread, asked) = (Arc::clone(shared), body.clone());
        thread::Builder::new()
            .name("umbel-generate".to_owned())
            .spawn(move || of_thread.watch(asked, &sender))
            .map_err(|error| no_thread(error.into()))?;

        let mut text = String::new();
        let generation = |text: String, finish: Finish, usage: Option<Usage>| {
            let left_out = shared.refused.left_out(&body);
            Generation { text, finish, usage, left_out }
        };
        loop {
            match pieces.recv().await {
                Ok(Piece::Text(delta)) => {
                    text.push_str(&delta);
                    if on_delta(&delta).is_break() {
                        return Ok(generation(text, Finish::Broken, None));
                    }
                }
                Ok(Piece::End(Ok(End { finish, usage }))) => {
                    return Ok(generation(text, finish, usage));
                }
                Ok(Piece::End(Err(failure))) => return Err(shared.error(failure, text)),
                Err(_closed) => {
                    return Err(no_thread("the thread that watched the answer ended early".into()));
                }
            }
        }
    }
}

/// What the caller is told.
enum Piece {
    Text(String),
    End(Result<End, Failure>),
}

/// What the reading thread says.
enum Read {
    /// The head of the answer is there; the attempt began at this moment.
    Head(Instant),
    Bytes(Vec<u8>),
    End(Result<(), RemoteError>),
}

/// Why there is no whole answer.
enum Failure {
    /// Before the answer began.
    Early(RemoteError),
    /// While it was read.
    Late(RemoteError),
    Fault(Fault),
    TimedOut(Wait),
    TooLarge,
    NoThread(io::Error),
}

type Pieces = futures_mpsc::UnboundedSender<Piece>;

impl Shared {
    /// Has the answer read, takes it apart, and tells the caller.
    fn watch(self: Arc<Self>, body: serde_json::Value, pieces: &Pieces) {
        let end = self.watched(body, pieces);
        // The caller may have given up: then nobody wants to know.
        drop(pieces.unbounded_send(Piece::End(end)));
    }

    fn watched(self: &Arc<Self>, body: serde_json::Value, pieces: &Pieces) -> Result<End, Failure> {
        // Where this side ends first, the other one notices at its next word.
        let (said, heard) = mpsc::sync_channel(N_WAITING);
        let (shared, caller) = (Arc::clone(self), pieces.clone());
        thread::Builder::new()
            .name("umbel-generate-read".to_owned())
            .spawn(move || drop(shared.read(body, &caller, &said)))
            .map_err(Failure::NoThread)?;

        let limit_bytes = self.client.endpoint().max_answer_bytes;
        let (mut answer, mut n_bytes) = (Answer::default(), 0);
        let (mut wait, mut deadline, mut has_begun) = (Wait::First, None, false);
        loop {
            let Some(read) = hear(&heard, deadline, pieces) else {
                // A server that neither says `[DONE]` nor hangs up has said all the same why the text ends.
                if answer.has_ended() {
                    break;
                }
                return Err(Failure::TimedOut(wait));
            };
            match read {
                Read::Head(started) => {
                    has_begun = true;
                    deadline = started.checked_add(self.first_token_timeout);
                }
                Read::Bytes(bytes) => {
                    n_bytes += bytes.len() as u64;
                    if n_bytes > limit_bytes {
                        return Err(Failure::TooLarge);
                    }
                    let mut tokens = Vec::new();
                    let pushed = answer.push(&bytes, &mut tokens);
                    if !tokens.is_empty() {
                        wait = Wait::Next;
                        deadline = Instant::now().checked_add(self.next_token_timeout);
                    }
                    tell(pieces, tokens);
                    pushed.map_err(Failure::Fault)?;
                    if answer.is_done() {
                        break;
                    }
                }
                Read::End(Ok(())) => break,
                Read::End(Err(_)) if answer.has_ended() => break,
                Read::End(Err(error)) if !has_begun => return Err(Failure::Early(error)),
                Read::End(Err(RemoteError::TimedOut { phase: Phase::GoOn, .. })) => {
                    return Err(Failure::TimedOut(wait));
                }
                Read::End(Err(error)) => return Err(Failure::Late(error)),
            }
        }
        let mut tokens = Vec::new();
        let end = answer.finish(&mut tokens);
        tell(pieces, tokens);
        end.map_err(Failure::Fault)
    }

    /// Asks, and passes on what comes until it ends or nobody listens.
    fn read(
        &self,
        body: serde_json::Value,
        caller: &Pieces,
        said: &mpsc::SyncSender<Read>,
    ) -> Result<(), mpsc::SendError<Read>> {
        let mut opened = match self.open(body, caller) {
            Ok(opened) => opened,
            Err(error) => return said.send(Read::End(Err(error))),
        };
        said.send(Read::Head(opened.started))?;
        let mut buffer = vec![0; 1 << 13];
        loop {
            match opened.body.read(&mut buffer) {
                Ok(0) => return said.send(Read::End(Ok(()))),
                Ok(n_bytes) => said.send(Read::Bytes(buffer[..n_bytes].to_vec()))?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return said.send(Read::End(Err(read_error(&self.url, error)))),
            }
        }
    }

    /// Asks, and once more for each parameter that the server refuses.
    fn open(&self, mut body: serde_json::Value, caller: &Pieces) -> Result<Opened, RemoteError> {
        let silence = self.first_token_timeout.max(self.next_token_timeout);
        let timeouts = (self.first_token_timeout, silence);
        self.refused.apply(&mut body);
        loop {
            match self.client.open(ROUTE, &body, timeouts, &|| !caller.is_closed()) {
                Err(RemoteError::Status { status, answer, .. })
                    if self.refused.heed(status, &answer, &mut body) => {}
                opened => return opened,
            }
        }
    }

    fn error(&self, failure: Failure, text: String) -> GenerateError {
        let url = self.url.clone();
        match failure {
            Failure::Early(RemoteError::Status { status, answer, .. }) => {
                GenerateError::Status { url, status, answer }
            }
            Failure::Early(RemoteError::TimedOut { phase: Phase::Begin | Phase::GoOn, .. }) => {
                self.error(Failure::TimedOut(Wait::First), text)
            }
            Failure::Early(RemoteError::TimedOut { phase: Phase::Whole, .. })
            | Failure::Late(RemoteError::TimedOut { .. }) => {
                self.error(Failure::TimedOut(Wait::End), text)
            }
            Failure::Early(error) => GenerateError::Unreachable { url, source: error.into() },
            Failure::NoThread(error) => GenerateError::Unreachable { url, source: error.into() },
            Failure::Late(error) => GenerateError::Cut { url, text, source: Some(error.into()) },
            Failure::Fault(Fault::Cut) => GenerateError::Cut { url, text, source: None },
            Failure::Fault(Fault::Reported(data)) => {
                GenerateError::Reported { url, answer: self.client.excerpt(&data), text }
            }
            Failure::Fault(Fault::Nonsense(reason, data)) => {
                GenerateError::Nonsense { url, reason, answer: self.client.excerpt(&data), text }
            }
            Failure::TimedOut(wait) => {
                let limit = match wait {
                    Wait::First => self.first_token_timeout,
                    Wait::Next => self.next_token_timeout,
                    Wait::End => self.client.endpoint().timeout,
                };
                GenerateError::TimedOut { url, wait, limit, text }
            }
            Failure::TooLarge => {
                let limit_bytes = self.client.endpoint().max_answer_bytes;
                GenerateError::TooLarge { url, limit_bytes, text }
            }
        }
    }
}

/// The next word of the reading thread; `None` once the deadline has passed, or nobody waits for the answer. Without a deadline
/// the reading thread has one itself.
fn hear(heard: &mpsc::Receiver<Read>, deadline: Option<Instant>, pieces: &Pieces) -> Option<Read> {
    while !pieces.is_closed() {
        let rest = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match heard.recv_timeout(rest.unwrap_or(LOOK).min(LOOK)) {
            Ok(read) => return Some(read),
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if rest.is_some_and(|rest| rest <= LOOK) {
                    return None;
                }
            }
        }
    }
    None
}

fn tell(pieces: &Pieces, tokens: Vec<Token>) {
    for token in tokens {
        if let Token::Text(text) = token {
            // The caller may have given up: `hear` looks.
            drop(pieces.unbounded_send(Piece::Text(text)));
        }
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<MessageBody<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
}

#[derive(Serialize)]
struct MessageBody<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl<'a> Body<'a> {
    fn new(model: &'a str, request: &'a GenerateRequest, ask_usage: bool) -> Self {
        let messages = request
            .messages
            .iter()
            .map(|message| MessageBody { role: message.role.as_str(), content: &message.content });
        Self {
            model,
            messages: messages.collect(),
            stream: true,
            stream_options: ask_usage.then_some(StreamOptions { include_usage: true }),
            max_tokens: request.max_tokens,
            temperature: request.temperature,
            seed: request.seed,
            stop: &request.stop,
        }
    }
}

#[cfg(test)]
mod tests;
