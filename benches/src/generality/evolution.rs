//! Evolutionary optimisation of Rastrigin's function.

use std::collections::BTreeMap;
use std::f64::consts::TAU;

use funcify::{DType, Graph, HostTensor, ScanOptions, Value, random, scan, scan_with, select};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 100), ("P", 256), ("D", 32)])],
        quick: &[Sizes(&[("T", 3), ("P", 8), ("D", 3)])],
        loss: Loss::None,
        ..Workload::without_handwritten(
            "evolution_strategy",
            "evolutionary optimisation",
            strategy_inputs,
            evolution_strategy,
        )
    },
    Workload {
        full: &[Sizes(&[("T", 100), ("P", 256), ("D", 16)])],
        quick: &[Sizes(&[("T", 3), ("P", 6), ("D", 3)])],
        loss: Loss::None,
        ..Workload::without_handwritten(
            "differential_evolution",
            "evolutionary optimisation",
            differential_inputs,
            differential_evolution,
        )
    },
];

/// Computes Rastrigin's function for each row of `x`.
fn rastrigin(x: Value, dimensions: usize) -> Value {
    10.0 * dimensions as f64 + (x.square() - 10.0 * (TAU * x).cos()).sum(1)
}

fn strategy_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    vec![("mean", numbers.normal(&[sizes.get("D")], 2.0)), ("key", HostTensor::from([0u32, 7]))]
}

/// Builds a graph that runs an evolution strategy. Each step draws samples around a mean, weights them by the rank of
/// their costs, and moves the mean towards the samples with low costs.
fn evolution_strategy(sizes: &Sizes) -> funcify::Result<Graph> {
    let [steps, p, d] = ["T", "P", "D"].map(|letter| sizes.get(letter));
    Graph::build("evolution_strategy", |g| {
        let start = (g.input("key", "u32[2]"), g.input("mean", format!("f32[{d}]").as_str()));
        let ((_, mean), best) = scan_with(ScanOptions::new().length(steps), start, (), |(key, mean), ()| {
            let [key, draw] = random::split(key, 2).unstack(0);
            let noise = random::normal(draw, [p, d], DType::F32);
            let costs = rastrigin(mean + 0.3 * noise, d);
            let ranks = costs.argsort(0, false).argsort(0, false).cast(DType::F32);
            let weights = ranks / (p as f64 - 1.0) - 0.5;
            ((key, mean - (0.5 / p as f64) * weights.matmul(noise)), costs.min(0))
        });
        BTreeMap::from([("best", best), ("mean", mean)])
    })
}

fn differential_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, p, d] = ["T", "P", "D"].map(|letter| sizes.get(letter));
    vec![
        ("population", numbers.normal(&[p, d], 2.0)),
        ("parents", numbers.integers(&[t, 3, p], DType::I32, 0, p as i64)),
        ("chances", numbers.uniform(&[t, p, d], 0.0, 1.0)),
    ]
}

/// Builds a graph that runs differential evolution. Each candidate competes with a mixture of itself and three random
/// candidates.
fn differential_evolution(sizes: &Sizes) -> funcify::Result<Graph> {
    let d = sizes.get("D");
    Graph::build("differential_evolution", |g| {
        let population = g.input("population", format!("f32[P,{d}]").as_str());
        let (parents, chances) =
            (g.input("parents", "i32[T,3,P]"), g.input("chances", format!("f32[T,P,{d}]").as_str()));
        let start = (population, rastrigin(population, d));
        let ((population, _), best) = scan(start, (parents, chances), |(population, costs), (parents, chances)| {
            let [a, b, c] = parents.unstack(0).map(|parents| population.take(0, parents));
            let trial = select(chances.lt(0.9), a + 0.7 * (b - c), population);
            let trial_costs = rastrigin(trial, d);
            let is_better = trial_costs.le(costs);
            let costs = select(is_better, trial_costs, costs);
            ((select(is_better.unsqueeze(1), trial, population), costs), costs.min(0))
        });
        BTreeMap::from([("best", best), ("population", population)])
    })
}
