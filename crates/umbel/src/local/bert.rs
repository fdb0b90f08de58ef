//! `config.json` + `model.safetensors` → an ONNX graph, and the bytes that it calls its weights.
//!
//! Invariant: weights are read once. With [`Precision::Full`] the graph points into the data section of the safetensors
//! file and nothing is converted; with [`Precision::Int8`] into a copy of what it needs, where only rounded weights differ.
//!
//! Graph and weights are handed to the runtime in memory: nothing is written beside the model, so its folder may be
//! read-only, and no graph on disk can be stale or half written.
//!
//! Layout of the graph, for `n` texts padded to `s` tokens, `h` hidden, `a` heads of `d = h / a`:
//!
//! ```text
//! input_ids, token_type_ids [n s] ─ Gather ─┐
//! position_embeddings[0..s] ────────────────┴ Add, LayerNormalization → x [n s h]
//! attention_mask [n s] ─ (1 - mask) × f32::MIN ─────────────────────────→ bias [n 1 1 s]
//! per layer:
//!   q, k, v = x Wᵀ + b, split into heads [n a s d]
//!   x = LayerNormalization(x + dense(Softmax(q kᵀ / √d + bias) v))
//!   x = LayerNormalization(x + dense(activation(dense(x))))
//! Head::States: x → last_hidden_state [n s h]
//! Head::Score:  classifier(Tanh(pooler(x[:, 0]))) → logits [n 1]
//! ```
//!
//! With [`Precision::Int8`] each `x Wᵀ` of a layer is computed in bytes, where `W ≈ diag(s) Q`:
//!
//! ```text
//! u, r, z = DynamicQuantizeLinear(x)
//! x Wᵀ ≈ MatMulInteger(u, Qᵀ, z) × (r × s)
//! ```
//!
//! `r` and `z` follow from the least and the largest number of the whole batch, so a batch has one text then.
//! Embeddings, values, attention, norms and the classifier stay as they are.
//!
//! Pooling into an embedding is not in the graph: an ONNX file used as it is has none either, so it is done once, in
//! `embed/local`.
//!
//! Source: Devlin et al., NAACL 2019 (the architecture); the names of tensors and settings are those of `BertModel` and
//! `BertForSequenceClassification` in Hugging Face transformers.

use std::collections::HashMap;

use safetensors::SafeTensors;
use safetensors::tensor::Dtype;
use serde::Deserialize;

use super::onnx::{self, Element, as_dim, element, float, int, ints, string};
use super::weights::{Place, Precision, Tensors};

/// The architecture whose graphs can be written, as `model_type` says it.
const MODEL_TYPE: &str = "bert";

/// What a network gives at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// The hidden states of every token.
    States,
    /// One number per text.
    Score,
}

/// Why no graph was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BertError {
    /// Another architecture: an ONNX export of the model can be used instead.
    #[error("`config.json` says `{key}` = `{got}`, graphs are written for `{wanted}`")]
    Unsupported {
        /// The setting.
        key: &'static str,
        /// What the file says.
        got: String,
        /// What is supported.
        wanted: &'static str,
    },
    /// The settings contradict each other.
    #[error("`config.json` has {hidden} hidden units, which {heads} heads do not divide")]
    Heads {
        /// `hidden_size`.
        hidden: usize,
        /// `num_attention_heads`.
        heads: usize,
    },
    /// Not a configuration.
    #[error("`config.json` is not the configuration of a BERT model")]
    Config {
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Not a safetensors file, or a cut one.
    #[error("`model.safetensors` is not a whole safetensors file")]
    Header {
        /// What is wrong with it.
        source: safetensors::SafeTensorError,
    },
    /// The weights lack a tensor that the configuration promises.
    #[error("`model.safetensors` has no tensor `{name}`")]
    Missing {
        /// Its name.
        name: String,
    },
    /// A tensor has another shape than the configuration promises.
    #[error("tensor `{name}` has shape {got:?}, `config.json` wants {wanted:?}")]
    Shape {
        /// Its name.
        name: String,
        /// Its shape.
        got: Vec<usize>,
        /// The shape that follows from the configuration.
        wanted: Vec<usize>,
    },
    /// A classifier that gives something else than one score.
    #[error("`{name}` gives {got} numbers a text, a score is one")]
    Labels {
        /// The tensor.
        name: &'static str,
        /// The numbers that it gives.
        got: usize,
    },
    /// A tensor has an element type that the runtime does not read.
    #[error("tensor `{name}` is of type `{got:?}`, got to be `F32` or `F16`")]
    Type {
        /// Its name.
        name: String,
        /// Its element type.
        got: Dtype,
    },
}

/// What of `config.json` shapes the graph.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct BertConfig {
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    hidden_act: String,
    layer_norm_eps: f32,
    max_position_embeddings: usize,
    vocab_size: usize,
    type_vocab_size: usize,
    position_embedding_type: Option<String>,
    #[serde(default)]
    is_decoder: bool,
}

impl BertConfig {
    /// Reads `config.json` and refuses what no graph can be written for.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, BertError> {
        // First the kind alone: the settings of another architecture have other names.
        let kind: Kind =
            serde_json::from_slice(json).map_err(|source| BertError::Config { source })?;
        let got = kind.model_type.unwrap_or_else(|| "nothing".to_owned());
        if got != MODEL_TYPE {
            return Err(BertError::Unsupported { key: "model_type", got, wanted: MODEL_TYPE });
        }
        let config: Self =
            serde_json::from_slice(json).map_err(|source| BertError::Config { source })?;
        if let Some(got) = config.position_embedding_type.clone().filter(|kind| kind != "absolute")
        {
            return Err(BertError::Unsupported {
                key: "position_embedding_type",
                got,
                wanted: "absolute",
            });
        }
        if config.is_decoder {
            return Err(BertError::Unsupported {
                key: "is_decoder",
                got: "true".to_owned(),
                wanted: "false",
            });
        }
        let (hidden, heads) = (config.hidden_size, config.num_attention_heads);
        if heads == 0 || !hidden.is_multiple_of(heads) {
            return Err(BertError::Heads { hidden, heads });
        }
        Ok(config)
    }
}

/// The one setting that every architecture has.
#[derive(Deserialize)]
struct Kind {
    model_type: Option<String>,
}

/// A graph and what it points into.
pub(crate) struct Graph {
    /// An encoded ONNX model of a few tens of kilobytes.
    pub(crate) onnx: Vec<u8>,
    /// The bytes that the graph calls [`WEIGHTS`](onnx::WEIGHTS).
    pub(crate) weights: Vec<u8>,
}

/// Writes the graph for the weights in `safetensors`, a whole file.
///
/// # Errors
/// [`BertError`], where the weights are not those that the configuration promises.
pub(crate) fn write(
    config: &BertConfig,
    mut safetensors: Vec<u8>,
    head: Head,
    precision: Precision,
) -> Result<Graph, BertError> {
    let (header_bytes, metadata) =
        SafeTensors::read_metadata(&safetensors).map_err(|source| BertError::Header { source })?;
    let data = &safetensors[size_of::<u64>() + header_bytes..];
    let mut writer = Writer::new(Tensors::new(metadata.tensors(), data, precision));
    let states = writer.encoder(config)?;
    let inputs = ["input_ids", "attention_mask", "token_type_ids"];
    let onnx = match head {
        Head::States => {
            let dims = ["texts", "tokens", "hidden"];
            writer.graph.encode(&inputs, &states, "last_hidden_state", &dims)
        }
        Head::Score => {
            let score = writer.classifier(config, &states)?;
            writer.graph.encode(&inputs, &score, "logits", &["texts", "labels"])
        }
    };
    if let Some(weights) = writer.tensors.into_copy() {
        return Ok(Graph { onnx, weights });
    }
    // The header goes: its length need not be a multiple of four, and the runtime refuses weights that are not aligned.
    safetensors.drain(..size_of::<u64>() + header_bytes);
    Ok(Graph { onnx, weights: safetensors })
}

/// The graph while it is being written.
struct Writer<'a> {
    tensors: Tensors<'a>,
    /// `bert.` where the weights were saved with a head on top, else empty.
    prefix: &'static str,
    graph: onnx::Graph,
    /// What `DynamicQuantizeLinear` gives for a value, by the value's name: three layers read the same one.
    rounded: HashMap<String, [String; 3]>,
}

impl<'a> Writer<'a> {
    fn new(tensors: Tensors<'a>) -> Self {
        let is_nested = tensors.shape("bert.embeddings.word_embeddings.weight").is_some();
        let prefix = if is_nested { "bert." } else { "" };
        Self { tensors, prefix, graph: onnx::Graph::default(), rounded: HashMap::new() }
    }

    /// All layers; gives the name of the hidden states.
    fn encoder(&mut self, config: &BertConfig) -> Result<String, BertError> {
        let mut x = self.embeddings(config)?;
        let bias = self.attention_bias();
        for layer_idx in 0..config.num_hidden_layers {
            let layer = format!("encoder.layer.{layer_idx}");
            x = self.attention(config, &layer, &x, &bias)?;
            x = self.feed_forward(config, &layer, &x)?;
        }
        Ok(x)
    }

    /// What is made of the first token's state; gives the name of the scores.
    fn classifier(&mut self, config: &BertConfig, states: &str) -> Result<String, BertError> {
        const WEIGHT: &str = "classifier.weight";
        let h = config.hidden_size;
        let first = self.graph.int(0);
        let first = self.graph.node("Gather", &[states, &first], vec![int("axis", 1)]);
        let pooled = self.dense_full("pooler.dense", &first, [h, h])?;
        let pooled = self.graph.node("Tanh", &[&pooled], vec![]);
        if let Some([got, _]) = self.tensors.shape(WEIGHT)
            && *got != 1
        {
            return Err(BertError::Labels { name: WEIGHT, got: *got });
        }
        let weight = self.tensor(WEIGHT.to_owned(), &[1, h])?;
        let bias = self.tensor("classifier.bias".to_owned(), &[1])?;
        Ok(self.linear(&weight, &bias, &pooled))
    }

    fn embeddings(&mut self, config: &BertConfig) -> Result<String, BertError> {
        let h = config.hidden_size;
        let words = self.weight("embeddings.word_embeddings.weight", &[config.vocab_size, h])?;
        let types =
            self.weight("embeddings.token_type_embeddings.weight", &[config.type_vocab_size, h])?;
        let positions = self.weight(
            "embeddings.position_embeddings.weight",
            &[config.max_position_embeddings, h],
        )?;

        let words = self.graph.node("Gather", &[&words, "input_ids"], vec![]);
        let types = self.graph.node("Gather", &[&types, "token_type_ids"], vec![]);
        let (start, axis) = (self.graph.ints(&[0]), self.graph.ints(&[0]));
        let n_tokens =
            self.graph.node("Shape", &["input_ids"], vec![int("start", 1), int("end", 2)]);
        let positions = self.graph.node("Slice", &[&positions, &start, &n_tokens, &axis], vec![]);

        let sum = self.graph.node("Add", &[&words, &types], vec![]);
        let sum = self.graph.node("Add", &[&sum, &positions], vec![]);
        self.layer_norm(config, "embeddings.LayerNorm", &sum)
    }

    /// 0 where a token is, the least float where padding is; added to the attention scores.
    fn attention_bias(&mut self) -> String {
        let (one, least, axes) =
            (self.graph.float(1.0), self.graph.float(f32::MIN), self.graph.ints(&[1, 2]));
        let mask = self.graph.node("Cast", &["attention_mask"], vec![element("to", Element::F32)]);
        let mask = self.graph.node("Unsqueeze", &[&mask, &axes], vec![]);
        let padding = self.graph.node("Sub", &[&one, &mask], vec![]);
        self.graph.node("Mul", &[&padding, &least], vec![])
    }

    fn attention(
        &mut self,
        config: &BertConfig,
        layer: &str,
        x: &str,
        bias: &str,
    ) -> Result<String, BertError> {
        let (hidden, heads) = (config.hidden_size, config.num_attention_heads);
        let head_size = hidden / heads;
        let q = self.dense(&format!("{layer}.attention.self.query"), x, [hidden, hidden])?;
        let k = self.dense(&format!("{layer}.attention.self.key"), x, [hidden, hidden])?;
        // Values are a twelfth of the weights and their errors go straight into the states: rounded too, the worst golden
        // text of the default model has cosine 0.979 to the full model, and 0.987 as it is.
        let v = self.dense_full(&format!("{layer}.attention.self.value"), x, [hidden, hidden])?;
        let (q, k, v) = (
            self.split_heads(&q, heads, head_size, &[0, 2, 1, 3]),
            self.split_heads(&k, heads, head_size, &[0, 2, 3, 1]),
            self.split_heads(&v, heads, head_size, &[0, 2, 1, 3]),
        );

        let scale = self.graph.float(1.0 / (head_size as f32).sqrt());
        let scores = self.graph.node("MatMul", &[&q, &k], vec![]);
        let scores = self.graph.node("Mul", &[&scores, &scale], vec![]);
        let scores = self.graph.node("Add", &[&scores, bias], vec![]);
        let shares = self.graph.node("Softmax", &[&scores], vec![int("axis", -1)]);
        let context = self.graph.node("MatMul", &[&shares, &v], vec![]);
        let context = self.graph.node("Transpose", &[&context], vec![ints("perm", &[0, 2, 1, 3])]);
        let joined = self.graph.ints(&[0, 0, as_dim(hidden)]);
        let context = self.graph.node("Reshape", &[&context, &joined], vec![]);

        let context =
            self.dense(&format!("{layer}.attention.output.dense"), &context, [hidden, hidden])?;
        let sum = self.graph.node("Add", &[&context, x], vec![]);
        self.layer_norm(config, &format!("{layer}.attention.output.LayerNorm"), &sum)
    }

    fn feed_forward(
        &mut self,
        config: &BertConfig,
        layer: &str,
        x: &str,
    ) -> Result<String, BertError> {
        let (h, wide) = (config.hidden_size, config.intermediate_size);
        let inner = self.dense(&format!("{layer}.intermediate.dense"), x, [wide, h])?;
        let inner = self.activation(&config.hidden_act, &inner)?;
        let inner = self.dense(&format!("{layer}.output.dense"), &inner, [h, wide])?;
        let sum = self.graph.node("Add", &[&inner, x], vec![]);
        self.layer_norm(config, &format!("{layer}.output.LayerNorm"), &sum)
    }

    fn activation(&mut self, name: &str, x: &str) -> Result<String, BertError> {
        match name {
            "gelu" => Ok(self.graph.node("Gelu", &[x], vec![])),
            "gelu_new" | "gelu_pytorch_tanh" => {
                Ok(self.graph.node("Gelu", &[x], vec![string("approximate", "tanh")]))
            }
            "relu" => Ok(self.graph.node("Relu", &[x], vec![])),
            other => Err(BertError::Unsupported {
                key: "hidden_act",
                got: other.to_owned(),
                wanted: "gelu, gelu_new, gelu_pytorch_tanh or relu",
            }),
        }
    }

    /// `x Wᵀ + b` of a layer, in its precision; `shape` is that of the weight as saved, `[outputs, inputs]`.
    fn dense(&mut self, layer: &str, x: &str, shape: [usize; 2]) -> Result<String, BertError> {
        match self.tensors.precision() {
            Precision::Full => self.dense_full(layer, x, shape),
            Precision::Int8 => self.dense_int8(layer, x, shape),
        }
    }

    /// `x Wᵀ + b` with the weights as saved.
    fn dense_full(&mut self, layer: &str, x: &str, shape: [usize; 2]) -> Result<String, BertError> {
        let weight = self.weight(&format!("{layer}.weight"), &shape)?;
        let bias = self.weight(&format!("{layer}.bias"), &shape[..1])?;
        Ok(self.linear(&weight, &bias, x))
    }

    /// `x Wᵀ + b` in bytes. `Cast` and `Mul` come right after the product: the runtime makes one operation of the three.
    fn dense_int8(&mut self, layer: &str, x: &str, shape: [usize; 2]) -> Result<String, BertError> {
        let bias = self.weight(&format!("{layer}.bias"), &shape[..1])?;
        let name = format!("{}{layer}.weight", self.prefix);
        let (weight, scale) = self.tensors.place_int8(&name, shape)?;
        let [n_outputs, n_inputs] = shape;
        let weight = self.external(name.clone(), &[n_inputs, n_outputs], weight);
        let scale = self.external(format!("{name}.scale"), &[n_outputs], scale);
        let zero = self.graph.byte(0);
        let rounded = self
            .rounded
            .entry(x.to_owned())
            .or_insert_with(|| self.graph.node_of("DynamicQuantizeLinear", &[x], vec![]));
        let [x, x_scale, x_zero] = rounded;
        let product = self.graph.node("MatMulInteger", &[x, &weight, x_zero, &zero], vec![]);
        let product = self.graph.node("Cast", &[&product], vec![element("to", Element::F32)]);
        let scale = self.graph.node("Mul", &[x_scale, &scale], vec![]);
        let product = self.graph.node("Mul", &[&product, &scale], vec![]);
        Ok(self.graph.node("Add", &[&product, &bias], vec![]))
    }

    fn linear(&mut self, weight: &str, bias: &str, x: &str) -> String {
        let weight = self.graph.node("Transpose", &[weight], vec![ints("perm", &[1, 0])]);
        let product = self.graph.node("MatMul", &[x, &weight], vec![]);
        self.graph.node("Add", &[&product, bias], vec![])
    }

    fn layer_norm(
        &mut self,
        config: &BertConfig,
        name: &str,
        x: &str,
    ) -> Result<String, BertError> {
        let scale = self.weight(&format!("{name}.weight"), &[config.hidden_size])?;
        let bias = self.weight(&format!("{name}.bias"), &[config.hidden_size])?;
        let attributes = vec![int("axis", -1), float("epsilon", config.layer_norm_eps)];
        Ok(self.graph.node("LayerNormalization", &[x, &scale, &bias], attributes))
    }

    fn split_heads(&mut self, x: &str, heads: usize, head_size: usize, order: &[i64]) -> String {
        let shape = self.graph.ints(&[0, 0, as_dim(heads), as_dim(head_size)]);
        let split = self.graph.node("Reshape", &[x, &shape], vec![]);
        self.graph.node("Transpose", &[&split], vec![ints("perm", order)])
    }

    /// A tensor of the model itself; gives its name in the graph.
    fn weight(&mut self, name: &str, wanted: &[usize]) -> Result<String, BertError> {
        self.tensor(format!("{}{name}", self.prefix), wanted)
    }

    /// A tensor of the safetensors file, as external data; gives its name in the graph.
    fn tensor(&mut self, name: String, wanted: &[usize]) -> Result<String, BertError> {
        let place = self.tensors.place(&name, wanted)?;
        Ok(self.external(name, wanted, place))
    }

    fn external(&mut self, name: String, dims: &[usize], place: Place) -> String {
        self.graph.external(&name, place.element, dims, place.bytes);
        name
    }
}
