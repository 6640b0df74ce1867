//! Finds the kinds of ops that read each value of a graph.

use super::*;

/// The kinds of ops that read each value of a graph.
pub(super) struct Readers(Vec<Kinds>);

/// The kinds of ops that read a value.
#[derive(Clone, Copy, Default)]
struct Kinds {
    elementwise: bool,
    /// Slices, concatenations and paddings.
    of_parts: bool,
    others: bool,
}

impl Readers {
    /// Finds the readers of all values of a graph.
    pub(super) fn of(graph: &Graph) -> Self {
        let mut all = vec![Kinds::default(); graph.values().count()];
        for node in graph.nodes() {
            for input in &node.inputs {
                let kinds = &mut all[input.index()];
                let kind = match node.op.class() {
                    OpClass::Elementwise(_) => &mut kinds.elementwise,
                    OpClass::Movement(Movement::Slice(_) | Movement::Concat(_) | Movement::Pad(_)) => {
                        &mut kinds.of_parts
                    }
                    OpClass::Movement(_) | OpClass::Along(_) | OpClass::Creation(_) | OpClass::Indexing(_) => {
                        &mut kinds.others
                    }
                    OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => &mut kinds.others,
                    OpClass::Control(_) | OpClass::Custom(_) => &mut kinds.others,
                };
                *kind = true;
            }
        }
        Readers(all)
    }

    /// Returns `true` if an elementwise op, a slice, a concatenation or a padding reads the value.
    pub(super) fn read_parts(&self, value: ValueId) -> bool {
        let Kinds { elementwise, of_parts, .. } = self.0[value.index()];
        elementwise || of_parts
    }

    /// Returns `true` if elementwise ops read the value, and nothing else in the graph does.
    pub(super) fn are_elementwise(&self, value: ValueId) -> bool {
        let Kinds { elementwise, of_parts, others } = self.0[value.index()];
        elementwise && !of_parts && !others
    }
}
