//! Where in a plan something runs.

/// A node of a plan: its stage and program, and the places in the lists of nodes.
pub(super) type NodeId = (usize, usize, Vec<usize>);

/// Where in the plan an interpreter is.
#[derive(Clone, Default, Debug)]
pub(super) struct Whereabouts {
    pub(super) stage: usize,
    pub(super) part: usize,
    /// The program of the part.
    pub(super) program: usize,
    /// The places in the lists of nodes.
    pub(super) path: Vec<usize>,
    /// The iterations of the loops around.
    pub(super) counters: Vec<isize>,
}

impl Whereabouts {
    /// The node that runs there, whatever the iteration and the part.
    pub(super) fn node(&self) -> NodeId {
        (self.stage, self.program, self.path.clone())
    }
}
