//! Judgments of other tools, TREC and BEIR → ours, by document.
//!
//! Invariant: a grade of 0 or less says that a document is not relevant, and becomes nothing.

use super::{Claim, Judgment};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What an import gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Import {
    /// One judgment a query that has something relevant, in the order of their ids in the judgments' file.
    pub judgments: Vec<Judgment<Claim>>,
    /// Queries with nothing relevant, which no judgment can be made of.
    pub without_relevant: usize,
    /// Judged queries whose question is not given.
    pub without_question: usize,
}

/// Why judgments of another tool could not be read. Lines count from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A line of the judgments does not have the fields it should.
    #[error("{file} line {line}: `{got}` is not `{wanted}`")]
    Line {
        /// Which file: `qrels` or `queries`.
        file: &'static str,
        /// Where.
        line: usize,
        /// The line.
        got: String,
        /// Its fields.
        wanted: &'static str,
    },
    /// A line of the queries is no JSON of the kind that BEIR writes.
    #[error("queries line {line}: not a query")]
    Json {
        /// Where.
        line: usize,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// The same document is judged twice for one query.
    #[error("qrels line {line}: `{doc}` is judged for `{id}` already")]
    Duplicate {
        /// Where.
        line: usize,
        /// The query.
        id: String,
        /// The document.
        doc: String,
    },
}

impl ImportError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            ImportError::Line { .. } => "fields are separated by blanks or tabs",
            ImportError::Json { .. } => r#"one object a line: {"_id", "text"}"#,
            ImportError::Duplicate { .. } => "keep one grade of the two",
        }
    }
}

/// Judgments from TREC's `qrels` (`query iteration document grade`) and a file of questions (`query<TAB>question`).
///
/// `name` says what a document is called in the store.
///
/// # Errors
/// The first line that cannot be used.
pub fn trec(
    qrels: &str,
    queries: &str,
    name: impl Fn(&str) -> String,
) -> Result<Import, ImportError> {
    let mut questions = BTreeMap::new();
    for (line, content) in lines(queries) {
        let wanted = "query<TAB>question";
        let got = || content.to_owned();
        let (id, question) = content.split_once('\t').ok_or_else(|| ImportError::Line {
            file: "queries",
            line,
            got: got(),
            wanted,
        })?;
        questions.insert(id.trim().to_owned(), question.trim().to_owned());
    }
    let grades = lines(qrels).map(|(line, content)| {
        let fields: Vec<&str> = content.split_whitespace().collect();
        match fields.as_slice() {
            [id, _, doc, grade] => graded(id, doc, grade).map(|grade| (line, grade)),
            _ => None,
        }
        .ok_or_else(|| wrong(line, content, "query iteration document grade"))
    });
    judgments(grades, &questions, name)
}

#[derive(Deserialize)]
struct BeirQuery {
    #[serde(rename = "_id")]
    id: String,
    text: String,
}

/// Judgments from a BEIR folder's `qrels/*.tsv` (`query-id corpus-id score`, with a header) and `queries.jsonl`.
///
/// `name` says what a document is called in the store.
///
/// # Errors
/// The first line that cannot be used.
pub fn beir(
    qrels: &str,
    queries: &str,
    name: impl Fn(&str) -> String,
) -> Result<Import, ImportError> {
    let mut questions = BTreeMap::new();
    for (line, content) in lines(queries) {
        let query: BeirQuery =
            serde_json::from_str(content).map_err(|source| ImportError::Json { line, source })?;
        questions.insert(query.id, query.text);
    }
    let rows = lines(qrels).filter(|(_, content)| !content.starts_with("query-id"));
    let grades = rows.map(|(line, content)| {
        let fields: Vec<&str> = content.split('\t').map(str::trim).collect();
        match fields.as_slice() {
            [id, doc, grade] => graded(id, doc, grade).map(|grade| (line, grade)),
            _ => None,
        }
        .ok_or_else(|| wrong(line, content, "query-id<TAB>corpus-id<TAB>score"))
    });
    judgments(grades, &questions, name)
}

/// A query, a document and its grade.
type Graded = (String, String, f64);

fn graded(id: &str, doc: &str, grade: &str) -> Option<Graded> {
    let grade: f64 = grade.parse().ok()?;
    grade.is_finite().then(|| (id.to_owned(), doc.to_owned(), grade))
}

fn wrong(line: usize, content: &str, wanted: &'static str) -> ImportError {
    ImportError::Line { file: "qrels", line, got: content.to_owned(), wanted }
}

/// Lines with something in them, by number from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let all = text.trim_start_matches('\u{feff}').lines().enumerate();
    all.map(|(index, line)| (index + 1, line)).filter(|(_, line)| !line.trim().is_empty())
}

fn judgments(
    grades: impl Iterator<Item = Result<(usize, Graded), ImportError>>,
    questions: &BTreeMap<String, String>,
    name: impl Fn(&str) -> String,
) -> Result<Import, ImportError> {
    let mut by_query: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    for row in grades {
        let (line, (id, doc, grade)) = row?;
        let judged = by_query.entry(id.clone()).or_default();
        if judged.insert(doc.clone(), grade).is_some() {
            return Err(ImportError::Duplicate { line, id, doc });
        }
    }
    let mut import = Import { judgments: Vec::new(), without_relevant: 0, without_question: 0 };
    for (id, judged) in by_query {
        let relevant: Vec<Claim> = judged
            .into_iter()
            .filter(|(_, grade)| *grade > 0.0)
            .map(|(doc, grade)| whole(name(&doc), grade))
            .collect();
        match questions.get(&id) {
            None => import.without_question += 1,
            Some(_) if relevant.is_empty() => import.without_relevant += 1,
            Some(query) => import.judgments.push(Judgment {
                id,
                query: query.clone(),
                answers: Vec::new(),
                group: None,
                relevant,
            }),
        }
    }
    Ok(import)
}

/// A whole document. A grade of 1 is what an absent one says.
fn whole(doc: String, grade: f64) -> Claim {
    let grade = Some(grade).filter(|grade| (grade - 1.0).abs() > f64::EPSILON);
    Claim { doc, start: None, end: None, node: None, text: None, grade }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERIES: &str = "1\twhat flies\n2\twhat swims\n";

    /// `id: doc grade, …` a judgment, or the error's text.
    fn check(got: Result<Import, ImportError>, expected: &str) {
        let text = match got {
            Ok(import) => {
                let row = |j: &Judgment<Claim>| {
                    let docs: Vec<String> = j
                        .relevant
                        .iter()
                        .map(|c| format!("{} {}", c.doc, c.grade.unwrap_or(1.0)))
                        .collect();
                    format!("{}: {}", j.id, docs.join(", "))
                };
                let rows: Vec<String> = import.judgments.iter().map(row).collect();
                let left = (import.without_relevant, import.without_question);
                format!("{} {left:?}", rows.join("; "))
            }
            Err(error) => {
                assert!(!error.hint().is_empty());
                error.to_string()
            }
        };
        assert_eq!(text, expected);
    }

    fn check_trec(qrels: &str, expected: &str) {
        check(trec(qrels, QUERIES, |doc| format!("{doc}.txt")), expected);
    }

    #[test]
    fn trec_grades_above_0_are_relevant() {
        check_trec("1 0 a 2\n1 0 b 0\n1 0 c 1\n2 0 a 0\n3 0 a 1\n", "1: a.txt 2, c.txt 1 (1, 1)");
    }

    #[test]
    fn an_error_names_its_line() {
        check_trec(
            "1 0 a 1\n1 0 b",
            "qrels line 2: `1 0 b` is not `query iteration document grade`",
        );
        check_trec(
            "1 0 a NaN",
            "qrels line 1: `1 0 a NaN` is not `query iteration document grade`",
        );
        check_trec("1 0 a 1\n1 0 a 2", "qrels line 2: `a` is judged for `1` already");
        check(
            trec("", "no tab", str::to_owned),
            "queries line 1: `no tab` is not `query<TAB>question`",
        );
    }

    #[test]
    fn beir_has_a_header_and_questions_in_json() {
        let queries = r#"{"_id":"q","text":"what flies","metadata":{}}"#;
        let qrels = "query-id\tcorpus-id\tscore\nq\td 1\t1\nq\td2\t0\n";
        check(beir(qrels, queries, str::to_owned), "q: d 1 1 (0, 0)");
        check(
            beir("q\td", queries, str::to_owned),
            "qrels line 1: `q\td` is not `query-id<TAB>corpus-id<TAB>score`",
        );
        check(beir(qrels, "{", str::to_owned), "queries line 1: not a query");
    }
}
