//! Tests the guarantees of the `cpu` backend: loops can be cancelled, and
//! their results are bit-identical even if other work runs concurrently.

mod numbers;

use std::time::{Duration, Instant};

use funcify::dispatch::{CompileOptions, Declined, Function, LoopStrategy, Outcome, WholeRequest};
use funcify::ops::ScatterMode;
use funcify::prelude::*;
use funcify::types::Sizes;
use funcify::{Cancellation, CheckpointPolicy, while_loop_bounded};
use funcify_cpu::plan::{Instruction, Node, Op};
use funcify_cpu::{Cpu, Division, Elements, Engine, Machine, plan_graph};
use numbers::{assert_near, built, inputs as inputs_of, numbers, sizes, traced};

/// Builds a graph that computes a loss of the recurrent network `h <- tanh(x W + h U + b)` over T steps and B rows, and
/// the gradients of this loss.
fn network() -> Graph {
    let forward = built("network", |g| {
        let [x, h] = [g.input("x", "f32[T,B,3]"), g.input("h", "f32[B,3]")];
        let [w, u, b] = [g.input("w", "f32[3,3]"), g.input("u", "f32[3,3]"), g.input("b", "f32[3]")];
        let step = |h: funcify::Value, x: funcify::Value| traced((x.matmul(w) + h.matmul(u) + b).tanh());
        scan(h, x, step).1.square().sum(..)
    });
    forward.value_and_grad(&["w", "u", "b", "h"][..], GradOptions::new()).unwrap()
}

fn inputs() -> Vec<HostTensor> {
    inputs_of(&[&[20, 6, 3], &[6, 3], &[3, 3], &[3, 3], &[3]])
}

#[test]
fn loops_and_their_gradients_are_compiled() {
    let (graph, inputs) = (network(), inputs());
    let expected = funcify::evaluate(&graph, &inputs).unwrap();
    for cpu in [Cpu::default(), Cpu::dividing_all()] {
        let function = Function::compile(&graph, &cpu).unwrap();
        assert_near(&function.call_host(&inputs).unwrap(), &expected, 2e-5, "");
        let report = function.report();
        assert_eq!(report.instructions, 1, "{report}");
        assert!(report.loops.iter().all(|each| each.strategy == LoopStrategy::Compiled), "{report}");
    }
}

/// For the gradient of each weight, one instruction sums the products of all steps of a strip. The same applies to the
/// remaining steps after the last full strip, and to the first step.
#[test]
fn weight_gradients_are_summed_in_strips() {
    let graph = network();
    let shapes: [&[usize]; 5] = [&[301, 4, 3], &[4, 3], &[3, 3], &[3, 3], &[3]];
    let inputs = inputs_of(&shapes);
    let sizes = sizes(&[("T", 301), ("B", 4)]);
    let plan = plan_graph(&graph, &sizes, Division::Worthwhile, false).unwrap().plan;
    let blocks = |node: &Node| match node {
        Node::Do(Instruction { op: Op::Sink { blocks, .. }, .. }) => Some(*blocks),
        _ => None,
    };
    let nested = |node: &Node| match node {
        Node::Loop { times, body } => body.iter().filter_map(blocks).map(|blocks| (*times, blocks)).collect(),
        _ => Vec::new(),
    };
    let programs = plan.stages.iter().flat_map(|stage| &stage.programs);
    let sinks: Vec<(usize, usize)> = programs.flatten().flat_map(nested).collect();
    assert_eq!(sinks.iter().filter(|sink| **sink == (4, 64)).count(), 2, "{sinks:?}");

    let expected = funcify::evaluate(&graph, &inputs).unwrap();
    let found = Function::compile(&graph, &Cpu::default()).unwrap().call_host(&inputs).unwrap();
    assert_near(&found, &expected, 2e-4, "");
}

/// Asserts that all loops of a graph are compiled, and that the results agree with the reference evaluator.
fn compiled(graph: &Graph, inputs: &[HostTensor]) {
    let expected = funcify::evaluate(graph, inputs).unwrap();
    for cpu in [Cpu::default(), Cpu::dividing_all()] {
        let function = Function::compile(graph, &cpu).unwrap();
        assert_near(&function.call_host(inputs).unwrap(), &expected, 1e-4, &graph.to_string());
        let report = function.report();
        assert!(report.loops.iter().all(|each| each.strategy == LoopStrategy::Compiled), "{report}");
        assert_eq!(report.instructions, 1, "{report}");
    }
}

/// Counters, values computed from them, and the index of a maximum are integers small enough for floats to represent
/// exactly, so the plan stores them as floats.
#[test]
fn integers_are_numbers_of_the_plan() {
    let float = |i: Value| i.cast(DType::F32);
    let x = numbers(&[5], 7);
    let programs = [
        built("powers", |g| fori_loop(0, 9, g.input("x", "f32[5]"), |i, y| y * 0.5 + float(i) * y)),
        // The loop also carries a counter, and returns all values of the counter.
        built("counted", |g| {
            let step = |(i, y): (Value, Value), x: Value| {
                let is_third = (i % 3).eq(0);
                ((i + 1, select(is_third, y + x, y * 0.5)), (i, i / 3 - 2, -i))
            };
            scan((constant(4i64), constant(0f32)), g.input("x", "f32[5]"), step)
        }),
        built("best", |g| {
            let step = |(i, best, at): (Value, Value, Value), x: Value| {
                let is_better = x.gt(best);
                ((i + 1, select(is_better, x, best), select(is_better, i, at)), ())
            };
            let start = (constant(0i64), constant(f32::NEG_INFINITY), constant(-1i64));
            scan(start, g.input("x", "f32[5]"), step).0
        }),
        // The plan must not turn an integer 0 into -0.0, which has a different reciprocal.
        built("zeros", |g| {
            let none = constant(0i32);
            let step = |i: Value, x: Value| {
                let infinite = float(-(i * none)).recip().minimum(2.0);
                (i + 1, x.abs().copysign(float(i * -3)) + infinite)
            };
            scan(constant(0i32), g.input("x", "f32[5]"), step).1
        }),
        built("until", |g| {
            let start = (constant(0i64), g.input("x", "f32[5]"));
            while_loop_bounded(
                40,
                start,
                |(i, x)| x.sum(0).abs().lt(8.0) & i.lt(30),
                |(i, x)| (i + 2, x * 1.25 + float(i)),
            )
        }),
        built("branches", |g| {
            let x = g.input("x", "f32[5]");
            scan(constant(0i64), x, |i, x| {
                let next = cond(x.gt(0.0), || i + 2, || i - 1);
                (next, float(next) * x)
            })
        }),
    ];
    for graph in programs {
        compiled(&graph, std::slice::from_ref(&x));
    }
}

/// Tests loops that read a table at computed indices, which are clamped if they are out of range, and loops that
/// compute `argmax` of rows with equal maxima or with NaN.
#[test]
fn positions_are_computed_and_taken() {
    let table = numbers(&[6, 4], 12);
    let decode = built("decode", |g| {
        let table = g.input("table", "f32[6,4]");
        let step = |(token, state): (Value, Value), t: Value| {
            let next = (state * 0.5 + table.take(0, token) + t).tanh();
            let token = next.matmul(table.t()).argmax(0);
            ((token, next), (token, next.dynamic_index(0, token - 2)))
        };
        let start = (constant(3i64), iota(4, DType::F32) * 0.1);
        scan(start, iota(9, DType::F32) * 0.3, step)
    });
    let windows = built("windows", |g| {
        let table = g.input("table", "f32[6,4]");
        let step = |total: Value, i: Value| {
            let (rows, columns) = (table.dynamic_slice(0, i * 3 - 4, 2), table.dynamic_slice(1, i - 1, 3));
            let position = (i - 2) * 2;
            let several = table.take(1, stack(&[position, i, i + 9], 0));
            let next = total + rows.sum(..) + columns.square().sum(..);
            (next, (rows, columns, several, table.argmax(1), table.argmax(0)))
        };
        scan(table.sum(..), iota(5, DType::I64), step)
    });
    let nans = built("nans", |g| {
        let table = g.input("table", "f32[6,4]");
        scan(constant(0f32), iota(4, DType::F32), |x, t| {
            let with_nans = select(table.gt(t * 0.2 - 0.1), f64::NAN, table);
            (x + t, (with_nans.argmax(1), with_nans.argmax(0), (table * 0.0).argmax(0)))
        })
    });
    for graph in [decode, windows, nans] {
        compiled(&graph, std::slice::from_ref(&table));
    }
}

/// Each step scatters into the state and gathers from it, at indices that the step computes. Gathering clamps indices
/// that are out of range, and scattering skips them.
#[test]
fn elements_are_gathered_and_scattered() {
    for (axis, mode) in (0..2).flat_map(|axis| ScatterMode::ALL.map(|mode| (axis, mode))) {
        let graph = built("histogram", |g| {
            let (counts, xs) = (g.input("counts", "f32[4,4]"), g.input("xs", "f32[T,4,4]"));
            scan(counts, xs, |counts, x| {
                let is_above = |limit: f64| x.gt(limit).cast(DType::I64);
                let places = is_above(-0.6) * 3 + is_above(-0.2) - is_above(0.2) * 3 + is_above(0.6) * 4 - 1;
                let next = counts.scatter(axis, places, x, mode);
                (next, next.gather(axis, places))
            })
        });
        compiled(&graph, &[numbers(&[4, 4], 3), numbers(&[6, 4, 4], 4)]);
    }
    let one = built("one", |g| {
        let (counts, xs) = (g.input("counts", "f32[8]"), g.input("xs", "f32[9,3]"));
        let positions = iota(9, DType::I64);
        scan(counts, (xs, positions), |counts, (x, t)| {
            let places = (stack(&[t, t - 1, t], 0) * 3).maximum(-2) - t;
            (counts.scatter(0, places, x, ScatterMode::Set), counts.gather(0, places))
        })
    });
    compiled(&one, &[numbers(&[8], 5), numbers(&[9, 3], 6)]);
}

/// If floats cannot represent the integers of a loop exactly, the plan stores them in an integer type, where they wrap
/// on overflow.
#[test]
fn integers_beyond_the_floats_are_compiled() {
    let doubled = |dtype: DType| {
        built("doubled", |g| {
            let one = constant(HostTensor::scalar(1i64).cast(dtype));
            scan(one, g.input("x", "f32[40]"), |i, x| (i * 2, x + i.cast(DType::F32))).1
        })
    };
    let far = built("far", |g| {
        let start = constant(16_777_200i64);
        scan(start, g.input("x", "f32[40]"), |i, x| (i + 1, x + (i % 2).cast(DType::F32))).1
    });
    for graph in [doubled(DType::I64), doubled(DType::I32), doubled(DType::U8), far] {
        let x = numbers(&[40], 3);
        let function = Function::compile(&graph, &Cpu::default()).unwrap();
        let expected = funcify::evaluate(&graph, std::slice::from_ref(&x)).unwrap();
        assert_eq!(function.call_host(&[x]).unwrap(), expected);
        assert!(function.report().loops.iter().all(|each| each.strategy == LoopStrategy::Compiled), "{graph}");
    }
}

/// The conjugate gradient method runs until the residual is small: it takes no step if the initial residual is small,
/// and at most as many steps as the bound allows.
#[test]
fn loops_that_a_condition_ends_are_compiled() {
    let solve = |bound: Option<usize>| {
        built("solve", |g| {
            let (a, b) = (g.input("a", "f32[N,N]"), g.input("b", "f32[N]"));
            let dot = |x: Value, y: Value| (x * y).sum(0);
            let start = (b.zeros_like(), b, b, dot(b, b));
            let holds = |(_, _, _, rr): (Value, Value, Value, Value)| rr.gt(1e-6);
            let step = |(x, r, p, rr): (Value, Value, Value, Value)| {
                let ap = a.matmul(p);
                let alpha = rr / dot(p, ap);
                let r = r - alpha * ap;
                let next = dot(r, r);
                (x + alpha * p, r, r + (next / rr) * p, next)
            };
            let (x, _, _, rr) = match bound {
                None => while_loop(start, holds, step),
                Some(bound) => while_loop_bounded(bound, start, holds, step),
            };
            (x, rr)
        })
    };
    let factor = numbers(&[7, 7], 3);
    let matrix = HostTensor::from_fn(funcify::DType::F32, &[7, 7], |index| {
        let element = |row: usize, column: usize| factor.to_f64_vec()[row * 7 + column];
        let product: f64 = (0..7).map(|inner| element(index[0], inner) * element(index[1], inner)).sum();
        funcify::Scalar::Float(product + if index[0] == index[1] { 2.0 } else { 0.0 })
    });
    for bound in [None, Some(0), Some(2), Some(100)] {
        compiled(&solve(bound), &[matrix.clone(), numbers(&[7], 5)]);
    }
    compiled(&solve(None), &[matrix, HostTensor::zeros(funcify::DType::F32, &[7])]);
}

/// Newton's method computes the square root of each element, starting from the previous root.
#[test]
fn a_condition_ends_a_loop_in_a_loop() {
    let graph = built("roots", |g| {
        let xs = g.input("xs", "f32[T]");
        scan(xs.index(0, 0).zeros_like() + 1.0, xs, |start, x| {
            traced(while_loop(start, |y: Value| (y * y - x).abs().gt(1e-4), |y| 0.5 * (y + x / y)))
        })
        .1
    });
    let xs = HostTensor::from([2f32, 2.0, 100.0, 1e-3, 9.0]);
    compiled(&graph, &[xs]);
}

/// The backend compiles choices between products and between inputs, inside and outside a loop, and also their
/// gradients.
#[test]
fn choices_by_booleans_are_compiled() {
    let graph = built("choices", |g| {
        let (xs, w) = (g.input("xs", "f32[T,3]"), g.input("w", "f32[3,3]"));
        let (last, ys) = scan(xs.index(0, 0), xs, |h, x| {
            let next = cond(x.sum(0).gt(0.0), || (h + x).reshape([1, 3]).matmul(w).reshape([3]).tanh(), || h);
            (next, cond(next.max(0).lt(0.5), || next * 2.0, || x.sin()))
        });
        let outside = cond(last.sum(0).gt(0.0), || (ys.matmul(w), last), || (ys, last.exp()));
        (outside.0 + ys.matmul(w), outside.1).0.square().sum(..) + last.sum(0)
    });
    let options = GradOptions::new;
    for seed in 1..5 {
        let inputs = [numbers(&[9, 3], seed), numbers(&[3, 3], 7 * seed)];
        compiled(&graph, &inputs);
        compiled(&graph.grad(.., options()).unwrap(), &inputs);
        compiled(&graph.grad(.., options().policy(CheckpointPolicy::SaveAll)).unwrap(), &inputs);
    }
}

#[test]
fn a_loop_without_end_is_stopped() {
    let endless = built("endless", |g| while_loop(g.input("x", "f32[3]"), |x: Value| x.lt(2.0).all(0), |x| x * 0.5));
    let function = Function::compile(&endless, &Cpu::default()).unwrap();
    let stopped = Cancellation::after(Duration::from_millis(20)).scope(|| function.call_host(&[numbers(&[3], 1)]));
    assert!(matches!(stopped, Err(Error::Cancelled { .. })), "{stopped:?}");
}

/// The plan divides the summed axis into parts. A term that does not depend on this axis must be added to the sum only
/// once, not once per part.
#[test]
fn what_all_parts_have_is_added_once() {
    let graph = built("layer", |g| {
        let (u, decay) = (g.input("u", "f32[T,3]"), g.input("decay", "f32[6]"));
        let (b, c, d) = (g.input("b", "f32[3,6]"), g.input("c", "f32[6,3]"), g.input("d", "f32[3]"));
        let (_, states) = scan(decay.zeros_like(), u.matmul(b), |x, v| traced(decay * x + v));
        states.matmul(c) + d * u
    });
    let shapes: [&[usize]; 5] = [&[9, 3], &[6], &[3, 6], &[6, 3], &[3]];
    let inputs = inputs_of(&shapes);
    let expected = funcify::evaluate(&graph, &inputs).unwrap();
    let found = Function::compile(&graph, &Cpu::dividing_all()).unwrap().call_host(&inputs).unwrap();
    assert_near(&found, &expected, 1e-5, "");
}

/// A mean divides a sum over lanes by a size. A running total over lanes starts from a value that all parts share, and
/// several running totals start from the same number. The planner can still divide the program and its gradient into
/// parts.
#[test]
fn training_by_a_mean_and_by_a_running_total_is_divided() {
    let programs = ["mean", "total"].map(|loss| {
        let forward = built(loss, |g| {
            let (x, decay) = (g.input("x", "f32[T,6]"), g.input("decay", "f32[]"));
            let (zeros, zero) = (x.index(0, 0).zeros_like(), decay.zeros_like());
            let start = ((zeros, zero), (zero, zeros));
            let (((_, total), (other, _)), states) = scan(start, x, |((h, total), (other, all)), x| {
                // This update comes first in the program, but the analysis of the divided axis recognises it last as a
                // sum over that axis.
                let other = other + all.sum(0);
                let all = all + h;
                let h = (h * decay + x).tanh();
                (((h, total + h.square().sum(0)), (other, all)), h)
            });
            if loss == "mean" { states.square().mean(..) } else { total / 60.0 + other * 0.0 }
        });
        forward.value_and_grad("decay", GradOptions::new()).unwrap()
    });
    let inputs = [numbers(&[10, 6], 1), HostTensor::scalar(0.9f32)];
    let expected = funcify::evaluate(&programs[0], &inputs).unwrap();
    let sizes = sizes(&[("T", 10)]);
    for program in programs {
        let plan = plan_graph(&program, &sizes, Division::Always, false).unwrap().plan;
        assert_eq!(plan.stages.iter().map(|stage| stage.parts.len()).max(), Some(2), "{program}");
        let found = Function::compile(&program, &Cpu::dividing_all()).unwrap().call_host(&inputs).unwrap();
        assert_near(&found, &expected, 1e-5, "");
    }
}

/// A partial sum may be divided by a product or a quotient of sizes and constants, unless this divisor may be very
/// large or very small. A partial sum must not be divided by any other value.
#[test]
fn partial_sums_are_divided_by_moderate_counts() {
    let parts = |divisor: fn(Value) -> Value| {
        let graph = built("mean", |g| {
            let x = g.input("x", "f32[T,6]");
            let total = scan(constant(0f32), x, |total, x| (total + x.square().sum(0), ())).0;
            total / divisor(funcify::size(x.dim(0), DType::F32))
        });
        let inputs = [numbers(&[10, 6], 1)];
        let expected = funcify::evaluate(&graph, &inputs).unwrap();
        let plan = plan_graph(&graph, &sizes(&[("T", 10)]), Division::Always, false).unwrap().plan;
        let found = Function::compile(&graph, &Cpu::dividing_all()).unwrap().call_host(&inputs).unwrap();
        assert_near(&found, &expected, 1e-5, "");
        plan.stages.iter().map(|stage| stage.parts.len()).max().unwrap()
    };
    assert_eq!([parts(|count| count * 6.0), parts(|count| (count / 6.0).recip())], [2, 2]);
    assert_eq!([parts(|count| count * 1e7 * 1e7 * 1e7), parts(|count| count - 6.0)], [1, 1]);
}

/// Several totals start from the same number. Some of them are sums over the axis that the plan divides into parts, but
/// the analysis of that axis recognises these sums only in a late iteration, regardless of its initial assumption about
/// the totals.
#[test]
fn totals_that_start_from_one_number_are_divided() {
    let graph = built("totals", |g| {
        let x = g.input("x", "f32[T,6]");
        let (zeros, zero) = (x.index(0, 0).zeros_like(), x.sum(..).zeros_like());
        let start = ((zero, zero, zero, zero), (zeros, zeros));
        let ((totals, _), ()) = scan(start, x, |((of_x, of_a, of_b, of_a_again), (a, b)), x| {
            let of_a = of_a + a.sum(0);
            let of_b = of_b + b.sum(0);
            let of_a_again = of_a_again + a.square().sum(0);
            let of_x = of_x + x.sum(0);
            let a = a + b;
            (((of_x, of_a, of_b, of_a_again), (a, b + x)), ())
        });
        totals.0 + totals.1 + totals.2 + totals.3
    });
    let (inputs, sizes) = ([numbers(&[10, 6], 1)], sizes(&[("T", 10)]));
    let plan = plan_graph(&graph, &sizes, Division::Always, false).unwrap().plan;
    assert_eq!(plan.stages.iter().map(|stage| stage.parts.len()).max(), Some(2), "{graph}");
    let expected = funcify::evaluate(&graph, &inputs).unwrap();
    let found = Function::compile(&graph, &Cpu::dividing_all()).unwrap().call_host(&inputs).unwrap();
    assert_near(&found, &expected, 1e-4, "");
}

#[test]
fn a_compiled_loop_can_be_stopped() {
    let text = "fn @long(%x: f32[8]) {
          %last: f32[8] = scan @step {steps=4000000000} {
            carry %c: f32[8] = %last from %x
            %0: f32[8] = cos %c
            %last = %0
          }
          return last=%last
        }";
    let function = Function::compile(&Graph::parse(text).unwrap(), &Cpu::default()).unwrap();
    let (start, limit) = (Instant::now(), Cancellation::after(Duration::from_millis(50)));
    let error = limit.scope(|| function.call_host(&[numbers(&[8], 1)])).unwrap_err();
    assert!(matches!(error, Error::Cancelled { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn a_plan_beyond_the_memory_budget_is_not_made() {
    let graph = built("rows", |g| {
        let steps = ScanOptions::new().length(1000);
        scan_with(steps, g.input("x", "f32[]"), (), |c, ()| (c.cos(), c)).1.square().sum(0)
    });
    let call = |bytes: u64| {
        let options = CompileOptions { memory_budget: Some(bytes), ..CompileOptions::default() };
        Function::compile_with(&graph, &Cpu::default(), options)?.call_host(&[HostTensor::scalar(1f32)])
    };
    assert!(call(1 << 20).is_ok());
    let error = call(3000).unwrap_err();
    assert!(matches!(error, Error::OverBudget { .. }), "{error}");
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let (graph, inputs) = (network(), inputs());
    let function = Function::compile(&graph, &Cpu::dividing_all()).unwrap();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| function.call_host(&inputs).unwrap())
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn many_threads_call_one_function() {
    let (graph, inputs) = (network(), inputs());
    let function = Function::compile(&graph, &Cpu::default()).unwrap();
    let expected = function.call_host(&inputs).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..20).for_each(|_| assert_eq!(function.call_host(&inputs).unwrap(), expected)));
        }
    });
}

/// Compiles an engine for a graph without symbols.
fn engine(graph: &Graph, may_refuse: bool) -> Result<Engine, Declined> {
    let whole = WholeRequest { graph, sizes: &Sizes::new(), is_program: false, memory_budget: 1 << 20, may_refuse };
    Engine::compile(whole, Division::Worthwhile, Machine::detect())
}

/// Calls an engine with scalars. Returns `true` if the engine rejects the call.
fn is_refused(engine: &Engine, scalars: &[(f64, DType)]) -> bool {
    let arguments: Vec<_> = scalars.iter().map(|(x, dtype)| Elements::of_numbers([*x].into_iter(), *dtype)).collect();
    matches!(engine.call(&arguments, &|| false).unwrap(), Outcome::Refused)
}

/// If the counter of a loop without a bound exceeds the largest integer that the plan can represent exactly, the loop
/// stops and the engine refuses the call.
#[test]
fn endless_counting_is_refused() {
    let graph = built("endless", |g| {
        let start = (constant(0i64), g.input("x", "f32[]"));
        while_loop(start, |(_, x)| x.is_finite(), |(i, x)| (i + 1, x * 0.5))
    });
    assert!(engine(&graph, false).is_ok(), "integers in a type of their own do not need the bound");
    let engine = engine(&graph, true).unwrap();
    for (x, expected) in [(1f64, true), (f64::INFINITY, false)] {
        assert_eq!(is_refused(&engine, &[(x, DType::F32)]), expected);
    }
}

/// If one loop sets the refusal flag, a later loop that ends normally does not clear the flag.
#[test]
fn endless_counting_is_refused_whatever_ends_after_it() {
    let graph = built("loops", |g| {
        let count = |x: Value| while_loop((constant(0i64), x), |(_, x)| x.is_finite(), |(i, x)| (i + 1, x * 0.5)).1;
        (count(g.input("x", "f32[]")), count(g.input("y", "f32[]")))
    });
    let engine = engine(&graph, true).unwrap();
    let infinite = f64::INFINITY;
    for (numbers, expected) in [([1.0, infinite], true), ([infinite, 1.0], true), ([infinite; 2], false)] {
        assert_eq!(is_refused(&engine, &numbers.map(|x| (x, DType::F32))), expected, "{numbers:?}");
    }
}

/// The program makes two choices, each with a loop in one branch that may never end. The engine refuses the call only
/// if such a loop runs in a chosen branch, so that its counter exceeds the largest exact integer. The initial contents
/// of the refusal flag's memory do not matter.
#[test]
fn endless_counting_in_a_branch_that_does_not_run_refuses_nothing() {
    let graph = built("branches", |g| {
        let (x, which) = (g.input("x", "f32[]"), g.input("which", "bool[]"));
        let count = move |factor: f64| {
            while_loop((constant(0i64), x), |(_, x)| x.is_finite(), move |(i, x)| (i + 1, x * factor)).1
        };
        let noise = (x * 3.0 + 1.0).tanh().exp();
        let some = cond(which, || count(0.5), || x * 2.0);
        let others = cond(which, || x * 3.0, || count(0.25));
        (some + others, noise)
    });
    let engine = engine(&graph, true).unwrap();
    let runs = [(1.0, true, true), (f64::INFINITY, true, false), (1.0, false, true), (f64::INFINITY, false, false)];
    for (x, which, expected) in runs.into_iter().cycle().take(8) {
        let arguments = [(x, DType::F32), (f64::from(u8::from(which)), DType::Bool)];
        assert_eq!(is_refused(&engine, &arguments), expected, "{x} {which}");
    }
}

/// A loop that returns only its last carry, and no traces, is compiled as part of the program.
#[test]
fn a_search_is_one_program() {
    let graph = built("search", |g| {
        let (start, xs) = (g.input("start", "f32[]"), g.input("xs", "f32[T]"));
        scan_until(start, xs, |sum, x| (sum + x, (), (sum + x).gt(2.0))).0
    });
    for xs in [[1f32, 1.5, 9.0], [1.0, 0.5, 0.1], [3.0, 1.0, 1.0]] {
        compiled(&graph, &[HostTensor::scalar(0f32), xs.into()]);
    }
}

/// Tests loops without steps, rows or lanes, both undivided and in several parts.
#[test]
fn what_has_no_elements_gives_what_the_reference_evaluation_gives() {
    let network = built("network", |g| {
        let [xs, w, h] = [g.input("xs", "f64[T,B,F]"), g.input("w", "f64[F,F]"), g.input("h", "f64[B,F]")];
        let (last, (rows, sums)) = scan(h, xs, |h, x| {
            let h = (h.matmul(w) + x).tanh();
            (h, (h, h.sum(0)))
        });
        (last, concat(&[rows, xs], 0), sums * sums, xs.cumsum(0, false).sum(1), last.t().matmul(h))
    });
    let sums = built("sums", |g| {
        let [xs, h] = [g.input("xs", "f64[T,B,F]"), g.input("h", "f64[B,F]")];
        let (last, rows) = scan(h, xs, |h, x| (h * 0.5 + x, (h.sum([0, 1]), h.sum(0), h.prod(1))));
        (last, rows)
    });
    let kept = built("kept", |g| {
        let [xs, h] = [g.input("xs", "f64[T,B,F]"), g.input("h", "f64[B,F]")];
        scan(h, xs, |h, _| (h, h.sum([0, 1])))
    });
    for program in [network, sums, kept] {
        let gradient = program.vjp("h", GradOptions::new()).unwrap();
        for (program, code) in
            [&program, &gradient].into_iter().flat_map(|program| (0..27).map(move |code| (program, code)))
        {
            let size = |place: usize| [0, 1, 3][code / place % 3];
            let sizes = sizes(&[("T", size(9)), ("B", size(3)), ("F", size(1))]);
            let shape = |input: usize| program.input_type(input).shape.value(&sizes).unwrap();
            let input = |input: usize| numbers(&shape(input), input as u64).cast(DType::F64);
            let inputs: Vec<HostTensor> = (0..program.inputs().len()).map(input).collect();
            let expected = funcify::evaluate(program, &inputs).unwrap();
            for cpu in [Cpu::default(), Cpu::dividing_all()] {
                let options = CompileOptions { rewrites: None, ..CompileOptions::default() };
                let found = Function::compile_with(program, &cpu, options).unwrap().call_host(&inputs).unwrap();
                for (found, expected) in found.iter().zip(&expected) {
                    assert_eq!(found.shape(), expected.shape(), "{sizes:?}");
                    let mut pairs = found.to_f64_vec().into_iter().zip(expected.to_f64_vec());
                    assert!(pairs.all(|(x, y)| (x - y).abs() < 1e-9), "{sizes:?}: {found:?}, not {expected:?}");
                }
            }
        }
    }
}
