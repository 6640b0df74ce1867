//! Runs every case with a loop, and loops with initial rows, on a backend that writes traces in place. The backend
//! fills allocated memory with a number that differs from all results, and rejects writes to a trace that is still
//! referenced elsewhere.

use std::sync::Arc;

use funcify::dispatch::{
    Backend, CompileOptions, Function, Kernel, LoopStrategy, Reference, StackType, evaluate_kernel, tensors_of,
};
use funcify::error::BackendError;
use funcify::ops::Scan;
use funcify::{Graph, HostTensor, Scalar, Storage, evaluate, scan_until};
use funcify_conformance::{Expected, all_cases, compare};

/// A backend that evaluates each op with the reference evaluator, and writes traces in place.
#[derive(Clone, Copy, Debug, Default)]
struct InPlace;

funcify::funcify!(InPlace, Scan, native_loop);

impl Backend for InPlace {
    tensors_of!(Reference);

    fn name(&self) -> &'static str {
        "in-place"
    }

    fn allocate(&self, ty: &StackType) -> Result<Option<Self::Tensor>, BackendError> {
        Ok(Some(Arc::new(HostTensor::from_fn(ty.dtype, &ty.shape(), |_| Scalar::Int(77)))))
    }

    fn write_row(&self, trace: Self::Tensor, row: usize, value: Self::Tensor) -> Result<Self::Tensor, BackendError> {
        let trace = Arc::try_unwrap(trace).map_err(|_| "the trace is shared")?;
        let (shape, size) = (trace.shape().to_vec(), value.len());
        if shape.first().is_none_or(|rows| row >= *rows) || shape[1..] != *value.shape() {
            return Err(format!("row {row} of {:?} does not fit {:?}", value.ty(), trace.ty()).into());
        }
        let at = |index: usize| match index.checked_sub(row * size) {
            Some(inside) if inside < size => value.get(inside),
            _ => trace.get(index),
        };
        let storage = Storage::from_scalars(trace.dtype(), (0..trace.len()).map(at));
        Ok(Arc::new(HostTensor::new(shape, storage).ok_or("the elements do not fill the shape")?))
    }

    fn fallback(&self) -> Option<Kernel<Self>> {
        Some(evaluate_kernel)
    }
}

fn run(graph: &Graph, inputs: &[HostTensor]) -> funcify::Result<Vec<HostTensor>> {
    let options = CompileOptions { strategy: LoopStrategy::Native, ..CompileOptions::default() };
    Function::compile_with(graph, &InPlace, options)?.call_host(inputs)
}

#[test]
fn every_case_with_a_loop() {
    let mut ran = 0;
    for case in all_cases().unwrap() {
        // This backend copies the whole trace for each row that it writes, so cases with long traces are skipped.
        let is_long = case.inputs.iter().any(|tensor| tensor.len() > 1000);
        if is_long || !case.graph.to_string().contains(" = scan @") {
            continue;
        }
        ran += 1;
        match (case.expected_in(LoopStrategy::Native), run(&case.graph, &case.inputs)) {
            (Expected::Outputs(expected), Ok(results)) => {
                let outcome = compare(&case.graph, &results, &expected);
                outcome.unwrap_or_else(|reason| panic!("{}: {reason}", case.name));
            }
            (Expected::Error(kind), Err(error)) if error.kind() == kind => {}
            (expected, results) => panic!("{}: {results:?}, not {expected:?}", case.name),
        }
    }
    assert!(ran > 100, "{ran} cases");
}

/// The initial rows of a trace precede the rows of the steps, or follow them in a reverse loop. The loop returns whole
/// traces, including the initial rows.
#[test]
fn given_rows_in_both_directions() {
    for (down, sign) in [("", '-'), (", order=down", '+')] {
        let text = format!(
            "fn @given(%xs: f64[T], %one: f64[1], %two: f64[2]) {{
               %a: f64[T+1], %b: f64[T+2], %y: f64[T] = scan @step {{steps=T{down}}} {{
                 seq %x: f64[] = %xs[t]
                 sit-sot %a1: f64[] = %a[t{sign}1] from %one
                 mit-sot %b2: f64[], %b1: f64[] = %b[t{sign}2], %b[t{sign}1] from %two
                 nit-sot %y
                 %0: f64[] = add %a1, %x
                 %1: f64[] = mul %b2, %x
                 %2: f64[] = sub %1, %b1
                 %a[t] = %0
                 %b[t] = %2
                 %y[t] = %1
               }}
               return a=%a, b=%b, y=%y
             }}"
        );
        let graph = Graph::parse(&text).unwrap();
        for steps in [0usize, 1, 2, 5] {
            let xs = HostTensor::from_vec((1..=steps).map(|x| x as f64).collect(), [steps]).unwrap();
            let inputs = [xs, [0.5f64].into(), [0.25f64, -3.0].into()];
            assert_eq!(run(&graph, &inputs).unwrap(), evaluate(&graph, &inputs).unwrap(), "{steps} steps{down}");
        }
    }
}

/// After an early exit, the trace must have rows only for the steps that ran.
#[test]
fn a_loop_that_ends_early() {
    let graph = Graph::build("until", |g| {
        let (start, xs) = (g.input("start", "f64[]"), g.input("xs", "f64[T]"));
        scan_until(start, xs, |sum, x| (sum + x, sum * x, (sum + x).gt(10.0)))
    });
    let graph = graph.unwrap();
    for steps in [0, 1, 4, 5, 9] {
        let xs = HostTensor::from_vec((0..steps).map(f64::from).collect(), [steps as usize]).unwrap();
        let inputs = [HostTensor::scalar(1f64), xs];
        assert_eq!(run(&graph, &inputs).unwrap(), evaluate(&graph, &inputs).unwrap(), "{steps} steps");
    }
}
