//! A recurrent network, h = tanh(x · W + h · U + b), and the gradients of the loss c · Σ y², where c is a constant and
//! y holds all states of the network.

use funcify_cpu::kernels::{Binary, Fold, Ternary, Unary, packed_len};
use funcify_cpu::plan::{Node, Op, Operand, Plan, Split, Storage, repeat};

use super::{Workload, add_outer, add_product, numbers};

/// The sizes of the network, and of its parts and strips.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// The number of steps.
    pub steps: usize,
    /// The number of rows in the batch.
    pub batch: usize,
    /// The number of elements in a row of x and of h.
    pub width: usize,
    /// The number of batch rows per part.
    pub rows: usize,
    /// The number of steps per strip.
    pub strip: usize,
}

const WEIGHT_OF_LOSS: f64 = 0.01;

/// Returns the inputs x, W, U, b and h0.
fn inputs(Sizes { steps, batch, width, .. }: Sizes) -> Vec<Vec<f64>> {
    let scale = 1.0 / (width as f64).sqrt();
    vec![
        numbers(steps * batch * width, 1.0, 1),
        numbers(width * width, scale, 2),
        numbers(width * width, scale, 3),
        numbers(width, 0.1, 4),
        numbers(batch * width, 0.5, 5),
    ]
}

/// The regions that the plans of [`rnn`] and [`rnn_training`] have in common.
struct Regions {
    x: Operand,
    h0: Operand,
    bias: Operand,
    packed_w: Operand,
    packed_u: Operand,
    y: Operand,
}

/// Declares the regions, and packs the weights.
fn prepare(plan: &mut Plan, sizes: Sizes, y: (Storage, Split)) -> Regions {
    let Sizes { steps, batch, width, .. } = sizes;
    let sequence = batch * width;
    let x = plan.region(Storage::Input(0), steps, sequence, Split::Columns(width));
    let w = plan.region(Storage::Input(1), width, width, Split::Whole);
    let u = plan.region(Storage::Input(2), width, width, Split::Whole);
    let bias = plan.region(Storage::Input(3), 1, width, Split::Whole);
    let h0 = plan.region(Storage::Input(4), 1, sequence, Split::Columns(width));
    let packed = packed_len::<f32>(width, width).max(packed_len::<f64>(width, width));
    let (packed_w, packed_u) = (Operand::of(plan.shared(packed)), Operand::of(plan.shared(packed)));
    let pitch = if let Split::Parts(parts) = y.1 { sequence / parts } else { sequence };
    let y = plan.region(y.0, steps, pitch, y.1);
    let pack = |from, to| Op::Pack { column: 1 }.over([width, width], to, &[Operand::of(from).rows(width)]);
    plan.once(vec![pack(w, packed_w), pack(u, packed_u)]);
    let rows = |region| Operand::of(region).rows(width);
    Regions { x: rows(x), h0: rows(h0), bias: Operand::of(bias), packed_w, packed_u, y: rows(y) }
}

/// Builds the forward loop over steps.
fn forward(regions: &Regions, Sizes { steps, width, rows, strip, .. }: Sizes) -> Vec<Node> {
    let Regions { x, h0, bias, packed_w, packed_u, y } = *regions;
    let then = Some(Unary::Tanh);
    if rows >= 8 {
        let both = Op::Product { inner: vec![width, width], init: true, then };
        let first = both.clone().over([rows, width], y, &[bias, x, packed_w, h0, packed_u]);
        let (x, to, before) = (x.at(1).step(0, 1), y.at(1).step(0, 1), y.step(0, 1));
        let step = both.over([rows, width], to, &[bias, x, packed_w, before, packed_u]);
        return vec![first, repeat(steps - 1, vec![step])];
    }
    // A step has few rows, so compute x · W for a whole strip of steps as one matrix product.
    let hoisted = Op::Product { inner: vec![width], init: true, then: None };
    let product = Op::Product { inner: vec![width], init: true, then };
    let step = |y, before: Operand| product.clone().over([rows, width], y, &[y, before, packed_u]);
    let strip_of = |at: Operand, level: isize| at.step(0, level * strip as isize);
    let strip_rows = [strip * rows, width];
    let later = |unit: usize| y.at(unit).step(0, strip as isize).step(1, 1);
    vec![
        hoisted.clone().over(strip_rows, y, &[bias, x, packed_w]),
        step(y, h0),
        repeat(strip - 1, vec![step(y.at(1).step(0, 1), y.step(0, 1))]),
        repeat(
            steps / strip - 1,
            vec![
                hoisted.over(strip_rows, strip_of(y.at(strip), 1), &[bias, strip_of(x.at(strip), 1), packed_w]),
                repeat(strip, vec![step(later(strip), later(strip - 1))]),
            ],
        ),
    ]
}

/// Builds the plan of the forward loop, which returns all states y.
pub fn rnn(sizes: Sizes) -> Workload {
    let Sizes { steps, batch, width, rows, .. } = sizes;
    let mut plan = Plan::default();
    let regions = prepare(&mut plan, sizes, (Storage::Output(0), Split::Columns(width)));
    plan.parts(batch / rows, rows, forward(&regions, sizes));
    Workload {
        name: format!("RNN forward T={steps} B={batch} H={width}"),
        plan,
        inputs: inputs(sizes),
        outputs: vec![steps * batch * width],
        reference: Box::new(move |inputs| vec![plain_forward(sizes, inputs)]),
    }
}

/// Builds the plan of the forward and backward loops, which return the gradients of W, U and b.
pub fn rnn_training(sizes: Sizes) -> Workload {
    let Sizes { steps, batch, width, rows, strip } = sizes;
    let parts = batch / rows;
    let mut plan = Plan::default();
    let regions = prepare(&mut plan, sizes, (Storage::Scratch, Split::Parts(parts)));
    let Regions { x, h0, y, .. } = regions;
    let u = plan.region(Storage::Input(2), width, width, Split::Whole);
    let packed = packed_len::<f32>(width, width).max(packed_len::<f64>(width, width));
    let packed_transposed = Operand::of(plan.shared(packed));
    let constant = Operand::of(plan.shared(1));
    plan.once(vec![
        Op::Pack { column: width }.over([width, width], packed_transposed, &[Operand::of(u).rows(1)]),
        Op::Fill(2.0 * WEIGHT_OF_LOSS).over([1, 1], constant, &[]),
    ]);
    let row = rows * width;
    let carry = Operand::of(plan.region(Storage::Scratch, 1, row, Split::Parts(parts))).rows(width);
    let buffer = Operand::of(plan.region(Storage::Scratch, strip, row, Split::Parts(parts))).rows(width);
    let matrix = width * width;
    let sums = [matrix, matrix, width].map(|len| plan.region(Storage::Scratch, 1, len, Split::Parts(parts)));
    let [dw, du, db] = sums.map(Operand::of);
    let (dw, du) = (dw.rows(width), du.rows(width));

    // `down` moves an operand to the current step of the current strip. Strips and steps run in reverse.
    let down = |at: Operand| at.step(0, -(strip as isize)).step(1, -1);
    let product = Op::Product { inner: vec![width], init: false, then: None };
    let step = |y: Operand, buffer: Operand| {
        vec![
            Op::Ternary(Ternary::MulAdd).over([rows, width], buffer, &[y, constant.element(), carry]),
            Op::Binary(Binary::TanhAdjoint).over([rows, width], buffer, &[buffer, y]),
            product.clone().over([rows, width], carry, &[buffer, packed_transposed]),
        ]
    };
    // `sink` adds the products of `blocks` steps to a weight gradient. For `du`, the state before the strip's first
    // step is in the previous strip, or is the initial state.
    let sink = |blocks, to, left, right| {
        Op::Sink { blocks, block_rows: rows, block_steps: [1, 1] }.over([width, width], to, &[left, right])
    };
    let bias = Op::FoldRows { fold: Fold::Sum, accumulate: true }.over([strip * rows, width], db, &[buffer]);
    let strip_down = |at: Operand| at.step(0, -(strip as isize));
    let last = steps - strip;
    let mut program = forward(&regions, sizes);
    program.extend([
        Op::Fill(0.0).over([rows, width], carry, &[]),
        Op::Fill(0.0).over([width, width], dw, &[]),
        Op::Fill(0.0).over([width, width], du, &[]),
        Op::Fill(0.0).over([1, width], db, &[]),
        repeat(
            steps / strip - 1,
            vec![
                repeat(strip, step(down(y.at(steps - 1)), buffer.at(strip - 1).step(1, -1))),
                sink(strip, dw, strip_down(x.at(last)), buffer),
                sink(strip, du, strip_down(y.at(last - 1)), buffer),
                bias.clone(),
            ],
        ),
        repeat(strip, step(y.at(strip - 1).step(0, -1), buffer.at(strip - 1).step(0, -1))),
        sink(strip, dw, x, buffer),
        sink(1, du, h0, buffer),
        sink(strip - 1, du, y, buffer.at(1)),
        bias,
    ]);
    plan.parts(parts, rows, program);
    let add = |plan: &mut Plan, output, from: usize, len| {
        let to = Operand::of(plan.region(Storage::Output(output), 1, len, Split::Whole));
        let sums = Operand::of(from).rows(len);
        Op::FoldRows { fold: Fold::Sum, accumulate: false }.over([parts, len], to, &[sums])
    };
    let last =
        vec![add(&mut plan, 0, sums[0], matrix), add(&mut plan, 1, sums[1], matrix), add(&mut plan, 2, sums[2], width)];
    plan.once(last);
    Workload {
        name: format!("RNN training T={steps} B={batch} H={width}"),
        plan,
        inputs: inputs(sizes),
        outputs: vec![matrix, matrix, width],
        reference: Box::new(move |inputs| plain_training(sizes, inputs)),
    }
}

fn plain_forward(Sizes { batch, width, .. }: Sizes, inputs: &[Vec<f64>]) -> Vec<f64> {
    let [x, w, u, b, h0] = inputs else { panic!("five inputs") };
    let mut h = h0.clone();
    let mut y = Vec::new();
    for x in x.chunks(batch * width) {
        let mut next: Vec<f64> = b.iter().copied().cycle().take(batch * width).collect();
        add_product(&mut next, x, w, width, width);
        add_product(&mut next, &h, u, width, width);
        h = next.into_iter().map(f64::tanh).collect();
        y.extend(&h);
    }
    y
}

fn plain_training(sizes: Sizes, inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let Sizes { steps, batch, width, .. } = sizes;
    let row = batch * width;
    let y = plain_forward(sizes, inputs);
    let (x, u, h0) = (&inputs[0], &inputs[2], &inputs[4]);
    let transposed: Vec<f64> = (0..width * width).map(|i| u[i % width * width + i / width]).collect();
    let mut carry = vec![0.0; row];
    let (mut dw, mut du, mut db) = (vec![0.0; width * width], vec![0.0; width * width], vec![0.0; width]);
    for t in (0..steps).rev() {
        let now = &y[t * row..][..row];
        let adjoint: Vec<f64> =
            now.iter().zip(&carry).map(|(y, carry)| (2.0 * WEIGHT_OF_LOSS * y + carry) * (1.0 - y * y)).collect();
        let before = if t == 0 { h0 } else { &y[(t - 1) * row..][..row] };
        add_outer(&mut dw, &x[t * row..][..row], &adjoint, width, width);
        add_outer(&mut du, before, &adjoint, width, width);
        adjoint.iter().enumerate().for_each(|(i, value)| db[i % width] += value);
        carry = vec![0.0; row];
        add_product(&mut carry, &adjoint, &transposed, width, width);
    }
    vec![dw, du, db]
}
