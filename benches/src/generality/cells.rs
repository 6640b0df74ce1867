//! Recurrent cells, and networks of spiking neurons.

use funcify::{DType, Graph, Value, custom_vjp, full, scan};

use crate::workloads::{Inputs, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 100), ("B", 16), ("I", 32), ("H", 64)])],
        quick: &[Sizes(&[("T", 5), ("B", 3), ("I", 4), ("H", 5)])],
        differentiated: &["w", "u", "b"],
        ..Workload::without_handwritten("gru", "recurrent cells", gru_inputs, gru)
    },
    Workload {
        full: &[Sizes(&[("T", 100), ("B", 16), ("I", 32), ("H", 64), ("O", 8)])],
        quick: &[Sizes(&[("T", 6), ("B", 3), ("I", 4), ("H", 5), ("O", 3)])],
        differentiated: &["w", "u", "out"],
        ..Workload::without_handwritten("lif", "spiking networks", lif_inputs, lif)
    },
];

fn gru_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, b, i, h] = ["T", "B", "I", "H"].map(|letter| sizes.get(letter));
    vec![
        ("xs", numbers.normal(&[t, b, i], 1.0)),
        ("h0", numbers.normal(&[b, h], 0.1)),
        ("w", numbers.normal(&[i, 3 * h], 0.5 * (i as f64).sqrt().recip())),
        ("u", numbers.normal(&[h, 3 * h], 0.5 * (h as f64).sqrt().recip())),
        ("b", numbers.normal(&[3 * h], 0.1)),
    ]
}

/// Builds a graph that runs a gated recurrent unit over a sequence.
fn gru(sizes: &Sizes) -> funcify::Result<Graph> {
    let h = sizes.get("H");
    Graph::build("gru", |g| {
        let (xs, h0) = (g.input("xs", "f32[T,B,I]"), g.input("h0", format!("f32[B,{h}]").as_str()));
        let (w, u) =
            (g.input("w", format!("f32[I,{}]", 3 * h).as_str()), g.input("u", format!("f32[{h},{}]", 3 * h).as_str()));
        let b = g.input("b", format!("f32[{}]", 3 * h).as_str());
        let parts = |gates: Value| [0usize, 1, 2].map(|part| gates.slice(1, part * h..(part + 1) * h));
        let (_, hs) = scan(h0, xs, |state, x| {
            let [reset, update, candidate] = parts(x.matmul(w) + b);
            let [of_reset, of_update, of_candidate] = parts(state.matmul(u));
            let update = (update + of_update).sigmoid();
            let candidate = (candidate + (reset + of_reset).sigmoid() * of_candidate).tanh();
            let state = (1.0 - update) * candidate + update * state;
            (state, state)
        });
        output("hs", hs)
    })
}

fn lif_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, b, i, h, o] = ["T", "B", "I", "H", "O"].map(|letter| sizes.get(letter));
    vec![
        ("xs", numbers.normal(&[t, b, i], 1.0)),
        ("w", numbers.normal(&[i, h], (i as f64).sqrt().recip())),
        ("u", numbers.normal(&[h, h], 0.5 * (h as f64).sqrt().recip())),
        ("out", numbers.normal(&[h, o], (h as f64).sqrt().recip())),
    ]
}

/// Returns 1 where `voltage`, measured relative to the threshold, is positive, and 0 elsewhere. In the backward pass,
/// the derivative of a smooth function replaces the true derivative.
fn spike(voltage: Value) -> Value {
    let fires = |voltage: Value| voltage.gt(0.0).cast(DType::F32);
    custom_vjp(
        voltage,
        fires,
        |voltage: Value| (fires(voltage), voltage),
        |voltage: Value, ct: Value| ct / (1.0 + 10.0 * voltage.abs()).square(),
    )
}

/// Builds a graph that runs leaky integrate-and-fire neurons. A leaky readout accumulates a weighted sum of their
/// spikes.
fn lif(sizes: &Sizes) -> funcify::Result<Graph> {
    let [b, h, o] = ["B", "H", "O"].map(|letter| sizes.get(letter));
    Graph::build("lif", |g| {
        let xs = g.input("xs", format!("f32[T,{b},I]").as_str());
        let (w, u) = (g.input("w", format!("f32[I,{h}]").as_str()), g.input("u", format!("f32[{h},{h}]").as_str()));
        let out = g.input("out", format!("f32[{h},{o}]").as_str());
        let zeros = |width: usize| full([b, width], DType::F32, 0.0);
        let (_, readout) = scan((zeros(h), zeros(h), zeros(o)), xs, |(voltage, spikes, readout), x| {
            let voltage = 0.9 * voltage * (1.0 - spikes) + x.matmul(w) + spikes.matmul(u);
            let spikes = spike(voltage - 1.0);
            let readout = 0.9 * readout + spikes.matmul(out);
            ((voltage, spikes, readout), readout)
        });
        output("readout", readout)
    })
}
