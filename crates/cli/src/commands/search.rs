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
    if std::iter::once(&search.query).chain(&search.also).any(|query| query.trim().is_empty()) {
        return Err(usage(
            "the question is empty",
            "write `umbel search \"how are refunds paid out\"`",
        ));
    }
    let budget = search.budget.map(|budget| format!("search.budget={budget}"));
    let expand = search.expand.as_ref().map(|expand| format!("search.expand=\"{expand}\""));
    let flags: Vec<String> = budget.into_iter().chain(expand).collect();
    let config = configuration(args, &flags)?;
    let filter = Filter::parse(&search.filters).map_err(EngineError::from)?;
    let engine = open_for_search(args, &config, output).await?;
    let response = engine
        .search(&SearchRequest {
            query: search.query.clone(),
            also: search.also.clone(),
            filter,
            limit: search.limit.map(|limit| limit as usize),
            config,
        })
        .await?;
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
