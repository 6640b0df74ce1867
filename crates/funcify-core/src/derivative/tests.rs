//! Tests every derivative rule by comparing reverse mode with central differences and with forward mode. Also checks
//! that invalid programs are rejected.

use crate::error::{Place, Site};
use crate::ops::scan::Scan;
use crate::ops::testing::{check_derivative, eval_op};
use crate::ops::{Attributes, Binary, EvalContext, Failed, Op, OpRules, Unary};
use crate::vmap::Batched;
use crate::{
    Builder, CheckpointPolicy, Dim, Disconnected, Error, GradOptions, Graph, HostTensor, Recurrence, TensorType, Tree,
    Value, checkpoint, grad, grad_with, jvp, scan, vjp,
};

fn tensor<const N: usize>(shape: &[usize], elements: [f64; N]) -> HostTensor {
    HostTensor::from_vec(elements.to_vec(), shape).unwrap()
}

fn matrix() -> HostTensor {
    tensor(&[2, 3], [0.3, -1.2, 2.1, 0.7, -0.4, 1.6])
}

#[test]
fn elementwise_ops_of_one_operand() {
    let operands = [[matrix()], [tensor(&[3], [1.3, 2.2, 5.1])], [tensor(&[3], [0.3, -0.6, 0.8])]];
    // `stop_gradient` blocks cotangents, so its derivative differs from finite differences.
    let ops = Unary::ALL.iter().filter(|op| **op != Unary::StopGradient);
    ops.for_each(|op| check_inside(op, &operands));
}

#[test]
fn elementwise_ops_of_two_operands() {
    let operands = [
        [tensor(&[4], [0.4, 1.3, -2.2, 3.1]), tensor(&[4], [1.7, -0.6, -2.9, 0.8])],
        [tensor(&[3], [0.4, 1.3, 2.2]), tensor(&[3], [2.5, -1.5, 0.3])],
    ];
    Binary::ALL.iter().for_each(|op| check_inside(op, &operands));
}

/// Checks the derivatives of an elementwise op at each entry of `operands` where the result is finite. Skips ops that
/// do not accept floats.
fn check_inside<const N: usize>(op: &impl OpRules, operands: &[[HostTensor; N]]) {
    let name = op.name();
    if op.infer(&Place::new(name, Site::Unknown), &operands[0].each_ref().map(HostTensor::ty)).is_err() {
        return;
    }
    let is_inside = |operands: &&[HostTensor; N]| eval_op(name, *operands).to_f64_vec().into_iter().all(f64::is_finite);
    let inside: Vec<&[HostTensor; N]> = operands.iter().filter(is_inside).collect();
    assert!(!inside.is_empty(), "`{name}` is finite at none of the operands: add some in derivative/tests.rs");
    inside.into_iter().for_each(|operands| check_derivative(name, operands));
}

#[test]
fn reductions() {
    for kind in ["sum", "prod", "max", "min"] {
        check_derivative(&format!("reduce {{kind={kind}, axes=[1]}}"), &[matrix()]);
        check_derivative(&format!("reduce {{kind={kind}, axes=[0,1]}}"), &[matrix()]);
        for direction in ["forward", "reverse"] {
            let text = format!("cumulative {{kind={kind}, axis=1, direction={direction}}}");
            check_derivative(&text, &[matrix()]);
        }
    }
    check_derivative("reduce {kind=prod, axes=[0,2]}", &[tensor(&[2, 1, 2], [0.0, 2.0, 0.0, 3.0])]);
    check_derivative("cumulative {kind=prod, axis=0, direction=forward}", &[tensor(&[4], [2.0, 0.0, 0.0, 3.0])]);
}

#[test]
fn movement() {
    let scalar = HostTensor::scalar(0.5f64);
    check_derivative("broadcast {shape=[2,2,3]}", &[tensor(&[2, 1], [1.0, 2.0])]);
    check_derivative("reshape {shape=[3,2]}", &[matrix()]);
    check_derivative("transpose {axes=[1,0]}", &[matrix()]);
    check_derivative("reverse {axis=1}", &[matrix()]);
    check_derivative("slice {axis=1, start=1, limit=3, step=1}", &[matrix()]);
    check_derivative("slice {axis=1, start=0, limit=3, step=2}", &[matrix()]);
    check_derivative("slice {axis=1, start=2, limit=2, step=2}", &[matrix()]);
    check_derivative("pad {axis=1, low=2, high=1, interior=0}", &[matrix(), scalar.clone()]);
    check_derivative("pad {axis=0, low=0, high=1, interior=2}", &[matrix(), scalar]);
    check_derivative("concat {axis=1}", &[matrix(), tensor(&[2, 1], [1.0, 2.0]), matrix()]);
    check_derivative("cast {dtype=f64}", &[matrix()]);
    let mask = HostTensor::from([[true, false, true], [false, false, true]]);
    check_derivative("select", &[mask, matrix(), tensor(&[2, 3], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])]);
    check_derivative("sort {axis=1, order=descending}", &[matrix()]);
}

#[test]
fn indexing() {
    let start = |start: i64| HostTensor::scalar(start);
    for position in [1, 9] {
        check_derivative("dynamic_slice {axis=1, size=2}", &[matrix(), start(position)]);
        let part = tensor(&[2, 1], [5.0, 6.0]);
        check_derivative("dynamic_update {axis=1}", &[matrix(), part, start(position)]);
    }
    let indices = HostTensor::from([[2i64, 0, 2, 7], [1, 1, -3, 0]]);
    check_derivative("take {axis=1}", &[matrix(), indices.clone()]);
    check_derivative("gather {axis=1}", &[matrix(), indices.clone()]);
    let updates = tensor(&[2, 4], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    for mode in ["set", "add", "mul", "max", "min"] {
        let text = format!("scatter {{axis=1, mode={mode}}}");
        check_derivative(&text, &[matrix(), indices.clone(), updates.clone()]);
    }
    // The updates multiply one element by a single zero, and another element by two zeros. A third element is itself
    // zero. The last call to `check_derivative` passes empty indices and updates.
    let x = tensor(&[4, 1], [2.0, 3.0, 0.0, 5.0]);
    let indices = HostTensor::from([[3i64], [0], [1], [0], [1], [3], [2], [1], [-1]]);
    let updates = tensor(&[9, 1], [0.5, 0.0, 0.0, 3.0, 4.0, -1.5, 7.0, 0.0, f64::NAN]);
    check_derivative("scatter {axis=0, mode=mul}", &[x.clone(), indices, updates]);
    let none = HostTensor::zeros(crate::DType::F64, &[0, 1]);
    check_derivative("scatter {axis=0, mode=mul}", &[x, HostTensor::zeros(crate::DType::U32, &[0, 1]), none]);
}

#[test]
fn products() {
    let right = tensor(&[3, 2], [1.0, -2.0, 0.5, 3.0, 1.5, -1.0]);
    check_derivative("matmul", &[matrix(), right]);
    let (x, kernel) = (tensor(&[1, 2, 3], [1.0, -2.0, 0.5, 3.0, 1.5, -1.0]), tensor(&[1, 2, 2], [0.5, 1.0, -1.0, 2.0]));
    let text = "conv {strides=[2], low=[1], high=[1], dilation=[1], input_dilation=[1], groups=1}";
    check_derivative(text, &[x, kernel]);
}

#[track_caller]
fn refused<T: Tree>(program: impl FnOnce(&Builder) -> T, kind: &str, says: &str) {
    is_refused(Graph::build("model", program), kind, says);
}

#[track_caller]
fn is_refused(result: Result<Graph, Error>, kind: &str, says: &str) {
    let Err(error) = result else { panic!("it is not refused") };
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(says), "{error}\ndoes not say: {says}");
}

#[test]
fn a_loss_is_a_float_scalar() {
    refused(|g| grad(g.input("x", "f32[3]"), |x| x.exp()), "Type", "the loss does not fit");
    refused(|g| grad(g.input("x", "f32[]"), |x| x.gt(0.0)), "Type", "a float scalar");
    let graph = Graph::build("two", |g| {
        let x = g.input("x", "f32[]");
        [x.exp(), x.sin()]
    });
    let graph = graph.unwrap();
    is_refused(graph.grad(.., GradOptions::new()), "Type", "name the loss");
    is_refused(graph.grad(.., GradOptions::new().of("out_2")), "Type", "`out_2`");
    assert!(graph.grad(.., GradOptions::new().of("out_1")).is_ok());
}

#[test]
fn only_float_inputs_are_differentiated() {
    refused(|g| grad(g.input("n", "i64[]"), |n| n.cast(crate::DType::F32)), "Type", "leaf `x`");
    let graph = Graph::build("graph", |g| g.input("x", "f32[]") * g.input("n", "i64[]").cast(crate::DType::F32));
    let graph = graph.unwrap();
    is_refused(graph.grad(["n"], GradOptions::new()), "Type", "input `n` in `wrt`");
    is_refused(graph.jvp(["y"]), "Type", "one of the inputs x, n");
    assert!(graph.grad(.., GradOptions::new()).is_ok());
}

#[test]
fn disconnected_is_reported() {
    let program = |g: &Builder| {
        let (x, w) = (g.input("x", "f32[2]"), g.input("w", "f32[2]"));
        grad((x, w), |(x, w)| (x * w.stop_gradient()).sum(0)).0
    };
    refused(program, "Disconnected", "leaf `x_1` is disconnected");
    let graph = Graph::build("graph", |g| g.input("x", "f32[2]").sum(0) + g.input("w", "f32[]").floor());
    let graph = graph.unwrap();
    // The derivative of `floor` is zero, but `floor` does not disconnect `w` from the result.
    assert!(graph.grad(["x", "w"], GradOptions::new()).is_ok());
    let constant = Graph::build("constant", |g| g.input("x", "f32[2]").gt(0.0).cast(crate::DType::F32).sum(0)).unwrap();
    is_refused(constant.grad("x", GradOptions::new()), "Disconnected", "input `x`");
    let zeros = constant.grad("x", GradOptions::new().disconnected(Disconnected::Zeros)).unwrap();
    assert_eq!(crate::evaluate(&zeros, &[HostTensor::from([1f32, 2.])]).unwrap(), [HostTensor::from([0f32, 0.])]);
}

#[test]
fn cotangents_have_the_types_of_the_results() {
    let program = |g: &Builder| vjp(g.input("x", "f32[3]"), |x| x.exp(), |ys| ys.sum(0)).1;
    refused(program, "Type", "the cotangent of result `y`");
    let program = |g: &Builder| jvp(g.input("x", "f32[3]"), g.input("v", "f32[2]"), |x| x.exp()).1;
    refused(program, "Type", "the tangent of leaf `x`");
}

/// Returns the only reverse scan of a gradient graph, which is its backward loop.
fn backward(graph: &Graph) -> Scan {
    let scans = graph.nodes().iter().filter_map(|node| match &node.op {
        Op::Scan(scan) if scan.reverse => Some(scan.clone()),
        _ => None,
    });
    let scans: Vec<Scan> = scans.collect();
    assert_eq!(scans.len(), 1, "{graph}");
    scans.into_iter().next().unwrap()
}

/// Checks that the backward loop of `program` has a buffer with the taps `reads` and `writes`. The taps follow
/// PyTensor's convention and count in the opposite direction: an offset in the buffer corresponds to the tap `origin -
/// offset`.
#[track_caller]
fn check_taps(program: impl FnOnce(&Builder) -> Value, origin: i64, reads: &[i64], writes: &[i64]) {
    let forward = Graph::build("forward", program).unwrap();
    let scan = backward(&forward.vjp(.., GradOptions::new()).unwrap());
    let taps = |offsets: &[usize]| offsets.iter().map(|offset| origin - *offset as i64).collect::<Vec<i64>>();
    let found: Vec<(Vec<i64>, Vec<i64>)> =
        scan.buffers.iter().map(|buffer| (taps(&buffer.reads), taps(&buffer.writes))).collect();
    assert!(found.contains(&(reads.to_vec(), writes.to_vec())), "{found:?}");
}

/// Checks the taps of backward loops against the table in the documentation of PyTensor's `Scan.L_op`.
#[test]
fn taps_of_the_backward_loop_are_those_of_pytensor() {
    let sit_sot = |g: &Builder| {
        let mut loop_ = Recurrence::new();
        let x = loop_.sit_sot(g.input("x", "f64[]"));
        let done = loop_.steps(3).run(|step| {
            let [before] = step.read(&x);
            step.write(&x, before.sin());
        });
        done.trace(&x)
    };
    check_taps(sit_sot, 1, &[0, 1], &[1]);
    let mit_sot = |g: &Builder| {
        let mut loop_ = Recurrence::new();
        let x = loop_.mit_sot(g.input("x", "f64[2]"), [-2, -1]);
        let done = loop_.steps(3).run(|step| {
            let [a, b] = step.read(&x);
            step.write(&x, a.sin() * b);
        });
        done.trace(&x)
    };
    check_taps(mit_sot, 2, &[0, 2, 1], &[2, 1]);
    let one_written = |g: &Builder| {
        let mut loop_ = Recurrence::new();
        let x = loop_.mit_mot(g.input("x", "f64[4]"), [0, 1], [1]);
        let done = loop_.steps(3).run(|step| {
            let [a, b] = step.read(&x);
            step.write(&x, [a.sin() * b]);
        });
        done.buffer(&x)
    };
    check_taps(one_written, 0, &[-1, 0], &[0, -1]);
    let both_written = |g: &Builder| {
        let mut loop_ = Recurrence::new();
        let x = loop_.mit_mot(g.input("x", "f64[4]"), [-1, 0], [0, -1]);
        let done = loop_.steps(3).run(|step| {
            let [a, b] = step.read(&x);
            step.write(&x, [a.sin() * b, b]);
        });
        done.buffer(&x)
    };
    check_taps(both_written, 1, &[0, 1], &[1, 0]);
}

/// Checks that the forward pass saves only values that the backward loop reads, and saves no state twice.
#[test]
fn only_what_the_backward_loop_reads_is_saved() {
    let sums = Graph::build("sums", |g| scan(g.input("init", "f64[]"), g.input("xs", "f64[T]"), |c, x| (c + x, ())).0);
    let gradient = sums.unwrap().grad(.., GradOptions::new()).unwrap();
    let scans = gradient.nodes().iter().filter(|node| matches!(node.op, Op::Scan(_))).count();
    assert_eq!(scans, 1, "the backward loop alone: {gradient}");
    let products =
        Graph::build("products", |g| scan(g.input("init", "f64[]"), g.input("xs", "f64[T]"), |c, x| (c * x, ())).0);
    let gradient = products.unwrap().grad(.., GradOptions::new()).unwrap();
    let forward = gradient.nodes().iter().find_map(|node| match &node.op {
        Op::Scan(scan) if !scan.reverse => Some(scan.buffers.len()),
        _ => None,
    });
    assert_eq!(forward, Some(1), "the states before each step: {gradient}");
}

#[test]
fn names_stay_readable_and_unique() {
    let graph = Graph::build("f", |g| g.input("x", "f64[2]").square().sum(0)).unwrap();
    let twice = graph.vjp(.., GradOptions::new()).unwrap().vjp(["x"], GradOptions::new()).unwrap();
    let inputs: Vec<&str> = (0..twice.inputs().len()).map(|index| twice.input_name(index)).collect();
    let outputs: Vec<&str> = twice.outputs().iter().map(|output| output.name.as_str()).collect();
    assert_eq!(inputs, ["x", "ct_out", "ct_out_2", "ct_grad_x"]);
    assert_eq!(outputs, ["out", "grad_x", "grad_x_2"]);
}

#[test]
fn zeros_on_request_inside_a_trace() {
    let zeros = GradOptions::new().disconnected(Disconnected::Zeros);
    let graph = Graph::build("f", |g| grad_with(zeros, g.input("x", "f64[2]"), |x| x.stop_gradient().sum(0)));
    let results = crate::evaluate(&graph.unwrap(), &[HostTensor::from([1f64, 2.])]).unwrap();
    assert_eq!(results, [HostTensor::from([0f64, 0.])]);
}

/// Checks that all checkpoint policies give the same gradient, and that each policy saves the expected number of
/// values.
#[test]
fn policies_change_no_value() {
    let program = |g: &Builder| {
        let (h0, xs, w) = (g.input("h0", "f64[2]"), g.input("xs", "f64[4,2]"), g.input("w", "f64[2,2]"));
        let step = |h: Value, x: Value| {
            let (h, ()) = scan(h, x, |h, x| ((h.matmul(w) * x).sin(), ()));
            let h = (h.matmul(w).tanh() + x).tanh() * h.exp();
            (h, h.sum(0))
        };
        scan(h0, xs, step).1.sum(0)
    };
    let graph = Graph::build("rnn", program).unwrap();
    let inputs = [
        HostTensor::from([0.1f64, -0.2]),
        HostTensor::from([[0.3f64, 0.5], [-0.7, 0.2], [1.1, -0.4], [0.6, 0.9]]),
        HostTensor::from([[0.4f64, -0.3], [0.2, 0.8]]),
    ];
    let gradients = |policy| graph.grad(.., GradOptions::new().policy(policy)).unwrap();
    let saved = |graph: &Graph| {
        let buffers = graph.nodes().iter().find_map(|node| match &node.op {
            Op::Scan(scan) if !scan.reverse => Some(scan.buffers.len()),
            _ => None,
        });
        buffers.unwrap()
    };
    let plain = gradients(CheckpointPolicy::Recompute);
    let expected = crate::evaluate(&plain, &inputs).unwrap();
    assert_eq!(saved(&plain), 1, "the state alone: {plain}");
    let products = gradients(CheckpointPolicy::SaveDots);
    assert_eq!(saved(&products), 2, "the state and the product: {products}");
    let all = gradients(CheckpointPolicy::SaveAll);
    assert!(saved(&all) > 2, "{all}");
    for graph in [products, all] {
        assert_eq!(crate::evaluate(&graph, &inputs).unwrap(), expected, "{graph}");
    }
}

/// Checks that a checkpoint does not change the gradient, and that the checkpointed code runs in both the forward pass
/// and the backward pass.
#[test]
fn a_checkpoint_is_computed_again() {
    let program = |is_region: bool| {
        let graph = Graph::build("f", |g| {
            let x = g.input("x", "f64[2]");
            let f = || (x.sin() * x).exp();
            let y = if is_region { checkpoint(f) } else { f() };
            y.square().sum(0)
        });
        graph.unwrap().grad("x", GradOptions::new()).unwrap()
    };
    let inputs = [HostTensor::from([0.3f64, -1.2])];
    let results = [true, false].map(|is_region| crate::evaluate(&program(is_region), &inputs).unwrap());
    assert_eq!(results[0], results[1]);
    let regions = program(true).nodes().iter().filter(|node| matches!(node.op, Op::Switch(_))).count();
    assert_eq!(regions, 2, "forward and backward");
}

/// An op without derivative rules, defined through [`CustomOp`](crate::ops::CustomOp) like an op of another crate.
#[derive(Debug)]
struct Opaque;

impl crate::ops::OpKey for Opaque {
    const NAME: &'static str = "opaque";
    fn of(op: &Op) -> Option<&Self> {
        if let Op::Custom(custom) = op { custom.downcast() } else { None }
    }
}

impl crate::ops::CustomOp for Opaque {
    fn infer(&self, _: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>, Error> {
        Ok(inputs.to_vec())
    }

    fn eval(&self, _: &mut EvalContext, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>, Error> {
        Ok(inputs.to_vec())
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn batch(&self, _: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        Ok(operands.to_vec())
    }
}

#[test]
fn an_op_from_outside_without_a_rule_is_an_error() {
    let opaque = |x: Value| crate::apply(crate::ops::Custom::new(Opaque), &[x])[0];
    refused(|g| grad(g.input("x", "f32[]"), opaque), "NoDerivative", "implement `CustomOp::vjp`");
    let pushed = |g: &Builder| jvp(g.input("x", "f32[]"), g.input("v", "f32[]"), opaque).1;
    refused(pushed, "NoDerivative", "implement `CustomOp::jvp`");
    // An op needs no rule if the requested derivative does not pass through it.
    let beside = |g: &Builder| {
        let (x, y) = (g.input("x", "f32[]"), g.input("y", "f32[]"));
        grad(x, |x| x * opaque(y))
    };
    assert!(Graph::build("model", beside).is_ok());
}

#[test]
fn a_hessian_is_multiplied_without_being_made() {
    let graph = Graph::build("f", |g| {
        let (x, w, b) = (g.input("x", "f64[2]"), g.input("w", "f64[]"), g.input("b", "f64[]"));
        (x * x * x).sum(0) * w.square() + b
    });
    let graph = graph.unwrap();
    let product = graph.hvp(["x", "b"], GradOptions::new()).unwrap();
    let inputs: Vec<&str> = (0..product.inputs().len()).map(|index| product.input_name(index)).collect();
    let outputs: Vec<&str> = product.outputs().iter().map(|output| output.name.as_str()).collect();
    assert_eq!((inputs, outputs), (vec!["x", "w", "b", "tan_x", "tan_b"], vec!["hvp_x", "hvp_b"]));
    let scalar = HostTensor::scalar::<f64>;
    let arguments = [HostTensor::from([1f64, 2.]), scalar(3.), scalar(5.), HostTensor::from([10f64, 1.]), scalar(7.)];
    let expected = [HostTensor::from([540f64, 108.]), scalar(0.)];
    assert_eq!(crate::evaluate(&product, &arguments).unwrap(), expected);
    is_refused(graph.hvp("y", GradOptions::new()), "Type", "hvp: `wrt` does not fit");
}

/// Checks the Jacobians and Hessians of `x[0]^2 * x[1] * w`, and the Jacobians of the final state of a loop.
#[test]
fn jacobians_and_hessians_from_graph_to_graph() {
    let graph = Graph::build("pair", |g| {
        let (x, w, n) = (g.input("x", "f64[2]"), g.input("w", "f64[]"), g.input("n", "i64[]"));
        let loss = x.index(0, 0).square() * x.index(0, 1) * w;
        (loss, scan(w, x, |c, x| (c * x, ())).0, n)
    });
    let graph = graph.unwrap();
    let inputs = [HostTensor::from([3f64, 5.]), HostTensor::scalar(2f64), HostTensor::scalar(7i64)];
    let named = |graph: Graph| {
        graph.check().unwrap();
        let names = graph.outputs().iter().map(|output| output.name.clone());
        names.zip(crate::evaluate(&graph, &inputs).unwrap()).collect::<std::collections::BTreeMap<_, _>>()
    };
    let jacobians = named(graph.jacobian(..).unwrap());
    let expected = [
        ("jac_out_0_w", HostTensor::scalar(45f64)),
        ("jac_out_0_x", HostTensor::from([60f64, 18.])),
        ("jac_out_1_w", HostTensor::scalar(15f64)),
        ("jac_out_1_x", HostTensor::from([10f64, 6.])),
    ];
    assert_eq!(jacobians, expected.map(|(name, value)| (name.to_string(), value)).into());
    let hessians = named(graph.hessian(["x", "w"], GradOptions::new().of("out_0")).unwrap());
    let expected = [
        ("hess_w_w", HostTensor::scalar(0f64)),
        ("hess_w_x", HostTensor::from([30f64, 9.])),
        ("hess_x_w", HostTensor::from([30f64, 9.])),
        ("hess_x_x", HostTensor::from([[20f64, 12.], [12., 0.]])),
    ];
    assert_eq!(hessians, expected.map(|(name, value)| (name.to_string(), value)).into());
}
