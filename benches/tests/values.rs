//! Runs the quick benchmarks without timing them, to check that all of funcify's variants and all handwritten loops
//! compute the same values.

use std::process::Command;

#[test]
fn all_subjects_compute_the_same() {
    let output = Command::new(env!("CARGO_BIN_EXE_funcify-bench")).args(["--quick", "--values"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("programs computed the same values, 0 did not"), "{text}");
}
