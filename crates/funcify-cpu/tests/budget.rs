//! Tests the memory budget of the process. This is a separate test program, because it changes that budget.

use std::sync::Arc;

use funcify::dispatch::Function;
use funcify::memory::set_memory_budget;
use funcify::{Error, Graph, HostTensor, ScanOptions, scan_with};
use funcify_cpu::Cpu;

/// A second call with the same signature takes a fast path, which must also check the budget.
#[test]
fn a_smaller_budget_holds_for_the_next_call() {
    let graph = Graph::build("rows", |g| {
        let steps = ScanOptions::new().length(1000);
        scan_with(steps, g.input("x", "f32[]"), (), |c, ()| (c.cos(), c)).1
    });
    let function = Function::compile(&graph.unwrap(), &Cpu::default()).unwrap();
    let call = || function.call(&[Arc::new(HostTensor::scalar(1f32))]);
    set_memory_budget(1 << 20);
    let expected = call().unwrap();
    assert_eq!(call().unwrap(), expected);
    set_memory_budget(3000);
    for _ in 0..2 {
        let error = call().unwrap_err();
        assert!(matches!(error, Error::OverBudget { .. }), "{error}");
    }
    set_memory_budget(1 << 20);
    assert_eq!(call().unwrap(), expected);
}
