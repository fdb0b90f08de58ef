//! A question → an answer from what was found, with citations that point back to it.
//!
//! Invariant: whatever the generator does, the context is delivered; every citation is checked against it.

use super::answer::{AskRequest, AskResponse, Citation, SearchRequest, SearchResponse};
use super::prompt::{Prompt, SEPARATOR, header, numbered, request as request_of};
use super::{Engine, EngineError};
use crate::generate::OnDelta;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use umbel_core::document::Document;
use umbel_core::id::DocId;
use umbel_core::span::Span;

/// A number that no passage's is longer than, for counting.
const WIDEST_NUMBER: usize = 999;
/// Tokens kept back for where the parts of a prompt meet: they may be cut otherwise than apart.
const SEAM_TOKENS: usize = 4;

impl Engine {
    /// Finds passages and has the generator answer from them. The answer goes to `on_delta` piece by piece.
    ///
    /// Where nothing is found, the generator is not asked. Where it fails, the response holds what came before, why it failed,
    /// and the context.
    ///
    /// # Errors
    /// [`EngineError::NoGenerator`], [`EngineError::Template`], and whatever a search may fail with.
    pub async fn ask(
        &self,
        request: &AskRequest,
        on_delta: OnDelta<'_>,
    ) -> Result<AskResponse, EngineError> {
        let generator = self.generator.as_deref().ok_or(EngineError::NoGenerator)?;
        let prompt = Prompt::new(request.template.as_deref())?;
        let question = &request.search.query;
        let around = prompt.messages("", question);
        let reserve =
            around.iter().map(|message| self.counter.count(&message.content)).sum::<usize>();
        let search = self.search_for_prompt(&request.search, reserve + SEAM_TOKENS).await?;
        let mut response = AskResponse {
            model: generator.describe().model.clone(),
            answer: String::new(),
            finish: None,
            usage: None,
            citations: Vec::new(),
            failure: None,
            search,
        };
        if response.search.context.passages.is_empty() {
            return Ok(response);
        }
        let search = &response.search;
        let shown = search.context.passages.iter().filter_map(|passage| {
            let document = &search.documents.get(&passage.doc)?.document;
            Some((document, passage.node, passage.rendered(document)))
        });
        let messages = prompt.messages(&numbered(shown), question);
        let asked = request_of(messages, &request.search.config.settings().generate);
        match generator.generate(&asked, on_delta).await {
            Ok(generation) => {
                response.answer = generation.text;
                response.finish = Some(generation.finish);
                response.usage = generation.usage;
                response.search.warnings.extend(generation.left_out.iter().map(|parameter| {
                    format!("the server does not take `{parameter}`: it was left out")
                }));
            }
            Err(error) => {
                error.text().clone_into(&mut response.answer);
                response.failure = Some(error);
            }
        }
        let n_passages = response.search.context.passages.len();
        response.citations = citations(&response.answer, n_passages);
        Ok(response)
    }

    /// A search whose passages leave room for a prompt of `reserve_tokens` and for a header before each of them.
    async fn search_for_prompt(
        &self,
        request: &SearchRequest,
        reserve_tokens: usize,
    ) -> Result<SearchResponse, EngineError> {
        let known: Mutex<BTreeMap<(DocId, u32), usize>> = Mutex::default();
        let frame = |doc: DocId, document: &Document, node: u32| {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            *known.entry((doc, node)).or_insert_with(|| {
                let header = header(WIDEST_NUMBER, document, node);
                self.counter.count(&header) + self.counter.count(SEPARATOR) + SEAM_TOKENS
            })
        };
        self.search_within(request, reserve_tokens, Some(&frame), None).await
    }
}

/// The numbers in square brackets of an answer, as `[1]` or `[2, 3]`; not those of a link, `[1](…)`.
fn citations(answer: &str, n_passages: usize) -> Vec<Citation> {
    let mut found: Vec<Citation> = Vec::new();
    let mut at = 0;
    while let Some(open) = answer.get(at..).and_then(|rest| rest.find('[')).map(|open| at + open) {
        let inside = answer.get(open + 1..).unwrap_or_default();
        at = open + 1;
        let Some((numbers, behind)) = inside.split_once(']') else { break };
        let numbers: Option<Vec<usize>> =
            numbers.split([',', ';']).map(|number| number.trim().parse().ok()).collect();
        let Some(numbers) = numbers.filter(|_| !behind.starts_with('(')) else { continue };
        let mention = Span::new(open, answer.len() - behind.len());
        for number in numbers {
            let passage = number.checked_sub(1).filter(|&at| at < n_passages);
            match found.iter_mut().find(|citation| citation.number == number) {
                Some(citation) => citation.mentions.push(mention),
                None => found.push(Citation { number, passage, mentions: vec![mention] }),
            }
        }
        at = mention.end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_are_found_and_checked() {
        let check = |answer: &str, expected: &[(usize, Option<usize>, usize)]| {
            let found: Vec<_> = citations(answer, 3)
                .iter()
                .map(|c| (c.number, c.passage, c.mentions.len()))
                .collect();
            assert_eq!(found, expected, "{answer}");
        };
        check("", &[]);
        check("Pumps run daily [1].", &[(1, Some(0), 1)]);
        check("Daily [2][1], oiled [1, 3].", &[(2, Some(1), 1), (1, Some(0), 2), (3, Some(2), 1)]);
        check("Never [4] or [0].", &[(4, None, 1), (0, None, 1)]);
        check("A [link](x), a [1](link), [x], [1 [2] and [3", &[(2, Some(1), 1)]);
        check("[99999999999999999999999]", &[]);
    }
}
