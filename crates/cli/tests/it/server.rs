//! A model server on this machine that says what a script says.

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// What comes back for a request.
pub(crate) enum Answer {
    /// A body of JSON.
    Json(Value),
    /// Events of a stream, then the end.
    Stream(Vec<String>),
    /// Events of a stream, of which more are announced than come.
    Torn(Vec<String>),
    /// These bytes as a body.
    Bytes(&'static [u8]),
    /// Events of a stream, then nothing, for so long.
    Stalled(Vec<String>, Duration),
    /// Nothing, for so long.
    Silence(Duration),
}

/// A server that answers until it is dropped.
pub(crate) struct Server {
    /// Its address.
    pub(crate) url: String,
    requests: Receiver<(String, Value)>,
}

impl Server {
    /// Answers each request by its route and body.
    pub(crate) fn start(answer: impl Fn(&str, &Value) -> Answer + Send + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let Some((route, body)) = read(&stream) else { continue };
                let answer = answer(&route, &body);
                if sender.send((route, body)).is_err() {
                    return;
                }
                // A client that hangs up early is what some tests are about.
                let _ = write(&mut stream, answer);
            }
        });
        Server { url, requests }
    }

    /// Waits until it was asked something.
    #[cfg(unix)]
    pub(crate) fn next_request(&self) -> (String, Value) {
        self.requests.recv_timeout(Duration::from_mins(1)).expect("a request")
    }

    /// What was asked so far, oldest first.
    pub(crate) fn requests(&self) -> Vec<(String, Value)> {
        self.requests.try_iter().collect()
    }
}

fn read(stream: &TcpStream) -> Option<(String, Value)> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let route = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let lower = line.to_ascii_lowercase();
        if let Some(bytes) = lower.strip_prefix("content-length:") {
            length = bytes.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((route, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

fn write(stream: &mut TcpStream, answer: Answer) -> std::io::Result<()> {
    let head = |kind: &str, length: usize| {
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
        )
    };
    let events = |events: &[String]| {
        events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>()
    };
    match answer {
        Answer::Json(body) => {
            let body = body.to_string();
            write!(stream, "{}{body}", head("application/json", body.len()))
        }
        Answer::Bytes(body) => {
            stream.write_all(head("text/html", body.len()).as_bytes())?;
            stream.write_all(body)
        }
        Answer::Stream(all) => {
            let body = events(&all) + "data: [DONE]\n\n";
            write!(stream, "{}{body}", head("text/event-stream", body.len()))
        }
        Answer::Torn(some) => {
            let body = events(&some);
            write!(stream, "{}{body}", head("text/event-stream", body.len() + 100))
        }
        Answer::Stalled(some, time) => {
            let body = events(&some);
            write!(stream, "{}{body}", head("text/event-stream", body.len() + 100))?;
            std::thread::sleep(time);
            Ok(())
        }
        Answer::Silence(time) => {
            std::thread::sleep(time);
            Ok(())
        }
    }
}

/// A piece of a streamed chat completion.
pub(crate) fn piece(text: &str) -> String {
    serde_json::json!({ "choices": [{ "index": 0, "delta": { "content": text } }] }).to_string()
}

/// The end of a streamed chat completion.
pub(crate) fn stop() -> String {
    serde_json::json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] })
        .to_string()
}
