//! Questions, evidence and answers → what a judge is told, what its reply says, and what all replies come to.
//!
//! Invariant: a reply that cannot be read is no verdict, and neither are two judges who contradict each other; both are counted.

mod grade;
mod preference;
mod reply;

pub use grade::{Grade, GradeReport, GradeStratum, Graded, grade_report, grade_told};
pub use preference::{
    Compared, Preference, PreferenceReport, PreferenceStratum, a_first, preference_report,
    preference_told,
};

/// Bytes of evidence that a judge is shown at the most; what is beyond is cut, and said to be.
pub const EVIDENCE_BYTES: usize = 8_000;

/// What a judge is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// How to judge.
    pub system: String,
    /// What to judge.
    pub user: String,
}

/// What is known of the right answer to a question.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known<'k> {
    /// The question.
    pub question: &'k str,
    /// Right answers, if any are known.
    pub answers: &'k [String],
    /// The judged spans.
    pub evidence: &'k [&'k str],
}

impl Known<'_> {
    /// The parts of what a judge is shown before the answers.
    fn parts(&self) -> Vec<String> {
        let mut parts = vec![part("question", self.question)];
        parts.extend(self.answers.iter().map(|answer| part("right_answer", answer)));
        let mut room = EVIDENCE_BYTES;
        for evidence in self.evidence {
            let end = evidence.floor_char_boundary(room);
            let cut = if end < evidence.len() { " […]" } else { "" };
            parts.push(part(
                "evidence",
                &format!("{}{cut}", evidence.get(..end).unwrap_or_default()),
            ));
            room -= end;
            if room == 0 {
                break;
            }
        }
        parts
    }
}

/// A text between tags; tags of the same name inside of it are taken apart.
fn part(name: &str, text: &str) -> String {
    let closing = format!("</{name}>");
    format!("<{name}>\n{}\n{closing}", text.replace(&closing, &format!("</ {name}>")))
}
