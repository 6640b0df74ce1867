//! Which of several ways to place stops in a closure is Burn's: the one whose gradients are, for arguments of some numbers.
//!
//! Burn's own backward pass was recorded above the closure's ops. Both are graphs of funcify here, and the reference evaluates them.

use std::cell::RefCell;

use funcify::derivative::Wrt;
use funcify::error::{Place, Result};
use funcify::{Disconnected, GradOptions, Graph, HostTensor, TensorType, Value, evaluate};

use super::import::import;
use super::record::Record;
use super::tape::{ADDEND, FACTOR};

/// How far gradients may be apart, relative to the largest of their elements.
const TOLERANCE: f64 = 1e-3;

/// The numbers of the records whose gradients are Burn's. `burn` gives a gradient for each of its results, `by` says by which
/// inputs. Of the results of the records only the floats are looked at.
pub(super) fn matching(
    at: &Place,
    types: &[TensorType],
    burn: &Record,
    by: &[usize],
    records: &[Record],
) -> Result<Vec<usize>> {
    let inputs: Vec<HostTensor> = types.iter().enumerate().map(|(index, ty)| numbers(index as u64 + 1, ty)).collect();
    let expected = evaluate(&graph(at, types, burn, |results| results.to_vec())?, &inputs)?;
    let mut matching = Vec::new();
    for (index, record) in records.iter().enumerate() {
        let loss = graph(at, types, record, |results| {
            let floats = results.iter().filter(|result| result.dtype().is_float());
            let parts = floats.map(|result| (*result * (*result * FACTOR + ADDEND).stop_gradient()).sum(..));
            parts.reduce(|sum, part| sum + part.cast(sum.dtype())).into_iter().collect()
        })?;
        let names = by.iter().map(|input| loss.input_name(*input).to_string()).collect();
        let gradients = loss.grad(Wrt::Names(names), GradOptions::new().disconnected(Disconnected::Zeros))?;
        let found = evaluate(&gradients, &inputs)?;
        if found.iter().zip(&expected).all(|(found, expected)| is_close(found, expected)) {
            matching.push(index);
        }
    }
    Ok(matching)
}

fn graph(
    at: &Place,
    types: &[TensorType],
    record: &Record,
    results: impl FnOnce(&[Value]) -> Vec<Value>,
) -> Result<Graph> {
    let refusal = RefCell::new(None);
    let graph = Graph::build("probe", |g| {
        let inputs = types.iter().enumerate().map(|(index, ty)| g.input(&format!("x{index}"), ty));
        match import(at, record, &inputs.collect::<Vec<Value>>()) {
            Ok(values) => results(&values),
            Err(error) => {
                *refusal.borrow_mut() = Some(error);
                Vec::new()
            }
        }
    });
    match refusal.into_inner() {
        Some(error) => Err(error),
        None => graph,
    }
}

/// Floats between 0.1 and 0.9, zeros, truths.
fn numbers(seed: u64, ty: &TensorType) -> HostTensor {
    let sizes: Vec<usize> = ty.shape.dims().iter().map(|dim| dim.constant().unwrap_or(0) as usize).collect();
    let count = sizes.iter().product();
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        0.1 + 0.8 * ((state >> 33) as f64 / (1u64 << 31) as f64)
    };
    let elements: Vec<f64> = (0..count).map(|_| if ty.dtype.is_float() { next() } else { 0.0 }).collect();
    HostTensor::from_vec(elements, sizes.as_slice()).expect("there are as many elements").cast(ty.dtype)
}

fn is_close(found: &HostTensor, expected: &HostTensor) -> bool {
    let elements = |tensor: &HostTensor| {
        let elements = tensor.cast(funcify::DType::F64);
        elements.as_slice::<f64>().map(<[f64]>::to_vec).unwrap_or_default()
    };
    let (found, expected) = (elements(found), elements(expected));
    let largest = expected.iter().fold(0f64, |largest, element| largest.max(element.abs()));
    let close = |(found, expected): (&f64, &f64)| found == expected || (found - expected).abs() <= TOLERANCE * largest;
    found.len() == expected.len() && found.iter().zip(&expected).all(close)
}
