//! A safetensors file → the tensors that a graph asks for, and where their bytes are.
//!
//! Invariant: full weights stay where they are in the file, which becomes the graph's data as a whole; for int8 the graph
//! gets data of its own, which holds the tensors asked for and no other.

use std::collections::HashMap;
use std::ops::Range;

use safetensors::tensor::{Dtype, TensorInfo};

use super::bert::BertError;
use super::onnx::Element;

/// What becomes of the weights of a model's layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precision {
    /// They are used as saved.
    Full,
    /// They are rounded to a byte each.
    Int8,
}

/// The largest magnitude of a weight in int8.
///
/// Source: 64 and not 127, as with `reduce_range` of ONNX Runtime's quantisation: processors without VNNI add two products of a
/// byte in 16 bits, and 2 × 255 × 64 < 2¹⁵. So sums are exact on every processor, and vectors the same.
const MOST: f32 = 64.0;

/// Places of data start at a multiple of this, which suits every element type.
const ALIGNMENT: usize = 64;

/// A tensor's bytes in a graph's data.
pub(super) struct Place {
    pub(super) element: Element,
    pub(super) bytes: Range<usize>,
}

/// The tensors of a safetensors file.
pub(super) struct Tensors<'a> {
    infos: HashMap<String, &'a TensorInfo>,
    /// The file behind its header.
    data: &'a [u8],
    /// The data of an int8 graph, so far.
    copy: Option<Vec<u8>>,
}

impl<'a> Tensors<'a> {
    pub(super) fn new(
        infos: HashMap<String, &'a TensorInfo>,
        data: &'a [u8],
        precision: Precision,
    ) -> Self {
        let copy = (precision == Precision::Int8).then(Vec::new);
        Self { infos, data, copy }
    }

    /// The sizes of a tensor, if there is one of this name.
    pub(super) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.infos.get(name).map(|info| &info.shape[..])
    }

    pub(super) fn precision(&self) -> Precision {
        if self.copy.is_some() { Precision::Int8 } else { Precision::Full }
    }

    /// The data of an int8 graph; none where the file's own is used.
    pub(super) fn into_copy(self) -> Option<Vec<u8>> {
        self.copy
    }

    /// A tensor as it is saved.
    pub(super) fn place(&mut self, name: &str, wanted: &[usize]) -> Result<Place, BertError> {
        let (element, saved) = self.find(name, wanted)?;
        let bytes = match &mut self.copy {
            None => saved,
            Some(copy) => append(copy, &self.data[saved]),
        };
        Ok(Place { element, bytes })
    }

    /// A weight in int8 and its scales, for an int8 graph. `wanted` is the shape as saved, `[outputs, inputs]`; the bytes
    /// are `[inputs, outputs]`, as `MatMulInteger` takes them, the scales `[outputs]`.
    pub(super) fn place_int8(
        &mut self,
        name: &str,
        wanted: [usize; 2],
    ) -> Result<(Place, Place), BertError> {
        let (element, saved) = self.find(name, &wanted)?;
        let values = floats(element, &self.data[saved]);
        let (weights, scales) = quantize(&values, wanted);
        let scales: Vec<u8> = scales.into_iter().flat_map(f32::to_le_bytes).collect();
        let copy = self.copy.get_or_insert_default();
        let weights = Place { element: Element::I8, bytes: append(copy, &weights) };
        Ok((weights, Place { element: Element::F32, bytes: append(copy, &scales) }))
    }

    fn find(&self, name: &str, wanted: &[usize]) -> Result<(Element, Range<usize>), BertError> {
        let name = name.to_owned();
        let Some(info) = self.infos.get(&name) else { return Err(BertError::Missing { name }) };
        if info.shape != wanted {
            let got = info.shape.clone();
            return Err(BertError::Shape { name, got, wanted: wanted.to_vec() });
        }
        let element = match info.dtype {
            Dtype::F32 => Element::F32,
            Dtype::F16 => Element::F16,
            got => return Err(BertError::Type { name, got }),
        };
        let (start, end) = info.data_offsets;
        Ok((element, start..end))
    }
}

/// Adds bytes at the next place that is aligned.
fn append(data: &mut Vec<u8>, bytes: &[u8]) -> Range<usize> {
    let start = data.len().next_multiple_of(ALIGNMENT);
    data.resize(start, 0);
    data.extend_from_slice(bytes);
    start..data.len()
}

/// A weight `[outputs, inputs]` in int8, transposed to `[inputs, outputs]`, and a scale per output:
/// `weight[o][i] ≈ scale[o] × byte[i][o]`, off by half a scale at most.
fn quantize(values: &[f32], [n_outputs, n_inputs]: [usize; 2]) -> (Vec<u8>, Vec<f32>) {
    let mut bytes = vec![0; values.len()];
    let mut scales = Vec::with_capacity(n_outputs);
    for (output, row) in values.chunks_exact(n_inputs).enumerate() {
        let most = row.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        // A row of zeros has no scale of its own; any will do.
        let scale = if most > 0.0 { most / MOST } else { 1.0 };
        for (input, value) in row.iter().enumerate() {
            let rounded = (value / scale).round() as i8;
            bytes[input * n_outputs + output] = rounded.cast_unsigned();
        }
        scales.push(scale);
    }
    (bytes, scales)
}

fn floats(element: Element, bytes: &[u8]) -> Vec<f32> {
    match element {
        Element::F32 => {
            bytes.as_chunks().0.iter().map(|&number| f32::from_le_bytes(number)).collect()
        }
        Element::F16 => {
            let halves = bytes.as_chunks().0.iter();
            halves.map(|&number| from_half(u16::from_le_bytes(number))).collect()
        }
        Element::I8 => bytes.iter().map(|&number| f32::from(number.cast_signed())).collect(),
    }
}

/// Half precision to single, which is exact.
///
/// Source: IEEE 754, binary16: 1 bit of sign, 5 of exponent with bias 15, 10 of fraction.
fn from_half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2.0_f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2.0_f32.powi(exponent - 25),
    };
    sign * magnitude
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::testing::Random;

    #[test]
    fn a_weight_is_off_by_half_a_step_of_its_own_output() {
        let mut random = Random::new();
        let (n_outputs, n_inputs) = (5, 7);
        let values: Vec<f32> = (0..n_outputs * n_inputs)
            .map(|at| random.float() * [0.01, 0.1, 1.0, 10.0, 100.0][at / n_inputs])
            .collect();
        let (bytes, scales) = quantize(&values, [n_outputs, n_inputs]);
        for (at, value) in values.iter().enumerate() {
            let (output, input) = (at / n_inputs, at % n_inputs);
            let byte = bytes[input * n_outputs + output].cast_signed();
            assert!(byte.unsigned_abs() <= 64);
            let error = (f32::from(byte) * scales[output] - value).abs();
            assert!(error <= scales[output] * 0.501, "{value} {byte} {}", scales[output]);
        }
    }

    #[test]
    fn an_output_without_weights_stays_zero() {
        assert_eq!(
            quantize(&[0.0, 0.0, 1.0, -1.0], [2, 2]).0,
            [0, 64, 0, (-64_i8).cast_unsigned()]
        );
    }

    #[test]
    fn half_precision_is_read_exactly() {
        let bits = [0x0000, 0x3c00, 0xc000, 0x3555, 0x7bff, 0x0001, 0x0400, 0x7c00];
        let wanted =
            [0.0, 1.0, -2.0, 0.333_251_95, 65504.0, 5.960_464_5e-8, 6.103_515_6e-5, f32::INFINITY];
        let bytes: Vec<u8> = bits.into_iter().flat_map(u16::to_le_bytes).collect();
        assert_eq!(floats(Element::F16, &bytes), wanted);
    }
}
