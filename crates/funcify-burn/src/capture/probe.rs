//! Finds Burn's way to place stops in a closure among several: the one whose gradients are Burn's for arguments of many numbers.
//!
//! Burn's own backward pass was recorded above the closure's ops. Both are graphs of funcify here, and the reference evaluates them.

use std::cell::RefCell;

use funcify::derivative::Wrt;
use funcify::error::{Place, Result};
use funcify::{DType, Disconnected, GradOptions, Graph, HostTensor, Scalar, TensorType, Value, evaluate};

use super::import::import;
use super::record::Record;
use super::tape::{ADDEND, FACTOR};

/// Gives how far gradients may be apart, relative to the largest of their elements.
fn tolerance(dtype: DType) -> f64 {
    if matches!(dtype, DType::F16 | DType::BF16) { 3e-2 } else { 1e-3 }
}

/// Gradients below this are taken for rounding.
const SMALLEST: f64 = 0.01;

/// Bounds the floats of each trial: some ops are flat for small numbers, some for large ones.
const RANGES: [(f64, f64); 6] = [(0.1, 0.9), (-1.0, 1.0), (-0.3, 0.3), (-4.0, 4.0), (0.5, 20.0), (-20.0, 20.0)];

/// The numbers of the records whose gradients are Burn's in every trial. `burn` gives a gradient for each of its results, `by` says by
/// which inputs. Of the results of the records only the floats are looked at.
pub(super) fn matching(
    at: &Place,
    types: &[TensorType],
    burn: &Record,
    by: &[usize],
    records: &[Record],
) -> Result<Vec<usize>> {
    let burn = graph(at, types, burn, |results| results.to_vec())?;
    let gradients = |record: &Record| {
        let loss = graph(at, types, record, |results| {
            let floats = results.iter().filter(|result| result.dtype().is_float());
            let parts = floats.map(|result| (*result * (*result * FACTOR + ADDEND).stop_gradient()).sum(..));
            parts.reduce(|sum, part| sum + part.cast(sum.dtype())).into_iter().collect()
        })?;
        let names = by.iter().map(|input| loss.input_name(*input).to_string()).collect();
        loss.grad(Wrt::Names(names), GradOptions::new().disconnected(Disconnected::Zeros))
    };
    let mut matching =
        (0..records.len()).map(|index| Ok((index, gradients(&records[index])?))).collect::<Result<Vec<_>>>()?;
    for (trial, range) in RANGES.into_iter().enumerate() {
        let seed = |index: usize| (trial * types.len() + index) as u64 + 1;
        let inputs: Vec<HostTensor> =
            types.iter().enumerate().map(|(index, ty)| numbers(seed(index), ty, range)).collect();
        let expected = evaluate(&burn, &inputs)?;
        let mut left = Vec::with_capacity(matching.len());
        for (index, gradients) in matching {
            let found = evaluate(&gradients, &inputs)?;
            if found.iter().zip(&expected).all(|(found, expected)| is_close(found, expected)) {
                left.push((index, gradients));
            }
        }
        matching = left;
    }
    Ok(matching.into_iter().map(|(index, _)| index).collect())
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

/// Floats of a range, small integers, truths of both kinds.
fn numbers(seed: u64, ty: &TensorType, (smallest, largest): (f64, f64)) -> HostTensor {
    let sizes = ty.shape.constant().expect("a closure is recorded at sizes");
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    HostTensor::from_fn(ty.dtype, &sizes, |_| match ty.dtype {
        DType::Bool => Scalar::Bool(next() < 0.5),
        dtype if dtype.is_float() => Scalar::Float(smallest + (largest - smallest) * next()),
        _ => Scalar::Int((next() * 3.0) as i64),
    })
}

fn is_close(found: &HostTensor, expected: &HostTensor) -> bool {
    let tolerance = tolerance(expected.dtype());
    let (found, expected) = (found.to_f64_vec(), expected.to_f64_vec());
    let finite = expected.iter().filter(|element| element.is_finite());
    let apart = tolerance * finite.fold(SMALLEST, |largest, element| largest.max(element.abs()));
    // Where Burn's is not finite, other numbers decide.
    let close = |(found, expected): (&f64, &f64)| !expected.is_finite() || (found - expected).abs() <= apart;
    found.len() == expected.len() && found.iter().zip(&expected).all(close)
}
