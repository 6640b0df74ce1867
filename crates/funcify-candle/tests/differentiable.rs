//! Compares compiled graphs, run as ops of Candle's autodiff, with handwritten loops that use Candle's autodiff.

mod common;
#[path = "../../funcify/tests/elementwise/mod.rs"]
mod elementwise;

use candle_core::{DType, Device, Tensor, Var};
use common::cells::{self, Cell};
use common::{assert_close, assert_gradients, backward, by_hand, loss, row, tensor, var};
use elementwise::elementwise;
use funcify::dispatch::{CompileOptions, LoopStrategy};
use funcify::ops::{Custom, CustomOp};
use funcify::{CheckpointPolicy, Graph, Value, scan};
use funcify_candle::{Candle, Differentiable, DifferentiableOptions};

const STEPS: usize = 7;
const BATCH: usize = 3;
const WIDTH: usize = 4;

/// Builds a graph that scans a cell. Its inputs are `xs`, the initial carries and the weights; its outputs are the
/// last carries and the ys.
fn scanned(dtype: DType, carry: &[&str], weights: &[&str], x: &str, cell: Symbolic) -> Graph {
    let ty = |shape: &str| format!("{}[{shape}]", dtype.as_str());
    Graph::build("cell", |g| {
        let xs = g.input("xs", ty(x).as_str());
        let named = |kind: &str, shapes: &[&str]| -> Vec<Value> {
            let inputs = shapes.iter().enumerate();
            inputs.map(|(index, shape)| g.input(&format!("{kind}{index}"), ty(shape).as_str())).collect()
        };
        let (init, weights) = (named("c", carry), named("w", weights));
        let (last, ys) = scan(init, xs, |carry, x| cell(&weights, carry, x));
        (last, ys)
    })
    .unwrap()
}

type Symbolic = fn(&[Value], Vec<Value>, Value) -> (Vec<Value>, Value);

fn sizes(shape: &str) -> Vec<usize> {
    let size = |dim: &str| match dim {
        "T" => STEPS,
        "B" => BATCH,
        "H" => WIDTH,
        "N" => 2,
        other => other.parse().unwrap(),
    };
    shape.split(',').map(size).collect()
}

fn ways() -> Vec<(&'static str, DifferentiableOptions)> {
    let new = DifferentiableOptions::new;
    let unroll = CompileOptions { strategy: LoopStrategy::Unroll, ..CompileOptions::default() };
    vec![
        ("native", new()),
        ("unrolled", new().compile(unroll)),
        ("products saved", new().policy(CheckpointPolicy::SaveDots)),
        ("segments", new().policy(CheckpointPolicy::Segments(3))),
        ("everything saved", new().policy(CheckpointPolicy::SaveAll)),
    ]
}

fn check(name: &str, symbolic: Symbolic, hand: Cell, carry: &[&str], weights: &[&str], x: &str) {
    for dtype in [DType::F32, DType::F64] {
        let graph = scanned(dtype, carry, weights, x, symbolic);
        let xs = var(99, &sizes(x), dtype);
        let of = |seed: u64, shapes: &[&str]| -> Vec<Var> {
            (seed..).zip(shapes).map(|(seed, shape)| var(seed, &sizes(shape), dtype)).collect()
        };
        let (init, weights) = (of(50, carry), of(1, weights));
        let tensors = |vars: &[Var]| -> Vec<Tensor> { vars.iter().map(|var| var.as_tensor().clone()).collect() };
        let step = |carry, t| hand(&tensors(&weights), carry, row(&xs, t)?);
        let (last, ys) = by_hand(tensors(&init), STEPS, false, step).unwrap();
        let all: Vec<&Tensor> = last.iter().chain([&ys]).collect();
        let expected = loss(&all).unwrap().backward().unwrap();
        let arguments: Vec<Tensor> = [vec![xs.as_tensor().clone()], tensors(&init), tensors(&weights)].concat();
        for (way, options) in ways() {
            let what = format!("{name} {dtype:?} {way}");
            let function = Differentiable::compile_with(&graph, &Candle::cpu(), options).unwrap();
            let results = function.call(&arguments).unwrap();
            results.iter().zip(&all).for_each(|(found, expected)| assert_close(found, expected, &what));
            let every: Vec<&Var> = weights.iter().chain(&init).chain([&xs]).collect();
            assert_gradients(&backward(&results.iter().collect::<Vec<_>>()), &expected, &every, &what);
        }
    }
}

#[test]
fn rnn() {
    let symbolic: Symbolic = |w, carry, x| {
        let h = (x.matmul(w[0]) + carry[0].matmul(w[1]) + w[2]).tanh();
        (vec![h], h)
    };
    check("rnn", symbolic, cells::rnn, &["B,H"], &["H,H", "H,H", "H"], "T,B,H");
}

#[test]
fn gru() {
    let symbolic: Symbolic = |w, carry, x| {
        let h = carry[0];
        let (xw, hu) = (x.matmul(w[0]), h.matmul(w[1]) + w[2]);
        let part = |all: Value, gate: i64| all.slice(1, WIDTH as i64 * gate..WIDTH as i64 * (gate + 1));
        let r = (part(xw, 0) + part(hu, 0)).sigmoid();
        let z = (part(xw, 1) + part(hu, 1)).sigmoid();
        let n = (part(xw, 2) + r * part(hu, 2)).tanh();
        let next = z * h + (1.0 - z) * n;
        (vec![next], next)
    };
    check("gru", symbolic, cells::gru, &["3,4"], &["4,12", "4,12", "12"], "T,3,4");
}

#[test]
fn lstm() {
    let symbolic: Symbolic = |w, carry, x| {
        let gates = x.matmul(w[0]) + carry[0].matmul(w[1]) + w[2];
        let part = |gate: i64| gates.slice(1, WIDTH as i64 * gate..WIDTH as i64 * (gate + 1));
        let c = part(1).sigmoid() * carry[1] + part(0).sigmoid() * part(2).tanh();
        let h = part(3).sigmoid() * c.tanh();
        (vec![h, c], h)
    };
    check("lstm", symbolic, cells::lstm, &["3,4", "3,4"], &["4,16", "4,16", "16"], "T,3,4");
}

/// Checks a diagonal state space model with complex states.
#[test]
fn s5() {
    let symbolic: Symbolic = |w, carry, u| {
        let decay = (-w[0].square()).exp();
        let (re, im) = (decay * w[1].cos(), decay * w[1].sin());
        let (x, y) = (carry[0], carry[1]);
        let next_x = x * re - y * im + u.matmul(w[2]);
        let next_y = x * im + y * re + u.matmul(w[3]);
        (vec![next_x, next_y], next_x.matmul(w[4]) - next_y.matmul(w[5]))
    };
    check("s5", symbolic, cells::s5, &["B,H", "B,H"], &["H", "H", "H,H", "H,H", "H,H", "H,H"], "T,B,H");
}

/// Checks the core of a selective state space model, in which the decay and the input projection depend on the input.
#[test]
fn selective_scan() {
    let symbolic: Symbolic = |w, carry, u| {
        let delta = (u.matmul(w[0]).exp() + 1.0).log();
        let (b, c) = (u.matmul(w[1]).unsqueeze(1), u.matmul(w[2]).unsqueeze(2));
        let decay = (delta.unsqueeze(2) * -w[3].exp()).exp();
        let state = decay * carry[0] + (delta * u).unsqueeze(2) * b;
        (vec![state], state.matmul(c).squeeze(2) + u * w[4])
    };
    check("selective scan", symbolic, cells::selective_scan, &["B,H,N"], &["H,H", "H,N", "H,N", "H,N", "H"], "T,B,H");
}

/// Builds a graph with an f32, an f64 and an integer input. Its four outputs are f64, f32, i64 and f16.
fn mixed() -> Differentiable {
    let graph = Graph::build("mixed", |g| {
        let (x, y, i) = (g.input("x", "f32[N]"), g.input("y", "f64[N]"), g.input("i", "i64[N]"));
        (x.cast(funcify::DType::F64).sin() * y, x.exp(), i + 1, y.cast(funcify::DType::F16))
    });
    Differentiable::compile(&graph.unwrap(), &Candle::cpu()).unwrap()
}

#[test]
fn types_are_mixed_and_outputs_unused() {
    let (x, y) = (var(1, &[3], DType::F32), var(2, &[3], DType::F64));
    let i = Tensor::new(&[1i64, 2, 3], &Device::Cpu).unwrap();
    let results = mixed().call(&[x.as_tensor().clone(), y.as_tensor().clone(), i]).unwrap();
    let by_hand = [
        (x.to_dtype(DType::F64).unwrap().sin().unwrap() * y.as_tensor()).unwrap(),
        x.exp().unwrap(),
        results[2].clone(),
        y.to_dtype(DType::F16).unwrap(),
    ];
    assert_eq!(results[2].to_vec1::<i64>().unwrap(), [2, 3, 4]);
    assert!(!results[2].track_op());
    for used in [&[0usize, 1, 3][..], &[0], &[1], &[3], &[1, 3]] {
        let pick = |all: &[Tensor]| loss(&used.iter().map(|index| &all[*index]).collect::<Vec<_>>()).unwrap();
        let (found, expected) = (pick(&results).backward().unwrap(), pick(&by_hand).backward().unwrap());
        for var in [&x, &y] {
            let found = found.get(var).unwrap();
            match expected.get(var) {
                Some(expected) => assert_close(found, expected, &format!("{used:?}")),
                None => assert_close(found, &var.zeros_like().unwrap(), &format!("{used:?}")),
            }
        }
    }
}

#[test]
fn inputs_without_a_graph_have_no_gradient() {
    let function = mixed();
    let (x, y) = (var(1, &[3], DType::F32), var(2, &[3], DType::F64));
    let i = Tensor::new(&[1i64, 2, 3], &Device::Cpu).unwrap();
    let call = |x: Tensor, y: Tensor| function.call(&[x, y, i.clone()]).unwrap();
    let both = loss(&[&call(x.as_tensor().clone(), y.as_tensor().clone())[0]]).unwrap().backward().unwrap();
    let one = loss(&[&call(x.as_tensor().clone(), y.detach())[0]]).unwrap().backward().unwrap();
    assert_close(one.get(&x).unwrap(), both.get(&x).unwrap(), "x");
    assert!(one.get(&y).is_none());
    assert!(call(x.detach(), y.detach()).iter().all(|result| !result.track_op()));
    // If no output is a float, the call adds no node to Candle's graph.
    let graph = Graph::build("ints", |g| g.input("x", "f32[N]").cast(funcify::DType::I64)).unwrap();
    let function = Differentiable::compile(&graph, &Candle::cpu()).unwrap();
    assert!(!function.call(&[x.as_tensor().clone()]).unwrap()[0].track_op());
}

#[test]
fn one_tensor_may_be_several_inputs() {
    let graph =
        Graph::build("product", |g| (g.input("x", "f64[N]") * g.input("y", "f64[N]").sin(), g.input("z", "f64[]")));
    let function = Differentiable::compile(&graph.unwrap(), &Candle::cpu()).unwrap();
    let x = var(1, &[4], DType::F64);
    let doubled = (x.as_tensor() * 2.0).unwrap();
    let z = x.get(0).unwrap();
    let results = function.call(&[doubled.clone(), doubled.clone(), z.clone()]).unwrap();
    let expected = (&doubled * doubled.sin().unwrap()).unwrap();
    let found = backward(&[&results[0], &results[1]]);
    let expected = backward(&[&expected, &z]);
    assert_gradients(&found, &expected, &[&x], "product");
}

#[test]
fn views_and_results_that_are_inputs() {
    let graph = Graph::build("views", |g| {
        let x = g.input("x", "f32[M,N]");
        (x, x.t(), x.slice(0, 1..2), x.matmul(x.t()))
    });
    let function = Differentiable::compile(&graph.unwrap(), &Candle::cpu()).unwrap();
    let x = var(1, &[3, 4], DType::F32);
    for view in [x.t().unwrap(), x.narrow(1, 1, 2).unwrap(), x.narrow(0, 1, 2).unwrap(), x.as_tensor().clone()] {
        let results = function.call(std::slice::from_ref(&view)).unwrap();
        let (t, part) = (view.t().unwrap(), view.narrow(0, 1, 1).unwrap());
        let product = view.matmul(&t.contiguous().unwrap()).unwrap();
        let found = loss(&results.iter().collect::<Vec<_>>()).unwrap().backward().unwrap();
        let expected = backward(&[&view, &t, &part, &product]);
        assert_gradients(&found, &expected, &[&x], "views");
        // The backward pass must not have moved the elements out of the inputs.
        assert_close(&results[0], &view, "the input");
        assert_close(x.as_tensor(), &tensor(1, &[3, 4], DType::F32), "x");
    }
}

/// An identity op without a derivative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Opaque;

funcify::custom_op!(Opaque, "opaque", |_attributes| Ok(Opaque));
funcify::funcify!(Candle, Opaque, |_call, [x]| Ok::<_, candle_core::Error>(x));

impl CustomOp for Opaque {
    elementwise!(|inputs| inputs.to_vec());
}

#[test]
fn mistakes_are_errors() {
    let function = mixed();
    let (x, y) = (var(1, &[3], DType::F32), var(2, &[3], DType::F64));
    let error = function.call(&[x.as_tensor().clone()]).unwrap_err().to_string();
    assert!(error.contains("mixed"), "{error}");
    let swapped = [y.as_tensor().clone(), x.as_tensor().clone(), Tensor::new(&[1i64, 2, 3], &Device::Cpu).unwrap()];
    let error = function.call(&swapped).unwrap_err().to_string();
    assert!(error.contains("argument 0 (`x`)") && error.contains("f32[N]"), "{error}");
    let graph = Graph::build("opaque", |g| funcify::apply(Custom::new(Opaque), &[g.input("x", "f32[N]")])[0]).unwrap();
    let function = Differentiable::compile(&graph, &Candle::cpu()).unwrap();
    let error = function.call(&[x.as_tensor().clone()]).unwrap_err().to_string();
    assert!(error.contains("no derivative"), "{error}");
    assert!(function.call(&[x.detach()]).is_ok());
}

/// Computes a second derivative: runs the graph of the first derivative as a node of Candle's graph, and differentiates
/// this node with Candle's backward pass.
#[test]
fn higher_order_lives_in_the_graph() {
    let cube = Graph::build("cube", |g| {
        let x = g.input("x", "f64[]");
        x * x * x
    })
    .unwrap();
    let slope = cube.grad(.., funcify::GradOptions::new()).unwrap();
    let slope = Differentiable::compile(&slope, &Candle::cpu()).unwrap();
    let x = Var::new(0.7f64, &Device::Cpu).unwrap();
    let y = &slope.call(&[x.as_tensor().clone()]).unwrap()[0];
    let second = y.backward().unwrap().get(&x).unwrap().to_scalar::<f64>().unwrap();
    assert!((second - 4.2).abs() < 1e-12, "{second}");
}
