//! Recurrent networks over images, whose cells use convolutions.

use funcify::ops::ConvOptions;
use funcify::{DType, Graph, Value, concat, full, scan};

use crate::workloads::{Inputs, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[Workload {
    full: &[Sizes(&[("T", 10), ("B", 4), ("C", 4), ("H", 8), ("N", 16)])],
    quick: &[Sizes(&[("T", 3), ("B", 3), ("C", 3), ("H", 4), ("N", 6)])],
    differentiated: &["gates", "candidate"],
    ..Workload::without_handwritten("conv_gru", "convolutional recurrences", inputs, conv_gru)
}];

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, b, c, h, n] = ["T", "B", "C", "H", "N"].map(|letter| sizes.get(letter));
    let scale = (9.0 * (c + h) as f64).sqrt().recip();
    vec![
        ("xs", numbers.normal(&[t, b, c, n, n], 1.0)),
        ("gates", numbers.normal(&[2 * h, c + h, 3, 3], scale)),
        ("candidate", numbers.normal(&[h, c + h, 3, 3], scale)),
    ]
}

/// Builds a graph that runs a gated recurrent unit in which convolutions of images replace the matrix products.
fn conv_gru(sizes: &Sizes) -> funcify::Result<Graph> {
    let [b, c, h, n] = ["B", "C", "H", "N"].map(|letter| sizes.get(letter));
    Graph::build("conv_gru", |g| {
        let xs = g.input("xs", format!("f32[T,{b},{c},{n},{n}]").as_str());
        let gates = g.input("gates", format!("f32[{},{},3,3]", 2 * h, c + h).as_str());
        let candidate = g.input("candidate", format!("f32[{h},{},3,3]", c + h).as_str());
        let options = ConvOptions { padding: [(1, 1); 2], ..ConvOptions::default() };
        let conv = |x: Value, state: Value, kernel: Value| concat(&[x, state], 1).conv(kernel, options);
        let (_, states) = scan(full([b, h, n, n], DType::F32, 0.0), xs, |state, x| {
            let both = conv(x, state, gates).sigmoid();
            let (reset, update) = (both.slice(1, 0..h), both.slice(1, h..));
            let next = conv(x, reset * state, candidate).tanh();
            let state = (1.0 - update) * state + update * next;
            (state, state)
        });
        output("states", states)
    })
}
