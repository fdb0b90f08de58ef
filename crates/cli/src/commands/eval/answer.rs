//! `umbel eval answer`: a run's contexts → answers of a language model, and what other models say of them.
//!
//! Invariant: what was asked once is not asked again; a query whose model failed has no outcome, and is named.

mod exchange;
mod print;

use self::exchange::{Cache, Speaker, Unsaid};
use super::replay::{Shelf, delivers};
use super::{read_run, write_lines};
use crate::args::Args;
use crate::args::eval::{EvalAnswer, JudgeName};
use crate::commands::ask::template;
use crate::commands::configuration;
use crate::interrupt;
use crate::output::{Output, usage};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use umbel::config::{Config, GenerateSettings};
use umbel::core::pack::rendered;
use umbel::core::span::slice;
use umbel::engine::EngineError;
use umbel::engine::prompt::{Prompt, numbered};
use umbel::generate::Message;
use umbel_eval::answer::{
    Compared, Grade, Graded, Known, Preference, Told, a_first, grade_told, preference_told,
};
use umbel_eval::compare::paired;
use umbel_eval::run::{Entry, Run};

/// Failures after which nobody is asked any more, where nothing has been answered since the first of them.
const FAILURES: usize = 5;
/// Judges at the most: agreement is that of two.
const JUDGES: usize = 2;
/// Some of the models did not answer.
const FAILED: u8 = 3;

pub(super) async fn run(args: &Args, asked: &EvalAnswer, output: &Output) -> anyhow::Result<u8> {
    let config = configuration(args, &[])?;
    let settings = &config.settings().generate;
    let models = Models::of(asked, settings, output)?;
    let template = template(&settings.template)?;
    Prompt::new(template.as_deref())?;
    let run = read(&asked.run)?;
    let shelf = Shelf::open(&args.store, &run).await?;
    let other = asked.other.as_deref().map(read).transpose()?;
    let tasks: Vec<Task> = match &other {
        None => run.entries.iter().map(|entry| task(&shelf, entry, None)).collect(),
        Some(other) => {
            let other_shelf = Shelf::open(&args.store, other).await?;
            let names = [&asked.run, asked.other.as_ref().unwrap_or(&asked.run)];
            let [a, b] = names.map(|path| path.display().to_string());
            let pairs = paired((&a, &run), (&b, other))
                .map_err(|error| usage(error.to_string(), error.hint()))?;
            pairs.iter().map(|(a, b)| task(&shelf, a, Some((&other_shelf, *b)))).collect()
        }
    };
    let cache = Cache::open(&cache_path(asked))?;
    interrupt::listen()?;
    let n = tasks.len();
    let asking = Arc::new(Asking { models, cache, template, seed: asked.seed });
    let rows = ask_all(&asking, tasks, asked.concurrency.get(), output).await?;
    let lines: Vec<RowJson<'_>> = rows.iter().map(Row::json).collect();
    write_lines(&asked.out, &lines)?;
    let outcome = print::Outcome::of(&rows, n, &asking.models);
    outcome.print(asked, output)?;
    Ok(if outcome.is_whole() { 0 } else { FAILED })
}

/// A run whose contexts are known: what compression kept of them is not in it.
fn read(path: &Path) -> anyhow::Result<Run> {
    let run = read_run(path)?;
    delivers(&run.identity)?;
    if Config::stored(&run.identity.settings, &[])?.settings().search.keep < 1.0 {
        return Err(usage(
            format!("`{}` holds no texts: its passages were compressed", path.display()),
            "make a run with `--set search.keep=1`",
        ));
    }
    Ok(run)
}

fn cache_path(asked: &EvalAnswer) -> PathBuf {
    asked.cache.clone().unwrap_or_else(|| asked.out.with_file_name("answers.cache.jsonl"))
}

/// Who answers, and who judges.
struct Models {
    generator: Speaker,
    judges: Vec<Speaker>,
}

impl Models {
    fn of(
        asked: &EvalAnswer,
        settings: &GenerateSettings,
        output: &Output,
    ) -> anyhow::Result<Models> {
        if asked.judges.len() > JUDGES {
            return Err(usage(
                format!("{} judges are named", asked.judges.len()),
                "name two at the most: --judge ONE --judge OTHER",
            ));
        }
        let generator = Speaker::new(settings)?;
        let judges = if asked.judges.is_empty() {
            output.warning(
                "the generator judges itself, which flatters it: name another model with --judge",
            );
            vec![Speaker::new(&judging(settings, None, ""))?]
        } else {
            let key = &asked.judge_key_variable;
            let speaker = |name| Speaker::new(&judging(settings, Some(name), key));
            asked.judges.iter().map(speaker).collect::<anyhow::Result<_>>()?
        };
        Ok(Models { generator, judges })
    }
}

/// How a judge is asked: as the generator is, without a limit of tokens and without chance.
fn judging(
    settings: &GenerateSettings,
    name: Option<&JudgeName>,
    key_variable: &str,
) -> GenerateSettings {
    let mut of_judge = GenerateSettings { max_tokens: 0, temperature: 0.0, ..settings.clone() };
    if let Some(name) = name {
        of_judge.model.clone_from(&name.model);
        if let Some(url) = &name.url {
            of_judge.url.clone_from(url);
            key_variable.clone_into(&mut of_judge.key_variable);
        }
    }
    of_judge
}

/// A query and what its judges need to know, away from the run that it comes from.
struct Task {
    id: String,
    question: String,
    answers: Vec<String>,
    evidence: Vec<String>,
    fired: bool,
    /// The passages as the generator is given them, of one run or two.
    contexts: Vec<String>,
}

fn task(shelf: &Shelf, entry: &Entry, other: Option<(&Shelf, &Entry)>) -> Task {
    let evidence = entry.relevant.iter().filter_map(|reference| {
        Some(slice(&shelf.document(&reference.doc)?.text, reference.span()).to_owned())
    });
    let fired = |entry: &Entry| entry.delivery.fired();
    Task {
        id: entry.id.clone(),
        question: entry.query.clone(),
        answers: entry.answers.clone(),
        evidence: evidence.collect(),
        fired: fired(entry) || other.is_some_and(|(_, other)| fired(other)),
        contexts: std::iter::once(context(shelf, entry))
            .chain(other.map(|(shelf, other)| context(shelf, other)))
            .collect(),
    }
}

/// What was delivered, as `umbel ask` gives it to a generator.
fn context(shelf: &Shelf, entry: &Entry) -> String {
    let passages = entry.delivery.passages.iter().filter_map(|&spot| {
        let place = entry.place(spot)?;
        let document = shelf.document(place.doc)?;
        let node = document.tree.smallest_containing(place.span).unwrap_or_default();
        Some((document, node, rendered(document, place.span)))
    });
    numbered(passages)
}

/// What came of a query.
struct Row {
    id: String,
    judged: Judged,
    answers: Vec<Answer>,
    verdicts: Vec<Verdict>,
    error: Option<String>,
}

/// One answer, or two.
enum Judged {
    One(Graded),
    Two(Compared),
}

#[derive(Serialize)]
struct Answer {
    text: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

#[derive(Serialize)]
struct Verdict {
    judge: String,
    /// What it said, word for word.
    reply: String,
}

/// A line of what is written.
#[derive(Serialize)]
struct RowJson<'r> {
    id: &'r str,
    fired: bool,
    #[serde(flatten)]
    outcome: OutcomeJson,
    answers: &'r [Answer],
    verdicts: &'r [Verdict],
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'r str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum OutcomeJson {
    One {
        /// Null where nobody can tell.
        correct: Option<bool>,
    },
    Two {
        /// Null where nobody can tell.
        prefers: Option<Preference>,
        /// Whether A's answer was shown first.
        a_first: bool,
        /// Whether both answers are the same.
        same: bool,
    },
}

impl Row {
    fn json(&self) -> RowJson<'_> {
        let (fired, outcome) = match &self.judged {
            Judged::One(graded) => (graded.fired, OutcomeJson::One { correct: graded.correct() }),
            Judged::Two(compared) => {
                let &Compared { fired, same, a_first, .. } = compared;
                (fired, OutcomeJson::Two { prefers: compared.preference(), a_first, same })
            }
        };
        let (id, error) = (self.id.as_str(), self.error.as_deref());
        RowJson { id, fired, outcome, answers: &self.answers, verdicts: &self.verdicts, error }
    }
}

/// Who is asked, and how.
struct Asking {
    models: Models,
    cache: Cache,
    template: Option<String>,
    seed: u64,
}

/// What of a task is known when it ends, whether or not all of it could be asked.
#[derive(Default)]
struct Progress {
    answers: Vec<Answer>,
    replies: Vec<String>,
}

impl Asking {
    /// Asks all that a query needs; what was said before a failure is kept.
    async fn ask(&self, task: &Task) -> Result<Row, Unsaid> {
        let mut progress = Progress::default();
        let failure = self.go(task, &mut progress).await.err();
        if matches!(failure, Some(Unsaid::Interrupted)) {
            return Err(Unsaid::Interrupted);
        }
        Ok(self.row(task, progress, failure.map(|error| error.to_string())))
    }

    async fn go(&self, task: &Task, progress: &mut Progress) -> Result<(), Unsaid> {
        for context in &task.contexts {
            progress.answers.push(self.answer(&task.question, context).await?);
        }
        if let Some(told) = self.told(task, &progress.answers) {
            for judge in &self.models.judges {
                let messages = vec![Message::system(&told.system), Message::user(&told.user)];
                progress.replies.push(judge.say(&self.cache, messages).await?.text);
            }
        }
        Ok(())
    }

    async fn answer(&self, question: &str, context: &str) -> Result<Answer, Unsaid> {
        // As `umbel ask`: where nothing was found, nobody is asked.
        if context.is_empty() {
            return Ok(Answer { text: String::new(), cut: false });
        }
        let messages = prompt(self.template.as_deref()).messages(context, question);
        let said = self.models.generator.say(&self.cache, messages).await?;
        Ok(Answer { text: said.text, cut: said.cut })
    }

    /// What the judges are told; `None` where there is nothing to judge.
    fn told(&self, task: &Task, answers: &[Answer]) -> Option<Told> {
        let evidence: Vec<&str> = task.evidence.iter().map(String::as_str).collect();
        let known = Known { question: &task.question, answers: &task.answers, evidence: &evidence };
        match answers {
            [one] => (!one.text.trim().is_empty()).then(|| grade_told(&known, &one.text)),
            [a, b] if a.text != b.text => {
                let (a, b) = (a.text.as_str(), b.text.as_str());
                let (first, second) = if a_first(&task.id, self.seed) { (a, b) } else { (b, a) };
                Some(preference_told(&known, first, second))
            }
            _ => None,
        }
    }

    fn row(&self, task: &Task, progress: Progress, error: Option<String>) -> Row {
        let Progress { answers, replies } = progress;
        let whole = error.is_none();
        let judged = if let [_, _] = task.contexts[..] {
            let a_first = a_first(&task.id, self.seed);
            let same = matches!(&answers[..], [a, b] if a.text == b.text);
            let preferences = replies.iter().map(|reply| Preference::of_reply(reply, a_first));
            let preferences = if whole { preferences.collect() } else { Vec::new() };
            Judged::Two(Compared { fired: task.fired, same, a_first, preferences })
        } else {
            let none = matches!(&answers[..], [one] if one.text.trim().is_empty());
            let grades: Vec<Option<Grade>> = if none {
                vec![Some(Grade::Incorrect); self.models.judges.len()]
            } else {
                replies.iter().map(|reply| Grade::of_reply(reply)).collect()
            };
            let grades = if whole { grades } else { Vec::new() };
            Judged::One(Graded { fired: task.fired, grades })
        };
        let judges = self.models.judges.iter().map(|judge| judge.model().to_owned());
        let verdicts = judges.zip(replies).map(|(judge, reply)| Verdict { judge, reply }).collect();
        Row { id: task.id.clone(), judged, answers, verdicts, error }
    }
}

fn prompt(template: Option<&str>) -> Prompt<'_> {
    Prompt::new(template).unwrap_or_default()
}

/// Asks everything, so many queries at once; the rows in the order of the tasks.
async fn ask_all(
    asking: &Arc<Asking>,
    tasks: Vec<Task>,
    concurrency: usize,
    output: &Output,
) -> anyhow::Result<Vec<Row>> {
    let total = tasks.len();
    let limit = Arc::new(Semaphore::new(concurrency));
    let mut running: JoinSet<(usize, Option<Result<Row, Unsaid>>)> = JoinSet::new();
    let mut rows: BTreeMap<usize, Row> = BTreeMap::new();
    for (index, task) in tasks.into_iter().enumerate() {
        let (asking, limit) = (Arc::clone(asking), Arc::clone(&limit));
        running.spawn(async move {
            let Ok(_permit) = limit.acquire().await else { return (index, None) };
            (index, Some(asking.ask(&task).await))
        });
    }
    let bar = output.progress();
    let mut failures_in_a_row = 0;
    loop {
        let step = bar.step("asking", rows.len(), total);
        let Some(joined) = interrupt::unless_asked(running.join_next()).await else {
            return Err(EngineError::Interrupted.into());
        };
        let Some(joined) = joined else { break };
        match joined? {
            (_, Some(Err(Unsaid::Interrupted))) => return Err(EngineError::Interrupted.into()),
            (index, Some(Ok(row))) => {
                failures_in_a_row = if row.error.is_some() { failures_in_a_row + 1 } else { 0 };
                rows.insert(index, row);
            }
            _ => {}
        }
        if step.is_break() {
            return Err(EngineError::Interrupted.into());
        }
        if failures_in_a_row >= FAILURES {
            limit.close();
        }
    }
    Ok(rows.into_values().collect())
}
