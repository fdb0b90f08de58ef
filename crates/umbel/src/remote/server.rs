//! A script → a server on a loopback port that answers by it, for tests.
//!
//! Invariant: each connection gets one answer and is closed; the server ends with the process.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::Endpoint;

/// What a client asked.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// As `POST /v1/embeddings`.
    pub(crate) route: String,
    /// One header a line.
    pub(crate) headers: String,
    pub(crate) body: Value,
}

/// What the server does with a connection, one after the other.
#[derive(Debug, Clone)]
enum Part {
    Send(Vec<u8>),
    Wait(Duration),
}

/// What the server answers; the connection is closed behind it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reply(Vec<Part>);

impl Reply {
    /// Bytes as they are, head included.
    pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self::default().and(bytes)
    }

    pub(crate) fn json(value: &Value) -> Self {
        Self::with("200 OK\r\nContent-Type: application/json", &value.to_string())
    }

    /// A status line with or without headers behind it, as `429 Busy\r\nRetry-After: 0`.
    pub(crate) fn with(head: &str, body: &str) -> Self {
        let n_bytes = body.len();
        Self::raw(format!(
            "HTTP/1.1 {head}\r\nContent-Length: {n_bytes}\r\nConnection: close\r\n\r\n{body}"
        ))
    }

    /// The head of a stream of events, whose end is the end of the connection.
    pub(crate) fn events() -> Self {
        Self::raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
    }

    pub(crate) fn and(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.0.push(Part::Send(bytes.into()));
        self
    }

    pub(crate) fn wait(mut self, milliseconds: u64) -> Self {
        self.0.push(Part::Wait(Duration::from_millis(milliseconds)));
        self
    }

    /// Waits before it answers.
    pub(crate) fn after(mut self, milliseconds: u64) -> Self {
        self.0.insert(0, Part::Wait(Duration::from_millis(milliseconds)));
        self
    }

    /// Loses its last bytes.
    pub(crate) fn cut(mut self, n_bytes: usize) -> Self {
        if let Some(Part::Send(bytes)) = self.0.last_mut() {
            bytes.truncate(bytes.len() - n_bytes);
        }
        self
    }

    fn play(&self, mut stream: &TcpStream) -> io::Result<()> {
        for part in &self.0 {
            match part {
                Part::Send(bytes) => stream.write_all(bytes)?,
                Part::Wait(duration) => thread::sleep(*duration),
            }
        }
        Ok(())
    }
}

/// A server on a loopback port.
pub(crate) struct Server {
    pub(crate) url: String,
    log: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Answers each request by the script, which is given how many came before.
    pub(crate) fn start(script: impl Fn(usize, &Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let (script, seen) = (Arc::new(script), Arc::clone(&log));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
                thread::spawn(move || {
                    let stream = stream.unwrap();
                    let Ok(request) = receive(&stream) else { return };
                    let before = {
                        let mut seen = seen.lock().unwrap();
                        seen.push(request.clone());
                        seen.len() - 1
                    };
                    // A client that hangs up is part of the tests.
                    drop(script(before, &request).play(&stream));
                });
            }
        });
        Self { url, log }
    }

    /// Gives one answer after the other, and the last one again and again.
    pub(crate) fn scripted(replies: Vec<Reply>) -> Self {
        Self::start(move |before, _| replies[before.min(replies.len() - 1)].clone())
    }

    /// The server, with waits that suit a test.
    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint {
            timeout: Duration::from_secs(20),
            backoff: Duration::from_millis(1),
            max_wait: Duration::from_millis(50),
            ..Endpoint::new(&self.url)
        }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.log.lock().unwrap().clone()
    }
}

fn receive(stream: &TcpStream) -> io::Result<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let route = line.rsplit_once(' ').map(|(route, _)| route.to_owned()).unwrap_or_default();
    let (mut headers, mut n_bytes) = (String::new(), 0);
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(length) = line.to_lowercase().strip_prefix("content-length:") {
            n_bytes = length.trim().parse().unwrap();
        }
        headers.push_str(&line);
    }
    let mut body = vec![0; n_bytes];
    reader.read_exact(&mut body)?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Ok(Request { route, headers, body })
}
