//! Puts one op with any number of operands and results on the tape of Burn's autodiff.
//!
//! A node of Burn's autodiff has a fixed number of operands and exactly one result, so a call becomes several nodes:
//!
//! - The operands are distributed over a chain of *links*. A link has up to [`MAX_OPERANDS`] operands, including the
//!   previous link. The last link computes the gradients from the cotangents.
//! - Each float result has a node whose only operand is the last link. This node stores the result's cotangent. If
//!   there is only one float result, the last link itself is the node of that result.
//!
//! The backward pass runs the deepest nodes of the tape first. So the last link runs after all cotangents have been
//! stored, and before the nodes of the operands.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::{BalancedCheckpointing, CheckpointStrategy, NoCheckpointing};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Autodiff, Backend, BackendTensor, BackendTypes, DispatchAutodiffContext, DispatchKindConversion,
    DispatchTensorKind, GradientCheckpointingStrategy, TensorMetadata,
};
use burn::tensor::{FloatDType, Shape};

use crate::kinds::{Kind, Outcome, Tensor, kind};

/// A function that computes the gradients of the operands from the cotangents of the results. A cotangent is `None`
/// if the loss does not use the result.
pub(crate) type Pull = Box<dyn FnOnce(Vec<Option<Tensor>>) -> Vec<Tensor> + Send>;

/// The maximum number of operands of a link. A link with fewer operands is padded to a power of two. Links are wide
/// because each node costs about as much as one of Burn's ops.
const MAX_OPERANDS: usize = 16;

/// The state that all nodes of a call share.
struct Shared {
    pull: Option<Pull>,
    /// The cotangent of each result, or `None` if it is not known yet.
    cotangents: Vec<Option<Tensor>>,
    /// The gradient of each operand, or `None` after its link has taken it. Empty until the last link has run.
    gradients: Vec<Option<Tensor>>,
}

/// The state of one node: the shared state, and the operands or the result that the node represents.
#[derive(Clone)]
struct Part {
    shared: Arc<Mutex<Shared>>,
    /// For a link, the index of its first operand; for the node of a result, the index of the result.
    first: usize,
    /// The number of the link's operands, excluding the previous link.
    operands: usize,
    /// The index of the float result whose node is this link, if any.
    result: Option<usize>,
}

impl Part {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("first", &self.first).finish_non_exhaustive()
    }
}

/// The tape op of a link, which passes gradients to the operands and to the previous link.
#[derive(Debug)]
struct Link;

/// The tape op of a result's node, which stores the cotangent of the result.
#[derive(Debug)]
struct Collect;

/// A float tensor of the backend `V`, wrapped in Burn's autodiff.
type Taped<V> = <Autodiff<V> as BackendTypes>::FloatTensorPrimitive;

impl<V: Backend, const N: usize> Backward<V, N> for Link
where
    Tensor: DispatchKindConversion<V>,
{
    type State = Part;

    fn backward(self, ops: Ops<Part, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let signal = grads.consume::<V>(&ops.node);
        let mut shared = ops.state.lock();
        if let Some(pull) = shared.pull.take() {
            let mut cotangents = std::mem::take(&mut shared.cotangents);
            if let Some(result) = ops.state.result {
                cotangents[result] = Some(dispatch::<V>(signal.clone()));
            }
            shared.gradients = pull(cotangents).into_iter().map(Some).collect();
        }
        let count = ops.state.operands;
        let before = ops.parents.get(count).cloned().flatten();
        for (index, operand) in ops.parents.into_iter().take(count).enumerate() {
            let gradient = shared.gradients[ops.state.first + index].take();
            if let (Some(operand), Some(gradient)) = (operand, gradient) {
                grads.register::<V>(operand.id, primitive::<V>(gradient));
            }
        }
        if let Some(before) = before {
            grads.register::<V>(before.id, signal);
        }
    }
}

impl<V: Backend> Backward<V, 1> for Collect
where
    Tensor: DispatchKindConversion<V>,
{
    type State = Part;

    fn backward(self, ops: Ops<Part, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let cotangent = grads.consume::<V>(&ops.node);
        let device = cotangent.device();
        let mut shared = ops.state.lock();
        // The first `Collect` node that runs must also register a zero gradient for the last link. Otherwise, Burn
        // would not run that link.
        let is_first = shared.cotangents.iter().all(Option::is_none);
        shared.cotangents[ops.state.first] = Some(dispatch::<V>(cotangent));
        let [last] = ops.parents;
        if let (Some(last), true) = (last, is_first) {
            grads.register::<V>(last.id, V::float_zeros(Shape::from(vec![1]), &device, FloatDType::F32));
        }
    }
}

/// Returns the backend's primitive for a tensor without autodiff. Panics if the tensor has autodiff or belongs to
/// another backend; callers never pass such a tensor.
fn primitive<V: Backend>(tensor: Tensor) -> FloatTensor<V>
where
    Tensor: DispatchKindConversion<V>,
{
    match <Tensor as DispatchKindConversion<V>>::try_into_backend(tensor) {
        Ok(tensor) => tensor.float(),
        Err(message) => panic!("a tensor of another device or with autodiff: {message}"),
    }
}

fn dispatch<V: Backend>(tensor: FloatTensor<V>) -> Tensor
where
    Tensor: DispatchKindConversion<V>,
{
    <Tensor as DispatchKindConversion<V>>::from_backend(BackendTensor::Float(tensor))
}

/// Returns whether Burn's autodiff tracks a tensor.
pub(crate) fn is_tracked(tensor: &Tensor) -> bool {
    let DispatchTensorKind::Autodiff(inner) = &tensor.kind else {
        return false;
    };
    match &**inner {
        #[cfg(feature = "flex")]
        DispatchTensorKind::Flex(tensor) => tensor.as_autodiff().is_tracked(),
        #[cfg(feature = "ndarray")]
        DispatchTensorKind::NdArray(tensor) => tensor.as_autodiff().is_tracked(),
        #[cfg(feature = "wgpu")]
        DispatchTensorKind::Cube(tensor) => tensor.as_autodiff().is_tracked(),
        _ => false,
    }
}

/// An op to put on the tape. All operands are tracked, and are on the same device as the results.
pub(crate) struct TapeOp {
    pub(crate) strategy: GradientCheckpointingStrategy,
    pub(crate) operands: Vec<Tensor>,
    pub(crate) results: Vec<Tensor>,
    pub(crate) pull: Pull,
}

/// Puts the results of an op on the tape. Results that are not floats have no gradient; the function only enables their
/// autodiff context. If there are no operands, no result has a gradient.
///
/// # Errors
/// Returns an error if the Cargo feature for the device is not enabled.
#[allow(deprecated, reason = "Burn deprecates its ndarray device; it is supported here as long as Burn has it")]
pub(crate) fn add_to_tape(tape_op: TapeOp) -> Outcome<Vec<Tensor>> {
    let Some(first) = tape_op.results.first() else {
        return Ok(Vec::new());
    };
    match &first.kind {
        #[cfg(feature = "flex")]
        DispatchTensorKind::Flex(_) => Ok(with_strategy::<burn::backend::Flex>(tape_op)),
        #[cfg(feature = "ndarray")]
        DispatchTensorKind::NdArray(_) => Ok(with_strategy::<burn::backend::NdArray>(tape_op)),
        #[cfg(feature = "wgpu")]
        DispatchTensorKind::Cube(_) => Ok(with_strategy::<burn::backend::Cube>(tape_op)),
        _ => Err("funcify-burn was compiled without the feature of this device".into()),
    }
}

fn with_strategy<V: Backend>(tape_op: TapeOp) -> Vec<Tensor>
where
    Tensor: DispatchKindConversion<V>
        + DispatchKindConversion<Autodiff<V, NoCheckpointing>>
        + DispatchKindConversion<Autodiff<V, BalancedCheckpointing>>,
{
    match tape_op.strategy {
        GradientCheckpointingStrategy::Disabled => record::<V, NoCheckpointing>(tape_op),
        GradientCheckpointingStrategy::Balanced => record::<V, BalancedCheckpointing>(tape_op),
    }
}

fn record<V: Backend, C: CheckpointStrategy>(tape_op: TapeOp) -> Vec<Tensor>
where
    Tensor: DispatchKindConversion<V> + DispatchKindConversion<Autodiff<V, C>>,
{
    let TapeOp { strategy, operands, results, pull } = tape_op;
    let shared = Shared { pull: Some(pull), cotangents: vec![None; results.len()], gradients: Vec::new() };
    let shared = Arc::new(Mutex::new(shared));
    let mut floats = (0..results.len()).filter(|index| kind(&results[*index]) == Kind::Float);
    let only = floats.next().filter(|_| floats.next().is_none());
    let mut last: Option<Taped<V>> = None;
    let links = operands.len().div_ceil(MAX_OPERANDS - 1);
    for (number, operands) in operands.chunks(MAX_OPERANDS - 1).enumerate() {
        let result = only.filter(|_| number + 1 == links);
        let part =
            Part { shared: shared.clone(), first: number * (MAX_OPERANDS - 1), operands: operands.len(), result };
        let value = result.map(|result| primitive::<V>(results[result].clone()));
        let link = match operands.len() + usize::from(last.is_some()) {
            1 => link::<V, C, 1>,
            2 => link::<V, C, 2>,
            3..=4 => link::<V, C, 4>,
            5..=8 => link::<V, C, 8>,
            _ => link::<V, C, MAX_OPERANDS>,
        };
        last = Some(link(part, operands, last.as_ref(), value));
    }
    let results = results.into_iter().enumerate().map(|(index, mut result)| {
        if kind(&result) != Kind::Float {
            result.autodiff = DispatchAutodiffContext::Enabled(strategy);
            return result;
        }
        let part = Part { shared: shared.clone(), first: index, operands: 0, result: None };
        let result = primitive::<V>(result);
        let taped = match &last {
            Some(last) if only == Some(index) => last.clone(),
            None => Taped::<V>::new(result),
            Some(last) => match Collect.prepare::<C>([last.node()]).compute_bound().stateful() {
                OpsKind::Tracked(prepared) => prepared.finish(part, result),
                OpsKind::UnTracked(prepared) => prepared.finish(result),
            },
        };
        <Tensor as DispatchKindConversion<Autodiff<V, C>>>::from_backend(BackendTensor::Float(taped))
    });
    results.collect()
}

/// Creates a link with these operands and the previous link (`before`), at most `N` operands in total. `value` is the
/// tensor of the link's node; if it is `None`, an arbitrary tensor is used.
fn link<V: Backend, C: CheckpointStrategy, const N: usize>(
    part: Part,
    operands: &[Tensor],
    before: Option<&Taped<V>>,
    value: Option<FloatTensor<V>>,
) -> Taped<V>
where
    Tensor: DispatchKindConversion<V> + DispatchKindConversion<Autodiff<V, C>>,
{
    let taped =
        |tensor: &Tensor| match <Tensor as DispatchKindConversion<Autodiff<V, C>>>::try_into_backend(tensor.clone()) {
            Ok(tensor) => tensor.float(),
            Err(message) => panic!("a tensor of another device or without autodiff: {message}"),
        };
    let mut operands: Vec<Taped<V>> = operands.iter().map(taped).collect();
    // Pad the operands to `N` with untracked copies of an arbitrary tensor.
    let any = operands[0].primitive().clone();
    operands.extend(before.cloned());
    operands.resize_with(N, || Taped::<V>::new(any.clone()));
    let nodes: [_; N] = std::array::from_fn(|index| operands[index].node());
    let value = value.unwrap_or(any);
    match Link.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish(part, value),
        OpsKind::UnTracked(prepared) => prepared.finish(value),
    }
}
