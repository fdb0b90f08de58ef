//! What a person or a program sees: the only place that prints.
//!
//! Invariant: results go to standard output, everything else to standard error.

use crate::interrupt;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::Duration;
use umbel::config::ConfigError;
use umbel::engine::{EngineError, Progress};
use umbel::model::ModelError;
use umbel::models::ModelsError;

/// Prints results, progress and errors.
#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
}

/// An error with what to type.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    code: u8,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// A mistake in what was typed: exit code 2.
pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    Failure { message: message.into(), hint: Some(hint.into()), code: 2 }.into()
}

/// The exit code of an error: 2 for what was typed, 3 for store, model and environment.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.code;
    }
    match error.downcast_ref::<EngineError>() {
        Some(
            EngineError::MissingPath { .. }
            | EngineError::UnreachablePath { .. }
            | EngineError::SourceKnown { .. }
            | EngineError::SourceTaken { .. }
            | EngineError::Unknown { .. }
            | EngineError::NoSpan { .. }
            | EngineError::UnknownRun { .. }
            | EngineError::UnknownCluster { .. }
            | EngineError::Filter(_)
            | EngineError::Cursor(_)
            | EngineError::Rules(_)
            | EngineError::Template { .. }
            | EngineError::Lexical(_),
        ) => 2,
        Some(EngineError::Interrupted) => interrupt::INTERRUPTED,
        _ if error.downcast_ref::<ConfigError>().is_some() => 2,
        _ if matches!(
            (error.downcast_ref::<ModelError>(), error.downcast_ref::<ModelsError>()),
            (Some(ModelError::Spec { .. }), _)
                | (_, Some(ModelsError::Model(ModelError::Spec { .. })))
        ) =>
        {
            2
        }
        _ => 3,
    }
}

fn hint(error: &anyhow::Error) -> Option<String> {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.hint.clone();
    }
    if let Some(error) = error.downcast_ref::<EngineError>() {
        return error.hint();
    }
    if let Some(error) = error.downcast_ref::<ConfigError>() {
        return Some(error.hint().to_owned());
    }
    if let Some(error) = error.downcast_ref::<ModelsError>() {
        return error.hint();
    }
    error.downcast_ref::<ModelError>().and_then(|error| error.hint().map(str::to_owned))
}

impl Output {
    /// An output for a person, or for a program that reads JSON.
    pub(crate) fn new(json: bool) -> Output {
        Output { json }
    }

    /// Whether JSON is wanted.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// A line of a result. A reader that went away is not an error.
    pub(crate) fn line(&self, line: impl AsRef<str>) {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{}", line.as_ref());
    }

    /// Text of a result, as it is.
    pub(crate) fn text(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// A result as one line of JSON.
    pub(crate) fn json(&self, value: &impl Serialize) -> anyhow::Result<()> {
        self.line(serde_json::to_string(value)?);
        Ok(())
    }

    /// Something that a person should know, beside the result.
    pub(crate) fn warning(&self, warning: impl AsRef<str>) {
        let _ = writeln!(std::io::stderr().lock(), "warning: {}", warning.as_ref());
    }

    /// What to type.
    pub(crate) fn hint(&self, hint: impl AsRef<str>) {
        let _ = writeln!(std::io::stderr().lock(), "hint: {}", hint.as_ref());
    }

    /// An error and what to type.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        let mut err = std::io::stderr().lock();
        let _ = writeln!(err, "error: {error:#}");
        if let Some(hint) = hint(error) {
            let _ = writeln!(err, "hint: {hint}");
        }
    }

    /// Steps of progress on a terminal; nothing elsewhere.
    pub(crate) fn progress(&self) -> Bar {
        Bar { shown: Mutex::new(None) }
    }
}

/// A progress bar that changes with what is being done.
#[derive(Debug)]
pub(crate) struct Bar {
    shown: Mutex<Option<(&'static str, ProgressBar)>>,
}

impl Bar {
    /// Shows a step, and says whether to go on.
    pub(crate) fn show(&self, progress: Progress) -> ControlFlow<()> {
        let (what, done, total) = match progress {
            Progress::Scanning => ("looking for files", 0, None),
            Progress::Reading(done, total) => ("reading", done, Some(total)),
            Progress::Indexing(done, total) => ("embedding and indexing", done, Some(total)),
            Progress::Comparing(done, total) => ("comparing", done, Some(total)),
            Progress::Optimizing => ("building the index", 0, None),
        };
        self.set(what, done as u64, total.map(|total| total as u64), false);
        interrupt::go_on()
    }

    /// Shows how far a command of many steps is, and says whether to go on.
    pub(crate) fn step(&self, what: &'static str, done: usize, total: usize) -> ControlFlow<()> {
        self.set(what, done as u64, Some(total as u64), false);
        interrupt::go_on()
    }

    /// Shows how far a download is.
    pub(crate) fn download(&self, done_bytes: u64, total_bytes: Option<u64>) {
        self.set("fetching the model", done_bytes, total_bytes, true);
    }

    fn set(&self, what: &'static str, done: u64, total: Option<u64>, bytes: bool) {
        let Ok(mut shown) = self.shown.lock() else { return };
        if shown.as_ref().is_none_or(|(before, _)| *before != what) {
            if let Some((_, bar)) = shown.take() {
                bar.finish_and_clear();
            }
            let template = match (total, bytes) {
                (None, _) => "{spinner} {msg} {elapsed}",
                (Some(_), true) => "{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
                (Some(_), false) => "{msg} {bar:30} {pos}/{len} {per_sec} {eta}",
            };
            let bar =
                total.map_or_else(ProgressBar::new_spinner, ProgressBar::new).with_message(what);
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            *shown = Some((what, bar));
        }
        if let Some((_, bar)) = shown.as_ref() {
            if let Some(total) = total {
                bar.set_length(total);
            }
            bar.set_position(done);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Ok(Some((_, bar))) = self.shown.lock().map(|mut shown| shown.take()) {
            bar.finish_and_clear();
        }
    }
}

/// So many of what has a name, which stands in the singular behind one.
pub(crate) fn counted(value: usize, one: &str, many: &str) -> String {
    format!("{} {}", number(value), if value == 1 { one } else { many })
}

/// "1,200 documents, 1 leaf".
pub(crate) fn documents_and_leaves(documents: usize, leaves: usize) -> String {
    let documents = counted(documents, "document", "documents");
    format!("{documents}, {}", counted(leaves, "leaf", "leaves"))
}

/// A number with commas between thousands.
pub(crate) fn number(value: usize) -> String {
    let digits = value.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
