//! Which states of a loop, and which results of a choice, have lanes, tangents or cotangents, before a body is traced.
//!
//! A rule that traces a body must know first what the body takes. Tracing until nothing is added would trace the bodies
//! inside as often again, at each level of a nest. So the paths are followed through the graphs, bodies included; a body is
//! gone through again only if something new reaches it. That is a guess, too large where the rule of an op gives nothing
//! although a path leads through it. The rule that asked sees what it has traced, and traces until nothing is added if the
//! guess was wrong: see [`Guess`].

use super::associative::AssociativeScan;
use super::call::Call;
use super::switch::Switch;
use super::while_loop::While;
use super::{Op, Unary};
use crate::derivative::active_values;
use crate::graph::{Graph, ValueId, work};
use crate::types::TensorType;

/// What goes from operands to results.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Lanes.
    Lanes,
    /// Tangents, which only floats have.
    Tangents,
}

impl Kind {
    fn fits(self, ty: &TensorType) -> bool {
        self == Kind::Lanes || ty.dtype.is_float()
    }
}

/// Flags that a rule finds by tracing.
pub(crate) struct Guess {
    /// What is certain before.
    least: Vec<bool>,
    now: Vec<bool>,
    is_guessed: bool,
}

impl Guess {
    pub(crate) fn new(least: Vec<bool>, guess: Vec<bool>) -> Self {
        let is_guessed = guess != least;
        Guess { least, now: guess, is_guessed }
    }

    /// The flags to trace with.
    pub(crate) fn flags(&self) -> &[bool] {
        &self.now
    }

    /// What is certain before a body is traced: tracing adds to it what it finds.
    pub(crate) fn least(&self) -> Vec<bool> {
        self.least.clone()
    }

    /// Whether tracing has found just these flags. If not, they are other ones now.
    pub(crate) fn holds(&mut self, found: Vec<bool>) -> bool {
        if found == self.now {
            return true;
        }
        self.now = if self.is_guessed { self.least.clone() } else { found };
        self.is_guessed = false;
        false
    }
}

/// The values of a graph that are reached from its inputs.
pub(crate) struct Reach {
    values: Vec<bool>,
    /// Those of the bodies of each node.
    bodies: Vec<Vec<Reach>>,
}

impl Reach {
    pub(crate) fn of(graph: &Graph) -> Self {
        Reach {
            values: vec![false; graph.values().count()],
            bodies: graph.nodes().iter().map(|_| Vec::new()).collect(),
        }
    }

    /// Which outputs are reached if these inputs are, beside those that were before.
    pub(crate) fn follow(&mut self, graph: &Graph, kind: Kind, inputs: &[bool]) -> Vec<bool> {
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

    fn add(&mut self, graph: &Graph, kind: Kind, value: ValueId, reached: bool) -> bool {
        let is_new = reached && !self.values[value.index()] && kind.fits(graph.ty(value));
        self.values[value.index()] |= is_new;
        is_new
    }
}

/// The values of a graph that cotangents reach from its outputs.
pub(crate) struct Pull {
    /// Which values an input that is wanted leads to.
    active: Vec<bool>,
    values: Vec<bool>,
    /// Those of the bodies of each node.
    bodies: Vec<Vec<Pull>>,
}

impl Pull {
    pub(crate) fn of(graph: &Graph, wanted: &[bool]) -> Self {
        let bodies = graph.nodes().iter().map(|_| Vec::new()).collect();
        Pull { active: active_values(graph, wanted), values: vec![false; graph.values().count()], bodies }
    }

    /// Which inputs have cotangents if these outputs have, beside those that had before.
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
                    let wanted: Vec<bool> = node.inputs.iter().map(|input| self.active[input.index()]).collect();
                    let operands = node.op.pulled(&wanted, &results, &mut self.bodies[index]);
                    for (number, input) in node.inputs.iter().enumerate().filter(|(number, _)| wanted[*number]) {
                        self.values[input.index()] |= operands.as_ref().is_none_or(|operands| operands[number]);
                    }
                }
            }
        }
        graph.inputs().iter().map(|input| self.values[input.value.index()]).collect()
    }
}

impl Op {
    /// Which results are reached if these operands are; `None` if all.
    fn reached(&self, kind: Kind, operands: &[bool], bodies: &mut Vec<Reach>) -> Option<Vec<bool>> {
        if bodies.is_empty() {
            *bodies = self.bodies().into_iter().map(|body| Reach::of(body)).collect();
        }
        match self {
            Op::Scan(scan) => Some(scan.reached(kind, operands, &mut bodies[0]).0),
            Op::While(op) => Some(op.reached(kind, operands, bodies).0),
            Op::Switch(switch) => Some(switch.reached(kind, operands, bodies)),
            Op::AssociativeScan(op) => Some(op.reached(kind, operands, &mut bodies[0])),
            Op::Call(call) => Some(call.reached(kind, operands, &mut bodies[0])),
            Op::Unary(Unary::StopGradient) if kind == Kind::Tangents => Some(vec![false]),
            _ => None,
        }
    }

    /// Which operands have cotangents if these results have; `None` if all that are wanted.
    fn pulled(&self, wanted: &[bool], results: &[bool], bodies: &mut Vec<Pull>) -> Option<Vec<bool>> {
        match self {
            Op::Scan(scan) => Some(scan.pulled(results, first(bodies, || scan.pull(wanted))).0),
            Op::While(op) => {
                let places = op.operands();
                let again = op.as_loop();
                let of = [&[false], &wanted[places.carries.clone()], &wanted[places.body.clone()]].concat();
                let (found, _) = again.pulled(results, first(bodies, || again.pull(&of)));
                let mut operands = vec![false; wanted.len()];
                for (operand, has) in places.carries.chain(places.body).zip(found.into_iter().skip(1)) {
                    operands[operand] = has;
                }
                Some(operands)
            }
            Op::Switch(switch) => Some(switch.pulled(wanted, results, bodies)),
            Op::AssociativeScan(op) => Some(op.pulled(results, first(bodies, || op.pull(wanted))).0),
            Op::Call(call) => {
                let floats = call.float_arguments();
                Some((0..wanted.len()).map(|operand| floats.contains(&operand)).collect())
            }
            _ => None,
        }
    }
}

/// The one body, made if it is not there.
fn first(bodies: &mut Vec<Pull>, make: impl FnOnce() -> Pull) -> &mut Pull {
    if bodies.is_empty() {
        bodies.push(make());
    }
    &mut bodies[0]
}

impl While {
    /// Which carries are reached if these operands are, and whether the condition is.
    pub(super) fn reached(&self, kind: Kind, operands: &[bool], bodies: &mut [Reach]) -> (Vec<bool>, bool) {
        let places = self.operands();
        let mut carries = operands[places.carries.clone()].to_vec();
        let mut by_lane = false;
        loop {
            // What lanes that are done would compute is guarded.
            let guarded = |index: usize| by_lane && self.body.input_type(index).dtype.is_float();
            let inputs = carries.iter().chain(&operands[places.body.clone()]).enumerate();
            let inputs: Vec<bool> = inputs.map(|(index, reached)| *reached || guarded(index)).collect();
            let next = bodies[1].follow(&self.body, kind, &inputs);
            let of_condition = [carries.as_slice(), &operands[places.condition.clone()]].concat();
            let holds = kind == Kind::Lanes && bodies[0].follow(&self.condition, kind, &of_condition).contains(&true);
            let more: Vec<bool> = carries.iter().zip(next).map(|(carry, next)| *carry || next || holds).collect();
            if more == carries && holds == by_lane {
                return (carries, by_lane);
            }
            (carries, by_lane) = (more, holds);
        }
    }
}

impl Switch {
    /// Which results are reached if these operands are.
    pub(super) fn reached(&self, kind: Kind, operands: &[bool], bodies: &mut [Reach]) -> Vec<bool> {
        let mut results =
            vec![kind == Kind::Lanes && operands[0]; self.branches.first().map_or(0, |b| b.outputs().len())];
        for ((branch, places), body) in self.branches.iter().zip(self.operands()).zip(bodies) {
            let given = body.follow(branch, kind, &operands[places]);
            results.iter_mut().zip(given).for_each(|(result, given)| *result |= given);
        }
        results
    }

    /// Which operands have cotangents if these results have.
    pub(super) fn pulled(&self, wanted: &[bool], results: &[bool], bodies: &mut Vec<Pull>) -> Vec<bool> {
        if bodies.is_empty() {
            let branches = self.branches.iter().zip(self.operands());
            *bodies = branches.map(|(branch, places)| Pull::of(branch, &wanted[places])).collect();
        }
        let mut operands = vec![false; wanted.len()];
        for ((branch, places), body) in self.branches.iter().zip(self.operands()).zip(bodies) {
            operands[places].copy_from_slice(&body.follow(branch, results));
        }
        operands
    }
}

impl AssociativeScan {
    /// Which leaves are reached if these operands are.
    pub(super) fn reached(&self, kind: Kind, operands: &[bool], body: &mut Reach) -> Vec<bool> {
        let (leaves, captured) = operands.split_at(self.leaves);
        let mut leaves = leaves.to_vec();
        loop {
            let given = body.follow(&self.combine, kind, &[leaves.as_slice(), &leaves, captured].concat());
            let more: Vec<bool> = leaves.iter().zip(given).map(|(leaf, given)| *leaf || given).collect();
            if more == leaves {
                return leaves;
            }
            leaves = more;
        }
    }

    /// The combination, of which the cotangents of all elements are wanted.
    pub(super) fn pull(&self, wanted: &[bool]) -> Pull {
        let wanted = [vec![true; 2 * self.leaves], wanted[self.leaves..].to_vec()].concat();
        Pull::of(&self.combine, &wanted)
    }

    /// Which operands have cotangents if these results have, and which leaves have them in a combination.
    pub(super) fn pulled(&self, results: &[bool], body: &mut Pull) -> (Vec<bool>, Vec<bool>) {
        let mut active = results.to_vec();
        loop {
            let found = body.follow(&self.combine, &active);
            let more: Vec<bool> = active.iter().zip(&found).map(|(active, found)| *active || *found).collect();
            if more == active {
                let elements = active.iter().zip(&found[self.leaves..]).map(|(active, found)| *active || *found);
                return (elements.chain(found[2 * self.leaves..].iter().copied()).collect(), active);
            }
            active = more;
        }
    }
}

impl Call {
    /// Which results are reached if these operands are. A rule leads from each float argument to each float result.
    pub(super) fn reached(&self, kind: Kind, operands: &[bool], body: &mut Reach) -> Vec<bool> {
        let captured = self.parts()[0].captured.clone();
        let inputs = [&operands[..self.arguments], &operands[captured]].concat();
        let given = body.follow(&self.function, kind, &inputs);
        let floats = self.float_results();
        given.into_iter().enumerate().map(|(index, given)| given || floats.contains(&index)).collect()
    }
}
