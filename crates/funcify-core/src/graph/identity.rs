//! What tells a graph from every other one: a number, not an address, which memory gives again.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tells a graph from every other one of the process, its copies included: what maps are keyed by that hold what is known
/// of a graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct GraphId(NonZeroU64);

static NEXT: AtomicU64 = AtomicU64::new(1);

impl GraphId {
    fn fresh() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        GraphId(NonZeroU64::new(number).expect("2^64 graphs are not made in the life of a process"))
    }
}

/// The identity of one graph. A copy of it is another one.
pub(super) struct Identity(pub(super) GraphId);

impl Default for Identity {
    fn default() -> Self {
        Identity(GraphId::fresh())
    }
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Identity::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::Graph;

    #[test]
    fn a_copy_of_a_graph_is_another_one() {
        let graph = Arc::new(Graph::new("one"));
        assert_eq!(graph.clone().id(), graph.id());
        assert_ne!(Graph::clone(&graph).id(), graph.id());
        assert_ne!(Graph::new("one").id(), graph.id());
    }
}
