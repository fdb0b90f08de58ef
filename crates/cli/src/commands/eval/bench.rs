//! `umbel eval bench`: a public benchmark's folder → its table, with rows of ours.

mod ours;

use self::ours::Ours;
use super::{hash, read_judgments, unjudged};
use crate::args::Args;
use crate::args::eval::{ChromaBench, LocateBy};
use crate::commands::{configuration, embedder};
use crate::interrupt;
use crate::output::{Output, number, usage};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use umbel::core::offsets::TokenCounter;
use umbel::core::span::{Span, slice};
use umbel::embed::Embedder;
use umbel::engine::EngineError;
use umbel::tokens::OpenAiTokens;
use umbel_eval::chunking::{
    Characters, Chunk, Chunker, Figures, Locate, Spread, figures, located, precision_omega,
};
use umbel_eval::judgment::Page;

/// The chunkers of which the published table has PrecisionΩ.
const CUT: [Chunker; 8] = [
    Chunker::TokenText { size: 800, overlap: 400 },
    Chunker::TokenText { size: 400, overlap: 200 },
    Chunker::TokenText { size: 400, overlap: 0 },
    Chunker::TokenText { size: 200, overlap: 0 },
    Chunker::Recursive { size: 800, overlap: 400 },
    Chunker::Recursive { size: 400, overlap: 200 },
    Chunker::Recursive { size: 400, overlap: 0 },
    Chunker::Recursive { size: 200, overlap: 0 },
];
/// Those whose chunks a small model reads: it is asked for what it retrieves.
const RETRIEVED: [Chunker; 6] = [
    Chunker::TokenText { size: 250, overlap: 0 },
    Chunker::TokenText { size: 200, overlap: 0 },
    Chunker::TokenText { size: 250, overlap: 125 },
    Chunker::Recursive { size: 200, overlap: 0 },
    Chunker::Recursive { size: 250, overlap: 0 },
    Chunker::Recursive { size: 250, overlap: 125 },
];
/// Whose tokens our passages may use, in [`RETRIEVED`]: a good chunker of small chunks.
const COMPARED: Chunker = Chunker::Recursive { size: 200, overlap: 0 };
/// Texts that are embedded between two steps of the progress.
const BATCH: usize = 64;

/// The texts and questions of a benchmark.
struct Data {
    /// Names and texts, by name.
    texts: Vec<(String, String)>,
    characters: Vec<Characters>,
    questions: Vec<Question>,
    /// Hash of the judgments.
    queries: String,
}

/// A question on one text.
struct Question {
    query: String,
    text: usize,
    /// In characters.
    references: Vec<Span>,
}

#[derive(Serialize)]
struct BenchJson<'r> {
    benchmark: &'static str,
    questions: usize,
    /// Hash of the judgments.
    queries: &'r str,
    /// What embedded; null where nothing was.
    model: Option<&'r str>,
    locate: &'static str,
    top: usize,
    tokens: &'r str,
    rows: &'r [Row],
}

/// A row of the table.
#[derive(Debug, Clone, Serialize)]
struct Row {
    name: String,
    /// Null for a row that delivers no chunks.
    chunks: Option<usize>,
    /// Shares, 0 to 1.
    precision_omega: Option<Spread>,
    retrieval: Option<Retrieval>,
}

/// What a chunker retrieves; shares, 0 to 1.
#[derive(Debug, Clone, Serialize)]
struct Retrieval {
    recall: Spread,
    precision: Spread,
    iou: Spread,
    /// Tokens retrieved for a question, on average.
    tokens: f64,
}

pub(super) async fn chroma(
    args: &Args,
    asked: &ChromaBench,
    output: &Output,
) -> anyhow::Result<u8> {
    let data = Data::read(&asked.data)?;
    let config = configuration(args, &["leaf.tokenizer=cl100k_base".to_owned()])?;
    let model = if asked.no_model { None } else { Some(embedder(&config, output).await?) };
    interrupt::listen()?;
    let bench = Bench {
        data: &data,
        counter: OpenAiTokens::cl100k(),
        locate: match asked.locate {
            LocateBy::Exact => Locate::Exact,
            LocateBy::First => Locate::First,
        },
        top: asked.top.get(),
        output,
    };
    let rows = bench.rows(args, asked, model.as_ref()).await?;
    if rows.is_empty() {
        return Err(usage(
            format!("no row is called `{}`", asked.only.join("`, `")),
            "name one as the table does: `--only 'Recursive 200/0'`, `--only Umbel`",
        ));
    }
    if output.is_json() {
        output.json(&BenchJson {
            benchmark: "chroma",
            questions: data.questions.len(),
            queries: &data.queries,
            model: model.as_ref().map(|model| model.describe().model.as_str()),
            locate: word(bench.locate),
            top: bench.top,
            tokens: bench.counter.name(),
            rows: &rows,
        })?;
    } else {
        print(&bench, &rows, model.as_deref(), output);
    }
    Ok(0)
}

impl Data {
    fn read(folder: &Path) -> anyhow::Result<Data> {
        let corpus = folder.join("corpus");
        let missing = |error: std::io::Error| {
            usage(
                error.to_string(),
                "name a folder with `corpus/*.md` and `queries.jsonl`: {\"id\", \"query\", \"relevant\": [{\"doc\", \"start\", \"end\"}]}, spans in bytes",
            )
        };
        let mut texts = Vec::new();
        for entry in fs_err::read_dir(&corpus).map_err(missing)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                texts.push((name, fs_err::read_to_string(&path).map_err(missing)?));
            }
        }
        texts.sort();
        let path = folder.join("queries.jsonl");
        let (lines, judgments) = read_judgments(&path)?;
        let places: BTreeMap<&str, usize> =
            texts.iter().enumerate().map(|(at, (name, _))| (name.as_str(), at)).collect();
        let checked = umbel_eval::judgment::check(&judgments, |doc| {
            let (_, text) = texts.get(*places.get(doc)?)?;
            Some(Page { text, tree: None })
        });
        if !checked.unjudged.is_empty() {
            return Err(unjudged(&path, &checked));
        }
        let characters: Vec<Characters> =
            texts.iter().map(|(_, text)| Characters::of(text)).collect();
        let mut questions = Vec::new();
        for judgment in &checked.judged {
            let mut of: Vec<&str> = judgment.relevant.iter().map(|r| r.doc.as_str()).collect();
            of.dedup();
            let text = match of[..] {
                [doc] => places.get(doc).copied().unwrap_or_default(),
                _ => {
                    return Err(usage(
                        format!(
                            "`{}`: query `{}` has references in {} texts",
                            path.display(),
                            judgment.id,
                            of.len()
                        ),
                        "each question of this benchmark is of one text",
                    ));
                }
            };
            let characters = characters.get(text);
            questions.push(Question {
                query: judgment.query.clone(),
                text,
                references: judgment
                    .relevant
                    .iter()
                    .filter_map(|reference| Some(characters?.span(reference.span())))
                    .collect(),
            });
        }
        Ok(Data { texts, characters, questions, queries: hash(&lines) })
    }
}

/// What rows are made with.
struct Bench<'a> {
    data: &'a Data,
    counter: OpenAiTokens,
    locate: Locate,
    top: usize,
    output: &'a Output,
}

impl Bench<'_> {
    /// The rows of the published tables, then ours.
    async fn rows(
        &self,
        args: &Args,
        asked: &ChromaBench,
        model: Option<&std::sync::Arc<dyn Embedder>>,
    ) -> anyhow::Result<Vec<Row>> {
        let wanted = |name: &str| {
            asked.only.is_empty()
                || asked
                    .only
                    .iter()
                    .any(|only| name.to_lowercase().starts_with(&only.to_lowercase()))
        };
        let mut chunkers = CUT.to_vec();
        if model.is_some() {
            chunkers.extend(RETRIEVED.iter().filter(|chunker| !CUT.contains(chunker)));
        }
        let queries = match model {
            Some(model) => self.query_vectors(&**model).await?,
            None => Vec::new(),
        };
        let mut rows = Vec::new();
        let mut budget = None;
        for chunker in chunkers {
            let name = chunker.to_string();
            // Its tokens are the budget of a row of ours.
            if !(wanted(&name) || (chunker == COMPARED && wanted(ours::PASSAGES))) {
                continue;
            }
            let chunks = self.chunks(chunker);
            let retrieval = match model {
                Some(model) if RETRIEVED.contains(&chunker) => {
                    Some(self.retrieval(&**model, &chunks, &queries).await?)
                }
                _ => None,
            };
            if chunker == COMPARED {
                budget = retrieval.as_ref().map(|retrieval| retrieval.tokens.round() as usize);
            }
            if wanted(&name) {
                let chunks = self.placed(&chunks);
                let omega = Some(self.omega(&chunks));
                rows.push(Row {
                    name,
                    chunks: Some(chunks.len()),
                    precision_omega: omega,
                    retrieval,
                });
            }
        }
        if [ours::LEAVES, ours::HYBRID, ours::PASSAGES].into_iter().any(wanted) {
            let ours = Ours::open(args, self, &asked.data, model.cloned()).await?;
            rows.extend(ours.rows(budget).await?.into_iter().filter(|row| wanted(&row.name)));
        }
        Ok(rows)
    }

    /// The chunks of all texts, in bytes.
    fn chunks(&self, chunker: Chunker) -> Vec<Chunk> {
        let texts = self.data.texts.iter().enumerate();
        let of_text = |(text, (_, content)): (usize, &(String, String))| {
            let spans = chunker.chunks(content, &self.counter);
            spans.into_iter().map(move |span| Chunk { text, span }).collect::<Vec<_>>()
        };
        texts.flat_map(of_text).collect()
    }

    /// Chunks as they are located, in characters.
    fn placed(&self, chunks: &[Chunk]) -> Vec<Chunk> {
        let place = |chunk: &Chunk| {
            let (_, text) = self.data.texts.get(chunk.text)?;
            let span = located(text, chunk.span, self.locate);
            Some(Chunk { span: self.data.characters.get(chunk.text)?.span(span), ..*chunk })
        };
        chunks.iter().filter_map(place).collect()
    }

    /// PrecisionΩ over all questions, of chunks in characters.
    fn omega(&self, chunks: &[Chunk]) -> Spread {
        let mut of_text: BTreeMap<usize, Vec<Span>> = BTreeMap::new();
        for chunk in chunks {
            of_text.entry(chunk.text).or_default().push(chunk.span);
        }
        let of = |question: &Question| {
            let chunks = of_text.get(&question.text).map(Vec::as_slice).unwrap_or_default();
            precision_omega(&question.references, chunks)
        };
        Spread::of(&self.data.questions.iter().map(of).collect::<Vec<f64>>())
    }

    async fn query_vectors(&self, model: &dyn Embedder) -> anyhow::Result<Vec<Vec<f32>>> {
        let bar = self.output.progress();
        let mut vectors = Vec::with_capacity(self.data.questions.len());
        for (at, question) in self.data.questions.iter().enumerate() {
            if bar.step("embedding questions", at, self.data.questions.len()).is_break() {
                return Err(EngineError::Interrupted.into());
            }
            vectors.push(model.embed_query(&question.query).await?);
        }
        Ok(vectors)
    }

    /// What an exact search for the nearest chunks retrieves.
    async fn retrieval(
        &self,
        model: &dyn Embedder,
        chunks: &[Chunk],
        queries: &[Vec<f32>],
    ) -> anyhow::Result<Retrieval> {
        let texts: Vec<&str> = chunks
            .iter()
            .filter_map(|chunk| Some(slice(&self.data.texts.get(chunk.text)?.1, chunk.span)))
            .map(|text| fitting(text, model))
            .collect();
        let bar = self.output.progress();
        let mut vectors: Vec<Vec<f32>> = Vec::with_capacity(texts.len());
        for batch in texts.chunks(BATCH) {
            if bar.step("embedding chunks", vectors.len(), texts.len()).is_break() {
                return Err(EngineError::Interrupted.into());
            }
            vectors.extend(model.embed_passages(batch).await?);
        }
        let placed = self.placed(chunks);
        let nearest = |query: &Vec<f32>| -> Vec<usize> {
            let score =
                |vector: &Vec<f32>| query.iter().zip(vector).map(|(a, b)| a * b).sum::<f32>();
            let mut scored: Vec<(usize, f32)> = vectors.iter().map(score).enumerate().collect();
            scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            scored.into_iter().take(self.top).map(|(at, _)| at).collect()
        };
        let retrieved: Vec<(Vec<Chunk>, usize)> = queries
            .iter()
            .map(|query| {
                let nearest = nearest(query);
                let of = |list: &[Chunk]| {
                    nearest.iter().filter_map(|&at| list.get(at).copied()).collect::<Vec<_>>()
                };
                (of(&placed), self.tokens(&of(chunks)))
            })
            .collect();
        Ok(self.summed(&retrieved))
    }

    /// Tokens of chunks in bytes.
    fn tokens(&self, chunks: &[Chunk]) -> usize {
        let of = |chunk: &Chunk| {
            let (_, text) = self.data.texts.get(chunk.text)?;
            Some(self.counter.count(slice(text, chunk.span)))
        };
        chunks.iter().filter_map(of).sum()
    }

    /// The figures of what was retrieved for each question: chunks in characters, and tokens.
    fn summed(&self, retrieved: &[(Vec<Chunk>, usize)]) -> Retrieval {
        let questions = self.data.questions.iter().zip(retrieved);
        let all: Vec<Figures> = questions
            .map(|(question, (chunks, _))| figures(question.text, &question.references, chunks))
            .collect();
        let spread =
            |of: fn(&Figures) -> f64| Spread::of(&all.iter().map(of).collect::<Vec<f64>>());
        let tokens: usize = retrieved.iter().map(|(_, tokens)| tokens).sum();
        Retrieval {
            recall: spread(|figures| figures.recall),
            precision: spread(|figures| figures.precision),
            iou: spread(|figures| figures.iou),
            tokens: tokens as f64 / retrieved.len().max(1) as f64,
        }
    }
}

/// The beginning of a text that a model takes, to the last word: what other harnesses have their models cut off in silence.
fn fitting<'t>(text: &'t str, model: &dyn Embedder) -> &'t str {
    let limit = model.describe().max_tokens;
    if model.count_tokens(text) <= limit {
        return text;
    }
    let ends: Vec<usize> = text.match_indices(char::is_whitespace).map(|(at, _)| at).collect();
    let fits = |end: &usize| model.count_tokens(text.get(..*end).unwrap_or_default()) <= limit;
    let n = ends.partition_point(fits);
    let end = n.checked_sub(1).and_then(|at| ends.get(at)).copied();
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

fn word(locate: Locate) -> &'static str {
    match locate {
        Locate::Exact => "exact",
        Locate::First => "first",
    }
}

fn print(bench: &Bench<'_>, rows: &[Row], model: Option<&dyn Embedder>, output: &Output) {
    let how = match bench.locate {
        Locate::Exact => "where it was cut",
        Locate::First => "where its text stands first in its file",
    };
    let questions = number(bench.data.questions.len());
    output.line(format!("Chroma's chunking evaluation, {questions} questions; a chunk is {how}"));
    if let Some(model) = model {
        let model = &model.describe().model;
        output.line(format!(
            "{model}, the {} nearest of all texts; mean ± sd in per cent",
            bench.top
        ));
    }
    let widest = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or_default();
    output.line(format!(
        "{:<widest$} {:>7} {:>13} {:>13} {:>13} {:>13} {:>9}",
        "", "chunks", "PrecisionΩ", "recall", "precision", "IoU", "tokens"
    ));
    for row in rows {
        let cell = |spread: Option<Spread>| spread.map_or_else(String::new, |s| s.to_string());
        let of = |of: fn(&Retrieval) -> Spread| cell(row.retrieval.as_ref().map(of));
        let chunks = row.chunks.map_or_else(String::new, number);
        let tokens =
            row.retrieval.as_ref().map_or_else(String::new, |r| format!("{:.0}", r.tokens));
        let line = format!(
            "{:<widest$} {chunks:>7} {:>13} {:>13} {:>13} {:>13} {tokens:>9}",
            row.name,
            cell(row.precision_omega),
            of(|retrieval| retrieval.recall),
            of(|retrieval| retrieval.precision),
            of(|retrieval| retrieval.iou),
        );
        output.line(line.trim_end());
    }
}
