//! Tracks which values have yet to be read, to decide which memory may be overwritten.

use funcify_core::Graph;
use funcify_core::graph::{Node, ValueId};

use crate::occupants::{Memory, Occupants};

/// Tracks the outstanding reads of each value of a graph, and the values that occupy each [`Memory`]. An engine lays
/// out the nodes of a body in order, and queries this type before it overwrites memory.
///
/// A value occupies the memory of its tensors. A value that has not been computed yet occupies the memory of the
/// operands of its computation. Several values may occupy the same memory: for example, the operand and the
/// result of a transpose, of a stopped gradient, or of a switch with one branch.
///
/// - **order-c1, in place.** The node that computes the next value of a state may overwrite the state's memory under
///   two conditions. First, no value that occupies this memory is read after the node ([`ReadOrder::is_read_later`]).
///   Second, each operand of the node either has the same elements as the state, in the same order, or does not overlap
///   the state's memory.
/// - **order-c2, free.** A node that reads elements in a different order than it writes them may write only to memory
///   that no value occupies. This rules out the memory of its own operands ([`ReadOrder::is_free`]).
/// - **order-c3, deferred.** An addition to a state may be deferred until after the step only if nothing else in the
///   step reads the old or the new state: the addition is the only reader of the old state, and the next step is the
///   only reader of the sum ([`ReadOrder::may_defer`]).
/// - **order-c4, copies.** A copy may be read instead of its source as long as the source has not been written since
///   the copy was made ([`Contents`](crate::Contents) counts the writes).
/// - **order-c5, moves.** After each step, the step's results are moved to the memory that the next step reads. If a
///   move overwrites data that this move or a later one still has to read, the data must first be copied to temporary
///   memory. The engine emits the moves and these copies.
///
/// Writes to a fixed destination (a row of a trace, an output, a part of a concatenation) need no condition: by
/// scan-c5, no step reads a row before it has been written, and outputs are never read.
///
/// ```
/// use funcify_analysis::{Memory, ReadOrder};
/// use funcify_core::Graph;
///
/// let graph = Graph::build("twice", |g| {
///     let x = g.input("x", "f32[4]");
///     x.exp() + x
/// })?;
/// let memory = Memory { region: 0, allocation: None };
/// let mut order = ReadOrder::of(&graph);
/// order.occupy(memory, graph.inputs()[0].value);
///
/// // The sum reads `x`, so the exponential must not overwrite `x`.
/// let [exp, sum] = [0, 1].map(|node| &graph.nodes()[node]);
/// order.begin(exp);
/// assert!(order.is_read_later(memory));
/// assert!(order.end().is_empty());
/// // The sum may.
/// order.begin(sum);
/// assert!(!order.is_read_later(memory));
/// # Ok::<(), funcify_core::Error>(())
/// ```
#[derive(Debug)]
pub struct ReadOrder<'g> {
    /// The number of reads of each value in the whole graph. `remaining` counts only the reads that have yet to happen.
    readers: Vec<usize>,
    remaining: Vec<usize>,
    /// The node being laid out.
    current_node: Option<&'g Node>,
    /// The values that occupy each [`Memory`].
    occupants: Occupants,
}

impl<'g> ReadOrder<'g> {
    /// Starts tracking a graph before its first node is laid out. Counts how often live nodes and outputs read each
    /// value.
    pub fn of(graph: &'g Graph) -> Self {
        let mut readers = vec![0; graph.values().count()];
        let live = graph.live_nodes();
        for (node, _) in graph.nodes().iter().zip(live).filter(|(_, live)| *live) {
            node.inputs.iter().for_each(|input| readers[input.index()] += 1);
        }
        graph.outputs().iter().for_each(|output| readers[output.value.index()] += 1);
        ReadOrder { remaining: readers.clone(), readers, current_node: None, occupants: Occupants::default() }
    }

    /// Returns the number of reads of a value that have yet to happen, including those by the current node.
    pub fn remaining_reads(&self, value: ValueId) -> usize {
        self.remaining[value.index()]
    }

    /// Starts laying out a node. The reads of its operands remain outstanding until [`end`](ReadOrder::end) is called.
    pub fn begin(&mut self, node: &'g Node) {
        debug_assert!(self.current_node.is_none(), "a node must end before the next one begins");
        self.current_node = Some(node);
    }

    /// Returns the node being laid out, or `None` between two nodes.
    pub fn current(&self) -> Option<&'g Node> {
        self.current_node
    }

    /// Finishes laying out the current node. Returns the operands of the node that have no remaining reads.
    pub fn end(&mut self) -> Vec<ValueId> {
        let node = self.current_node.take().expect("`begin` was called before `end`");
        let mut done = Vec::new();
        for input in &node.inputs {
            let remaining = &mut self.remaining[input.index()];
            *remaining -= 1;
            if *remaining == 0 {
                done.push(*input);
            }
        }
        done
    }

    /// Records that a value occupies `memory`.
    pub fn occupy(&mut self, memory: Memory, value: ValueId) {
        self.occupants.insert(memory, value.index());
    }

    /// Records that a value no longer occupies `memory`.
    pub fn vacate(&mut self, memory: Memory, value: ValueId) {
        self.occupants.remove(memory, value.index());
    }

    /// Returns `true` if a value that occupies any part of `memory` is read after the current node (order-c1).
    pub fn is_read_later(&self, memory: Memory) -> bool {
        self.occupants.with(memory).any(|value| self.later_reads(value) > 0)
    }

    /// Returns `true` if no value occupies any part of `memory` (order-c2).
    pub fn is_free(&self, memory: Memory) -> bool {
        self.occupants.with(memory).next().is_none()
    }

    /// Returns `true` if the current node, an addition with the result `sum`, may be deferred until after the step
    /// (order-c3). `sum` must be the next value of `state`.
    pub fn may_defer(&self, sum: ValueId, state: ValueId) -> bool {
        let is_read_by_sum = self.current_node.is_some_and(|node| node.inputs.contains(&state));
        is_read_by_sum && self.readers[state.index()] == 1 && self.readers[sum.index()] == 1
    }

    /// Returns the number of reads of a value by nodes and outputs after the current node.
    fn later_reads(&self, value: usize) -> usize {
        let reads_now =
            self.current_node.iter().flat_map(|node| &node.inputs).filter(|input| input.index() == value).count();
        self.remaining[value] - reads_now
    }
}
