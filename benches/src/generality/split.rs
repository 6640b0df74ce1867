//! Splits the workloads into an open half and a held-out half.
//!
//! Developers of the engine look only at the times of the open half. The times of the held-out half therefore show how
//! fast the engine is on programs for which it was not tuned.

use clap::ValueEnum;

use crate::workloads::Workload;

/// The workloads to run: one of the two halves, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Half {
    /// The open workloads: developers of the engine may look at their times.
    Open,
    /// The held-out workloads: developers of the engine do not look at their times.
    Aside,
    /// Both halves.
    All,
}

impl Half {
    /// Returns `true` if this selection includes a workload.
    pub(crate) fn contains(self, workload: &Workload) -> bool {
        match self {
            Half::Open => !is_set_aside(workload),
            Half::Aside => is_set_aside(workload),
            Half::All => true,
        }
    }
}

/// Returns `true` if a workload is held out.
fn is_set_aside(workload: &Workload) -> bool {
    SET_ASIDE.contains(&workload.name)
}

/// The seed of the shuffle that chose the held-out workloads.
#[cfg(test)]
const SEED: u64 = 2026;

/// The names of the held-out workloads: the first half of all names after sorting and shuffling.
const SET_ASIDE: &[&str] = &[
    "adam_mlp",
    "adaptive_rk",
    "beam_search",
    "bellman_ford",
    "binomial_american",
    "bisection",
    "bootstrap_filter",
    "collatz",
    "connected_components",
    "conv_gru",
    "crc32",
    "delta_rule",
    "edit_distance",
    "garch",
    "gated_graph_network",
    "gaussian_mixture",
    "gray_scott",
    "gru",
    "hmc",
    "hodgkin_huxley",
    "ista",
    "knapsack",
    "lattice_boltzmann",
    "lennard_jones",
    "lms",
    "lotka_volterra",
    "mamba2_chunked",
    "min_sum",
    "odd_even_sort",
    "pagerank",
    "richardson_lucy",
    "rsi",
    "sandpile",
    "seir_fit",
    "sinkhorn",
    "ucb",
    "viterbi",
    "wave",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generality::all;
    use crate::workloads::Numbers;

    #[test]
    fn the_half_is_that_of_the_seed() {
        let mut names: Vec<&str> = all().map(|workload| workload.name).collect();
        names.sort_unstable();
        let mut numbers = Numbers::new(SEED);
        for last in (1..names.len()).rev() {
            names.swap(last, (numbers.unit() * (last + 1) as f64) as usize);
        }
        names.truncate(names.len() / 2);
        names.sort_unstable();
        assert_eq!(names, SET_ASIDE);
    }
}
