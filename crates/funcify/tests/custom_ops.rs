//! Tests custom ops in every pass: no pass may assume a property that an op does not declare.

use funcify::dispatch::{CompileOptions, Function, LoopStrategy, Reference};
use funcify::error::Result;
use funcify::ops::{Attributes, Custom, CustomOp, EvalContext, Lanes, OpClass};
use funcify::prelude::*;
use funcify::rewrite::RewriteOptions;
use funcify::stepped::Steppable;
use funcify::{apply, custom_op};

mod elementwise;
use elementwise::elementwise;

/// An identity op that fails on negative elements.
#[derive(Clone, Copy, Debug)]
struct Guarded {
    /// `true` if the op declares that it acts on each lane independently.
    declares_lanes: bool,
    /// `true` if the op declares that it may fail.
    declares_refusals: bool,
}
custom_op!(Guarded, "guarded", |attributes| Ok(Guarded {
    declares_lanes: attributes.take_word("lanes")? == "yes",
    declares_refusals: attributes.take_word("refusals")? == "yes",
}));

const WITHOUT_LANES: Guarded = Guarded { declares_lanes: false, declares_refusals: true };

impl CustomOp for Guarded {
    elementwise!();

    fn eval(&self, context: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        match inputs[0].to_f64_vec().into_iter().find(|x| *x < 0.0) {
            Some(x) => Err(context.at.mismatch("the operand", "no negative number", x, "give another one")),
            None => Ok(inputs.to_vec()),
        }
    }

    fn attributes(&self) -> Attributes {
        let word = |says| if says { "yes" } else { "no" };
        Attributes::new().with("lanes", word(self.declares_lanes)).with("refusals", word(self.declares_refusals))
    }

    fn may_fail_at_run_time(&self) -> bool {
        self.declares_refusals
    }

    fn lanes_along(&self, axis: usize, _: &[&TensorType], _: &[&TensorType]) -> Option<Lanes> {
        self.declares_lanes.then(|| [Some(axis)].into_iter().collect())
    }
}

fn guarded(op: Guarded, x: Value) -> Value {
    apply(Custom::new(op), &[x])[0]
}

fn build<T: Tree>(program: impl FnOnce(&Builder) -> T) -> Graph {
    Graph::build("guarded", program).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the trace 1, 2, ... of a loop of `n` steps.
fn counted(n: Value) -> Value {
    let mut loop_ = Recurrence::new();
    let state = loop_.sit_sot(constant(0f32));
    let done = loop_.steps_value(n).run(|step| {
        let [old] = step.read(&state);
        step.write(&state, old + 1.0);
    });
    done.trace(&state)
}

/// Evaluates a graph. Asserts that compiled programs return the same results as the reference evaluator, or fail if the
/// reference evaluator fails. Compiles the graph with several loop strategies, with and without rewrites.
fn run(graph: &Graph, inputs: &[HostTensor]) -> Result<Vec<HostTensor>, Error> {
    let expected = evaluate(graph, inputs);
    for strategy in [LoopStrategy::Auto, LoopStrategy::Native, LoopStrategy::Unroll] {
        for rewrites in [None, Some(RewriteOptions::default())] {
            let options = CompileOptions { strategy, rewrites, ..CompileOptions::default() };
            let found = Function::compile_with(graph, &Reference, options).unwrap().call_host(inputs);
            assert_eq!(found.is_ok(), expected.is_ok(), "{}: {found:?}\n{graph}", strategy.name());
            if let (Ok(found), Ok(expected)) = (&found, &expected) {
                assert_eq!(found, expected, "{graph}");
            }
        }
    }
    expected
}

/// An op that may fail is not hoisted out of a loop, although its operand is loop-invariant: it runs only if the loop
/// has at least one step.
#[test]
fn it_is_not_run_where_it_would_not_have_run() {
    let graph = build(|g| {
        let (xs, w) = (g.input("xs", "f32[T]"), g.input("w", "f32[]"));
        scan(xs.sum(0) * 0.0, xs, |c, x| (c + x * guarded(WITHOUT_LANES, w), ())).0
    });
    let of = |steps: usize, w: f32| run(&graph, &[HostTensor::zeros(DType::F32, &[steps]), HostTensor::scalar(w)]);
    assert!(of(0, -1.0).is_ok());
    assert!(of(3, 1.0).is_ok());
    assert!(of(3, -1.0).is_err());
}

/// Rewrites do not remove an op that may fail, even if its result is unused.
#[test]
fn a_refusal_stays_one_where_a_rewrite_finds_the_result_unused() {
    let graph = build(|g| {
        let x = g.input("x", "f32[3]");
        guarded(WITHOUT_LANES, x).slice(0, 0..0).sum(0) + x.sum(0)
    });
    assert!(run(&graph, &[HostTensor::from([1f32, 2.0, 3.0])]).is_ok());
    assert!(run(&graph, &[HostTensor::from([1f32, -2.0, 3.0])]).is_err());
}

/// An op that declares that it cannot fail is hoisted out of the loop.
#[test]
fn one_that_is_not_refused_leaves_the_loop() {
    let of = |op: Guarded| {
        let graph = build(|g| {
            let (xs, w) = (g.input("xs", "f32[T]"), g.input("w", "f32[]"));
            scan(xs.sum(0) * 0.0, xs, |c, x| (c + x * guarded(op, w), ())).0
        });
        let function = Function::compile(&graph, &Reference).unwrap();
        let inputs = [HostTensor::from([1f32, 2.0]), HostTensor::scalar(3f32)];
        let (_, profile) = function.profile_host(&inputs).unwrap();
        profile.by_op().iter().find(|share| share.name == "guarded").map(|share| share.count)
    };
    assert_eq!(of(Guarded { declares_refusals: false, ..WITHOUT_LANES }), Some(1));
    assert_eq!(of(WITHOUT_LANES), Some(2));
}

/// A stepper accepts the op only if it declares that it acts on each row independently.
#[test]
fn it_is_served_step_by_step_if_it_says_so() {
    let of = |declares_lanes: bool| {
        build(|g| {
            let ys = guarded(Guarded { declares_lanes, ..WITHOUT_LANES }, g.input("xs", "f32[T,2]"));
            scan(full([2], DType::F32, 0.0), ys, |c, y| (c + y, c + y)).1
        })
    };
    let refused = of(false).stepped().unwrap_err().to_string();
    assert!(refused.contains("guarded") && refused.contains("not known to act on each step alone"), "{refused}");
    let stepped = of(true).stepped().unwrap();
    let step = [HostTensor::from([1f32, 2.0]), HostTensor::from([3f32, 4.0])];
    assert_eq!(evaluate(&stepped.step, &step).unwrap()[1], HostTensor::from([4f32, 6.0]));
}

/// Ragged lanes are rejected, because the op might read their padding.
#[test]
fn lanes_of_different_sizes_are_refused() {
    let program = |n: Value| {
        let counted = counted(n);
        guarded(WITHOUT_LANES, counted).sum(0)
    };
    let error = Graph::build("ragged", |g| vmap(g.input("n", "i64[3]"), program)).unwrap_err().to_string();
    assert!(error.contains("guarded"), "{error}");
}

/// The straight-line form of a program contains the op once per step.
#[test]
fn the_straight_line_has_it() {
    let graph = build(|g| {
        let x = g.input("x", "f32[]");
        fori_loop(0, 3, x, |_, x| guarded(WITHOUT_LANES, x) + 1.0)
    });
    let straight = graph.straight(&[HostTensor::scalar(1f32)]).unwrap();
    let count = straight.nodes().iter().filter(|node| matches!(node.op.class(), OpClass::Custom(_))).count();
    assert_eq!(count, 3, "{straight}");
}

/// A backend that compiles loops cannot compile the op, so the loop runs natively, with the same result.
#[test]
#[cfg(feature = "cpu")]
fn a_loop_with_it_is_not_compiled() {
    let graph = build(|g| {
        let (xs, w) = (g.input("xs", "f32[T,4]"), g.input("w", "f32[4]"));
        scan(w * 0.0, xs, |c, x| (guarded(WITHOUT_LANES, c + x * w), ())).0
    });
    let inputs = [HostTensor::from([[2f32; 4]; 5]), HostTensor::from([3f32; 4])];
    let function = Function::compile(&graph, &funcify::Cpu::default()).unwrap();
    assert_eq!(function.call_host(&inputs).unwrap(), evaluate(&graph, &inputs).unwrap());
    let report = function.report();
    let mut reasons = report.loops.iter().map(|each| each.declined.as_ref().expect("it is declined").to_string());
    assert!(reasons.all(|reason| reason.contains("guarded")), "{report}");
}
