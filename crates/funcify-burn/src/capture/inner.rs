//! Loops inside a recorded closure. The body of such a loop is recorded once, in place, between two marks, and becomes
//! a loop in the graph.
//!
//! The tensors of both bodies are on the same capture device, so the inner body may use values that the outer one has
//! computed.

use burn::tensor::DType as BurnDType;
use burn_router::RouterClient;

use super::record::unsupported;
use super::*;

const BEGIN: &str = "funcify-scan";
const END: &str = "funcify-scan-end";

/// The attributes of an inner loop, stored in its mark.
pub(super) struct InnerLoop {
    pub(super) is_reversed: bool,
    pub(super) steps: usize,
    /// The number of carries: they come first among the operands, and first among the results.
    pub(super) carries: usize,
}

/// The element type and the sizes of a Burn tensor.
pub(super) type Type = (BurnDType, Vec<usize>);

/// Returns whether a tensor is being recorded.
pub(super) fn is_recorded(tensor: &AnyTensor) -> bool {
    tape::router(tensor.as_dispatch()).is_some()
}

/// Returns whether an op is a mark.
pub(super) fn is_mark(op: &OperationIr) -> bool {
    matches!(op, OperationIr::Custom(op) if op.id == BEGIN || op.id == END)
}

/// Returns the type of a tensor.
pub(super) fn type_of(tensor: &AnyTensor) -> Type {
    (tensor.as_dispatch().dtype(), tensor.shape())
}

/// Begins a loop's body. Maps the operands (carries, then sequences) to the body's parameters, which have these types.
pub(super) fn begin(
    at: &Place,
    like: &AnyTensor,
    inner: &InnerLoop,
    operands: &[AnyTensor],
    params: &[Type],
) -> Result<Vec<AnyTensor>> {
    let InnerLoop { is_reversed, steps, carries } = *inner;
    let attributes = vec![ScalarIr::Bool(is_reversed), ScalarIr::UInt(steps as u64), ScalarIr::UInt(carries as u64)];
    add_mark(at, like, BEGIN, attributes, operands, params)
}

/// Ends a loop's body. Maps the body's results to the loop's results.
pub(super) fn end(at: &Place, like: &AnyTensor, results: &[AnyTensor], outputs: &[Type]) -> Result<Vec<AnyTensor>> {
    add_mark(at, like, END, Vec::new(), results, outputs)
}

/// Returns the loop that this op begins, if the op is a mark that begins one.
pub(super) fn loop_begun_by(op: &OperationIr) -> Option<(InnerLoop, &CustomOpIr)> {
    let OperationIr::Custom(op) = op else { return None };
    match *op.scalars.as_slice() {
        [ScalarIr::Bool(is_reversed), ScalarIr::UInt(steps), ScalarIr::UInt(carries)] if op.id == BEGIN => {
            Some((InnerLoop { is_reversed, steps: steps as usize, carries: carries as usize }, op))
        }
        _ => None,
    }
}

/// Splits off the ops of the loop's body at the start of `ops`, and returns them with the mark that ends the body.
pub(super) fn split_body(ops: &[OperationIr]) -> Option<(&[OperationIr], &CustomOpIr)> {
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

fn add_mark(
    at: &Place,
    like: &AnyTensor,
    id: &str,
    scalars: Vec<ScalarIr>,
    inputs: &[AnyTensor],
    outputs: &[Type],
) -> Result<Vec<AnyTensor>> {
    use BackendTensor::{Bool, Float, Int};
    let not_recorded = || {
        unsupported(
            at,
            "a loop whose tensors are not all recorded",
            "it runs inside a recorded closure, and one of its tensors is on another device",
            "pass the tensor to the closure, as a weight or as part of its carry",
        )
    };
    let first = tape::router(like.as_dispatch()).ok_or_else(not_recorded)?;
    let client = first.client.clone();
    let ir = |input: &AnyTensor| tape::router(input.as_dispatch()).map(|tensor| tensor.clone().into_ir());
    let operands = inputs.iter().map(|input| input.as_dispatch().clone());
    let inputs = inputs.iter().map(|input| ir(input).ok_or_else(not_recorded)).collect::<Result<Vec<TensorIr>>>()?;
    let new = outputs
        .iter()
        .map(|(dtype, sizes)| TensorIr::uninit(client.create_empty_handle(), Shape::from(sizes.clone()), *dtype));
    let outputs_ir: Vec<TensorIr> = new.collect();
    if let (Some(mark), true) = (outputs_ir.first(), tape::has_tape(like.as_dispatch())) {
        tape::note_reads(mark.id, operands);
    }
    let op = CustomOpIr { id: id.to_string(), inputs, outputs: outputs_ir, scalars };
    let results = client.register(OperationIr::Custom(op)).into_iter().zip(outputs);
    let results = results.map(|(tensor, (dtype, _))| {
        let tensor = match dtype {
            dtype if dtype.is_float() => Float(tensor),
            dtype if dtype.is_bool() => Bool(tensor),
            _ => Int(tensor),
        };
        let tensor = Tensor { kind: DispatchTensorKind::Capture(tensor), autodiff: DispatchAutodiffContext::Disabled };
        // The tape does not cross the boundary of a loop's body: the body's parameters and the loop's results are new
        // leaves.
        AnyTensor::new(if tape::has_tape(like.as_dispatch()) { tape::leaf(tensor) } else { tensor })
    });
    Ok(results.collect())
}
