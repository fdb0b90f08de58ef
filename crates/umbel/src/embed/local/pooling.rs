//! Hidden states → vectors of norm 1.
//!
//! Invariant: padding takes no part; where a network pools for itself, its row is taken as it is.

use rten_tensor::prelude::*;
use rten_tensor::{NdTensorView, Tensor};

use crate::local::{LocalError, Tokens};

/// How the hidden states of a text's tokens become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    /// Their mean, padding left out.
    Mean,
    /// The first one.
    Cls,
}

impl Pooling {
    /// A vector of norm 1 for each text, of what a network gave for them.
    pub(super) fn rows(
        self,
        texts: &[Tokens],
        output: &Tensor<f32>,
    ) -> Result<Vec<Vec<f32>>, LocalError> {
        let mut rows = match output.ndim() {
            // Already one row per text: the export pools for itself.
            2 => {
                let rows: NdTensorView<f32, 2> = output.nd_view();
                (0..texts.len()).map(|idx| rows.slice(idx).iter().copied().collect()).collect()
            }
            3 => self.pool(texts, output.nd_view()),
            _ => return Err(LocalError::NoOutput),
        };
        rows.iter_mut().try_for_each(|row| normalize(row))?;
        Ok(rows)
    }

    fn pool(self, texts: &[Tokens], states: NdTensorView<f32, 3>) -> Vec<Vec<f32>> {
        let pool_one = |(idx, tokens): (usize, &Tokens)| {
            let states = states.slice(idx);
            let n_pooled = match self {
                Self::Mean => tokens.ids.len(),
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
