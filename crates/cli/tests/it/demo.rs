//! The first command of the README, with the real model.

use crate::cli::{Place, list, text};
use serde_json::Value;

#[test]
fn the_demo_shows_a_leaf_a_fired_merge_and_a_cropped_parent() {
    let place = Place::new();
    let lines = place.run(&["demo", "--dir", "store", "--json"]).succeeds().stdout();
    let answers: Vec<Value> =
        lines.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let best = |at: usize| text(&answers[at], "/context/passages/0/kind");
    assert_eq!((answers.len(), best(0), best(1), best(2)), (3, "leaf", "merged", "cropped"));
    assert_eq!(answers[1]["trace"]["fired"], true);
    assert!(!list(&answers[2], "/trace/crops").is_empty());
}
