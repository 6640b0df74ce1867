//! Tests kernels in plans with a single instruction: accuracy, special values, and shapes.

mod accuracy;
mod shapes;
mod special;

use funcify_cpu::kernels::{Binary, Ternary, Unary};
use funcify_cpu::plan::{Node, Op, Operand, Plan, Split, Storage};
use funcify_cpu::{Element, Executor, Machine};

/// Runs a program once. The inputs and the output are regions whose units are single elements.
fn run<T: Element>(
    machine: Machine,
    inputs: &[&[T]],
    output: &mut [T],
    program: impl Fn(&[Operand], Operand) -> Vec<Node>,
) {
    let mut plan = Plan::default();
    let regions: Vec<Operand> = (0..inputs.len())
        .map(|index| Operand::of(plan.region(Storage::Input(index), inputs[index].len(), 1, Split::Whole)))
        .collect();
    let to = Operand::of(plan.region(Storage::Output(0), output.len(), 1, Split::Whole));
    plan.once(program(&regions, to));
    Executor::new(plan, machine).unwrap().call(inputs, &mut [output]).unwrap();
}

/// Applies an elementwise op with one operand.
fn unary<T: Element>(machine: Machine, op: Unary, x: &[T]) -> Vec<T> {
    let mut y = vec![T::ZERO; x.len()];
    run(machine, &[x], &mut y, |from, to| vec![Op::Unary(op).over([1, x.len()], to, from)]);
    y
}

/// Applies an elementwise op with two operands.
fn binary<T: Element>(machine: Machine, op: Binary, x: &[T], y: &[T]) -> Vec<T> {
    let mut z = vec![T::ZERO; x.len()];
    run(machine, &[x, y], &mut z, |from, to| vec![Op::Binary(op).over([1, x.len()], to, from)]);
    z
}

/// Applies an elementwise op with three operands.
fn ternary<T: Element>(machine: Machine, op: Ternary, x: &[T], y: &[T], z: &[T]) -> Vec<T> {
    let mut w = vec![T::ZERO; x.len()];
    run(machine, &[x, y, z], &mut w, |from, to| vec![Op::Ternary(op).over([1, x.len()], to, from)]);
    w
}

/// Returns pseudorandom numbers between `low` and `high`.
fn numbers<T: Element>(count: usize, low: f64, high: f64, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    std::iter::repeat_with(next).take(count).map(|x| T::from_f64(low + (high - low) * x)).collect()
}
