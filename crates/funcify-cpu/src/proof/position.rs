//! Positions in a running plan.

/// Identifies a node of a plan: its stage, its program, and its path of positions in the nested lists of nodes.
pub(super) type NodeId = (usize, usize, Vec<usize>);

/// The position of an interpreter in the plan.
#[derive(Clone, Default, Debug)]
pub(super) struct Position {
    pub(super) stage: usize,
    pub(super) part: usize,
    /// The program of the part.
    pub(super) program: usize,
    /// The positions in the nested lists of nodes.
    pub(super) path: Vec<usize>,
    /// The current iterations of the enclosing loops.
    pub(super) counters: Vec<isize>,
}

impl Position {
    /// Returns the node at this position, independent of iteration and part.
    pub(super) fn node(&self) -> NodeId {
        (self.stage, self.program, self.path.clone())
    }
}
