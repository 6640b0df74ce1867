//! What the harness and a worker say to each other, a line of JSON each: `peers/PROTOCOL.md`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the harness asks.
#[derive(Serialize, Deserialize, Debug)]
#[serde(tag = "do", rename_all = "lowercase")]
pub(crate) enum Request {
    /// Make the program, run it once, write its results.
    Prepare { workload: String, sizes: BTreeMap<String, usize>, phase: String, inputs: String, outputs: String },
    /// Run it some times.
    Run { count: usize },
    /// Run it once, and tell its memory.
    Peak,
    /// End.
    Quit,
}

/// What a worker answers.
#[derive(Serialize, Deserialize, Debug)]
#[serde(untagged)]
pub(crate) enum Answer {
    /// The program is made.
    Made { make_s: f64, make_cpu_s: f64 },
    /// It ran.
    Ran { wall_s: Vec<f64>, cpu_s: Vec<f64> },
    /// The subject does not have the workload or the phase.
    Declined { declined: String },
    /// It has it, and could not do it.
    Failed { failed: String },
    /// The largest memory of a run beyond what was held before it. Last, because it may have no fields.
    Memory { allocator_bytes: Option<u64>, system_bytes: Option<u64> },
}
