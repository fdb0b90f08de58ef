//! `umbel dupes policies`.

use crate::args::{self, Args};
use crate::commands::eval::judgments_in_store;
use crate::commands::{configuration, open_for_search};
use crate::output::{Output, counted, usage};
use serde::Serialize;
use std::ops::ControlFlow;
use umbel::core::collapse::Policy;
use umbel::engine::Engine;
use umbel::engine::answer::{SearchRequest, SearchResponse};
use umbel::engine::log::{Days, QueryLog, now};
use umbel::store::Layout;
use umbel_eval::agreement::Agreement;
use umbel_eval::collapse::name;
use umbel_eval::judgment::Judgment;
use umbel_eval::metric::{Evidence, Place, evidence};
use umbel_eval::share::{Share, points};

#[derive(Debug, Serialize)]
struct PoliciesJson {
    searches: usize,
    agreement: Agreement,
    score_alone: Option<Share>,
    fresh_alone: Option<Share>,
    authority_alone: Option<Share>,
    /// Empty without judgments.
    outcomes: Vec<OutcomeJson>,
}

/// What a policy delivers of the evidence.
#[derive(Debug, Serialize)]
struct OutcomeJson {
    policy: &'static str,
    questions: usize,
    /// Evidence recall in bytes, the mean over the questions, 0 to 1; null without questions.
    recall: Option<f64>,
    /// Questions whose evidence is covered, each reference to 95 % of its bytes.
    full: Share,
}

pub(crate) async fn run(
    args: &Args,
    asked: &args::Policies,
    output: &Output,
) -> anyhow::Result<u8> {
    let judged = match &asked.judgments {
        Some(file) => judgments_in_store(args, file, false, output).await?.0,
        None => Vec::new(),
    };
    let questions = questions(args, asked, &judged)?;
    let config = configuration(args, &["log.enabled=false".to_owned()])?;
    let engine = open_for_search(args, &config, output).await?;
    let mut choices = Vec::new();
    for question in &questions {
        choices.extend(engine.choices(&SearchRequest::new(question, config.clone())).await?);
    }
    let agreement = Agreement::of(choices.iter().map(|choice| choice.speakers));
    let mut outcomes = Vec::new();
    if !judged.is_empty() {
        for policy in Policy::ALL {
            outcomes.push(outcome(args, &engine, policy, &judged).await?);
        }
    }
    let report = PoliciesJson {
        searches: questions.len(),
        agreement,
        score_alone: agreement.score_alone(),
        fresh_alone: agreement.fresh_alone(),
        authority_alone: agreement.authority_alone(),
        outcomes,
    };
    if output.is_json() {
        output.json(&report)?;
    } else {
        print(&report, output);
    }
    Ok(u8::from(agreement.clusters == 0))
}

/// The questions that were typed, else those that are judged, else those of the log.
fn questions(
    args: &Args,
    asked: &args::Policies,
    judged: &[Judgment],
) -> anyhow::Result<Vec<String>> {
    if !asked.questions.is_empty() {
        return Ok(asked.questions.clone());
    }
    if !judged.is_empty() {
        return Ok(judged.iter().map(|judgment| judgment.query.clone()).collect());
    }
    let days = asked.days.map_or_else(Days::default, |n| Days::last(n, now()));
    let mut questions = Vec::new();
    QueryLog::of(&Layout::new(&args.store)).read(days, &mut |record| {
        questions.extend(record.queries.into_iter().flatten().next());
        ControlFlow::Continue(())
    })?;
    if questions.is_empty() {
        return Err(usage(
            "the log holds no question",
            "write `umbel dupes policies \"how are refunds paid out\"`, or name judged ones with `--judgments FILE`",
        ));
    }
    Ok(questions)
}

/// What a policy delivers of the judged evidence.
async fn outcome(
    args: &Args,
    engine: &Engine,
    policy: Policy,
    judged: &[Judgment],
) -> anyhow::Result<OutcomeJson> {
    let sets = ["log.enabled=false".to_owned(), format!("collapse.policy={}", name(policy))];
    let config = configuration(args, &sets)?;
    let mut found = Vec::new();
    for judgment in judged {
        let request = SearchRequest::new(&judgment.query, config.clone());
        found.extend(delivered(&engine.search(&request).await?, judgment));
    }
    let recall: f64 = found.iter().map(Evidence::recall).sum();
    Ok(OutcomeJson {
        policy: name(policy),
        questions: found.len(),
        recall: (!found.is_empty()).then(|| recall / found.len() as f64),
        full: Share::count_of(&found, Evidence::is_full),
    })
}

/// How much of a judgment's evidence was delivered.
fn delivered(response: &SearchResponse, judgment: &Judgment) -> Option<Evidence> {
    let place = |passage: &umbel::core::pack::Passage| {
        let stored = response.documents.get(&passage.doc)?;
        Some((stored.entry.name.as_str(), passage.span))
    };
    let places = response.context.passages.iter().filter_map(place);
    let places: Vec<Place<'_>> = places.map(|(doc, span)| Place { doc, span }).collect();
    evidence(&places, &judgment.relevant)
}

fn print(report: &PoliciesJson, output: &Output) {
    let agreement = &report.agreement;
    output.line(format!(
        "{} of several members in {}",
        counted(agreement.clusters as usize, "cluster", "clusters"),
        counted(report.searches, "search", "searches")
    ));
    let rows = [
        ("all three agree", agreement.share(Some(agreement.all))),
        ("score and fresh agree", agreement.share(agreement.score_fresh)),
        ("score and authority agree", agreement.share(agreement.score_authority)),
        ("fresh and authority agree", agreement.share(agreement.fresh_authority)),
        ("score stands alone", report.score_alone),
        ("fresh stands alone", report.fresh_alone),
        ("authority stands alone", report.authority_alone),
    ];
    for (what, share) in rows {
        let share = share.map_or_else(|| "not known".to_owned(), |share| share.to_string());
        output.line(format!("{what:<26} {share}"));
    }
    for outcome in &report.outcomes {
        let recall = outcome.recall.map_or_else(|| "not known".to_owned(), points);
        output.line(format!(
            "policy {:<10} evidence recall {recall} %, full evidence {}",
            outcome.policy, outcome.full
        ));
    }
}
