//! A selective state space model: h = exp(dt A) h + (dt x) B; y = Σ_n h C, with D channels of N states.

use funcify_cpu::kernels::{Binary, Fold, Ternary};
use funcify_cpu::plan::{Op, Operand, Place, Plan, Split, repeat};

use super::{Workload, numbers};

/// The forward loop over `steps`, in parts of `tile` channels. Inputs x, dt: [T, D]; B, C: [T, N]; A: [D, N].
pub fn ssm(steps: usize, channels: usize, states: usize, tile: usize) -> Workload {
    let parts = channels / tile;
    let mut plan = Plan::default();
    let x = Operand::of(plan.region(Place::Input(0), steps, channels, Split::Columns(1)));
    let dt = Operand::of(plan.region(Place::Input(1), steps, channels, Split::Columns(1)));
    let b = Operand::of(plan.region(Place::Input(2), steps, states, Split::Whole)).rows(1).element();
    let c = Operand::of(plan.region(Place::Input(3), steps, states, Split::Whole)).rows(1).element();
    let a = Operand::of(plan.region(Place::Input(4), 1, channels * states, Split::Columns(states))).rows(states);
    let y = Operand::of(plan.region(Place::Output(0), steps, channels, Split::Columns(1)));
    // Channels are the lanes of all registers, so A is transposed once.
    let registers = plan.registers(parts, 3 * states * tile + tile);
    let matrix = |index: usize| Operand::of(registers).at(index * states * tile).rows(tile);
    let [transposed, h, decay] = [0, 1, 2].map(matrix);
    let scaled = Operand::of(registers).at(3 * states * tile);
    let shape = [states, tile];
    let now = |operand: Operand| operand.step(0, 1);
    plan.parts(
        parts,
        tile,
        vec![
            Op::Transpose.over(shape, transposed, &[a]),
            Op::Fill(0.0).over(shape, h, &[]),
            repeat(
                steps,
                vec![
                    Op::Binary(Binary::ExpOfProduct).over(shape, decay, &[now(dt), transposed]),
                    Op::Binary(Binary::Mul).over([1, tile], scaled, &[now(dt), now(x)]),
                    Op::Binary(Binary::Mul).over([1, states * tile], h, &[h, decay]),
                    Op::Ternary(Ternary::MulAdd).over(shape, h, &[scaled, now(b), h]),
                    Op::FoldRows { fold: Fold::Sum, accumulate: false }.over(shape, now(y), &[h, now(c)]),
                ],
            ),
        ],
    );
    let positive = |numbers: Vec<f64>| numbers.into_iter().map(|x| 0.01 + 0.05 * (x + 1.0)).collect::<Vec<_>>();
    let negative = |numbers: Vec<f64>| numbers.into_iter().map(|x| -1.5 - x).collect::<Vec<_>>();
    Workload {
        name: format!("SSM forward T={steps} D={channels} N={states}"),
        plan,
        inputs: vec![
            numbers(steps * channels, 1.0, 21),
            positive(numbers(steps * channels, 1.0, 22)),
            numbers(steps * states, 1.0, 23),
            numbers(steps * states, 1.0, 24),
            negative(numbers(channels * states, 1.0, 25)),
        ],
        outputs: vec![steps * channels],
        reference: Box::new(move |inputs| vec![plain(channels, states, inputs)]),
    }
}

fn plain(channels: usize, states: usize, inputs: &[Vec<f64>]) -> Vec<f64> {
    let [x, dt, b, c, a] = inputs else { panic!("five inputs") };
    let mut h = vec![0.0; channels * states];
    let mut y = Vec::new();
    for (t, (x, dt)) in x.chunks(channels).zip(dt.chunks(channels)).enumerate() {
        let (b, c) = (&b[t * states..][..states], &c[t * states..][..states]);
        for d in 0..channels {
            let mut sum = 0.0;
            for n in 0..states {
                let at = d * states + n;
                h[at] = (dt[d] * a[at]).exp() * h[at] + dt[d] * x[d] * b[n];
                sum += h[at] * c[n];
            }
            y.push(sum);
        }
    }
    y
}
