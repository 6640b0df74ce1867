//! The suite on the reference backend: every case in both modes, and nothing undeclared.

use std::sync::Arc;

fn main() {
    funcify_conformance::run_as_tests(Arc::new(funcify::dispatch::Reference), "");
}
