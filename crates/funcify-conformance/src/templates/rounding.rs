//! Computes how much rounding alone may change a result, for results outside the tolerance of
//! [`check`](super::check).
//!
//! For f64, the reference evaluator also runs with inputs whose last bits are changed. A result may differ from the
//! reference result by up to [`REORDERING_FACTOR`] times the effect of such a change. But a change may have a large
//! effect merely because it changes the outcome of a comparison in the program. Therefore, a large difference is
//! accepted only if every change has a large effect, as in a chaotic loop.
//!
//! For narrower floats, the same program is evaluated in f64. A result may differ from the f64 result by up to
//! [`NARROW_ERROR_FACTOR`] times the error of the reference evaluator. In a long sum of bf16 values, for example, the
//! reference evaluator rounds after each addition, and a backend that rounds once is closer to the exact sum. A
//! difference is also accepted if the effect of changed inputs explains it, as described for f64.

use super::check::{F64_TOLERANCE, arguments};
use super::*;
use crate::case::ExpectedOutput;

/// The assumed ratio between the effect of reassociating sums and the effect of changing the last bits of the inputs.
const REORDERING_FACTOR: f64 = 16.0;

/// The relative change of an input, in multiples of the type's epsilon. A change of only one ulp may vanish in the
/// first op.
const PERTURBATION_ULPS: f64 = 4.0;

/// The maximum difference that the effect of a single change may explain, relative to the largest result.
const MAX_SINGLE_CHANGE: f64 = 1e-6;

/// The maximum error of a result, as a multiple of the reference evaluator's error.
const NARROW_ERROR_FACTOR: f64 = 2.0;

/// Returns alternative expected outputs, with tolerances that allow for rounding. A result is accepted if it matches
/// one of these alternatives.
pub(super) fn results_explained_by_rounding(
    graph: &Graph,
    inputs: &BTreeMap<String, HostTensor>,
    expected: &[ExpectedOutput],
) -> Vec<Vec<ExpectedOutput>> {
    let text = graph.to_string();
    let is_narrow = NARROW_TYPE_NAMES.iter().any(|name| text.contains(name));
    let exact = is_narrow.then(|| expected_in_f64(&text, graph, inputs, expected)).flatten();
    exact.into_iter().chain(expected_after_perturbation(graph, inputs, expected, !is_narrow)).collect()
}

/// The names of the float types narrower than f64.
const NARROW_TYPE_NAMES: [&str; 3] = ["bf16", "f16", "f32"];

/// Evaluates the program in f64. Returns its results, with tolerances based on the error of the reference evaluator in
/// narrower floats, or `None` if the program cannot run in f64.
fn expected_in_f64(
    text: &str,
    graph: &Graph,
    inputs: &BTreeMap<String, HostTensor>,
    expected: &[ExpectedOutput],
) -> Option<Vec<ExpectedOutput>> {
    // `bf16` must be replaced before `f16`, because `f16` is a substring of `bf16`.
    let wide = NARROW_TYPE_NAMES.iter().fold(text.to_string(), |text, name| text.replace(name, "f64"));
    let widened = |tensor: HostTensor| if tensor.dtype().is_float() { tensor.cast(DType::F64) } else { tensor };
    let inputs: Vec<HostTensor> = arguments(graph, inputs).into_iter().map(widened).collect();
    let results = evaluate(&Graph::parse(&wide).ok()?, &inputs).ok()?;
    let around = results.into_iter().zip(expected).map(|(exact, output)| {
        let values = exact.cast(output.values.dtype());
        let off = largest_difference(&exact, &output.values);
        ExpectedOutput { atol: (NARROW_ERROR_FACTOR * off).max(output.atol), values, ..output.clone() }
    });
    Some(around.collect())
}

/// Returns the expected outputs, with tolerances based on the effect of changing the inputs. Each tolerance allows for
/// the smallest effect of the changes. If `with_small` is `true`, the largest effect counts as well, but only up to
/// `MAX_SINGLE_CHANGE`. Returns `None` if the program fails with changed inputs.
fn expected_after_perturbation(
    graph: &Graph,
    inputs: &BTreeMap<String, HostTensor>,
    expected: &[ExpectedOutput],
    with_small: bool,
) -> Option<Vec<ExpectedOutput>> {
    // Changing all elements in the same direction affects sums. Changing them in different directions affects
    // differences.
    let directions: [fn(usize) -> bool; 3] = [|_| true, |_| false, |at| splitmix64(at as u64).is_multiple_of(2)];
    let arguments = arguments(graph, inputs);
    let results = |is_up: fn(usize) -> bool| {
        let arguments: Vec<HostTensor> = arguments.iter().map(|tensor| perturb_last_bits(tensor, is_up)).collect();
        evaluate(graph, &arguments).ok()
    };
    let all = directions.into_iter().map(results).collect::<Option<Vec<_>>>()?;
    let around = expected.iter().enumerate().map(|(index, output)| {
        let off = || all.iter().map(|results| REORDERING_FACTOR * largest_difference(&results[index], &output.values));
        let (small, any) = (off().fold(0.0, f64::max), off().fold(f64::INFINITY, f64::min));
        let small = if with_small { small.min(MAX_SINGLE_CHANGE / F64_TOLERANCE * output.atol) } else { 0.0 };
        ExpectedOutput { atol: small.max(any).max(output.atol), ..output.clone() }
    });
    Some(around.collect())
}

/// Returns the largest finite difference between corresponding elements.
fn largest_difference(one: &HostTensor, other: &HostTensor) -> f64 {
    let pairs = one.scalars().zip(other.scalars());
    pairs.map(|(x, y)| (x.as_f64() - y.as_f64()).abs()).filter(|off| off.is_finite()).fold(0.0, f64::max)
}

/// Changes each float by a few ulps, up or down.
fn perturb_last_bits(tensor: &HostTensor, is_up: fn(usize) -> bool) -> HostTensor {
    let distance = match tensor.dtype() {
        DType::F64 => f64::EPSILON,
        DType::F32 => f64::from(f32::EPSILON),
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => return tensor.clone(),
    };
    let mut scalars = tensor.scalars().enumerate();
    HostTensor::from_fn(tensor.dtype(), tensor.shape(), |_| {
        let (at, number) = scalars.next().map_or((0, 0.0), |(at, number)| (at, number.as_f64()));
        let change = PERTURBATION_ULPS * distance;
        Scalar::Float(number * if is_up(at) { 1.0 + change } else { 1.0 - change })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use funcify::{ScanOptions, Value, scan, scan_with};

    /// Returns whether rounding may explain the result `found` of a loop that adds `x` to a sum `count` times.
    fn is_rounding(dtype: DType, x: f64, count: usize, found: f64) -> bool {
        let graph = Graph::build("sum", |g| {
            let xs = g.input("xs", funcify::TensorType::new(dtype, [count]));
            scan(xs.index(0, 0).zeros_like(), xs, |sum, x| (sum + x, ())).0
        });
        let graph = graph.unwrap();
        let inputs = BTreeMap::from([("xs".to_string(), HostTensor::from_fn(dtype, &[count], |_| Scalar::Float(x)))]);
        let values = evaluate(&graph, &arguments(&graph, &inputs)).unwrap().remove(0);
        let expected = ExpectedOutput { name: "out_0".into(), ty: values.ty(), values, rtol: 0.0, atol: 1e-12 };
        is_allowed(found, &graph, &inputs, expected)
    }

    fn is_allowed(found: f64, graph: &Graph, inputs: &BTreeMap<String, HostTensor>, expected: ExpectedOutput) -> bool {
        let near = |either: Vec<ExpectedOutput>| (found - either[0].values.get(0).as_f64()).abs() <= either[0].atol;
        results_explained_by_rounding(graph, inputs, &[expected]).into_iter().any(near)
    }

    #[test]
    fn sums_of_narrow_floats_may_be_nearer_to_the_exact_one() {
        // In bf16, 128 + 0.5 rounds to 128, so the sum of the reference evaluator stops growing.
        assert!(is_rounding(DType::BF16, 0.5, 1000, 500.0));
        assert!(!is_rounding(DType::BF16, 0.5, 1000, 1300.0));
        assert!(!is_rounding(DType::F32, 0.5, 1000, 501.0));
    }

    /// Rounding may explain a large difference in a chaotic loop, but not at a jump of a step function.
    #[test]
    fn large_differences_are_rounding_where_each_change_makes_them() {
        let may_be = |graph: Graph, x: f64, found: f64| {
            let dtype = graph.input_type(0).dtype;
            let inputs = BTreeMap::from([("x".to_string(), HostTensor::scalar(x).cast(dtype))]);
            let values = evaluate(&graph, &arguments(&graph, &inputs)).unwrap().remove(0);
            let expected = ExpectedOutput { name: "out_0".into(), ty: values.ty(), values, rtol: 0.0, atol: 1e-9 };
            is_allowed(found, &graph, &inputs, expected)
        };
        let of = |dtype: DType, step: fn(Value) -> Value, steps: usize| {
            let options = ScanOptions::new().length(steps);
            Graph::build("x", |g| {
                scan_with(options, g.input("x", funcify::TensorType::scalar(dtype)), (), |x, ()| (step(x), ())).0
            })
            .unwrap()
        };
        assert!(may_be(of(DType::F64, |x| x * (1.0 - x) * 3.9, 200), 0.3, 0.1));
        assert!(!may_be(of(DType::F64, |x| x * (1.0 - x) * 3.9, 3), 0.3, 0.1));
        assert!(!may_be(of(DType::F64, |x| x.floor(), 1), 3.0, 2.0));
        let narrower = of(DType::F32, |x| x * (1.0 - x) * 3.9, 200);
        assert!(may_be(narrower, 0.3, 0.1));
    }

    #[test]
    fn sums_of_f64_may_be_off_by_their_last_bits() {
        assert!(is_rounding(DType::F64, 0.1, 100, 10.0));
        assert!(!is_rounding(DType::F64, 0.1, 100, 10.0 + 1e-9));
    }
}
