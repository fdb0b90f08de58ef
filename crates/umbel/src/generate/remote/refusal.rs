//! A server's refusal → the parameter of the request that it does not take, and the request without it.
//!
//! Invariant: each parameter is given up once, so a request is sent again at most as often as there are parameters here.
//!
//! Source: OpenAI's reasoning models refuse `max_tokens` for `max_completion_tokens`, and every `temperature` but 1; older
//! servers know neither `max_completion_tokens` nor `stream_options`.

use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// What a request can do without, and the name under which the same can be asked for, if there is one.
const PARAMETERS: [(&str, Option<&str>); 4] = [
    ("max_tokens", Some("max_completion_tokens")),
    ("temperature", None),
    ("seed", None),
    ("stream_options", None),
];

/// What servers call a parameter that they do not take, in lower case.
const REFUSALS: [&str; 8] = [
    "unsupported",
    "not support",
    "not permitted",
    "not allowed",
    "unrecognized",
    "unknown",
    "unexpected",
    "deprecated",
];

/// The parameters that a server has refused so far.
#[derive(Debug, Default)]
pub(super) struct Refused(Mutex<BTreeSet<&'static str>>);

impl Refused {
    /// Takes out of a request what was refused before.
    pub(super) fn apply(&self, body: &mut Value) {
        for &parameter in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            give_up(body, parameter);
        }
    }

    /// What of a request was refused and has no other name.
    pub(super) fn left_out(&self, asked: &Value) -> Vec<&'static str> {
        let refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lost =
            PARAMETERS.into_iter().filter(|(_, other)| other.is_none()).map(|(name, _)| name);
        lost.filter(|name| refused.contains(name) && asked.get(name).is_some()).collect()
    }

    /// Whether an answer with this status refuses a parameter of the request; it is then taken out, now and from now on.
    pub(super) fn heed(&self, status: u16, answer: &str, body: &mut Value) -> bool {
        let Some(parameter) = refused(status, answer, body) else { return false };
        give_up(body, parameter);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(parameter);
        true
    }
}

/// The parameter of a request that an answer refuses.
fn refused(status: u16, answer: &str, body: &Value) -> Option<&'static str> {
    let answer = answer.to_lowercase();
    let is_refusal =
        matches!(status, 400 | 422) && REFUSALS.iter().any(|word| answer.contains(word));
    let mut names = PARAMETERS.into_iter().map(|(name, _)| name);
    names.find(|name| is_refusal && body.get(name).is_some() && answer.contains(name))
}

/// Takes a parameter out of a request, or gives it its other name.
fn give_up(body: &mut Value, parameter: &str) {
    let Some(fields) = body.as_object_mut() else { return };
    let Some(value) = fields.remove(parameter) else { return };
    let other =
        PARAMETERS.iter().find(|(name, _)| *name == parameter).and_then(|(_, other)| *other);
    if let Some(other) = other {
        fields.insert(other.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(status: u16, answer: &str, expected: Option<&str>) {
        let body = json!({"max_tokens": 9, "temperature": 0.0, "stream_options": {}});
        assert_eq!(refused(status, answer, &body), expected, "{status} {answer}");
    }

    #[test]
    fn a_parameter_that_an_answer_refuses_by_name_is_found() {
        let renamed = r#"{"error": {"message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."#;
        check(400, renamed, Some("max_tokens"));
        let fixed = r#"{"error": {"message": "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported."#;
        check(400, fixed, Some("temperature"));
        check(400, "`temperature` is deprecated for this model.", Some("temperature"));
        check(422, "stream_options: Extra inputs are not permitted", Some("stream_options"));
    }

    #[test]
    fn other_answers_refuse_nothing() {
        check(400, "temperature: should be less than or equal to 1", None);
        check(400, "max_tokens is too large: 100000", None);
        check(400, "Unsupported parameter: 'max_completion_tokens'", None);
        check(400, "Unsupported parameter: 'seed'", None);
        check(404, "the model does not support max_tokens", None);
    }

    #[test]
    fn what_is_refused_is_renamed_or_left_out_and_remembered() {
        let asked = json!({"model": "m", "max_tokens": 9, "temperature": 0.0});
        let (refused, mut sent) = (Refused::default(), asked.clone());
        assert!(refused.heed(400, "max_tokens is not supported", &mut sent));
        assert!(refused.heed(400, "unsupported value of temperature", &mut sent));
        assert!(!refused.heed(400, "unsupported value of temperature", &mut sent));
        assert_eq!(sent, json!({"model": "m", "max_completion_tokens": 9}));
        assert_eq!(refused.left_out(&asked), ["temperature"]);
        assert!(refused.left_out(&json!({"max_tokens": 9})).is_empty());
        let mut next = asked.clone();
        refused.apply(&mut next);
        assert_eq!(next, sent);
    }
}
