//! A loop in a closure that is recorded: its body is recorded once, in place, between two marks, and is a loop in the graph.
//!
//! The tensors of both bodies are on one capture device, so the inner one may use what the outer one has computed.

use burn::backend::{BackendTensor, DispatchAutodiffContext, DispatchTensorKind, TensorMetadata};
use burn::tensor::{DType as BurnDType, Shape};
use burn_ir::{CustomOpIr, OperationIr, ScalarIr, TensorIr};
use burn_router::RouterClient;
use funcify::error::{Place, Result};

use super::record::unsupported;
use crate::kinds::Tensor;
use crate::plugin::AnyTensor;

const BEGIN: &str = "funcify-scan";
const END: &str = "funcify-scan-end";

/// A loop's attributes, as its mark has them.
pub(super) struct Inner {
    pub(super) is_reversed: bool,
    pub(super) steps: usize,
    /// How many of its operands, and of its results, are carries.
    pub(super) carries: usize,
}

/// An element type of Burn's, and sizes.
pub(super) type Type = (BurnDType, Vec<usize>);

/// Whether a tensor is being recorded.
pub(super) fn is_recorded(tensor: &AnyTensor) -> bool {
    matches!(tensor.as_dispatch().kind, DispatchTensorKind::Capture(_))
}

/// The type of a tensor.
pub(super) fn type_of(tensor: &AnyTensor) -> Type {
    (tensor.as_dispatch().dtype(), tensor.shape())
}

/// Begins a loop's body: from the operands, carries and sequences, to the body's parameters, of these types.
pub(super) fn begin(
    at: &Place,
    like: &AnyTensor,
    inner: &Inner,
    operands: &[AnyTensor],
    params: &[Type],
) -> Result<Vec<AnyTensor>> {
    let Inner { is_reversed, steps, carries } = *inner;
    let attributes = vec![ScalarIr::Bool(is_reversed), ScalarIr::UInt(steps as u64), ScalarIr::UInt(carries as u64)];
    mark(at, like, BEGIN, attributes, operands, params)
}

/// Ends it: from the body's results to those of the loop.
pub(super) fn end(at: &Place, like: &AnyTensor, results: &[AnyTensor], outputs: &[Type]) -> Result<Vec<AnyTensor>> {
    mark(at, like, END, Vec::new(), results, outputs)
}

/// The loop that an op begins.
pub(super) fn begins(op: &OperationIr) -> Option<(Inner, &CustomOpIr)> {
    match op {
        OperationIr::Custom(op) if op.id == BEGIN => match *op.scalars.as_slice() {
            [ScalarIr::Bool(is_reversed), ScalarIr::UInt(steps), ScalarIr::UInt(carries)] => {
                Some((Inner { is_reversed, steps: steps as usize, carries: carries as usize }, op))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The ops of a loop's body, which `ops` begin with, and the mark of its end.
pub(super) fn body(ops: &[OperationIr]) -> Option<(&[OperationIr], &CustomOpIr)> {
    let mut open = 1;
    for (index, op) in ops.iter().enumerate() {
        match op {
            OperationIr::Custom(op) if op.id == BEGIN => open += 1,
            OperationIr::Custom(op) if op.id == END => open -= 1,
            _ => {}
        }
        if let (0, OperationIr::Custom(end)) = (open, op) {
            return Some((&ops[..index], end));
        }
    }
    None
}

fn mark(
    at: &Place,
    like: &AnyTensor,
    id: &str,
    scalars: Vec<ScalarIr>,
    inputs: &[AnyTensor],
    outputs: &[Type],
) -> Result<Vec<AnyTensor>> {
    use BackendTensor::{Bool, Float, Int};
    let foreign = || {
        unsupported(
            at,
            "a loop whose tensors are not all recorded",
            "it is in a closure that is recorded, and is given a tensor of another device",
            "give the tensor to the closure, as a weight or as a part of its carry",
        )
    };
    let DispatchTensorKind::Capture(Float(first) | Int(first) | Bool(first)) = &like.as_dispatch().kind else {
        return Err(foreign());
    };
    let client = first.client.clone();
    let inputs = inputs.iter().map(|input| match &input.as_dispatch().kind {
        DispatchTensorKind::Capture(Float(tensor) | Int(tensor) | Bool(tensor)) => Ok(tensor.clone().into_ir()),
        _ => Err(foreign()),
    });
    let inputs = inputs.collect::<Result<Vec<TensorIr>>>()?;
    let new = outputs
        .iter()
        .map(|(dtype, sizes)| TensorIr::uninit(client.create_empty_handle(), Shape::from(sizes.clone()), *dtype));
    let op = CustomOpIr { id: id.to_string(), inputs, outputs: new.collect(), scalars };
    let results = client.register(OperationIr::Custom(op)).into_iter().zip(outputs);
    let results = results.map(|(tensor, (dtype, _))| {
        let tensor = match dtype {
            dtype if dtype.is_float() => Float(tensor),
            dtype if dtype.is_bool() => Bool(tensor),
            _ => Int(tensor),
        };
        AnyTensor::new(Tensor {
            kind: DispatchTensorKind::Capture(tensor),
            autodiff: DispatchAutodiffContext::Disabled,
        })
    });
    Ok(results.collect())
}
