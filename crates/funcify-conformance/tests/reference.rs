//! Runs the suite on the reference backend: every case in the unrolled and the native mode, without declared gaps.

use std::sync::Arc;

fn main() {
    funcify_conformance::run_as_tests(Arc::new(funcify::dispatch::Reference), "");
}
