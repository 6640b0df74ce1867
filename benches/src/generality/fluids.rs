//! Fluid dynamics: a lattice Boltzmann method, and the shallow water equations.

use std::collections::BTreeMap;

use funcify::{Graph, Value, concat, constant, fori_loop, stack};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 50), ("N", 128)])],
        quick: &[Sizes(&[("T", 4), ("N", 8)])],
        loss: Loss::None,
        ..Workload::without_handwritten("lattice_boltzmann", "fluid dynamics", boltzmann_inputs, lattice_boltzmann)
    },
    Workload {
        full: &[Sizes(&[("T", 200), ("N", 128)])],
        quick: &[Sizes(&[("T", 5), ("N", 8)])],
        loss: Loss::None,
        ..Workload::without_handwritten("shallow_water", "fluid dynamics", water_inputs, shallow_water)
    },
];

/// The x components of the lattice's nine velocities.
const X: [i64; 9] = [0, 1, 0, -1, 0, 1, -1, -1, 1];
/// The y components of the lattice's nine velocities.
const Y: [i64; 9] = [0, 0, 1, 0, -1, 1, 1, -1, -1];
/// The weights of the nine velocities in the equilibrium distribution.
const WEIGHTS: [f64; 9] =
    [4.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0, 1.0 / 36.0, 1.0 / 36.0, 1.0 / 36.0, 1.0 / 36.0];

/// The relaxation rate: each step adds this multiple of `equilibrium - f` to the distribution `f`.
const RELAXATION: f64 = 1.25;

fn boltzmann_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let n = sizes.get("N");
    vec![("density", numbers.uniform(&[9, n, n], 0.8, 1.2))]
}

fn roll(x: Value, shift: i64, axis: i64) -> Value {
    if shift == 0 { x } else { concat(&[x.slice(axis, -shift..), x.slice(axis, ..-shift)], axis) }
}

fn lattice_boltzmann(sizes: &Sizes) -> funcify::Result<Graph> {
    let steps = sizes.get("T");
    Graph::build("lattice_boltzmann", |g| {
        let per_direction = |numbers: [f32; 9]| constant(numbers).reshape([9, 1, 1]);
        let (x, y) = (per_direction(X.map(|x| x as f32)), per_direction(Y.map(|y| y as f32)));
        let weights = per_direction(WEIGHTS.map(|weight| weight as f32));
        let start = weights * g.input("density", "f32[9,N,N]");
        let f = fori_loop(0, steps, start, |_, f| {
            let density = f.sum(0);
            let (u, v) = ((x * f).sum(0) / density, (y * f).sum(0) / density);
            let along = x * u + y * v;
            let speed = u.square() + v.square();
            let equilibrium = weights * density * (1.0 + 3.0 * along + 4.5 * along.square() - 1.5 * speed);
            let collided: [Value; 9] = (f + RELAXATION * (equilibrium - f)).unstack(0);
            let streamed: [Value; 9] = std::array::from_fn(|i| roll(roll(collided[i], X[i], 0), Y[i], 1));
            stack(&streamed, 0)
        });
        output("f", f)
    })
}

/// The time step. Waves travel about one cell per unit of time.
const STEP: f64 = 0.2;

fn water_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let n = sizes.get("N");
    vec![
        ("height", numbers.uniform(&[n, n], 0.9, 1.1)),
        ("u", numbers.normal(&[n, n], 0.02)),
        ("v", numbers.normal(&[n, n], 0.02)),
    ]
}

/// Builds a graph that solves the shallow water equations by a forward-backward scheme on a staggered, periodic grid,
/// with rotation and drag.
fn shallow_water(sizes: &Sizes) -> funcify::Result<Graph> {
    let steps = sizes.get("T");
    Graph::build("shallow_water", |g| {
        let start = (g.input("height", "f32[N,N]"), g.input("u", "f32[N,N]"), g.input("v", "f32[N,N]"));
        let (height, u, v) = fori_loop(0, steps, start, |_, (height, u, v)| {
            let (below, right) = (roll(height, -1, 0), roll(height, -1, 1));
            let u = u + STEP * (0.1 * v - (below - height) - 0.01 * u);
            let v = v + STEP * (-0.1 * u - (right - height) - 0.01 * v);
            let (flux_x, flux_y) = (0.5 * u * (height + below), 0.5 * v * (height + right));
            let height = height - STEP * (flux_x - roll(flux_x, 1, 0) + flux_y - roll(flux_y, 1, 1));
            (height, u, v)
        });
        BTreeMap::from([("height", height), ("u", u), ("v", v)])
    })
}
