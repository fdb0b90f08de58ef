//! `umbel search`.

use super::{configuration, open_for_search};
use crate::args::{self, Args};
use crate::explain;
use crate::output::{Output, usage};
use umbel::engine::EngineError;
use umbel::engine::answer::SearchRequest;
use umbel::engine::wire;
use umbel::filter::Filter;

pub(crate) async fn run(args: &Args, search: &args::Search, output: &Output) -> anyhow::Result<u8> {
    let asked = request(args, &search.question)?;
    let request = SearchRequest { cursor: search.cursor.clone(), ..asked };
    let engine = open_for_search(args, &request.config, output).await?;
    let response = engine.search(&request).await?;
    if output.is_json() {
        output.json(&wire::search(&response))?;
    } else {
        for warning in &response.warnings {
            output.warning(warning);
        }
        output.text(&explain::answer(&response, search.explain));
    }
    Ok(u8::from(response.context.passages.is_empty()))
}

/// What is asked of the engine.
pub(super) fn request(args: &Args, question: &args::Question) -> anyhow::Result<SearchRequest> {
    let args::Question { query, also, budget, limit, expand, filters } = question;
    if std::iter::once(query).chain(also).any(|query| query.trim().is_empty()) {
        return Err(usage(
            "the question is empty",
            "write `umbel search \"how are refunds paid out\"`",
        ));
    }
    let budget = budget.map(|budget| format!("search.budget={budget}"));
    let expand = expand.as_ref().map(|expand| format!("search.expand=\"{expand}\""));
    let flags: Vec<String> = budget.into_iter().chain(expand).collect();
    Ok(SearchRequest {
        query: query.clone(),
        also: also.clone(),
        filter: Filter::parse(filters).map_err(EngineError::from)?,
        limit: limit.map(|limit| limit as usize),
        cursor: None,
        config: configuration(args, &flags)?,
    })
}
