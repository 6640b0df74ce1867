//! Compares the gradients of a recorded closure with those of Burn's own backward pass, on arguments from several
//! ranges.
//!
//! Burn's backward pass was recorded after the closure's ops. This module converts both to funcify graphs, without the
//! closure's inner loops. The results of an inner loop and the parameters of its body start a new tape, so they become
//! inputs of the graphs. Each inner loop is recorded between a begin marker and an end marker (see `inner.rs`). The
//! operands of these markers become results of the graphs.

use funcify_core::derivative::Wrt;
use funcify_core::{Disconnected, GradOptions};
use funcify_runtime::{CompileOptions, Function};

use super::import::import;
use super::record::{Record, dtype_of, renumber, unsupported};
use super::tape::{ADDEND, Edges, FACTOR};
use super::*;
use crate::device::Burn;

/// Returns the maximum allowed difference between gradients, relative to the largest element of Burn's gradient.
fn tolerance(dtype: DType) -> f64 {
    if matches!(dtype, DType::F16 | DType::BF16) { 3e-2 } else { 1e-3 }
}

/// The minimum factor by which the [`tolerance`] is multiplied, even if all elements of a gradient are smaller. Such
/// small gradients may consist of rounding errors.
const ROUNDING_FLOOR: f64 = 0.01;

/// The number of input elements above which one agreeing trial is enough, because trials on large inputs are slow.
const LARGE_INPUT_ELEMENTS: usize = 1 << 20;

/// The range of the float arguments in each trial. The ranges differ because the gradients of some ops are zero for
/// small arguments, and those of other ops for large arguments.
const RANGES: [(f64, f64); 6] = [(0.1, 0.9), (-1.0, 1.0), (-0.3, 0.3), (-4.0, 4.0), (0.5, 20.0), (-20.0, 20.0)];

/// A closure's ops with gradient stops inserted, and the ids of its results.
pub(super) type OpsWithStops = (Vec<OperationIr>, Vec<TensorId>);

/// The recorded ops of a closure, and those of Burn's backward pass, which starts at the closure's results.
pub(super) struct Evidence {
    /// The captured graph without its ops, which are in `ops` and `backward`.
    pub(super) graph: CapturedGraph,
    /// The ids of the tensors that were passed to the closure.
    pub(super) inputs: Vec<TensorId>,
    /// The types of the tensors in `inputs`.
    pub(super) types: Vec<TensorType>,
    /// The closure's ops, without gradient stops.
    pub(super) ops: Vec<OperationIr>,
    pub(super) backward: Vec<OperationIr>,
    pub(super) edges: Edges,
}

/// The outcome of comparing gradients in several trials.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Comparison {
    /// The number of trials in which the gradients agree with Burn's and are not all zero.
    pub(super) agreeing: usize,
    /// The number of trials in which the gradients differ from Burn's.
    pub(super) differing: usize,
}

impl Evidence {
    /// Compares the closure's gradients with Burn's, and returns the outcome for each placement of gradient stops in
    /// `ways`. If `ways` has only one placement, stops after three agreeing trials, or after one if the inputs are
    /// large.
    ///
    /// # Errors
    /// Returns `Unsupported` if Burn's backward pass contains an op without a translation. Also returns the errors of
    /// running the graphs.
    pub(super) fn compare(&self, at: &Place, device: &Device, ways: &[OpsWithStops]) -> Result<Vec<Comparison>> {
        let inputs = self.all_inputs(at)?;
        let backend = probe_backend(device)?;
        let compiled = |graph: &Graph| {
            let options = CompileOptions { rewrites: None, ..CompileOptions::default() };
            Function::compile_with(graph, &backend, options)
        };
        let gradient = |(node, leaf): (&u64, &TensorId)| {
            let input = inputs.iter().position(|(input, _)| input == leaf)?;
            Some((input, *self.edges.gradients.get(node)?))
        };
        let (by, gradients): (Vec<usize>, Vec<TensorId>) = self.edges.leaves.iter().filter_map(gradient).unzip();
        let burn = self.record(&inputs, &[self.ops.as_slice(), &self.backward].concat(), &gradients);
        let burn = compiled(&import_graph(at, &inputs, &burn, |results| results.to_vec())?)?;
        let gradients = |(ops, outputs): &OpsWithStops| {
            let read = ops.iter().filter(|op| inner::is_mark(op)).flat_map(|op| op.inputs().map(|it| it.id));
            let results: Vec<TensorId> = outputs.iter().copied().chain(read).collect();
            let loss = import_graph(at, &inputs, &self.record(&inputs, ops, &results), |results| {
                let floats = results.iter().filter(|result| result.dtype().is_float());
                let parts = floats.map(|result| (*result * (*result * FACTOR + ADDEND).stop_gradient()).sum(..));
                parts.reduce(|sum, part| sum + part.cast(sum.dtype())).into_iter().collect()
            })?;
            let names = by.iter().map(|input| loss.input_name(*input).to_string()).collect();
            compiled(&loss.grad(Wrt::Names(names), GradOptions::new().disconnected(Disconnected::Zeros))?)
        };
        let gradients = ways.iter().map(gradients).collect::<Result<Vec<_>>>()?;
        let elements: usize =
            inputs.iter().map(|(_, ty)| ty.shape.constant().iter().flatten().product::<usize>()).sum();
        let enough = if elements > LARGE_INPUT_ELEMENTS { 1 } else { 3 };
        let mut comparisons = vec![Comparison::default(); ways.len()];
        for (trial, range) in RANGES.into_iter().enumerate() {
            if comparisons.len() == 1 && comparisons[0].agreeing == enough {
                break;
            }
            let seed = |index: usize| (trial * inputs.len() + index) as u64 + 1;
            let numbers = inputs.iter().enumerate().map(|(index, (_, ty))| arbitrary_tensor(seed(index), ty, range));
            let numbers: Vec<HostTensor> = numbers.collect();
            let expected = burn.call_host(&numbers)?;
            let says_something = expected.iter().any(|it| it.to_f64_vec().into_iter().any(f64::is_normal));
            for (gradients, comparison) in gradients.iter().zip(&mut comparisons) {
                let found = gradients.call_host(&numbers)?;
                match found.iter().zip(&expected).all(|(found, expected)| is_close(found, expected)) {
                    true => comparison.agreeing += usize::from(says_something),
                    false => comparison.differing += 1,
                }
            }
        }
        Ok(comparisons)
    }

    /// Returns the closure's inputs, followed by the results of its loop markers, each with its type.
    fn all_inputs(&self, at: &Place) -> Result<Vec<(TensorId, TensorType)>> {
        let mut inputs: Vec<_> = self.inputs.iter().copied().zip(self.types.iter().cloned()).collect();
        for tensor in self.ops.iter().filter(|op| inner::is_mark(op)).flat_map(|op| op.outputs()) {
            let dtype = dtype_of(tensor).ok_or_else(|| {
                unsupported(at, "a loop in the closure", "funcify lacks the dtype of a result", "use another dtype")
            })?;
            inputs.push((tensor.id, TensorType::new(dtype, tensor.shape.as_slice())));
        }
        Ok(inputs)
    }

    /// Returns a record of these ops without the loop markers.
    fn record(&self, inputs: &[(TensorId, TensorType)], ops: &[OperationIr], outputs: &[TensorId]) -> Record {
        let operations = ops.iter().filter(|op| !inner::is_mark(op)).cloned().collect();
        let graph = GraphIr { operations, ..self.graph.graph.clone() };
        let inputs: Vec<TensorId> = inputs.iter().map(|(input, _)| *input).collect();
        renumber(CapturedGraph { graph, values: self.graph.values.clone() }, &inputs, outputs)
    }
}

fn import_graph(
    at: &Place,
    inputs: &[(TensorId, TensorType)],
    record: &Record,
    results: impl FnOnce(&[Value]) -> Vec<Value>,
) -> Result<Graph> {
    let deferred = DeferredError::default();
    let graph = Graph::build("probe", |g| {
        let inputs = inputs.iter().enumerate().map(|(index, (_, ty))| g.input(&format!("x{index}"), ty));
        let values = import(at, record, &inputs.collect::<Vec<Value>>());
        deferred.unwrap_or_keep(values.map(|values| results(&values)), Vec::new)
    });
    deferred.into_result(graph)
}

/// Returns the backend for the trials: `flex` if its feature is enabled, because its kernels need no compilation.
#[cfg(feature = "flex")]
fn probe_backend(_: &Device) -> Result<Burn> {
    Ok(Burn::flex())
}

#[cfg(not(feature = "flex"))]
fn probe_backend(device: &Device) -> Result<Burn> {
    Burn::of(device)
}

/// Returns a tensor of pseudorandom elements: floats between `smallest` and `largest`, integers from 0 to 2, or
/// booleans.
fn arbitrary_tensor(seed: u64, ty: &TensorType, (smallest, largest): (f64, f64)) -> HostTensor {
    let sizes = ty.shape.constant().expect("a closure is recorded with constant sizes");
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let mut number = || match ty.dtype {
        DType::Bool => (next() < 0.5).into(),
        dtype if dtype.is_float() => smallest + (largest - smallest) * next(),
        _ => (next() * 3.0).floor(),
    };
    let count = sizes.iter().product();
    let numbers: Vec<f32> = (0..count).map(|_| number() as f32).collect();
    let numbers = HostTensor::from_vec(numbers, sizes).expect("the count is the product of the sizes");
    if ty.dtype == DType::F32 { numbers } else { numbers.cast(ty.dtype) }
}

fn is_close(found: &HostTensor, expected: &HostTensor) -> bool {
    let tolerance = tolerance(expected.dtype());
    let (found, expected) = (found.to_f64_vec(), expected.to_f64_vec());
    let finite = expected.iter().filter(|element| element.is_finite());
    let margin = tolerance * finite.fold(ROUNDING_FLOOR, |largest, element| largest.max(element.abs()));
    // Skip elements that are infinite or NaN in Burn's gradient.
    let close = |(found, expected): (&f64, &f64)| !expected.is_finite() || (found - expected).abs() <= margin;
    found.len() == expected.len() && found.iter().zip(&expected).all(close)
}
