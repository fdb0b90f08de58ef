//! The reranker against logits of transformers, and against a naive BERT.

use std::num::NonZero;

use super::*;
use crate::local::WEIGHTS;
use crate::local::bert::{self, BertConfig};
use crate::local::testing::{Random, assert_close, text_of, tiny};
use crate::local::weights::Precision;
use futures_lite::future::block_on;

fn load(folder: &Path) -> Result<LocalReranker, RerankError> {
    let name = Some("tiny".to_owned());
    LocalReranker::load(folder, &LocalOptions { name, threads: NonZero::new(2), int8: false })
}

/// A random cross-encoder in a folder.
fn random_model(random: &mut Random, prefix: &str) -> (tempfile::TempDir, tiny::Weights) {
    let mut weights = tiny::weights(random, prefix);
    tiny::add_classifier(&mut weights, random, prefix, 1);
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), &tiny::config(), &weights);
    (folder, weights)
}

#[test]
fn a_model_gives_the_logits_of_transformers() {
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/cross-encoder-tiny");
    let Ok(golden) = fs_err::read(fixture.join("golden.json")) else {
        eprintln!("skipped: no cross-encoder at `{}`", fixture.display());
        return;
    };
    let golden: serde_json::Value = serde_json::from_slice(&golden).unwrap();
    let tolerance = golden["tolerance_logit"].as_f64().unwrap() as f32;
    let reranker = LocalReranker::load(&fixture, &LocalOptions::default()).unwrap();
    assert_eq!(reranker.max_tokens(), 64);
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 5);
    for case in cases {
        let (query, text) = (case["query"].as_str().unwrap(), case["passage"].as_str().unwrap());
        let list = |key: &str| -> Vec<i32> { serde_json::from_value(case[key].clone()).unwrap() };
        let tokens = reranker.encode(query, text).unwrap();
        assert_eq!((tokens.ids, tokens.types), (list("input_ids"), list("token_type_ids")));
        let wanted = case["logit"].as_f64().unwrap() as f32;
        assert_close(&block_on(reranker.score(query, &[text])).unwrap(), &[wanted], tolerance);
    }
}

#[test]
fn the_graph_computes_what_bert_and_its_classifier_compute() {
    let mut random = Random::new();
    for prefix in ["", "bert."] {
        let (folder, weights) = random_model(&mut random, prefix);
        let reranker = load(folder.path()).unwrap();
        for (n_query, n_text) in [(0, 0), (1, 0), (0, 1), (3, 5), (9, 12)] {
            let (query, text) = (text_of(&mut random, n_query), text_of(&mut random, n_text));
            let wanted = tiny::score(&weights, prefix, &tiny::pair(&query, &text));
            let got = block_on(reranker.score(&query, &[&text])).unwrap();
            assert_close(&got, &[wanted], 1e-4);
        }
    }
}

#[test]
fn logits_keep_their_order_and_do_not_depend_on_their_batch() {
    let mut random = Random::new();
    let (folder, _) = random_model(&mut random, "");
    let reranker = load(folder.path()).unwrap();
    let lengths: Vec<usize> = (0..60).map(|_| random.below(18)).collect();
    let texts: Vec<String> =
        lengths.into_iter().map(|n_words| text_of(&mut random, n_words)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let together = block_on(reranker.score("w1 w2 w3", &texts)).unwrap();
    assert_eq!(together.len(), texts.len());
    for (text, logit) in texts.iter().zip(&together) {
        assert_close(&[*logit], &block_on(reranker.score("w1 w2 w3", &[text])).unwrap(), 1e-3);
    }
    assert!(block_on(reranker.score("w1", &[])).unwrap().is_empty());
}

#[test]
fn a_pair_too_long_loses_the_end_of_its_longer_text() {
    let mut random = Random::new();
    let (folder, _) = random_model(&mut random, "");
    fs_err::write(folder.path().join("sentence_bert_config.json"), r#"{"max_seq_length": 13}"#)
        .unwrap();
    let reranker = load(folder.path()).unwrap();
    assert_eq!(reranker.max_tokens(), 13);
    // Three special tokens leave ten words.
    for (words, kept) in [
        ((3, 20), (3, 7)),
        ((20, 3), (7, 3)),
        ((20, 20), (5, 5)),
        ((5, 6), (5, 5)),
        ((4, 6), (4, 6)),
    ] {
        let (query, text) = (text_of(&mut random, words.0), text_of(&mut random, words.1));
        let cut = |text: &str, n: usize| text.split(' ').take(n).collect::<Vec<_>>().join(" ");
        let (short_query, short_text) = (cut(&query, kept.0), cut(&text, kept.1));
        let got = block_on(reranker.score(&query, &[&text])).unwrap();
        assert_close(&got, &block_on(reranker.score(&short_query, &[&short_text])).unwrap(), 1e-6);
    }
}

#[test]
fn a_model_is_named_by_its_weights() {
    let (folder, _) = random_model(&mut Random::new(), "");
    let digest =
        crate::model::weights_digest(folder.path(), crate::model::Weights::Safetensors).unwrap();
    let reranker = load(folder.path()).unwrap();
    assert_eq!(reranker.model(), format!("tiny@{}", digest.get(..8).unwrap()));
}

/// Replaces the safetensors by an ONNX file, as an export of the model.
fn export(folder: &Path, head: Head) {
    let config = BertConfig::parse(tiny::config().to_string().as_bytes()).unwrap();
    let safetensors = folder.join("model.safetensors");
    let graph =
        bert::write(&config, fs_err::read(&safetensors).unwrap(), head, Precision::Full).unwrap();
    fs_err::write(folder.join("model.onnx"), graph.onnx).unwrap();
    fs_err::write(folder.join(WEIGHTS), graph.weights).unwrap();
    fs_err::remove_file(safetensors).unwrap();
    let mut config = tiny::config();
    config["model_type"] = "another".into();
    fs_err::write(folder.join("config.json"), config.to_string()).unwrap();
}

#[test]
fn an_onnx_file_is_used_as_it_is() {
    let (folder, weights) = random_model(&mut Random::new(), "bert.");
    export(folder.path(), Head::Score);
    let wanted = tiny::score(&weights, "bert.", &tiny::pair("w1 w2", "w3 w4 w5"));
    let got = block_on(load(folder.path()).unwrap().score("w1 w2", &["w3 w4 w5"])).unwrap();
    assert_close(&got, &[wanted], 1e-4);
}

#[test]
fn what_cannot_be_run_is_refused_with_its_reason() {
    #[track_caller]
    fn check(wanted: &str, change: impl FnOnce(&Path)) {
        let (folder, _) = random_model(&mut Random::new(), "");
        change(folder.path());
        let RerankError::Model { source, .. } = load(folder.path()).unwrap_err() else {
            panic!("the model itself is at fault")
        };
        let text = source.to_string();
        assert!(text.contains(wanted), "wanted: {wanted}\ngot: {text}");
    }
    let embedder = |folder: &Path| {
        tiny::write(folder, &tiny::config(), &tiny::weights(&mut Random::new(), ""));
    };

    check("no tensor `pooler.dense.weight`", embedder);
    check("`classifier.weight` gives 3 numbers a text, a score is one", |folder| {
        let mut random = Random::new();
        let mut weights = tiny::weights(&mut random, "");
        tiny::add_classifier(&mut weights, &mut random, "", 3);
        tiny::write(folder, &tiny::config(), &weights);
    });
    check("`model_type` = `xlm-roberta`, graphs are written for `bert`", |folder| {
        let mut config = tiny::config();
        config["model_type"] = "xlm-roberta".into();
        fs_err::write(folder.join("config.json"), config.to_string()).unwrap();
    });
    check("no output of shape [texts, 1]", |folder| export(folder, Head::States));
    check("texts of 3 tokens leave no room beside 3 special ones", |folder| {
        let limit = r#"{"max_seq_length": 3}"#;
        fs_err::write(folder.join("sentence_bert_config.json"), limit).unwrap();
    });
}

#[test]
fn int8_weights_give_almost_the_same_logits() {
    let mut random = Random::new();
    let (folder, _) = random_model(&mut random, "bert.");
    let full = load(folder.path()).unwrap();
    let options = LocalOptions { int8: true, ..LocalOptions::default() };
    let int8 = LocalReranker::load(folder.path(), &options).unwrap();
    assert!(int8.model().ends_with("+int8") && !full.model().ends_with("+int8"));
    let texts: Vec<String> = (0..12).map(|n_words| text_of(&mut random, n_words)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let wanted = block_on(full.score("w1 w2", &texts)).unwrap();
    let got = block_on(int8.score("w1 w2", &texts)).unwrap();
    assert_close(&got, &wanted, 0.1);
    for (text, logit) in texts.iter().zip(got) {
        assert_close(&[logit], &block_on(int8.score("w1 w2", &[text])).unwrap(), 1e-3);
    }
}
