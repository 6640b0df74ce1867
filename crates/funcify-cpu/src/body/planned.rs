//! A loop as it was planned.

use crate::plan::{Instruction, Node, Op, Operand};

/// A loop without loops in it, as it was planned.
pub(crate) struct PlannedLoop<'p> {
    /// What an iteration does.
    pub(crate) steps: Vec<Step<'p>>,
    /// The iterations of the loops around, and of this one last.
    pub(crate) times: &'p [usize],
}

impl<'p> PlannedLoop<'p> {
    /// A node that is a loop, inside loops with these numbers of iterations, its own last; `None` if there are loops or choices in
    /// it.
    pub(crate) fn of(node: &'p Node, times: &'p [usize]) -> Option<Self> {
        let steps = match node {
            Node::Loop { body, .. } => steps(body)?,
            Node::While { test, holds, body, .. } => {
                let mut all = steps(test)?;
                all.push(Step::EndUnless(holds));
                all.extend(steps(body)?);
                all
            }
            Node::Do(_) | Node::Choice { .. } => return None,
        };
        Some(PlannedLoop { steps, times })
    }
}

fn steps(nodes: &[Node]) -> Option<Vec<Step<'_>>> {
    fn step(node: &Node) -> Option<Step<'_>> {
        match node {
            Node::Do(instruction) => Some(Step::Do(instruction)),
            Node::Loop { .. } | Node::While { .. } | Node::Choice { .. } => None,
        }
    }
    nodes.iter().map(step).collect()
}

/// What a loop does in each iteration, in order.
pub(crate) enum Step<'p> {
    Do(&'p Instruction),
    /// The loop ends here where this element is 0.
    EndUnless(&'p Operand),
}

impl Step<'_> {
    /// How many vectors of `width` elements it makes.
    pub(super) fn vectors(&self, width: usize) -> usize {
        match self {
            Step::Do(instruction) => instruction.rows * instruction.lanes.div_ceil(width),
            Step::EndUnless(_) => 1,
        }
    }

    /// How many vectors it computes on the way to one that it makes.
    pub(super) fn terms(&self) -> usize {
        match self {
            Step::Do(Instruction { op: Op::Product { inner, .. }, .. }) => inner.iter().sum(),
            _ => 1,
        }
    }
}
