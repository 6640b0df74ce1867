//! Tests gradients of loops that carry an extremum, or that compare a state with the operands of the op that computes
//! it. The backward loop recomputes these values, possibly with a fused multiply-add, which rounds differently. The
//! backward loop must therefore not compare the recomputed values with values of the forward loop.

mod numbers;

use funcify::dispatch::{CompileOptions, Function};
use funcify::ops::{ReduceKind, ScatterMode};
use funcify::{CheckpointPolicy, DType, Graph, TensorType, Value, constant, iota, scan, select, while_loop_bounded};
use funcify_cpu::Cpu;
use numbers::{assert_near, built, numbers};

/// A function from elements of shape `[3,N]` to the next state, of shape `[3]`.
type StepOf = fn(Value) -> Value;

const STEPS: [(&str, StepOf); 9] = [
    ("the largest", |elements| elements.max(1)),
    ("the smallest", |elements| elements.min(1)),
    ("the largest so far", |elements| elements.cumulative(ReduceKind::Max, 1, false).index(1, -1)),
    ("the largest at a place", |elements| {
        let places = iota(elements.dim(1), DType::I64).zeros_like();
        (elements * 0.0 - 9.0).scatter(1, places.broadcast_to(elements.shape()), elements, ScatterMode::Max).index(1, 0)
    }),
    ("a mask of the largest", |elements| {
        let largest = elements.max(1).unsqueeze(1);
        select(elements.eq(largest), elements.square(), 0.0).sum(1)
    }),
    ("what is above the smallest", |elements| {
        (elements - elements.min(1).unsqueeze(1)).sign().sum(1) * elements.sum(1)
    }),
    ("the larger of two", |elements| elements.index(1, 0).maximum(elements.index(1, -1))),
    ("the last in order", |elements| elements.sort(1, false).0.index(1, -1)),
    ("the first above the mean", |elements| select(elements.gt(elements.mean(1).unsqueeze(1)), elements, 0.0).sum(1)),
];

/// Builds a graph that computes a loss from the results of a loop. In each step, the elements are `state * x - state`,
/// and `step` computes the next state from them. The loop also returns the products `state * x` and, if `is_compared`
/// is set, values that depend on which elements equal the next state.
fn program(step: StepOf, dtype: DType, count: usize, is_compared: bool) -> Graph {
    built("extrema", |g| {
        let [xs, start] =
            [g.input("xs", TensorType::new(dtype, [6, 3, count])), g.input("start", TensorType::new(dtype, [3]))];
        let (last, (states, products, masked)) = scan(start, xs, |state, x| {
            // The inner loop forces the plan to store the state in separate memory.
            let state = while_loop_bounded(0, state, |_| constant(true), |state| state * 0.5).unsqueeze(1);
            let elements = state * x - state;
            let next = step(elements);
            let product = state * x;
            let is_next = elements.eq(next.unsqueeze(1));
            (next, (next, product, if is_compared { select(is_next, elements * x, 0.0) } else { product }))
        });
        last.sum(..) + (states * states).sum(..) * 0.25 + products.sum(..) * 0.125 + masked.sum(..)
    })
}

/// Returns all combinations of step, dtype, number of elements per row, and `is_compared`.
fn all() -> impl Iterator<Item = ((&'static str, StepOf), DType, usize, bool)> {
    let types = [DType::F32, DType::F64].into_iter().flat_map(|dtype| [1, 4].map(|count| (dtype, count)));
    let programs = types.flat_map(|(dtype, count)| [false, true].map(|is_compared| (dtype, count, is_compared)));
    programs.flat_map(|(dtype, count, is_compared)| STEPS.map(|step| (step, dtype, count, is_compared)))
}

#[test]
fn an_extremum_is_found_among_the_elements_that_are_computed_again() {
    let policies = [None, Some(CheckpointPolicy::Recompute), Some(CheckpointPolicy::SaveAll)];
    for ((name, step), dtype, count, is_compared) in all() {
        let program = program(step, dtype, count, is_compared);
        let inputs = [numbers(&[6, 3, count], 3), numbers(&[3], 5)].map(|tensor| tensor.cast(dtype));
        for (policy, cpu) in
            policies.iter().flat_map(|policy| [(policy, Cpu::default()), (policy, Cpu::dividing_all())])
        {
            let options = CompileOptions::default().grad_options(&cpu, policy.clone());
            let gradient = program.grad(["xs", "start"], options).unwrap();
            let found = Function::compile(&gradient, &cpu).unwrap().call_host(&inputs).unwrap();
            let expected = funcify::evaluate(&gradient, &inputs).unwrap();
            let what = format!("{name} of {count}, {dtype}, {policy:?}, compared: {is_compared}");
            assert_near(&found, &expected, 1e-4, &what);
        }
    }
}
