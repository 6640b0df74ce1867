//! Converts innermost loops of a plan to flat lists of instructions and conditions.

use crate::plan::{Instruction, Node, Op, Operand};

/// An innermost loop of a plan.
pub(crate) struct PlannedLoop<'p> {
    /// The instructions of an iteration and the conditions that may end the loop, in order.
    pub(crate) steps: Vec<Step<'p>>,
    /// The trip counts of the enclosing loops and of this loop, outermost first.
    pub(crate) times: &'p [usize],
}

impl<'p> PlannedLoop<'p> {
    /// Converts a node to a planned loop. Returns `None` if the node is not a loop, or if its body contains nodes other
    /// than instructions. `times` holds the trip counts of the enclosing loops and of this loop, outermost first.
    pub(crate) fn of(node: &'p Node, times: &'p [usize]) -> Option<Self> {
        let steps = match node {
            Node::Loop { body, .. } => steps(body)?,
            Node::While { test, holds, body, .. } => {
                let mut all = steps(test)?;
                all.push(Step::EndUnless(holds));
                all.extend(steps(body)?);
                all
            }
            Node::Do(_) | Node::Choice { .. } | Node::Fused(_) | Node::Evaluate(_) => return None,
        };
        Some(PlannedLoop { steps, times })
    }
}

fn steps(nodes: &[Node]) -> Option<Vec<Step<'_>>> {
    fn step(node: &Node) -> Option<Step<'_>> {
        match node {
            Node::Do(instruction) => Some(Step::Do(instruction)),
            Node::Loop { .. } | Node::While { .. } | Node::Choice { .. } => None,
            Node::Fused(_) | Node::Evaluate(_) => None,
        }
    }
    nodes.iter().map(step).collect()
}

/// An instruction of an iteration, or a condition that may end the loop.
pub(crate) enum Step<'p> {
    Do(&'p Instruction),
    /// Ends the loop if this element is 0.
    EndUnless(&'p Operand),
}

impl Step<'_> {
    /// Returns the number of vectors in the result, for vectors of `width` elements.
    pub(super) fn vectors(&self, width: usize) -> usize {
        match self {
            Step::Do(instruction) => instruction.rows * instruction.lanes.div_ceil(width),
            Step::EndUnless(_) => 1,
        }
    }

    /// Returns the number of terms that are added up for each vector of the result.
    pub(super) fn terms(&self) -> usize {
        match self {
            Step::Do(Instruction { op: Op::Product { inner, .. }, .. }) => inner.iter().sum(),
            _ => 1,
        }
    }
}
