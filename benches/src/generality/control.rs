//! Optimal control: trajectory optimisation by gradient descent, and rollouts of many policies.

use std::collections::BTreeMap;

use funcify::{DType, Graph, ScanOptions, Value, fori_loop, full, scan, scan_with, select, stack, value_and_grad};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 100), ("B", 64), ("K", 20)])],
        quick: &[Sizes(&[("T", 6), ("B", 3), ("K", 3)])],
        loss: Loss::None,
        ..Workload::without_handwritten("swing_up", "optimal control", swing_up_inputs, swing_up)
    },
    Workload {
        full: &[Sizes(&[("T", 300), ("B", 256)])],
        quick: &[Sizes(&[("T", 16), ("B", 5)])],
        loss: Loss::None,
        ..Workload::without_handwritten("cartpole", "optimal control", cartpole_inputs, cartpole)
    },
];

fn swing_up_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, b] = ["T", "B"].map(|letter| sizes.get(letter));
    vec![("torques", numbers.normal(&[t, b], 0.5)), ("angles", numbers.normal(&[b], 0.2))]
}

/// Builds a graph that optimises the torques of pendulums by gradient descent. Each pendulum should end upright and at
/// rest.
fn swing_up(sizes: &Sizes) -> funcify::Result<Graph> {
    let rounds = sizes.get("K");
    Graph::build("swing_up", |g| {
        let (torques, angles) = (g.input("torques", "f32[T,B]"), g.input("angles", "f32[B]"));
        let cost_of = |torques: Value| {
            let start = (angles, angles.zeros_like());
            let ((angle, rate), ()) = scan(start, torques, |(angle, rate), torque| {
                let rate = rate + 0.02 * (torque - 5.0 * angle.sin() - 0.1 * rate);
                ((angle + 0.02 * rate, rate), ())
            });
            (1.0 + angle.cos() + 0.1 * rate.square()).sum(0) + 0.0001 * torques.square().sum(..)
        };
        let options = ScanOptions::new().length(rounds);
        let (torques, costs) = scan_with(options, torques, (), |torques, ()| {
            let (cost, slope) = value_and_grad(torques, cost_of);
            (torques - 50.0 * slope, cost)
        });
        BTreeMap::from([("costs", costs), ("torques", torques)])
    })
}

/// Draws a start state and a linear policy for each lane.
fn cartpole_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let b = sizes.get("B");
    vec![("start", numbers.uniform(&[4, b], -0.05, 0.05)), ("policy", numbers.normal(&[4, b], 2.0))]
}

/// Builds a graph that rolls out cart-pole policies. The state is reset when the pole falls or the cart leaves the
/// track.
fn cartpole(sizes: &Sizes) -> funcify::Result<Graph> {
    let [steps, b] = ["T", "B"].map(|letter| sizes.get(letter));
    Graph::build("cartpole", |g| {
        let [start, policy] = ["start", "policy"].map(|name| g.input(name, format!("f32[4,{b}]").as_str()));
        let init = (start, full([b], DType::I32, 0.0));
        let (state, falls) = fori_loop(0, steps, init, |_, (state, falls)| {
            let force = 10.0 * (policy * state).sum(0).tanh();
            let [place, speed, angle, rate] = state.unstack(0);
            let (sine, cosine) = (angle.sin(), angle.cos());
            let push = (force + 0.05 * rate.square() * sine) / 1.1;
            let turn = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine.square() / 1.1));
            let pull = push - 0.05 * turn * cosine / 1.1;
            let place = place + 0.02 * speed;
            let angle = angle + 0.02 * rate;
            let next = stack(&[place, speed + 0.02 * pull, angle, rate + 0.02 * turn], 0);
            let has_fallen = place.abs().gt(2.4) | angle.abs().gt(0.21);
            (select(has_fallen, start, next), falls + has_fallen.cast(DType::I32))
        });
        BTreeMap::from([("falls", falls), ("state", state)])
    })
}
