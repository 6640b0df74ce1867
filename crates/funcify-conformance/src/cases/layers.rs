//! Category `layer`: the layers of `funcify::nn` and their gradients, with expected results from the reference
//! evaluator.

use funcify::nn::{Cell, GatedLinearAttention, Init, Layer, Recurrent, S5, SelectiveScan};
use funcify::{DType, Error, GradOptions, HostTensor, Scalar};

use crate::case::Case;

pub(crate) fn cases() -> Result<Vec<Case>, String> {
    let recurrent = |cell| Recurrent { layers: 2, bidirectional: true, ..Recurrent::new(cell, 3, 4) }.layer();
    let s5 = |associative| S5 { associative, ..S5::new(3, 4) }.layer();
    let layers: [(&str, Result<Layer, Error>); 7] = [
        ("rnn", recurrent(Cell::Rnn)),
        ("gru", recurrent(Cell::Gru)),
        ("lstm", recurrent(Cell::Lstm)),
        ("s5_associative", s5(true)),
        ("s5_sequential", s5(false)),
        ("selective_scan", SelectiveScan { states: 2, ..SelectiveScan::new(3) }.layer()),
        (
            "gated_linear_attention",
            GatedLinearAttention { key: 4, value: 4, ..GatedLinearAttention::new(3, 2) }.layer(),
        ),
    ];
    let mut cases = Vec::new();
    for (name, layer) in layers {
        let failed = |error: Error| format!("case `layer/{name}`: {error}");
        let layer = layer.map_err(failed)?;
        let inputs = inputs(&layer);
        let results = funcify::evaluate(&layer.graph, &inputs).map_err(failed)?;
        let pulled = layer.graph.vjp(.., GradOptions::new()).map_err(failed)?;
        let cotangents = results.iter().enumerate().map(|(index, result)| noise(result.shape(), 1000 + index as u64));
        let with_cotangents = inputs.iter().cloned().chain(cotangents).collect();
        cases.push(Case::from_reference(name, "layer", layer.graph, inputs)?);
        cases.push(Case::from_reference(&format!("{name}_gradients"), "layer", pulled, with_cotangents)?);
    }
    Ok(cases)
}

/// Returns pseudorandom inputs for a layer: sequences of five steps, states, and parameters.
fn inputs(layer: &Layer) -> Vec<HostTensor> {
    let types = (0..layer.graph.inputs().len()).map(|index| layer.graph.input_type(index));
    let shapes = types.map(|ty| -> Vec<usize> {
        let size = |dim: &funcify::Dim| {
            dim.constant().map_or(if dim.to_string() == "T" { 5 } else { 2 }, |size| size as usize)
        };
        ty.shape.dims().iter().map(size).collect()
    });
    let mut inputs: Vec<HostTensor> = shapes.enumerate().map(|(index, shape)| noise(&shape, index as u64)).collect();
    // Parameters with a fixed initial value are drawn close to it, because state space layers are ill-conditioned for
    // other values.
    let first = inputs.len() - layer.parameters.len();
    for (input, parameter) in inputs[first..].iter_mut().zip(&layer.parameters) {
        let near = |center: &dyn Fn(&[usize]) -> f64| {
            let number = |index: &[usize]| Scalar::Float(center(index) + 0.1 * input.at(index).as_f64());
            HostTensor::from_fn(DType::F32, input.shape(), number)
        };
        match &parameter.init {
            Init::Values(values) => *input = near(&|index| values.at(index).as_f64()),
            Init::Constant(number) => *input = near(&|_| *number),
            _ => {}
        }
    }
    inputs
}

/// Returns a tensor of pseudorandom numbers between -1 and 1.
fn noise(shape: &[usize], seed: u64) -> HostTensor {
    let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    HostTensor::from_fn(DType::F32, shape, |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Scalar::Float((state >> 40) as f64 / (1u64 << 23) as f64 - 1.0)
    })
}
