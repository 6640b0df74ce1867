//! Predicts which states of a loop and which results of a switch have lanes, tangents or cotangents.
//!
//! A rule that traces a body must know in advance which parameters have lanes, tangents or cotangents. It could trace
//! the body repeatedly, until the set of these parameters stops growing, but with nested loops, each level of nesting
//! would multiply the number of traces. This module therefore follows paths through the graphs and their bodies without
//! tracing, and revisits a body only if more of its parameters are reached. The prediction is only a guess: it includes
//! too many parameters if a path leads through an op whose rule returns no derivative. The rule compares the guess with
//! the flags that it finds by tracing. If they differ, the rule falls back to tracing the body repeatedly: see
//! [`Guess`].

use crate::derivative::active_values;
use crate::fixpoint::{fixpoint, or_flags};
use crate::graph::{Failed, Graph, ValueId, work};
use crate::ops::{AssociativeScan, Call, Op, Scan, Switch, Unary, While};
use crate::types::TensorType;

/// The property that is propagated from operands to results.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReachKind {
    /// Lanes, which values of every dtype can have.
    Lanes,
    /// Tangents, which only floats have.
    Tangents,
}

impl ReachKind {
    fn fits(self, ty: &TensorType) -> bool {
        self == ReachKind::Lanes || ty.dtype.is_float()
    }
}

/// A guess at the flags that a rule finds by tracing a body: for each state or result, `true` if it has lanes, tangents
/// or cotangents.
pub(crate) struct Guess {
    /// The flags that are certain to be set.
    least: Vec<bool>,
    now: Vec<bool>,
    is_guessed: bool,
}

impl Guess {
    pub(crate) fn new(least: Vec<bool>, guess: Vec<bool>) -> Self {
        let is_guessed = guess != least;
        Guess { least, now: guess, is_guessed }
    }

    /// Creates a guess that contains only flags that are certain to be set.
    pub(crate) fn certain(flags: Vec<bool>) -> Self {
        Guess::new(flags.clone(), flags)
    }

    /// Calls `trace` repeatedly, until `trace` finds exactly the flags that it received. Returns these flags and the
    /// traced result. `trace` receives the current flags as its first argument, and records the flags that it finds in
    /// its second argument.
    pub(crate) fn confirm<T>(
        mut self,
        mut trace: impl FnMut(&[bool], &mut [bool]) -> Result<T, Failed>,
    ) -> Result<(Vec<bool>, T), Failed> {
        loop {
            let mut found = self.least.clone();
            let traced = trace(&self.now, &mut found)?;
            if found == self.now {
                return Ok((found, traced));
            }
            self.now = if self.is_guessed { self.least.clone() } else { found };
            self.is_guessed = false;
        }
    }
}

/// The values that lanes or tangents reach in a graph.
pub(crate) struct Reach {
    values: Vec<bool>,
    /// The reached values in the bodies of each node. An entry is empty until its node is reached.
    bodies: Vec<Vec<Reach>>,
}

impl Reach {
    pub(crate) fn of(graph: &Graph) -> Self {
        Reach {
            values: vec![false; graph.values().count()],
            bodies: graph.nodes().iter().map(|_| Vec::new()).collect(),
        }
    }

    /// Marks further inputs as reached, and returns which outputs are reached from any input marked so far.
    pub(crate) fn follow(&mut self, graph: &Graph, kind: ReachKind, inputs: &[bool]) -> Vec<bool> {
        let mut is_new = false;
        for (input, reached) in graph.inputs().iter().zip(inputs) {
            is_new |= self.add(graph, kind, input.value, *reached);
        }
        if is_new {
            for (index, node) in graph.nodes().iter().enumerate() {
                let operands: Vec<bool> = node.inputs.iter().map(|input| self.values[input.index()]).collect();
                if operands.contains(&true) {
                    work::count();
                    let results = node.op.reached(kind, &operands, &mut self.bodies[index]);
                    for (number, output) in node.outputs.iter().enumerate() {
                        self.add(graph, kind, *output, results.as_ref().is_none_or(|results| results[number]));
                    }
                }
            }
        }
        graph.outputs().iter().map(|output| self.values[output.value.index()]).collect()
    }

    fn add(&mut self, graph: &Graph, kind: ReachKind, value: ValueId, reached: bool) -> bool {
        let is_new = reached && !self.values[value.index()] && kind.fits(graph.ty(value));
        self.values[value.index()] |= is_new;
        is_new
    }
}

/// The values that cotangents reach in a graph.
pub(crate) struct CotangentReach {
    /// The values that depend on an input in `wrt`.
    active: Vec<bool>,
    values: Vec<bool>,
    /// The reached values in the bodies of each node.
    bodies: Vec<Vec<CotangentReach>>,
}

impl CotangentReach {
    pub(crate) fn of(graph: &Graph, wrt: &[bool]) -> Self {
        let bodies = graph.nodes().iter().map(|_| Vec::new()).collect();
        CotangentReach { active: active_values(graph, wrt), values: vec![false; graph.values().count()], bodies }
    }

    /// Marks further outputs as having cotangents, and returns which inputs then have cotangents.
    pub(crate) fn follow(&mut self, graph: &Graph, outputs: &[bool]) -> Vec<bool> {
        let mut is_new = false;
        for (output, given) in graph.outputs().iter().zip(outputs) {
            let index = output.value.index();
            let adds = *given && self.active[index] && !self.values[index];
            self.values[index] |= adds;
            is_new |= adds;
        }
        if is_new {
            for (index, node) in graph.nodes().iter().enumerate().rev() {
                let results: Vec<bool> = node.outputs.iter().map(|output| self.values[output.index()]).collect();
                if results.contains(&true) {
                    work::count();
                    let wrt: Vec<bool> = node.inputs.iter().map(|input| self.active[input.index()]).collect();
                    let operands = node.op.pulled(&wrt, &results, &mut self.bodies[index]);
                    for (number, input) in node.inputs.iter().enumerate().filter(|(number, _)| wrt[*number]) {
                        self.values[input.index()] |= operands.as_ref().is_none_or(|operands| operands[number]);
                    }
                }
            }
        }
        graph.inputs().iter().map(|input| self.values[input.value.index()]).collect()
    }
}

/// An op that has bodies, and propagates lanes and derivatives through them. The methods store the reached values of
/// each body in `bodies`, and reuse them in the next call.
pub(crate) trait Connected {
    /// Returns which results have lanes or tangents if the marked operands have them.
    fn reached(&self, kind: ReachKind, operands: &[bool], bodies: &mut [Reach]) -> Vec<bool>;

    /// Returns which operands have cotangents if the marked results have them.
    fn pulled(&self, wrt: &[bool], results: &[bool], bodies: &mut Vec<CotangentReach>) -> Vec<bool>;
}

impl Op {
    /// Returns which results are reached from the marked operands, or `None` if all results are reached.
    fn reached(&self, kind: ReachKind, operands: &[bool], bodies: &mut Vec<Reach>) -> Option<Vec<bool>> {
        if matches!(self, Op::Unary(Unary::StopGradient)) && kind == ReachKind::Tangents {
            return Some(vec![false]);
        }
        let op = self.bodied()?;
        if bodies.is_empty() {
            *bodies = op.bodies().into_iter().map(|body| Reach::of(body)).collect();
        }
        Some(op.reached(kind, operands, bodies))
    }

    /// Returns which operands have cotangents if the marked results have them, or `None` if all operands in `wrt` do.
    fn pulled(&self, wrt: &[bool], results: &[bool], bodies: &mut Vec<CotangentReach>) -> Option<Vec<bool>> {
        Some(self.bodied()?.pulled(wrt, results, bodies))
    }
}

impl Connected for Scan {
    fn reached(&self, kind: ReachKind, operands: &[bool], bodies: &mut [Reach]) -> Vec<bool> {
        self.states_reached(kind, operands, &mut bodies[0]).0
    }

    fn pulled(&self, wrt: &[bool], results: &[bool], bodies: &mut Vec<CotangentReach>) -> Vec<bool> {
        self.states_pulled(results, single_body(bodies, || self.cotangent_reach(wrt))).0
    }
}

impl Connected for While {
    fn reached(&self, kind: ReachKind, operands: &[bool], bodies: &mut [Reach]) -> Vec<bool> {
        self.carries_reached(kind, operands, bodies).0
    }

    fn pulled(&self, wrt: &[bool], results: &[bool], bodies: &mut Vec<CotangentReach>) -> Vec<bool> {
        let again = self.as_loop();
        let (pulled, _) = again
            .states_pulled(results, single_body(bodies, || again.cotangent_reach(&self.to_loop_operands(false, wrt))));
        self.split_loop_operands(&pulled, false)
    }
}

/// Returns the only entry of `bodies`, creating it if it is missing.
fn single_body(bodies: &mut Vec<CotangentReach>, make: impl FnOnce() -> CotangentReach) -> &mut CotangentReach {
    if bodies.is_empty() {
        bodies.push(make());
    }
    &mut bodies[0]
}

impl While {
    /// Returns which carries are reached from the marked operands, and whether the condition differs between lanes.
    pub(crate) fn carries_reached(
        &self,
        kind: ReachKind,
        operands: &[bool],
        bodies: &mut [Reach],
    ) -> (Vec<bool>, bool) {
        let places = self.operands();
        let carries = operands[places.carries.clone()].to_vec();
        fixpoint((carries, false), |(carries, by_lane)| {
            // If the condition differs between lanes, the batching rule applies `stop_gradient` to the body's float
            // inputs, but only in the finished lanes. These inputs therefore have lanes.
            let guarded = |index: usize| *by_lane && self.body.input_type(index).dtype.is_float();
            let inputs = carries.iter().chain(&operands[places.body.clone()]).enumerate();
            let inputs: Vec<bool> = inputs.map(|(index, reached)| *reached || guarded(index)).collect();
            let next = bodies[1].follow(&self.body, kind, &inputs);
            let of_condition = [carries.as_slice(), &operands[places.condition.clone()]].concat();
            let holds =
                kind == ReachKind::Lanes && bodies[0].follow(&self.condition, kind, &of_condition).contains(&true);
            (carries.iter().zip(next).map(|(carry, next)| *carry || next || holds).collect(), holds)
        })
    }
}

impl Connected for Switch {
    fn reached(&self, kind: ReachKind, operands: &[bool], bodies: &mut [Reach]) -> Vec<bool> {
        let mut results =
            vec![kind == ReachKind::Lanes && operands[0]; self.branches.first().map_or(0, |b| b.outputs().len())];
        for ((branch, places), body) in self.branches.iter().zip(self.operands()).zip(bodies) {
            let given = body.follow(branch, kind, &operands[places]);
            results.iter_mut().zip(given).for_each(|(result, given)| *result |= given);
        }
        results
    }

    fn pulled(&self, wrt: &[bool], results: &[bool], bodies: &mut Vec<CotangentReach>) -> Vec<bool> {
        if bodies.is_empty() {
            let branches = self.branches.iter().zip(self.operands());
            *bodies = branches.map(|(branch, places)| CotangentReach::of(branch, &wrt[places])).collect();
        }
        let mut operands = vec![false; wrt.len()];
        for ((branch, places), body) in self.branches.iter().zip(self.operands()).zip(bodies) {
            operands[places].copy_from_slice(&body.follow(branch, results));
        }
        operands
    }
}

impl Connected for AssociativeScan {
    fn reached(&self, kind: ReachKind, operands: &[bool], bodies: &mut [Reach]) -> Vec<bool> {
        let (leaves, captured) = operands.split_at(self.leaves);
        fixpoint(leaves.to_vec(), |leaves| {
            or_flags(leaves, bodies[0].follow(&self.combine, kind, &[leaves.as_slice(), leaves, captured].concat()))
        })
    }

    fn pulled(&self, wrt: &[bool], results: &[bool], bodies: &mut Vec<CotangentReach>) -> Vec<bool> {
        self.leaves_pulled(results, single_body(bodies, || self.cotangent_reach(wrt))).0
    }
}

impl AssociativeScan {
    /// Returns the initial [`CotangentReach`] of `combine`, in which the leaves of both elements may have cotangents.
    pub(in crate::ops) fn cotangent_reach(&self, wrt: &[bool]) -> CotangentReach {
        let wrt = [vec![true; 2 * self.leaves], wrt[self.leaves..].to_vec()].concat();
        CotangentReach::of(&self.combine, &wrt)
    }

    /// Given which results have cotangents (`results`), returns which operands have cotangents, and which leaves have
    /// them inside `combine`.
    pub(in crate::ops) fn leaves_pulled(&self, results: &[bool], body: &mut CotangentReach) -> (Vec<bool>, Vec<bool>) {
        let mut found = Vec::new();
        let active = fixpoint(results.to_vec(), |active| {
            found = body.follow(&self.combine, active);
            or_flags(active, found.iter().copied())
        });
        let elements = or_flags(&active, found[self.leaves..].iter().copied());
        (elements.into_iter().chain(found[2 * self.leaves..].iter().copied()).collect(), active)
    }
}

/// Assumes that a call's derivative rule connects every float argument with every float result.
impl Connected for Call {
    fn reached(&self, kind: ReachKind, operands: &[bool], bodies: &mut [Reach]) -> Vec<bool> {
        let captured = self.parts()[0].captured.clone();
        let inputs = [&operands[..self.arguments], &operands[captured]].concat();
        let given = bodies[0].follow(&self.function, kind, &inputs);
        let floats = self.float_results();
        given.into_iter().enumerate().map(|(index, given)| given || floats.contains(&index)).collect()
    }

    fn pulled(&self, wrt: &[bool], _: &[bool], _: &mut Vec<CotangentReach>) -> Vec<bool> {
        let floats = self.float_arguments();
        (0..wrt.len()).map(|operand| floats.contains(&operand)).collect()
    }
}
