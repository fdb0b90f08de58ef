//! `config.json` + the header of `model.safetensors` → an ONNX graph whose weights are the safetensors bytes.
//!
//! Invariant: the graph holds no weight. Every initialiser that is one names its place in the data section of the
//! safetensors file, as ONNX external data of the name [`WEIGHTS`]. So 31 KB of graph serve 91 MB of weights, which are
//! read once and never converted.
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
//! x → last_hidden_state [n s h]
//! ```
//!
//! Pooling is not in the graph: an ONNX file used as it is has none either, so it is done once, in `local`.
//!
//! Source: Devlin et al., NAACL 2019 (the architecture); the names of tensors and settings are those of `BertModel` in
//! Hugging Face transformers; field numbers are those of `onnx.proto` (ONNX IR version 9, opset 20).

use std::collections::HashMap;

use prost::Message as _;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde::Deserialize;

/// The name under which the graph expects the safetensors bytes; `rten` wants it to end in `.data`.
pub(super) const WEIGHTS: &str = "weights.data";

/// The architecture whose graphs can be written, as `model_type` says it.
pub(super) const MODEL_TYPE: &str = "bert";

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
pub(super) struct BertConfig {
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
    pub(super) fn parse(json: &[u8]) -> Result<Self, BertError> {
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
pub(super) struct Graph {
    /// An encoded ONNX model of a few tens of kilobytes.
    pub(super) onnx: Vec<u8>,
    /// The bytes that the graph calls [`WEIGHTS`].
    pub(super) weights: Vec<u8>,
}

/// Writes the graph for the weights in `safetensors`, a whole file.
///
/// # Errors
/// [`BertError`], where the weights are not those that the configuration promises.
pub(super) fn write(config: &BertConfig, mut safetensors: Vec<u8>) -> Result<Graph, BertError> {
    let (header_bytes, metadata) =
        SafeTensors::read_metadata(&safetensors).map_err(|source| BertError::Header { source })?;
    let mut writer = Writer::new(&metadata);
    let hidden_states = writer.model(config)?;
    let onnx = writer.finish(&hidden_states).encode_to_vec();
    // The header goes: its length need not be a multiple of four, and the runtime refuses weights that are not aligned.
    safetensors.drain(..size_of::<u64>() + header_bytes);
    Ok(Graph { onnx, weights: safetensors })
}

/// The graph while it is being written.
struct Writer<'a> {
    tensors: HashMap<String, &'a TensorInfo>,
    /// `bert.` where the weights were saved with a head on top, else empty.
    prefix: &'static str,
    graph: proto::Graph,
}

impl<'a> Writer<'a> {
    fn new(metadata: &'a Metadata) -> Self {
        let tensors = metadata.tensors();
        let prefix = if tensors.contains_key("bert.embeddings.word_embeddings.weight") {
            "bert."
        } else {
            ""
        };
        let graph = proto::Graph { name: "bert".to_owned(), ..Default::default() };
        Self { tensors, prefix, graph }
    }

    /// The whole model; gives the name of its hidden states.
    fn model(&mut self, config: &BertConfig) -> Result<String, BertError> {
        let mut x = self.embeddings(config)?;
        let bias = self.attention_bias();
        for layer_idx in 0..config.num_hidden_layers {
            let layer = format!("encoder.layer.{layer_idx}");
            x = self.attention(config, &layer, &x, &bias)?;
            x = self.feed_forward(config, &layer, &x)?;
        }
        Ok(x)
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

        let words = self.node("Gather", &[&words, "input_ids"], vec![]);
        let types = self.node("Gather", &[&types, "token_type_ids"], vec![]);
        let (start, axis) = (self.ints(&[0]), self.ints(&[0]));
        let n_tokens = self.node("Shape", &["input_ids"], vec![int("start", 1), int("end", 2)]);
        let positions = self.node("Slice", &[&positions, &start, &n_tokens, &axis], vec![]);

        let sum = self.node("Add", &[&words, &types], vec![]);
        let sum = self.node("Add", &[&sum, &positions], vec![]);
        self.layer_norm(config, "embeddings.LayerNorm", &sum)
    }

    /// 0 where a token is, the least float where padding is; added to the attention scores.
    fn attention_bias(&mut self) -> String {
        let (one, least, axes) = (self.float(1.0), self.float(f32::MIN), self.ints(&[1, 2]));
        let mask = self.node("Cast", &["attention_mask"], vec![int("to", proto::FLOAT.into())]);
        let mask = self.node("Unsqueeze", &[&mask, &axes], vec![]);
        let padding = self.node("Sub", &[&one, &mask], vec![]);
        self.node("Mul", &[&padding, &least], vec![])
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
        let v = self.dense(&format!("{layer}.attention.self.value"), x, [hidden, hidden])?;
        let (q, k, v) = (
            self.split_heads(&q, heads, head_size, &[0, 2, 1, 3]),
            self.split_heads(&k, heads, head_size, &[0, 2, 3, 1]),
            self.split_heads(&v, heads, head_size, &[0, 2, 1, 3]),
        );

        let scale = self.float(1.0 / (head_size as f32).sqrt());
        let scores = self.node("MatMul", &[&q, &k], vec![]);
        let scores = self.node("Mul", &[&scores, &scale], vec![]);
        let scores = self.node("Add", &[&scores, bias], vec![]);
        let shares = self.node("Softmax", &[&scores], vec![int("axis", -1)]);
        let context = self.node("MatMul", &[&shares, &v], vec![]);
        let context = self.node("Transpose", &[&context], vec![ints("perm", &[0, 2, 1, 3])]);
        let joined = self.ints(&[0, 0, as_dim(hidden)]);
        let context = self.node("Reshape", &[&context, &joined], vec![]);

        let context =
            self.dense(&format!("{layer}.attention.output.dense"), &context, [hidden, hidden])?;
        let sum = self.node("Add", &[&context, x], vec![]);
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
        let sum = self.node("Add", &[&inner, x], vec![]);
        self.layer_norm(config, &format!("{layer}.output.LayerNorm"), &sum)
    }

    fn activation(&mut self, name: &str, x: &str) -> Result<String, BertError> {
        match name {
            "gelu" => Ok(self.node("Gelu", &[x], vec![])),
            "gelu_new" | "gelu_pytorch_tanh" => {
                Ok(self.node("Gelu", &[x], vec![string("approximate", "tanh")]))
            }
            "relu" => Ok(self.node("Relu", &[x], vec![])),
            other => Err(BertError::Unsupported {
                key: "hidden_act",
                got: other.to_owned(),
                wanted: "gelu, gelu_new, gelu_pytorch_tanh or relu",
            }),
        }
    }

    /// `x Wᵀ + b`; `shape` is that of the weight as saved, `[outputs, inputs]`.
    fn dense(&mut self, name: &str, x: &str, shape: [usize; 2]) -> Result<String, BertError> {
        let weight = self.weight(&format!("{name}.weight"), &shape)?;
        let bias = self.weight(&format!("{name}.bias"), &shape[..1])?;
        let weight = self.node("Transpose", &[&weight], vec![ints("perm", &[1, 0])]);
        let product = self.node("MatMul", &[x, &weight], vec![]);
        Ok(self.node("Add", &[&product, &bias], vec![]))
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
        Ok(self.node("LayerNormalization", &[x, &scale, &bias], attributes))
    }

    fn split_heads(&mut self, x: &str, heads: usize, head_size: usize, order: &[i64]) -> String {
        let shape = self.ints(&[0, 0, as_dim(heads), as_dim(head_size)]);
        let split = self.node("Reshape", &[x, &shape], vec![]);
        self.node("Transpose", &[&split], vec![ints("perm", order)])
    }

    /// A tensor of the safetensors file, as external data; gives its name in the graph.
    fn weight(&mut self, name: &str, wanted: &[usize]) -> Result<String, BertError> {
        let name = format!("{}{name}", self.prefix);
        let Some(info) = self.tensors.get(&name) else { return Err(BertError::Missing { name }) };
        if info.shape != wanted {
            return Err(BertError::Shape {
                name,
                got: info.shape.clone(),
                wanted: wanted.to_vec(),
            });
        }
        let data_type = match info.dtype {
            Dtype::F32 => proto::FLOAT,
            Dtype::F16 => proto::FLOAT16,
            got => return Err(BertError::Type { name, got }),
        };
        let (start, end) = info.data_offsets;
        let entry = |key: &str, value: String| proto::Entry { key: key.to_owned(), value };
        self.graph.initializer.push(proto::Tensor {
            name: name.clone(),
            data_type,
            dims: wanted.iter().copied().map(as_dim).collect(),
            external_data: vec![
                entry("location", WEIGHTS.to_owned()),
                entry("offset", start.to_string()),
                entry("length", (end - start).to_string()),
            ],
            data_location: Some(proto::EXTERNAL),
            ..Default::default()
        });
        Ok(name)
    }

    /// A constant list of integers.
    fn ints(&mut self, values: &[i64]) -> String {
        let tensor = proto::Tensor {
            dims: vec![as_dim(values.len())],
            data_type: proto::INT64,
            int64_data: values.to_vec(),
            ..Default::default()
        };
        self.constant(tensor)
    }

    /// A constant number.
    fn float(&mut self, value: f32) -> String {
        let tensor = proto::Tensor {
            data_type: proto::FLOAT,
            float_data: vec![value],
            ..Default::default()
        };
        self.constant(tensor)
    }

    fn constant(&mut self, tensor: proto::Tensor) -> String {
        let name = format!("constant.{}", self.graph.initializer.len());
        self.graph.initializer.push(proto::Tensor { name: name.clone(), ..tensor });
        name
    }

    /// An operation with one output; gives the output's name.
    fn node(
        &mut self,
        op_type: &str,
        inputs: &[&str],
        attributes: Vec<proto::Attribute>,
    ) -> String {
        let name = format!("{op_type}.{}", self.graph.node.len());
        self.graph.node.push(proto::Node {
            name: name.clone(),
            op_type: op_type.to_owned(),
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: vec![name.clone()],
            attribute: attributes,
        });
        name
    }

    fn finish(mut self, hidden_states: &str) -> proto::Model {
        // The graph's output has a fixed name; an identity costs nothing and keeps the writer free of a special case.
        self.graph.node.push(proto::Node {
            name: "last_hidden_state".to_owned(),
            op_type: "Identity".to_owned(),
            input: vec![hidden_states.to_owned()],
            output: vec!["last_hidden_state".to_owned()],
            attribute: vec![],
        });
        self.graph.input = ["input_ids", "attention_mask", "token_type_ids"]
            .map(|name| value(name, proto::INT64, &["texts", "tokens"]))
            .into();
        self.graph.output =
            vec![value("last_hidden_state", proto::FLOAT, &["texts", "tokens", "hidden"])];
        proto::Model {
            ir_version: 9,
            producer_name: env!("CARGO_PKG_NAME").to_owned(),
            graph: Some(self.graph),
            opset_import: vec![proto::Opset { domain: String::new(), version: 20 }],
        }
    }
}

/// A size as ONNX wants it. Sizes come from tensors that are in memory, so none is near the limit.
fn as_dim(size: usize) -> i64 {
    i64::try_from(size).expect("a size in memory is below i64::MAX")
}

fn int(name: &str, value: i64) -> proto::Attribute {
    proto::Attribute {
        name: name.to_owned(),
        kind: proto::KIND_INT,
        i: Some(value),
        ..Default::default()
    }
}

fn float(name: &str, value: f32) -> proto::Attribute {
    proto::Attribute {
        name: name.to_owned(),
        kind: proto::KIND_FLOAT,
        f: Some(value),
        ..Default::default()
    }
}

fn ints(name: &str, values: &[i64]) -> proto::Attribute {
    proto::Attribute {
        name: name.to_owned(),
        kind: proto::KIND_INTS,
        ints: values.to_vec(),
        ..Default::default()
    }
}

fn string(name: &str, value: &str) -> proto::Attribute {
    let s = Some(value.as_bytes().to_vec());
    proto::Attribute { name: name.to_owned(), kind: proto::KIND_STRING, s, ..Default::default() }
}

/// An input or output whose sizes are only named.
fn value(name: &str, elem_type: i32, dims: &[&str]) -> proto::Value {
    let dim = dims.iter().map(|&name| proto::Dimension { dim_param: name.to_owned() }).collect();
    let tensor = proto::TensorType { elem_type, shape: Some(proto::Shape { dim }) };
    proto::Value { name: name.to_owned(), r#type: Some(proto::Type { tensor_type: Some(tensor) }) }
}

/// The few messages of `onnx.proto` that the writer needs, under shorter names. It is proto2, where lists are packed only
/// where a field says so.
mod proto {
    // Element types of `TensorProto.DataType`.
    pub(super) const FLOAT: i32 = 1;
    pub(super) const INT64: i32 = 7;
    pub(super) const FLOAT16: i32 = 10;
    // `TensorProto.DataLocation`.
    pub(super) const EXTERNAL: i32 = 1;
    // `AttributeProto.AttributeType`.
    pub(super) const KIND_FLOAT: i32 = 1;
    pub(super) const KIND_INT: i32 = 2;
    pub(super) const KIND_STRING: i32 = 3;
    pub(super) const KIND_INTS: i32 = 7;

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Model {
        #[prost(int64, tag = "1")]
        pub(super) ir_version: i64,
        #[prost(string, tag = "2")]
        pub(super) producer_name: String,
        #[prost(message, optional, tag = "7")]
        pub(super) graph: Option<Graph>,
        #[prost(message, repeated, tag = "8")]
        pub(super) opset_import: Vec<Opset>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Opset {
        #[prost(string, tag = "1")]
        pub(super) domain: String,
        #[prost(int64, tag = "2")]
        pub(super) version: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Graph {
        #[prost(message, repeated, tag = "1")]
        pub(super) node: Vec<Node>,
        #[prost(string, tag = "2")]
        pub(super) name: String,
        #[prost(message, repeated, tag = "5")]
        pub(super) initializer: Vec<Tensor>,
        #[prost(message, repeated, tag = "11")]
        pub(super) input: Vec<Value>,
        #[prost(message, repeated, tag = "12")]
        pub(super) output: Vec<Value>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Node {
        #[prost(string, repeated, tag = "1")]
        pub(super) input: Vec<String>,
        #[prost(string, repeated, tag = "2")]
        pub(super) output: Vec<String>,
        #[prost(string, tag = "3")]
        pub(super) name: String,
        #[prost(string, tag = "4")]
        pub(super) op_type: String,
        #[prost(message, repeated, tag = "5")]
        pub(super) attribute: Vec<Attribute>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Attribute {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(float, optional, tag = "2")]
        pub(super) f: Option<f32>,
        #[prost(int64, optional, tag = "3")]
        pub(super) i: Option<i64>,
        #[prost(bytes = "vec", optional, tag = "4")]
        pub(super) s: Option<Vec<u8>>,
        #[prost(int64, repeated, packed = "false", tag = "8")]
        pub(super) ints: Vec<i64>,
        #[prost(int32, tag = "20")]
        pub(super) kind: i32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Tensor {
        #[prost(int64, repeated, packed = "false", tag = "1")]
        pub(super) dims: Vec<i64>,
        #[prost(int32, tag = "2")]
        pub(super) data_type: i32,
        #[prost(float, repeated, tag = "4")]
        pub(super) float_data: Vec<f32>,
        #[prost(int64, repeated, tag = "7")]
        pub(super) int64_data: Vec<i64>,
        #[prost(string, tag = "8")]
        pub(super) name: String,
        #[prost(message, repeated, tag = "13")]
        pub(super) external_data: Vec<Entry>,
        #[prost(int32, optional, tag = "14")]
        pub(super) data_location: Option<i32>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Entry {
        #[prost(string, tag = "1")]
        pub(super) key: String,
        #[prost(string, tag = "2")]
        pub(super) value: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Value {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(message, optional, tag = "2")]
        pub(super) r#type: Option<Type>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Type {
        #[prost(message, optional, tag = "1")]
        pub(super) tensor_type: Option<TensorType>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct TensorType {
        #[prost(int32, tag = "1")]
        pub(super) elem_type: i32,
        #[prost(message, optional, tag = "2")]
        pub(super) shape: Option<Shape>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Shape {
        #[prost(message, repeated, tag = "1")]
        pub(super) dim: Vec<Dimension>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Dimension {
        #[prost(string, tag = "2")]
        pub(super) dim_param: String,
    }
}
