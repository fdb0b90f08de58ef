//! The body of an answer as it comes → pieces of text, and its end.
//!
//! Invariant: nothing is an end but what says so: `[DONE]`, a finish reason, or one whole completion in place of a stream.
//!
//! Source: OpenAI's chat completion and chat completion chunk objects; the fields of thoughts are those of DeepSeek, vLLM and
//! OpenRouter.

use serde::Deserialize;
use serde_json::Value;

use super::super::sse::Events;
use super::super::{Finish, Usage};

/// Bytes of the beginning that are kept for an error.
const HEAD_BYTES: usize = 4096;

/// An answer that is being read.
#[derive(Debug, Default)]
pub(super) struct Answer {
    shape: Shape,
    /// The beginning, for an error.
    head: Vec<u8>,
    n_events: usize,
    has_choices: bool,
    /// `[DONE]` has come.
    is_done: bool,
    finish: Option<Finish>,
    usage: Option<Usage>,
}

/// What the first byte that is not blank says.
#[derive(Debug, Default)]
enum Shape {
    #[default]
    Unknown,
    Events(Events),
    /// One completion, though a stream was asked for.
    Whole(Vec<u8>),
}

/// A sign that the model is at work.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A piece of the text, not empty.
    Text(String),
    /// Something that is no part of the text.
    Thought,
}

/// What an answer ended with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) finish: Finish,
    pub(super) usage: Option<Usage>,
}

/// Why an answer is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It ended before its end.
    Cut,
    /// The server's own report of an error.
    Reported(Vec<u8>),
    /// Something else, and what is wrong with it.
    Nonsense(&'static str, Vec<u8>),
}

#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<Counts>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u32,
    /// In a stream `delta`, in one whole completion `message`.
    #[serde(alias = "message")]
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize, Default)]
struct Delta {
    content: Option<String>,
    #[serde(alias = "reasoning")]
    reasoning_content: Option<String>,
}

#[derive(Deserialize)]
struct Counts {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
}

impl Answer {
    /// Takes the next bytes, however they are cut. What came before a fault is among the tokens.
    pub(super) fn push(&mut self, bytes: &[u8], tokens: &mut Vec<Token>) -> Result<(), Fault> {
        let room = HEAD_BYTES.saturating_sub(self.head.len());
        self.head.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        if let Shape::Unknown = self.shape {
            match self.head.iter().find(|byte| !byte.is_ascii_whitespace()) {
                Some(b'{' | b'[') => self.shape = Shape::Whole(Vec::new()),
                Some(_) => self.shape = Shape::Events(Events::default()),
                None => return Ok(()),
            }
        }
        match &mut self.shape {
            Shape::Unknown => {}
            Shape::Whole(whole) => whole.extend_from_slice(bytes),
            Shape::Events(events) => {
                for data in events.push(bytes) {
                    tokens.extend(self.parse(&data)?.and_then(|chunk| self.take(chunk)));
                }
            }
        }
        Ok(())
    }

    /// Whether nothing that counts can follow.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Whether the text has ended, though more may follow.
    pub(super) fn has_ended(&self) -> bool {
        self.is_done || self.finish.is_some()
    }

    /// Takes the end of the bytes, and says what the answer ended with.
    pub(super) fn finish(&mut self, tokens: &mut Vec<Token>) -> Result<End, Fault> {
        match std::mem::take(&mut self.shape) {
            Shape::Unknown => {}
            Shape::Whole(whole) => {
                let chunk: Chunk = serde_json::from_slice(&whole).map_err(|error| {
                    if error.is_eof() {
                        Fault::Cut
                    } else {
                        Fault::Nonsense("which is not its JSON", whole.clone())
                    }
                })?;
                let chunk = self.check(chunk, &whole)?;
                tokens.extend(self.take(chunk));
                self.n_events += 1;
                // It is whole, so it has ended, whether it gives a reason or not.
                self.is_done = true;
            }
            Shape::Events(mut events) => {
                if let Some(data) = events.finish() {
                    let chunk = match self.parse(&data) {
                        // Without its blank line an event may be a part of one.
                        Err(Fault::Nonsense(..)) => None,
                        chunk => chunk?,
                    };
                    tokens.extend(chunk.and_then(|chunk| self.take(chunk)));
                    self.n_events += 1;
                }
            }
        }
        let nonsense = |head: &[u8], reason| Err(Fault::Nonsense(reason, head.to_vec()));
        if self.n_events == 0 && !self.head.is_empty() {
            return nonsense(&self.head, "without an event");
        }
        if !self.has_ended() {
            return Err(Fault::Cut);
        }
        if !self.has_choices {
            return nonsense(&self.head, "without choices");
        }
        let finish = self.finish.take().unwrap_or(Finish::Unstated);
        Ok(End { finish, usage: self.usage })
    }

    /// One event; `None` for one that says nothing.
    fn parse(&mut self, data: &[u8]) -> Result<Option<Chunk>, Fault> {
        let data = data.trim_ascii();
        if data.is_empty() || self.is_done {
            return Ok(None);
        }
        if data == b"[DONE]" {
            self.n_events += 1;
            self.is_done = true;
            return Ok(None);
        }
        let chunk = serde_json::from_slice(data)
            .map_err(|_| Fault::Nonsense("whose event is not its JSON", data.to_vec()))?;
        self.n_events += 1;
        self.check(chunk, data).map(Some)
    }

    fn check(&self, chunk: Chunk, data: &[u8]) -> Result<Chunk, Fault> {
        match chunk.error {
            // Nothing that comes behind the end can spoil it.
            Some(_) if !self.has_ended() => Err(Fault::Reported(data.to_vec())),
            _ => Ok(chunk),
        }
    }

    /// What an event says; the piece of text in it, if there is one.
    fn take(&mut self, chunk: Chunk) -> Option<Token> {
        if let Some(Counts { prompt_tokens, completion_tokens }) = chunk.usage {
            self.usage = Some(Usage { prompt_tokens, completion_tokens });
        }
        let choices = chunk.choices.unwrap_or_default();
        let choice = choices.into_iter().find(|choice| choice.index == 0)?;
        self.has_choices = true;
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.finish = Some(match reason.as_str() {
                "stop" => Finish::Stop,
                "length" => Finish::Length,
                "content_filter" => Finish::Filtered,
                _ => Finish::Other(reason),
            });
        }
        let Delta { content, reasoning_content } = choice.delta.unwrap_or_default();
        let text = content.filter(|text| !text.is_empty()).map(Token::Text);
        let thought = reasoning_content.filter(|text| !text.is_empty()).map(|_| Token::Thought);
        text.or(thought)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a body, in pieces of `n` bytes: its text, and its end or fault.
    fn read(body: &str, n: usize) -> (String, Result<End, Fault>) {
        let (mut answer, mut tokens) = (Answer::default(), Vec::new());
        let pushed: Result<(), Fault> =
            body.as_bytes().chunks(n).try_for_each(|piece| answer.push(piece, &mut tokens));
        let end = pushed.and_then(|()| answer.finish(&mut tokens));
        let texts = tokens.into_iter().filter_map(|token| match token {
            Token::Text(text) => Some(text),
            Token::Thought => None,
        });
        (texts.collect(), end)
    }

    /// The text that a body gives, and the reason why it ends or is no answer.
    #[track_caller]
    fn check(body: &str, text: &str, expected: &str) {
        for n in [1, 7, 10_000] {
            let (got, end) = read(body, n);
            let end = match end {
                Ok(end) => format!("{:?}", end.finish),
                Err(Fault::Cut) => "cut".to_owned(),
                Err(Fault::Reported(_)) => "reported".to_owned(),
                Err(Fault::Nonsense(reason, _)) => reason.to_owned(),
            };
            assert_eq!((got.as_str(), end.as_str()), (text, expected), "{body:?} in pieces of {n}");
        }
    }

    fn delta(text: &str) -> String {
        let chunk = serde_json::json!({"choices": [{"index": 0, "delta": {"content": text}}]});
        format!("data: {chunk}\n\n")
    }

    const STOP: &str =
        "data: {\"choices\": [{\"index\": 0, \"delta\": {}, \"finish_reason\": \"stop\"}]}\n\n";
    const DONE: &str = "data: [DONE]\n\n";

    #[test]
    fn a_stream_ends_with_done_or_with_a_reason() {
        let text = delta("Hé") + &delta("llo 🙂");
        check(&format!("{text}{STOP}{DONE}"), "Héllo 🙂", "Stop");
        check(&format!("{text}{STOP}"), "Héllo 🙂", "Stop");
        check(&format!("{text}{DONE}"), "Héllo 🙂", "Unstated");
        check(&format!("{text}{DONE}").replace('\n', "\r\n"), "Héllo 🙂", "Unstated");
        check(&format!(": wait\n\n{text}: wait\n\n{DONE}"), "Héllo 🙂", "Unstated");
        check(&format!("{text}data: [DONE]"), "Héllo 🙂", "Unstated");
        check(&format!("{text}{DONE}{}", delta("more")), "Héllo 🙂", "Unstated");
        check(&format!("{}{DONE}", STOP.replace("stop", "length")), "", "Length");
        check(&STOP.replace("stop", "odd"), "", r#"Other("odd")"#);
    }

    #[test]
    fn a_stream_without_an_end_is_cut() {
        check(&delta("Hello"), "Hello", "cut");
        check(delta("Hello").get(..30).unwrap(), "", "cut");
        check(&(delta("Hello") + "data: {\"cho"), "Hello", "cut");
        check("", "", "cut");
        check(&format!("{}{STOP}data: {{\"cho", delta("Hello")), "Hello", "Stop");
    }

    #[test]
    fn an_event_without_a_choice_is_passed_over() {
        let empty = "data: {\"choices\": [], \"usage\": null}\n\n";
        let usage = "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 7, \"completion_tokens\": 2}}\n\n";
        let body = format!("{empty}{}{STOP}{usage}{DONE}", delta("Hi"));
        check(&body, "Hi", "Stop");
        let end = read(&body, 3).1.unwrap();
        assert_eq!(end.usage, Some(Usage { prompt_tokens: 7, completion_tokens: 2 }));
        check(&format!("{empty}{DONE}"), "", "without choices");
    }

    #[test]
    fn one_whole_completion_will_do() {
        let whole = r#"
            {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}"#;
        check(whole, "Hi", "Stop");
        check(whole.get(..60).unwrap(), "", "cut");
        check(r#"{"choices": [{"message": {"content": "Hi"}}]}"#, "Hi", "Unstated");
        check(r#"{"choices": []}"#, "", "without choices");
        check(r#"{"detail": "no"}"#, "", "without choices");
        check(r#"{"error": {"message": "no"}}"#, "", "reported");
        check("[1, 2]", "", "which is not its JSON");
        check("{\"a\": 1}\n{\"b\": 2}", "", "which is not its JSON");
    }

    #[test]
    fn what_is_no_stream_is_nonsense() {
        check("<html>\n\n<body>Sign in</body>\n\n", "", "without an event");
        check("data: hello\n\n", "", "whose event is not its JSON");
        check("data: {\"choices\": 7}\n\n", "", "whose event is not its JSON");
        check(&format!("{}data: {{\"error\": \"overloaded\"}}\n\n", delta("Hi")), "Hi", "reported");
    }

    #[test]
    fn thoughts_are_no_text_but_a_sign_of_life() {
        let mut answer = Answer::default();
        let mut push = |field: &str| {
            let chunk = serde_json::json!({"choices": [{"delta": {field: "hm", "content": null}}]});
            let mut tokens = Vec::new();
            answer.push(format!("data: {chunk}\n\n").as_bytes(), &mut tokens).unwrap();
            tokens
        };
        assert_eq!(push("reasoning_content"), [Token::Thought]);
        assert_eq!(push("reasoning"), [Token::Thought]);
        assert_eq!(push("role"), []);
    }
}
