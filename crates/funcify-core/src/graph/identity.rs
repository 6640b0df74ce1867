//! Identifies graphs by unique numbers instead of addresses, because addresses are reused.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// Identifies a graph uniquely within the process. Copies of a graph have different ids. Caches that store facts about
/// graphs use this id as the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct GraphId(NonZeroU64);

static NEXT: AtomicU64 = AtomicU64::new(1);

impl GraphId {
    fn fresh() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        GraphId(NonZeroU64::new(number).expect("a process never creates 2^64 graphs"))
    }
}

/// The id stored in a graph. Cloning it creates a new id.
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
