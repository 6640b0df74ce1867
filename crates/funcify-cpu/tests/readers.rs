//! Tests compiled loops in which each step reads a state or a sum of products, and also changes it. The results must
//! agree with the reference evaluator.

mod numbers;

use funcify::dispatch::{CompileOptions, Function, LoopStrategy};
use funcify::{Recurrence, Value, scan};
use funcify_cpu::Cpu;
use numbers::{assert_near, built, inputs, numbers, traced};

/// The engine's recurrence instruction reads only the previous row, so it must not replace a loop in which a row
/// depends on the two previous rows.
#[test]
fn rows_follow_from_two_rows_before_them() {
    let steps: [fn(Value, Value) -> Value; 4] =
        [|y2, y1| y1 + y2, |y2, y1| y2.maximum(y1), |y2, y1| y1 * y2, |y2, y1| y1 * 0.5 + y2];
    for (index, step) in steps.into_iter().enumerate() {
        let graph = built("rows", |g| {
            let mut loop_ = Recurrence::new();
            let y = loop_.mit_sot(g.input("start", "f32[2,3]"), [-2, -1]);
            let done = loop_.steps(9).run(|body| {
                let [y2, y1] = body.read(&y);
                body.write(&y, step(y2, y1));
            });
            // The program returns all rows, so the plan writes them directly into the trace.
            (done.trace_with_init(&y), done.trace(&y))
        });
        let inputs = [numbers(&[2, 3], 1)];
        let function = Function::compile(&graph, &Cpu::default()).unwrap();
        let (found, expected) = (function.call_host(&inputs).unwrap(), funcify::evaluate(&graph, &inputs).unwrap());
        assert_near(&found, &expected, 2e-5, &format!("step {index}"));
        let report = function.report();
        assert!(report.loops.iter().all(|each| each.strategy == LoopStrategy::Compiled), "{report}");
    }
}

/// Each step combines the state with some of the state's own elements, or with all of these elements in another order.
/// The step must read the whole state before it writes the next one.
#[test]
fn a_state_is_combined_with_itself_as_it_was() {
    let steps: [fn(Value) -> Value; 6] = [
        |state| state * 0.5 + state.index(0, 0),
        |state| state * 0.5 + state.slice(1, ..1).sum(1).unsqueeze(1),
        |state| state * 0.5 - state.slice(1, ..1).broadcast_to([3usize, 3]),
        |state| state * 0.5 + state.t(),
        |state| state.reverse(0) * 0.5 + state,
        |state| state + state.t().matmul(state) * 0.125,
    ];
    for (index, step) in steps.into_iter().enumerate() {
        let graph = built("itself", |g| {
            let [xs, start] = [g.input("xs", "f32[5,3,3]"), g.input("start", "f32[3,3]")];
            scan(start, xs, |state, x| (step(state), state * x))
        });
        let inputs = [numbers(&[5, 3, 3], 1), numbers(&[3, 3], 2)];
        let expected = funcify::evaluate(&graph, &inputs).unwrap();
        for cpu in [Cpu::default(), Cpu::dividing_all()] {
            let function = Function::compile(&graph, &cpu).unwrap();
            assert_near(&function.call_host(&inputs).unwrap(), &expected, 2e-5, &format!("step {index}"));
            let report = function.report();
            assert!(report.loops.iter().all(|each| each.strategy == LoopStrategy::Compiled), "{report}");
        }
    }
}

/// In a sum of two products that each have a bias, the plan must add both biases.
#[test]
fn both_biases_of_a_sum_of_products_are_added() {
    let graph = built("biases", |g| {
        let [xs, h] = [g.input("xs", "f32[5,4,3]"), g.input("h", "f32[4,3]")];
        let [w, u, b, c] =
            [g.input("w", "f32[3,3]"), g.input("u", "f32[3,3]"), g.input("b", "f32[3]"), g.input("c", "f32[3]")];
        scan(h, xs, |h, x| traced(((x.matmul(w) + b) + (h.matmul(u) + c)).tanh()))
    });
    let shapes: [&[usize]; 6] = [&[5, 4, 3], &[4, 3], &[3, 3], &[3, 3], &[3], &[3]];
    let inputs = inputs(&shapes);
    let expected = funcify::evaluate(&graph, &inputs).unwrap();
    let options = CompileOptions { rewrites: None, ..CompileOptions::default() };
    for function in
        [Function::compile(&graph, &Cpu::default()), Function::compile_with(&graph, &Cpu::default(), options)]
    {
        assert_near(&function.unwrap().call_host(&inputs).unwrap(), &expected, 2e-5, "both biases");
    }
}

/// A sum over the axis that the plan divides into parts must be complete before a nonlinear op uses the sum.
#[test]
fn sums_over_parts_are_whole_before_they_are_used() {
    let uses: [fn(Value) -> Value; 4] = [
        |sums| sums.tanh(),
        |sums| (sums * sums + 1.0).recip(),
        |sums| sums.pad(0, 1, 2, 0.5),
        |sums| sums.ones_like() / (sums + 8.0),
    ];
    let programs = uses.into_iter().enumerate().map(|(index, of)| {
        let graph = built("sums", |g| {
            let x = g.input("x", "f32[T,6]");
            let mut loop_ = Recurrence::new();
            let rows = loop_.sequence(x, [0]);
            let state = loop_.carry(x.index(0, 0));
            // The trace of the sums starts with an initial row.
            let total = loop_.sit_sot(x.slice(0, ..1).sum(1));
            let done = loop_.run(|step| {
                let ([row], state_now, [before]) = (step.read(&rows), step.read(&state), step.read(&total));
                let next = (state_now * 0.5 + row).tanh();
                step.write(&state, next);
                step.write(&total, before + next.sum(0));
                next
            });
            (of(done.ys.sum(1)), done.trace(&total))
        });
        (index, graph)
    });
    for (index, graph) in programs {
        let inputs = [numbers(&[10, 6], 1)];
        let expected = funcify::evaluate(&graph, &inputs).unwrap();
        let found = Function::compile(&graph, &Cpu::dividing_all()).unwrap().call_host(&inputs).unwrap();
        assert_near(&found, &expected, 2e-5, &format!("use {index}"));
    }
}
