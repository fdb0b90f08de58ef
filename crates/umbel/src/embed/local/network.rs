//! Weights → a network: batches of tokens in, vectors of norm 1 out.
//!
//! Invariant: a graph written here and an ONNX file used as it is take the same path; where a graph ends in hidden states
//! they are pooled here, and where it pools for itself its row is taken.

use std::path::Path;
use std::sync::Arc;

use rten::{Model, ModelOptions, NodeId, RunOptions, ThreadPool, Value};
use rten_tensor::prelude::*;
use rten_tensor::{NdTensor, NdTensorView};

use super::settings::Pooling;
use super::{LocalError, Rows};
use crate::embed::bert::{self, BertConfig};
use crate::model::Weights;

/// A loaded network: tokens in, one vector of norm 1 per text out.
pub(super) struct Network {
    model: Model,
    inputs: Vec<(Input, NodeId)>,
    output: NodeId,
    pooling: Pooling,
}

/// What a network may ask for.
#[derive(Debug, Clone, Copy)]
enum Input {
    Ids,
    Mask,
    Types,
}

impl Network {
    pub(super) fn load(
        folder: &Path,
        weights: Weights,
        pooling: Pooling,
    ) -> Result<Self, LocalError> {
        let path = folder.join(weights.file_name());
        let model = match weights {
            Weights::Onnx(_) => {
                Model::load_file(&path).map_err(|source| LocalError::Load { source })?
            }
            Weights::Safetensors => {
                let config = BertConfig::parse(&fs_err::read(folder.join("config.json"))?)?;
                let graph = bert::write(&config, fs_err::read(&path)?)?;
                let mut options = ModelOptions::with_all_ops();
                options.external_data(bert::WEIGHTS, graph.weights);
                options.load(graph.onnx).map_err(|source| LocalError::Load { source })?
            }
        };
        let inputs = find_inputs(&model)?;
        let output = find_output(&model, &inputs)?;
        Ok(Self { model, inputs, output, pooling })
    }

    /// Runs a batch, padded to its longest text.
    pub(super) fn run(&self, texts: &[Vec<i32>], runtime: &Arc<ThreadPool>) -> Rows {
        let values =
            run_model(&self.model, &self.inputs, &[self.output], texts, Some(Arc::clone(runtime)))?;
        let Some(Value::FloatTensor(tensor)) = values.into_iter().next() else {
            return Err(LocalError::NoOutput);
        };
        let mut rows = match tensor.ndim() {
            // Already one row per text: the export pools for itself.
            2 => {
                let rows: NdTensorView<f32, 2> = tensor.nd_view();
                (0..texts.len()).map(|idx| rows.slice(idx).iter().copied().collect()).collect()
            }
            3 => self.pooling.pool(texts, tensor.nd_view()),
            _ => return Err(LocalError::NoOutput),
        };
        rows.iter_mut().try_for_each(|row| normalize(row))?;
        Ok(rows)
    }
}

fn run_model(
    model: &Model,
    inputs: &[(Input, NodeId)],
    outputs: &[NodeId],
    texts: &[Vec<i32>],
    thread_pool: Option<Arc<ThreadPool>>,
) -> Result<Vec<Value>, LocalError> {
    let n_tokens = texts.iter().map(Vec::len).max().unwrap_or(0);
    let token = |[text_idx, token_idx]: [usize; 2]| texts[text_idx].get(token_idx).copied();
    let inputs = inputs.iter().map(|&(input, node)| {
        let tensor = NdTensor::<i32, 2>::from_fn([texts.len(), n_tokens], |place| match input {
            // Padding is masked, so any token will do that every vocabulary has.
            Input::Ids => token(place).unwrap_or(0),
            Input::Mask => i32::from(token(place).is_some()),
            Input::Types => 0,
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

/// A sentence embedding where the export has one, else the hidden states by name, else the first output of rank 3.
fn find_output(model: &Model, inputs: &[(Input, NodeId)]) -> Result<NodeId, LocalError> {
    let outputs = model.output_ids();
    let by_name = ["sentence_embedding", "last_hidden_state", "token_embeddings"]
        .iter()
        .find_map(|&name| outputs.iter().copied().find(|&node| name_of(model, node) == name));
    if let Some(node) = by_name {
        return Ok(node);
    }
    // Declared shapes may be absent, so a text of one token is run to see them.
    let values = run_model(model, inputs, outputs, &[vec![0]], None)?;
    let is_rank_3 =
        |value: &Value| matches!(value, Value::FloatTensor(tensor) if tensor.ndim() == 3);
    let found = outputs.iter().zip(&values).find(|(_, value)| is_rank_3(value));
    found.map(|(&node, _)| node).ok_or(LocalError::NoOutput)
}

fn name_of(model: &Model, node: NodeId) -> &str {
    model.node_info(node).and_then(|info| info.name()).unwrap_or_default()
}

impl Pooling {
    fn pool(self, texts: &[Vec<i32>], states: NdTensorView<f32, 3>) -> Vec<Vec<f32>> {
        let pool_one = |(idx, tokens): (usize, &Vec<i32>)| {
            let states = states.slice(idx);
            let n_pooled = match self {
                Self::Mean => tokens.len(),
                Self::Cls => 1,
            };
            let mut sum = vec![0.0; states.size(1)];
            for token_idx in 0..n_pooled {
                sum.iter_mut()
                    .zip(states.slice(token_idx).iter())
                    .for_each(|(sum, state)| *sum += state);
            }
            // Not divided by `n_pooled`: the norm is set to 1 next.
            sum
        };
        texts.iter().enumerate().map(pool_one).collect()
    }
}

fn normalize(row: &mut [f32]) -> Result<(), LocalError> {
    let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
    if !norm.is_normal() {
        return Err(LocalError::Norm { norm });
    }
    for x in row.iter_mut() {
        *x /= norm;
    }
    Ok(())
}
