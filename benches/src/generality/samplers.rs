//! Gradient-based samplers for batches of chains: Hamiltonian Monte Carlo and Langevin dynamics.

use std::collections::BTreeMap;

use funcify::{DType, Graph, ScanOptions, Value, fori_loop, grad, random, scan_with, select};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 50), ("L", 10), ("C", 16), ("N", 200), ("D", 8)])],
        quick: &[Sizes(&[("T", 4), ("L", 3), ("C", 3), ("N", 10), ("D", 3)])],
        loss: Loss::None,
        ..Workload::without_handwritten("hmc", "gradient-based samplers", hmc_inputs, hmc)
    },
    Workload {
        full: &[Sizes(&[("T", 500), ("C", 128), ("D", 4), ("K", 8)])],
        quick: &[Sizes(&[("T", 8), ("C", 5), ("D", 3), ("K", 4)])],
        loss: Loss::None,
        ..Workload::without_handwritten("langevin", "gradient-based samplers", langevin_inputs, langevin)
    },
];

/// The step size of the leapfrog integrator.
const LEAP: f64 = 0.05;
/// The step size of Langevin dynamics.
const STEP: f64 = 0.01;

/// Draws the features and labels of a logistic regression, and the initial state of each chain.
fn hmc_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [c, n, d] = ["C", "N", "D"].map(|letter| sizes.get(letter));
    vec![
        ("features", numbers.normal(&[n, d], 1.0)),
        ("labels", numbers.integers(&[n], DType::I32, 0, 2)),
        ("start", numbers.normal(&[c, d], 0.1)),
        ("key", random::host_key(11)),
    ]
}

fn hmc(sizes: &Sizes) -> funcify::Result<Graph> {
    let (steps, leaps) = (ScanOptions::new().length(sizes.get("T")), sizes.get("L"));
    Graph::build("hmc", |g| {
        let (features, labels) = (g.input("features", "f32[N,D]"), g.input("labels", "i32[N]"));
        let (start, key) = (g.input("start", "f32[C,D]"), g.input("key", "u32[2]"));
        let signs = (labels * 2 - 1).cast(DType::F32);
        // The negative log-density of each chain's weights under the posterior, with a standard normal prior.
        let potential = |weights: Value| {
            let margins = weights.matmul(features.t()) * signs;
            (-margins).softplus().sum(1) + weights.square().sum(1) * 0.5
        };
        let slope = |weights: Value| grad(weights, |weights| potential(weights).sum(0));
        let ((_, _), (samples, accepted)) = scan_with(steps, (start, key), (), |(old, key), ()| {
            let [key, for_momentum, for_acceptance] = random::split(key, 3).unstack(0);
            let momentum = random::normal(for_momentum, old.shape(), DType::F32);
            let half = momentum - slope(old) * (LEAP / 2.0);
            let (new, end) = fori_loop(0, leaps, (old, half), |_, (position, momentum)| {
                let position = position + momentum * LEAP;
                (position, momentum - slope(position) * LEAP)
            });
            // Undo half of the last momentum step: the leapfrog method ends with a half step.
            let end = end + slope(new) * (LEAP / 2.0);
            let energy = |position, momentum: Value| potential(position) + momentum.square().sum(1) * 0.5;
            let uniform = random::uniform(for_acceptance, [old.dim(0)], DType::F32, 0.0, 1.0);
            let accepted = uniform.log().lt(energy(old, momentum) - energy(new, end));
            let next = select(accepted.unsqueeze(1), new, old);
            ((next, key), (next, accepted.cast(DType::F32).mean(0)))
        });
        BTreeMap::from([("samples", samples), ("accepted", accepted)])
    })
}

fn langevin_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [c, d, k] = ["C", "D", "K"].map(|letter| sizes.get(letter));
    vec![
        ("start", numbers.normal(&[c, d], 2.0)),
        ("centres", numbers.normal(&[k, d], 1.0)),
        ("key", random::host_key(13)),
    ]
}

fn langevin(sizes: &Sizes) -> funcify::Result<Graph> {
    let steps = ScanOptions::new().length(sizes.get("T"));
    Graph::build("langevin", |g| {
        let (start, centres) = (g.input("start", "f32[C,D]"), g.input("centres", "f32[K,D]"));
        let key = g.input("key", "u32[2]");
        // The negative log-density of each chain's state under a mixture of normal distributions.
        let energy = |x: Value| -((x.unsqueeze(1) - centres).square().sum(2) * -0.5).logsumexp(1);
        let ((last, _), energies) = scan_with(steps, (start, key), (), |(x, key), ()| {
            let [key, own] = random::split(key, 2).unstack(0);
            let noise = random::normal(own, x.shape(), DType::F32);
            let slope = grad(x, |x| energy(x).sum(0));
            let x = x - slope * STEP + noise * (2.0 * STEP).sqrt();
            ((x, key), energy(x).mean(0))
        });
        BTreeMap::from([("last", last), ("energies", energies)])
    })
}
