//! Finds the operands at which gradients stop in a recorded closure: the operands without an edge on Burn's autodiff
//! tape.
//!
//! Each node of the tape belongs to the result of an op, but the tape does not identify that op. So a search matches
//! nodes with tensors, from the roots to the leaves. The tensors of the roots and of the leaves are known. A match must
//! satisfy these rules:
//!
//! 1. The edges of a node lead only to operands of the op that computed the node's tensor. No gradient flows through
//!    an operand without an edge.
//! 2. Burn creates nodes in the same order as their tensors, so the edges of a node are in the same order as the
//!    operands of its op.
//! 3. A gradient has the shape of its tensor.
//!
//! Several matches may satisfy the rules but place the gradient stops differently. Numerical trials then find the match
//! whose gradients equal Burn's: see [`probe`](super::probe). If several matches pass every trial, the closure is
//! rejected, because their gradients may differ for other arguments. A Burn op with its own derivative rule may have
//! one node but several recorded ops. A closure with such an op is rejected too if its gradients differ from Burn's.

use std::cell::Cell;
use std::collections::HashSet;

use burn_ir::NumericOperationIr;

use super::record::unsupported;
use super::tape::{Edges, RootPlace};
use super::*;

/// The id of the custom op that represents a gradient stop in a record.
pub(super) const STOP: &str = "funcify-stop";

/// The maximum number of steps of the search.
const MAX_ATTEMPTS: usize = 1_000_000;

/// The maximum number of placements of gradient stops that the trials compare.
const MAX_PLACEMENTS: usize = 32;

/// The reason why a closure is rejected because of its gradients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StopError {
    /// No match satisfies the rules.
    Misfit,
    /// Several placements of stops fit the tape, and the trials do not single one out.
    Ambiguous,
    /// The chosen placement of stops fits the tape, but yields gradients that differ from Burn's.
    OtherRules,
}

impl StopError {
    /// Returns the error that rejects the closure.
    pub(super) fn into_error(self, at: &funcify_core::error::Place) -> funcify_core::Error {
        let with_stops = "a closure with `detach`, `set_require_grad(false)` or `no_grad`";
        let (what, reason, fix) = match self {
            StopError::Misfit => (
                with_stops,
                "Burn's autodiff tape does not match the recorded ops",
                "use other ops of Burn, or avoid `detach`, `set_require_grad` and `no_grad`",
            ),
            StopError::OtherRules => (
                "a closure whose gradients differ from those of its ops",
                "an op in it, such as `batch_norm_train` or an op of an extension, has its own derivative rule in Burn",
                "use other ops of Burn",
            ),
            StopError::Ambiguous => (
                with_stops,
                "Burn's autodiff does not record where `detach` was called, and several places in the closure fit",
                "detach an argument of the closure (weight, carry or row), or multiply by 1.0 before `detach`",
            ),
        };
        unsupported(at, what, reason, fix)
    }
}

/// A position where a gradient stops: an operand, given by the index of its op and its position in that op, or a result
/// of the closure, given by its index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Stop {
    Operand(usize, usize),
    Result(usize),
}

/// The ops of a closure, indexed for the search.
struct Forward<'a> {
    /// For each op, its float operands that depend on a leaf. Gradients may flow through them.
    operands: Vec<Vec<Operand>>,
    shapes: HashMap<TensorId, Shape>,
    /// The index of the op that computes each tensor.
    producers: HashMap<TensorId, usize>,
    /// The tensors that depend on a leaf.
    tracked: HashSet<TensorId>,
    ops: &'a [OperationIr],
}

impl<'a> Forward<'a> {
    fn new(ops: &'a [OperationIr], leaves: impl Iterator<Item = TensorId>) -> Self {
        let mut tracked: HashSet<TensorId> = leaves.collect();
        let (mut operands, mut shapes, mut producers) = (Vec::with_capacity(ops.len()), HashMap::new(), HashMap::new());
        for (index, op) in ops.iter().enumerate() {
            let inputs: Vec<&TensorIr> = op.inputs().collect();
            let floats = inputs.iter().enumerate().filter(|(_, it)| it.dtype.is_float() && tracked.contains(&it.id));
            let operand = |(position, it): (usize, &&TensorIr)| Operand { op: index, position, tensor: it.id };
            let floats: Vec<Operand> = floats.map(operand).collect();
            for tensor in inputs.into_iter().chain(op.outputs()) {
                shapes.insert(tensor.id, tensor.shape.clone());
            }
            for output in op.outputs() {
                if !floats.is_empty() && output.dtype.is_float() && !inner::is_mark(op) {
                    tracked.insert(output.id);
                    producers.insert(output.id, index);
                }
            }
            operands.push(floats);
        }
        Forward { operands, shapes, producers, tracked, ops }
    }

    /// Returns whether the op with this index is commutative.
    fn is_symmetric(&self, op: usize) -> bool {
        use NumericOperationIr::{Add, Mul};
        matches!(self.ops[op], OperationIr::NumericFloat(_, Add(_) | Mul(_)))
    }
}

/// A partial match: the tensors of the nodes visited so far, and the gradient stops that follow from these tensors.
#[derive(Clone, Default)]
struct Match {
    tensors: BTreeMap<u64, TensorId>,
    /// The matched nodes whose edges have not been followed yet.
    open: BTreeSet<u64>,
    stops: BTreeSet<Stop>,
}

/// An operand of an op: a possible target of an edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Operand {
    op: usize,
    position: usize,
    tensor: TensorId,
}

impl Operand {
    fn stop(&self) -> Stop {
        Stop::Operand(self.op, self.position)
    }
}

struct Search<'a> {
    forward: Forward<'a>,
    tape: &'a Edges,
    found: Vec<BTreeSet<Stop>>,
    attempts: Cell<usize>,
}

/// Returns all sets of gradient stops that fit the tape, or an error if no set fits or too many do.
pub(super) fn find_stops(ops: &[OperationIr], tape: &Edges) -> Result<Vec<BTreeSet<Stop>>, StopError> {
    if tape.is_order_lost {
        return Err(StopError::Misfit);
    }
    let forward = Forward::new(ops, tape.leaves.values().copied());
    let mut first = Match::default();
    for root in tape.roots.iter().filter(|root| forward.tracked.contains(&root.tensor)) {
        // If the closure turns a detached tensor into a new leaf, the leaf's node has no edges, so the gradient stops
        // at the root.
        match root.node.filter(|node| tape.leads_on(*node)) {
            Some(node) => _ = first.bind(tape, node, root.tensor),
            None => _ = first.stops.insert(stop_of(ops, root.place).ok_or(StopError::Misfit)?),
        }
    }
    let mut search = Search { forward, tape, found: Vec::new(), attempts: Cell::new(0) };
    search.run(first);
    match search.found.len() {
        _ if search.attempts.get() > MAX_ATTEMPTS => Err(StopError::Ambiguous),
        0 => Err(StopError::Misfit),
        1..=MAX_PLACEMENTS => Ok(search.found),
        _ => Err(StopError::Ambiguous),
    }
}

/// Returns the operands and results through which gradients flow, given these stops. Two placements of stops yield
/// equal gradients if this function returns the same set for both.
pub(super) fn live_places(
    ops: &[OperationIr],
    results: &[TensorId],
    tape: &Edges,
    stops: &BTreeSet<Stop>,
) -> BTreeSet<Stop> {
    let forward = Forward::new(ops, tape.leaves.values().copied());
    let mut leads: HashSet<TensorId> = tape.leaves.values().copied().collect();
    let mut open: Vec<Vec<Operand>> = Vec::with_capacity(ops.len());
    for (op, operands) in ops.iter().zip(forward.operands) {
        let is_open = |operand: &Operand| leads.contains(&operand.tensor) && !stops.contains(&operand.stop());
        let operands: Vec<Operand> = operands.into_iter().filter(is_open).collect();
        if !operands.is_empty() && !inner::is_mark(op) {
            leads.extend(op.outputs().filter(|output| output.dtype.is_float()).map(|output| output.id));
        }
        open.push(operands);
    }
    let results = results.iter().enumerate();
    let results = results.filter(|(index, result)| leads.contains(result) && !stops.contains(&Stop::Result(*index)));
    let (mut wanted, mut live) = (HashSet::new(), BTreeSet::new());
    for (index, result) in results {
        wanted.insert(*result);
        live.insert(Stop::Result(index));
    }
    for (index, op) in ops.iter().enumerate().rev() {
        if inner::is_mark(op) || op.outputs().any(|output| wanted.contains(&output.id)) {
            wanted.extend(open[index].iter().map(|operand| operand.tensor));
            live.extend(open[index].iter().map(Operand::stop));
        }
    }
    live
}

fn stop_of(ops: &[OperationIr], place: RootPlace) -> Option<Stop> {
    match place {
        RootPlace::Result(index) => Some(Stop::Result(index)),
        RootPlace::Operand(mark, position) => {
            let op = ops.iter().position(|op| op.outputs().next().is_some_and(|output| output.id == mark))?;
            Some(Stop::Operand(op, position))
        }
    }
}

impl Match {
    /// Matches a node with a tensor. Returns `true` if the pair is consistent with the earlier pairs.
    fn bind(&mut self, tape: &Edges, node: u64, tensor: TensorId) -> bool {
        if let Some(known) = tape.leaves.get(&node) {
            return *known == tensor;
        }
        if let Some(known) = self.tensors.get(&node) {
            return *known == tensor;
        }
        let before = self.tensors.range(..node).next_back().is_none_or(|(_, before)| *before < tensor);
        let after = self.tensors.range(node..).next().is_none_or(|(_, after)| tensor < *after);
        self.tensors.insert(node, tensor);
        self.open.insert(node);
        before && after
    }
}

impl Search<'_> {
    /// Counts a step of the search. Returns `true` if the search has exceeded [`MAX_ATTEMPTS`] steps.
    fn is_exhausted(&self) -> bool {
        self.attempts.set(self.attempts.get() + 1);
        self.attempts.get() > MAX_ATTEMPTS
    }

    fn run(&mut self, mut state: Match) {
        while let Some(node) = state.open.pop_last() {
            if self.is_exhausted() || self.found.len() > MAX_PLACEMENTS {
                return;
            }
            let mut ways = self.edge_matches(&state, node);
            match (ways.pop(), ways.is_empty()) {
                (None, _) => return,
                (Some(only), true) => state = only,
                (Some(last), false) => {
                    ways.push(last);
                    ways.into_iter().for_each(|way| self.run(way));
                    return;
                }
            }
        }
        if !self.found.contains(&state.stops) {
            self.found.push(state.stops);
        }
    }

    /// Returns all extensions of `state` that match the edges of `node` with the operands of the op that computed the
    /// node's tensor.
    fn edge_matches(&self, state: &Match, node: u64) -> Vec<Match> {
        let tensor = state.tensors[&node];
        let Some(op) = self.forward.producers.get(&tensor).copied() else {
            return Vec::new();
        };
        let mut parents: BTreeMap<u64, (usize, &Shape)> = BTreeMap::new();
        for (parent, shape) in self.tape.edges.get(&node).into_iter().flatten() {
            if self.tape.leads_on(*parent) {
                parents.entry(*parent).or_insert((0, shape)).0 += 1;
            }
        }
        let parents: Vec<(u64, usize, &Shape)> = parents.into_iter().map(|(id, (times, it))| (id, times, it)).collect();
        let mut groups: BTreeMap<TensorId, Vec<Operand>> = BTreeMap::new();
        let operands = self.forward.operands[op].iter();
        operands.for_each(|operand| groups.entry(operand.tensor).or_default().push(*operand));
        let groups: Vec<(TensorId, Vec<Operand>)> = groups.into_iter().collect();
        let mut ways = Vec::new();
        self.add_matches(state.clone(), &parents, &groups, &mut ways);
        ways
    }

    /// Appends to `ways` all matches of the edges in `parents` with the operands in `groups`. Both lists are sorted,
    /// and the operands are grouped by tensor.
    fn add_matches(
        &self,
        state: Match,
        parents: &[(u64, usize, &Shape)],
        groups: &[(TensorId, Vec<Operand>)],
        ways: &mut Vec<Match>,
    ) {
        if self.is_exhausted() {
            return;
        }
        let Some(((tensor, operands), others)) = groups.split_first() else {
            if parents.is_empty() {
                ways.push(state);
            }
            return;
        };
        let leaf = self.tape.leaves.iter().find(|(_, leaf)| *leaf == tensor).map(|(node, _)| *node);
        // If the tensor is a leaf, its node must be the next parent, because leaf nodes are in the order of their
        // tensors.
        if let Some(((parent, times, shape), rest)) = parents.split_first()
            && leaf.is_none_or(|leaf| leaf == *parent)
            && *times <= operands.len()
            && self.forward.shapes.get(tensor) == Some(*shape)
        {
            for stopped in self.operand_choices(operands, operands.len() - times) {
                let mut way = state.clone();
                way.stops.extend(stopped.iter().map(Operand::stop));
                if way.bind(self.tape, *parent, *tensor) {
                    self.add_matches(way, rest, others, ways);
                }
            }
        }
        if groups.len() > parents.len() {
            let mut way = state;
            way.stops.extend(operands.iter().map(Operand::stop));
            self.add_matches(way, parents, others, ways);
        }
    }

    /// Returns the ways to choose `count` of these operands, which all read the same tensor. If the op is commutative,
    /// all choices are equivalent, so only one is returned.
    fn operand_choices(&self, operands: &[Operand], count: usize) -> Vec<Vec<Operand>> {
        if operands.len() < count {
            return Vec::new();
        }
        if count == 0 || operands.iter().all(|it| it.op == operands[0].op && self.forward.is_symmetric(it.op)) {
            return vec![operands[..count].to_vec()];
        }
        let with = operands.iter().enumerate().flat_map(|(index, operand)| {
            let others = self.operand_choices(&operands[index + 1..], count - 1);
            others.into_iter().map(|it| [vec![*operand], it].concat())
        });
        with.collect()
    }
}

/// A visitor that replaces the tensor id of one operand of an op. `position` counts only the operands with the id
/// `from`.
struct Replace {
    position: usize,
    from: TensorId,
    to: TensorId,
}

impl IrVisitorMut for Replace {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        if tensor.id == self.from {
            if self.position == 0 {
                tensor.id = self.to;
            }
            self.position = self.position.wrapping_sub(1);
        }
    }
}

/// Returns the ops with the gradient stops inserted, and replaces the ids of stopped results in `results`. The stop of
/// an operand precedes the op that reads the operand.
pub(super) fn add(ops: Vec<OperationIr>, results: &mut [TensorId], stops: &BTreeSet<Stop>) -> Vec<OperationIr> {
    let mut types: HashMap<TensorId, TensorIr> = HashMap::new();
    let mut new_ops = Vec::with_capacity(ops.len() + stops.len());
    let fresh = |new_ops: &[OperationIr]| TensorId::new(u64::MAX - new_ops.len() as u64);
    let stop = |tensor: &TensorIr, to: TensorId| {
        let output = TensorIr { id: to, ..tensor.clone() };
        let inputs = vec![tensor.clone()];
        OperationIr::Custom(CustomOpIr { id: STOP.into(), inputs, outputs: vec![output], scalars: Vec::new() })
    };
    for (index, mut op) in ops.into_iter().enumerate() {
        let inputs: Vec<TensorIr> = op.inputs().cloned().collect();
        // Replace the operands from last to first, because `position` counts the earlier operands with the same id.
        for position in (0..inputs.len()).rev().filter(|it| stops.contains(&Stop::Operand(index, *it))) {
            let (tensor, to) = (&inputs[position], fresh(&new_ops));
            new_ops.push(stop(tensor, to));
            let position = inputs[..position].iter().filter(|it| it.id == tensor.id).count();
            op.visit_mut(&mut Replace { position, from: tensor.id, to });
        }
        types.extend(op.inputs().chain(op.outputs()).map(|tensor| (tensor.id, tensor.clone())));
        new_ops.push(op);
    }
    for (_, result) in results.iter_mut().enumerate().filter(|(it, _)| stops.contains(&Stop::Result(*it))) {
        let to = fresh(&new_ops);
        new_ops.push(stop(types.get(result).expect("every result is an argument or computed by an op"), to));
        *result = to;
    }
    new_ops
}

/// Returns `op` as a custom op, or `None` if it is not a gradient stop.
pub(super) fn as_stop(op: &OperationIr) -> Option<&CustomOpIr> {
    match op {
        OperationIr::Custom(op) if op.id == STOP => Some(op),
        _ => None,
    }
}
