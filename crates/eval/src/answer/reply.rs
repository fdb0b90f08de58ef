//! A judge's reply → the label that it gives.
//!
//! Invariant: a reply in which no label stands where it was asked for gives none.

/// The label that a reply gives: its first word, in any case; or else the first label in capitals that no `NOT` stands before. What a
/// model thought aloud, `<think>…</think>`, is no part of its reply.
pub(super) fn label<'l>(reply: &str, labels: &[&'l str]) -> Option<&'l str> {
    let said = reply.rsplit_once("</think>").map_or(reply, |(_, said)| said);
    let words: Vec<&str> =
        said.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).collect();
    let named = |word: &str, exact: bool| {
        let same = |label: &&&str| {
            if exact { word == **label } else { word.eq_ignore_ascii_case(label) }
        };
        labels.iter().find(same).copied()
    };
    let first = words.first().and_then(|word| named(word, false));
    first.or_else(|| {
        let mut before = "";
        for &word in &words {
            if let Some(label) = named(word, true) {
                return (!before.eq_ignore_ascii_case("not")).then_some(label);
            }
            before = word;
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_the_first_word_or_stands_in_capitals() {
        let check = |reply: &str, expected: Option<&str>| {
            assert_eq!(label(reply, &["CORRECT", "INCORRECT"]), expected, "{reply}");
        };
        check("CORRECT. It names both.", Some("CORRECT"));
        check("**Incorrect**: the day is wrong, CORRECT would be Monday", Some("INCORRECT"));
        check("Verdict: INCORRECT", Some("INCORRECT"));
        check("<think>CORRECT?</think>\n\nINCORRECT", Some("INCORRECT"));
        check("The answer is NOT CORRECT", None);
        check("The answer is correct", None);
        check("", None);
        check("INCORRECTLY put", None);
    }
}
