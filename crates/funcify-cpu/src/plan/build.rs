//! Shorthands for building regions, operands and instructions.

use super::{Across, DEPTH, Instruction, Node, Nodes, Op, Operand, Part, Plan, Region, Split, Stage, Storage};

impl Plan {
    /// Adds a region, and returns the index that operands use to refer to it.
    pub fn region(&mut self, place: Storage, units: usize, pitch: usize, split: Split) -> usize {
        self.regions.push(Region { place, units, pitch, split });
        self.regions.len() - 1
    }

    /// Adds scratch memory of `len` elements that all parts share.
    pub fn shared(&mut self, len: usize) -> usize {
        self.region(Storage::Scratch, 1, len, Split::Whole)
    }

    /// Adds scratch memory of `len` elements for each of `parts` parts. Each element is a unit.
    pub fn registers(&mut self, parts: usize, len: usize) -> usize {
        self.region(Storage::Scratch, len, 1, Split::Parts(parts))
    }

    /// Adds a stage with one part, which runs once.
    pub fn once(&mut self, program: Nodes) {
        let parts = vec![Part { len: 1, program: 0 }];
        self.stages.push(Stage { parts, programs: vec![program], concurrent: false });
    }

    /// Adds a stage with `parts` parts of `len` indices each. All of them run the same program.
    pub fn parts(&mut self, parts: usize, len: usize, program: Nodes) {
        let parts = vec![Part { len, program: 0 }; parts];
        self.stages.push(Stage { concurrent: parts.len() > 1, parts, programs: vec![program] });
    }
}

impl Plan {
    /// Returns the number of elements of scratch memory.
    pub fn scratch_elements(&self) -> usize {
        let len = |region: &Region| match (region.place, region.split) {
            (Storage::Scratch, Split::Parts(parts)) => parts * region.units * region.pitch,
            (Storage::Scratch, _) => region.units * region.pitch,
            _ => 0,
        };
        self.regions.iter().map(len).sum()
    }

    /// Returns the number of instructions, which does not depend on the sizes of the plan's tensors.
    pub fn instructions(&self) -> usize {
        fn count(nodes: &[Node]) -> usize {
            let of = |node: &Node| match node {
                Node::Do(_) => 1,
                Node::Loop { body, .. } => count(body),
                Node::While { test, body, .. } => count(test) + count(body),
                Node::Choice { branches, .. } => branches.iter().map(|nodes| count(nodes)).sum(),
            };
            nodes.iter().map(of).sum()
        }
        self.stages.iter().flat_map(|stage| &stage.programs).map(|program| count(program)).sum()
    }

    /// Returns the approximate size of the plan itself in bytes.
    pub fn bytes(&self) -> usize {
        // The operands of an instruction are a separate allocation.
        self.instructions() * (size_of::<Node>() + 4 * size_of::<Operand>())
    }
}

impl Operand {
    /// Returns an operand at the start of a region, which does not move and reads the same row for all rows.
    pub fn of(region: usize) -> Self {
        Operand { region, unit: 0, steps: [0; DEPTH], offset: 0, row: 0, across: Across::Lanes }
    }

    /// Returns the operand starting at a unit.
    pub fn at(self, unit: usize) -> Self {
        Operand { unit, ..self }
    }

    /// Returns the operand starting `offset` elements after the unit.
    pub fn offset(self, offset: usize) -> Self {
        Operand { offset, ..self }
    }

    /// Returns the operand moving by `units` with each iteration of the loop at `level`; the outermost loop is 0.
    pub fn step(mut self, level: usize, units: isize) -> Self {
        self.steps[level] = units;
        self
    }

    /// Returns the operand with its rows `row` elements apart.
    pub fn rows(self, row: usize) -> Self {
        Operand { row, ..self }
    }

    /// Returns the operand with one element per row, for all lanes.
    pub fn element(self) -> Self {
        Operand { across: Across::Element, ..self }
    }
}

impl Op {
    /// Builds an instruction that computes this op.
    pub fn over(self, [rows, lanes]: [usize; 2], to: Operand, from: &[Operand]) -> Node {
        Node::Do(Instruction { op: self, rows, lanes, to, from: from.to_vec() })
    }
}

/// Builds a loop that runs `body` `times` times.
pub fn repeat(times: usize, body: Vec<Node>) -> Node {
    Node::Loop { times, body }
}
