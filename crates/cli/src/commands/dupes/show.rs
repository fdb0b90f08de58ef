//! `umbel dupes show` and `umbel dupes report`.

use crate::args::{Args, DupesShow};
use crate::output::{Output, counted, number};
use serde_json::{Value, json};
use umbel::dedup::difference::{Change, Kept, difference};
use umbel::engine::dupes::view::{ClusterView, MemberView, Redundancy};
use umbel::engine::inspect::Inspector;
use umbel::engine::wire::SpanJson;
use umbel::metadata::show_date;

/// Words that are shown to the left and right of a difference.
const CONTEXT_WORDS: usize = 6;

pub(super) async fn run(args: &Args, show: &DupesShow, output: &Output) -> anyhow::Result<u8> {
    let inspector = Inspector::open(&args.store)?;
    if let Some(named) = &show.cluster {
        let clusters = inspector.clusters_named(named).await?;
        for view in inspector.cluster_views(&clusters).await? {
            show_one(&view, output)?;
        }
        return Ok(0);
    }
    let sizes = inspector.cluster_sizes().await?;
    let shown: Vec<_> = sizes.iter().take(show.limit).map(|&(cluster, _)| cluster).collect();
    let views = inspector.cluster_views(&shown).await?;
    if output.is_json() {
        let clusters: Vec<Value> = views.iter().map(|view| cluster_json(view, false)).collect();
        output.json(&json!({ "clusters": clusters, "of": sizes.len() }))?;
        return Ok(u8::from(sizes.is_empty()));
    }
    for view in &views {
        list_one(view, output);
    }
    output.line(match sizes.len() {
        0 => "no leaf has a duplicate that is marked: `umbel dupes run` looks for them".to_owned(),
        n => format!(
            "{} of {}; `umbel dupes show CLUSTER` says what their members differ in",
            number(views.len()),
            counted(n, "cluster", "clusters")
        ),
    });
    Ok(u8::from(sizes.is_empty()))
}

fn list_one(view: &ClusterView, output: &Output) {
    let begin = view.members.first().map(|member| beginning(&member.text)).unwrap_or_default();
    output.line(format!("{}  {}: {begin}", view.id, counted(view.members.len(), "leaf", "leaves")));
    for member in &view.members {
        output.line(format!("    {}", place(member)));
    }
}

/// The first words of a text.
fn beginning(text: &str) -> String {
    text.split_whitespace().take(12).collect::<Vec<_>>().join(" ")
}

/// Where a member stands, when it was changed and where it comes from.
fn place(member: &MemberView) -> String {
    let metadata = &member.document.metadata;
    let date =
        metadata.updated.map(|updated| format!("  {} ({})", show_date(updated.at), updated.from));
    let connector = metadata.connector.as_deref().map(|connector| format!("  {connector}"));
    format!(
        "{}:{}{}{}",
        member.document.name,
        member.span,
        date.unwrap_or_default(),
        connector.unwrap_or_default()
    )
}

fn show_one(view: &ClusterView, output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        return output.json(&cluster_json(view, true));
    }
    let Some((first, others)) = view.members.split_first() else { return Ok(()) };
    output.line(format!("cluster {}, {}", view.id, counted(view.members.len(), "leaf", "leaves")));
    output.line(format!("  {}\n", place(first)));
    for line in first.text.lines() {
        output.line(format!("  {line}"));
    }
    for member in others {
        output.line(format!("\n  {}", place(member)));
        output.line(format!("  {}", words(&difference(&first.text, &member.text))));
    }
    Ok(())
}

/// Differences in a line, as `within [-30-] {+60+} days`, with a few words around each.
fn words(changes: &[Change]) -> String {
    if changes.iter().all(|change| change.kept == Kept::Equal) {
        return "the same words".to_owned();
    }
    let shown = changes.iter().enumerate().map(|(at, change)| match change.kept {
        Kept::Removed => format!("[-{}-]", change.words),
        Kept::Added => format!("{{+{}+}}", change.words),
        Kept::Equal => {
            let words: Vec<&str> = change.words.split(' ').collect();
            let before = if at == 0 { 0 } else { CONTEXT_WORDS };
            let after = if at + 1 == changes.len() { 0 } else { CONTEXT_WORDS };
            if words.len() <= before + after {
                return change.words.clone();
            }
            let head = words.iter().take(before).copied();
            let tail = words.iter().skip(words.len() - after).copied();
            head.chain(["…"]).chain(tail).collect::<Vec<_>>().join(" ")
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn cluster_json(view: &ClusterView, with_texts: bool) -> Value {
    let first = view.members.first();
    let member = |member: &MemberView| {
        let metadata = &member.document.metadata;
        let mut row = json!({
            "leaf": member.leaf.to_string(),
            "doc": member.document.name,
            "span": SpanJson::from(member.span),
            "connector": metadata.connector,
            "source": member.document.source,
            "url": metadata.url,
            "updated_at": metadata.updated.map(|updated| show_date(updated.at)),
            "updated_from": metadata.updated.map(|updated| updated.from.name()),
        });
        if with_texts {
            let from = first.map_or("", |first| first.text.as_str());
            row["text"] = member.text.as_str().into();
            row["difference"] = json!(difference(from, &member.text));
        }
        row
    };
    json!({
        "cluster": view.id.to_string(),
        "members": view.members.iter().map(member).collect::<Vec<_>>(),
    })
}

pub(super) async fn report(args: &Args, output: &Output) -> anyhow::Result<u8> {
    let rows = Inspector::open(&args.store)?.redundancy().await?;
    if output.is_json() {
        let row = |row: &Redundancy| {
            json!({
                "a": row.a, "b": row.b, "clusters": row.clusters,
                "leaves_of_a": row.leaves_of_a.0, "all_of_a": row.leaves_of_a.1,
                "leaves_of_b": row.leaves_of_b.0, "all_of_b": row.leaves_of_b.1,
            })
        };
        output.json(&json!({ "pairs": rows.iter().map(row).collect::<Vec<_>>() }))?;
        return Ok(u8::from(rows.is_empty()));
    }
    if rows.is_empty() {
        output.line("no leaf has a duplicate that is marked: `umbel dupes run` looks for them");
        return Ok(1);
    }
    let share = |(some, all): (usize, usize)| {
        format!(
            "{} of {} ({:.1} %)",
            number(some),
            number(all),
            some as f64 / all.max(1) as f64 * 100.0
        )
    };
    for row in &rows {
        let clusters = counted(row.clusters, "cluster", "clusters");
        output.line(if row.a == row.b {
            format!("{} twice: {clusters}, {} of its leaves", row.a, share(row.leaves_of_a))
        } else {
            format!(
                "{} and {}: {clusters}, {} of the leaves of {}, {} of those of {}",
                row.a,
                row.b,
                share(row.leaves_of_a),
                row.a,
                share(row.leaves_of_b),
                row.b
            )
        });
    }
    Ok(0)
}
