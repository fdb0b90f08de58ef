//! A question and the passages that were found → what a generator is told.
//!
//! Invariant: what stands in passages or question is never taken for a place of the template.

use super::EngineError;
use crate::config::GenerateSettings;
use crate::generate::{GenerateRequest, Message};
use umbel_core::document::Document;

/// What is said to the model before the question, where no template is given.
const SYSTEM: &str = "Answer the question from the numbered passages below, and from nothing else. After each statement name the passages that it rests on, as [1] or [2][3]. If the passages do not hold the answer, say so.";
/// What is asked, where no template is given.
const PROMPT: &str = "{context}\n\nQuestion: {question}";

/// What stands between two passages.
pub(super) const SEPARATOR: &str = "\n\n";

/// How a question is put to a generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prompt<'t>(Option<&'t str>);

impl<'t> Prompt<'t> {
    /// A prompt in which `{context}` and `{question}` are replaced; `None` for the built-in one.
    ///
    /// # Errors
    /// [`EngineError::Template`]: the template lacks one of the two.
    pub fn new(template: Option<&'t str>) -> Result<Prompt<'t>, EngineError> {
        match template.and_then(missing_place) {
            Some(missing) => Err(EngineError::Template { missing }),
            None => Ok(Prompt(template)),
        }
    }

    /// What the generator is told: the passages as [`numbered`] writes them, and the question.
    pub fn messages(self, passages: &str, question: &str) -> Vec<Message> {
        // The question goes in first: what stands in the context is not replaced again.
        let fill = |template: &str| {
            let parts: Vec<String> = template
                .split("{context}")
                .map(|part| part.replace("{question}", question))
                .collect();
            Message::user(parts.join(passages))
        };
        match self.0 {
            Some(template) => vec![fill(template)],
            None => vec![Message::system(SYSTEM), fill(PROMPT)],
        }
    }
}

/// Passages as a generator is given them: numbered from 1, each under its headings. Each comes with its document, the smallest node
/// that contains it, and its text.
pub fn numbered<'d>(passages: impl IntoIterator<Item = (&'d Document, u32, String)>) -> String {
    let one = |(at, (document, node, text)): (usize, (&Document, u32, String))| {
        header(at + 1, document, node) + &text
    };
    passages.into_iter().enumerate().map(one).collect::<Vec<_>>().join(SEPARATOR)
}

/// What is asked of a generator by its settings.
pub fn request(messages: Vec<Message>, settings: &GenerateSettings) -> GenerateRequest {
    GenerateRequest {
        messages,
        max_tokens: (settings.max_tokens > 0).then_some(settings.max_tokens),
        temperature: Some(settings.temperature),
        ..GenerateRequest::default()
    }
}

/// The line before a passage: its number, and the headings above it.
pub(super) fn header(number: usize, document: &Document, node: u32) -> String {
    let tree = &document.tree;
    let path = tree.node(node).map(|node| tree.heading_texts(&node.path)).unwrap_or_default();
    let title = Some(document.title.clone()).filter(|title| path.first() != Some(title));
    let place: Vec<String> = title.into_iter().chain(path).collect();
    format!("[{number}] {}\n", place.join(" > "))
}

/// The place that a template lacks.
fn missing_place(template: &str) -> Option<&'static str> {
    ["{context}", "{question}"].into_iter().find(|place| !template.contains(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_filled_and_what_it_lacks_is_named() {
        let filled = |template: &str, context: &str| {
            Prompt::new(Some(template)).unwrap().messages(context, "why?")
        };
        let made = filled("Q: {question}\n{context}", "the {question} of {context}");
        assert_eq!(made, [Message::user("Q: why?\nthe {question} of {context}")]);
        assert_eq!(missing_place("{context}"), Some("{question}"));
        assert_eq!(missing_place("{question}"), Some("{context}"));
        assert_eq!(missing_place(PROMPT), None);
    }
}
