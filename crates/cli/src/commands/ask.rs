//! `umbel ask`.

use super::open_for_search;
use super::search::request;
use crate::args::{self, Args};
use crate::explain;
use crate::interrupt::{self, INTERRUPTED};
use crate::output::{Output, counted, usage};
use std::path::Path;
use std::sync::Arc;
use umbel::engine::EngineError;
use umbel::engine::answer::{AskRequest, AskResponse};
use umbel::engine::wire::{self, AskJson, PassageJson};
use umbel::generate::{
    Finish, GenerateError, GenerateRequest, Generation, Generator, GeneratorInfo, OnDelta,
};
use umbel::models;

/// The generator failed, and the context was delivered.
const FAILED: u8 = 3;

pub(crate) async fn run(args: &Args, ask: &args::Ask, output: &Output) -> anyhow::Result<u8> {
    let search = request(args, &ask.question)?;
    let settings = &search.config.settings().generate;
    // Before anything is loaded: without a generator there is nothing to wait for.
    let generator = models::generator(settings)?.ok_or(EngineError::NoGenerator)?;
    let generator = Arc::new(UntilAsked(generator));
    let template = template(&settings.template)?;
    let engine = open_for_search(args, &search.config, output).await?.with_generator(generator);
    interrupt::listen()?;
    let request = AskRequest { search, template };
    let shows = !output.is_json();
    let mut on_delta = |piece: &str| {
        if shows {
            output.text(piece);
        }
        interrupt::go_on()
    };
    let asked = engine.ask(&request, &mut on_delta);
    // Whoever stops the search has seen nothing yet. Whoever stops the generator gets what was found.
    let Some(response) = interrupt::unless_asked(asked).await else { return Ok(INTERRUPTED) };
    let response = response?;
    if output.is_json() {
        output.json(&wire::ask(&response))?;
    } else {
        print(&response, ask.explain, output);
    }
    Ok(match (&response.failure, &response.finish) {
        (Some(_), _) => FAILED,
        (None, Some(Finish::Broken)) => INTERRUPTED,
        (None, _) => u8::from(response.search.context.passages.is_empty()),
    })
}

/// A generator that ends with what it has said so far as soon as somebody asks to stop, also while it is silent.
struct UntilAsked(Arc<dyn Generator>);

#[async_trait::async_trait]
impl Generator for UntilAsked {
    fn describe(&self) -> &GeneratorInfo {
        self.0.describe()
    }

    async fn generate(
        &self,
        request: &GenerateRequest,
        on_delta: OnDelta<'_>,
    ) -> Result<Generation, GenerateError> {
        let mut text = String::new();
        let mut keep = |piece: &str| {
            text.push_str(piece);
            on_delta(piece)
        };
        let generated = interrupt::unless_asked(self.0.generate(request, &mut keep)).await;
        generated.unwrap_or_else(|| {
            Ok(Generation { text, finish: Finish::Broken, usage: None, left_out: Vec::new() })
        })
    }
}

/// The prompt of a file; `None` where none is named.
pub(super) fn template(path: &str) -> anyhow::Result<Option<String>> {
    if path.is_empty() {
        return Ok(None);
    }
    match fs_err::read_to_string(Path::new(path)) {
        Ok(text) => Ok(Some(text)),
        Err(error) => Err(usage(
            format!("`generate.template` cannot be read: {error}"),
            "name a text file with `{context}` and `{question}` in it",
        )),
    }
}

/// What stands below the answer: what it cites, or what the model was given.
fn print(response: &AskResponse, explain: bool, output: &Output) {
    let answer = wire::ask(response);
    if !response.answer.is_empty() {
        output.line("");
    }
    for warning in &response.search.warnings {
        output.warning(warning);
    }
    let passages = &answer.search.context.passages;
    match unfinished(response, &answer) {
        Some((why, hint)) => {
            output.warning(format!("the answer is not complete: {why}"));
            if let Some(hint) = hint {
                output.hint(hint);
            }
            let found = counted(passages.len(), "passage was", "passages were");
            output.line(format!("{found} found:"));
            for (at, passage) in passages.iter().enumerate() {
                output.line(source(at + 1, passage));
            }
        }
        None => print_citations(&answer, output),
    }
    if explain || passages.is_empty() {
        output.line("");
        output.text(&explain::answer(&response.search, explain));
    }
}

/// Why an answer is not all that the model had to say, and what to do about it.
fn unfinished<'a>(
    response: &AskResponse,
    answer: &'a AskJson,
) -> Option<(&'a str, Option<&'a str>)> {
    if let Some(error) = &answer.error {
        return Some((&error.message, error.hint.as_deref()));
    }
    match response.finish.as_ref()? {
        Finish::Broken => Some(("it was stopped", None)),
        Finish::Length => Some((
            "it came to the limit of its tokens",
            Some("raise `generate.max_tokens`, or ask for less at once"),
        )),
        Finish::Filtered => Some(("the server held back what came next", None)),
        _ => None,
    }
}

/// What an answer cites, and what is wrong with it.
fn print_citations(answer: &AskJson, output: &Output) {
    let passages = &answer.search.context.passages;
    for citation in &answer.citations {
        match citation.passage.and_then(|at| passages.get(at)) {
            Some(passage) => output.line(source(citation.number, passage)),
            None => output.warning(format!("[{}] names no passage", citation.number)),
        }
    }
    if answer.citations.is_empty() && !passages.is_empty() {
        output.warning("the answer cites no passage");
    }
}

/// A passage as a source: its number, where it is, and where else the same is said.
fn source(number: usize, passage: &PassageJson) -> String {
    let page = passage.page.map(|page| format!(" page {page}")).unwrap_or_default();
    let path = passage.heading_path.join(" > ");
    let also = match passage.cluster.also_in.len() {
        0 => String::new(),
        n => format!(", also in {}", counted(n, "place", "places")),
    };
    let url = passage.metadata.url.as_ref().map(|url| format!("  {url}")).unwrap_or_default();
    let (doc, span) = (&passage.doc, passage.span);
    format!("[{number}] {doc}:{}..{}{page}  {path}{also}{url}", span.start, span.end)
}
