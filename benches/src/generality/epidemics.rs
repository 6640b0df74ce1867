//! Epidemiology: fitting a compartment model to reported cases, and simulating infections of individuals.

use std::collections::BTreeMap;

use funcify::{DType, Graph, HostTensor, ScanOptions, random, scan, scan_with};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 365), ("R", 64)])],
        quick: &[Sizes(&[("T", 8), ("R", 4)])],
        loss: Loss::Output,
        differentiated: &["infection", "onset", "recovery"],
        ..Workload::without_handwritten("seir_fit", "epidemiology", seir_inputs, seir_fit)
    },
    Workload {
        full: &[Sizes(&[("T", 100), ("P", 4096)])],
        quick: &[Sizes(&[("T", 6), ("P", 16)])],
        loss: Loss::None,
        ..Workload::without_handwritten("chain_binomial", "epidemiology", chain_inputs, chain_binomial)
    },
];

fn seir_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, r] = ["T", "R"].map(|letter| sizes.get(letter));
    vec![
        ("cases", numbers.uniform(&[t, r], 0.0, 1.0)),
        ("mixing", numbers.normal(&[r, r], 1.0)),
        ("infected", numbers.uniform(&[r], 0.001, 0.01)),
        ("infection", numbers.uniform(&[r], 0.2, 0.5)),
        ("onset", numbers.uniform(&[r], 0.15, 0.3)),
        ("recovery", numbers.uniform(&[r], 0.1, 0.2)),
    ]
}

/// Builds a graph that models the spread of a disease between regions, and computes the mean squared error of the
/// predicted new cases. Cases are measured in percent of the population.
fn seir_fit(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("seir_fit", |g| {
        let (cases, mixing) = (g.input("cases", "f32[T,R]"), g.input("mixing", "f32[R,R]").softmax(1));
        let [infected, infection, onset, recovery] =
            ["infected", "infection", "onset", "recovery"].map(|name| g.input(name, "f32[R]"));
        let start = (1.0 - infected, infected.zeros_like(), infected);
        let (_, errors) = scan(start, cases, |(susceptible, exposed, infected), cases| {
            let exposures = infection * susceptible * mixing.matmul(infected);
            let onsets = onset * exposed;
            let next = (susceptible - exposures, exposed + exposures - onsets, infected + onsets - recovery * infected);
            (next, 100.0 * onsets - cases)
        });
        output("loss", errors.square().mean(..))
    })
}

fn chain_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    vec![("illness", numbers.integers(&[sizes.get("P")], DType::I32, 0, 50)), ("key", HostTensor::from([0u32, 11]))]
}

/// Builds a graph that simulates a chain-binomial epidemic. Each susceptible person becomes infected with a probability
/// proportional to the number of infected people, and each infected person recovers with a fixed probability. The graph
/// compares random bits with integer thresholds, so the counts are exact. The states are 0 for susceptible, 1 for
/// infected and 2 for recovered.
fn chain_binomial(sizes: &Sizes) -> funcify::Result<Graph> {
    let [steps, p] = ["T", "P"].map(|letter| sizes.get(letter));
    let per_infected = (0.3 * 2f64.powi(32) / p as f64) as i64;
    let of_recovery = (0.1 * 2f64.powi(32)) as i64;
    Graph::build("chain_binomial", |g| {
        let (illness, key) = (g.input("illness", format!("i32[{p}]").as_str()), g.input("key", "u32[2]"));
        let start = (key, illness.eq(0).cast(DType::I32));
        let options = ScanOptions::new().length(steps);
        let (_, (susceptible, infected)) = scan_with(options, start, (), |(key, states), ()| {
            let [key, first, second] = random::split(key, 3).unstack(0);
            let (is_susceptible, is_infected) = (states.eq(0), states.eq(1));
            let infected = is_infected.cast(DType::I32).sum(0);
            let threshold = infected.cast(DType::U32) * per_infected;
            let falls_ill = is_susceptible & random::bits(first, [p]).lt(threshold);
            let recovers = is_infected & random::bits(second, [p]).lt(of_recovery);
            let next = states + (falls_ill | recovers).cast(DType::I32);
            ((key, next), (is_susceptible.cast(DType::I32).sum(0), infected))
        });
        BTreeMap::from([("infected", infected), ("susceptible", susceptible)])
    })
}
