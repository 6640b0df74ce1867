//! Tests nested loops and conds: the work of a pass must not double with each level of nesting, and an op that fails
//! during a pass must result in an error.

use funcify::dispatch::{Function, Reference};
use funcify::prelude::*;
use funcify::{AssociativeScanOptions, Disconnected, VmapOptions, associative_scan_with};
use funcify_core::graph::{failing, work};

const KINDS: [&str; 6] = ["scan", "counted", "while", "cond", "associative", "fresh state"];

/// Builds `depth` nested bodies of the same kind. The innermost body computes `sin(x * w)`.
fn nested_body(kind: &'static str, depth: usize, x: Value, w: Value) -> Value {
    if depth == 0 {
        return (x * w).sin();
    }
    let inner = |x: Value| nested_body(kind, depth - 1, x, w);
    match kind {
        "scan" => scan(x, w.broadcast_to([1]), |x, row| (inner(x) + row, ())).0,
        "counted" => fori_loop(0, w.gt(0.0).cast(funcify::DType::I64), x, |_, x| inner(x)),
        "while" => while_loop((x, w.gt(0.0)), |(_, go)| go, |(x, go)| (inner(x), !go)).0,
        "cond" => cond(x.lt(100.0), || inner(x), || x * w),
        "associative" => {
            let ys = associative_scan_with(AssociativeScanOptions::new(), stack(&[x, w], 0), |a: Value, b: Value| {
                inner(a) + b
            });
            ys.index(0, 1)
        }
        // The initial states have no lanes, tangents or cotangents. The states acquire them from the results of the
        // step.
        "fresh state" => {
            let init = (x.zeros_like().stop_gradient(), x.zeros_like().stop_gradient());
            let step = |(_, last): (Value, Value), row: Value| ((inner(last + row), row), ());
            scan(init, stack(&[x, w], 0), step).0.0
        }
        kind => panic!("{kind}"),
    }
}

fn nest(kind: &'static str, depth: usize) -> Graph {
    let built = Graph::build("nest", |g| {
        let [x, w] = [g.input("x", "f64[]"), g.input("w", "f64[]")];
        nested_body(kind, depth, x, w)
    });
    built.unwrap_or_else(|error| panic!("{kind}: {error}"))
}

fn grad(graph: &Graph) -> Graph {
    let options = GradOptions::new().disconnected(Disconnected::Zeros);
    graph.grad("x", options).unwrap_or_else(|error| panic!("{error}"))
}

fn lanes(graph: &Graph) -> Graph {
    graph.vmap(3, VmapOptions::new().in_axes([("x", 0)])).unwrap_or_else(|error| panic!("{error}"))
}

/// Asserts that doubling the nesting depth multiplies the work of a pass by at most `2^power`.
fn assert_growth(kind: &'static str, pass: &str, depth: usize, power: u32, f: impl Fn(&Graph)) {
    let [one, two] = [depth, 2 * depth].map(|depth| {
        let graph = nest(kind, depth);
        work::measure(|| f(&graph)).1.max(1)
    });
    // The factor 5/4 allows for lower-order terms.
    assert!(two <= one * 2usize.pow(power) * 5 / 4, "{kind}, {pass}: {one} at {depth} levels, {two} at twice as many");
}

#[test]
fn work_does_not_multiply_with_the_levels_of_a_nest() {
    for kind in KINDS {
        assert_growth(kind, "grad", 8, 2, |graph| _ = grad(graph));
        assert_growth(kind, "jvp", 8, 2, |graph| _ = graph.jvp(["x"]).unwrap());
        assert_growth(kind, "vmap", 8, 2, |graph| _ = lanes(graph));
        assert_growth(kind, "pruned", 8, 1, |graph| _ = graph.pruned());
        assert_growth(kind, "text", 8, 1, |graph| _ = Graph::parse(&graph.to_string()).unwrap());
        if kind != "associative" {
            // An associative scan compiles to two programs that both contain the combining function, so the work
            // doubles with each level.
            assert_growth(kind, "program", 8, 2, |graph| {
                let inputs = [0.3, 0.7].map(HostTensor::scalar);
                _ = Function::compile(graph, &Reference).unwrap().call_host(&inputs).unwrap();
            });
        }
        assert_growth(kind, "second derivative", 4, 4, |graph| _ = graph.hvp("x", GradOptions::new()).unwrap());
        assert_growth(kind, "lanes of the gradient", 4, 3, |graph| _ = lanes(&grad(graph)));
        assert_growth(kind, "gradient of lanes", 4, 3, |graph| {
            let options = GradOptions::new().disconnected(Disconnected::Zeros);
            _ = lanes(graph).vjp("x", options).unwrap();
        });
    }
}

#[test]
fn sixty_four_levels_are_differentiated() {
    for kind in KINDS {
        let nest = nest(kind, 64);
        let (gradient, work) = work::measure(|| grad(&nest));
        assert!(work < 400_000, "{kind}: {work} nodes");
        assert!(gradient.check().is_ok(), "{kind}");
    }
}

/// The gradient of a nest agrees with finite differences, and the batched gradient with the gradient of each lane.
#[test]
fn a_nest_gives_what_its_levels_give() {
    let [x, w] = [0.3, 0.7].map(HostTensor::scalar);
    for kind in KINDS {
        let nest = nest(kind, 3);
        let gradient = grad(&nest);
        let value = |x: f64| evaluate(&nest, &[HostTensor::scalar(x), w.clone()]).unwrap()[0].to_f64_vec()[0];
        let slope = evaluate(&gradient, &[x.clone(), w.clone()]).unwrap()[0].to_f64_vec()[0];
        let difference = (value(0.3 + 1e-6) - value(0.3 - 1e-6)) / 2e-6;
        assert!((slope - difference).abs() < 1e-8, "{kind}: {slope}, not {difference}");
        let xs = [0.3, -0.2, 0.9];
        let all = evaluate(&lanes(&gradient), &[HostTensor::from(xs), w.clone()]).unwrap()[0].to_f64_vec();
        for (x, lane) in xs.into_iter().zip(all) {
            let one = evaluate(&gradient, &[HostTensor::scalar(x), w.clone()]).unwrap()[0].to_f64_vec()[0];
            assert!((one - lane).abs() < 1e-12, "{kind}: {lane}, not {one}");
        }
    }
}

#[test]
fn an_op_that_fails_in_a_pass_is_an_error() {
    for kind in KINDS {
        let nest = nest(kind, 2);
        let gradient = grad(&nest);
        failing::check_each_op_failing(|| nest.grad("x", GradOptions::new().disconnected(Disconnected::Zeros)));
        failing::check_each_op_failing(|| nest.jvp(["x"]));
        let with_lanes = || VmapOptions::new().in_axes([("x", 0)]);
        failing::check_each_op_failing(|| nest.vmap(3, with_lanes()));
        failing::check_each_op_failing(|| gradient.vmap(3, with_lanes()));
    }
}
