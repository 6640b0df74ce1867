//! Partial differential equations: waves in an inhomogeneous medium, and a reaction-diffusion system.

use std::collections::BTreeMap;

use funcify::{DType, Graph, HostTensor, Scalar, Value, concat, fori_loop, scan};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 200), ("N", 128)])],
        quick: &[Sizes(&[("T", 12), ("N", 10)])],
        differentiated: &["speed"],
        ..Workload::without_handwritten("wave", "partial differential equations", wave_inputs, wave)
    },
    Workload {
        full: &[Sizes(&[("T", 200), ("N", 128)])],
        quick: &[Sizes(&[("T", 5), ("N", 8)])],
        loss: Loss::None,
        ..Workload::without_handwritten("gray_scott", "partial differential equations", gray_scott_inputs, gray_scott)
    },
];

/// Draws the speed of the waves at each point, and the signal that a source emits. The shape of the source (`place`) is
/// a bump in the upper half of the field.
fn wave_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, n] = ["T", "N"].map(|letter| sizes.get(letter));
    let place = HostTensor::from_fn(DType::F32, &[n, n], |index| {
        let [row, column] = [(index[0], 0.25), (index[1], 0.5)].map(|(at, middle)| at as f64 / n as f64 - middle);
        Scalar::Float((-(row * row + column * column) / 0.02).exp())
    });
    vec![("speed", numbers.uniform(&[n, n], 0.3, 0.6)), ("place", place), ("source", numbers.normal(&[t], 1.0))]
}

/// Builds a graph that solves the wave equation by a leapfrog scheme. The field is 0 beyond its border. The output
/// records one row near the border at each step.
fn wave(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("wave", |g| {
        let (speed, place) = (g.input("speed", "f32[N,N]"), g.input("place", "f32[N,N]"));
        let source = g.input("source", "f32[T]");
        let factor = speed.square();
        let start = (speed.zeros_like(), speed.zeros_like());
        let (_, record) = scan(start, source, |(before, now), source| {
            let padded = now.pad(0, 1, 1, 0.0).pad(1, 1, 1, 0.0);
            let (rows, columns) = (padded.slice(1, 1..-1), padded.slice(0, 1..-1));
            let around = rows.slice(0, 2..) + rows.slice(0, ..-2) + columns.slice(1, 2..) + columns.slice(1, ..-2);
            let next = 2.0 * now - before + factor * (around - 4.0 * now) + source * place;
            ((now, next), next.index(0, 1))
        });
        output("record", record)
    })
}

fn gray_scott_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let n = sizes.get("N");
    vec![("u", numbers.uniform(&[n, n], 0.5, 1.0)), ("v", numbers.uniform(&[n, n], 0.0, 0.5))]
}

fn roll(x: Value, shift: i64, axis: i64) -> Value {
    concat(&[x.slice(axis, -shift..), x.slice(axis, ..-shift)], axis)
}

fn periodic_laplacian(x: Value) -> Value {
    roll(x, 1, 0) + roll(x, -1, 0) + roll(x, 1, 1) + roll(x, -1, 1) - 4.0 * x
}

fn gray_scott(sizes: &Sizes) -> funcify::Result<Graph> {
    let steps = sizes.get("T");
    Graph::build("gray_scott", |g| {
        let start = (g.input("u", "f32[N,N]"), g.input("v", "f32[N,N]"));
        let (u, v) = fori_loop(0, steps, start, |_, (u, v)| {
            let reaction = u * v * v;
            let next_u = u + 0.16 * periodic_laplacian(u) - reaction + 0.035 * (1.0 - u);
            let next_v = v + 0.08 * periodic_laplacian(v) + reaction - 0.1 * v;
            (next_u, next_v)
        });
        BTreeMap::from([("u", u), ("v", v)])
    })
}
