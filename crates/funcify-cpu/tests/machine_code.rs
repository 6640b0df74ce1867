//! Tests that machine code and interpreted loops compute bit-identical results.
#![cfg(feature = "jit")]

mod numbers;

use funcify::dispatch::{Outcome, WholeRequest};
use funcify::rewrite::Rewrite;
use funcify::types::Sizes;
use funcify::{DType, GradOptions, Graph, HostTensor, Value, constant, full, scan, scan_until, select, while_loop};
use funcify_cpu::{Division, Elements, Engine, Executor, Machine, Translation, plan_graph};
use numbers::{built, inputs, traced};

/// Runs a graph. Returns its results, and `true` if one of its loops was translated to machine code.
fn run(graph: &Graph, inputs: &[HostTensor], division: Division, translation: Translation) -> (Vec<Vec<f64>>, bool) {
    let (machine, sizes) = (Machine::detect().with_translation(translation), Sizes::new());
    let whole = WholeRequest { graph, sizes: &sizes, is_program: true, memory_budget: 1 << 30, may_refuse: true };
    let engine = Engine::compile(whole, division, machine).unwrap();
    let elements = |tensor: &HostTensor| Elements::of_numbers(tensor.to_f64_vec().into_iter(), engine.dtype());
    let operands: Vec<Elements<'_>> = inputs.iter().map(elements).collect();
    let Outcome::Done(results) = engine.call(&operands, &|| false).unwrap() else { panic!("the call is refused") };
    let numbers = |result: Elements<'_>| match result {
        Elements::F32(numbers) => numbers.iter().map(|number| f64::from(*number)).collect(),
        Elements::F64(numbers) => numbers.to_vec(),
        integers => panic!("{integers:?} among floats"),
    };
    let plan = plan_graph(graph, &sizes, division, true).unwrap().plan;
    let programs = match engine.dtype() {
        DType::F64 => format!("{:?}", Executor::<f64>::new(plan, machine).unwrap()),
        _ => format!("{:?}", Executor::<f32>::new(plan, machine).unwrap()),
    };
    (results.into_iter().map(numbers).collect(), programs.contains("Routine {"))
}

/// Asserts that interpreted code and machine code compute bit-identical results, whether or not the plan is divided
/// into parts.
fn agrees(graph: Graph, shapes: &[&[usize]]) {
    let graph = graph.rewritten();
    let inputs = inputs(shapes);
    let inputs: Vec<HostTensor> =
        inputs.iter().zip(graph.inputs()).map(|(tensor, input)| tensor.cast(graph.ty(input.value).dtype)).collect();
    for division in [Division::Worthwhile, Division::Always] {
        let (interpreted, is_code) = run(&graph, &inputs, division, Translation::Never);
        assert!(!is_code, "{} is machine code", graph.name());
        let (translated, is_code) = run(&graph, &inputs, division, Translation::Always);
        assert!(is_code, "{}, {division:?}, {shapes:?} is not machine code", graph.name());
        for (x, y) in interpreted.iter().flatten().zip(translated.iter().flatten()) {
            assert_eq!(x.to_bits(), y.to_bits(), "{}, {division:?}: {x} and {y}", graph.name());
        }
    }
}

/// Tests a loop over scalars and its gradient. The loop has so many steps that it calls `stop` before it ends.
#[test]
fn a_filter_and_its_gradient() {
    for ty in ["f32", "f64"] {
        let graph = built("filter", |g| {
            let ys = g.input("ys", format!("{ty}[2500]").as_str());
            let (q, r) =
                (g.input("q", format!("{ty}[]").as_str()).exp(), g.input("r", format!("{ty}[]").as_str()).exp());
            let start = (r * 0.0, r * 100.0, r * 0.0);
            let ((_, _, cost), means) = scan(start, ys, |(m, p, cost), y: Value| {
                let (f, v) = (p + r, y - m);
                let m = m + p / f * v;
                ((m, p * r / f + q, cost + f.log() + v * v / f), m)
            });
            (cost, means)
        });
        agrees(graph.clone(), &[&[2500], &[], &[]]);
        let cost = built("cost", |g| {
            let inputs = [0, 1, 2].map(|index| g.input(["ys", "q", "r"][index], graph.input_type(index).clone()));
            graph.apply(&inputs)[0]
        });
        let gradient = cost.value_and_grad(&["q", "r"][..], GradOptions::new()).unwrap();
        agrees(gradient, &[&[2500], &[], &[]]);
    }
}

/// Tests loops whose rows end with a partly filled vector. The backward loop reads the states that the forward loop
/// wrote.
#[test]
fn coupled_states_and_their_gradient() {
    for ty in ["f32", "f64"] {
        let graph = built("coupled", |g| {
            let [re, im] = ["re", "im"].map(|name| g.input(name, format!("{ty}[7]").as_str()).tanh());
            let [x, y] = ["x", "y"].map(|name| g.input(name, format!("{ty}[40,7]").as_str()));
            let zeros = re * 0.0;
            let (_, (x, y)) = scan((zeros, zeros), (x, y), |(a, b), (x, y): (Value, Value)| {
                let (a, b) = (re * a - im * b + x, re * b + im * a + y);
                ((a, b), (a, b))
            });
            (x * 2.0 + y).square().sum(..)
        });
        let gradient = graph.value_and_grad(&["re", "im", "x"][..], GradOptions::new()).unwrap();
        agrees(gradient, &[&[7], &[7], &[40, 7], &[40, 7]]);
    }
}

/// Tests a loop of many steps, each of which reads two slices along an axis. The first slices of successive steps are
/// not adjacent in memory, and neither are the second slices. Each step reads its second slice first.
#[test]
fn parts_of_an_axis() {
    let graph = built("parts", |g| {
        let (start, xs) = (g.input("start", "f32[6]"), g.input("xs", "f32[2500,2,6]"));
        scan(start, xs, |h, x: Value| traced((x.index(0, 1) - x.index(0, 0) * h) * 0.5))
    });
    agrees(graph, &[&[6], &[2500, 2, 6]]);
}

/// Tests vector-matrix products and their gradients, with lanes that do not fill whole vectors, and with inner sizes
/// that are not multiples of four.
#[test]
fn networks_of_one_row() {
    for (ty, width) in [("f32", 3), ("f32", 10), ("f32", 32), ("f64", 5), ("f64", 18)] {
        let graph = built("network", |g| {
            let input = |name: &str, shape: &str| g.input(name, format!("{ty}[{shape}]").as_str());
            let (h, xs) = (input("h", &format!("1,{width}")), input("xs", "50,1,2"));
            let [w, v] = ["w", "v"].map(|name| input(name, &format!("{width},{width}")));
            let u = input("u", &format!("2,{width}"));
            let (_, ys) = scan((h, h), xs, |(a, b), x: Value| {
                let next = ((a.matmul(w) + b.matmul(v)) * 0.2 + x.matmul(u)).tanh();
                ((next, a), next)
            });
            ys.square().sum(..)
        });
        let shapes: [&[usize]; 5] = [&[1, width], &[50, 1, 2], &[width, width], &[width, width], &[2, width]];
        agrees(graph.clone(), &shapes);
        let gradient = graph.value_and_grad(&["w", "v", "h"][..], GradOptions::new()).unwrap();
        agrees(gradient, &shapes);
    }
}

/// Tests a sum of two products with different inner sizes.
#[test]
fn products_with_two_numbers_of_terms() {
    for (ty, width) in [("f64", 18), ("f64", 10), ("f32", 32), ("f32", 20)] {
        let graph = built("products", |g| {
            let input = |name: &str, shape: String| g.input(name, format!("{ty}[{shape}]").as_str());
            let (s, h) = (input("s", "1,3".into()), input("h", format!("1,{width}")));
            let (w, u) = (input("w", format!("3,{width}")), input("u", format!("{width},{width}")));
            let (_, ys) = scan((s, h), input("xs", "50,1,3".into()), |(s, h), x: Value| {
                let next = (s.matmul(w) + h.matmul(u)).tanh();
                (((s * 0.5 + x).sin(), next), next)
            });
            ys
        });
        agrees(graph, &[&[1, 3], &[1, width], &[3, width], &[width, width], &[50, 1, 3]]);
    }
}

/// Tests functions that are translated inline, functions that are called, folds, and comparisons.
#[test]
fn functions_of_numbers() {
    let told = |x: Value, h: Value| {
        let (large, small) = (x * 30.0, x * 1e-3);
        vec![large.exp(), small.expm1(), large.log(), small.log1p(), (large + h).tanh(), large.expm1(), small.sigmoid()]
    };
    let called =
        |x: Value, h: Value| vec![(x * 30.0).sin(), x.cos(), (x * 0.5).asin(), x.abs().pow(h), x.floor(), x.sign()];
    let simple = |x: Value, h: Value| {
        vec![x.abs().sqrt(), x.maximum(h), x.minimum(h), x.recip(), select(x.lt(h), x, h), x.sum(..) + h, x.max(..)]
    };
    type Functions<'f> = &'f dyn Fn(Value, Value) -> Vec<Value>;
    let groups: [(&str, Functions<'_>); 3] = [("told", &told), ("called", &called), ("simple", &simple)];
    for (ty, lanes) in [("f32", 1), ("f32", 6), ("f64", 1), ("f64", 3)] {
        for (name, functions) in groups {
            let graph = built(name, |g| {
                let start = g.input("start", format!("{ty}[{lanes}]").as_str());
                let xs = g.input("xs", format!("{ty}[60,{lanes}]").as_str());
                scan(start, xs, |h, x: Value| {
                    let values = functions(x, h);
                    let sum = values.iter().fold(h * 0.25, |sum, value| sum * 0.5 + *value * 1e-3);
                    (select(sum.lt(1.0), sum, x), values)
                })
            });
            agrees(graph, &[&[lanes], &[60, lanes]]);
        }
    }
}

/// Loops with early exit return the values of the step that ended them.
#[test]
fn loops_that_end_early() {
    let search = built("search", |g| {
        let (start, xs) = (g.input("start", "f32[]"), g.input("xs", "f32[3000]"));
        scan_until(start, xs, |sum, x: Value| {
            let sum = sum + x.abs();
            (sum, (), sum.gt(1200.0))
        })
        .0
    });
    agrees(search, &[&[], &[3000]]);
    let root = built("root", |g| {
        let (a, x) = (g.input("a", "f64[]").abs() + 2.0, g.input("x", "f64[]").abs() + 1.0);
        while_loop((x, constant(0f64)), |(x, _)| (x * x - a).abs().gt(1e-9), |(x, n)| ((x + a / x) * 0.5, n + 1.0))
    });
    agrees(root, &[&[], &[]]);
}

/// Each step reads rows that earlier steps wrote and later steps overwrite. The loop's code therefore loads values that
/// it has stored itself.
#[test]
fn rows_that_are_read_where_they_were_written() {
    let graph = built("lags", |g| {
        let xs = g.input("xs", "f32[200,3]");
        let zeros = full([3], DType::F32, 0.0);
        let (_, ys) = scan((zeros, zeros, zeros), xs, |(a, b, c), x: Value| {
            let next = x + a * 0.5 - b * 0.25 + c * 0.125;
            ((next, a, b), (next, a * c))
        });
        (ys.0 + ys.1).square().sum(..)
    });
    let gradient = graph.value_and_grad(&["xs"][..], GradOptions::new()).unwrap();
    agrees(gradient, &[&[200, 3]]);
}

/// The last vector of a product also contains padding after the last column. The padding must not affect the single
/// element that is read from this vector.
#[test]
fn a_product_of_one_column_more_than_registers_hold() {
    for (ty, width) in [("f32", 3), ("f64", 3), ("f64", 5)] {
        let graph = built("columns", |g| {
            let input = |name: &str, shape: String| g.input(name, format!("{ty}[{shape}]").as_str());
            let (c, w) = (input("c", format!("1,{width}")), input("w", format!("{width},1")));
            let body = |c: Value, ()| ((c * c.matmul(w)).cos(), ());
            funcify::scan_with(funcify::ScanOptions::new().length(8), c, (), body).0
        });
        let shapes: [&[usize]; 2] = [&[1, width], &[width, 1]];
        let inputs = inputs(&shapes);
        let inputs: Vec<HostTensor> =
            inputs.iter().zip(graph.inputs()).map(|(tensor, input)| tensor.cast(graph.ty(input.value).dtype)).collect();
        let expected = funcify::evaluate(&graph, &inputs).unwrap();
        let (found, is_code) = run(&graph, &inputs, Division::Worthwhile, Translation::Always);
        assert!(is_code, "{width} columns of {ty} are not machine code");
        for (found, expected) in found.iter().flatten().zip(expected.iter().flat_map(HostTensor::to_f64_vec)) {
            assert!((found - expected).abs() < 1e-4 * (1.0 + expected.abs()), "{ty}, {width}: {found} and {expected}");
        }
    }
}
