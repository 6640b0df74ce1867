//! Compares the derivatives of associative scans with those of equivalent sequential loops.

mod shared;

use funcify::dispatch::{Function, Reference};
use funcify::ops::Op;
use funcify::prelude::*;
use funcify::{AssociativeScanOptions, Disconnected, associative_scan_with, grad_with};
use shared::built;

/// A function that combines two elements, each with several leaves. The last argument is a captured value.
type Combine = fn(&[Value], &[Value], Value) -> Vec<Value>;

/// The elementwise combining functions, each with its name and its number of leaves.
const BY_ELEMENT: [(&str, usize, Combine); 14] = [
    ("sum", 1, |a, b, _| vec![a[0] + b[0]]),
    ("product", 1, |a, b, _| vec![a[0] * b[0]]),
    ("largest", 1, |a, b, _| vec![a[0].maximum(b[0])]),
    ("first", 1, |a, _, _| vec![a[0]]),
    ("second", 1, |_, b, _| vec![b[0]]),
    ("rounded", 1, |a, b, _| vec![a[0].floor() + b[0]]),
    ("captured", 1, |a, b, k| vec![a[0] + b[0] + k * a[0] * b[0]]),
    ("logaddexp", 1, |a, b, _| vec![a[0].maximum(b[0]) + (-(a[0] - b[0]).abs()).exp().log1p()]),
    ("affine", 2, |a, b, _| vec![b[0] * a[0], b[0] * a[1] + b[1]]),
    ("runs", 2, |a, b, _| vec![a[0].maximum(b[0]), select(b[0].gt(0.3), b[1], a[1] + b[1])]),
    ("mean", 3, |a, b, _| {
        let (n, d) = (a[0] + b[0], b[1] - a[1]);
        vec![n, a[1] + d * b[0] / n, a[2] + b[2] + d.square() * a[0] * b[0] / n]
    }),
    ("complex affine", 4, |a, b, _| {
        let product = |x: &[Value], y: &[Value]| [x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]];
        let ([re, im], [moved_re, moved_im]) = (product(&b[..2], &a[..2]), product(&b[..2], &a[2..]));
        vec![re, im, moved_re + b[2], moved_im + b[3]]
    }),
    ("matrices", 4, |a, b, _| {
        let entry = |row: usize, column: usize| a[2 * row] * b[column] + a[2 * row + 1] * b[2 + column];
        vec![entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)]
    }),
    ("longest paths", 4, |a, b, _| {
        let entry = |row: usize, column: usize| (a[2 * row] + b[column]).maximum(a[2 * row + 1] + b[2 + column]);
        vec![entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)]
    }),
];

/// The implementation to differentiate: the op `associative_scan`, or an unrolled sequence of calls to `combine` for
/// the given number of rows.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Scan,
    WrittenOut(usize),
}

fn running_combinations(combine: Combine, xs: Vec<Value>, k: Value, reverse: bool, form: Form) -> Vec<Value> {
    let Form::WrittenOut(count) = form else {
        let options = AssociativeScanOptions::new();
        let options = if reverse { options.reverse() } else { options };
        return associative_scan_with(options, xs, |a, b| combine(&a, &b, k));
    };
    let element = |t: usize| xs.iter().map(|x| x.index(0, t as i64)).collect::<Vec<_>>();
    let order: Vec<usize> = if reverse { (0..count).rev().collect() } else { (0..count).collect() };
    let mut ys: Vec<Vec<Value>> = vec![Vec::new(); count];
    for (step, t) in order.iter().enumerate() {
        ys[*t] = match step {
            0 => element(*t),
            _ => combine(&ys[order[step - 1]], &element(*t), k),
        };
    }
    (0..xs.len()).map(|leaf| stack(&ys.iter().map(|y| y[leaf]).collect::<Vec<_>>(), 0)).collect()
}

/// Returns a scalar loss that depends on all results.
fn loss(ys: &[Value]) -> Value {
    let weighted = ys.iter().enumerate().map(|(leaf, y)| (y.sin() * (1.0 + 0.3 * leaf as f64)).sum(..));
    weighted.reduce(|one, other| one + other).unwrap()
}

/// Builds a program that computes the first, second and third derivatives of the loss with respect to the leaves and
/// the captured value.
fn derivatives(combine: Combine, leaves: usize, reverse: bool, form: Form) -> Graph {
    built("derivatives", |g| {
        let rows = if let Form::WrittenOut(count) = form { count.to_string() } else { "T".to_string() };
        let xs: Vec<Value> =
            (0..leaves).map(|leaf| g.input(&format!("x{leaf}"), format!("f64[{rows},2]").as_str())).collect();
        let k = g.input("k", "f64[]");
        let of = |(xs, k): (Vec<Value>, Value)| loss(&running_combinations(combine, xs, k, reverse, form));
        let zeros = || GradOptions::new().disconnected(Disconnected::Zeros);
        let ones = (xs.iter().map(|x| x.ones_like()).collect::<Vec<_>>(), k.ones_like());
        let slope = |point: (Vec<Value>, Value)| {
            let (of_xs, of_k) = grad_with(zeros(), point, of);
            loss(&of_xs) + of_k.sin()
        };
        let point = (xs, k);
        (
            grad_with(zeros(), point.clone(), of),
            jvp(point.clone(), ones.clone(), of).1,
            hvp(point.clone(), ones, of),
            grad_with(zeros(), point.clone(), slope),
            grad_with(zeros(), point, |point| {
                let (of_xs, of_k) = grad_with(zeros(), point, slope);
                loss(&of_xs) + of_k.sin()
            }),
        )
    })
}

/// Returns pseudorandom numbers between 0.2 and 1.
fn noise(count: usize, seed: u64) -> HostTensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    HostTensor::from_fn(funcify::DType::F64, &[count, 2], |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Scalar::Float(0.2 + 0.8 * (state >> 11) as f64 / (1u64 << 53) as f64)
    })
}

/// Asserts that the outputs of a graph are close to the expected outputs.
fn assert_near(graph: &Graph, found: &[HostTensor], expected: &[HostTensor], what: &str) {
    for ((found, expected), output) in found.iter().zip(expected).zip(graph.outputs()) {
        for (found, expected) in found.to_f64_vec().iter().zip(expected.to_f64_vec()) {
            let is_close = (found - expected).abs() <= 1e-9 * (1.0 + expected.abs());
            assert!(is_close, "{what}, {}: {found} is not {expected}", output.name);
        }
    }
}

#[test]
fn derivatives_of_every_order_are_those_of_the_written_out_combinations() {
    for (name, leaves, combine) in BY_ELEMENT {
        for reverse in [false, true] {
            let scan = derivatives(combine, leaves, reverse, Form::Scan);
            for count in [1, 4] {
                let mut inputs: Vec<HostTensor> = (0..leaves).map(|leaf| noise(count, 3 + leaf as u64)).collect();
                inputs.push(HostTensor::scalar(0.7f64));
                let found = evaluate(&scan, &inputs).unwrap();
                let written = derivatives(combine, leaves, reverse, Form::WrittenOut(count));
                let expected = evaluate(&written, &inputs).unwrap();
                assert_near(&scan, &found, &expected, &format!("{name}, {count} elements, reverse {reverse}"));
            }
        }
    }
}

/// Compiled programs multiply Jacobians in an odd-even recursion; the reference evaluator does not. Both compute the
/// same gradients.
#[test]
fn the_recursion_on_halves_gives_what_one_after_the_other_gives() {
    // This function is not associative. All its Jacobians have the same sparsity pattern, but their products have a
    // different one.
    let chain: Combine = |a, b, _| vec![a[0] + b[0], a[0] + a[1] + b[1], a[1] + a[2] + b[2]];
    for (name, leaves, combine) in BY_ELEMENT.into_iter().chain([("chain", 3, chain)]) {
        for reverse in [false, true] {
            let graph = built("gradient", |g| {
                let xs: Vec<Value> = (0..leaves).map(|leaf| g.input(&format!("x{leaf}"), "f64[T,2]")).collect();
                let k = g.input("k", "f64[]");
                let of = |xs| running_combinations(combine, xs, k, reverse, Form::Scan);
                let weights = |ys: &Vec<Value>| ys.iter().map(|y| y.zeros_like() + k.sin()).collect::<Vec<_>>();
                vjp(xs, of, weights).1
            });
            let mut inputs: Vec<HostTensor> = (0..leaves).map(|leaf| noise(7, 5 + leaf as u64)).collect();
            inputs.push(HostTensor::scalar(0.7f64));
            let expected = evaluate(&graph, &inputs).unwrap();
            let found = Function::compile(&graph, &Reference).unwrap().call_host(&inputs).unwrap();
            assert_near(&graph, &found, &expected, &format!("{name}, reverse {reverse}"));
        }
    }
}

#[test]
fn of_no_elements_there_are_no_derivatives() {
    for (name, leaves, combine) in BY_ELEMENT {
        for reverse in [false, true] {
            let mut inputs = vec![noise(0, 1); leaves];
            inputs.push(HostTensor::scalar(0.7f64));
            let found = evaluate(&derivatives(combine, leaves, reverse, Form::Scan), &inputs);
            let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(found.iter().all(|value| value.to_f64_vec().iter().all(|number| *number == 0.0)), "{name}");
        }
    }
}

/// Counts the ops with this name in a graph, including those in bodies.
fn count(graph: &Graph, name: &str) -> usize {
    use funcify::ops::OpRules;
    let of_node =
        |op: &Op| usize::from(op.name() == name) + op.bodies().iter().map(|body| count(body, name)).sum::<usize>();
    graph.nodes().iter().map(|node| of_node(&node.op)).sum()
}

fn gradient(body: impl Fn(Value) -> Value) -> Graph {
    built("gradient", |g| grad(g.input("xs", "f64[T,2]"), |xs| body(xs).sin().sum(..)))
}

#[test]
fn a_combination_by_element_has_no_loop_in_its_derivatives() {
    for (name, leaves, combine) in BY_ELEMENT {
        let graph = derivatives(combine, leaves, false, Form::Scan);
        assert_eq!(count(&graph, "scan"), 0, "{name}: {graph}");
    }
    // The gradient of a running sum needs only additions, and the gradient of a running product only multiplications
    // and additions. Neither needs masks.
    let scans = |graph: &Graph| -> Vec<Graph> {
        let is_scan = |op: &Op| if let Op::AssociativeScan(op) = op { Some((*op.combine).clone()) } else { None };
        graph.nodes().iter().filter_map(|node| is_scan(&node.op)).collect()
    };
    let options = AssociativeScanOptions::new;
    let sum = gradient(|xs| associative_scan_with(options(), xs, |a, b| a + b));
    assert_eq!(scans(&sum)[1].nodes().len(), 1, "{sum}");
    let product = gradient(|xs| associative_scan_with(options(), xs, |a, b| a * b));
    assert_eq!(scans(&product)[1].nodes().len(), 3, "{product}");
}

#[test]
fn what_mixes_elements_is_a_loop() {
    let options = AssociativeScanOptions::new;
    let matrices = |xs: Value| xs.unsqueeze(2) * xs.unsqueeze(1);
    let graph = gradient(|xs| associative_scan_with(options(), matrices(xs), Value::matmul));
    assert_eq!(count(&graph, "scan"), 1);
    let graph = gradient(|xs| associative_scan_with(options(), xs, |a, b| a * b.sum(0)));
    assert_eq!(count(&graph, "scan"), 0, "only the second element is summed");
    let graph = gradient(|xs| associative_scan_with(options(), xs, |a, b| a.sum(0) * b));
    assert_eq!(count(&graph, "scan"), 1);
    // The gradient with respect to a captured matrix is computed by a loop: a recursion would copy the matrix for each
    // element.
    let graph = built("large", |g| {
        let (xs, w) = (g.input("xs", "f64[T,2]"), g.input("w", "f64[2,2]"));
        grad((xs, w), |(xs, w)| associative_scan_with(options(), xs, |a, b| a + b.matmul(w)).sum(..))
    });
    assert_eq!(count(&graph, "scan"), 1);
}

/// Computes the cotangents of a scan's elements from the cotangents of its results. Asserts that the program contains
/// no loop.
fn pull_back<X: Tree + Clone, const N: usize>(
    xs: impl Fn(&funcify::Builder) -> X,
    combine: impl Fn(X, X) -> X,
    cotangents: impl Fn(&X, Value) -> X,
    inputs: [HostTensor; N],
) -> Vec<Vec<f64>> {
    let graph = built("pulled", |g| {
        let xs = xs(g);
        let ct = g.input("ct", "f64[T]");
        let scan = |xs: X| associative_scan_with(AssociativeScanOptions::new(), xs, &combine);
        vjp(xs, scan, |ys| cotangents(ys, ct)).1
    });
    assert_eq!(count(&graph, "scan"), 0);
    evaluate(&graph, &inputs).unwrap().iter().map(HostTensor::to_f64_vec).collect()
}

const INF: f64 = f64::INFINITY;

/// An infinite cotangent flows only to the larger operand of a maximum. The smaller one receives zero, not NaN.
#[test]
fn what_is_not_chosen_has_no_part_in_an_infinite_cotangent() {
    let largest = |a: Value, b: Value| a.maximum(b);
    let inputs = [HostTensor::from([1f64, 3., 2.]), HostTensor::from([1f64, 2., INF])];
    let found = pull_back(|g| g.input("xs", "f64[T]"), largest, |_, ct| ct, inputs);
    assert_eq!(found, [[1., INF, 0.]]);
    // The sums restart at each flag, and no cotangent flows back across a flag.
    let runs = |(f, x): (Value, Value), (g, y): (Value, Value)| (f.maximum(g), select(g.gt(0.5), y, x + y));
    let leaves = |g: &funcify::Builder| (g.input("flags", "f64[T]"), g.input("xs", "f64[T]"));
    let inputs = [[1f64, 0., 1., 0.], [1., 2., 3., 4.], [1., 10., 100., INF]].map(HostTensor::from);
    let found = pull_back(leaves, runs, |ys, ct| (ys.0.zeros_like(), ct), inputs);
    assert_eq!(found[1], [11., 10., INF, INF]);
}

/// If a result does not depend on an input, an infinite cotangent of that result does not affect the input's cotangent.
#[test]
fn absent_entries_are_not_multiplied() {
    let affine = |(a, b): (Value, Value), (c, d): (Value, Value)| (c * a, c * b + d);
    let leaves = |g: &funcify::Builder| (g.input("a", "f64[T]"), g.input("b", "f64[T]"));
    let inputs =
        [HostTensor::from([2f64, 0., 3.]), HostTensor::from([1f64, 1., 1.]), HostTensor::from([0f64, INF, 1.])];
    // Only the first result, `c * a`, has a cotangent. This result does not depend on `b`.
    let found = pull_back(leaves, affine, |ys, ct| (ct, ys.1.zeros_like()), inputs.clone());
    assert_eq!(found[1], [0., 0., 0.]);
    // The second result does depend on `b`. Infinity times the coefficient 0 is NaN, as in the sequential loop.
    let found = pull_back(leaves, affine, |ys, ct| (ys.0.zeros_like(), ct), inputs);
    assert!(found[1][0].is_nan());
    assert_eq!(found[1][1..], [INF, 1.]);
}

/// The first result of a scan is the first element itself, so the combining function need not be defined for it.
#[test]
fn the_first_element_is_not_combined() {
    let options = AssociativeScanOptions::new;
    for reverse in [false, true] {
        let graph = built("first", |g| {
            let (xs, k) = (g.input("xs", "f64[T]"), g.input("k", "f64[]"));
            grad((xs, k), |(xs, k)| {
                let options = if reverse { options().reverse() } else { options() };
                associative_scan_with(options, xs, |a, b| k * a * b / (a + b)).sum(0)
            })
        });
        assert_eq!(count(&graph, "scan"), 0);
        let of = |xs: HostTensor| evaluate(&graph, &[xs, HostTensor::scalar(3f64)]).unwrap();
        assert_eq!(of(HostTensor::from([0f64])), [HostTensor::from([1f64]), HostTensor::scalar(0f64)]);
        let (xs, expected) = match reverse {
            false => ([0f64, 2.], [4f64, 0.]),
            true => ([2f64, 0.], [0f64, 4.]),
        };
        assert_eq!(of(HostTensor::from(xs)), [HostTensor::from(expected), HostTensor::scalar(0f64)]);
    }
}

/// Integers can be scanned together with floats. Only the floats are differentiated.
#[test]
fn integers_beside_floats() {
    let graph = built("beside", |g| {
        let (xs, is) = (g.input("xs", "f64[T]"), g.input("is", "i64[T]"));
        grad(xs, |xs| {
            let combine =
                |(x, i): (Value, Value), (y, j): (Value, Value)| (x * i.cast(funcify::DType::F64) * 0.0 + x * y, i + j);
            associative_scan_with(AssociativeScanOptions::new(), (xs, is), combine).0.sum(0)
        })
    });
    assert_eq!(count(&graph, "scan"), 0);
    let inputs = [HostTensor::from([2f64, 3., 5.]), HostTensor::from([1i64, 2, 3])];
    assert_eq!(evaluate(&graph, &inputs).unwrap()[0], HostTensor::from([19f64, 12., 6.]));
}
