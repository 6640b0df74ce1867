//! Tests that compiled programs use the composition of a custom op and that other programs use its kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use funcify::dispatch::{CompileOptions, Executor, LoopStrategy, Reference};
use funcify::error::Site;
use funcify::ops::{Attributes, Custom, CustomOp, EvalContext, Failed};
use funcify::{
    DType, Error, GradOptions, Graph, HostTensor, Result, Scalar, ScanOptions, TensorType, Value, VmapOptions, apply,
    cond, custom_op, evaluate, funcify, scan, scan_until_with,
};
use funcify_burn::Burn;
use funcify_candle::Candle;
use funcify_cpu::Cpu;
use funcify_tests::softplus::softplus;
use funcify_tests::toy::Toy;
use funcify_tests::{built, traced};

#[path = "../../crates/funcify/tests/elementwise/mod.rs"]
mod elementwise;
use elementwise::elementwise;

/// The kinds of composition that [`Shift`] can have: a correct one, and several wrong or special ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Composition {
    Right,
    None,
    OtherDtype,
    OtherShape,
    TwoResults,
    OfItself,
    /// A correct composition that contains a second custom op and a loop, which binds its own number of steps.
    Loop,
}

use Composition::{Loop, None as Bare, OfItself, OtherDtype, OtherShape, Right, TwoResults};

const COMPOSITIONS: [Composition; 7] = [Right, Bare, OtherDtype, OtherShape, TwoResults, OfItself, Loop];

/// The op `shift {composition=0}`, which computes `x + 1` and has no kernel on any backend.
#[derive(Clone, Copy, Debug)]
struct Shift(Composition);

custom_op!(Shift, "shift", |attributes| {
    let index = attributes.take_usize("composition")?;
    COMPOSITIONS.get(index).map(|composition| Shift(*composition)).ok_or("a composition".to_string())
});

#[track_caller]
fn shift(x: Value, composition: Composition) -> Value {
    apply(Custom::new(Shift(composition)), &[x])[0]
}

fn add_to_each(inputs: &[HostTensor], number: f64) -> Vec<HostTensor> {
    let x = &inputs[0];
    vec![HostTensor::from_fn(x.dtype(), x.shape(), |index| Scalar::Float(x.at(index).as_f64() + number))]
}

impl CustomOp for Shift {
    elementwise!();

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        Ok(add_to_each(inputs, 1.0))
    }

    fn attributes(&self) -> Attributes {
        let index = COMPOSITIONS.iter().position(|composition| *composition == self.0);
        Attributes::new().with("composition", index.expect("all are listed"))
    }

    fn composition(&self, operands: &[Value]) -> Result<Option<Vec<Value>>, Failed> {
        let x = operands[0];
        Ok(match self.0 {
            Right => Some(vec![x + 1.0]),
            Bare => None,
            OtherDtype => Some(vec![(x + 1.0).cast(DType::F32)]),
            OtherShape => Some(vec![(x + 1.0).unsqueeze(0)]),
            TwoResults => Some(vec![x + 1.0, x]),
            OfItself => Some(vec![shift(x, OfItself)]),
            Loop => {
                // Add 1 in parts: each step adds half of the remainder. The loop exits once the remainder is small, and
                // the remainder is then added.
                let one = x.zeros_like().sum(0) + 1.0;
                let ((sum, rest), ()) =
                    scan_until_with(ScanOptions::new().length(10), (x, one), (), |(sum, rest), ()| {
                        let rest = rest * 0.5;
                        ((sum + rest, rest), (), rest.lt(0.1))
                    });
                let nothing = softplus(x.zeros_like() - 800.0, 1);
                Some(vec![sum + rest + nothing])
            }
        })
    }
}

/// The op `count`, which computes `x + 1`. Its kernel on `cpu` counts its calls.
#[derive(Clone, Copy, Debug)]
struct Count;

custom_op!(Count, "count", |_attributes| Ok(Count));

static CALLS: AtomicUsize = AtomicUsize::new(0);

funcify!(Cpu, Count, |_call, [x]| {
    CALLS.fetch_add(1, Ordering::Relaxed);
    Ok::<_, Error>(Arc::new(add_to_each(&[(*x).clone()], 1.0).remove(0)))
});

impl CustomOp for Count {
    elementwise!(|inputs| add_to_each(inputs, 1.0));

    fn composition(&self, operands: &[Value]) -> Result<Option<Vec<Value>>, Failed> {
        Ok(Some(vec![operands[0] + 1.0]))
    }
}

/// Returns the backends that compile whole loops.
fn compiling_backends() -> [Arc<dyn Executor>; 4] {
    [Arc::new(Cpu::default()), Arc::new(Candle::cpu()), Arc::new(Burn::flex()), Arc::new(Burn::ndarray())]
}

fn options(strategy: LoopStrategy) -> CompileOptions {
    CompileOptions { strategy, ..CompileOptions::default() }
}

/// Builds the graph of a loop's loss. The step of the loop applies `softplus` both directly and inside a `cond`.
fn recurrence() -> Graph {
    built("recurrence", |g| {
        let [xs, start, decay] = [g.input("xs", "f64[T,2]"), g.input("start", "f64[2]"), g.input("decay", "f64[]")];
        let (last, all) = scan(start, xs, |state, x| {
            let next = softplus(state * decay + x, 3).tanh();
            let next = cond(next.sum(0).gt(0.5), || softplus(next, 2) * 0.5, || -next);
            (next, next - x)
        });
        last.sum(0) + (all * all).sum(0).sum(0)
    })
}

fn arguments() -> Vec<HostTensor> {
    let xs = [[0.5f64, -1.0], [2.0, 0.25], [-0.75, 1.5], [0.0, -2.0]];
    vec![xs.into(), [0.1f64, -0.2].into(), 0.9f64.into()]
}

#[track_caller]
fn assert_close(at: &str, found: &[HostTensor], expected: &[HostTensor]) {
    assert_eq!(found.len(), expected.len(), "{at}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.ty(), expected.ty(), "{at}");
        for (found, expected) in found.to_f64_vec().into_iter().zip(expected.to_f64_vec()) {
            assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{at}: {found}, not {expected}");
        }
    }
}

/// Returns the loop of [`recurrence`], its gradient, its second derivative, and the batched forms of the loop and of
/// its gradient, each with arguments.
fn programs() -> Vec<(&'static str, Graph, Vec<HostTensor>)> {
    let forward = recurrence();
    let gradient = forward.grad(.., GradOptions::new()).unwrap();
    let along = gradient.jvp(["decay"]).unwrap();
    let lanes = VmapOptions::new().in_axes([Some(0), None, None]);
    let (batched, batched_gradient) = (forward.vmap(2, lanes.clone()).unwrap(), gradient.vmap(2, lanes).unwrap());
    let one = arguments();
    let with_tangent = [one.clone(), vec![HostTensor::scalar(1.0f64)]].concat();
    let two = one[0].to_f64_vec();
    let two = HostTensor::from_vec(two.iter().chain(two.iter().rev()).copied().collect::<Vec<f64>>(), [2, 4, 2]);
    let on_lanes = [vec![two.unwrap()], one[1..].to_vec()].concat();
    vec![
        ("forward", forward, one.clone()),
        ("gradient", gradient, one),
        ("second derivative", along, with_tangent),
        ("lanes", batched, on_lanes.clone()),
        ("gradient on lanes", batched_gradient, on_lanes),
    ]
}

#[test]
fn loops_with_a_custom_op_are_compiled() {
    for (name, graph, inputs) in programs() {
        assert!(graph.to_string().contains("softplus"), "{name}: {graph}");
        let expected = evaluate(&graph, &inputs).unwrap();
        for backend in compiling_backends() {
            let at = format!("{name} on {}", backend.name());
            let run = |strategy| {
                let executable = backend.compile(&graph, options(strategy)).unwrap();
                (executable.call(&inputs).unwrap(), executable.report())
            };
            let (compiled, report) = run(LoopStrategy::Auto);
            assert!(!report.loops.is_empty(), "{at}");
            for each in &report.loops {
                assert_eq!((each.strategy, &each.declined), (LoopStrategy::Compiled, &None), "{at}\n{report}");
            }
            assert_close(&at, &compiled, &expected);
            let (by_kernels, _) = run(LoopStrategy::Native);
            assert_close(&at, &compiled, &by_kernels);
        }
    }
}

/// Builds a loop whose step applies `shift` with this composition.
fn shift_loop(composition: Composition) -> Graph {
    built("shifting", |g| {
        let (start, xs) = (g.input("start", "f64[2]"), g.input("xs", "f64[T,2]"));
        scan(start, xs, |state, x| traced(shift(state * 0.5, composition) + shift(x, composition)))
    })
}

fn two_and_rows() -> Vec<HostTensor> {
    vec![HostTensor::from([1.0f64, -2.0]), HostTensor::from([[0.5f64, 1.0], [2.0, -3.0], [0.0, 4.0]])]
}

#[test]
fn the_report_tells_how_to_add_a_composition() {
    let (graph, inputs) = (shift_loop(Bare), two_and_rows());
    let cpu: Arc<dyn Executor> = Arc::new(Cpu::default());
    let executable = cpu.compile(&graph, options(LoopStrategy::Auto)).unwrap();
    assert_close("native", &executable.call(&inputs).unwrap(), &evaluate(&graph, &inputs).unwrap());
    let report = executable.report();
    let declined = report.loops[0].declined.as_ref().expect("the op keeps it from being compiled");
    assert_eq!(report.loops[0].strategy, LoopStrategy::Native);
    assert_eq!(declined.op, "shift");
    let fix = "implement `CustomOp::composition` for it, so that it can be compiled";
    assert_eq!(declined.reason, format!("the custom op has no composition; {fix}"));
}

#[test]
fn a_composition_of_other_types_is_an_error_when_compiling() {
    let all: [Arc<dyn Executor>; 2] = [Arc::new(Reference), Arc::new(Toy)];
    for backend in all.into_iter().chain(compiling_backends()) {
        for (composition, component, expected, found) in [
            (OtherDtype, "result 0 of its composition", "f64[2]", "f32[2]"),
            (OtherShape, "result 0 of its composition", "f64[2]", "f64[1,2]"),
            (TwoResults, "the results of its composition", "1", "2"),
        ] {
            let mut line = 0;
            let graph = built("wrong", |g| {
                let (start, xs) = (g.input("start", "f64[2]"), g.input("xs", "f64[T,2]"));
                scan(start, xs, |state, x| {
                    line = line!() + 1;
                    let next = shift(state, composition);
                    (next + x, ())
                })
            });
            let error = backend.compile(&graph, CompileOptions::default()).err();
            let error = error.unwrap_or_else(|| panic!("{composition:?} on {}", backend.name()));
            let Error::Type { at, component: named, expected: own, found: other, fix } = &error else {
                panic!("{error}")
            };
            assert_eq!((named.as_str(), own.as_str(), other.as_str()), (component, expected, found), "{error}");
            assert_eq!(at.op, "shift");
            assert!(fix.contains("`CustomOp::composition` of `shift`"), "{error}");
            let Site::Rust(location) = at.site else { panic!("{error}") };
            assert!(location.file().ends_with("compositions.rs") && location.line() == line, "{error}");
        }
    }
}

/// Checks that each use of a composition has its own symbols for its loops, and that a composition may contain custom
/// ops.
#[test]
fn a_composition_has_loops_and_custom_ops_of_its_own() {
    let (graph, inputs) = (shift_loop(Loop), two_and_rows());
    let expected = evaluate(&graph, &inputs).unwrap();
    let all: [Arc<dyn Executor>; 1] = [Arc::new(Reference)];
    for backend in all.into_iter().chain(compiling_backends()) {
        for strategy in [LoopStrategy::Auto, LoopStrategy::Native, LoopStrategy::Unroll] {
            let executable = backend.compile(&graph, options(strategy)).unwrap();
            let results = executable.call(&inputs);
            // Candle's and Burn's programs include the composition's loops, which cannot be unrolled.
            match (strategy, results) {
                (LoopStrategy::Unroll, Err(Error::StepCountNotStatic { .. })) => {}
                (_, results) => assert_close(backend.name(), &results.unwrap(), &expected),
            }
        }
    }
}

#[test]
fn a_composition_of_itself_is_an_error() {
    for backend in compiling_backends() {
        let error = backend.compile(&shift_loop(OfItself), CompileOptions::default()).err();
        let error = error.unwrap_or_else(|| panic!("{}", backend.name()));
        assert!(matches!(&error, Error::Type { at, .. } if at.op == "shift"), "{error}");
        assert!(error.to_string().contains("at most 64 nested compositions"), "{error}");
    }
}

#[test]
fn a_backend_without_a_kernel_runs_the_composition() {
    let (graph, inputs) = (shift_loop(Right), two_and_rows());
    let expected = evaluate(&graph, &inputs).unwrap();
    for backend in compiling_backends() {
        for strategy in [LoopStrategy::Auto, LoopStrategy::Native, LoopStrategy::Unroll] {
            let executable = backend.compile(&graph, options(strategy)).unwrap();
            assert_close(backend.name(), &executable.call(&inputs).unwrap(), &expected);
        }
    }
    let error = Candle::cpu().compile(&shift_loop(Bare), CompileOptions::default()).err();
    let Some(Error::NoLoweringRule { at, fix, .. }) = error else { panic!("{error:?}") };
    assert_eq!(at.op, "shift");
    assert!(fix.contains("`CustomOp::composition`"), "{fix}");
}

/// Checks that op-by-op execution uses the kernel, and that compiled programs use the composition.
#[test]
fn the_kernel_serves_op_by_op() {
    let graph = Graph::build("counting", |g| {
        let (start, xs) = (g.input("start", "f64[2]"), g.input("xs", "f64[T,2]"));
        scan(start, xs, |state, x| (apply(Custom::new(Count), &[state * 0.5])[0] + x, ())).0
    });
    let (graph, cpu) = (graph.unwrap(), Arc::new(Cpu::default()) as Arc<dyn Executor>);
    let calls = |strategy| {
        let before = CALLS.load(Ordering::Relaxed);
        cpu.compile(&graph, options(strategy)).unwrap().call(&two_and_rows()).unwrap();
        CALLS.load(Ordering::Relaxed) - before
    };
    assert_eq!((calls(LoopStrategy::Native), calls(LoopStrategy::Auto)), (3, 0));
    // Outside of compiled loops, a custom op on many elements is compiled on its own, unless it has a kernel.
    let graph = built("beside", |g| {
        let x = shift(g.input("x", "f64[128]"), Bare);
        apply(Custom::new(Count), &[x])[0]
    });
    let before = CALLS.load(Ordering::Relaxed);
    let x = HostTensor::from_vec(vec![1.0f64; 128], [128]).unwrap();
    let results = cpu.compile(&graph, CompileOptions::default()).unwrap().call(&[x]).unwrap();
    assert_eq!((results[0].get(0).as_f64(), CALLS.load(Ordering::Relaxed) - before), (3.0, 1));
}
