//! Identifies nodes of a plan, and iterations of a run.

/// The identity of a node of a plan: its stage, its program, and its path (the index in each of the nested node lists
/// that lead to it).
pub(super) type NodeId = (usize, usize, Vec<usize>);

/// The current position of an interpreter.
#[derive(Clone, Default, Debug)]
pub(super) struct Position {
    pub(super) stage: usize,
    pub(super) part: usize,
    /// The index of the part's program.
    pub(super) program: usize,
    /// The index in each of the nested node lists that lead to the node.
    pub(super) path: Vec<usize>,
    /// The current iteration of each enclosing loop.
    pub(super) counters: Vec<isize>,
}

impl Position {
    /// Returns the node at this position, regardless of iteration and part.
    pub(super) fn node(&self) -> NodeId {
        (self.stage, self.program, self.path.clone())
    }
}
