//! The embedder against vectors of sentence-transformers, and against a naive BERT written out below.

use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Wake, Waker};

use super::*;
use crate::embed::bert::{self, BertConfig};
use crate::model::{FetchOptions, ModelSpec};

/// Runs a future on this thread.
fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| {
        a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn assert_close(got: &[f32], wanted: &[f32], tolerance: f32) {
    assert_eq!(got.len(), wanted.len());
    for (got, wanted) in got.iter().zip(wanted) {
        assert!((got - wanted).abs() < tolerance, "{got} {wanted}");
    }
}

/// Random numbers that a seed repeats: SplitMix64.
struct Random(u64);

impl Random {
    /// A seed of today, printed.
    fn new() -> Self {
        let seed =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos()
                as u64;
        eprintln!("seed: {seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// In -0.5..0.5.
    fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1_u64 << 24) as f32 - 0.5
    }
}

mod tiny {
    //! A random BERT of 2 layers in a folder, and its forward pass, one number at a time.

    use std::collections::BTreeMap;

    use safetensors::tensor::{Dtype, TensorView};
    use serde_json::{Value, json};

    use super::{Path, Random};

    pub(super) const HIDDEN: usize = 32;
    const HEADS: usize = 4;
    const WIDE: usize = 48;
    const LAYERS: usize = 2;
    const POSITIONS: usize = 24;
    const EPSILON: f32 = 1e-12;
    const CLS: usize = 2;
    const SEP: usize = 3;
    /// Words `w0` … `w15` follow the four special tokens.
    pub(super) const WORDS: usize = 16;

    pub(super) type Weights = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

    pub(super) fn config() -> Value {
        json!({
            "model_type": "bert", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
            "intermediate_size": WIDE, "hidden_act": "gelu", "layer_norm_eps": EPSILON,
            "max_position_embeddings": POSITIONS, "vocab_size": 4 + WORDS, "type_vocab_size": 2,
        })
    }

    pub(super) fn weights(random: &mut Random, prefix: &str) -> Weights {
        let mut weights = Weights::new();
        let mut add = |name: &str, shape: &[usize]| {
            let values = (0..shape.iter().product()).map(|_| random.float()).collect();
            weights.insert(format!("{prefix}{name}"), (shape.to_vec(), values));
        };
        add("embeddings.word_embeddings.weight", &[4 + WORDS, HIDDEN]);
        add("embeddings.position_embeddings.weight", &[POSITIONS, HIDDEN]);
        add("embeddings.token_type_embeddings.weight", &[2, HIDDEN]);
        add("embeddings.LayerNorm.weight", &[HIDDEN]);
        add("embeddings.LayerNorm.bias", &[HIDDEN]);
        for layer in 0..LAYERS {
            let mut dense = |name: &str, outputs: usize, inputs: usize| {
                add(&format!("encoder.layer.{layer}.{name}.weight"), &[outputs, inputs]);
                add(&format!("encoder.layer.{layer}.{name}.bias"), &[outputs]);
            };
            dense("attention.self.query", HIDDEN, HIDDEN);
            dense("attention.self.key", HIDDEN, HIDDEN);
            dense("attention.self.value", HIDDEN, HIDDEN);
            dense("attention.output.dense", HIDDEN, HIDDEN);
            dense("intermediate.dense", WIDE, HIDDEN);
            dense("output.dense", HIDDEN, WIDE);
            for name in ["attention.output", "output"] {
                add(&format!("encoder.layer.{layer}.{name}.LayerNorm.weight"), &[HIDDEN]);
                add(&format!("encoder.layer.{layer}.{name}.LayerNorm.bias"), &[HIDDEN]);
            }
        }
        weights
    }

    /// Writes the folder, with the truncation and padding that must be ignored.
    pub(super) fn write(folder: &Path, config: &Value, weights: &Weights) {
        let words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"].into_iter().map(str::to_owned);
        let vocab: BTreeMap<String, usize> = words
            .chain((0..WORDS).map(|idx| format!("w{idx}")))
            .enumerate()
            .map(|(idx, word)| (word, idx))
            .collect();
        let special = |id: usize, token: &str| json!({"id": token, "ids": [id], "tokens": [token]});
        let tokenizer = json!({
            "version": "1.0",
            "truncation": {"max_length": 5, "strategy": "LongestFirst", "stride": 0},
            "padding": {"strategy": {"Fixed": 5}, "direction": "Right", "pad_to_multiple_of": null,
                "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
            "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "decoder": null,
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                    {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
                "special_tokens": {"[CLS]": special(CLS, "[CLS]"), "[SEP]": special(SEP, "[SEP]")},
            },
            "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"},
        });
        fs_err::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
        fs_err::write(folder.join("config.json"), config.to_string()).unwrap();
        let bytes: Vec<_> = weights
            .iter()
            .map(|(name, (shape, values))| {
                (
                    name,
                    shape,
                    values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(),
                )
            })
            .collect();
        let views = bytes.iter().map(|(name, shape, bytes)| {
            (name.as_str(), TensorView::new(Dtype::F32, (*shape).clone(), bytes).unwrap())
        });
        fs_err::write(
            folder.join("model.safetensors"),
            safetensors::serialize(views, None).unwrap(),
        )
        .unwrap();
    }

    /// The tokens of a text that holds only words of the vocabulary.
    pub(super) fn tokens(text: &str) -> Vec<usize> {
        let words = text
            .split_whitespace()
            .map(|word| 4 + word.trim_start_matches('w').parse::<usize>().unwrap());
        [CLS].into_iter().chain(words).chain([SEP]).collect()
    }

    /// The forward pass: one row of hidden states per token.
    pub(super) fn forward(weights: &Weights, prefix: &str, tokens: &[usize]) -> Vec<Vec<f32>> {
        let get = |name: &str| &weights[&format!("{prefix}{name}")].1;
        let dense = |name: &str, x: &[f32]| -> Vec<f32> {
            let (weight, bias) = (get(&format!("{name}.weight")), get(&format!("{name}.bias")));
            let row = |o: usize| {
                (0..x.len()).map(|i| weight[o * x.len() + i] * x[i]).sum::<f32>() + bias[o]
            };
            (0..bias.len()).map(row).collect()
        };
        let norm = |name: &str, x: &[f32]| -> Vec<f32> {
            let (scale, bias) = (get(&format!("{name}.weight")), get(&format!("{name}.bias")));
            let mean = x.iter().sum::<f32>() / x.len() as f32;
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / x.len() as f32;
            (0..x.len())
                .map(|i| (x[i] - mean) / (variance + EPSILON).sqrt() * scale[i] + bias[i])
                .collect()
        };
        let add =
            |a: &[f32], b: &[f32]| -> Vec<f32> { a.iter().zip(b).map(|(a, b)| a + b).collect() };
        let row = |name: &str, idx: usize| &get(name)[idx * HIDDEN..(idx + 1) * HIDDEN];

        let embed = |(position, &token): (usize, &usize)| {
            let sum = add(
                row("embeddings.word_embeddings.weight", token),
                row("embeddings.token_type_embeddings.weight", 0),
            );
            norm(
                "embeddings.LayerNorm",
                &add(&sum, row("embeddings.position_embeddings.weight", position)),
            )
        };
        let mut states: Vec<Vec<f32>> = tokens.iter().enumerate().map(embed).collect();
        for layer in 0..LAYERS {
            let of = |name: &str| format!("encoder.layer.{layer}.{name}");
            let map = |name: &str| -> Vec<Vec<f32>> {
                states.iter().map(|x| dense(&of(name), x)).collect()
            };
            let (q, k, v) = (
                map("attention.self.query"),
                map("attention.self.key"),
                map("attention.self.value"),
            );
            let size = HIDDEN / HEADS;
            let attend = |idx: usize| -> Vec<f32> {
                let mut context = vec![0.0; HIDDEN];
                for head in 0..HEADS {
                    let part = head * size..(head + 1) * size;
                    let dot = |k: &[f32]| {
                        part.clone().map(|i| q[idx][i] * k[i]).sum::<f32>() / (size as f32).sqrt()
                    };
                    let scores: Vec<f32> = k.iter().map(|k| dot(k).exp()).collect();
                    let total: f32 = scores.iter().sum();
                    for (score, v) in scores.iter().zip(&v) {
                        part.clone().for_each(|i| context[i] += score / total * v[i]);
                    }
                }
                context
            };
            states = (0..states.len())
                .map(|idx| {
                    let out = dense(&of("attention.output.dense"), &attend(idx));
                    let x = norm(&of("attention.output.LayerNorm"), &add(&out, &states[idx]));
                    let inner: Vec<f32> =
                        dense(&of("intermediate.dense"), &x).into_iter().map(gelu).collect();
                    norm(&of("output.LayerNorm"), &add(&dense(&of("output.dense"), &inner), &x))
                })
                .collect();
        }
        states
    }

    fn gelu(x: f32) -> f32 {
        let x = f64::from(x);
        (0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2))) as f32
    }

    /// The error function by its series, which the small arguments here make exact enough.
    fn erf(x: f64) -> f64 {
        let (mut sum, mut term) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        // Beyond that the series cancels itself out, and the value is 1 to ten digits.
        if x.abs() > 4.5 { x.signum() } else { sum * std::f64::consts::FRAC_2_SQRT_PI }
    }

    pub(super) fn unit(x: &[f32]) -> Vec<f32> {
        let norm = x.iter().map(|x| x * x).sum::<f32>().sqrt();
        x.iter().map(|x| x / norm).collect()
    }

    pub(super) fn mean(states: &[Vec<f32>]) -> Vec<f32> {
        (0..HIDDEN)
            .map(|i| states.iter().map(|x| x[i]).sum::<f32>() / states.len() as f32)
            .collect()
    }
}

fn text_of(random: &mut Random, n_words: usize) -> String {
    let words: Vec<_> = (0..n_words).map(|_| format!("w{}", random.below(tiny::WORDS))).collect();
    words.join(" ")
}

fn load(folder: &Path) -> Result<LocalEmbedder, EmbedError> {
    LocalEmbedder::load(
        folder,
        &LocalOptions { name: Some("tiny".to_owned()), threads: NonZero::new(2) },
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
            let got = wait(embedder.embed_passages(&[&text])).unwrap();
            assert_close(&got[0], &tiny::unit(&tiny::mean(&states)), 1e-4);
            assert_close(&wait(embedder.embed_query(&text)).unwrap(), &got[0], 1e-5);
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
    let got = wait(load(folder.path()).unwrap().embed_query("w1 w2 w3")).unwrap();
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
    let together = wait(embedder.embed_passages(&texts)).unwrap();
    assert_eq!(together.len(), texts.len());
    for (text, row) in texts.iter().zip(&together) {
        let alone = wait(embedder.embed_passages(&[text])).unwrap();
        assert_close(row, &alone[0], 1e-3);
        assert_close(&[row.iter().map(|x| x * x).sum::<f32>()], &[1.0], 1e-3);
    }
    assert!(wait(embedder.embed_passages(&[])).unwrap().is_empty());
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

    let error = wait(embedder.embed_passages(&[&fits, &too_long, &fits])).unwrap_err();
    assert!(
        matches!(error, EmbedError::TooLong { position: 1, tokens: 11, limit: 10, .. }),
        "{error}"
    );
    let cut = too_long.rsplit_once(' ').unwrap().0;
    let (whole, cut) =
        (wait(embedder.embed_query(&too_long)).unwrap(), wait(embedder.embed_query(cut)).unwrap());
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
    let graph = bert::write(&config, fs_err::read(&safetensors).unwrap()).unwrap();
    fs_err::write(folder.path().join("model.onnx"), graph.onnx).unwrap();
    fs_err::write(folder.path().join(bert::WEIGHTS), graph.weights).unwrap();
    fs_err::remove_file(safetensors).unwrap();
    change_config(folder.path(), "model_type", "another");
    let states = tiny::forward(&weights, "", &tiny::tokens("w1 w2 w3"));
    let got = wait(load(folder.path()).unwrap().embed_query("w1 w2 w3")).unwrap();
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

/// The default model, loaded once; none, with the reason printed, where it or the golden vectors cannot be had.
fn minilm() -> Option<(&'static LocalEmbedder, serde_json::Value)> {
    static EMBEDDER: OnceLock<Result<LocalEmbedder, String>> = OnceLock::new();
    let golden =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/minilm/golden.json");
    let Ok(golden) = fs_err::read(&golden) else {
        eprintln!("skipped: the golden vectors are not at `{}`", golden.display());
        return None;
    };
    let embedder = EMBEDDER.get_or_init(|| {
        let options = FetchOptions::from_env().map_err(|error| error.to_string())?;
        let folder = crate::model::fetch(&ModelSpec::default(), &options, &mut |_| {});
        let folder = folder.map_err(|error| error.to_string())?;
        // That the model is away is a reason to skip; that it does not load is a failure.
        Ok(LocalEmbedder::load(&folder, &LocalOptions::default()).unwrap())
    });
    match embedder {
        Ok(embedder) => Some((embedder, serde_json::from_slice(&golden).unwrap())),
        Err(reason) => {
            eprintln!("skipped: {reason}");
            None
        }
    }
}

#[test]
fn the_default_model_gives_the_vectors_of_sentence_transformers() {
    let Some((embedder, golden)) = minilm() else { return };
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
        let got = wait(embedder.embed_query(text)).unwrap();
        let similarity = cosine(&got, &wanted);
        assert!(similarity >= 0.9999, "{text:?}: {similarity}");
    }
}

#[test]
fn the_default_model_gives_the_same_rows_in_one_batch() {
    let Some((embedder, golden)) = minilm() else { return };
    let cases = golden["cases"].as_array().unwrap().iter();
    let texts: Vec<&str> = cases.map(|case| case["text"].as_str().unwrap()).collect();
    let texts: Vec<&str> =
        texts.into_iter().filter(|text| embedder.count_tokens(text) <= 256).collect();
    assert!(texts.len() >= 9);
    for (text, row) in texts.iter().zip(wait(embedder.embed_passages(&texts)).unwrap()) {
        assert_close(&row, &wait(embedder.embed_query(text)).unwrap(), 1e-3);
    }
}

#[test]
fn the_default_model_counts_beyond_the_truncation_of_its_tokenizer_file() {
    let Some((embedder, _)) = minilm() else { return };
    assert_eq!(embedder.count_tokens(""), 2);
    assert_eq!(embedder.count_tokens(&"word ".repeat(300)), 302);
    let error = wait(embedder.embed_passages(&["a", &"word ".repeat(300)])).unwrap_err();
    let text = "text 1 has 302 model tokens, `all-MiniLM-L6-v2@53aa5117` takes 256";
    assert_eq!(error.to_string(), text);
}
