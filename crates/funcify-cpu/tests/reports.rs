//! Tests reports: if a loop is not compiled, the report names the op that prevents compilation. The report does not
//! name integers as the cause if the plan can represent them.

use funcify::dispatch::{Function, LoopStrategy};
use funcify::{
    CheckpointPolicy, DType, GradOptions, Graph, HostTensor, MapOptions, Recurrence, ScanOptions, Value, bind_size,
    evaluate, fori_loop, map, map_with, scan, scan_until_with, scan_with, size, switch, while_loop,
};
use funcify_conformance::all_cases;
use funcify_conformance::support::{OpProgram, Support, determine_support, op_programs};
use funcify_cpu::Cpu;

/// Builds a loop that decodes up to 50 tokens. `choose` selects each token from the logits. If `is_float` is set, the
/// loop returns the tokens as floats.
fn decoding(is_float: bool, choose: fn(Value) -> Value) -> Graph {
    let graph = Graph::build("decode", |g| {
        let (h, table, out) = (g.input("h", "f32[4]"), g.input("table", "f32[5,4]"), g.input("out", "f32[4,5]"));
        let bos = g.input("bos", "i64[]");
        scan_until_with(ScanOptions::new().length(50), (h, bos), (), |(h, token), ()| {
            let h = (table.take(0, token) + h).tanh();
            let token = choose(h.unsqueeze(0).matmul(out).squeeze(0));
            let y = if is_float { token.cast(DType::F32) } else { token };
            ((h, token), y, token.eq(0))
        })
        .1
    });
    graph.unwrap_or_else(|error| panic!("{error}"))
}

fn numbers(shape: &[usize]) -> HostTensor {
    HostTensor::from_fn(DType::F32, shape, |index| {
        let number = index.iter().fold(3, |sum, index| sum * 31 + index * 7 + 3) % 97;
        funcify::Scalar::Float(number as f64 / 48.0 - 1.0)
    })
}

/// Calls the graph, asserts that the results agree with the reference evaluator, and returns the report.
fn report(graph: &Graph, inputs: &[HostTensor]) -> funcify::dispatch::Report {
    let function = Function::compile(graph, &Cpu::default()).unwrap();
    let (found, expected) = (function.call_host(inputs).unwrap(), evaluate(graph, inputs).unwrap());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.ty(), expected.ty());
        let numbers = found.to_f64_vec().into_iter().zip(expected.to_f64_vec());
        // Compiled code may add numbers in another order.
        let is_close = |(found, expected): (f64, f64)| {
            found == expected || (found - expected).abs() <= 1e-6 * (1.0 + expected.abs())
        };
        assert!(numbers.clone().all(is_close), "{found:?} instead of {expected:?}");
    }
    function.report()
}

#[test]
fn loops_that_sort_are_compiled() {
    let inputs = [numbers(&[4]), numbers(&[5, 4]), numbers(&[4, 5]), HostTensor::scalar(1i64)];
    let greedy = |logits: Value| logits.argmax(0);
    let by_sort = |logits: Value| logits.argsort(0, true).index(0, 0);
    let by_top_k = |logits: Value| logits.top_k(0, 2).1.index(0, 1);
    for is_float in [false, true] {
        for choose in [greedy, by_sort, by_top_k] {
            let compiled = report(&decoding(is_float, choose), &inputs);
            assert_eq!(compiled.loops[0].strategy, LoopStrategy::Compiled, "{compiled}");
        }
    }
}

#[test]
fn a_loop_that_is_not_compiled_says_which_op_prevents_it() {
    // Counts the steps of nested loops.
    fn nested(count: Value, depth: usize) -> Value {
        let steps = ScanOptions::new().length(2);
        scan_with(steps, count, (), |count, ()| {
            (if depth == 0 { count + 1.0 } else { nested(count, depth - 1).maximum(count) }, ())
        })
        .0
    }
    let graph = Graph::build("nested", |g| nested(g.input("x", "f32[]"), 7)).unwrap();
    let native = report(&graph, &[HostTensor::scalar(0.5f32)]);
    assert!(native.loops.iter().any(|each| each.strategy == LoopStrategy::Native), "{native}");
    assert!(native.to_string().contains("not compiled: `scan`"), "{native}");
}

#[test]
fn a_switch_on_an_integer_is_compiled() {
    let graph = Graph::build("chosen", |g| {
        let (xs, start) = (g.input("xs", "f32[T,3]"), g.input("start", "f32[]"));
        let sum = scan(start, (xs, g.input("indices", "i64[T]")), |sum, (x, index)| {
            let next = switch(index, [&|| x.index(0, 1), &|| x.index(0, 2), &|| x.index(0, 0)]);
            let median = switch(x.argmax(0), [&|| x.index(0, 1), &|| x.index(0, 2), &|| x.index(0, 0)]);
            (sum * 2.0 + next + median, ())
        });
        sum.0
    });
    // An index out of range selects the nearest branch.
    let indices = [i64::MIN, -1, 0, 1, 2, 3, (1 << 33) + 1, i64::MAX];
    let inputs = [numbers(&[indices.len(), 3]), HostTensor::scalar(0f32), indices.into()];
    let compiled = report(&graph.unwrap(), &inputs);
    assert!(compiled.loops.iter().all(|each| each.strategy == LoopStrategy::Compiled), "{compiled}");
}

#[test]
fn a_switch_in_a_while_loop_of_integers_is_compiled() {
    let graph = Graph::build("rotate", |g| {
        let (x, n) = (g.input("x", "f32[4]"), g.input("n", "i64[]"));
        let step = |(x, n): (Value, Value)| (switch(n, [&|| x * 0.5, &|| x + 1.0, &|| x.reverse(0)]), n - 1);
        while_loop((x, n), |(_, n)| n.gt(0), step)
    });
    let compiled = report(&graph.unwrap(), &[numbers(&[4]), HostTensor::scalar(3i64)]);
    assert_eq!(compiled.loops[0].strategy, LoopStrategy::Compiled, "{compiled}");
}

/// The number of steps of an inner loop follows from a value that the outer loop computes.
#[test]
fn a_loop_over_a_triangle_is_compiled() {
    let graph = Graph::build("triangle", |g| {
        let (xs, start) = (g.input("xs", "f32[T]"), g.input("start", "f32[]"));
        fori_loop(0, size(xs.dim(0), DType::I64), (start, start.zeros_like()), |row, (sum, last)| {
            let inner = |column: Value, last: Value| (last * 0.5 + xs.dynamic_index(0, column)).abs() + start;
            let last = fori_loop(row, row + row, last, inner);
            (sum + last, last)
        })
    });
    let compiled = report(&graph.unwrap(), &[numbers(&[6]), HostTensor::scalar(0.25f32)]);
    assert_eq!(compiled.loops.len(), 2, "{compiled}");
    assert!(compiled.loops.iter().all(|each| each.strategy == LoopStrategy::Compiled), "{compiled}");
}

/// A negative number of steps is an error, so a plan must not count such steps: it would run none.
#[test]
fn a_negative_number_of_inner_steps_is_an_error() {
    let graph = Graph::build("counts", |g| {
        let (counts, start) = (g.input("counts", "i64[T]"), g.input("start", "f32[]"));
        scan(start, counts, |sum, count| {
            let mut inner = Recurrence::new();
            let state = inner.carry(sum);
            let done = inner.steps_value(count).run(|step| {
                let next = step.read(&state) * 0.5;
                step.write(&state, next);
            });
            (done.last(&state), ())
        })
        .0
    });
    let graph = graph.unwrap();
    report(&graph, &[[2i64, 0, 3].into(), HostTensor::scalar(4f32)]);
    let function = Function::compile(&graph, &Cpu::default()).unwrap();
    let error = function.call_host(&[[2i64, -1, 3].into(), HostTensor::scalar(4f32)]).unwrap_err();
    assert!(error.to_string().contains("-1"), "{error}");
}

/// Each step of the outer loop saves as many rows as its inner loop runs steps, in ascending or descending order.
#[test]
fn traces_of_different_lengths_are_compiled() {
    for reverse in [false, true] {
        let graph = Graph::build("traces", |g| {
            let (counts, start) = (g.input("counts", "i64[T]"), g.input("start", "f32[]"));
            scan(start, counts, |sum, count| {
                let mut inner = Recurrence::new();
                let state = inner.sit_sot(sum);
                if reverse {
                    inner.backwards();
                }
                let done = inner.steps_value(count).run(|step| {
                    let next = step.read(&state)[0] * 0.5 + 1.0;
                    step.write(&state, next);
                });
                let rows = done.trace_with_init(&state);
                (rows.max(0).minimum(3.0) + rows.index(0, 0) * 0.125, size(rows.dim(0), DType::I64))
            })
        });
        let graph = graph.unwrap_or_else(|error| panic!("{error}"));
        let start = HostTensor::scalar(4f32);
        let compiled = report(&graph, &[[2i64, 0, 5].into(), start.clone()]);
        assert_eq!(compiled.loops.len(), 2, "{compiled}");
        assert!(compiled.loops.iter().all(|each| each.strategy == LoopStrategy::Compiled), "{compiled}");
        // With more rows than the plan has memory for, the loop runs natively.
        report(&graph, &[[2i64, 300, 1].into(), start.clone()]);
        let error = Function::compile(&graph, &Cpu::default()).unwrap().call_host(&[[2i64, -1, 3].into(), start]);
        assert!(error.unwrap_err().to_string().contains("-1"));
    }
}

/// A loop that ends early in each step of another loop, and whose trace is used.
#[test]
fn traces_of_inner_loops_that_end_early() {
    for reverse in [false, true] {
        let graph = Graph::build("ends", |g| {
            map(g.input("xs", "f32[B,T]"), |row| {
                let options = if reverse { ScanOptions::new().reverse() } else { ScanOptions::new() };
                let (last, ys) = scan_until_with(options, row.index(0, 0) * 0.0, row, |sum, x| {
                    let sum = sum + x;
                    (sum, sum * 2.0, sum.gt(0.25))
                });
                last + ys.sum(0)
            })
        });
        let graph = graph.unwrap_or_else(|error| panic!("{error}"));
        let gradient = graph.vjp("xs", GradOptions::new()).unwrap();
        report(&gradient, &[numbers(&[6, 9]), [1f32; 6].into()]);
        let compiled = report(&graph, &[numbers(&[6, 9])]);
        assert!(compiled.loops.iter().all(|each| each.strategy == LoopStrategy::Compiled), "{compiled}");
    }
}

/// Sizes that the program computes outside of its loops, next to a step that computes a size. Only the latter has a
/// capacity: a loop over a trace that ended early must not begin at the trace's last row.
#[test]
fn sizes_computed_outside_of_steps() {
    let inside = |xs: Value| map(xs, |x| halves(x, x.abs().ceil().cast(DType::I64)).sum(0)).max(0);
    let ends_early = Graph::build("ends", |g| {
        let xs = g.input("xs", "f32[T]");
        let (last, ys) = scan_until_with(ScanOptions::new(), xs.index(0, 0) * 0.0, xs, |sum, x| {
            let sum = sum * x + x;
            (sum, sum * 2.0, sum.gt(0.5))
        });
        last + ys.sum(0) + inside(xs)
    });
    let gradient = ends_early.unwrap().vjp("xs", GradOptions::new()).unwrap();
    report(&gradient, &[numbers(&[9]), HostTensor::scalar(1f32)]);
    let counted = Graph::build("counted", |g| {
        let (xs, n) = (g.input("xs", "f32[T]"), g.input("n", "i64[]"));
        let mut outer = Recurrence::new();
        outer.steps_value(n).run(|_| inside(xs)).ys.cos().max(0)
    });
    let counted = counted.unwrap();
    (0..4i64).for_each(|n| drop(report(&counted, &[numbers(&[9]), HostTensor::scalar(n)])));
}

/// Returns `number` halves of `x`, as the outputs of a loop.
fn halves(x: Value, number: Value) -> Value {
    let mut halves = Recurrence::new();
    halves.steps_value(number).run(|_| x * 0.5).ys
}

/// The number of chunks follows from the size of a sequence. The loop over the chunks is compiled, and the ops after it
/// need this number. The trace of the other loop prevents that the program is compiled as a whole.
#[test]
fn chunks_beside_a_loop_that_ends_early() {
    let graph = Graph::build("chunks", |g| {
        let xs = (g.input("xs", "f32[T]") * 48.0).round();
        let (last, ys) = scan_until_with(ScanOptions::new(), xs.index(0, 0) * 0.0, xs, |sum, x| {
            let sum = sum + x;
            (sum, sum * 2.0, sum.gt(20.0))
        });
        let doubled = map_with(MapOptions::new().chunk(3), xs, |x| x * 2.0);
        (doubled + last, ys.sum(0))
    });
    for steps in [1, 3, 4, 7] {
        report(graph.as_ref().unwrap(), &[numbers(&[steps])]);
    }
}

/// The number of rows follows from a loop that counts its steps, so it is the same in each step of the outer loop.
#[test]
fn a_length_that_no_operand_changes() {
    let graph = Graph::build("counted", |g| {
        let (xs, rows) = (g.input("xs", "f32[T]"), g.input("rows", "f32[3]"));
        map(xs, |x| {
            let start = (x, x.zeros_like().cast(DType::I64));
            let ((x, count), _) = scan(start, rows, |(x, count), row| ((x * row, count + 1), ()));
            halves(x, count).sum(0)
        })
    });
    report(&graph.unwrap_or_else(|error| panic!("{error}")), &[numbers(&[4]), numbers(&[3])]);
}

/// A step reads as many rows as a number says. A number beyond the rows is an error, which padding must not hide.
#[test]
fn slices_of_computed_lengths_beyond_the_rows_are_errors() {
    let graph = Graph::build("heads", |g| {
        let (xs, counts) = (g.input("xs", "f32[T]"), g.input("counts", "i64[B]"));
        map(counts, |count| xs.slice(0, ..bind_size(count)).sum(0) - xs.slice(0, bind_size(count)..).max(0))
    });
    let graph = graph.unwrap_or_else(|error| panic!("{error}"));
    for rows in [10, 100] {
        let xs = numbers(&[rows]);
        let compiled = report(&graph, &[xs.clone(), [2i64, 3, 4].into()]);
        assert!(compiled.loops.iter().all(|each| each.strategy == LoopStrategy::Compiled), "{compiled}");
        for count in [rows as i64 + 1, -1] {
            let inputs = [xs.clone(), [2i64, count, 3].into()];
            let error = Function::compile(&graph, &Cpu::default()).unwrap().call_host(&inputs).unwrap_err();
            assert_eq!(error.kind(), evaluate(&graph, &inputs).unwrap_err().kind(), "{error}");
        }
    }
}

/// Checkpointing divides a sequence into segments. Their number follows from the size of the sequence.
#[test]
fn a_gradient_that_recomputes_segments_is_compiled_as_a_whole() {
    let graph = Graph::build("segments", |g| {
        let (xs, w) = (g.input("xs", "f32[T]"), g.input("w", "f32[]"));
        let options = ScanOptions::new().policy(CheckpointPolicy::Segments(3));
        scan_with(options, w.zeros_like(), xs, |sum, x| ((sum * w + x).abs(), ())).0
    });
    let gradient = graph.unwrap().grad("w", GradOptions::new()).unwrap();
    // All results are exact, whatever the order of the sums.
    let xs = [0.5f32, -1.0, 0.25, 3.0, -2.0, 1.5, 0.75];
    for steps in [7, 6, 2] {
        let compiled = report(
            &gradient,
            &[HostTensor::from_vec(xs[..steps].to_vec(), [steps]).unwrap(), HostTensor::scalar(0.5f32)],
        );
        assert!(compiled.declined.is_none(), "{compiled}");
        assert!(compiled.loops.iter().all(|each| each.strategy == LoopStrategy::Compiled), "{compiled}");
    }
}

/// The reversed loop of the gradient runs as many steps as the loop did, which depends on data. Its sequence has fewer
/// rows than the first trial compilation assumes.
#[test]
fn the_gradient_of_a_loop_that_ends_early_is_compiled() {
    let graph = Graph::build("until", |g| {
        let (xs, w) = (g.input("xs", "f32[3]"), g.input("w", "f32[]"));
        let (sum, ()) = scan_until_with(ScanOptions::new(), w, xs, |sum, x| {
            let next = sum * w + x;
            (next, (), next.gt(1.0))
        });
        sum
    });
    let gradient = graph.unwrap().grad("w", GradOptions::new()).unwrap();
    let compiled = report(&gradient, &[[0.25f32, 0.9, 0.5].into(), HostTensor::scalar(0.5f32)]);
    assert!(compiled.loops.iter().all(|each| each.strategy == LoopStrategy::Compiled), "{compiled}");
}

/// Runs each op of the suite in a loop, on each dtype for which the suite has a case.
#[test]
fn no_op_runs_in_the_reference_evaluator() {
    let programs = op_programs(&all_cases().unwrap()).unwrap();
    let falls_back = |program: &&OpProgram| {
        let support = determine_support(&Cpu::default(), program);
        support.unwrap_or_else(|error| panic!("{}: {error}", program.op)) == Support::Fallback
    };
    let fallbacks: Vec<_> = programs.iter().filter(falls_back).map(|program| (program.op, program.dtype)).collect();
    assert!(programs.len() > 200, "{}", programs.len());
    // The plan stores f16 and bf16 numbers as f32, so `nextafter` would return the neighbours in f32.
    assert_eq!(fallbacks, [("nextafter", DType::F16), ("nextafter", DType::BF16)]);
}
