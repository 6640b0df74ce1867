//! Reads Burn's autodiff tape of a recorded closure, to find the gradient stops.
//!
//! `detach()`, `set_require_grad(false)` and `no_grad()` compute nothing, so capture records no op for them: later ops
//! read the detached tensor like any other. But the closure runs with Burn's autodiff on top of capture, and the
//! autodiff tape has no edge where a gradient stops. To read the tape, this module records Burn's own backward pass
//! after the closure, from all results at once. Each gradient that the pass registers reveals an edge.
//! [`stops`](super::stops) compares the edges with the operands of the recorded ops, and finds the operands through
//! which no gradient flows.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::{DistributedRegistration, Gradients};
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::ops::FloatTensorOps;
use burn::backend::{
    Autodiff, BackendTypes, Capture, DispatchKindConversion, GradientCheckpointingStrategy, Scalar, TensorPrimitive,
};
use burn::tensor::container::TensorContainer;
use burn_router::RouterClient;

use super::*;

/// The capture backend with Burn's autodiff on top.
type AutodiffCapture = Autodiff<Capture, NoCheckpointing>;

/// A float tensor of [`AutodiffCapture`].
type Taped = <AutodiffCapture as BackendTypes>::FloatTensorPrimitive;

/// A tensor of the capture backend, without autodiff.
pub(super) type Router = <Capture as BackendTypes>::FloatTensorPrimitive;

/// The id of the custom op that separates the closure's own ops from the backward pass.
pub(super) const END: &str = "funcify-tape";

/// A tensor at which the backward pass starts.
pub(super) struct Root {
    /// The tensor's node on the tape, or `None` if the tensor does not depend on a leaf.
    pub(super) node: Option<u64>,
    pub(super) tensor: TensorId,
    pub(super) place: RootPlace,
}

/// The position of a root in the closure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RootPlace {
    /// A result of the closure, given by its index.
    Result(usize),
    /// An operand of an inner loop's marker, given by the marker's first result and the operand's index.
    Operand(TensorId, usize),
}

/// The edges of a closure's tape, revealed by its backward pass.
#[derive(Default)]
pub(super) struct Edges {
    /// For each node, the nodes to which it passes gradients, each with the gradient's shape. The same target may occur
    /// several times.
    pub(super) edges: BTreeMap<u64, Vec<(u64, Shape)>>,
    /// The nodes of the leaves, each with its tensor: the closure's arguments, and the parameters and results of inner
    /// loops.
    pub(super) leaves: BTreeMap<u64, TensorId>,
    pub(super) roots: Vec<Root>,
    /// The gradient of each node, summed over all contributions.
    pub(super) gradients: BTreeMap<u64, TensorId>,
    /// `true` if the order of the backward steps could not be determined.
    pub(super) is_order_lost: bool,
}

impl Edges {
    /// Returns whether a node is a leaf or has edges to other nodes.
    pub(super) fn leads_on(&self, node: u64) -> bool {
        self.edges.contains_key(&node) || self.leaves.contains_key(&node)
    }
}

/// The factor in the initial gradients: the backward pass starts from `FACTOR * result + ADDEND` for each result, so
/// that the elements of a gradient differ.
pub(super) const FACTOR: f64 = 1.7;
/// The addend in the initial gradients: see [`FACTOR`].
pub(super) const ADDEND: f64 = 0.3;

thread_local! {
    /// The leaves and roots of the closure that this thread is recording.
    static TAPE_BOUNDS: RefCell<TapeBounds> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// The leaves at which a tape begins, and the operands of loop markers at which it ends, with their positions.
type TapeBounds = (Vec<Tensor>, Vec<(Tensor, RootPlace)>);

/// Makes a recorded tensor a leaf of Burn's autodiff, so that it receives a gradient.
pub(super) fn leaf(tensor: Tensor) -> Tensor {
    let leaf = match tensor.kind {
        DispatchTensorKind::Capture(BackendTensor::Float(tensor)) => {
            let taped = BackendTensor::<AutodiffCapture>::Float(Taped::new(tensor).require_grad());
            <Tensor as DispatchKindConversion<AutodiffCapture>>::from_backend(taped)
        }
        kind => Tensor { kind, autodiff: DispatchAutodiffContext::Enabled(GradientCheckpointingStrategy::Disabled) },
    };
    TAPE_BOUNDS.with_borrow_mut(|(leaves, _)| leaves.push(leaf.clone()));
    leaf
}

/// Returns a recorded tensor without autodiff.
pub(super) fn without_tape(tensor: &Tensor) -> Tensor {
    let kind = match (&tensor.kind, as_taped(tensor)) {
        (_, Some(taped)) => DispatchTensorKind::Capture(BackendTensor::Float(taped.primitive().clone())),
        (kind, None) => kind.clone(),
    };
    Tensor { kind, autodiff: DispatchAutodiffContext::Disabled }
}

/// Adds the operands of an inner loop's marker to the roots. `mark` is the marker's first result.
pub(super) fn note_reads(mark: TensorId, operands: impl Iterator<Item = Tensor>) {
    TAPE_BOUNDS.with_borrow_mut(|(_, roots)| {
        roots.extend(operands.enumerate().map(|(index, tensor)| (tensor, RootPlace::Operand(mark, index))));
    });
}

/// Returns the underlying tensor of the capture backend, or `None` if the tensor is not recorded.
pub(super) fn router(tensor: &Tensor) -> Option<&Router> {
    use BackendTensor::{Bool, Float, Int};
    match &tensor.kind {
        DispatchTensorKind::Capture(Float(tensor) | Int(tensor) | Bool(tensor)) => Some(tensor),
        _ => as_taped(tensor).map(|taped| taped.primitive()),
    }
}

/// Returns whether a recorded tensor has autodiff.
pub(super) fn has_tape(tensor: &Tensor) -> bool {
    tensor.autodiff != DispatchAutodiffContext::Disabled
}

fn as_taped(tensor: &Tensor) -> Option<&Taped> {
    match &tensor.kind {
        DispatchTensorKind::Autodiff(inner) => match &**inner {
            DispatchTensorKind::Capture(BackendTensor::Autodiff(taped)) => Some(taped),
            _ => None,
        },
        _ => None,
    }
}

/// Starts collecting the leaves and roots of a closure. Dropping the returned guard restores those of the enclosing
/// closure.
pub(super) fn begin() -> impl Drop {
    struct Outer(TapeBounds);
    impl Drop for Outer {
        fn drop(&mut self) {
            TAPE_BOUNDS.set(std::mem::take(&mut self.0));
        }
    }
    Outer(TAPE_BOUNDS.take())
}

/// Records Burn's backward pass from the results of a closure, and returns the edges that it reveals.
pub(super) fn record_backward(results: &[Tensor]) -> Edges {
    let (leaves, mark_roots) = TAPE_BOUNDS.take();
    let of_leaf = |leaf: &Tensor| as_taped(leaf).map(|taped| (taped.id().value, taped.primitive().id()));
    let leaves = leaves.iter().filter_map(of_leaf).collect();
    let results = results.iter().cloned().enumerate().map(|(index, result)| (result, RootPlace::Result(index)));
    let roots: Vec<(Tensor, RootPlace)> =
        results.chain(mark_roots).filter(|(root, _)| root.dtype().is_float()).collect();
    let watched = run_backward(&roots);
    let named = roots.iter().filter_map(|(root, place)| {
        let node = as_taped(root).filter(|taped| taped.is_tracked()).map(|taped| taped.id().value);
        Some(Root { node, tensor: router(root)?.id(), place: *place })
    });
    let roots = named.collect();
    let Watched { edges, gradients, is_order_lost, .. } = watched;
    Edges { edges, leaves, roots, gradients, is_order_lost }
}

/// Runs Burn's backward pass from all roots at once. Returns the edges and gradients that the pass registers.
fn run_backward(roots: &[(Tensor, RootPlace)]) -> Watched {
    let watched = Arc::new(Mutex::new(Watched::default()));
    let tracked: Vec<&Taped> =
        roots.iter().filter_map(|(root, _)| as_taped(root)).filter(|it| it.is_tracked()).collect();
    let Some(first) = tracked.first() else {
        return Watched::default();
    };
    let end = CustomOpIr { id: END.into(), inputs: Vec::new(), outputs: Vec::new(), scalars: Vec::new() };
    first.primitive().client.register_op(OperationIr::Custom(end));
    let mut last: Option<Taped> = None;
    for (index, root) in tracked.iter().enumerate() {
        let watched = (index + 1 == tracked.len()).then(|| watched.clone());
        let seed = Seed { root: root.primitive().clone(), watched };
        let before = last.take().unwrap_or_else(|| Taped::new(first.primitive().clone()));
        let value = first.primitive().clone();
        let joined = match JoinRoots.prepare::<NoCheckpointing>([root.node(), before.node()]).compute_bound().stateful()
        {
            OpsKind::Tracked(prepared) => prepared.finish(seed, value),
            OpsKind::UnTracked(prepared) => prepared.finish(value),
        };
        last = Some(joined);
    }
    if let Some(last) = last {
        drop(last.backward());
    }
    let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut *watched)
}

/// A tape op that joins a root with the earlier roots, so that one backward pass covers all of them. Its backward step
/// registers the gradient of the root.
#[derive(Debug)]
struct JoinRoots;

#[derive(Clone, Debug)]
struct Seed {
    root: Router,
    /// Collects the edges that the backward pass follows. `Some` only in the last join, where the pass begins.
    watched: Option<Arc<Mutex<Watched>>>,
}

impl Backward<Capture, 2> for JoinRoots {
    type State = Seed;

    fn backward(self, ops: Ops<Seed, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let signal = grads.consume::<Capture>(&ops.node);
        if let Some(watched) = ops.state.watched {
            let watcher = Box::new(Watcher(watched));
            *grads = Gradients::new_distributed::<Capture>(ops.node.clone(), signal.clone(), watcher);
            drop(grads.consume::<Capture>(&ops.node));
        }
        let [root, before] = ops.parents;
        if let Some(root) = root {
            let scaled = Capture::float_mul_scalar(ops.state.root, Scalar::from(FACTOR));
            grads.register::<Capture>(root.id, Capture::float_add_scalar(scaled, Scalar::from(ADDEND)));
        }
        if let Some(before) = before {
            grads.register::<Capture>(before.id, signal);
        }
    }
}

/// The edges and gradients that a backward pass has registered so far.
#[derive(Default, Debug)]
struct Watched {
    edges: BTreeMap<u64, Vec<(u64, Shape)>>,
    gradients: BTreeMap<u64, TensorId>,
    /// The nodes that have a gradient and whose backward step has not run yet.
    waiting: BTreeSet<u64>,
    /// The node whose backward step is running.
    running: Option<u64>,
    is_order_lost: bool,
}

/// A listener that Burn calls for each registered gradient.
struct Watcher(Arc<Mutex<Watched>>);

impl DistributedRegistration for Watcher {
    /// Adds an edge from the running node to `node`. A backward step first removes the gradient of its own node, and
    /// then registers the gradients of its operands. So the running node is the one whose gradient was removed since
    /// the previous call.
    fn on_register(&mut self, node: &NodeId, container: &mut TensorContainer<u64>) {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting: BTreeSet<u64> = container.ids().into_iter().copied().collect();
        let taken: Vec<u64> = watched.waiting.difference(&waiting).copied().collect();
        match *taken.as_slice() {
            [] => {}
            [step] => watched.running = Some(step),
            _ => watched.is_order_lost = true,
        }
        watched.waiting = waiting;
        let gradient = container.get::<TensorPrimitive<Capture>>(&node.value).map(TensorPrimitive::tensor);
        if let (Some(running), Some(gradient)) = (watched.running, gradient) {
            watched.gradients.insert(node.value, gradient.id());
            watched.edges.entry(running).or_default().push((node.value, gradient.shape()));
        }
    }
}
