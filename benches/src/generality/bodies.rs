//! Particle dynamics: gravitating bodies, and a liquid in a periodic box.

use std::collections::BTreeMap;

use funcify::{DType, Graph, HostTensor, Scalar, ScanOptions, Value, fori_loop, scan_with, select};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 100), ("N", 64)])],
        quick: &[Sizes(&[("T", 5), ("N", 6)])],
        differentiated: &["velocities"],
        ..Workload::without_handwritten("n_body", "particle dynamics", body_inputs, n_body)
    },
    Workload {
        full: &[Sizes(&[("T", 100), ("S", 5)])],
        quick: &[Sizes(&[("T", 5), ("S", 3)])],
        loss: Loss::None,
        ..Workload::without_handwritten("lennard_jones", "particle dynamics", liquid_inputs, lennard_jones)
    },
];

fn body_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let n = sizes.get("N");
    vec![
        ("positions", numbers.normal(&[n, 3], 1.0)),
        ("velocities", numbers.normal(&[n, 3], 0.3)),
        ("masses", numbers.uniform(&[n], 0.5 / n as f64, 1.5 / n as f64)),
    ]
}

/// Builds a graph that integrates the motion of bodies by the leapfrog method. All pairs of bodies attract each other,
/// with forces that are softened at short distances.
fn n_body(sizes: &Sizes) -> funcify::Result<Graph> {
    let steps = sizes.get("T");
    Graph::build("n_body", |g| {
        let (positions, velocities) = (g.input("positions", "f32[N,3]"), g.input("velocities", "f32[N,3]"));
        let masses = g.input("masses", "f32[N]");
        let acceleration = |positions: Value| {
            let difference = positions.unsqueeze(0) - positions.unsqueeze(1);
            let inverse = (difference.square().sum(2) + 0.05).rsqrt();
            ((masses * inverse * inverse * inverse).unsqueeze(2) * difference).sum(1)
        };
        let (positions, _) = fori_loop(0, steps, (positions, velocities), |_, (positions, velocities)| {
            let positions = positions + 0.005 * velocities;
            let velocities = velocities + 0.01 * acceleration(positions);
            (positions + 0.005 * velocities, velocities)
        });
        output("positions", positions)
    })
}

/// The distance between neighbours in the initial lattice.
const SPACING: f64 = 1.2;

/// Draws particles near the points of a cubic lattice.
fn liquid_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let side = sizes.get("S");
    let n = side * side * side;
    let positions = HostTensor::from_fn(DType::F32, &[n, 3], |index| {
        let cell = index[0] / side.pow(index[1] as u32) % side;
        Scalar::Float(SPACING * (cell as f64 + 0.45 + 0.1 * numbers.unit()))
    });
    vec![("positions", positions), ("velocities", numbers.normal(&[n, 3], 0.5))]
}

/// Builds a graph that integrates the motion of the particles by the velocity Verlet method, with the Lennard-Jones
/// potential cut off at a distance of 2.5.
fn lennard_jones(sizes: &Sizes) -> funcify::Result<Graph> {
    let (steps, length) = (sizes.get("T"), SPACING * sizes.get("S") as f64);
    Graph::build("lennard_jones", |g| {
        let (positions, velocities) = (g.input("positions", "f32[N,3]"), g.input("velocities", "f32[N,3]"));
        let forces = |positions: Value| {
            let difference = positions.unsqueeze(1) - positions.unsqueeze(0);
            let nearest = difference - length * (difference / length).round();
            let square = nearest.square().sum(2);
            let is_near = square.lt(6.25) & square.gt(0.0);
            let inverse = select(is_near, 1.0 / select(is_near, square, 1.0), 0.0);
            let power = inverse * inverse * inverse;
            let force = ((24.0 * (2.0 * power.square() - power) * inverse).unsqueeze(2) * nearest).sum(1);
            (force, 2.0 * (power.square() - power).sum(..))
        };
        let start = (positions, velocities, forces(positions).0);
        let ((positions, _, _), energy) =
            scan_with(ScanOptions::new().length(steps), start, (), |(positions, velocities, force), ()| {
                let half = velocities + 0.0025 * force;
                let positions = positions + 0.005 * half;
                let (force, energy) = forces(positions);
                ((positions, half + 0.0025 * force, force), energy)
            });
        BTreeMap::from([("energy", energy), ("positions", positions)])
    })
}
