//! Operations, constants and places of weights → an encoded ONNX graph.
//!
//! Invariant: the graph holds no weight. Every initialiser that is one names its place in [`WEIGHTS`], as ONNX external
//! data, so a graph of a few tens of kilobytes serves weights of any size.
//!
//! Source: field numbers are those of `onnx.proto` (ONNX IR version 9, opset 20).

use prost::Message as _;

use self::proto::Attribute;

/// The name under which a graph expects its weights; `rten` wants it to end in `.data`.
pub(crate) const WEIGHTS: &str = "weights.data";

/// The type of an element of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    F32,
    F16,
    I8,
}

impl Element {
    fn number(self) -> i32 {
        match self {
            Self::F32 => proto::FLOAT,
            Self::F16 => proto::FLOAT16,
            Self::I8 => proto::INT8,
        }
    }
}

/// A graph while it is being written.
#[derive(Default)]
pub(super) struct Graph {
    graph: proto::Graph,
}

impl Graph {
    /// A tensor whose bytes are in [`WEIGHTS`]; `dims` are its sizes.
    pub(super) fn external(
        &mut self,
        name: &str,
        element: Element,
        dims: &[usize],
        place: std::ops::Range<usize>,
    ) {
        let entry = |key: &str, value: String| proto::Entry { key: key.to_owned(), value };
        self.graph.initializer.push(proto::Tensor {
            name: name.to_owned(),
            data_type: element.number(),
            dims: dims.iter().copied().map(as_dim).collect(),
            external_data: vec![
                entry("location", WEIGHTS.to_owned()),
                entry("offset", place.start.to_string()),
                entry("length", place.len().to_string()),
            ],
            data_location: Some(proto::EXTERNAL),
            ..Default::default()
        });
    }

    /// A constant list of integers.
    pub(super) fn ints(&mut self, values: &[i64]) -> String {
        self.constant(proto::Tensor {
            dims: vec![as_dim(values.len())],
            data_type: proto::INT64,
            int64_data: values.to_vec(),
            ..Default::default()
        })
    }

    /// A constant integer.
    pub(super) fn int(&mut self, value: i64) -> String {
        self.constant(proto::Tensor {
            data_type: proto::INT64,
            int64_data: vec![value],
            ..Default::default()
        })
    }

    /// A constant integer of one byte.
    pub(super) fn byte(&mut self, value: i8) -> String {
        self.constant(proto::Tensor {
            data_type: proto::INT8,
            int32_data: vec![value.into()],
            ..Default::default()
        })
    }

    /// A constant number.
    pub(super) fn float(&mut self, value: f32) -> String {
        self.constant(proto::Tensor {
            data_type: proto::FLOAT,
            float_data: vec![value],
            ..Default::default()
        })
    }

    fn constant(&mut self, tensor: proto::Tensor) -> String {
        let name = format!("constant.{}", self.graph.initializer.len());
        self.graph.initializer.push(proto::Tensor { name: name.clone(), ..tensor });
        name
    }

    /// An operation with one output; gives the output's name.
    pub(super) fn node(
        &mut self,
        op_type: &str,
        inputs: &[&str],
        attributes: Vec<Attribute>,
    ) -> String {
        let [output] = self.node_of(op_type, inputs, attributes);
        output
    }

    /// An operation with `N` outputs; gives their names.
    pub(super) fn node_of<const N: usize>(
        &mut self,
        op_type: &str,
        inputs: &[&str],
        attributes: Vec<Attribute>,
    ) -> [String; N] {
        let name = format!("{op_type}.{}", self.graph.node.len());
        let outputs: [String; N] = std::array::from_fn(|at| match at {
            0 => name.clone(),
            _ => format!("{name}.{at}"),
        });
        self.graph.node.push(proto::Node {
            name,
            op_type: op_type.to_owned(),
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: outputs.to_vec(),
            attribute: attributes,
        });
        outputs
    }

    /// The encoded model. `value` becomes the output `name`; inputs are `[texts, tokens]` integers.
    pub(super) fn encode(
        mut self,
        inputs: &[&str],
        value: &str,
        name: &str,
        dims: &[&str],
    ) -> Vec<u8> {
        // The graph's output has a fixed name; an identity costs nothing and keeps the writer free of a special case.
        self.graph.node.push(proto::Node {
            name: name.to_owned(),
            op_type: "Identity".to_owned(),
            input: vec![value.to_owned()],
            output: vec![name.to_owned()],
            attribute: vec![],
        });
        self.graph.name = String::from("umbel");
        let ids = |name: &&str| value_of(name, proto::INT64, &["texts", "tokens"]);
        self.graph.input = inputs.iter().map(ids).collect();
        self.graph.output = vec![value_of(name, proto::FLOAT, dims)];
        proto::Model {
            ir_version: 9,
            producer_name: env!("CARGO_PKG_NAME").to_owned(),
            graph: Some(self.graph),
            opset_import: vec![proto::Opset { domain: String::new(), version: 20 }],
        }
        .encode_to_vec()
    }
}

/// A size as ONNX wants it. Sizes come from tensors that are in memory, so none is near the limit.
pub(super) fn as_dim(size: usize) -> i64 {
    i64::try_from(size).expect("a size in memory is below i64::MAX")
}

pub(super) fn int(name: &str, value: i64) -> Attribute {
    Attribute { name: name.to_owned(), kind: proto::KIND_INT, i: Some(value), ..Default::default() }
}

pub(super) fn element(name: &str, value: Element) -> Attribute {
    int(name, value.number().into())
}

pub(super) fn float(name: &str, value: f32) -> Attribute {
    Attribute {
        name: name.to_owned(),
        kind: proto::KIND_FLOAT,
        f: Some(value),
        ..Default::default()
    }
}

pub(super) fn ints(name: &str, values: &[i64]) -> Attribute {
    Attribute {
        name: name.to_owned(),
        kind: proto::KIND_INTS,
        ints: values.to_vec(),
        ..Default::default()
    }
}

pub(super) fn string(name: &str, value: &str) -> Attribute {
    let s = Some(value.as_bytes().to_vec());
    Attribute { name: name.to_owned(), kind: proto::KIND_STRING, s, ..Default::default() }
}

/// An input or output whose sizes are only named.
fn value_of(name: &str, elem_type: i32, dims: &[&str]) -> proto::Value {
    let dim = dims.iter().map(|&name| proto::Dimension { dim_param: name.to_owned() }).collect();
    let tensor = proto::TensorType { elem_type, shape: Some(proto::Shape { dim }) };
    proto::Value { name: name.to_owned(), r#type: Some(proto::Type { tensor_type: Some(tensor) }) }
}

/// The few messages of `onnx.proto` that the writer needs, under shorter names. It is proto2, where lists are packed only
/// where a field says so.
mod proto {
    // Element types of `TensorProto.DataType`.
    pub(super) const FLOAT: i32 = 1;
    pub(super) const INT8: i32 = 3;
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
    pub(in crate::local) struct Attribute {
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
        #[prost(int32, repeated, tag = "5")]
        pub(super) int32_data: Vec<i32>,
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
