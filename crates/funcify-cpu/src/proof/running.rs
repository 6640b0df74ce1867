//! Validates a plan that has no proof: runs it on random inputs, and compares its results with those of the reference
//! evaluator.

use std::collections::HashMap;
use std::time::Duration;

use funcify_core::graph::ValueId;
use funcify_core::ops::{EvalContext, OpRules};
use funcify_core::{Cancellation, DType, HostTensor, Scalar};

use super::field;
use super::subject::Subject;
use super::verdict::Verdict;

/// A function that runs a plan on the graph's inputs, in the same way as a call. It returns the graph's outputs, or
/// `None` if the plan rejects the inputs.
pub(crate) type Runs<'r> = dyn Fn(&[HostTensor]) -> Result<Option<Vec<HostTensor>>, String> + 'r;

/// The number of correct runs, on different random inputs, after which the validation stops.
const RUNS: usize = 2;

/// The time limit for a run of the plan or of the reference evaluator. A limit is necessary, because a loop might not
/// end for some inputs.
pub(crate) const RUN_TIME_LIMIT: Duration = Duration::from_secs(2);

/// The ranges of random float inputs, each given by its center and half its width. A loop that does not end for inputs
/// from one range may end for inputs from another.
const FLOATS: [[f64; 2]; 6] = [[1.0, 0.5], [0.0, 1.0], [0.0, 0.0], [0.0, 0.25], [100.0, 50.0], [-100.0, 50.0]];

/// The maximum number of elements of all inputs together. With more elements, the reference evaluator is too slow.
const MAX_ELEMENTS: usize = 4_000_000;

/// Runs a plan that has no proof, and checks its results. `reason` states why there is no proof.
pub(super) fn validate(subject: &Subject<'_>, run: &Runs<'_>, reason: String) -> Verdict {
    let reason = format!("`{}`: {reason}", subject.graph.name());
    let mut runs = 0;
    for (seed, floats) in FLOATS.into_iter().enumerate() {
        if runs == RUNS {
            break;
        }
        let Some(inputs) = inputs(subject, seed as u64, floats) else { return Verdict::Unknown(reason) };
        let limit = Cancellation::after(RUN_TIME_LIMIT);
        let Some(expected) = limit.scope(|| reference(subject, &inputs)) else { continue };
        match run(&inputs) {
            Ok(Some(found)) => match difference(&expected, &found, 1.0) {
                None => runs += 1,
                // The results are ill-conditioned: rounding errors alone can explain the difference.
                Some(_) if !is_steady(subject, &inputs, &expected) => {}
                Some((output, element)) => {
                    let name = &subject.graph.outputs()[output].name;
                    return Verdict::Failed(format!(
                        "output {output} (`{name}`) is wrong at element {element} in a run on small numbers: \
                         {:?} instead of {:?}",
                        found[output].get(element),
                        expected[output].get(element)
                    ));
                }
            },
            Ok(None) => {}
            Err(error) => return Verdict::Failed(format!("the plan fails to run: {error}")),
        }
    }
    if runs > 0 { Verdict::Validated } else { Verdict::Unknown(reason) }
}

/// Returns random inputs, or `None` if a size is unknown or the inputs would be too large. Floats differ from `middle`
/// by at most `reach`.
fn inputs(subject: &Subject<'_>, seed: u64, [middle, reach]: [f64; 2]) -> Option<Vec<HostTensor>> {
    let mut all = 0;
    let input = |index: usize| {
        let ty = subject.graph.input_type(index);
        let shape = ty.shape.value(subject.sizes).ok()?;
        let elements: usize = shape.iter().product();
        all += elements;
        if all > MAX_ELEMENTS {
            return None;
        }
        let mut at = 0;
        Some(HostTensor::from_fn(ty.dtype, &shape, |_| {
            at += 1;
            let random = field::hash(seed << 32 | index as u64, at);
            match ty.dtype {
                DType::Bool => Scalar::Bool(random & 1 == 1),
                dtype if dtype.is_float() => Scalar::Float(((random % 2001) as f64 / 1000.0 - 1.0) * reach + middle),
                _ => Scalar::Int((random % 5) as i64),
            }
        }))
    };
    (0..subject.graph.inputs().len()).map(input).collect()
}

/// Runs the reference evaluator with the sizes of the plan. Returns `None` if the evaluation fails or takes too long.
fn reference(subject: &Subject<'_>, inputs: &[HostTensor]) -> Option<Vec<HostTensor>> {
    let graph = subject.graph;
    let mut sizes = subject.sizes.clone();
    let mut values: HashMap<ValueId, HostTensor> = HashMap::new();
    values.extend(graph.inputs().iter().map(|input| input.value).zip(inputs.iter().cloned()));
    let live = graph.live_nodes();
    for (_, node) in graph.nodes().iter().enumerate().filter(|(index, _)| live[*index]) {
        let operands: Vec<HostTensor> = node.inputs.iter().map(|value| values[value].clone()).collect();
        let mut context = EvalContext { at: node.place(), sizes: &mut sizes };
        let results = node.op.eval(&mut context, &operands, &graph.types(&node.outputs)).ok()?;
        values.extend(node.outputs.iter().copied().zip(results));
    }
    Some(graph.outputs().iter().map(|output| values[&output.value].clone()).collect())
}

/// Returns `true` if the results of the reference evaluator change by at most a tenth of the tolerance when the last
/// bits of the float inputs change.
fn is_steady(subject: &Subject<'_>, inputs: &[HostTensor], expected: &[HostTensor]) -> bool {
    let moved = |input: &HostTensor| {
        let dtype = input.dtype();
        let change = match dtype {
            DType::F64 => 1e-14,
            DType::F32 => 1e-6,
            DType::F16 => 2e-3,
            DType::BF16 => 1e-2,
            _ => return input.clone(),
        };
        let mut at = 0;
        let mut numbers = input.scalars();
        HostTensor::from_fn(dtype, input.shape(), |_| {
            at += 1;
            let sign = if field::hash(0x1a57, at) & 1 == 0 { 1.0 } else { -1.0 };
            Scalar::Float(numbers.next().expect("one number per element").as_f64() * (1.0 + sign * change))
        })
    };
    let moved: Vec<HostTensor> = inputs.iter().map(moved).collect();
    let results = Cancellation::after(RUN_TIME_LIMIT).scope(|| reference(subject, &moved));
    results.is_some_and(|results| difference(expected, &results, 0.1).is_none())
}

/// Finds the first element whose error exceeds `factor` times the tolerance. Returns the index of the output that
/// contains it, and its index within that output, or `None` if all elements are within the tolerance. Skips each output
/// whose shape differs from the expected one: for a loop that ended early, the plan also returns rows for steps that
/// did not run.
fn difference(expected: &[HostTensor], found: &[HostTensor], factor: f64) -> Option<(usize, usize)> {
    expected.iter().zip(found).enumerate().find_map(|(output, (expected, found))| {
        if expected.shape() != found.shape() {
            return None;
        }
        let largest = expected.scalars().map(|x| x.as_f64().abs()).filter(|x| x.is_finite()).fold(1.0, f64::max);
        let tolerance = factor
            * match expected.dtype() {
                DType::F64 => 1e-9,
                DType::F32 => 1e-4,
                DType::F16 => 1e-2,
                DType::BF16 => 8e-2,
                _ => 0.0,
            };
        let is_near = |(x, y): (Scalar, Scalar)| {
            let (x, y) = (x.as_f64(), y.as_f64());
            x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tolerance * largest
        };
        expected.scalars().zip(found.scalars()).position(|pair| !is_near(pair)).map(|element| (output, element))
    })
}
