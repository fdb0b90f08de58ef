//! A tiny BERT in a folder, a naive forward pass to compare with, and what tests of models need besides.
//!
//! Invariant: a random test prints its seed.

use fastrand::Rng;

pub(crate) fn assert_close(got: &[f32], wanted: &[f32], tolerance: f32) {
    assert_eq!(got.len(), wanted.len());
    for (got, wanted) in got.iter().zip(wanted) {
        assert!((got - wanted).abs() < tolerance, "{got} {wanted}");
    }
}

/// Random numbers of a seed that is printed, and taken from `UMBEL_SEED` if that is set.
pub(crate) struct Random(Rng);

impl Random {
    pub(crate) fn new() -> Self {
        let given = std::env::var("UMBEL_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| fastrand::u64(..));
        eprintln!("UMBEL_SEED={seed}");
        Self(Rng::with_seed(seed))
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0.usize(..n)
    }

    /// In -0.5..0.5.
    pub(crate) fn float(&mut self) -> f32 {
        self.0.f32() - 0.5
    }
}

pub(crate) mod tiny {
    //! A random BERT of 2 layers in a folder, and its forward pass, one number at a time.

    use std::collections::BTreeMap;
    use std::path::Path;

    use safetensors::tensor::{Dtype, TensorView};
    use serde_json::{Value, json};

    use super::Random;

    pub(crate) const HIDDEN: usize = 32;
    const HEADS: usize = 4;
    const WIDE: usize = 48;
    const LAYERS: usize = 2;
    const POSITIONS: usize = 24;
    const EPSILON: f32 = 1e-12;
    const CLS: usize = 2;
    const SEP: usize = 3;
    /// Words `w0` … `w15` follow the four special tokens.
    pub(crate) const WORDS: usize = 16;

    pub(crate) type Weights = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

    pub(crate) fn config() -> Value {
        json!({
            "model_type": "bert", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
            "intermediate_size": WIDE, "hidden_act": "gelu", "layer_norm_eps": EPSILON,
            "max_position_embeddings": POSITIONS, "vocab_size": 4 + WORDS, "type_vocab_size": 2,
        })
    }

    pub(crate) fn weights(random: &mut Random, prefix: &str) -> Weights {
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

    /// The weights of a classifier on top, which gives `n_labels` numbers.
    pub(crate) fn add_classifier(
        weights: &mut Weights,
        random: &mut Random,
        prefix: &str,
        n_labels: usize,
    ) {
        for (name, shape) in [
            (format!("{prefix}pooler.dense.weight"), vec![HIDDEN, HIDDEN]),
            (format!("{prefix}pooler.dense.bias"), vec![HIDDEN]),
            ("classifier.weight".to_owned(), vec![n_labels, HIDDEN]),
            ("classifier.bias".to_owned(), vec![n_labels]),
        ] {
            let values = (0..shape.iter().product()).map(|_| random.float()).collect();
            weights.insert(name, (shape, values));
        }
    }

    /// Writes the folder, with the truncation and padding that must be ignored.
    pub(crate) fn write(folder: &Path, config: &Value, weights: &Weights) {
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
                "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                    {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
                    {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
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
    pub(crate) fn tokens(text: &str) -> Vec<usize> {
        [CLS].into_iter().chain(words(text)).chain([SEP]).collect()
    }

    /// The tokens of a pair of such texts.
    pub(crate) fn pair(query: &str, text: &str) -> Vec<usize> {
        tokens(query).into_iter().chain(words(text)).chain([SEP]).collect()
    }

    fn words(text: &str) -> impl Iterator<Item = usize> {
        text.split_whitespace()
            .map(|word| 4 + word.trim_start_matches('w').parse::<usize>().unwrap())
    }

    /// What the classifier makes of the tokens.
    pub(crate) fn score(weights: &Weights, prefix: &str, tokens: &[usize]) -> f32 {
        let first = &forward(weights, prefix, tokens)[0];
        let pooled = dense(weights, &format!("{prefix}pooler.dense"), first);
        let pooled: Vec<f32> = pooled.into_iter().map(f32::tanh).collect();
        dense(weights, "classifier", &pooled)[0]
    }

    fn dense(weights: &Weights, name: &str, x: &[f32]) -> Vec<f32> {
        let get = |part: &str| &weights[&format!("{name}.{part}")].1;
        let (weight, bias) = (get("weight"), get("bias"));
        let row =
            |o: usize| (0..x.len()).map(|i| weight[o * x.len() + i] * x[i]).sum::<f32>() + bias[o];
        (0..bias.len()).map(row).collect()
    }

    /// The forward pass: one row of hidden states per token. What follows the first `[SEP]` is the second text.
    pub(crate) fn forward(weights: &Weights, prefix: &str, tokens: &[usize]) -> Vec<Vec<f32>> {
        let get = |name: &str| &weights[&format!("{prefix}{name}")].1;
        let dense = |name: &str, x: &[f32]| dense(weights, &format!("{prefix}{name}"), x);
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

        let n_first = 1 + tokens.iter().position(|&token| token == SEP).unwrap();
        let embed = |(position, &token): (usize, &usize)| {
            let sum = add(
                row("embeddings.word_embeddings.weight", token),
                row("embeddings.token_type_embeddings.weight", usize::from(position >= n_first)),
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

    pub(crate) fn unit(x: &[f32]) -> Vec<f32> {
        let norm = x.iter().map(|x| x * x).sum::<f32>().sqrt();
        x.iter().map(|x| x / norm).collect()
    }

    pub(crate) fn mean(states: &[Vec<f32>]) -> Vec<f32> {
        (0..HIDDEN)
            .map(|i| states.iter().map(|x| x[i]).sum::<f32>() / states.len() as f32)
            .collect()
    }
}

pub(crate) fn text_of(random: &mut Random, n_words: usize) -> String {
    let words: Vec<_> = (0..n_words).map(|_| format!("w{}", random.below(tiny::WORDS))).collect();
    words.join(" ")
}
