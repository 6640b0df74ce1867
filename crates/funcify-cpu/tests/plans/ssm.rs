//! A selective state space model with D channels of N states: h = exp(dt A) h + (dt x) B, and y = Σ_n h C.

use funcify_cpu::kernels::{Binary, Fold, Ternary, Unary};
use funcify_cpu::plan::{Node, Op, Operand, Plan, Split, Storage, repeat};

use super::{Workload, numbers};

/// The sizes of the model, and of its parts and segments.
#[derive(Clone, Copy)]
pub struct Channels {
    /// The number of steps.
    pub steps: usize,
    /// The number of channels.
    pub channels: usize,
    /// The number of states per channel.
    pub states: usize,
    /// The number of channels per part.
    pub tile: usize,
    /// The number of steps per segment. The backward loop recomputes one segment at a time.
    pub segment: usize,
}

const WEIGHT_OF_LOSS: f64 = 0.01;

/// The operands that the plans of [`ssm`] and [`ssm_training`] have in common. The lanes are channels, so A is
/// transposed once.
struct Operands {
    x: Operand,
    dt: Operand,
    b: Operand,
    c: Operand,
    a: Operand,
    transposed: Operand,
    h: Operand,
    scaled: Operand,
}

/// Declares the inputs and the registers. The inputs x and dt have shape [T, D], B and C have shape [T, N], and A has
/// shape [D, N].
fn operands(plan: &mut Plan, sizes: Channels) -> Operands {
    let Channels { steps, channels, states, tile, .. } = sizes;
    let mut input = |index, units, pitch, split| Operand::of(plan.region(Storage::Input(index), units, pitch, split));
    let x = input(0, steps, channels, Split::Columns(1));
    let dt = input(1, steps, channels, Split::Columns(1));
    let b = input(2, steps, states, Split::Whole).rows(1).element();
    let c = input(3, steps, states, Split::Whole).rows(1).element();
    let a = input(4, 1, channels * states, Split::Columns(states)).rows(states);
    let registers = Operand::of(plan.registers(channels / tile, 2 * states * tile + tile));
    let transposed = registers.rows(tile);
    let h = registers.at(states * tile).rows(tile);
    let scaled = registers.at(2 * states * tile);
    Operands { x, dt, b, c, a, transposed, h, scaled }
}

/// Emits a step from the states `before` to the states `after`: decay = exp(dt A), scaled = dt x, and after = decay ·
/// before + scaled B.
fn advance(sizes: Channels, own: &Operands, now: impl Fn(Operand) -> Operand, places: [Operand; 3]) -> Vec<Node> {
    let Channels { states, tile, .. } = sizes;
    let ([decay, before, after], shape) = (places, [states, tile]);
    let all = [1, states * tile];
    vec![
        Op::Binary(Binary::ExpOfProduct).over(shape, decay, &[now(own.dt), own.transposed]),
        Op::Binary(Binary::Mul).over([1, tile], own.scaled, &[now(own.dt), now(own.x)]),
        Op::Binary(Binary::Mul).over(all, after, &[before, decay]),
        Op::Ternary(Ternary::MulAdd).over(shape, after, &[own.scaled, now(own.b), after]),
    ]
}

fn inputs(Channels { steps, channels, states, .. }: Channels) -> Vec<Vec<f64>> {
    let positive = |numbers: Vec<f64>| numbers.into_iter().map(|x| 0.01 + 0.05 * (x + 1.0)).collect::<Vec<_>>();
    let negative = |numbers: Vec<f64>| numbers.into_iter().map(|x| -1.5 - x).collect::<Vec<_>>();
    vec![
        numbers(steps * channels, 1.0, 21),
        positive(numbers(steps * channels, 1.0, 22)),
        numbers(steps * states, 1.0, 23),
        numbers(steps * states, 1.0, 24),
        negative(numbers(channels * states, 1.0, 25)),
    ]
}

/// Builds the plan of the forward loop, which returns y and runs in parts of `tile` channels.
pub fn ssm(sizes: Channels) -> Workload {
    let Channels { steps, channels, states, tile, .. } = sizes;
    let mut plan = Plan::default();
    let own = operands(&mut plan, sizes);
    let y = Operand::of(plan.region(Storage::Output(0), steps, channels, Split::Columns(1)));
    let decay = Operand::of(plan.registers(channels / tile, states * tile)).rows(tile);
    let now = |operand: Operand| operand.step(0, 1);
    let mut body = advance(sizes, &own, now, [decay, own.h, own.h]);
    let sum = Op::FoldRows { fold: Fold::Sum, accumulate: false };
    body.push(sum.over([states, tile], now(y), &[own.h, now(own.c)]));
    plan.parts(
        channels / tile,
        tile,
        vec![
            Op::Transpose.over([states, tile], own.transposed, &[own.a]),
            Op::Fill(0.0).over([states, tile], own.h, &[]),
            repeat(steps, body),
        ],
    );
    Workload {
        name: format!("SSM forward T={steps} D={channels} N={states}"),
        plan,
        inputs: inputs(sizes),
        outputs: vec![steps * channels],
        reference: Box::new(move |inputs| vec![plain(channels, states, inputs)]),
    }
}

/// Builds the plan of the forward and backward loops for the loss c · Σ y², where c is a constant. The loops return the
/// gradients of x, dt, B, C and A.
///
/// The forward loop saves the states at the start of each segment. The backward loop recomputes the states and decays
/// of a segment into a buffer, and then traverses the segment in reverse.
pub fn ssm_training(sizes: Channels) -> Workload {
    let Channels { steps, channels, states, tile, segment } = sizes;
    let (parts, matrix, segments) = (channels / tile, states * tile, steps / segment);
    let mut plan = Plan::default();
    let own = operands(&mut plan, sizes);
    let mut scratch =
        |units, pitch| Operand::of(plan.region(Storage::Scratch, units, pitch, Split::Parts(parts))).rows(tile);
    let (y, saved) = (scratch(steps, tile), scratch(segments, matrix));
    let (h, decay) = (scratch(segment + 1, matrix), scratch(segment, matrix));
    let [gh, q, da] = [0; 3].map(|_| scratch(1, matrix));
    let [gy, gs] = [0; 2].map(|_| scratch(1, tile));
    let [db, dc] = [0; 2].map(|_| scratch(steps, states).rows(1).element());
    let constant = Operand::of(plan.shared(1)).element();
    let column =
        |plan: &mut Plan, index| Operand::of(plan.region(Storage::Output(index), steps, channels, Split::Columns(1)));
    let (dx, ddt) = (column(&mut plan, 0), column(&mut plan, 1));
    let da_out =
        Operand::of(plan.region(Storage::Output(4), 1, channels * states, Split::Columns(states))).rows(states);
    plan.once(vec![Op::Fill(2.0 * WEIGHT_OF_LOSS).over([1, 1], Operand { across: own.x.across, ..constant }, &[])]);

    let (shape, row, all) = ([states, tile], [1, tile], [1, matrix]);
    let up = |operand: Operand| operand.step(0, segment as isize).step(1, 1);
    let mut forward = advance(sizes, &own, up, [decay, own.h, own.h]);
    let fold_rows = Op::FoldRows { fold: Fold::Sum, accumulate: false };
    forward.push(fold_rows.clone().over(shape, up(y), &[own.h, up(own.c)]));
    // Segments are processed in reverse. In each segment, `again` moves forward over the steps to recompute the states,
    // and `down` moves over the steps in reverse.
    let first = steps - segment;
    let again = |operand: Operand| operand.at(first).step(0, -(segment as isize)).step(1, 1);
    let places = [decay.step(1, 1), h.step(1, 1), h.at(1).step(1, 1)];
    let down = |operand: Operand| operand.at(steps - 1).step(0, -(segment as isize)).step(1, -1);
    let back = |operand: Operand, unit: usize| operand.at(unit).step(1, -1);
    let fold_lanes = Op::FoldLanes { fold: Fold::Sum, accumulate: false };
    let mul_add = Op::Ternary(Ternary::MulAdd);
    let mul = Op::Binary(Binary::Mul);
    let backward = vec![
        mul.clone().over(row, gy, &[down(y), constant]),
        fold_lanes.clone().over(shape, down(dc), &[back(h, segment), gy.rows(0)]),
        mul_add.clone().over(shape, gh, &[gy.rows(0), down(own.c), gh]),
        mul.clone().over(row, own.scaled, &[down(own.dt), down(own.x)]),
        fold_lanes.over(shape, down(db), &[gh, own.scaled]),
        fold_rows.clone().over(shape, gs, &[gh, down(own.b)]),
        mul.clone().over(row, down(dx), &[gs, down(own.dt)]),
        mul.clone().over(all, gh, &[gh, back(decay, segment - 1)]),
        mul.over(all, q, &[gh, back(h, segment - 1)]),
        mul_add.clone().over(shape, da, &[q, down(own.dt), da]),
        fold_rows.over(shape, down(ddt), &[q, own.transposed]),
        mul_add.over(row, down(ddt), &[gs, down(own.x), down(ddt)]),
    ];
    let copy = |to, from| Op::Unary(Unary::Copy).over(all, to, &[from]);
    plan.parts(
        parts,
        tile,
        vec![
            Op::Transpose.over(shape, own.transposed, &[own.a]),
            Op::Fill(0.0).over(shape, own.h, &[]),
            repeat(segments, vec![copy(saved.step(0, 1), own.h), repeat(segment, forward)]),
            Op::Fill(0.0).over(shape, gh, &[]),
            Op::Fill(0.0).over(shape, da, &[]),
            repeat(
                segments,
                vec![
                    copy(h, saved.at(segments - 1).step(0, -1)),
                    repeat(segment, advance(sizes, &own, again, places)),
                    repeat(segment, backward),
                ],
            ),
            Op::Transpose.over([tile, states], da_out, &[da]),
        ],
    );
    let len = steps * states;
    let add = |plan: &mut Plan, index, from: Operand| {
        let to = Operand::of(plan.region(Storage::Output(index), 1, len, Split::Whole));
        let fold = Op::FoldRows { fold: Fold::Sum, accumulate: false };
        fold.over([parts, len], to, &[Operand::of(from.region).rows(len)])
    };
    let sums = vec![add(&mut plan, 2, db), add(&mut plan, 3, dc)];
    plan.once(sums);
    Workload {
        name: format!("SSM training T={steps} D={channels} N={states}"),
        plan,
        inputs: inputs(sizes),
        outputs: vec![steps * channels, steps * channels, len, len, channels * states],
        reference: Box::new(move |inputs| plain_training(sizes, inputs)),
    }
}

fn plain_training(Channels { steps, channels, states, .. }: Channels, inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let [x, dt, b, c, a] = inputs else { panic!("five inputs") };
    let y = plain(channels, states, inputs);
    let [mut dx, mut ddt] = [0; 2].map(|_| vec![0.0; steps * channels]);
    let [mut db, mut dc] = [0; 2].map(|_| vec![0.0; steps * states]);
    let mut da = vec![0.0; channels * states];
    for d in 0..channels {
        for n in 0..states {
            let rate = a[d * states + n];
            let mut h = vec![0.0];
            for t in 0..steps {
                let (dt, x) = (dt[t * channels + d], x[t * channels + d]);
                h.push((dt * rate).exp() * h[t] + dt * x * b[t * states + n]);
            }
            let mut gh = 0.0;
            for t in (0..steps).rev() {
                let (at, state) = (t * channels + d, t * states + n);
                let gy = 2.0 * WEIGHT_OF_LOSS * y[at];
                dc[state] += gy * h[t + 1];
                gh += gy * c[state];
                db[state] += gh * dt[at] * x[at];
                let gs = gh * b[state];
                gh *= (dt[at] * rate).exp();
                let q = gh * h[t];
                dx[at] += gs * dt[at];
                ddt[at] += q * rate + gs * x[at];
                da[d * states + n] += q * dt[at];
            }
        }
    }
    vec![dx, ddt, db, dc, da]
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
