//! Running sums: y[t] = y[t-1] + x[t].

use funcify_cpu::kernels::{Binary, Fold, Recurrence, Unary};
use funcify_cpu::plan::{Op, Operand, Plan, Split, Storage, repeat};

use super::{Workload, numbers};

/// Builds the plan of a running sum of `width` lanes, in parts of `tile` lanes. Each step reads the previous sum from
/// the trace.
pub fn running_sum(steps: usize, width: usize, tile: usize) -> Workload {
    let mut plan = Plan::default();
    let x = Operand::of(plan.region(Storage::Input(0), steps, width, Split::Columns(1)));
    let y = Operand::of(plan.region(Storage::Output(0), steps, width, Split::Columns(1)));
    let first = Op::Unary(Unary::Copy).over([1, tile], y, &[x]);
    let next = Op::Binary(Binary::Add).over([1, tile], y.at(1).step(0, 1), &[y.step(0, 1), x.at(1).step(0, 1)]);
    plan.parts(width / tile, tile, vec![first, repeat(steps - 1, vec![next])]);
    workload(plan, steps, width)
}

/// Builds the plan of a running sum of a single lane. The plan consists of a single instruction.
pub fn running_sum_of_one(steps: usize) -> Workload {
    let mut plan = Plan::default();
    let x = Operand::of(plan.region(Storage::Input(0), steps, 1, Split::Whole)).rows(1);
    let y = Operand::of(plan.region(Storage::Output(0), steps, 1, Split::Whole)).rows(1);
    let zero = Operand::of(plan.shared(1));
    plan.once(vec![
        Op::Fill(0.0).over([1, 1], zero, &[]),
        Op::Recur { recurrence: Recurrence::Running(Fold::Sum), down: false }.over([steps, 1], y, &[zero, x]),
    ]);
    workload(plan, steps, 1)
}

fn workload(plan: Plan, steps: usize, width: usize) -> Workload {
    Workload {
        name: format!("running sum T={steps} W={width}"),
        plan,
        inputs: vec![numbers(steps * width, 1.0, 31)],
        outputs: vec![steps * width],
        reference: Box::new(move |inputs| {
            let mut sums = vec![0.0; width];
            let add = |(index, x): (usize, &f64)| {
                sums[index % width] += x;
                sums[index % width]
            };
            vec![inputs[0].iter().enumerate().map(add).collect()]
        }),
    }
}
