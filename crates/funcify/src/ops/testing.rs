//! How the ops' own tests state what they expect: by the op's text, its operands and its result.

use crate::HostTensor;
use crate::error::{Place, Result, Site};
use crate::ops::{EvalContext, Op, OpRules};
use crate::types::{Sizes, TensorType};

fn parse(text: &str) -> Op {
    crate::text::parse_op_text(text).unwrap_or_else(|expected| panic!("`{text}`: expected {expected}"))
}

fn try_eval(text: &str, inputs: &[HostTensor]) -> Result<HostTensor> {
    let op = parse(text);
    let at = Place::new(op.name(), Site::Unknown);
    let types: Vec<TensorType> = inputs.iter().map(HostTensor::ty).collect();
    let outputs = op.infer(&at, &types)?;
    let mut sizes = Sizes::new();
    let results = op.eval(&mut EvalContext { at, sizes: &mut sizes }, inputs, &outputs)?;
    assert_eq!(results[0].ty(), outputs[0], "the evaluation gives the inferred type");
    Ok(results[0].clone())
}

/// The result of an op on these operands.
pub(crate) fn eval_op(text: &str, inputs: &[HostTensor]) -> HostTensor {
    try_eval(text, inputs).unwrap_or_else(|error| panic!("{error}"))
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
