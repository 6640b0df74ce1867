//! Helpers for the tests of ops. A test specifies the text form of an op, its operands, and the expected result.

use crate::error::Site;
use crate::graph::{Graph, failing, tracer};
pub(in crate::ops) use crate::host::HostTensor;
use crate::ops::Op;
use crate::ops::rules::*;
use crate::types::Sizes;
use crate::{Disconnected, GradOptions};

fn parse(text: &str) -> Op {
    crate::text::parse_op_text(text).unwrap_or_else(|expected| panic!("`{text}`: expected {expected}"))
}

fn try_eval(text: &str, inputs: &[HostTensor]) -> Result<Vec<HostTensor>> {
    let op = parse(text);
    let at = Place::new(op.name(), Site::Unknown);
    let types: Vec<TensorType> = inputs.iter().map(HostTensor::ty).collect();
    let outputs = op.infer(&at, &types)?;
    let mut sizes = Sizes::new();
    let results = op.eval(&mut EvalContext { at, sizes: &mut sizes }, inputs, &outputs)?;
    let types: Vec<TensorType> = results.iter().map(HostTensor::ty).collect();
    assert_eq!(types, outputs, "the evaluation returns the inferred types");
    Ok(results)
}

/// Evaluates an op and returns all its results. Panics if the type rule or the evaluation fails.
pub(crate) fn eval_all(text: &str, inputs: &[HostTensor]) -> Vec<HostTensor> {
    try_eval(text, inputs).unwrap_or_else(|error| panic!("{error}"))
}

/// Evaluates an op and returns its first result. Panics like [`eval_all`].
pub(crate) fn eval_op(text: &str, inputs: &[HostTensor]) -> HostTensor {
    eval_all(text, inputs).swap_remove(0)
}

/// Checks that the batching rule computes the same results as running the op on each lane separately. An operand marked
/// `true` has one row per lane. Runs the check with a constant number of lanes, and again with a symbolic one.
pub(crate) fn check_batch(text: &str, operands: &[(HostTensor, bool)]) {
    let op = parse(text);
    let lanes = operands.iter().find(|(_, mapped)| *mapped).expect("some operand has lanes").0.shape()[0];
    let expected: Vec<Vec<HostTensor>> = (0..lanes)
        .map(|lane| {
            let of_lane = |(x, mapped): &(HostTensor, bool)| if *mapped { x.row(lane) } else { x.clone() };
            eval_all(text, &operands.iter().map(of_lane).collect::<Vec<_>>())
        })
        .collect();
    for size in [Dim::from(lanes), Dim::from("lanes")] {
        let build = || {
            tracer::build("batched", Site::Unknown, |builder| {
                let batched = operands.iter().enumerate().map(|(index, (x, mapped))| {
                    let shape = if *mapped { x.ty().shape.with_dim(0, size.clone()) } else { x.ty().shape };
                    let value = builder.input(&format!("x{index}"), x.ty().with_shape(shape));
                    Batched { value, mapped: *mapped }
                });
                let batched: Vec<Batched> = batched.collect();
                Ok(op.batch(&size, &batched)?.iter().map(|result| result.materialized(&size)).collect::<Vec<_>>())
            })
        };
        failing::check_each_op_failing(build);
        let graph = build().unwrap_or_else(|error| panic!("{error}"));
        let inputs: Vec<HostTensor> = operands.iter().map(|(x, _)| x.clone()).collect();
        let results = crate::evaluate(&graph, &inputs).unwrap_or_else(|error| panic!("{error}"));
        for (lane, expected) in expected.iter().enumerate() {
            let found: Vec<HostTensor> = results.iter().map(|result| result.row(lane)).collect();
            assert_eq!(found, *expected, "lane {lane} of {text}\n{graph}");
        }
    }
}

/// Checks that the first result of the op equals `expected`.
pub(crate) fn check_op(text: &str, inputs: &[HostTensor], expected: impl Into<HostTensor>) {
    assert_eq!(eval_op(text, inputs), expected.into(), "{text}");
}

/// Checks that the type rule rejects operands of these types with an error that contains `message`.
pub(crate) fn rejects(text: &str, types: &[&str], message: &str) {
    let op = parse(text);
    let at = Place::new(op.name(), Site::Unknown);
    let types: Vec<TensorType> = types.iter().map(|ty| TensorType::parse(ty).unwrap()).collect();
    let error = op.infer(&at, &types).expect_err("the type rule rejects the operands").to_string();
    assert!(error.contains(message), "{error}\ndoes not say: {message}");
}

/// Checks that the type rule accepts these operands, but evaluation fails with an error that contains `message`.
pub(crate) fn fails(text: &str, inputs: &[HostTensor], message: &str) {
    let op = parse(text);
    let types: Vec<TensorType> = inputs.iter().map(HostTensor::ty).collect();
    let inferred = op.infer(&Place::new(op.name(), Site::Unknown), &types);
    assert!(inferred.is_ok(), "{text}: {inferred:?}");
    let error = try_eval(text, inputs).expect_err("the evaluation fails").to_string();
    assert!(error.contains(message), "{error}\ndoes not say: {message}");
}

/// Checks the first and second derivatives of an op at these f64 operands. Forward mode must agree with central
/// differences, and reverse mode with forward mode.
pub(crate) fn check_derivative(text: &str, operands: &[HostTensor]) {
    let op = parse(text);
    let graph = Graph::build("op", |builder| {
        let inputs = operands.iter().enumerate().map(|(index, x)| builder.input(&format!("x{index}"), x.ty()));
        let results = crate::apply(op, &inputs.collect::<Vec<Value>>());
        results.into_iter().filter(|result| result.dtype().is_float()).collect::<Vec<Value>>()
    });
    let graph = graph.unwrap_or_else(|error| panic!("{text}: {error}"));
    let names: Vec<String> = (0..operands.len())
        .filter(|index| operands[*index].dtype().is_float())
        .map(|index| format!("x{index}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let zeros = || GradOptions::new().disconnected(Disconnected::Zeros);
    failing::check_each_op_failing(|| graph.vjp(names.as_slice(), zeros()));
    failing::check_each_op_failing(|| graph.jvp(names.as_slice()));
    let pulled = graph.vjp(names.as_slice(), zeros()).unwrap_or_else(|error| panic!("{text}: {error}"));
    let cotangents: Vec<HostTensor> =
        (0..graph.outputs().len()).map(|index| numbers(graph.output_type(index), index + 7)).collect();
    let inputs = [operands, &cotangents].concat();
    let (pushed, along) = check_forward(text, &graph, &names, operands);
    let count = graph.outputs().len();
    let gradients = run(text, &pulled, &inputs).split_off(count);
    let left: f64 = cotangents.iter().zip(&pushed[count..]).map(|(a, b)| dot(a, b)).sum();
    let right: f64 = along.iter().zip(&gradients).map(|(a, b)| dot(a, b)).sum();
    assert!(
        (left - right).abs() < 1e-9 * (1.0 + left.abs()),
        "{text}: <ct, jvp> is {left}, <vjp, tan> is {right}\n{pulled}"
    );
    let outputs: Vec<String> = names.iter().map(|name| format!("grad_{name}")).collect();
    let gradients = pulled.with_only_outputs(&outputs.iter().map(String::as_str).collect::<Vec<_>>());
    check_forward(text, &gradients.unwrap_or_else(|error| panic!("{text}: {error}")), &names, &inputs);
}

/// Checks that forward mode agrees with central differences along pseudorandom tangents of the inputs in `wrt`. Returns
/// two lists: the results followed by their tangents, and the tangents of the inputs in `wrt`.
fn check_forward(text: &str, graph: &Graph, wrt: &[&str], inputs: &[HostTensor]) -> (Vec<HostTensor>, Vec<HostTensor>) {
    let pushed = graph.jvp(wrt).unwrap_or_else(|error| panic!("{text}: {error}"));
    let index_of = |name: &&str| (0..graph.inputs().len()).find(|index| graph.input_name(*index) == *name).unwrap();
    let places: Vec<usize> = wrt.iter().map(index_of).collect();
    let along: Vec<HostTensor> = places.iter().map(|index| numbers(&inputs[*index].ty(), *index)).collect();
    let results = run(text, &pushed, &[inputs, &along].concat());
    let step = 1e-6;
    let moved = |sign: f64| {
        let mut moved = inputs.to_vec();
        for (index, along) in places.iter().zip(&along) {
            moved[*index] = HostTensor::from_fn(DType::F64, inputs[*index].shape(), |at| {
                Scalar::Float(inputs[*index].at(at).as_f64() + sign * step * along.at(at).as_f64())
            });
        }
        run(text, graph, &moved)
    };
    for (number, (plus, minus)) in moved(1.0).iter().zip(&moved(-1.0)).enumerate() {
        let tangent = &results[graph.outputs().len() + number];
        for ((plus, minus), tangent) in plus.to_f64_vec().iter().zip(minus.to_f64_vec()).zip(tangent.to_f64_vec()) {
            let numeric = (plus - minus) / (2.0 * step);
            let close = (numeric - tangent).abs() < 1e-5 * (1.0 + numeric.abs());
            assert!(close, "{text}: the tangent of result {number} is {tangent}, not {numeric}\n{pushed}");
        }
    }
    (results, along)
}

fn run(text: &str, graph: &Graph, inputs: &[HostTensor]) -> Vec<HostTensor> {
    graph.check().unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
    crate::evaluate(graph, inputs).unwrap_or_else(|error| panic!("{text}: {error}\n{graph}"))
}

fn dot(left: &HostTensor, right: &HostTensor) -> f64 {
    left.to_f64_vec().iter().zip(right.to_f64_vec()).map(|(a, b)| a * b).sum()
}

/// Returns a tensor of pseudorandom numbers between -1 and 1.
fn numbers(ty: &TensorType, seed: usize) -> HostTensor {
    let mut state = seed + 1;
    HostTensor::from_fn(ty.dtype, &ty.shape.constant().unwrap(), |_| {
        state = (state * 1103515245 + 12345) % (1 << 31);
        Scalar::Float((state >> 8) as f64 / (1 << 22) as f64 - 1.0)
    })
}
