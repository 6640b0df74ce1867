//! Names of values: in a finished graph, and in a program that is being built; and what an op gives that failed.

/// A value of one graph: an input, or one result of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ValueId(u32);

impl ValueId {
    pub(crate) fn new(index: usize) -> Self {
        ValueId(index as u32)
    }

    /// Its index in the arena.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A tensor in the program that is being built: a small name, free to copy.
///
/// Nothing in a building closure fails at once. The first op that does not fit is remembered with the caller's
/// line and returned by [`Graph::build`](crate::Graph::build); what is computed from it is ignored.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    home: u64,
    id: Option<ValueId>,
}

impl Value {
    pub(crate) fn new(home: u64, id: ValueId) -> Self {
        Value { home, id: Some(id) }
    }

    /// Returns what an op gives that failed.
    pub(crate) fn failed() -> Self {
        Value { home: 0, id: None }
    }

    pub(crate) fn parts(self) -> Option<(u64, ValueId)> {
        self.id.map(|id| (self.home, id))
    }
}

impl From<Failed> for Value {
    fn from(_: Failed) -> Self {
        Value::failed()
    }
}

/// Says that the open trace has kept an error: building the program gives that, and nothing is added after it.
///
/// A rule returns it when it cannot go on. `?` makes it of an [`Error`](crate::Error), and lets the trace keep that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failed(());

impl Failed {
    pub(crate) fn new() -> Self {
        Failed(())
    }
}
