//! How the ops' own tests state what they expect: by the op's text, its operands and its result.

use crate::error::{Place, Result, Site};
use crate::graph::Graph;
use crate::host::HostTensor;
use crate::ops::{EvalContext, Op, OpRules};
use crate::types::{Dim, Sizes, TensorType};
use crate::vmap::Batched;

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
    assert_eq!(types, outputs, "the evaluation gives the inferred types");
    Ok(results)
}

/// The results of an op on these operands.
pub(crate) fn eval_all(text: &str, inputs: &[HostTensor]) -> Vec<HostTensor> {
    try_eval(text, inputs).unwrap_or_else(|error| panic!("{error}"))
}

/// The first result of an op on these operands.
pub(crate) fn eval_op(text: &str, inputs: &[HostTensor]) -> HostTensor {
    eval_all(text, inputs).swap_remove(0)
}

/// The batching rule gives, for each lane, what the op gives on that lane's operands. An operand with `true` has one row
/// a lane. The number of lanes is once a number, once a symbol.
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
        let graph = Graph::build("batched", |builder| {
            let batched = operands.iter().enumerate().map(|(index, (x, mapped))| {
                let shape = if *mapped { x.ty().shape.with_dim(0, size.clone()) } else { x.ty().shape };
                let value = builder.input(&format!("x{index}"), x.ty().with_shape(shape));
                Batched { value, mapped: *mapped }
            });
            let batched: Vec<Batched> = batched.collect();
            op.batch(&size, &batched).iter().map(|result| result.spread(&size)).collect::<Vec<_>>()
        });
        let graph = graph.unwrap_or_else(|error| panic!("{error}"));
        let inputs: Vec<HostTensor> = operands.iter().map(|(x, _)| x.clone()).collect();
        let results = crate::evaluate(&graph, &inputs).unwrap_or_else(|error| panic!("{error}"));
        for (lane, expected) in expected.iter().enumerate() {
            let found: Vec<HostTensor> = results.iter().map(|result| result.row(lane)).collect();
            assert_eq!(found, *expected, "lane {lane} of {text}\n{graph}");
        }
    }
}

/// The op gives this result.
pub(crate) fn check_op(text: &str, inputs: &[HostTensor], expected: &HostTensor) {
    assert_eq!(eval_op(text, inputs), *expected, "{text}");
}

/// The type rule refuses these operands, and the message says this.
pub(crate) fn rejects(text: &str, types: &[&str], message: &str) {
    let op = parse(text);
    let at = Place::new(op.name(), Site::Unknown);
    let types: Vec<TensorType> = types.iter().map(|ty| TensorType::parse(ty).unwrap()).collect();
    let error = op.infer(&at, &types).expect_err("the type rule refuses").to_string();
    assert!(error.contains(message), "{error}\ndoes not say: {message}");
}
