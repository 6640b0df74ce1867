//! Tests the costs of programs: the number of kernels that run, and the work that is shared or skipped. A test that
//! only compares results would not catch a regression here, because a slow program returns the same results.

use funcify::dispatch::LoopStrategy::{self, Native, Unroll};
use funcify::dispatch::{CompileCounts, CompileOptions, Function, Reference};
use funcify::ops::{ConvOptions, OpRules};
use funcify::prelude::*;
use funcify::rewrite::{Parallel, RewriteOptions, Tolerance};
use funcify::{CheckpointPolicy, VmapOptions, linearize, while_loop_bounded};

mod counting;
#[path = "../shared/mod.rs"]
mod shared;
use counting::Cost;
use shared::{built, traced};

const STRATEGIES: [LoopStrategy; 2] = [Unroll, Native];

/// Returns a tensor with the elements 0.01, 0.02, ...
fn ramp(shape: &[usize]) -> HostTensor {
    let mut next = 0.0;
    HostTensor::from_fn(DType::F64, shape, |_| {
        next += 0.01;
        Scalar::Float(next)
    })
}

fn number(x: f64) -> HostTensor {
    HostTensor::scalar(x)
}

/// Compiles a graph without rewrites.
fn compile_without_rewrites(graph: &Graph, strategy: LoopStrategy) -> Function<Reference> {
    let options = CompileOptions { strategy, rewrites: None, ..CompileOptions::default() };
    Function::compile_with(graph, &Reference, options).unwrap()
}

/// Counts the ops of a graph, including those in bodies.
fn count_ops(graph: &Graph) -> usize {
    graph.nodes().iter().map(|node| 1 + node.op.bodies().into_iter().map(|body| count_ops(body)).sum::<usize>()).sum()
}

/// Counts the uses of an op in a graph, including those in bodies.
fn count(graph: &Graph, op: &str) -> usize {
    let of_node = |node: &funcify::graph::Node| {
        usize::from(node.op.name() == op) + node.op.bodies().into_iter().map(|body| count(body, op)).sum::<usize>()
    };
    graph.nodes().iter().map(of_node).sum()
}

#[test]
fn what_depends_on_invariants_alone_runs_once() {
    let graph = built("model", |g| {
        let (xs, w) = (g.input("xs", "f64[10]"), g.input("w", "f64[]"));
        scan(w, xs, |c, x| ((c * w.exp() + x).tanh() * 2.0, ())).0
    });
    for strategy in STRATEGIES {
        let cost = Cost::measure(&graph, strategy, &[ramp(&[10]), number(0.5)]);
        assert_eq!(["exp", "tanh", "mul", "add"].map(|op| cost.run_count(op)), [1, 10, 20, 10], "{strategy:?}");
        assert_eq!(cost.uploads, 2, "the arguments: constants are uploaded when a program is compiled");
    }
}

#[test]
fn what_an_inner_loop_does_not_change_runs_once_each_time_that_it_runs() {
    let graph = built("model", |g| {
        let (xs, ys, w) = (g.input("xs", "f64[5]"), g.input("ys", "f64[7]"), g.input("w", "f64[]"));
        scan(w, xs, |c, x| (scan(c, ys, |c, y| (c * x.sin() + y * w.exp(), ())).0, ())).0
    });
    for strategy in STRATEGIES {
        let cost = Cost::measure(&graph, strategy, &[ramp(&[5]), ramp(&[7]), number(0.5)]);
        assert_eq!((cost.run_count("exp"), cost.run_count("sin"), cost.run_count("add")), (5, 5, 35), "{strategy:?}");
    }
}

#[test]
fn only_the_branch_that_is_taken_runs() {
    let graph = built("model", |g| {
        let (k, x) = (g.input("k", "i64[]"), g.input("x", "f64[]"));
        let y = cond(x.gt(0.0), || x.exp(), || x.sin());
        y + switch(k, [&|| x.cos(), &|| x.tanh(), &|| x.log()])
    });
    let cost = Cost::measure(&graph, Native, &[HostTensor::scalar(1i64), number(0.5)]);
    let ran = ["exp", "sin", "cos", "tanh", "log"].map(|op| cost.run_count(op));
    assert_eq!(ran, [1, 0, 0, 1, 0]);
}

/// The gradient of a `cond` recomputes the selected branch and runs its backward pass. It does not run the other
/// branch.
#[test]
fn the_gradient_of_a_choice_runs_one_branch() {
    let graph =
        built("model", |g| grad(g.input("x", "f64[]"), |x| cond(x.gt(0.0), || x.exp().tanh(), || x.sin().cos())));
    let cost = Cost::measure(&graph, Native, &[number(0.5)]);
    assert_eq!((cost.run_count("sin"), cost.run_count("cos")), (0, 0));
    assert!(cost.run_count("exp") <= 2 && cost.run_count("tanh") <= 2, "{:?}", cost.kernels);
}

/// If all lanes share the predicate, only one branch runs.
#[test]
fn lanes_that_share_a_predicate_take_one_branch() {
    let graph = built("model", |g| {
        let (p, xs) = (g.input("p", "bool[]"), g.input("xs", "f64[B]"));
        vmap(xs, |x| cond(p, || x.exp(), || x.sin()))
    });
    let cost = Cost::measure(&graph, Native, &[HostTensor::scalar(true), ramp(&[4])]);
    assert_eq!((cost.run_count("exp"), cost.run_count("sin"), cost.run_count("select")), (1, 0, 0));
}

#[test]
fn a_choice_by_a_size_is_its_branch() {
    let graph = built("model", |g| {
        let x = g.input("x", "f64[T]");
        cond(size("T", DType::I64).gt(3), || x.exp(), || x.sin())
    });
    let function = |sizes: usize| {
        let function = compile_without_rewrites(&graph, Unroll);
        function.call_host(&[ramp(&[sizes])]).unwrap();
        function.report()
    };
    assert_eq!(function(4).instructions, function(3).instructions);
    let cost = Cost::measure(&graph, Unroll, &[ramp(&[4])]);
    assert_eq!((cost.run_count("exp"), cost.run_count("sin")), (1, 0), "{:?}", cost.kernels);
}

/// Builds a loop of at most 100 steps that exits early, after its third step.
fn early_ending_loop(g: &funcify::Builder) -> (Value, Value) {
    let xs = g.input("xs", "f64[100]");
    scan_until(xs.index(0, 0) * 0.0, xs, |c, x| {
        let next = c + x.exp();
        (next, next.sin(), next.gt(3.0))
    })
}

#[test]
fn a_loop_that_ends_early_runs_no_further_step() {
    let graph = built("model", early_ending_loop);
    for strategy in STRATEGIES {
        let cost = Cost::measure(&graph, strategy, &[ramp(&[100])]);
        assert_eq!((cost.run_count("exp"), cost.run_count("sin"), cost.run_count("gt")), (3, 3, 3), "{strategy:?}");
        assert!(cost.stacked <= 3, "{} rows: those of the steps that ran", cost.stacked);
    }
}

#[test]
fn what_no_output_needs_is_left_out_of_a_loop_that_ends_early() {
    let graph = built("model", |g| early_ending_loop(g).0).vjp(.., GradOptions::new()).unwrap();
    assert_eq!(count(&graph, "sin"), 0, "{graph}");
    let cost = Cost::measure(&graph, Native, &[ramp(&[100]), number(1.0)]);
    assert_eq!(cost.run_count("sin") + cost.run_count("cos"), 0, "{:?}", cost.kernels);
    assert!(cost.run_count("exp") <= 6, "three steps forward, and three that are computed again: {:?}", cost.kernels);
}

#[test]
fn a_conditional_loop_runs_its_condition_once_more_than_its_step() {
    for bounded in [true, false] {
        let graph = built("model", |g| {
            let x = g.input("x", "f64[]");
            let (holds, step) = (|x: Value| x.sin().lt(0.9), |x: Value| x + x.exp());
            if bounded { while_loop_bounded(20, x, holds, step) } else { while_loop(x, holds, step) }
        });
        // With this input, the loop runs at least one step. The condition runs once more than the body.
        let cost = Cost::measure(&graph, Native, &[number(-0.5)]);
        assert_eq!(
            (cost.run_count("sin"), cost.run_count("exp")),
            (cost.run_count("add") + 1, cost.run_count("add")),
            "{bounded}"
        );
        assert!((1..5).contains(&cost.run_count("exp")), "{:?}", cost.kernels);
    }
}

/// If the gradient is truncated to the last 2 of 50 steps, the backward loop runs only 2 steps.
#[test]
fn a_truncated_gradient_runs_the_last_steps_alone() {
    let graph = |options: ScanOptions| {
        built("model", |g| {
            let (xs, w) = (g.input("xs", "f64[50]"), g.input("w", "f64[]"));
            grad(w, |w| scan_with(options, w * 0.0, xs, |c, x| ((c * w + x).sin(), ())).0)
        })
    };
    for strategy in STRATEGIES {
        let cost = |options| Cost::measure(&graph(options), strategy, &[ramp(&[50]), number(0.5)]);
        assert_eq!(cost(ScanOptions::new()).run_count("cos"), 50, "{strategy:?}");
        assert_eq!(cost(ScanOptions::new().truncate(2)).run_count("cos"), 2, "{strategy:?}");
        assert_eq!(cost(ScanOptions::new().truncate(2)).run_count("sin"), 50, "{strategy:?}");
    }
}

/// Values that the checkpoint policy saves are not recomputed in the backward pass. The test counts the matrix products
/// and the exponentials of 20 steps.
#[test]
fn what_is_saved_is_not_computed_again() {
    let cost = |policy: CheckpointPolicy| {
        let graph = built("model", |g| {
            let (xs, w) = (g.input("xs", "f64[20,2]"), g.input("w", "f64[2,2]"));
            scan(xs.index(0, 0), xs, |c, x| ((c.unsqueeze(0).matmul(w).squeeze(0) + x).exp().sin(), ())).0.sum(0)
        });
        let gradient = graph.grad("w", GradOptions::new().policy(policy)).unwrap();
        let cost = Cost::measure(&gradient, Native, &[ramp(&[20, 2]), ramp(&[2, 2])]);
        (cost.run_count("matmul").saturating_sub(40), cost.run_count("exp"))
    };
    // The counts exclude the 40 matrix products of the backward pass itself, two per step.
    let costs = [CheckpointPolicy::SaveAll, CheckpointPolicy::SaveDots, CheckpointPolicy::Recompute].map(cost);
    assert_eq!(costs, [(20, 20), (20, 40), (40, 40)]);
}

/// If the policy saves residuals, the backward pass does not recompute the selected branch. It never runs the other
/// branch.
#[test]
fn what_is_saved_of_a_choice_is_not_computed_again() {
    let graph = built("model", |g| {
        let x = g.input("x", "f64[]");
        cond(x.gt(0.0), || x.sin().exp().tanh(), || (x * x).sqrt().tanh())
    });
    let cost = |policy: CheckpointPolicy, x: f64| {
        let gradient = graph.value_and_grad("x", GradOptions::new().policy(policy));
        let cost = Cost::measure(&gradient.unwrap(), Native, &[number(x)]);
        (cost.run_count("exp"), cost.run_count("sqrt"))
    };
    for (policy, times) in
        [(CheckpointPolicy::Recompute, 2), (CheckpointPolicy::SaveAll, 1), (CheckpointPolicy::SaveCostly, 1)]
    {
        assert_eq!((cost(policy.clone(), 0.5), cost(policy.clone(), -0.5)), ((times, 0), (0, times)), "{policy}");
    }
}

/// `SaveCostly` saves values computed from a matrix product that sums many terms. It recomputes the operands of such a
/// product. It also recomputes products that sum few terms.
#[test]
fn what_is_costly_is_not_computed_again() {
    let cost = |terms: usize| {
        let graph = built("model", |g| {
            let [start, w] = [("start", 1), ("w", terms)]
                .map(|(name, rows)| g.input(name, TensorType::new(DType::F64, [rows, terms])));
            let step = |c: Value, ()| (c.cos().matmul(w).exp().sin(), ());
            scan_with(ScanOptions::new().length(20), start, (), step).0.sum(..)
        });
        let gradient = graph.grad("w", GradOptions::new().policy(CheckpointPolicy::SaveCostly)).unwrap();
        let cost = Cost::measure(&gradient, Native, &[ramp(&[1, terms]), ramp(&[terms, terms])]);
        ["cos", "matmul", "exp"].map(|op| cost.run_count(op))
    };
    // The counts include the backward pass, which computes two products in each step, and a `cos` for the derivative of
    // `sin`.
    assert_eq!((cost(31), cost(32)), ([60, 80, 40], [60, 60, 20]));
}

/// `SaveDots` saves convolutions as well as matrix products.
#[test]
fn what_is_saved_of_convolutions_is_not_computed_again() {
    let cost = |policy: CheckpointPolicy| {
        let graph = built("model", |g| {
            let (x, w) = (g.input("x", "f64[1,1,6]"), g.input("w", "f64[1,1,3]"));
            let same = ConvOptions { padding: [(1, 1)], ..ConvOptions::default() };
            scan_with(ScanOptions::new().length(20), x, (), |c, ()| (c.conv(w, same).sin(), ())).0.sum(..)
        });
        let gradient = graph.grad("w", GradOptions::new().policy(policy)).unwrap();
        Cost::measure(&gradient, Native, &[ramp(&[1, 1, 6]), ramp(&[1, 1, 3])]).run_count("conv")
    };
    let [all, dots, again] =
        [CheckpointPolicy::SaveAll, CheckpointPolicy::SaveDots, CheckpointPolicy::Recompute].map(cost);
    assert_eq!((dots, again), (all, all + 20));
}

/// A gradient with respect to one of two inputs does not compute the derivative with respect to the other input.
#[test]
fn a_gradient_has_what_is_asked_for_alone() {
    let graph = built("model", |g| {
        let (xs, w) = (g.input("xs", "f64[10]"), g.input("w", "f64[]"));
        scan(w, xs, |c, x| (c + x.sin().exp(), ())).0
    });
    let ops = |wrt: &str| graph.grad(wrt, GradOptions::new()).unwrap();
    assert_eq!((count(&ops("w"), "cos"), count(&ops("w"), "exp")), (0, 0), "{}", ops("w"));
    assert_eq!(count(&ops("xs"), "cos"), 1);
}

/// An associative scan over 64 elements runs the addition kernel six times in the up-sweep and five times in the
/// down-sweep.
#[test]
fn an_associative_scan_runs_a_logarithmic_number_of_kernels() {
    let graph = built("model", |g| associative_scan(g.input("xs", "f64[T]"), |a, b| a + b));
    let added = |count: usize| Cost::measure(&graph, Native, &[ramp(&[count])]).run_count("add");
    assert_eq!([added(64), added(128), added(1024)], [11, 13, 19]);
}

/// An affine loop becomes an associative scan if the options tolerate reassociation and the device prefers low depth.
#[test]
fn an_affine_loop_runs_a_logarithmic_number_of_kernels() {
    let graph = built("model", |g| {
        let (xs, a) = (g.input("xs", "f64[T]"), g.input("a", "f64[T]"));
        scan(g.input("h", "f64[]"), (xs, a), |h, (x, a)| (h * a + x, ())).0
    });
    let kernels = |count: usize, options: RewriteOptions| {
        let arguments = [ramp(&[count]), ramp(&[count]), number(0.5)];
        Cost::measure_rewritten(&graph, Native, &arguments, Some(options)).kernels.values().sum::<usize>()
    };
    let tolerant = || RewriteOptions::new().tolerance(Tolerance::Reassociated);
    let [exact, avoided] = [RewriteOptions::new(), tolerant().parallel(Parallel::Avoid)].map(|it| kernels(1024, it));
    assert_eq!([exact, avoided], [2048, 2048]);
    // Doubling the number of steps adds one level, with 25 kernels, to the recursion.
    assert_eq!([64, 128, 1024].map(|count| kernels(count, tolerant())), [143, 168, 243]);
}

/// The gradient of a scan over affine maps does not use the running products of `a`, so only the up-sweep computes
/// products of `a`.
#[test]
fn the_gradient_of_an_associative_scan_runs_a_logarithmic_number_of_kernels() {
    let graph = built("model", |g| {
        let (a, b) = (g.input("a", "f64[T]"), g.input("b", "f64[T]"));
        let affine = |(a, b): (Value, Value), (c, d): (Value, Value)| (a * c, b * c + d);
        grad((a, b), |leaves| associative_scan(leaves, affine).1.square().sum(0))
    });
    assert_eq!((count(&graph, "scan"), count(&graph, "associative_scan")), (0, 2));
    let multiplied = |count: usize| Cost::measure(&graph, Native, &[ramp(&[count]), ramp(&[count])]).run_count("mul");
    assert_eq!([multiplied(64), multiplied(128), multiplied(1024)], [38, 44, 62]);
}

/// A linearized function is evaluated once, and its derivative is applied to three tangents as one batch.
#[test]
fn linearised_functions_run_once() {
    let graph = built("model", |g| {
        let (x, vs) = (g.input("x", "f64[]"), g.input("vs", "f64[3]"));
        let (y, linear) = linearize(x, |x| x.exp().sin());
        (y, map(vs, |v| linear.apply(v)))
    });
    let cost = Cost::measure(&graph, Native, &[number(0.5), ramp(&[3])]);
    assert_eq!((cost.run_count("exp"), cost.run_count("sin"), cost.run_count("cos")), (1, 1, 1), "{:?}", cost.kernels);
}

#[test]
fn programs_are_compiled_for_the_sizes_that_they_depend_on() {
    let graph = built("model", |g| {
        let (xs, w) = (g.input("xs", "f64[T]"), g.input("w", "f64[N]"));
        scan(w, xs, |c, x| (c + x, ())).0
    });
    let counts = |strategy: LoopStrategy| {
        let function = compile_without_rewrites(&graph, strategy);
        for (steps, columns) in [(3, 2), (3, 2), (4, 2), (3, 5), (4, 2)] {
            function.call_host(&[ramp(&[steps]), ramp(&[columns])]).unwrap();
        }
        function.counts()
    };
    assert_eq!(counts(Native), CompileCounts { made: 1, reused: 5 });
    assert_eq!(counts(Unroll), CompileCounts { made: 3, reused: 2 });
}

/// The number of steps is the product of two static inputs, so a new program is built only for a new value of this
/// product.
#[test]
fn programs_are_compiled_for_the_static_inputs_that_they_depend_on() {
    let graph = built("model", |g| {
        let (n, m) = (g.static_input("n", DType::I64), g.static_input("m", DType::I64));
        fori_loop(0, n * m, g.input("x", "f64[]"), |_, x| x + 1.0)
    });
    for strategy in STRATEGIES {
        let function = compile_without_rewrites(&graph, strategy);
        let steps = |n: i64, m: i64| {
            let inputs = [HostTensor::scalar(n), HostTensor::scalar(m), number(0.0)];
            function.call_host(&inputs).unwrap()[0].get(0).as_f64()
        };
        assert_eq!([steps(2, 3), steps(2, 4), steps(3, 2), steps(0, 9)], [6.0, 8.0, 6.0, 0.0], "{strategy:?}");
    }
}

/// Each step of an unrolled loop adds the same number of instructions. A native loop has one body for all steps.
#[test]
fn an_unrolled_loop_grows_by_its_step() {
    let graph = built("model", |g| {
        let (xs, w) = (g.input("xs", "f64[T]"), g.input("w", "f64[]"));
        scan(w, xs, |c, x| ((c * w.exp() + x).tanh(), ())).0
    });
    let instructions = |strategy: LoopStrategy, steps: usize| {
        let function = compile_without_rewrites(&graph, strategy);
        function.call_host(&[ramp(&[steps]), number(0.5)]).unwrap();
        function.report().instructions
    };
    let [two, three, ten] = [2, 3, 10].map(|steps| instructions(Unroll, steps));
    assert_eq!(three - two, 4, "a row, a product, a sum, a tanh");
    assert_eq!(ten - two, 8 * 4);
    assert_eq!(instructions(Native, 2), instructions(Native, 10));
    assert_eq!(instructions(Native, 2), 5, "exp, the loop, and three in its body");
}

/// An unrolled loop loads each row only once, even if two taps read it, in the same step or in different ones.
#[test]
fn an_unrolled_loop_reads_each_row_once() {
    let graph = built("model", |g| {
        let mut recurrence = Recurrence::new();
        let x = recurrence.sequence(g.input("xs", "f64[11]"), [0, 1, 0]);
        let sum = recurrence.carry(g.input("init", "f64[]"));
        let done = recurrence.steps(10).run(|step| {
            let ([now, next, again], c) = (step.read(&x), step.read(&sum));
            step.write(&sum, c * now + next * again);
        });
        done.last(&sum)
    });
    let function = compile_without_rewrites(&graph, Unroll);
    function.call_host(&[ramp(&[11]), number(0.5)]).unwrap();
    assert_eq!(function.report().instructions, 11 + 10 * 3, "the rows; two products and a sum a step");
}

/// The gradient of a loop, the gradient of that gradient, and the batched gradient have only a few times as many ops as
/// the loop.
#[test]
fn derivatives_have_a_few_times_the_ops_of_their_program() {
    let graph = built("model", |g| {
        let (xs, w) = (g.input("xs", "f64[T]"), g.input("w", "f64[]"));
        scan(w, xs, |c, x| ((c * w + x).tanh(), ())).0
    });
    let first = graph.grad("w", GradOptions::new()).unwrap();
    let second = first.grad("w", GradOptions::new()).unwrap();
    let lanes = first.vmap("B", VmapOptions::new().in_axes([("xs", 0)])).unwrap();
    let counts = [&graph, &first, &second, &lanes].map(count_ops);
    assert!(counts.iter().zip([4, 18, 60, 29]).all(|(count, most)| *count <= most), "{counts:?}");
}

/// Tensors are freed after their last use, so the peak memory of a call does not grow with the number of ops and steps.
#[test]
fn tensors_are_held_no_longer_than_they_are_needed() {
    let row = 1000 * 8;
    let line = |ops: usize| {
        let graph = built("model", |g| (0..ops).fold(g.input("x", "f64[1000]"), |x, _| x.sin()));
        Cost::measure(&graph, Native, &[ramp(&[1000])])
    };
    assert!(line(20).peak <= 3 * row, "{} bytes", line(20).peak);
    assert_eq!(line(20).peak, line(40).peak);
    let carried = |steps: usize| {
        let graph = built("model", |g| {
            let options = ScanOptions::new().length(steps);
            scan_with(options, g.input("x", "f64[1000]"), (), |c, ()| (c.sin().exp().tanh(), ())).0
        });
        Cost::measure(&graph, Native, &[ramp(&[1000])])
    };
    assert!(carried(5).peak <= 4 * row, "{} bytes", carried(5).peak);
    assert_eq!(carried(5).peak, carried(50).peak);
}

/// If the gradient is truncated to the last two steps, the peak memory does not grow with the number of steps.
#[test]
fn rows_that_nothing_reads_are_not_held() {
    let peak = |truncate: Option<usize>, steps: usize| {
        let graph = built("model", |g| {
            let (x, w) = (g.input("x", "f64[1000]"), g.input("w", "f64[]"));
            let options = ScanOptions::new().length(steps);
            let options = if let Some(last) = truncate { options.truncate(last) } else { options };
            grad(w, |w| scan_with(options, x, (), |c, ()| ((c * w).sin(), ())).0.sum(0))
        });
        Cost::measure(&graph, Native, &[ramp(&[1000]), number(0.5)]).peak / 8000
    };
    assert!(peak(None, 60) >= 60, "the states before each step: {}", peak(None, 60));
    assert_eq!(peak(Some(2), 30), peak(Some(2), 60));
    assert!(peak(Some(2), 60) < 20, "{}", peak(Some(2), 60));
}

/// With both loop strategies, the reported peak plus the size of the arguments is at least the actual peak of a call.
/// The reported peak is at most twice the actual peak.
#[test]
fn the_planned_peak_is_that_of_a_call() {
    let graph = built("model", |g| {
        let (xs, w) = (g.input("xs", "f64[12,100]"), g.input("w", "f64[100]"));
        let ys = scan(w, xs, |c, x| ((c * w + x).tanh(), c * 2.0)).1;
        (ys.exp() * 3.0).sum(0)
    });
    for (name, graph) in [("value", &graph), ("gradient", &graph.vjp(.., GradOptions::new()).unwrap())] {
        for strategy in STRATEGIES {
            let ct = (graph.inputs().len() == 3).then(|| ramp(&[100]));
            let arguments: Vec<HostTensor> = [ramp(&[12, 100]), ramp(&[100])].into_iter().chain(ct).collect();
            let cost = Cost::measure(graph, strategy, &arguments);
            // The caller of `call_host` keeps the arguments alive, even after the program has released them.
            let given: usize = arguments.iter().map(|argument| argument.len() * 8).sum();
            let (peak, planned, at) = (cost.peak, cost.planned, format!("{name} {strategy:?}"));
            assert!(peak <= planned + given && planned <= 2 * peak, "{at}: {peak} of {planned} + {given}");
        }
    }
}

/// Training a recurrent network runs one matrix product per step in each direction. The products with the inputs, and
/// the products for the weight gradients, are batched over all steps. The report lists the rewrites and the number of
/// remaining kernels of each loop.
#[test]
fn what_is_the_same_for_all_steps_is_one_product() {
    let loss = built("loss", |g| {
        let (xs, h) = (g.input("xs", "f64[10,2,3]"), g.input("h", "f64[2,3]"));
        let (w, u) = (g.input("w", "f64[3,3]"), g.input("u", "f64[3,3]"));
        let (_, hs) = scan(h, xs, |h, x| traced((x.matmul(w) + h.matmul(u)).tanh()));
        hs.square().sum(..)
    });
    let gradient = loss.grad(["w", "u"], GradOptions::new().policy(CheckpointPolicy::SaveAll)).unwrap();
    let arguments = [ramp(&[10, 2, 3]), ramp(&[2, 3]), ramp(&[3, 3]), ramp(&[3, 3])];
    for strategy in STRATEGIES {
        assert_eq!(Cost::measure(&gradient, strategy, &arguments).run_count("matmul"), 50, "{strategy:?}");
        let rewritten = Cost::measure_rewritten(&gradient, strategy, &arguments, Some(RewriteOptions::new()));
        assert_eq!(rewritten.run_count("matmul"), 23, "{strategy:?}");
    }
    let options = CompileOptions { rewrites: Some(RewriteOptions::new()), ..CompileOptions::default() };
    let function = Function::compile_with(&gradient, &Reference, options).unwrap();
    assert_eq!(function.report().rewrites["sums_over_steps"], 1);
    let report = function.report();
    assert!(report.to_string().contains("sums_over_steps 1"), "{report}");
    // Both loops have three kernels per step, one of them a product, so the report merges the two loops into one entry.
    let [each] = report.loops.as_slice() else { panic!("{report}") };
    assert_eq!(each.kernels, Some(3), "{report}");
    assert_eq!(["hoisting", "sums_over_steps"].map(|rule| each.rewrites[rule]), [2, 1], "{report}");
    let are_folded = [&report.rewrites, &each.rewrites].map(|rewrites| rewrites.contains_key("constant_folding"));
    assert_eq!(are_folded, [true, false], "{report}");
    assert!(compile_without_rewrites(&gradient, LoopStrategy::Auto).report().rewrites.is_empty());
}
