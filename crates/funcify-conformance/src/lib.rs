//! The conformance suite of funcify: identical cases on every backend.
//!
//! Cases are values ([`Case`]): a graph, inputs, and what must come out, from golden values that were computed
//! independently ([`golden`]) and from the reference evaluation. Backends are parameters ([`Subject`]) with declared gaps
//! ([`Expectations`]). Each case runs with its loops unrolled and native, as it is written and rewritten. The author of a backend runs the suite as
//! tests of their own with [`run_as_tests`].

pub mod arbitrary;
pub mod cases;
mod compare;
mod derivatives;
mod differences;
pub mod expectations;
pub mod golden;
mod harness;
pub mod lanes;
pub mod mutants;
pub mod properties;
mod report;
mod runner;
pub mod singular;
mod suite;
pub mod templates;

pub use compare::compare;
pub use differences::{DIFFERENCES, note_difference};
pub use expectations::Expectations;
pub use harness::{run_as_tests, trials, trials_of};
pub use report::Report;
pub use runner::{MODES, Row, Status, Subject, modes_of, rewritten, run_case, run_rewritten, unmatched_gaps};
pub use suite::{Case, Expected, ExpectedOutput, all_cases, all_golden_cases};
