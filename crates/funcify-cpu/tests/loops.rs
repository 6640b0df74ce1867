//! Runs hand-written plans of whole loops, and compares the results with those of plain loops in f64, or of other
//! plans.

#[allow(unreachable_pub, reason = "benches and other tests share these files")]
mod plans;

use std::collections::BTreeSet;

use funcify_cpu::kernels::{Binary, Fold, Ternary, Unary};
use funcify_cpu::plan::{Op, Operand, Plan, Split, Storage, repeat};
use funcify_cpu::{Element, Executor, Machine};
use plans::{Channels, Sizes, Workload};

fn check<T: Element>(workload: &Workload, tolerance: f64) {
    let expected = workload.expected::<T>();
    for machine in Machine::all() {
        let mut ready = workload.ready::<T>(machine);
        ready.call().unwrap();
        let error = ready.error(&expected);
        assert!(error <= tolerance, "{} on {}: off by {error:.2e}", workload.name, machine.name());
        // The contents of scratch memory after the first call must not affect the second call.
        let first = ready.outputs().to_vec();
        ready.call().unwrap();
        assert_eq!(ready.outputs(), first, "{} on {}: a different answer", workload.name, machine.name());
    }
}

fn both(workload: &Workload) {
    check::<f32>(workload, 2e-5);
    check::<f64>(workload, 1e-13);
}

#[test]
fn running_sums() {
    both(&plans::running_sum(50, 256, 256));
    both(&plans::running_sum(33, 39, 13));
    both(&plans::running_sum_of_one(1000));
}

#[test]
fn recurrent_networks() {
    both(&plans::rnn(Sizes { steps: 24, batch: 1, width: 32, rows: 1, strip: 8 }));
    both(&plans::rnn(Sizes { steps: 12, batch: 32, width: 128, rows: 16, strip: 4 }));
    both(&plans::rnn(Sizes { steps: 9, batch: 27, width: 21, rows: 9, strip: 3 }));
    both(&plans::rnn(Sizes { steps: 9, batch: 3, width: 21, rows: 3, strip: 3 }));
}

#[test]
fn gradients_of_recurrent_networks() {
    both(&plans::rnn_training(Sizes { steps: 24, batch: 1, width: 32, rows: 1, strip: 8 }));
    both(&plans::rnn_training(Sizes { steps: 12, batch: 32, width: 64, rows: 16, strip: 4 }));
    both(&plans::rnn_training(Sizes { steps: 9, batch: 27, width: 21, rows: 9, strip: 3 }));
}

#[test]
fn long_short_term_memories() {
    both(&plans::lstm(Sizes { steps: 24, batch: 1, width: 32, rows: 1, strip: 8 }));
    both(&plans::lstm(Sizes { steps: 12, batch: 32, width: 64, rows: 16, strip: 4 }));
    both(&plans::lstm(Sizes { steps: 9, batch: 27, width: 21, rows: 9, strip: 3 }));
}

#[test]
fn state_space_models() {
    for (steps, channels, states, tile, segment) in [(40, 256, 16, 128, 8), (20, 39, 5, 13, 5)] {
        let sizes = Channels { steps, channels, states, tile, segment };
        both(&plans::ssm(sizes));
        both(&plans::ssm_training(sizes));
    }
}

/// Returns a plan that runs `loops` loops of `times` steps each over rows of `lanes` lanes.
fn plan_of_rows(lanes: usize, loops: usize, times: usize) -> Plan {
    let mut plan = Plan::default();
    let steps = loops * times;
    let x = Operand::of(plan.region(Storage::Input(0), steps, lanes, Split::Whole));
    let y = Operand::of(plan.region(Storage::Output(0), steps, lanes, Split::Whole));
    let sum = Operand::of(plan.region(Storage::Output(1), steps, 1, Split::Whole));
    let [state, product, holds, half] = [lanes, lanes, lanes, 1].map(|len| Operand::of(plan.shared(len)));
    let mut nodes = vec![Op::Fill(0.5).over([1, 1], half, &[]), Op::Fill(0.25).over([1, lanes], state, &[])];
    for first in (0..steps).step_by(times) {
        let [x, y, sum] = [x, y, sum].map(|operand| operand.at(first).step(0, 1));
        let row = [1, lanes];
        nodes.push(repeat(
            times,
            vec![
                Op::Ternary(Ternary::MulAdd).over(row, product, &[state, x, half.element()]),
                Op::Unary(Unary::Tanh).over(row, product, &[product]),
                Op::Binary(Binary::LessEqual).over(row, holds, &[product, x]),
                Op::Ternary(Ternary::Select).over(row, y, &[holds, product, state]),
                Op::Binary(Binary::Max).over(row, state, &[y, half.element()]),
                Op::FoldLanes { fold: Fold::Max, accumulate: false }.over(row, sum.element(), &[y]),
            ],
        ));
    }
    plan.once(nodes);
    plan
}

/// Register code, whose registers have 1, 2, 4 or 8 vectors, computes the same bits as instructions on rows. Loops of
/// three steps are not lowered to register code.
#[test]
fn registers_of_all_sizes() {
    fn check<T: Element>() {
        let mut sizes = BTreeSet::new();
        for machine in Machine::all() {
            for lanes in [1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 128, 129, 200, 256] {
                let numbers = (0..12 * lanes).map(|index| T::from_f64(((index * 37) % 41) as f64 / 20.0 - 1.0));
                let x: Vec<T> = numbers.collect();
                let run = |plan: Plan| {
                    let (mut y, mut most) = (vec![T::ZERO; 12 * lanes], vec![T::ZERO; 12]);
                    let mut executor = Executor::<T>::new(plan, machine).unwrap();
                    executor.call(&[&x], &mut [&mut y, &mut most]).unwrap();
                    let text = format!("{executor:?}");
                    (y, most, [1, 2, 4, 8].into_iter().find(|size| text.contains(&format!(" vectors: {size},"))))
                };
                let (y, most, size) = run(plan_of_rows(lanes, 1, 12));
                let (expected, most_expected, none) = run(plan_of_rows(lanes, 4, 3));
                assert_eq!(none, None, "a loop of three steps is register code");
                assert_eq!((y, most), (expected, most_expected), "{lanes} lanes on {}, {size:?}", machine.name());
                sizes.extend(size);
            }
        }
        assert_eq!(sizes, BTreeSet::from([1, 2, 4, 8]));
    }
    check::<f32>();
    check::<f64>();
}
