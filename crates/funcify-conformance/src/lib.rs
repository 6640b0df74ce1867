//! The conformance suite of funcify, which runs the same cases on every backend.
//!
//! A case ([`Case`]) consists of a graph, its inputs and the expected result. Expected results are either golden
//! values, which were computed independently of funcify, or the results of the reference evaluator. A backend
//! ([`Subject`]) may declare gaps ([`Expectations`]). The program of each case runs in every mode of the backend
//! ([`modes_of`]: unrolled, native, or compiled loops), both as written and after rewriting.
//!
//! # A backend of your own
//!
//! The suite runs as tests of your crate. Put this into `tests/conformance.rs`:
//!
//! ```no_run
//! # use funcify::dispatch::Reference as MyBackend;
//! fn main() {
//!     funcify_conformance::run_as_tests(std::sync::Arc::new(MyBackend), "partial = true")
//! }
//! ```
//!
//! Add this to `Cargo.toml`, because the file has a `main` function instead of `#[test]` functions:
//!
//! ```toml
//! [dev-dependencies]
//! funcify-conformance = "0.1"
//!
//! [[test]]
//! name = "conformance"
//! harness = false
//! ```
//!
//! `cargo test --test conformance` then reports one of three results for each case. A case **passes**, **fails**, or is
//! **ignored** because it needs ops without a lowering rule, or types that
//! [`Backend::unsupported`](funcify::dispatch::Backend::unsupported) rejects. The test's output names these ops and
//! types. After the tests, a table lists the missing ops and types, starting with those that unlock the most cases:
//!
//! ```text
//! needs      cases  nothing else  unlocked in this order
//! ---------  -----  ------------  ----------------------
//! slice      1812   94            +94
//! reduce     2104   61            +203
//! ```
//!
//! `cases` counts the cases that need the op, and `nothing else` counts those that need only this op. The last column
//! counts the cases that start to run once the backend has this op and all ops above it.
//!
//! The second argument of [`run_as_tests`] declares gaps, in the TOML format of [`expectations`]. `partial = true`
//! declares that the backend is under construction. Without this setting, one additional test fails for each missing op
//! or type. Permanent gaps are declared case by case, with their error and a reason.
//!
//! # Ops of your own
//!
//! [`custom_cases`] builds cases for an op that your crate defines, and [`Suite`] runs them along with the built-in
//! cases:
//!
//! ```no_run
//! # use funcify::dispatch::Reference as MyBackend;
//! # fn my_op() -> funcify::ops::Reshape { funcify::ops::Reshape { shape: [2usize].into() } }
//! use std::sync::Arc;
//! use funcify::HostTensor;
//! use funcify_conformance::{Suite, custom_cases};
//!
//! fn main() {
//!     let operands = [vec![HostTensor::from([0.5f32, -1.0])]];
//!     let cases = custom_cases("my_op", my_op(), &operands).expect("the op takes these operands");
//!     Suite::new(Arc::new(MyBackend)).with_cases(cases).run()
//! }
//! ```

#[doc(hidden)]
pub mod arbitrary;
mod case;
#[doc(hidden)]
pub mod cases;
mod compare;
mod custom;
mod derivatives;
mod differences;
pub mod expectations;
#[doc(hidden)]
pub mod golden;
mod harness;
#[doc(hidden)]
pub mod lanes;
#[doc(hidden)]
pub mod mutants;
#[doc(hidden)]
pub mod properties;
mod report;
mod runner;
#[doc(hidden)]
pub mod singular;
mod suite;
#[doc(hidden)]
pub mod support;
#[doc(hidden)]
pub mod templates;
mod unlocks;

pub use case::{Case, Expected, ExpectedOutput};
#[doc(hidden)]
pub use compare::compare;
pub use custom::custom_cases;
#[doc(hidden)]
pub use differences::{DIFFERENCES_VAR, note_difference};
pub use expectations::Expectations;
pub use harness::{Suite, run_as_tests, trials, trials_of};
pub use report::Report;
pub use runner::{
    CaseResult, MODES, Status, Subject, modes_of, rewrite_case, run_case, run_modes, run_rewritten, unmatched_gaps,
};
pub use suite::{LoopCounts, all_cases, all_golden_cases};
pub use unlocks::{Unlock, unlock_table, unlocks};
