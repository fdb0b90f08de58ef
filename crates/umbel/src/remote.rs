//! A request in JSON → the answer of a model server, in JSON or piece by piece.
//!
//! Invariant: every call ends. Each attempt has a time-out, the number of attempts and the waits between them are bounded, and
//! so is what is read of an answer. A key is sent to the host of the endpoint alone and appears in no error.
//!
//! Calls block a thread. `workers` keeps them off the caller's executor, whichever that is.

mod error;
mod retry;
#[cfg(test)]
pub(crate) mod server;
pub(crate) mod tei;
pub(crate) mod workers;

use std::fmt;
use std::io::{self, Read};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use ureq::http::{HeaderValue, Response, Uri};
use ureq::{Agent, Body};

pub use self::error::{Phase, RemoteError};
use self::retry::Failure;

/// Characters of an answer that an error repeats.
const EXCERPT_CHARS: usize = 200;

/// Bytes that are read of the answer to a failed request: enough for the excerpt whatever its characters, and for a key that
/// begins in it.
const EXCERPT_BYTES: u64 = 16 * EXCERPT_CHARS as u64;

/// Where a model server is, and how patient its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its address up to the version, as `https://api.openai.com`. A path before the version is kept; where it ends in `/v1` or
    /// `/v2` and the route begins with the same, that part is not doubled.
    pub url: String,
    /// The variable of the environment that holds the key; `None` for a server without keys. It is read once, when the client
    /// is made.
    pub key_variable: Option<String>,
    /// How long finding the host, and then connecting to it, may take.
    pub connect_timeout: Duration,
    /// How long one attempt may take from finding the host to the last byte of the answer.
    pub timeout: Duration,
    /// Attempts after the first one. Tried again are: no connection, a connection that broke before the whole answer was there,
    /// and the statuses 408, 429 and 5xx. An attempt that took too long once connected is not tried again.
    pub retries: u32,
    /// The wait before the second attempt; it doubles for each further one. A `Retry-After` takes its place.
    pub backoff: Duration,
    /// The longest wait between two attempts, whatever the server asks for.
    pub max_wait: Duration,
    /// The longest answer that is read, in bytes after decompression.
    pub max_answer_bytes: u64,
}

impl Endpoint {
    /// A server without keys, with time-outs of 5 s for connecting and 60 s in all, and three more attempts after 0.5, 1 and 2 s.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            key_variable: None,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_mins(1),
            retries: 3,
            backoff: Duration::from_millis(500),
            max_wait: Duration::from_secs(20),
            max_answer_bytes: 64 << 20,
        }
    }
}

/// Speaks JSON with one server, blocking the thread it is called on. Connections are kept and used again.
pub struct Client {
    endpoint: Endpoint,
    /// The endpoint's address without a slash at its end.
    base: String,
    key: Option<String>,
    agent: Agent,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Says whether anyone still waits for the answer; asked before each attempt.
pub(crate) type Wanted<'a> = &'a dyn Fn() -> bool;

/// An answer whose body is still to come.
pub(crate) struct Opened {
    /// When the attempt that succeeded began.
    pub(crate) started: Instant,
    /// What is to be read, one byte above the limit at the most.
    pub(crate) body: Box<dyn Read + Send>,
}

impl Client {
    /// A client of the endpoint. Nothing is sent yet.
    ///
    /// # Errors
    /// [`RemoteError::Url`] and [`RemoteError::Key`]: correct the endpoint or the environment.
    pub fn new(endpoint: Endpoint) -> Result<Self, RemoteError> {
        let base = checked_base(&endpoint.url)?;
        let key = endpoint.key_variable.as_deref().map(read_key).transpose()?;
        let config = ureq::config::Config::builder()
            .http_status_as_error(false)
            // A redirect could lead the key to another host.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_resolve(Some(endpoint.connect_timeout))
            .timeout_connect(Some(endpoint.connect_timeout))
            .timeout_global(Some(endpoint.timeout))
            .user_agent(concat!("umbel/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self { endpoint, base, key, agent: config.new_agent() })
    }

    /// The full address of a route, as `/v1/embeddings`.
    pub fn url(&self, route: &str) -> String {
        let doubled = ["/v1", "/v2"].into_iter().find(|version| {
            self.base.ends_with(version)
                && route.strip_prefix(version).is_some_and(|rest| rest.starts_with('/'))
        });
        let base = doubled.and_then(|version| self.base.strip_suffix(version));
        format!("{}{route}", base.unwrap_or(&self.base))
    }

    /// Asks for a route and reads the answer as JSON.
    pub fn get<T: DeserializeOwned>(&self, route: &str) -> Result<T, RemoteError> {
        self.json(&self.url(route), None, &|| true)
    }

    /// Sends JSON to a route and reads the answer as JSON.
    pub fn post<T: DeserializeOwned>(
        &self,
        route: &str,
        body: &impl Serialize,
    ) -> Result<T, RemoteError> {
        self.post_while(route, body, &|| true)
    }

    /// As [`post`](Self::post), but gives up between two attempts once nobody waits.
    pub(crate) fn post_while<T: DeserializeOwned>(
        &self,
        route: &str,
        body: &impl Serialize,
        wanted: Wanted<'_>,
    ) -> Result<T, RemoteError> {
        self.json(&self.url(route), Some(&encode(body)), wanted)
    }

    /// Sends JSON to a route and hands over the answer unread. Tried again is only what comes before that.
    ///
    /// `first` is how long the head of the answer may take once the request is sent, `silence` how long each read may take.
    pub(crate) fn open(
        &self,
        route: &str,
        body: &impl Serialize,
        (first, silence): (Duration, Duration),
        wanted: Wanted<'_>,
    ) -> Result<Opened, RemoteError> {
        let (url, body) = (self.url(route), encode(body));
        let limit = self.endpoint.max_answer_bytes.saturating_add(1);
        self.endpoint.retrying(wanted, || {
            let started = Instant::now();
            let request = self
                .agent
                .post(&url)
                .config()
                .timeout_recv_response(Some(first))
                .timeout_per_read(Some(silence))
                .build();
            // A compressed stream would be held back until there is enough of it to compress.
            let request = request
                .header(ACCEPT_ENCODING, "identity")
                .header(ACCEPT, "text/event-stream, application/json");
            let response = self.send(&url, request, &body)?;
            let body = Box::new(response.into_body().into_reader().take(limit));
            Ok(Opened { started, body })
        })
    }

    fn json<T: DeserializeOwned>(
        &self,
        url: &str,
        body: Option<&[u8]>,
        wanted: Wanted<'_>,
    ) -> Result<T, RemoteError> {
        let answer = self.endpoint.retrying(wanted, || {
            let response = match body {
                Some(body) => self.send(url, self.agent.post(url), body)?,
                None => self.check(url, self.authorized(self.agent.get(url)).call())?,
            };
            self.read(url, response)
        })?;
        serde_json::from_slice(&answer).map_err(|source| RemoteError::Nonsense {
            url: url.to_owned(),
            answer: self.excerpt(&answer),
            source,
        })
    }

    fn send(
        &self,
        url: &str,
        request: ureq::RequestBuilder<ureq::typestate::WithBody>,
        body: &[u8],
    ) -> Result<Response<Body>, Failure> {
        let request = self.authorized(request).header(CONTENT_TYPE, "application/json");
        self.check(url, request.send(body))
    }

    fn authorized<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.key {
            Some(key) => request.header(AUTHORIZATION, format!("Bearer {key}")),
            None => request,
        }
    }

    /// Lets an answer through whose status says that it is one.
    fn check(
        &self,
        url: &str,
        response: Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>, Failure> {
        let mut response = response.map_err(|error| error::of_transport(url, error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let wait = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let wait = wait.and_then(retry::parse_retry_after);
        let mut answer = Vec::new();
        // What cannot be read of it is missing from the excerpt; the status says enough.
        drop(response.body_mut().as_reader().take(EXCERPT_BYTES).read_to_end(&mut answer));
        let (url, status) = (url.to_owned(), status.as_u16());
        let error = RemoteError::Status { url, status, answer: self.excerpt(&answer) };
        Err(if retry::is_worth_another_try(status) {
            Failure::passing(error, wait)
        } else {
            Failure::lasting(error)
        })
    }

    fn read(&self, url: &str, mut response: Response<Body>) -> Result<Vec<u8>, Failure> {
        let limit_bytes = self.endpoint.max_answer_bytes;
        let mut answer = Vec::new();
        let mut reader = response.body_mut().as_reader().take(limit_bytes.saturating_add(1));
        reader.read_to_end(&mut answer).map_err(|error| error::of_transport(url, error.into()))?;
        if answer.len() as u64 > limit_bytes {
            return Err(Failure::lasting(self.too_large(url)));
        }
        Ok(answer)
    }

    fn too_large(&self, url: &str) -> RemoteError {
        RemoteError::TooLarge { url: url.to_owned(), limit_bytes: self.endpoint.max_answer_bytes }
    }

    /// How it is set up.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The beginning of an answer, fit for a line of text and without the key.
    pub(crate) fn excerpt(&self, answer: &[u8]) -> String {
        let head = answer.get(..EXCERPT_BYTES as usize).unwrap_or(answer);
        let mut text = String::from_utf8_lossy(head).into_owned();
        if let Some(key) = &self.key {
            text = text.replace(key.as_str(), "[key]");
        }
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        line.chars().take(EXCERPT_CHARS).collect()
    }
}

/// What a read of an opened answer failed with.
pub(crate) fn read_error(url: &str, error: io::Error) -> RemoteError {
    error::of_transport(url, error.into()).error
}

fn encode(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("requests have string keys and serializers that do not fail")
}

/// An address that routes can be put behind.
fn checked_base(url: &str) -> Result<String, RemoteError> {
    let base = url.trim().trim_end_matches('/');
    let parts = base.parse::<Uri>().ok();
    let is_fit = parts.is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
            && uri.query().is_none()
            && !base.contains('#')
    });
    if is_fit {
        return Ok(base.to_owned());
    }
    // Whatever stands before an `@` may be a password, whatever stands behind a `?` a key.
    let shown = base.rsplit('@').next().and_then(|rest| rest.split(['?', '#']).next());
    Err(RemoteError::Url { url: shown.unwrap_or_default().to_owned() })
}

fn read_key(variable: &str) -> Result<String, RemoteError> {
    let key = std::env::var(variable).unwrap_or_default().trim().to_owned();
    let is_fit = !key.is_empty() && HeaderValue::from_str(&key).is_ok() && key.is_ascii();
    if is_fit { Ok(key) } else { Err(RemoteError::Key { variable: variable.to_owned() }) }
}

#[cfg(test)]
mod tests;
