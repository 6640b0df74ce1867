//! Workloads of many kinds, for measuring the engine on programs for which it was not tuned.
//!
//! Each workload is an idiomatic funcify program, and has a counterpart in `peers/jax_generality`: an idiomatic, jitted
//! JAX program of the same name. The workloads have no handwritten loops in Candle or Burn. The title of a workload
//! names its kind. Half of the workloads are held out: see [`Half`].

#![expect(clippy::reversed_empty_ranges, reason = "negative positions in slices count from the end")]

mod alignment;
mod automata;
mod bandits;
mod beliefs;
mod bodies;
mod cells;
mod chunked;
mod clustering;
mod codes;
mod control;
mod convolutional;
mod diffusion;
mod dynamic_programming;
mod econometrics;
mod eigen;
mod epidemics;
mod evolution;
mod filters;
mod finance;
mod fluids;
mod graph_network;
mod graphs;
mod hashes;
mod hidden_markov;
mod lattice;
mod number_theory;
mod odes;
mod order;
mod particle_filter;
mod pictures;
mod recovery;
mod reinforcement;
mod roots;
mod samplers;
mod search;
mod split;
mod streaming;
mod text;
mod tracking;
mod training;
mod transport;

use anyhow::{Context, Result};
pub(crate) use split::Half;

use crate::workloads::{self, Workload};

/// The workloads of each file in this folder.
const FILES: &[&[Workload]] = &[
    alignment::ALL,
    automata::ALL,
    bandits::ALL,
    beliefs::ALL,
    bodies::ALL,
    cells::ALL,
    chunked::ALL,
    clustering::ALL,
    codes::ALL,
    control::ALL,
    convolutional::ALL,
    diffusion::ALL,
    dynamic_programming::ALL,
    econometrics::ALL,
    eigen::ALL,
    epidemics::ALL,
    evolution::ALL,
    filters::ALL,
    finance::ALL,
    fluids::ALL,
    graph_network::ALL,
    graphs::ALL,
    hashes::ALL,
    hidden_markov::ALL,
    lattice::ALL,
    number_theory::ALL,
    odes::ALL,
    order::ALL,
    particle_filter::ALL,
    pictures::ALL,
    recovery::ALL,
    reinforcement::ALL,
    roots::ALL,
    samplers::ALL,
    search::ALL,
    streaming::ALL,
    text::ALL,
    tracking::ALL,
    training::ALL,
    transport::ALL,
];

/// Returns every workload in this folder.
pub(crate) fn all() -> impl Iterator<Item = &'static Workload> {
    FILES.iter().copied().flatten()
}

/// Returns the workload with this name. Searches [`workloads`] and this folder.
pub(crate) fn named(name: &str) -> Result<&'static Workload> {
    let everything = || workloads::ALL.iter().chain(all());
    everything().find(|workload| workload.name == name).with_context(|| {
        let names: Vec<&str> = everything().map(|workload| workload.name).collect();
        format!("there is no workload `{name}`; available: {}", names.join(", "))
    })
}
