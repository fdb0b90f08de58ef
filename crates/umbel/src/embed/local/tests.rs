//! The embedder against vectors of sentence-transformers, and against a naive BERT.

use std::num::NonZero;

use super::*;
use crate::local::WEIGHTS;
use crate::local::bert::{self, BertConfig};
use crate::local::testing::{Random, assert_close, text_of, tiny};
use crate::local::weights::Precision;
use crate::model::{FetchOptions, ModelSpec, Weights};
use futures_lite::future::block_on;

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| {
        a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn load(folder: &Path) -> Result<LocalEmbedder, EmbedError> {
    LocalEmbedder::load(
        folder,
        &LocalOptions { name: Some("tiny".to_owned()), threads: NonZero::new(2), int8: false },
    )
}

/// A tiny model as it should be, then changed by `change`; the texts of its error.
fn error_after(change: impl FnOnce(&Path)) -> String {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), &tiny::config(), &tiny::weights(&mut Random::new(), ""));
    change(folder.path());
    let error = load(folder.path()).unwrap_err();
    let mut texts = vec![error.to_string()];
    let mut source = std::error::Error::source(&error);
    while let Some(error) = source {
        texts.push(error.to_string());
        source = error.source();
    }
    texts.join(": ")
}

fn change_config(folder: &Path, key: &str, value: impl Into<serde_json::Value>) {
    let mut config = tiny::config();
    config[key] = value.into();
    fs_err::write(folder.join("config.json"), config.to_string()).unwrap();
}

#[test]
fn the_graph_computes_what_bert_computes() {
    let mut random = Random::new();
    for prefix in ["", "bert."] {
        let weights = tiny::weights(&mut random, prefix);
        let folder = tempfile::tempdir().unwrap();
        tiny::write(folder.path(), &tiny::config(), &weights);
        let embedder = load(folder.path()).unwrap();
        assert_eq!(embedder.describe().dimension, tiny::HIDDEN);
        for n_words in [0, 1, 2, 7, 22] {
            let text = text_of(&mut random, n_words);
            let states = tiny::forward(&weights, prefix, &tiny::tokens(&text));
            let got = block_on(embedder.embed_passages(&[&text])).unwrap();
            assert_close(&got[0], &tiny::unit(&tiny::mean(&states)), 1e-4);
            assert_close(&block_on(embedder.embed_query(&text)).unwrap(), &got[0], 1e-5);
        }
    }
}

#[test]
fn cls_pooling_takes_the_first_token() {
    let mut random = Random::new();
    let weights = tiny::weights(&mut random, "");
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), &tiny::config(), &weights);
    fs_err::create_dir_all(folder.path().join("1_Pooling")).unwrap();
    let pooling = r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false, "word_embedding_dimension": 32}"#;
    fs_err::write(folder.path().join("1_Pooling/config.json"), pooling).unwrap();
    let states = tiny::forward(&weights, "", &tiny::tokens("w1 w2 w3"));
    let got = block_on(load(folder.path()).unwrap().embed_query("w1 w2 w3")).unwrap();
    assert_close(&got, &tiny::unit(&states[0]), 1e-4);
}

#[test]
fn rows_keep_their_order_and_do_not_depend_on_their_batch() {
    let mut random = Random::new();
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), &tiny::config(), &tiny::weights(&mut random, ""));
    let embedder = load(folder.path()).unwrap();
    let lengths: Vec<usize> = (0..60).map(|_| random.below(23)).collect();
    let texts: Vec<String> =
        lengths.into_iter().map(|n_words| text_of(&mut random, n_words)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let together = block_on(embedder.embed_passages(&texts)).unwrap();
    assert_eq!(together.len(), texts.len());
    for (text, row) in texts.iter().zip(&together) {
        let alone = block_on(embedder.embed_passages(&[text])).unwrap();
        assert_close(row, &alone[0], 1e-3);
        assert_close(&[row.iter().map(|x| x * x).sum::<f32>()], &[1.0], 1e-3);
    }
    assert!(block_on(embedder.embed_passages(&[])).unwrap().is_empty());
}

#[test]
fn a_passage_too_long_is_named_and_a_query_too_long_is_cut() {
    let mut random = Random::new();
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), &tiny::config(), &tiny::weights(&mut random, ""));
    fs_err::write(folder.path().join("sentence_bert_config.json"), r#"{"max_seq_length": 10}"#)
        .unwrap();
    let embedder = load(folder.path()).unwrap();
    assert_eq!(embedder.describe().max_tokens, 10);
    let (fits, too_long) = (text_of(&mut random, 8), text_of(&mut random, 9));
    assert_eq!((embedder.count_tokens(&fits), embedder.count_tokens(&too_long)), (10, 11));

    let error = block_on(embedder.embed_passages(&[&fits, &too_long, &fits])).unwrap_err();
    assert!(
        matches!(error, EmbedError::TooLong { position: 1, tokens: 11, limit: 10, .. }),
        "{error}"
    );
    let cut = too_long.rsplit_once(' ').unwrap().0;
    let (whole, cut) = (
        block_on(embedder.embed_query(&too_long)).unwrap(),
        block_on(embedder.embed_query(cut)).unwrap(),
    );
    assert_close(&whole, &cut, 1e-6);
}

#[test]
fn a_model_is_named_by_its_folder_and_its_weights() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my-model");
    fs_err::create_dir_all(&path).unwrap();
    tiny::write(&path, &tiny::config(), &tiny::weights(&mut Random::new(), ""));
    let digest = crate::model::weights_digest(&path, Weights::Safetensors).unwrap();
    let embedder = LocalEmbedder::load(&path, &LocalOptions::default()).unwrap();
    assert_eq!(embedder.describe().model, format!("my-model@{}", digest.get(..8).unwrap()));
}

#[test]
fn an_onnx_file_is_used_as_it_is() {
    let mut random = Random::new();
    let weights = tiny::weights(&mut random, "");
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), &tiny::config(), &weights);
    let config = BertConfig::parse(tiny::config().to_string().as_bytes()).unwrap();
    let safetensors = folder.path().join("model.safetensors");
    let graph =
        bert::write(&config, fs_err::read(&safetensors).unwrap(), Head::States, Precision::Full)
            .unwrap();
    fs_err::write(folder.path().join("model.onnx"), graph.onnx).unwrap();
    fs_err::write(folder.path().join(WEIGHTS), graph.weights).unwrap();
    fs_err::remove_file(safetensors).unwrap();
    change_config(folder.path(), "model_type", "another");
    let states = tiny::forward(&weights, "", &tiny::tokens("w1 w2 w3"));
    let got = block_on(load(folder.path()).unwrap().embed_query("w1 w2 w3")).unwrap();
    assert_close(&got, &tiny::unit(&tiny::mean(&states)), 1e-4);
}

#[test]
fn what_cannot_be_run_is_refused_with_its_reason() {
    let check = |wanted: &str, change: &dyn Fn(&Path)| {
        let text = error_after(change);
        assert!(text.contains(wanted), "wanted: {wanted}\ngot: {text}");
    };
    let remove = |folder: &Path, name: &str| fs_err::remove_file(folder.join(name)).unwrap();
    let write =
        |folder: &Path, name: &str, text: &str| fs_err::write(folder.join(name), text).unwrap();

    check("`model_type` = `roberta`, graphs are written for `bert`", &|f| {
        change_config(f, "model_type", "roberta");
    });
    check("`position_embedding_type` = `relative_key`", &|f| {
        change_config(f, "position_embedding_type", "relative_key");
    });
    check("`hidden_act` = `swish`", &|f| change_config(f, "hidden_act", "swish"));
    check("`is_decoder` = `true`", &|f| change_config(f, "is_decoder", true));
    check("32 hidden units, which 5 heads do not divide", &|f| {
        change_config(f, "num_attention_heads", 5);
    });
    check("no tensor `encoder.layer.2.attention.self.query.weight`", &|f| {
        change_config(f, "num_hidden_layers", 3);
    });
    check("has shape [48, 32], `config.json` wants [64, 32]", &|f| {
        change_config(f, "intermediate_size", 64);
    });
    check("not the configuration of a BERT model", &|f| change_config(f, "hidden_size", "many"));
    check("config.json` is not the JSON expected", &|f| write(f, "config.json", "{"));
    check("not a whole safetensors file", &|f| {
        let path = f.join("model.safetensors");
        let bytes = fs_err::read(&path).unwrap();
        fs_err::write(path, &bytes[..bytes.len() - 1]).unwrap();
    });
    check("not a whole safetensors file", &|f| write(f, "model.safetensors", "x"));
    check("neither `model.safetensors` nor", &|f| remove(f, "model.safetensors"));
    check("tokenizer.json", &|f| remove(f, "tokenizer.json"));
    check("the tokenizer failed", &|f| write(f, "tokenizer.json", "{}"));
    check("the network does not load", &|f| {
        remove(f, "model.safetensors");
        write(f, "model.onnx", "not a graph");
    });
    check("a step `Dense`", &|f| {
        write(f, "modules.json", r#"[{"type": "sentence_transformers.models.Dense"}]"#);
    });
    check("asks for `pooling_mode_max_tokens`", &|f| {
        fs_err::create_dir_all(f.join("1_Pooling")).unwrap();
        write(
            f,
            "1_Pooling/config.json",
            r#"{"pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": false}"#,
        );
    });
    check("texts of 1 tokens leave no room beside 2 special ones", &|f| {
        write(f, "sentence_bert_config.json", r#"{"max_seq_length": 1}"#);
    });
}

/// The default model and its golden vectors; none, with the reason printed, where they cannot be had.
fn minilm(options: &LocalOptions) -> Option<(LocalEmbedder, serde_json::Value)> {
    let golden =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/minilm/golden.json");
    let Ok(golden) = fs_err::read(&golden) else {
        eprintln!("skipped: the golden vectors are not at `{}`", golden.display());
        return None;
    };
    let fetched = FetchOptions::from_env()
        .and_then(|options| crate::model::fetch(&ModelSpec::default(), &options, &mut |_| {}));
    match fetched {
        // That the model is away is a reason to skip; that it does not load is a failure.
        Ok(folder) => Some((
            LocalEmbedder::load(&folder, options).unwrap(),
            serde_json::from_slice(&golden).unwrap(),
        )),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

#[test]
fn the_default_model_gives_the_vectors_of_sentence_transformers() {
    let Some((embedder, golden)) = minilm(&LocalOptions::default()) else { return };
    let info = EmbedderInfo {
        model: "all-MiniLM-L6-v2@53aa5117".to_owned(),
        dimension: 384,
        max_tokens: 256,
    };
    assert_eq!(embedder.describe(), &info);
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 10);
    for case in cases {
        let text = case["text"].as_str().unwrap();
        let wanted: Vec<f32> = serde_json::from_value(case["vector"].clone()).unwrap();
        let got = block_on(embedder.embed_query(text)).unwrap();
        let similarity = cosine(&got, &wanted);
        assert!(similarity >= 0.9999, "{text:?}: {similarity}");
    }
}

#[test]
fn the_default_model_gives_the_same_rows_in_one_batch() {
    let Some((embedder, golden)) = minilm(&LocalOptions::default()) else { return };
    let cases = golden["cases"].as_array().unwrap().iter();
    let texts: Vec<&str> = cases.map(|case| case["text"].as_str().unwrap()).collect();
    let texts: Vec<&str> =
        texts.into_iter().filter(|text| embedder.count_tokens(text) <= 256).collect();
    assert!(texts.len() >= 9);
    for (text, row) in texts.iter().zip(block_on(embedder.embed_passages(&texts)).unwrap()) {
        assert_close(&row, &block_on(embedder.embed_query(text)).unwrap(), 1e-3);
    }
}

#[test]
fn the_default_model_counts_beyond_the_truncation_of_its_tokenizer_file() {
    let Some((embedder, _)) = minilm(&LocalOptions::default()) else { return };
    assert_eq!(embedder.count_tokens(""), 2);
    assert_eq!(embedder.count_tokens(&"word ".repeat(300)), 302);
    let error = block_on(embedder.embed_passages(&["a", &"word ".repeat(300)])).unwrap_err();
    let text = "text 1 has 302 model tokens, `all-MiniLM-L6-v2@53aa5117` takes 256";
    assert_eq!(error.to_string(), text);
}

const INT8: LocalOptions = LocalOptions { name: None, threads: None, int8: true };

#[test]
fn the_default_model_in_int8_is_near_its_full_self() {
    let Some((full, golden)) = minilm(&LocalOptions::default()) else { return };
    let Some((int8, _)) = minilm(&INT8) else { return };
    assert_eq!(int8.describe().model, "all-MiniLM-L6-v2@53aa5117+int8");
    let cases = golden["cases"].as_array().unwrap();
    for case in cases {
        let text = case["text"].as_str().unwrap();
        let wanted = block_on(full.embed_query(text)).unwrap();
        let similarity = cosine(&block_on(int8.embed_query(text)).unwrap(), &wanted);
        assert!(similarity >= 0.98, "{text:?}: {similarity}");
    }
}

#[test]
fn the_default_model_in_int8_gives_a_text_the_same_row_in_any_company() {
    let Some((int8, golden)) = minilm(&INT8) else { return };
    let cases = golden["cases"].as_array().unwrap().iter();
    let texts: Vec<&str> = cases.map(|case| case["text"].as_str().unwrap()).collect();
    let texts: Vec<&str> =
        texts.into_iter().filter(|text| int8.count_tokens(text) <= 256).collect();
    for (text, row) in texts.iter().zip(block_on(int8.embed_passages(&texts)).unwrap()) {
        assert_close(&row, &block_on(int8.embed_query(text)).unwrap(), 1e-3);
    }
}

#[test]
fn int8_of_an_onnx_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), &tiny::config(), &tiny::weights(&mut Random::new(), ""));
    fs_err::rename(folder.path().join("model.safetensors"), folder.path().join("model.onnx"))
        .unwrap();
    let error = LocalEmbedder::load(folder.path(), &INT8).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(
        source,
        "int8 weights are made of a `model.safetensors`, the folder has `model.onnx`"
    );
}
