//! Tests that checkpoint policies save the expected number of values for the backward pass, and do not change results.

mod shared;

use funcify::ops::{Op, OpRules};
use funcify::prelude::*;
use funcify::{CheckpointPolicy, VmapOptions, grad_with};
use shared::{built, traced};

/// Returns the number of bytes that a gradient saves in traces: the bytes that forward loops save, plus the maximum
/// that a single step of a backward loop saves while it recomputes values. Backward loops are the loops that run in
/// reverse.
fn saved_bytes(graph: &Graph) -> usize {
    let (mut forward, mut again) = (0, 0);
    for node in graph.nodes() {
        match &node.op {
            Op::Scan(scan) if scan.reverse => again = again.max(saved_bytes(&scan.body)),
            Op::Scan(scan) => {
                let traces = node.outputs.iter().take(scan.buffers.len()).map(|value| {
                    let ty = graph.ty(*value);
                    ty.shape.elements().constant().expect("sizes are constant") as usize * ty.dtype.size()
                });
                forward += traces.sum::<usize>();
            }
            _ => {}
        }
    }
    forward + again
}

/// Builds a program that computes the squared norm of the last state of a recurrent network with 1024 steps and 64
/// elements per state. Each step has several intermediate values of 64 elements, including two matrix products.
fn network(options: ScanOptions) -> Graph {
    built("rnn", |g| {
        let (xs, h0) = (g.input("xs", "f32[1024,32]"), g.input("h0", "f32[64]"));
        let (w, u, b) = (g.input("w", "f32[32,64]"), g.input("u", "f32[64,64]"), g.input("b", "f32[64]"));
        let step = |h: Value, x: Value| ((x.matmul(w) + h.matmul(u) + b).tanh(), ());
        scan_with(options, h0, xs, step).0.square().sum(0)
    })
}

fn gradient(graph: &Graph, policy: CheckpointPolicy) -> Graph {
    graph.grad(["h0", "w", "u", "b"], GradOptions::new().policy(policy)).unwrap()
}

/// Returns the number of rows of 64 elements that the gradient of [`network`] saves under this policy.
fn rows(policy: CheckpointPolicy) -> usize {
    saved_bytes(&gradient(&network(ScanOptions::new()), policy)) / (64 * 4)
}

#[test]
fn what_each_policy_keeps_of_1024_steps() {
    assert_eq!(rows(CheckpointPolicy::SaveAll), 1024, "the results of tanh, which are the states after the steps");
    assert_eq!(rows(CheckpointPolicy::SaveCostly), 1024, "the same: they depend on products of 32 and 64 terms");
    assert_eq!(rows(CheckpointPolicy::SaveDots), 3 * 1024, "the states and two products");
    assert_eq!(rows(CheckpointPolicy::Recompute), 1024, "the states");
    assert_eq!(rows(CheckpointPolicy::Segments(32)), 32 + 32);
    assert_eq!(rows(CheckpointPolicy::Segments(100)), 10 + 100 + 24, "including those of the remaining steps");
    assert_eq!(rows(CheckpointPolicy::Levels(vec![128, 16])), 8 + 8 + 16);
    assert_eq!(rows(CheckpointPolicy::Levels(vec![256, 64, 16, 4])), 5 * 4);
    let powers = (1..10).rev().map(|power| 1 << power).collect();
    assert_eq!(rows(CheckpointPolicy::Levels(powers)), 2 * 10);
    assert_eq!(rows(CheckpointPolicy::Segments(1024)), 1024, "one segment is the loop");
}

#[test]
fn a_budget_takes_the_least_work_that_fits() {
    let row = 64 * 4;
    // Here, "everything" means the state and all values that a step computes: two products, two sums and a tanh.
    assert_eq!(rows(CheckpointPolicy::Budget(6 * 1024 * row)), 1024, "everything");
    assert_eq!(rows(CheckpointPolicy::Budget(6 * 1024 * row - 1)), 3 * 1024, "the products");
    assert_eq!(rows(CheckpointPolicy::Budget(3 * 1024 * row)), 3 * 1024);
    assert_eq!(rows(CheckpointPolicy::Budget(2 * 1024 * row)), 1024);
    assert_eq!(rows(CheckpointPolicy::Budget(1023 * row)), 64);
    assert_eq!(rows(CheckpointPolicy::Budget(64 * row)), 64);
    // 8 segments of 121 steps are each split into segments of 11 steps. The remaining 56 steps are 5 segments of 11
    // steps and a single step.
    assert_eq!(rows(CheckpointPolicy::Budget(63 * row)), 8 + 11 + 11 + 5 + 1);
    assert_eq!(rows(CheckpointPolicy::Budget(0)), 20, "the least memory of four levels");
    // If the number of steps is symbolic, the policy assumes 1024 steps.
    let text = network(ScanOptions::new()).to_string().replace("1024", "T");
    let symbolic = Graph::parse(&text).unwrap();
    let scans = |budget: usize| {
        let gradient = gradient(&symbolic, CheckpointPolicy::Budget(budget));
        gradient.nodes().iter().filter(|node| node.op.name() == "scan").count()
    };
    assert_eq!(scans(1024 * row), 2, "forward and backward");
    assert!(scans(1023 * row) > 2);
}

#[test]
fn a_loop_that_says_what_it_keeps_does_not_follow_the_default() {
    let keeps = |own: CheckpointPolicy, default: CheckpointPolicy| {
        saved_bytes(&gradient(&network(ScanOptions::new().policy(own)), default)) / (64 * 4)
    };
    assert_eq!(keeps(CheckpointPolicy::SaveDots, CheckpointPolicy::Recompute), 3 * 1024);
    assert_eq!(keeps(CheckpointPolicy::Segments(32), CheckpointPolicy::SaveAll), 64);
    assert_eq!(keeps(CheckpointPolicy::Recompute, CheckpointPolicy::Segments(32)), 1024);
}

#[test]
fn a_truncated_loop_keeps_the_last_states() {
    let rows = |policy| saved_bytes(&gradient(&network(ScanOptions::new().truncate(16)), policy)) / (64 * 4);
    assert_eq!(rows(CheckpointPolicy::Recompute), 16);
    assert_eq!(rows(CheckpointPolicy::Segments(4)), 16, "a truncated loop is not cut into segments");
    assert_eq!(rows(CheckpointPolicy::SaveDots), 3 * 16);
    assert_eq!(rows(CheckpointPolicy::SaveAll), 2 * 16, "the state before the first of them is not a result");
}

/// Returns the number of traces that the forward loop of a gradient saves.
fn traces(policy: CheckpointPolicy, step: impl FnOnce(Value, Value) -> (Value, Value)) -> usize {
    let graph = built("traces", |g| {
        let (init, xs) = (g.input("init", "f64[]"), g.input("xs", "f64[T]"));
        scan(init, xs, step).1.sum(0)
    });
    let gradient = graph.value_and_grad(.., GradOptions::new().policy(policy)).unwrap();
    let of_loop = gradient.nodes().iter().find_map(|node| match &node.op {
        Op::Scan(scan) if !scan.reverse => Some(scan.buffers.len()),
        _ => None,
    });
    of_loop.unwrap()
}

#[test]
fn what_is_stacked_anyway_is_not_saved_again() {
    let next_state = |c: Value, x: Value| traced((c * x).sin());
    assert_eq!(traces(CheckpointPolicy::Recompute, next_state), 1, "the ys are the states after the steps");
    assert_eq!(traces(CheckpointPolicy::SaveAll, next_state), 2, "and the argument of the cosine");
    assert_eq!(traces(CheckpointPolicy::Recompute, |c, x| ((c * x).sin(), c)), 1, "the ys are the states before");
    assert_eq!(traces(CheckpointPolicy::Recompute, |c, x| ((c * x).sin(), c * x)), 2, "the ys are something else");
    assert_eq!(traces(CheckpointPolicy::SaveAll, |c, x| (c * c, (c * x).exp())), 2, "the saved ys, and the states");
}

/// The name of a program with one loop, and the function that builds it.
type ProgramFn = (&'static str, fn(Value, Value) -> Vec<Value>);

/// Loops of every kind, with a number of steps that is known only at run time. Each takes the arguments `xs: f64[T+4]`
/// and `w: f64[]`.
const PROGRAMS: [ProgramFn; 9] = [
    ("carry_and_ys", |xs, w| {
        let (last, ys) = scan(w, xs, |c, x| ((c * w + x).sin(), c * x));
        vec![last, ys.square().sum(0)]
    }),
    ("downward", |xs, w| {
        let options = ScanOptions::new().reverse();
        let (last, ys) = scan_with(options, (w, w), xs, |(a, b), x| ((b, (a * w + x).sin()), b * x));
        vec![last.0, last.1, (ys * xs).sum(0)]
    }),
    ("integers_and_a_state_that_nobody_needs", |xs, w| {
        let zero = constant(HostTensor::scalar(0i64));
        let step = |(i, c, d): (Value, Value, Value), x: Value| ((i + 1, c * w + x * i.cast(DType::F64), d * c), i);
        let ((count, c, _), _) = scan((zero, w, w), xs, step);
        vec![c.sin() * count.cast(DType::F64)]
    }),
    ("taps", |xs, w| {
        let mut loop_ = Recurrence::new();
        let taps = loop_.sequence(xs, [-1, 3, 0]);
        let c = loop_.carry(w);
        let done = loop_.run(|step| {
            let ([a, b, d], c_before) = (step.read(&taps), step.read(&c));
            step.write(&c, (c_before * a + b * w).sin());
            c_before * d
        });
        vec![done.ys.square().sum(0), done.last(&c)]
    }),
    ("states_with_traces", |xs, w| {
        let mut loop_ = Recurrence::new();
        let x = loop_.sequence(xs, [0]);
        let (one, three) = (loop_.sit_sot(w), loop_.mit_sot(xs.slice(0, ..3), [-1, -3]));
        let done = loop_.run(|step| {
            let ([x], [a], [b, c]) = (step.read(&x), step.read(&one), step.read(&three));
            step.write(&one, (a * w + b).sin());
            step.write(&three, c * a * 0.5 + x);
        });
        vec![done.trace(&one).square().sum(0), done.trace_with_init(&three).index(0, -1)]
    }),
    ("rows_written_ahead", |xs, w| {
        let mut loop_ = Recurrence::new();
        let rows = loop_.mit_mot(xs, [0, 2, 1], [2, 1]);
        let done = loop_.run(|step| {
            let [a, b, c] = step.read(&rows);
            step.write(&rows, [(a * w + b).sin(), a * c]);
        });
        vec![(done.buffer(&rows) * xs).sum(0)]
    }),
    ("rows_written_in_place", |xs, w| {
        let mut loop_ = Recurrence::new();
        let rows = loop_.mit_mot(xs, [0], [0]);
        let sum = loop_.carry(w);
        let done = loop_.steps(xs.dim(0) - 2).run(|step| {
            let ([x], before) = (step.read(&rows), step.read(&sum));
            step.write(&rows, [x * before]);
            step.write(&sum, before + x.sin() * w);
        });
        vec![(done.buffer(&rows) * xs).sum(0), done.last(&sum)]
    }),
    ("run_time_count", |xs, w| {
        let count = size(xs.dim(0), DType::I64) - 2;
        vec![fori_loop(0, count, w, |i, c| (c * w + xs.take(0, i)).sin())]
    }),
    ("conditional", |xs, w| {
        let count = size(xs.dim(0), DType::I64) - 1;
        let zero = constant(HostTensor::scalar(0i64));
        vec![while_loop((zero, w), |(i, _)| i.lt(count), |(i, c)| (i + 1, (c * w + xs.take(0, i)).sin())).1]
    }),
];

fn inputs(g: &Builder) -> (Value, Value) {
    (g.input("xs", "f64[T+4]"), g.input("w", "f64[]"))
}

#[track_caller]
fn assert_near(name: &str, graph: &Graph, arguments: &[HostTensor], expected: &[HostTensor]) {
    graph.check().unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
    let text = graph.to_string();
    assert_eq!(Graph::parse(&text).unwrap().to_string(), text, "{name}");
    let results = evaluate(graph, arguments).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
    assert_eq!(results.len(), expected.len());
    for (result, expected) in results.iter().zip(expected) {
        assert_eq!(result.ty(), expected.ty(), "{name}");
        let pairs = result.scalars().zip(expected.scalars());
        for (result, expected) in pairs {
            let (result, expected) = (result.as_f64(), expected.as_f64());
            let scale = expected.abs().max(1.0);
            assert!((result - expected).abs() <= 1e-12 * scale, "{name}: {result}, not {expected}\n{text}");
        }
    }
}

/// Returns `xs`, with the given number of rows, and `w`, followed by a tangent for each of them.
fn arguments(rows: usize) -> [HostTensor; 4] {
    let row = |phase: f64| HostTensor::from_vec((0..rows).map(|i| (i as f64 * 1.7 + phase).sin()).collect(), [rows]);
    [row(0.3).unwrap(), HostTensor::scalar(0.8f64), row(1.1).unwrap(), HostTensor::scalar(-0.6f64)]
}

/// Returns `true` if, under this policy, the backward loop of a linear recurrence recomputes the next state in each
/// step. The backward loop reads `xs` only for that purpose.
fn is_recomputed(policy: CheckpointPolicy) -> bool {
    let graph = built("linear", |g| {
        let (a, init, xs) = (g.input("a", "f64[]"), g.input("init", "f64[]"), g.input("xs", "f64[T]"));
        let step = |h: Value, x: Value| {
            let next = a * h + x;
            (next, next.square())
        };
        scan(init, xs, step).1.sum(0)
    });
    let gradient = graph.grad("a", GradOptions::new().policy(policy)).unwrap();
    let xs = gradient.inputs().iter().find(|input| gradient.value_name(input.value) == Some("xs")).unwrap().value;
    let is_backward = |op: &Op| matches!(op, Op::Scan(scan) if scan.reverse);
    gradient.nodes().iter().any(|node| is_backward(&node.op) && node.inputs.contains(&xs))
}

#[test]
fn the_next_state_is_not_computed_again_where_states_after_steps_are_saved() {
    assert!(is_recomputed(CheckpointPolicy::Recompute));
    assert!(!is_recomputed(CheckpointPolicy::SaveCostly));
}

/// The gradient and its derivatives in forward and reverse mode are the same under every policy. The step counts
/// include 0, and counts that are not multiples of the segment length.
#[test]
fn no_policy_changes_a_value() {
    let policies = [
        CheckpointPolicy::SaveDots,
        CheckpointPolicy::SaveCostly,
        CheckpointPolicy::SaveAll,
        CheckpointPolicy::Segments(0),
        CheckpointPolicy::Segments(2),
        CheckpointPolicy::Segments(3),
        CheckpointPolicy::Levels(vec![4, 2]),
        CheckpointPolicy::Levels(vec![]),
        CheckpointPolicy::Budget(40),
    ];
    for (name, program) in PROGRAMS {
        let loss = |(xs, w): (Value, Value)| program(xs, w).into_iter().reduce(|a, b| a + b).unwrap();
        let first = built(name, |g| loss(inputs(g)));
        let of = |policy: &CheckpointPolicy| {
            let options = || GradOptions::new().policy(policy.clone());
            let gradient = first.grad(.., options()).unwrap_or_else(|error| panic!("{name}: {error}"));
            let pushed = gradient.jvp(..).unwrap_or_else(|error| panic!("{name}: {error}"));
            let norm = |inputs: (Value, Value)| {
                let (xs, w) = grad_with(options(), inputs, loss);
                xs.square().sum(0) + w.square()
            };
            let second = Graph::build(name, |g| grad_with(options(), inputs(g), norm));
            (gradient, pushed, second.unwrap_or_else(|error| panic!("{name}: {error}")))
        };
        let plain = of(&CheckpointPolicy::Recompute);
        for policy in &policies {
            let graphs = of(policy);
            for rows in [4, 5, 6, 7, 10, 13] {
                let name = format!("{name}, {policy}, {rows} rows");
                let arguments = arguments(rows);
                let expected = |graph: &Graph, count: usize| evaluate(graph, &arguments[..count]).unwrap();
                assert_near(&name, &graphs.0, &arguments[..2], &expected(&plain.0, 2));
                assert_near(&name, &graphs.1, &arguments, &expected(&plain.1, 4));
                assert_near(&name, &graphs.2, &arguments[..2], &expected(&plain.2, 2));
            }
        }
    }
}

/// The derivative options of a loop are part of its text, and transformations preserve them.
#[test]
fn derivatives_and_lanes_keep_what_a_loop_says() {
    let options = ScanOptions::new().policy(CheckpointPolicy::Levels(vec![8, 2])).truncate(3);
    let graph = built("loop", |g| {
        let (xs, w) = (g.input("xs", "f64[T]"), g.input("w", "f64[]"));
        scan_with(options, w, xs, |c, x| (c * w + x, ())).0
    });
    let says = |graph: &Graph, text: &str| {
        assert!(graph.to_string().contains(text), "{text} in\n{graph}");
        assert_eq!(Graph::parse(&graph.to_string()).unwrap().to_string(), graph.to_string());
    };
    says(&graph, ", segments=[8,2], truncate=3} with ");
    says(&graph.jvp(..).unwrap(), ", segments=[8,2], truncate=3} with ");
    says(&graph.grad(.., GradOptions::new()).unwrap(), "{steps=T, segments=[8,2], truncate=3} with ");
    says(&graph.grad(.., GradOptions::new()).unwrap(), ", order=down, segments=[8,2]} with ");
    let lanes = VmapOptions::new().in_axes(vec![Some(0), None]);
    says(&graph.vmap("lanes", lanes).unwrap(), ", segments=[8,2], truncate=3} with ");
    let words = ["recompute", "save_dots", "save_costly", "save_all"].map(|word| format!("policy={word}"));
    let numbers = ["segments=[3]", "segments=[]", "budget=4096"].map(String::from);
    for policy in words.iter().chain(&numbers) {
        let text = graph.to_string().replace("segments=[8,2]", policy);
        assert_eq!(Graph::parse(&text).unwrap().to_string(), text);
    }
    let wrong = graph.to_string().replace("segments=[8,2]", "policy=[3]");
    let error = Graph::parse(&wrong).unwrap_err().to_string();
    assert!(error.contains("`policy`"), "{error}");
}

/// A truncated reverse loop over a full buffer computes b[t] = b[t] * b[t+1]. Its gradient treats the rows written
/// before the truncation point as constants.
#[test]
fn rows_of_older_steps_are_constant_in_a_downward_loop() {
    let text = "fn @down(%b: f32[5]) {
  %rows: f32[5] = scan {steps=3, order=down, truncate=1} {
    mit-mot %x: f32[], %y: f32[] = %rows[t], %rows[t+1] from %b
    %0: f32[] = mul %x, %y
    %rows[t] = %0
  }
  %1: f32[] = reduce %rows {kind=sum, axes=[0]}
  return loss=%1
}
";
    let gradient = Graph::parse(text).unwrap().grad(.., GradOptions::new()).unwrap();
    let results = evaluate(&gradient, &[HostTensor::from([2f32, 3., 4., 5., 9.])]).unwrap();
    assert_eq!(results, [HostTensor::from([60f32, 0., 0., 1., 1.])]);
}

/// A truncated gradient is the same under every policy.
#[test]
fn no_policy_changes_a_truncated_gradient() {
    for reverse in [false, true] {
        for sizes in ["f64[6]", "f64[T]"] {
            let graph = built("truncated", |g| {
                let (xs, w) = (g.input("xs", sizes), g.input("w", "f64[]"));
                let options = ScanOptions::new().truncate(3);
                let options = if reverse { options.reverse() } else { options };
                let (last, ys) = scan_with(options, w, xs, |c, x| traced((c * w + x).sin() * c));
                last + (ys * xs).sum(0)
            });
            let of = |policy| graph.grad(.., GradOptions::new().policy(policy)).unwrap();
            let [xs, w, ..] = arguments(6);
            let arguments = [xs, w];
            let expected = evaluate(&of(CheckpointPolicy::Recompute), &arguments).unwrap();
            for policy in [
                CheckpointPolicy::SaveDots,
                CheckpointPolicy::SaveAll,
                CheckpointPolicy::Segments(2),
                CheckpointPolicy::Budget(1),
            ] {
                assert_near(&format!("{policy}"), &of(policy), &arguments, &expected);
            }
        }
    }
}
