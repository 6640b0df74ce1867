//! Reinforcement learning and planning: tabular Q-learning, generalised advantage estimation, and value iteration.

use std::collections::BTreeMap;

use funcify::{DType, Graph, ScanOptions, constant, scan, scan_with, select, while_loop};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 5000), ("S", 256), ("A", 8)])],
        quick: &[Sizes(&[("T", 16), ("S", 5), ("A", 3)])],
        loss: Loss::None,
        ..Workload::without_handwritten("q_learning", "reinforcement learning", q_inputs, q_learning)
    },
    Workload {
        full: &[Sizes(&[("T", 2048), ("B", 64)])],
        quick: &[Sizes(&[("T", 16), ("B", 3)])],
        loss: Loss::None,
        ..Workload::without_handwritten("gae", "reinforcement learning", gae_inputs, gae)
    },
    Workload {
        full: &[Sizes(&[("A", 8), ("S", 256)])],
        quick: &[Sizes(&[("A", 3), ("S", 6)])],
        loss: Loss::None,
        is_conditional: true,
        ..Workload::without_handwritten("value_iteration", "planning", planning_inputs, value_iteration)
    },
];

/// The factor by which each step discounts later rewards.
const DISCOUNT: f64 = 0.95;
/// The learning rate of Q-learning.
const RATE: f64 = 0.1;
/// The probability that an action leaves the state unchanged.
const SLIP: f64 = 0.2;
/// The decay parameter of generalised advantage estimation.
const LAMBDA: f64 = 0.9;
/// The tolerance of value iteration, which ends when no value changes by more than this number.
const TOLERANCE: f64 = 1e-4;

fn q_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, s, a] = ["T", "S", "A"].map(|letter| sizes.get(letter));
    vec![
        ("q", numbers.normal(&[s, a], 0.1)),
        ("rewards", numbers.normal(&[s, a], 1.0)),
        ("successors", numbers.integers(&[s, a], DType::I32, 0, s as i64)),
        ("states", numbers.integers(&[t], DType::I32, 0, s as i64)),
        ("actions", numbers.integers(&[t], DType::I32, 0, a as i64)),
        ("chances", numbers.uniform(&[t], 0.0, 1.0)),
    ]
}

fn q_learning(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("q_learning", |g| {
        let [q, rewards] = ["q", "rewards"].map(|name| g.input(name, "f32[S,A]"));
        let successors = g.input("successors", "i32[S,A]");
        let [states, actions] = ["states", "actions"].map(|name| g.input(name, "i32[T]"));
        let chances = g.input("chances", "f32[T]");
        let (q, errors) = scan(q, (states, actions, chances), |q, (state, action, chance)| {
            let successor = successors.dynamic_index(0, state).dynamic_index(0, action);
            let next = select(chance.lt(SLIP), state, successor);
            let reward = rewards.dynamic_index(0, state).dynamic_index(0, action);
            let row = q.dynamic_index(0, state);
            let old = row.dynamic_index(0, action);
            let error = reward + q.dynamic_index(0, next).max(0) * DISCOUNT - old;
            let row = row.dynamic_update(0, (old + error * RATE).unsqueeze(0), action);
            (q.dynamic_update(0, row.unsqueeze(0), state), error)
        });
        BTreeMap::from([("q", q), ("errors", errors)])
    })
}

fn gae_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, b] = ["T", "B"].map(|letter| sizes.get(letter));
    vec![
        ("rewards", numbers.normal(&[t, b], 1.0)),
        ("values", numbers.normal(&[t, b], 1.0)),
        ("last_value", numbers.normal(&[b], 1.0)),
        // An episode ends at each step where `remaining` is 0.
        ("remaining", numbers.integers(&[t, b], DType::I32, 0, 50)),
    ]
}

fn gae(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("gae", |g| {
        let [rewards, values] = ["rewards", "values"].map(|name| g.input(name, "f32[T,B]"));
        let (last_value, remaining) = (g.input("last_value", "f32[B]"), g.input("remaining", "i32[T,B]"));
        let goes_on = remaining.ne(0).cast(DType::F32);
        let start = (last_value.zeros_like(), last_value);
        let backward = ScanOptions::new().reverse();
        let (_, advantages) = scan_with(backward, start, (rewards, values, goes_on), |(later, next), row| {
            let (reward, value, goes_on) = row;
            let error = reward + goes_on * next * DISCOUNT - value;
            let advantage = error + goes_on * later * (DISCOUNT * LAMBDA);
            ((advantage, value), advantage)
        });
        BTreeMap::from([("advantages", advantages), ("returns", advantages + values)])
    })
}

fn planning_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [a, s] = ["A", "S"].map(|letter| sizes.get(letter));
    vec![("logits", numbers.normal(&[a, s, s], 2.0)), ("rewards", numbers.normal(&[a, s], 1.0))]
}

fn value_iteration(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("value_iteration", |g| {
        let (logits, rewards) = (g.input("logits", "f32[A,S,S]"), g.input("rewards", "f32[A,S]"));
        let transitions = logits.softmax(2);
        let start = (rewards.max(0).zeros_like(), constant(f32::INFINITY));
        let (values, _) = while_loop(
            start,
            |(_, change)| change.gt(TOLERANCE),
            |(values, _)| {
                let next = (rewards + transitions.matmul(values) * DISCOUNT).max(0);
                (next, (next - values).abs().max(0))
            },
        );
        output("values", values)
    })
}
