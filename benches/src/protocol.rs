//! The messages between the harness and a worker. Each message is one line of JSON, described in `peers/PROTOCOL.md`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A request from the harness.
#[derive(Serialize, Deserialize, Debug)]
#[serde(tag = "do", rename_all = "lowercase")]
pub(crate) enum Request {
    /// Build the program, run it once, and write its results.
    Prepare { workload: String, sizes: BTreeMap<String, usize>, phase: String, inputs: String, outputs: String },
    /// Run the program `count` times.
    Run { count: usize },
    /// Run the program once and report its memory.
    Peak,
    /// Exit.
    Quit,
}

/// An answer from a worker.
#[derive(Serialize, Deserialize, Debug)]
#[serde(untagged)]
pub(crate) enum Answer {
    /// The program was built and has run once. Contains the wall time and processor time of the build and this run.
    Made { make_s: f64, make_cpu_s: f64 },
    /// The program ran. Contains the wall time and processor time of each run.
    Ran { wall_s: Vec<f64>, cpu_s: Vec<f64> },
    /// The subject does not support the workload or the phase.
    Declined { declined: String },
    /// The subject supports the workload but failed to run it.
    Failed { failed: String },
    /// The peak memory of a run, minus the memory in use before it. This must be the last variant: all of its fields
    /// are optional, so it would match any other answer.
    Memory { allocator_bytes: Option<u64>, system_bytes: Option<u64> },
}
