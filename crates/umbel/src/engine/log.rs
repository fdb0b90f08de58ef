//! Searches → lines in the store, one file for each day, and back: fire rates without another run.
//!
//! Invariant: a record is one line and is written at once. What a crash cuts short is counted by readers and left out. Where
//! hashes are asked for, no text of a question is written.

use super::answer::SearchResponse;
use super::inspect::Distribution;
use super::wire::{TraceJson, trace};
use crate::config::{LogSettings, QueryText};
use crate::store::Layout;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, civil::Date};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use umbel_core::hit::{Hit, LeafRecord, Scores};

/// The version of [`LogRecord`]: it rises when a field changes its meaning; fields may be added without.
pub const LOG_VERSION: u32 = 1;

/// One search, as the log keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogRecord {
    /// [`LOG_VERSION`] of the writer.
    pub v: u32,
    /// When it was answered, RFC 3339, UTC.
    pub at: String,
    /// The questions whose lists were fused, the main one first; null where only hashes are kept.
    pub queries: Option<Vec<String>>,
    /// The same 16 hexadecimal digits for the same questions.
    pub query_hash: String,
    /// Whether only some documents were searched.
    pub filtered: bool,
    /// Tokens that were allowed.
    pub budget: usize,
    /// Tokens that were delivered.
    pub tokens: usize,
    /// Passages that were delivered.
    pub passages: usize,
    /// Why.
    pub trace: TraceJson,
    /// The leaves that the list was collapsed from, best first, where `log.candidates` is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Vec<CandidateJson>>,
}

/// A leaf that was retrieved: its id, its document's number in the catalog, its cluster (null where it is alone), its cosine (null
/// where the dense leg did not find it), its BM25 score (null where the lexical leg did not), and what fusion made of both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CandidateJson(
    pub String,
    pub u64,
    pub Option<String>,
    pub Option<f32>,
    pub Option<f32>,
    pub f32,
);

impl From<&Hit> for CandidateJson {
    fn from(hit: &Hit) -> CandidateJson {
        let LeafRecord { leaf, doc, cluster, .. } = hit.record;
        let Scores { dense, lexical, fused, .. } = hit.scores;
        let cluster = (cluster != leaf.into()).then(|| cluster.to_string());
        CandidateJson(leaf.to_string(), doc.0, cluster, dense, lexical, fused)
    }
}

impl LogRecord {
    /// What is kept of an answer that was given at `at`.
    pub fn of(
        response: &SearchResponse,
        filtered: bool,
        settings: &LogSettings,
        at: Timestamp,
    ) -> LogRecord {
        let queries: Vec<String> =
            std::iter::once(&response.query).chain(&response.also).cloned().collect();
        let hash = blake3::hash(queries.join("\n").as_bytes()).to_hex();
        let keeps_text = settings.queries == QueryText::Text;
        let mut trace = trace(response);
        if let Some(shortage) = trace.shortage.as_mut().filter(|_| !keeps_text) {
            shortage.query = None;
        }
        LogRecord {
            v: LOG_VERSION,
            at: at.to_string(),
            query_hash: hash.chars().take(16).collect(),
            queries: keeps_text.then_some(queries),
            filtered,
            budget: response.budget_tokens,
            tokens: response.context.tokens,
            passages: response.context.passages.len(),
            trace,
            candidates: settings
                .candidates
                .then(|| response.candidates.iter().map(CandidateJson::from).collect()),
        }
    }

    /// The day it belongs to, `None` where its time does not parse.
    fn day(&self) -> Option<Date> {
        self.at.parse::<Timestamp>().ok().map(date)
    }
}

/// The time of now.
pub fn now() -> Timestamp {
    Timestamp::now()
}

fn date(at: Timestamp) -> Date {
    TimeZone::UTC.to_datetime(at).date()
}

/// The JSON Schema of [`LogRecord`], draft 7.
pub fn schema() -> serde_json::Value {
    serde_json::to_value(schemars::schema_for!(LogRecord)).expect("a schema is JSON")
}

/// The searches of a store.
#[derive(Debug, Clone)]
pub struct QueryLog {
    folder: PathBuf,
}

/// Days of a log, both included; `None` for no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Days {
    /// The first.
    pub from: Option<Date>,
    /// The last.
    pub to: Option<Date>,
}

impl Days {
    /// The last `n` days, today among them.
    pub fn last(n: u32, now: Timestamp) -> Days {
        let back = i64::from(n.saturating_sub(1)).days();
        Days { from: date(now).checked_sub(back).ok(), to: None }
    }

    /// The `n` days before the last `n`.
    pub fn before_last(n: u32, now: Timestamp) -> Days {
        let back = |days: u32| date(now).checked_sub(i64::from(days).days()).ok();
        Days { from: back(2 * n - 1), to: back(n) }
    }

    fn hold(self, day: Date) -> bool {
        self.from.is_none_or(|from| from <= day) && self.to.is_none_or(|to| day <= to)
    }
}

impl QueryLog {
    /// The log of the store in a folder; it need not exist yet.
    pub fn of(layout: &Layout) -> QueryLog {
        QueryLog { folder: layout.queries() }
    }

    /// Adds a record to its day. The first one of a day removes the days that are older than the settings keep.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&self, record: &LogRecord, settings: &LogSettings) -> std::io::Result<()> {
        let day = record.day().unwrap_or_default();
        let file = self.file(day);
        if !file.exists() {
            fs_err::create_dir_all(&self.folder)?;
            let first = day.checked_sub((i64::from(settings.keep_days) - 1).days());
            for old in
                self.days()?.into_iter().filter(|&old| first.as_ref().is_ok_and(|&f| old < f))
            {
                fs_err::remove_file(self.file(old))?;
            }
        }
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let mut file = fs_err::OpenOptions::new().create(true).append(true).open(file)?;
        // A line that a crash cut short ends here, so that it spoils no other.
        if !ends_line(file.path())? {
            line.insert(0, b'\n');
        }
        file.write_all(&line)
    }

    /// Hands over the records of some days, oldest first, until told to stop. Returns how many lines are no records.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(
        &self,
        days: Days,
        take: &mut dyn FnMut(LogRecord) -> ControlFlow<()>,
    ) -> std::io::Result<usize> {
        let mut unreadable = 0;
        for day in self.days()?.into_iter().filter(|&day| days.hold(day)) {
            let file = BufReader::new(fs_err::File::open(self.file(day))?);
            for line in file.split(b'\n') {
                let line = line?;
                match serde_json::from_slice::<LogRecord>(&line) {
                    Ok(record) if record.v <= LOG_VERSION => {
                        if take(record).is_break() {
                            return Ok(unreadable);
                        }
                    }
                    _ if line.is_empty() => {}
                    _ => unreadable += 1,
                }
            }
        }
        Ok(unreadable)
    }

    /// What happened on each day, oldest first, and how many lines are no records.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn stats(&self, days: Days) -> std::io::Result<(Vec<DayStats>, usize)> {
        let mut gathered: BTreeMap<Date, Gathered> = BTreeMap::new();
        let unreadable = self.read(days, &mut |record| {
            if let Some(day) = record.day() {
                gathered.entry(day).or_default().add(&record);
            }
            ControlFlow::Continue(())
        })?;
        Ok((gathered.into_iter().map(|(day, gathered)| gathered.stats(day)).collect(), unreadable))
    }

    fn file(&self, day: Date) -> PathBuf {
        self.folder.join(format!("{day}.jsonl"))
    }

    /// The days that have a file, oldest first.
    fn days(&self) -> std::io::Result<Vec<Date>> {
        let entries = match fs_err::read_dir(&self.folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut days = Vec::new();
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            days.extend(name.strip_suffix(".jsonl").and_then(|day| day.parse::<Date>().ok()));
        }
        days.sort_unstable();
        Ok(days)
    }
}

/// Whether a file is empty or ends with a line feed.
fn ends_line(path: &Path) -> std::io::Result<bool> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut file = fs_err::File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// The searches of one day.
#[derive(Debug, Clone, PartialEq)]
pub struct DayStats {
    /// The day, UTC.
    pub day: Date,
    /// Searches.
    pub queries: usize,
    /// Those in which a node replaced its children.
    pub fired: usize,
    /// Those in which no node could have.
    pub could_not_fire: usize,
    /// Those in which a node met one condition and missed the other.
    pub nearly: usize,
    /// Those in which a node met both and was not merged.
    pub blocked: usize,
    /// Those that delivered nothing.
    pub empty: usize,
    /// Those that found fewer distinct clusters than were wanted.
    pub short: usize,
    /// Tokens delivered.
    pub tokens: Distribution,
    /// Leaves looked at until the list had its length.
    pub examined: Distribution,
    /// Time of a whole search, in microseconds.
    pub took_us: Distribution,
    /// Time of each step, in microseconds.
    pub step_us: BTreeMap<String, Distribution>,
}

impl DayStats {
    /// The share of the searches in which a node replaced its children, 0 to 1.
    pub fn fire_rate(&self) -> f64 {
        self.fired as f64 / self.queries.max(1) as f64
    }
}

/// What is summed up of one day.
#[derive(Debug, Default)]
struct Gathered {
    queries: usize,
    fired: usize,
    could_not_fire: usize,
    nearly: usize,
    blocked: usize,
    empty: usize,
    short: usize,
    tokens: Vec<u32>,
    examined: Vec<u32>,
    took_us: Vec<u32>,
    step_us: BTreeMap<String, Vec<u32>>,
}

impl Gathered {
    fn add(&mut self, record: &LogRecord) {
        let trace = &record.trace;
        self.queries += 1;
        self.fired += usize::from(trace.fired);
        self.could_not_fire += usize::from(!trace.fired && !trace.could_fire);
        self.nearly += usize::from(!trace.near_misses.is_empty());
        self.blocked += usize::from(!trace.blocked.is_empty());
        self.empty += usize::from(record.passages == 0);
        self.short += usize::from(trace.shortfall > 0);
        self.tokens.push(record.tokens as u32);
        self.examined.push(trace.examined as u32);
        let us = |ms: f64| (ms * 1e3).round() as u32;
        self.took_us.push(us(trace.timings_ms.values().sum()));
        for (step, &ms) in &trace.timings_ms {
            self.step_us.entry(step.clone()).or_default().push(us(ms));
        }
    }

    fn stats(self, day: Date) -> DayStats {
        let steps = self.step_us.into_iter().map(|(step, us)| (step, Distribution::of(us)));
        DayStats {
            day,
            queries: self.queries,
            fired: self.fired,
            could_not_fire: self.could_not_fire,
            nearly: self.nearly,
            blocked: self.blocked,
            empty: self.empty,
            short: self.short,
            tokens: Distribution::of(self.tokens),
            examined: Distribution::of(self.examined),
            took_us: Distribution::of(self.took_us),
            step_us: steps.collect(),
        }
    }
}
