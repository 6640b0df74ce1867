//! A long short-term memory (LSTM) network: gates i, f, g, o from z = x · W + h · U + b; then c = f c + i g and h = o
//! tanh(c).

use funcify_cpu::kernels::{Binary, Ternary, Unary, packed_len};
use funcify_cpu::plan::{Node, Op, Operand, Plan, Split, Storage, repeat};

use super::rnn::Sizes;
use super::{Workload, add_product, numbers};

/// Builds the plan of the forward loop, which returns h for all steps. The initial state is 0.
pub fn lstm(sizes: Sizes) -> Workload {
    let Sizes { steps, batch, width, rows, strip } = sizes;
    let (parts, gates) = (batch / rows, 4 * width);
    let mut plan = Plan::default();
    let x = Operand::of(plan.region(Storage::Input(0), steps, batch * width, Split::Columns(width))).rows(width);
    let w = Operand::of(plan.region(Storage::Input(1), width, gates, Split::Whole)).rows(gates);
    let u = Operand::of(plan.region(Storage::Input(2), width, gates, Split::Whole)).rows(gates);
    let bias = Operand::of(plan.region(Storage::Input(3), 1, gates, Split::Whole));
    let y = Operand::of(plan.region(Storage::Output(0), steps, batch * width, Split::Columns(width))).rows(width);
    let packed = packed_len::<f32>(width, gates).max(packed_len::<f64>(width, gates));
    let (packed_w, packed_u) = (Operand::of(plan.shared(packed)), Operand::of(plan.shared(packed)));
    let hoists = rows < 8;
    let z_steps = if hoists { strip } else { 1 };
    let z = Operand::of(plan.region(Storage::Scratch, z_steps, rows * gates, Split::Parts(parts))).rows(gates);
    let c = Operand::of(plan.region(Storage::Scratch, 1, rows * width, Split::Parts(parts))).rows(width);
    let tanh_c = Operand::of(plan.region(Storage::Scratch, 1, rows * width, Split::Parts(parts))).rows(width);
    let pack = |to, from| Op::Pack { column: 1 }.over([width, gates], to, &[from]);
    plan.once(vec![pack(packed_w, w), pack(packed_u, u)]);
    let shape = [rows, width];
    let gated = |z: Operand, y: Operand| {
        let gate = |index: usize| z.offset(index * width);
        vec![
            Op::Unary(Unary::Sigmoid).over([rows, 2 * width], z, &[z]),
            Op::Unary(Unary::Tanh).over(shape, gate(2), &[gate(2)]),
            Op::Unary(Unary::Sigmoid).over(shape, gate(3), &[gate(3)]),
            Op::Binary(Binary::Mul).over(shape, c, &[gate(1), c]),
            Op::Ternary(Ternary::MulAdd).over(shape, c, &[gate(0), gate(2), c]),
            Op::Unary(Unary::Tanh).over(shape, tanh_c, &[c]),
            Op::Binary(Binary::Mul).over(shape, y, &[gate(3), tanh_c]),
        ]
    };
    let product = |inner: Vec<usize>| Op::Product { inner, init: true, then: None };
    let zeros = Op::Fill(0.0).over(shape, c, &[]);
    let with_product = |first: Node, z, y| std::iter::once(first).chain(gated(z, y)).collect::<Vec<_>>();
    let program = if hoists {
        // Compute x · W for a whole strip of steps at once. Each step then adds h · U.
        let both = |at: Operand| at.step(0, strip as isize).step(1, 1);
        let strip_product = |x| product(vec![width]).over([strip * rows, gates], z, &[bias, x, packed_w]);
        let step = |z, before: Operand, y| {
            with_product(product(vec![width]).over([rows, gates], z, &[z, before, packed_u]), z, y)
        };
        let mut program = vec![zeros, strip_product(x)];
        program.extend(gated(z, y));
        program.push(repeat(strip - 1, step(z.at(1).step(0, 1), y.step(0, 1), y.at(1).step(0, 1))));
        let later = repeat(strip, step(z.step(1, 1), both(y.at(strip - 1)), both(y.at(strip))));
        program.push(repeat(steps / strip - 1, vec![strip_product(x.at(strip).step(0, strip as isize)), later]));
        program
    } else {
        let first = product(vec![width]).over([rows, gates], z, &[bias, x, packed_w]);
        let factors = [bias, x.at(1).step(0, 1), packed_w, y.step(0, 1), packed_u];
        let later = product(vec![width, width]).over([rows, gates], z, &factors);
        let mut program = vec![zeros];
        program.extend(with_product(first, z, y));
        program.push(repeat(steps - 1, with_product(later, z, y.at(1).step(0, 1))));
        program
    };
    plan.parts(parts, rows, program);
    let scale = 1.0 / (width as f64).sqrt();
    Workload {
        name: format!("LSTM forward T={steps} B={batch} H={width}"),
        plan,
        inputs: vec![
            numbers(steps * batch * width, 1.0, 11),
            numbers(width * gates, scale, 12),
            numbers(width * gates, scale, 13),
            numbers(gates, 0.1, 14),
        ],
        outputs: vec![steps * batch * width],
        reference: Box::new(move |inputs| vec![plain(sizes, inputs)]),
    }
}

fn plain(Sizes { batch, width, .. }: Sizes, inputs: &[Vec<f64>]) -> Vec<f64> {
    let [x, w, u, b] = inputs else { panic!("four inputs") };
    let gates = 4 * width;
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let (mut h, mut c) = (vec![0.0; batch * width], vec![0.0; batch * width]);
    let mut y = Vec::new();
    for x in x.chunks(batch * width) {
        let mut z: Vec<f64> = b.iter().copied().cycle().take(batch * gates).collect();
        add_product(&mut z, x, w, width, gates);
        add_product(&mut z, &h, u, width, gates);
        for index in 0..batch * width {
            let z = &z[index / width * gates..][..gates];
            let gate = |gate: usize| z[gate * width + index % width];
            c[index] = sigmoid(gate(1)) * c[index] + sigmoid(gate(0)) * gate(2).tanh();
            h[index] = sigmoid(gate(3)) * c[index].tanh();
        }
        y.extend(&h);
    }
    y
}
