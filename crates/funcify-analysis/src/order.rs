//! Which memory may be written while values are still to be read.

use funcify_core::Graph;
use funcify_core::graph::{Node, ValueId};

use crate::occupants::{Memory, Occupants};

/// Who reads which value of a graph when, and which value occupies which memory: while an engine goes through the nodes of a
/// body in order, it asks here what it may overwrite.
///
/// A value occupies memory: the tensors that it names, or that it will read once it is computed. Several values may occupy
/// the same memory under different names (a transpose, a stopped gradient, a choice with one branch).
///
/// - **order-c1, in place.** The next value of a state may be written over the state's memory only if no value that occupies
///   it is read after the node that writes it ([`ReadOrder::is_read_later`]), and each operand of that node is either the state
///   itself, element for element, or apart from it.
/// - **order-c2, free.** A node that writes while it still reads in another order takes memory only if no value occupies it,
///   its own operands included ([`ReadOrder::is_free`]).
/// - **order-c3, deferred.** A sum is added to a state later than its step only if the step reads neither the old nor the new
///   state: the sum is the state's only reader, and the next step the sum's ([`ReadOrder::may_defer`]).
/// - **order-c4, copies.** A copy stands for what it was made of as long as nothing wrote there since
///   ([`Contents`](crate::Contents), which counts the writes).
/// - **order-c5, moves.** What a step gives is moved to where the next step finds it; whatever a move overwrites before
///   it is read, by itself or by a later move, is copied aside first. The engine makes the moves.
///
/// What is written to a place (a row of a trace, an output, a part of a concatenation) needs no condition: scan-c5 says that no
/// step reads a row before the step that writes it, and outputs are not read.
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
/// // The sum reads `x`, so its exponential must not be written over it.
/// let [exp, sum] = [0, 1].map(|node| &graph.nodes()[node]);
/// order.begin(exp);
/// assert!(order.is_read_later(memory));
/// assert!(order.end().is_empty());
/// // The sum itself may.
/// order.begin(sum);
/// assert!(!order.is_read_later(memory));
/// # Ok::<(), funcify_core::Error>(())
/// ```
#[derive(Debug)]
pub struct ReadOrder<'g> {
    /// How many reads of each value there are in all, and how many are still to come.
    readers: Vec<usize>,
    to_come: Vec<usize>,
    /// The node that is laid out now.
    now: Option<&'g Node>,
    /// Which values occupy which memory.
    occupants: Occupants,
}

impl<'g> ReadOrder<'g> {
    /// Counts the reads of a graph's live nodes, and its outputs.
    pub fn of(graph: &'g Graph) -> Self {
        let mut readers = vec![0; graph.values().count()];
        let live = graph.live_nodes();
        for (node, _) in graph.nodes().iter().zip(live).filter(|(_, live)| *live) {
            node.inputs.iter().for_each(|input| readers[input.index()] += 1);
        }
        graph.outputs().iter().for_each(|output| readers[output.value.index()] += 1);
        ReadOrder { to_come: readers.clone(), readers, now: None, occupants: Occupants::default() }
    }

    /// Counts the reads of a value that are still to come, those of the node that is laid out now included.
    pub fn reads_to_come(&self, value: ValueId) -> usize {
        self.to_come[value.index()]
    }

    /// Begins with a node: its operands are read until it [ends](ReadOrder::end).
    pub fn begin(&mut self, node: &'g Node) {
        debug_assert!(self.now.is_none(), "a node ends before the next one begins");
        self.now = Some(node);
    }

    /// Ends the node that is laid out now: returns those of its operands that nothing reads any more.
    pub fn end(&mut self) -> Vec<ValueId> {
        let node = self.now.take().expect("a node ends that has begun");
        let mut done = Vec::new();
        for input in &node.inputs {
            let to_come = &mut self.to_come[input.index()];
            *to_come -= 1;
            if *to_come == 0 {
                done.push(*input);
            }
        }
        done
    }

    /// Notes that a value occupies some memory.
    pub fn occupy(&mut self, memory: Memory, value: ValueId) {
        self.occupants.insert(memory, value.index());
    }

    /// Notes that a value no longer occupies some memory.
    pub fn vacate(&mut self, memory: Memory, value: ValueId) {
        self.occupants.remove(memory, value.index());
    }

    /// Tells whether a value that occupies some of this memory is read after the node that is laid out now (order-c1).
    pub fn is_read_later(&self, memory: Memory) -> bool {
        self.occupants.with(memory).any(|value| self.later_reads(value) > 0)
    }

    /// Tells whether no value occupies any of this memory (order-c2).
    pub fn is_free(&self, memory: Memory) -> bool {
        self.occupants.with(memory).next().is_none()
    }

    /// Tells whether a sum that the node laid out now makes, and that gives the next value of a state, may be added to the state
    /// after its step (order-c3).
    pub fn may_defer(&self, sum: ValueId, state: ValueId) -> bool {
        let is_read_by_sum = self.now.is_some_and(|node| node.inputs.contains(&state));
        is_read_by_sum && self.readers[state.index()] == 1 && self.readers[sum.index()] == 1
    }

    /// Counts the readers of a value that come after the node that is laid out now.
    fn later_reads(&self, value: usize) -> usize {
        let reads_now = self.now.iter().flat_map(|node| &node.inputs).filter(|input| input.index() == value).count();
        self.to_come[value] - reads_now
    }
}
