//! Short ways to write regions, operands and instructions.

use super::{Across, DEPTH, Instruction, Node, Nodes, Op, Operand, Part, Plan, Region, Split, Stage, Storage};

impl Plan {
    /// Adds a region; gives the number by which operands name it.
    pub fn region(&mut self, place: Storage, units: usize, pitch: usize, split: Split) -> usize {
        self.regions.push(Region { place, units, pitch, split });
        self.regions.len() - 1
    }

    /// Adds scratch memory of `len` elements that all parts share.
    pub fn shared(&mut self, len: usize) -> usize {
        self.region(Storage::Scratch, 1, len, Split::Whole)
    }

    /// Adds scratch memory of `len` elements for each of `parts` parts, each element a unit.
    pub fn registers(&mut self, parts: usize, len: usize) -> usize {
        self.region(Storage::Scratch, len, 1, Split::Parts(parts))
    }

    /// Adds a stage with one part, which runs once.
    pub fn once(&mut self, program: Nodes) {
        let parts = vec![Part { len: 1, program: 0 }];
        self.stages.push(Stage { parts, programs: vec![program], concurrent: false });
    }

    /// Adds a stage whose `parts` parts of `len` indices each run one program.
    pub fn parts(&mut self, parts: usize, len: usize, program: Nodes) {
        let parts = vec![Part { len, program: 0 }; parts];
        self.stages.push(Stage { concurrent: parts.len() > 1, parts, programs: vec![program] });
    }
}

impl Plan {
    /// Elements of scratch memory.
    pub fn scratch_elements(&self) -> usize {
        let len = |region: &Region| match (region.place, region.split) {
            (Storage::Scratch, Split::Parts(parts)) => parts * region.units * region.pitch,
            (Storage::Scratch, _) => region.units * region.pitch,
            _ => 0,
        };
        self.regions.iter().map(len).sum()
    }

    /// How many instructions it has, whose number does not follow the sizes of its tensors.
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

    /// Bytes of the plan itself.
    pub fn bytes(&self) -> usize {
        // An instruction has its operands beside it.
        self.instructions() * (size_of::<Node>() + 4 * size_of::<Operand>())
    }
}

impl Operand {
    /// The start of a region, in every iteration, one row for all.
    pub fn of(region: usize) -> Self {
        Operand { region, unit: 0, steps: [0; DEPTH], offset: 0, row: 0, across: Across::Lanes }
    }

    /// Starting at a unit.
    pub fn at(self, unit: usize) -> Self {
        Operand { unit, ..self }
    }

    /// Starting so many elements after the unit.
    pub fn offset(self, offset: usize) -> Self {
        Operand { offset, ..self }
    }

    /// Moving by `units` with each iteration of the loop at `level`; the outermost loop is 0.
    pub fn step(mut self, level: usize, units: isize) -> Self {
        self.steps[level] = units;
        self
    }

    /// With rows so many elements apart.
    pub fn rows(self, row: usize) -> Self {
        Operand { row, ..self }
    }

    /// With one element a row, for all lanes.
    pub fn element(self) -> Self {
        Operand { across: Across::Element, ..self }
    }
}

impl Op {
    /// The instruction with this op.
    pub fn over(self, [rows, lanes]: [usize; 2], to: Operand, from: &[Operand]) -> Node {
        Node::Do(Instruction { op: self, rows, lanes, to, from: from.to_vec() })
    }
}

/// A loop.
pub fn repeat(times: usize, body: Vec<Node>) -> Node {
    Node::Loop { times, body }
}
