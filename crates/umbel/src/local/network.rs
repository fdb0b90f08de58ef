//! Weights → a network: batches of tokens in, a tensor out.
//!
//! Invariant: a graph written here and an ONNX file used as it is take the same path.

use std::path::Path;
use std::sync::Arc;

use rten::{Model, ModelOptions, NodeId, RunOptions, ThreadPool, Value};
use rten_tensor::prelude::*;
use rten_tensor::{NdTensor, Tensor};

use super::bert::{self, BertConfig, Head};
use super::weights::Precision;
use super::{LocalError, Tokens, onnx};
use crate::model::Weights;

/// A loaded network.
pub(crate) struct Network {
    model: Model,
    inputs: Vec<(Input, NodeId)>,
    output: NodeId,
    head: Head,
}

/// What a network may ask for.
#[derive(Debug, Clone, Copy)]
enum Input {
    Ids,
    Mask,
    Types,
}

impl Network {
    pub(crate) fn load(
        folder: &Path,
        weights: Weights,
        head: Head,
        precision: Precision,
    ) -> Result<Self, LocalError> {
        let path = folder.join(weights.file_name());
        let model = match weights {
            Weights::Onnx(file) if precision == Precision::Int8 => {
                return Err(LocalError::Int8 { file });
            }
            Weights::Onnx(_) => {
                Model::load_file(&path).map_err(|source| LocalError::Load { source })?
            }
            Weights::Safetensors => {
                let config = BertConfig::parse(&fs_err::read(folder.join("config.json"))?)?;
                let graph = bert::write(&config, fs_err::read(&path)?, head, precision)?;
                let mut options = ModelOptions::with_all_ops();
                // To lay out the bytes anew for each batch costs much where it is one text: a query of the default model took
                // 6.6 ms so, and 2.7 ms with 10 MB more. Full weights would gain little and be there twice.
                options.prepack_weights(precision == Precision::Int8);
                options.external_data(onnx::WEIGHTS, graph.weights);
                options.load(graph.onnx).map_err(|source| LocalError::Load { source })?
            }
        };
        let inputs = find_inputs(&model)?;
        let output = find_output(&model, &inputs, head)?;
        Ok(Self { model, inputs, output, head })
    }

    /// Runs a batch, padded to its longest text; the first axis of the tensor is the texts.
    pub(crate) fn run(
        &self,
        texts: &[Tokens],
        runtime: &Arc<ThreadPool>,
    ) -> Result<Tensor<f32>, LocalError> {
        let runtime = Some(Arc::clone(runtime));
        let values = run_model(&self.model, &self.inputs, &[self.output], texts, runtime)?;
        match values.into_iter().next() {
            Some(Value::FloatTensor(tensor)) => Ok(tensor),
            _ => Err(missing_output(self.head)),
        }
    }
}

fn run_model(
    model: &Model,
    inputs: &[(Input, NodeId)],
    outputs: &[NodeId],
    texts: &[Tokens],
    thread_pool: Option<Arc<ThreadPool>>,
) -> Result<Vec<Value>, LocalError> {
    let n_tokens = texts.iter().map(|tokens| tokens.ids.len()).max().unwrap_or(0);
    let inputs = inputs.iter().map(|&(input, node)| {
        let tensor = NdTensor::<i32, 2>::from_fn([texts.len(), n_tokens], |[text, token]| {
            let Tokens { ids, types } = &texts[text];
            match input {
                // Padding is masked, so any token will do that every vocabulary has.
                Input::Ids => ids.get(token).copied().unwrap_or(0),
                Input::Mask => i32::from(token < ids.len()),
                Input::Types => types.get(token).copied().unwrap_or(0),
            }
        });
        (node, tensor.into())
    });
    let mut options = RunOptions::default();
    options.thread_pool = thread_pool;
    model
        .run(inputs.collect(), outputs, Some(options))
        .map_err(|source| LocalError::Run { source: Box::new(source) })
}

fn find_inputs(model: &Model) -> Result<Vec<(Input, NodeId)>, LocalError> {
    let find = |&node| match name_of(model, node) {
        "input_ids" => Ok((Input::Ids, node)),
        "attention_mask" => Ok((Input::Mask, node)),
        "token_type_ids" => Ok((Input::Types, node)),
        other => Err(LocalError::Input { name: other.to_owned() }),
    };
    model.input_ids().iter().map(find).collect()
}

/// The output by its usual name, else the first one of the shape wanted. An embedding is taken before hidden states.
fn find_output(
    model: &Model,
    inputs: &[(Input, NodeId)],
    head: Head,
) -> Result<NodeId, LocalError> {
    let names: &[&str] = match head {
        Head::States => &["sentence_embedding", "last_hidden_state", "token_embeddings"],
        Head::Score => &["logits"],
    };
    let outputs = model.output_ids();
    let by_name = names
        .iter()
        .find_map(|&name| outputs.iter().copied().find(|&node| name_of(model, node) == name));
    if let Some(node) = by_name {
        return Ok(node);
    }
    // Declared shapes may be absent, so a text of one token is run to see them.
    let text = Tokens { ids: vec![0], types: vec![0] };
    let values = run_model(model, inputs, outputs, &[text], None)?;
    let fits = |value: &Value| match (head, value) {
        (Head::States, Value::FloatTensor(tensor)) => tensor.ndim() == 3,
        (Head::Score, Value::FloatTensor(tensor)) => tensor.ndim() <= 2 && tensor.len() == 1,
        _ => false,
    };
    let found = outputs.iter().zip(&values).find(|(_, value)| fits(value));
    found.map(|(&node, _)| node).ok_or(missing_output(head))
}

fn missing_output(head: Head) -> LocalError {
    match head {
        Head::States => LocalError::NoOutput,
        Head::Score => LocalError::NoScore,
    }
}

fn name_of(model: &Model, node: NodeId) -> &str {
    model.node_info(node).and_then(|info| info.name()).unwrap_or_default()
}
