//! Records a loop inside a closure that is itself being recorded.
//!
//! The body of the inner loop is recorded once, among the ops of the outer closure, between a begin marker and an end
//! marker. The importer turns these ops into a loop of the graph. The body and the outer closure are recorded on the
//! same capture device, so the body may use values that the outer closure has computed.

use burn::tensor::DType as BurnDType;
use burn_router::RouterClient;

use super::record::unsupported;
use super::*;

const BEGIN: &str = "funcify-scan";
const END: &str = "funcify-scan-end";

/// The attributes of an inner loop, stored in its begin marker.
pub(super) struct InnerLoop {
    pub(super) is_reversed: bool,
    pub(super) steps: usize,
    /// The number of carries, which are the first operands and the first results of the loop.
    pub(super) carries: usize,
}

/// The dtype and the sizes of a Burn tensor.
pub(super) type Type = (BurnDType, Vec<usize>);

/// Returns whether a tensor is on a capture device.
pub(super) fn is_recorded(tensor: &AnyTensor) -> bool {
    tape::router(tensor.as_dispatch()).is_some()
}

/// Returns whether an op is the begin or end marker of an inner loop.
pub(super) fn is_mark(op: &OperationIr) -> bool {
    matches!(op, OperationIr::Custom(op) if op.id == BEGIN || op.id == END)
}

/// Returns the dtype and the sizes of a tensor.
pub(super) fn type_of(tensor: &AnyTensor) -> Type {
    (tensor.as_dispatch().dtype(), tensor.shape())
}

/// Records the begin marker of a loop's body. The operands of the marker are those of the loop: the carries, then the
/// sequences. Returns the results of the marker, which are the parameters of the body; `params` gives their types.
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

/// Records the end marker of a loop's body. The operands of the marker are the results of the body. Returns the results
/// of the marker, which are the results of the loop; `outputs` gives their types.
pub(super) fn end(at: &Place, like: &AnyTensor, results: &[AnyTensor], outputs: &[Type]) -> Result<Vec<AnyTensor>> {
    add_mark(at, like, END, Vec::new(), results, outputs)
}

/// Returns the inner loop that `op` begins, and `op` as a custom op. Returns `None` if `op` is not a begin marker.
pub(super) fn loop_begun_by(op: &OperationIr) -> Option<(InnerLoop, &CustomOpIr)> {
    let OperationIr::Custom(op) = op else { return None };
    match *op.scalars.as_slice() {
        [ScalarIr::Bool(is_reversed), ScalarIr::UInt(steps), ScalarIr::UInt(carries)] if op.id == BEGIN => {
            Some((InnerLoop { is_reversed, steps: steps as usize, carries: carries as usize }, op))
        }
        _ => None,
    }
}

/// Splits `ops`, which follow a begin marker, at the matching end marker. Returns the ops of the body and the end
/// marker, or `None` if the end marker is missing.
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
        // The tape does not extend across the boundary of the body: the body's parameters and the loop's results are
        // new leaves.
        AnyTensor::new(if tape::has_tape(like.as_dispatch()) { tape::leaf(tensor) } else { tensor })
    });
    Ok(results.collect())
}
