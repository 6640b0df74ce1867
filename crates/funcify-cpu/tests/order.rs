//! Tests that compiled programs read memory before it is overwritten. The programs have rows that later steps
//! overwrite, a tensor that is part of several concatenations, and matrices that only one branch packs. The results
//! must agree with the reference evaluator.

mod numbers;

use funcify::dispatch::{CompileOptions, Function, LoopStrategy};
use funcify::ops::ScatterMode;
use funcify::prelude::*;
use funcify_cpu::Cpu;
use numbers::{assert_near, numbers, traced};

/// Asserts that a program with inputs of these shapes is compiled, undivided and in several parts, and that its results
/// agree with the reference evaluator.
#[track_caller]
fn agrees(what: &str, shapes: &[&[usize]], program: impl FnOnce(&Builder) -> Vec<Value>) {
    let graph = Graph::build("program", program).unwrap();
    let inputs: Vec<HostTensor> = shapes.iter().zip(1..).map(|(shape, seed)| numbers(shape, seed)).collect();
    let expected = funcify::evaluate(&graph, &inputs).unwrap();
    for cpu in [Cpu::default(), Cpu::dividing_all()] {
        for rewrites in [None, CompileOptions::default().rewrites] {
            let options = CompileOptions { rewrites, whole: true, ..CompileOptions::default() };
            let function = Function::compile_with(&graph, &cpu, options).unwrap();
            // The second call starts with the memory contents that the first call left.
            for _ in 0..2 {
                let found = function.call_host(&inputs).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_near(&found, &expected, 2e-5, what);
            }
            let report = function.report();
            let is_compiled = report.loops.iter().all(|each| each.strategy == LoopStrategy::Compiled);
            assert!(is_compiled && report.declined.is_none(), "{what}: {report}");
        }
    }
}

/// A loop over the concatenated rows of two tensors reads each tap from the tensor that contains it.
#[test]
fn taps_of_joined_rows_are_each_in_their_own_tensor() {
    fn check<const N: usize>(taps: [i64; N]) {
        for is_first in [true, false] {
            agrees(&format!("taps {taps:?}, the single row first: {is_first}"), &[&[7, 3], &[3], &[3]], |g| {
                let (joined, start) = (joined(g, is_first), g.input("start", "f32[3]"));
                let mut loop_ = Recurrence::new();
                let (joined, state) = (loop_.sequence(joined, taps), loop_.carry(start));
                let done = loop_.run(|step| {
                    let sum = step.read(&joined).into_iter().reduce(|x, y| x * 0.25 - y).unwrap();
                    let next = (step.read(&state) * 0.5 + sum).tanh();
                    step.write(&state, next);
                    next
                });
                vec![done.ys, done.last(&state)]
            });
        }
    }
    check([0]);
    check([0, 1]);
    check([0, 3]);
    check([-2, 1]);
}

/// Tests a reverse loop over concatenated rows. The last carry of the loop is the first row of its trace.
#[test]
fn joined_rows_are_read_downward() {
    for is_first in [true, false] {
        agrees(&format!("the single row first: {is_first}"), &[&[7, 3], &[3], &[3]], |g| {
            let (joined, start) = (joined(g, is_first), g.input("start", "f32[3]"));
            let step = |state: Value, row: Value| traced((state * 0.5 - row).sin());
            let (last, ys) = scan_with(ScanOptions::new().reverse(), start, joined, step);
            vec![last, ys]
        });
    }
}

/// Concatenates the rows of a matrix with a vector input, which becomes a single row. If `is_first` is set, the single
/// row comes first.
fn joined(g: &Builder, is_first: bool) -> Value {
    let [rows, one] = [g.input("rows", "f32[7,3]"), g.input("one", "f32[3]").unsqueeze(0)];
    concat(&if is_first { [one, rows] } else { [rows, one] }, 0)
}

/// A sum of products over steps uses the rows that each step read, although later steps overwrite them.
#[test]
fn sums_of_products_have_rows_that_are_overwritten_later() {
    for (reads, writes) in [([0], [0]), ([1], [0]), ([0], [1])] {
        agrees(&format!("reads {reads:?}, writes {writes:?}"), &[&[12, 2, 3], &[12, 2, 4], &[3, 4]], |g| {
            let [rows, ys, start] =
                [g.input("rows", "f32[12,2,3]"), g.input("ys", "f32[12,2,4]"), g.input("start", "f32[3,4]")];
            let mut loop_ = Recurrence::new();
            let buffer = loop_.mit_mot(rows, reads, writes);
            let ys = loop_.sequence(ys.slice(0, ..if reads == writes { 12 } else { 11 }), [0]);
            let sum = loop_.carry(start);
            let done = loop_.run(|step| {
                let ([row], [y], before) = (step.read(&buffer), step.read(&ys), step.read(&sum));
                step.write(&sum, before + row.t().matmul(y));
                step.write(&buffer, [row * 0.5 + y.slice(1, ..3)]);
            });
            vec![done.last(&sum), done.buffer(&buffer)]
        });
    }
}

/// Tests sums of products in forward and reverse loops. Some factors are computed in the step, and others are slices of
/// wider rows.
#[test]
fn sums_of_products_of_a_downward_loop() {
    for is_downward in [false, true] {
        agrees(&format!("downward: {is_downward}"), &[&[13, 2, 5], &[13, 2, 4], &[3, 4]], |g| {
            let [xs, ys, start] =
                [g.input("xs", "f32[13,2,5]"), g.input("ys", "f32[13,2,4]"), g.input("start", "f32[3,4]")];
            let options = if is_downward { ScanOptions::new().reverse() } else { ScanOptions::new() };
            let sums = (start, start * 2.0, start.slice(0, 1..));
            let step = |(sum, more, other): (Value, Value, Value), (x, y): (Value, Value)| {
                let part = x.slice(1, 1..4);
                let of_step = (y * 0.5).sin();
                let next =
                    (sum + part.t().matmul(y), more + part.t().matmul(of_step), other + x.slice(1, ..2).t().matmul(y));
                (next, of_step)
            };
            let ((sum, more, other), ys) = scan_with(options, sums, (xs, ys), step);
            vec![sum, more, other, ys]
        });
    }
}

/// One sum adds up products with the previous state, and another sum adds up products with the next state, although
/// both states are stored in the same memory.
#[test]
fn sums_of_products_have_a_state_before_and_after_it_changes() {
    let steps: [fn(Value, Value) -> Value; 4] = [
        |state, y| state * 0.5 + y,
        |state, y| state.dynamic_update(0, y.slice(0, 1..), constant(0i64)),
        |state, y| {
            let rows = constant(HostTensor::from([1i64, 0])).unsqueeze(1).broadcast_to([2usize, 4]);
            state.scatter(0, rows, y, ScatterMode::Add)
        },
        |state, _| state.reverse(0),
    ];
    for (index, next) in steps.into_iter().enumerate() {
        agrees(&format!("step {index}"), &[&[12, 2, 3], &[12, 2, 4], &[3, 4], &[2, 4]], |g| {
            let [xs, ys] = [g.input("xs", "f32[12,2,3]"), g.input("ys", "f32[12,2,4]")];
            let [sum, state] = [g.input("sum", "f32[3,4]"), g.input("state", "f32[2,4]")];
            let step = |(before, after, state): (Value, Value, Value), (x, y): (Value, Value)| {
                let before = before + x.t().matmul(state);
                let state = next(state, y);
                ((before, after + x.t().matmul(state), state), ())
            };
            let (before, after, state) = scan((sum, sum, state), (xs, ys), step).0;
            vec![before, after, state]
        });
    }
}

/// The next state is a product plus another matrix, and does not depend on the previous state.
#[test]
fn sums_of_products_replace_a_state_that_is_no_part_of_them() {
    agrees("another matrix", &[&[12, 2, 3], &[12, 2, 4], &[3, 4]], |g| {
        let [xs, ys, start] =
            [g.input("xs", "f32[12,2,3]"), g.input("ys", "f32[12,2,4]"), g.input("start", "f32[3,4]")];
        let (last, sums) = scan(start, (xs, ys), |state, (x, y)| {
            let seen = state.sin().sum(0);
            (start + x.t().matmul(y), seen)
        });
        vec![last, sums]
    });
}

/// Sums over an axis are divided into three parts, each with its own partial sum. The initial value is added only once.
#[test]
fn sums_over_three_parts_start_once() {
    agrees("three parts", &[&[9, 3, 2], &[3, 2], &[]], |g| {
        let [xs, state, sum] = [g.input("xs", "f32[9,3,2]"), g.input("state", "f32[3,2]"), g.input("sum", "f32[]")];
        let step = |(state, sum): (Value, Value), x: Value| {
            let next = (state * 0.5 + x).tanh();
            ((next, sum + next.sum([0, 1])), next)
        };
        let ((last, sum), ys) = scan((state, sum), xs, step);
        vec![last, sum, ys]
    });
}

/// Ops that mix indices of the parallel axis are not divided into parts.
#[test]
fn indices_of_the_divided_axis_are_mixed_in_one_part() {
    let mixing: [fn(Value, Value) -> Value; 5] = [
        |x, t| x.take(0, (constant(HostTensor::from([2i64, 0, 1])) + t) % 3),
        |x, _| x.max(0),
        |x, _| x.sum(0).cast(DType::F16).cast(DType::F32),
        |x, _| (x.reshape([4usize, 3]) * constant(HostTensor::from([1f32, 2.0, 3.0]))).reshape([3usize, 4]),
        |x, _| (x.sum(0) + 0.5).square(),
    ];
    for (index, mixed) in mixing.into_iter().enumerate() {
        agrees(&format!("mixing {index}"), &[&[5, 3, 4], &[3, 4]], |g| {
            let [xs, start] = [g.input("xs", "f32[5,3,4]"), g.input("start", "f32[3,4]")];
            let (last, (ys, of_all)) = scan(start, (xs, iota(5, DType::I64)), |state, (x, t)| {
                let next = (state * 0.25 + x).sin();
                (next, (next, mixed(next, t)))
            });
            vec![last, ys, of_all]
        });
    }
    agrees("rows that are given", &[&[5, 3, 4], &[6, 4]], |g| {
        let [xs, rows] = [g.input("xs", "f32[5,3,4]"), g.input("rows", "f32[6,4]")];
        let mut loop_ = Recurrence::new();
        let (xs, rows) = (loop_.sequence(xs, [0]), loop_.mit_mot(rows, [0, 1], [1]));
        let done = loop_.run(|step| {
            let ([x], [before, row]) = (step.read(&xs), step.read(&rows));
            step.write(&rows, [row + before * 0.5 + x.sum(0)]);
            x.sin()
        });
        vec![done.buffer(&rows), done.ys]
    });
}

/// Tests sums, and sums of products, over an axis of size 1.
#[test]
fn sums_over_one_element() {
    agrees("one element", &[&[5, 3, 1], &[5, 3, 1], &[3]], |g| {
        let [xs, ys, start] = [g.input("xs", "f32[5,3,1]"), g.input("ys", "f32[5,3,1]"), g.input("start", "f32[3]")];
        let step = |state: Value, (x, y): (Value, Value)| {
            let next = state * 0.5 + (x * y).sum(1);
            (next, (x * y * 0.5).sum([0, 1]) + x.sum(1) + (state.unsqueeze(1) * y).sum(1))
        };
        let (last, sums) = scan(start, (xs, ys), step);
        vec![last, sums]
    });
}

/// A sum of products that is read in each step, before or after the addition, must be up to date in each step.
#[test]
fn sums_of_products_are_read_in_the_step_that_adds_to_them() {
    for is_after in [false, true] {
        agrees(&format!("read after the sum: {is_after}"), &[&[12, 2, 3], &[12, 2, 4], &[3, 4]], |g| {
            let [xs, ys, start] =
                [g.input("xs", "f32[12,2,3]"), g.input("ys", "f32[12,2,4]"), g.input("start", "f32[3,4]")];
            let (last, sums) = scan(start, (xs, ys), |sum, (x, y)| {
                let seen = (!is_after).then(|| sum.sin().sum(0));
                let next = sum + x.t().matmul(y);
                (next, seen.unwrap_or_else(|| next.sin().sum(0)))
            });
            vec![last, sums]
        });
    }
}

/// A view of a state still has the previous values if it is read after the next state is computed.
#[test]
fn views_of_a_state_are_read_before_the_next_state_is_there() {
    let views: [fn(Value) -> Value; 4] = [
        |state| state.t(),
        |state| state.reverse(0),
        |state| state.slice(0, 1..2),
        |state| state.transpose([1, 0]).reverse(1),
    ];
    for (index, view) in views.into_iter().enumerate() {
        agrees(&format!("view {index}"), &[&[5, 3, 3], &[3, 3]], |g| {
            let [xs, start] = [g.input("xs", "f32[5,3,3]"), g.input("start", "f32[3,3]")];
            let (last, ys) = scan(start, xs, |state, x| {
                let seen = view(state);
                let next = x.sin();
                (next, seen + x.slice(0, ..seen.dim(0)))
            });
            vec![last, ys]
        });
    }
}

/// The step reads the elements of the state in another order, and computes the next state from these elements. Nothing
/// else reads the state.
#[test]
fn a_state_becomes_what_is_made_of_itself_in_another_order() {
    let steps: [fn(Value, Value) -> Value; 10] = [
        |state, _| state.t(),
        |state, _| state.reverse(0),
        |state, _| concat(&[state.slice(0, 1..), state.slice(0, ..1)], 0),
        |state, x| state * 0.5 + state.t() + x,
        |state, _| state - state.reverse(1) * 0.5,
        |state, x| state + x.t().matmul(state) * 0.25,
        |state, x| state + x.t().matmul(state),
        |state, x| state + state.t().matmul(x),
        |state, _| state.dynamic_update(0, state.slice(0, 1..), constant(0i64)),
        |state, _| {
            let rows = constant(HostTensor::from([1i64, 2])).unsqueeze(1).broadcast_to([2usize, 3]);
            state.scatter(0, rows, state.slice(0, ..2), ScatterMode::Set)
        },
    ];
    for (index, next) in steps.into_iter().enumerate() {
        for is_pair in [false, true] {
            agrees(&format!("step {index}, with an exchange: {is_pair}"), &[&[5, 3, 3], &[3, 3]], |g| {
                let [xs, start] = [g.input("xs", "f32[5,3,3]"), g.input("start", "f32[3,3]")];
                let step = |(state, other): (Value, Value), x: Value| {
                    let next = next(state, x);
                    (if is_pair { (other, next) } else { (next, other * 0.5 + x) }, ())
                };
                let (last, other) = scan((start, start + 1.0), xs, step).0;
                vec![last, other]
            });
        }
    }
}

/// Both branches of a choice multiply by the same matrix. Neither branch may rely on the other branch to pack the
/// matrix.
#[test]
fn each_branch_lays_out_the_matrices_that_it_multiplies_by() {
    for sign in [1.0, -1.0] {
        agrees(&format!("sign {sign}"), &[&[4, 5], &[5, 6]], |g| {
            let [x, w] = [g.input("x", "f32[4,5]"), g.input("w", "f32[5,6]")];
            let both = (x * 2.0).matmul(w.sin());
            let predicate = (x.square().sum(..) * sign).gt(0.0);
            let chosen = cond(predicate, || x.matmul(w).tanh(), || (x + 1.0).matmul(w) * (x - 1.0).matmul(w));
            vec![chosen, (x * 0.5).matmul(w), both]
        });
    }
}

/// If a concatenation contains a trace twice, the plan must write the rows of the trace to both positions.
#[test]
fn a_trace_is_joined_with_itself() {
    agrees("joined with itself", &[&[6, 2], &[2]], |g| {
        let [xs, start] = [g.input("xs", "f32[6,2]"), g.input("start", "f32[2]")];
        let (last, ys) = scan(start, xs, |state, x| traced((state + x).sin()));
        vec![concat(&[ys, ys], 0), concat(&[xs, ys, ys], 1), last]
    });
}

/// Each of two loops over the same matrices packs the matrix of the current step.
#[test]
fn matrices_of_steps_are_laid_out_in_each_loop() {
    agrees("two loops", &[&[4, 5, 5], &[3, 5]], |g| {
        let [matrices, start] = [g.input("matrices", "f32[4,5,5]"), g.input("start", "f32[3,5]")];
        let step = |state: Value, matrix: Value| (state.matmul(matrix).tanh(), ());
        let first = scan(start, matrices, step).0;
        let second = scan(first + 1.0, matrices, step).0;
        vec![first, second]
    });
}
