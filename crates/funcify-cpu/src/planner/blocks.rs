//! Collects the nodes of a program under construction, including the nodes of its open loops.

use super::recurrence::recurrence;
use super::view::View;
use super::*;

/// A stack of node lists: the nodes that run once before the parts, the nodes of a part's program, and the nodes of
/// each open loop.
pub(super) struct Blocks(Vec<Block>);

#[derive(Default)]
struct Block {
    nodes: Vec<Node>,
    /// The views that are computed before this loop starts. Their memory must not be reused until the loop ends.
    needed: Vec<View>,
}

impl Default for Blocks {
    fn default() -> Self {
        Blocks(vec![Block::default(), Block::default()])
    }
}

impl Blocks {
    /// Returns two programs: one that runs once before the parts, and one that each part runs.
    pub(super) fn into_programs(self) -> [Vec<Node>; 2] {
        let programs: Vec<Vec<Node>> = self.0.into_iter().map(|block| block.nodes).collect();
        programs.try_into().expect("the planner closes every loop it opens")
    }

    /// Returns the level of the body of the innermost open loop, or 1 if no loop is open.
    pub(super) fn depth(&self) -> usize {
        self.0.len() - 1
    }

    /// Adds a node to the list of nodes at `level`.
    pub(super) fn push(&mut self, level: usize, node: Node) {
        self.0[level].nodes.push(node);
    }

    /// Keeps the register of `view` reserved until the loop at `level` ends.
    pub(super) fn keep_until_loop_ends(&mut self, level: usize, view: View) {
        self.0[level].needed.push(view);
    }

    /// Opens a loop. Returns an error if this would nest more than [`DEPTH`] loops.
    pub(super) fn open(&mut self) -> Result<()> {
        if self.depth() > DEPTH {
            return Err(Declined::new("scan", format!("more than {DEPTH} nested loops")));
        }
        self.0.push(Block::default());
        Ok(())
    }

    /// Closes the innermost loop, and sets its trip count to `times`. Returns `true` if the loop was replaced with a
    /// single instruction.
    pub(super) fn close(&mut self, regions: &[Region], times: usize) -> bool {
        let Block { nodes, .. } = self.0.pop().expect("a loop is open");
        if times == 0 || nodes.is_empty() {
            return false;
        }
        let level = self.depth();
        let one = recurrence(regions, &nodes, times, level - 1);
        let is_one = one.is_some();
        self.push(level, one.unwrap_or(Node::Loop { times, body: nodes }));
        is_one
    }

    /// Closes the innermost loop as a while loop that runs at most `bound` iterations, or any number if `bound` is
    /// `None`. The nodes in `test` compute the condition and store it in the element `holds`.
    pub(super) fn close_while(&mut self, (test, holds): (Vec<Node>, Operand), bound: Option<usize>) {
        let Block { nodes: body, .. } = self.0.pop().expect("a loop is open");
        self.push(self.depth(), Node::While { test, holds, body, bound });
    }

    /// Removes and returns the nodes of the innermost open loop, or of a part's program if no loop is open.
    pub(super) fn take(&mut self) -> Vec<Node> {
        let level = self.depth();
        std::mem::take(&mut self.0[level].nodes)
    }

    /// Replaces the nodes that [`take`](Blocks::take) would return with `before`, followed by a choice between two
    /// branches.
    pub(super) fn choice(&mut self, mut before: Vec<Node>, holds: Operand, branches: [Vec<Node>; 2]) {
        before.push(Node::Choice { holds, branches });
        let level = self.depth();
        self.0[level].nodes = before;
    }
}
