//! What is published about the shape of answers and of the log.

use std::path::Path;
use umbel::engine::{log, wire};

/// Set to write the published files anew.
const BLESS: &str = "UMBEL_BLESS";

fn check(name: &str, schema: &serde_json::Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema").join(name);
    let text = serde_json::to_string_pretty(schema).unwrap() + "\n";
    if std::env::var_os(BLESS).is_some() {
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, &text).unwrap();
    }
    let published = fs_err::read_to_string(&path).unwrap_or_default();
    assert!(published == text, "`{name}` is not up to date: run this test once with {BLESS}=1");
}

#[test]
fn the_published_schemas_are_those_of_answers_and_of_the_log() {
    check("search.json", &wire::schema());
    check("ask.json", &wire::ask_schema());
    check("log.json", &log::schema());
}
