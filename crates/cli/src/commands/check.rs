//! `umbel check`.

use super::{configuration, embedder};
use crate::args::{self, Args};
use crate::interrupt;
use crate::output::{Output, counted, documents_and_leaves, number};
use umbel::engine::inspect::{Finding, Inspector};
use umbel::engine::repair::{config_of_store, rebuild, remove_index};
use umbel::engine::{Engine, IndexCheck, check_index, peek};

/// What a store was found to be.
struct Checked {
    documents: usize,
    leaves: usize,
    pending: usize,
    findings: Vec<Finding>,
    /// `None` where it could not be compared.
    index: Option<IndexCheck>,
}

impl Checked {
    fn index_problems(&self) -> usize {
        self.index.map_or(0, |index| index.missing + index.unknown)
    }

    fn is_sound(&self) -> bool {
        self.findings.is_empty() && self.index_problems() == 0
    }
}

pub(crate) async fn run(args: &Args, check: &args::Check, output: &Output) -> anyhow::Result<u8> {
    if !check.repair {
        let checked = look(args).await?;
        print(&checked, None, output)?;
        return Ok(u8::from(!checked.is_sound()));
    }
    interrupt::listen()?;
    let before = look(args).await?;
    if !before.is_sound() {
        repair(args, &before, output).await?;
    }
    let checked = look(args).await?;
    print(&checked, Some(&before), output)?;
    Ok(u8::from(!checked.is_sound()))
}

async fn look(args: &Args) -> anyhow::Result<Checked> {
    let inspector = Inspector::open(&args.store)?;
    let info = inspector.describe().await?;
    let findings = inspector.check().await?;
    let index = check_index(&args.store).await?;
    Ok(Checked {
        documents: info.documents,
        leaves: info.leaves,
        pending: info.pending,
        findings,
        index,
    })
}

async fn repair(args: &Args, checked: &Checked, output: &Output) -> anyhow::Result<()> {
    let config = config_of_store(&args.store, &configuration(args, &[])?).await?;
    let has_vectors = peek(&args.store).await?.model.is_some();
    let model = if has_vectors { Some(embedder(&config, output).await?) } else { None };
    if checked.index_problems() > 0 {
        remove_index(&args.store)?;
    }
    rebuild(&args.store, &config, model.as_deref(), &checked.findings).await?;
    let bar = output.progress();
    Engine::open(&args.store, config, model, &|step| bar.show(step)).await?;
    Ok(())
}

fn print(checked: &Checked, before: Option<&Checked>, output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        let rows = |findings: &[Finding]| {
            let row = |f: &Finding| serde_json::json!({ "doc": f.document, "problem": f.problem });
            findings.iter().map(row).collect::<Vec<_>>()
        };
        let index = |index: Option<IndexCheck>| {
            index.map(|i| serde_json::json!({ "missing": i.missing, "unknown": i.unknown }))
        };
        return output.json(&serde_json::json!({
            "documents": checked.documents,
            "leaves": checked.leaves,
            "violations": rows(&checked.findings),
            "index": index(checked.index),
            "repaired": before.map(|before| serde_json::json!({
                "violations": rows(&before.findings),
                "index": index(before.index),
            })),
        }));
    }
    if let Some(before) = before {
        output.line(format!(
            "before: {} violations, {} leaves of the index that do not agree with the catalog",
            number(before.findings.len()),
            number(before.index_problems())
        ));
    }
    for finding in &checked.findings {
        output.line(format!("{}: {}", finding.document, finding.problem));
    }
    output.line(format!(
        "{} checked: {}",
        documents_and_leaves(checked.documents, checked.leaves),
        counted(checked.findings.len(), "violation", "violations")
    ));
    match checked.index {
        None => output.warning(
            "the index was not compared: another process holds the store, or it cannot be written",
        ),
        Some(_) if checked.index_problems() == 0 => output
            .line(format!("index and catalog agree ({} to be applied)", number(checked.pending))),
        Some(index) => output.line(format!(
            "index: {} leaves missing, {} unknown",
            number(index.missing),
            number(index.unknown)
        )),
    }
    if !checked.is_sound() && before.is_none() {
        output.warning("`umbel check --repair` makes anew what can be derived");
    }
    Ok(())
}
