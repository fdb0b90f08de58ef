//! A run that another tool wrote in TREC's format → a run of ranked documents.
//!
//! Invariant: a document is one leaf of one byte, and nothing is delivered: what a list of documents cannot answer is refused.

use super::{Candidate, Delivery, Entry, Identity, JudgedLeaf, RUN_VERSION, Run, Spot, Unit};
use crate::judgment::{Claim, Judgment, Reference};
use std::collections::{BTreeMap, BTreeSet};
use umbel_core::hit::LeafRecord;
use umbel_core::id::{DocId, LeafId};
use umbel_core::span::Span;

/// Where a document stands in itself.
const WHOLE: Span = Span { start: 0, end: 1 };

/// What an import gave.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedRun {
    /// One entry a judged query; its list is empty where the file has none.
    pub run: Run,
    /// Judged queries of which the file has no line: they count as answered with nothing.
    pub without_list: usize,
    /// Queries of the file that are not judged: they are left out.
    pub unjudged: usize,
}

/// Why a run of another tool could not be read. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrecRunError {
    /// There is no line with anything in it.
    #[error("no line in it")]
    Empty,
    /// A line does not have the fields it should.
    #[error("line {line}: `{got}` is not `query Q0 document rank score tag`")]
    Line {
        /// Where.
        line: usize,
        /// The line.
        got: String,
    },
    /// A score that is no number to rank by.
    #[error("line {line}: score `{score}` of `{id}` is no finite number")]
    Score {
        /// Where.
        line: usize,
        /// The query.
        id: String,
        /// The score.
        score: String,
    },
    /// A document stands twice in one list.
    #[error("line {line}: `{doc}` is in the list of `{id}` already")]
    Duplicate {
        /// Where.
        line: usize,
        /// The query.
        id: String,
        /// The document.
        doc: String,
    },
    /// No query of it is judged.
    #[error("none of its queries is judged")]
    Strange,
}

impl TrecRunError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            TrecRunError::Duplicate { .. } => "keep one line of the two",
            TrecRunError::Strange => {
                "name the judgments of these queries with --queries: `umbel eval import trec` makes them of qrels"
            }
            _ => "fields are separated by blanks or tabs; higher scores are better",
        }
    }
}

/// A run of ranked documents from the lines `query Q0 document rank score tag`. Judgments are taken by document; a document's grade is the
/// largest of its references. `queries` is the hash of the judgments, `name` says what the judgments call a document.
///
/// As trec_eval does, the order is that of falling scores, ties by falling document id; ranks are not looked at.
///
/// # Errors
/// The first line that cannot be used, by its number.
pub fn trec_run(
    text: &str,
    judgments: &[Judgment<Claim>],
    queries: &str,
    name: impl Fn(&str) -> String,
) -> Result<ImportedRun, TrecRunError> {
    let (lists, tag) = lists(text)?;
    let known: BTreeSet<&str> = judgments.iter().map(|judgment| judgment.id.as_str()).collect();
    let unjudged = lists.keys().filter(|id| !known.contains(**id)).count();
    if unjudged == lists.len() {
        return Err(TrecRunError::Strange);
    }
    let nothing = Vec::new();
    let list = |judgment: &Judgment<Claim>| lists.get(judgment.id.as_str()).unwrap_or(&nothing);
    let judged: Vec<&Judgment<Claim>> =
        judgments.iter().filter(|judgment| !judgment.relevant.is_empty()).collect();
    let entries: Vec<Entry> =
        judged.iter().map(|judgment| entry(judgment, list(judgment), &name)).collect();
    let longest = entries.iter().map(|entry| entry.candidates.len()).max().unwrap_or_default();
    let identity = Identity {
        run: RUN_VERSION,
        code: tag,
        data: String::new(),
        index: String::new(),
        model: None,
        queries: queries.to_owned(),
        judged: entries.len(),
        unjudged: judgments.len() - judged.len(),
        clusters: None,
        config: String::new(),
        settings: String::new(),
        candidates: longest,
        depth: longest,
        replays: false,
        unit: Unit::Document,
    };
    let without_list = entries.iter().filter(|entry| entry.candidates.is_empty()).count();
    Ok(ImportedRun { run: Run { identity, entries }, without_list, unjudged })
}

/// Documents with their scores, by query.
type Lists<'t> = BTreeMap<&'t str, Vec<(&'t str, f64)>>;

/// The documents of each query, best first, and the tag of the first line.
fn lists(text: &str) -> Result<(Lists<'_>, String), TrecRunError> {
    let mut lists = Lists::new();
    let mut seen = BTreeSet::new();
    let mut tag = None;
    for (index, content) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = index + 1;
        let fields: Vec<&str> = content.split_whitespace().collect();
        let (id, doc, score) = match fields[..] {
            [] => continue,
            [id, _, doc, _, score, of] => {
                tag.get_or_insert(of);
                (id, doc, score)
            }
            _ => return Err(TrecRunError::Line { line, got: content.to_owned() }),
        };
        let value = score.parse::<f64>().ok().filter(|value| value.is_finite());
        let value = value.ok_or_else(|| TrecRunError::Score {
            line,
            id: id.to_owned(),
            score: score.to_owned(),
        })?;
        if !seen.insert((id, doc)) {
            let (id, doc) = (id.to_owned(), doc.to_owned());
            return Err(TrecRunError::Duplicate { line, id, doc });
        }
        lists.entry(id).or_default().push((doc, value));
    }
    for list in lists.values_mut() {
        list.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(b.cmp(a)));
    }
    tag.map(|tag| (lists, tag.to_owned())).ok_or(TrecRunError::Empty)
}

fn entry(judgment: &Judgment<Claim>, list: &[(&str, f64)], name: impl Fn(&str) -> String) -> Entry {
    let ranked: Vec<String> = list.iter().map(|(doc, _)| name(doc)).collect();
    let mut grades: BTreeMap<&str, Option<f64>> = BTreeMap::new();
    for claim in &judgment.relevant {
        let grade = grades.entry(&claim.doc).or_insert(claim.grade);
        if claim.grade.unwrap_or(1.0) > grade.unwrap_or(1.0) {
            *grade = claim.grade;
        }
    }
    let judged = grades.keys().map(|doc| (*doc).to_owned());
    let docs: BTreeSet<String> = ranked.iter().cloned().chain(judged).collect();
    let docs: Vec<String> = docs.into_iter().collect();
    let place = |doc: &str| docs.binary_search_by(|known| known.as_str().cmp(doc)).ok();
    let spot = |doc: &str| Some(Spot { doc: place(doc)? as u32, span: WHOLE });
    let id = |doc: &str| LeafId::of("", doc, "", 0);
    let candidate = |(doc, (_, score)): (&String, &(&str, f64))| {
        let record = LeafRecord {
            leaf: id(doc),
            doc: DocId(u64::from(spot(doc)?.doc)),
            span: WHOLE,
            ordinal: 0,
            tokens: 0,
            node: 0,
            ancestors: Vec::new(),
            cluster: id(doc).into(),
        };
        Some(Candidate { record, dense: Some(*score as f32), lexical: None })
    };
    let candidates: Vec<Candidate> = ranked.iter().zip(list).filter_map(candidate).collect();
    Entry {
        id: judgment.id.clone(),
        query: judgment.query.clone(),
        answers: judgment.answers.clone(),
        group: judgment.group.clone(),
        relevant: grades
            .iter()
            .map(|(doc, &grade)| Reference {
                doc: (*doc).to_owned(),
                start: WHOLE.start,
                end: WHOLE.end,
                grade,
            })
            .collect(),
        leaves: grades
            .keys()
            .filter_map(|doc| {
                let cluster = umbel_core::id::ClusterId::from(id(doc)).to_string();
                Some(JudgedLeaf { spot: spot(doc)?, cluster, copies: Vec::new() })
            })
            .collect(),
        delivery: Delivery {
            ranked: (0..candidates.len() as u32).collect(),
            ..Delivery::default()
        },
        candidates,
        docs,
        outcome: None,
        warnings: Vec::new(),
        took_us: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judgment::parse;
    use crate::measure::Measure;

    const JUDGED: &str = r#"{"id":"1","query":"lake","relevant":[{"doc":"a","grade":3},{"doc":"c"}]}
{"id":"2","query":"mud","relevant":[{"doc":"b"}]}"#;

    fn imported(lines: &str) -> Result<ImportedRun, TrecRunError> {
        trec_run(lines, &parse(JUDGED).unwrap(), "hash", str::to_owned)
    }

    fn ranked(lines: &str) -> Vec<String> {
        let run = imported(lines).unwrap().run;
        let entry = &run.entries[0];
        let places = entry.ranked(&entry.delivery).filter_map(|c| entry.place(c.spot()));
        places.map(|place| place.doc.to_owned()).collect()
    }

    #[test]
    fn lists_are_in_falling_score_and_ties_in_falling_id() {
        let lines = "1 Q0 a 1 0.5 t\n1 Q0 b 9 0.5 t\n\n1 Q0 c 3 7e-1 t\n";
        assert_eq!(ranked(lines), ["c", "b", "a"]);
    }

    #[test]
    fn figures_are_those_of_trec_eval() {
        // By hand: gains 0, 1, 3 against 3, 1.
        let run = imported("1 Q0 b 1 3 t\n1 Q0 c 2 2 t\n1 Q0 a 3 1 t\n").unwrap().run;
        let check = |measure: &str, first: f64, second: f64| {
            let measure: Measure = measure.parse().unwrap();
            for (entry, expected) in run.entries.iter().zip([first, second]) {
                let got = measure.value(entry, &entry.delivery).unwrap();
                assert!((got - expected).abs() < 1e-9, "{measure}: {got} is not {expected}");
            }
        };
        let third = 1.0 / 3_f64.log2();
        check("nDCG@3", (third + 3.0 / 2.0) / (3.0 + third), 0.0);
        check("R@2", 0.5, 0.0);
        check("MRR", 0.5, 0.0);
    }

    #[test]
    fn what_a_list_cannot_answer_is_refused() {
        let found = imported("1 Q0 a 1 3 t\n9 Q0 a 1 3 t\n").unwrap();
        assert_eq!((found.without_list, found.unjudged, found.run.entries.len()), (1, 1, 2));
        for measure in ["EvidenceRecall", "Tokens", "Success(any>0)", "R@2"] {
            let measure: Measure = measure.parse().unwrap();
            measure.supported_by(&found.run.identity).unwrap_err();
        }
        "R@1".parse::<Measure>().unwrap().supported_by(&found.run.identity).unwrap();
    }

    #[test]
    fn lines_that_cannot_be_used_are_named() {
        let check = |lines: &str, words: &str| {
            let error = imported(lines).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        check("", "no line");
        check("1 Q0 a 1 3\n", "line 1");
        check("1 Q0 a 1 3 t\n1 Q0 b 2 NaN t\n", "line 2: score `NaN`");
        check("1 Q0 a 1 3 t\n1 Q0 a 2 2 t\n", "line 2: `a` is in the list of `1` already");
        check("7 Q0 a 1 3 t\n", "none of its queries");
    }
}
