//! `umbel ask`.

use super::open_for_search;
use super::search::request;
use crate::args::{self, Args};
use crate::output::{Output, counted, usage};
use crate::{explain, interrupt};
use std::path::Path;
use umbel::engine::EngineError;
use umbel::engine::answer::{AskRequest, AskResponse};
use umbel::engine::wire::{self, PassageJson};
use umbel::models;

/// The generator failed, and the context was delivered.
const FAILED: u8 = 3;

pub(crate) async fn run(args: &Args, ask: &args::Ask, output: &Output) -> anyhow::Result<u8> {
    let search = request(args, &ask.question)?;
    let settings = &search.config.settings().generate;
    // Before anything is loaded: without a generator there is nothing to wait for.
    let generator = models::generator(settings)?.ok_or(EngineError::NoGenerator)?;
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
    let response = engine.ask(&request, &mut on_delta).await?;
    if output.is_json() {
        output.json(&wire::ask(&response))?;
    } else {
        print(&response, ask.explain, output);
    }
    Ok(match &response.failure {
        Some(_) => FAILED,
        None => u8::from(response.search.context.passages.is_empty()),
    })
}

fn template(path: &str) -> anyhow::Result<Option<String>> {
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
    if let Some(error) = &answer.error {
        output.warning(format!("the answer is not complete: {}", error.message));
        if let Some(hint) = &error.hint {
            output.hint(hint);
        }
        output.line(format!("{} found:", counted(passages.len(), "passage was", "passages were")));
        for (at, passage) in passages.iter().enumerate() {
            output.line(source(at + 1, passage));
        }
    } else {
        for citation in &answer.citations {
            match citation.passage.and_then(|at| passages.get(at)) {
                Some(passage) => output.line(source(citation.number, passage)),
                None => output.warning(format!("[{}] names no passage", citation.number)),
            }
        }
    }
    if answer.citations.is_empty() && answer.error.is_none() && !passages.is_empty() {
        output.warning("the answer cites no passage");
    }
    if explain || passages.is_empty() {
        output.line("");
        output.text(&explain::answer(&response.search, explain));
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
