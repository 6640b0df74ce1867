//! Constructors and builder methods for regions, operands and instructions.

use funcify_body::Type;
use funcify_core::ops::OpRules;

use super::{
    Across, DEPTH, Evaluation, Instruction, Node, Nodes, Op, Operand, Part, Plan, Region, Split, Stage, Storage,
};

impl Plan {
    /// Adds a region of floats, and returns its index. Operands refer to the region by this index.
    pub fn region(&mut self, place: Storage, units: usize, pitch: usize, split: Split) -> usize {
        self.typed_region(place, units, pitch, split, Type::Float)
    }

    /// Adds a region with elements of type `ty`, and returns its index.
    pub fn typed_region(&mut self, place: Storage, units: usize, pitch: usize, split: Split, ty: Type) -> usize {
        self.regions.push(Region { place, units, pitch, split, ty });
        self.regions.len() - 1
    }

    /// Adds a scratch region of `len` floats that all parts share, and returns its index.
    pub fn shared(&mut self, len: usize) -> usize {
        self.region(Storage::Scratch, 1, len, Split::Whole)
    }

    /// Adds a scratch region of `len` floats for each of `parts` parts, and returns its index. Each unit is one float.
    pub fn registers(&mut self, parts: usize, len: usize) -> usize {
        self.region(Storage::Scratch, len, 1, Split::Parts(parts))
    }

    /// Adds a stage with a single part, which runs `program`.
    pub fn once(&mut self, program: Nodes) {
        let parts = vec![Part { len: 1, program: 0 }];
        self.stages.push(Stage { parts, programs: vec![program], concurrent: false });
    }

    /// Adds a stage with `parts` parts, each of `len` indices along the parallel axis. All parts run `program`.
    pub fn parts(&mut self, parts: usize, len: usize, program: Nodes) {
        let parts = vec![Part { len, program: 0 }; parts];
        self.stages.push(Stage { concurrent: parts.len() > 1, parts, programs: vec![program] });
    }
}

impl Plan {
    /// Returns `true` if all regions of the plan hold floats.
    pub fn is_float(&self) -> bool {
        self.regions.iter().all(|region| region.ty == Type::Float)
    }

    /// Returns the names of the ops that the plan leaves to the reference evaluator.
    pub(crate) fn evaluated_ops(&self) -> Vec<&'static str> {
        let evaluations = self.evaluations().into_iter();
        evaluations.filter(|evaluation| evaluation.kernel.is_none()).map(|evaluation| evaluation.op.name()).collect()
    }

    /// Returns `true` if the plan has an [`Evaluation`]: an op that a kernel or the reference evaluator computes as a
    /// whole.
    pub(crate) fn has_whole_ops(&self) -> bool {
        !self.evaluations().is_empty()
    }

    /// Returns all evaluations of the plan, including those in nested lists of nodes.
    fn evaluations(&self) -> Vec<&Evaluation> {
        fn of(nodes: &[Node]) -> Vec<&Evaluation> {
            nodes.iter().flat_map(of_node).collect()
        }
        fn of_node(node: &Node) -> Vec<&Evaluation> {
            match node {
                Node::Evaluate(evaluation) => vec![evaluation],
                Node::Do(_) | Node::Fused(_) => Vec::new(),
                Node::Loop { body, .. } => of(body),
                Node::While { test, body, .. } => [of(test), of(body)].concat(),
                Node::Choice { branches, .. } => branches.iter().flat_map(|nodes| of(nodes)).collect(),
            }
        }
        self.stages.iter().flat_map(|stage| &stage.programs).flat_map(|program| of(program)).collect()
    }

    /// Returns the size of the scratch memory, in elements.
    pub fn scratch_elements(&self) -> usize {
        self.regions.iter().map(Region::scratch_elements).sum()
    }

    /// Returns the size of the scratch memory, in bytes. `float` is the size of the plan's float type, in bytes.
    pub(crate) fn scratch_bytes(&self, float: usize) -> u64 {
        self.regions.iter().map(|region| (region.scratch_elements() * region.ty.size(float)) as u64).sum()
    }

    /// Returns the number of instructions in the plan. An instruction in a loop counts once.
    pub fn instructions(&self) -> usize {
        fn count(nodes: &[Node]) -> usize {
            let of = |node: &Node| match node {
                Node::Do(_) | Node::Fused(_) | Node::Evaluate(_) => 1,
                Node::Loop { body, .. } => count(body),
                Node::While { test, body, .. } => count(test) + count(body),
                Node::Choice { branches, .. } => branches.iter().map(|nodes| count(nodes)).sum(),
            };
            nodes.iter().map(of).sum()
        }
        self.stages.iter().flat_map(|stage| &stage.programs).map(|program| count(program)).sum()
    }

    /// Returns the approximate size in bytes of the plan itself, without the memory of its regions.
    pub fn bytes(&self) -> usize {
        // Assume that each instruction has four operands, which are allocated separately.
        self.instructions() * (size_of::<Node>() + 4 * size_of::<Operand>())
    }
}

impl Region {
    /// Returns the number of elements that the region occupies in scratch memory, over all parts, or 0 if the region is
    /// an input or an output.
    pub(crate) fn scratch_elements(&self) -> usize {
        match (self.place, self.split) {
            (Storage::Scratch, Split::Parts(parts)) => parts * self.units * self.pitch,
            (Storage::Scratch, Split::Whole | Split::Columns(_)) => self.units * self.pitch,
            (Storage::Input(_) | Storage::Output(_), _) => 0,
        }
    }
}

impl Operand {
    /// Creates an operand at the start of a region. The operand does not move in any loop, and its row stride is 0.
    pub fn of(region: usize) -> Self {
        Operand { region, unit: 0, steps: [0; DEPTH], offset: 0, row: 0, across: Across::Lanes }
    }

    /// Sets the unit at which the operand starts.
    pub fn at(self, unit: usize) -> Self {
        Operand { unit, ..self }
    }

    /// Sets the offset within the unit at which the operand starts, in elements.
    pub fn offset(self, offset: usize) -> Self {
        Operand { offset, ..self }
    }

    /// Makes the operand move by `units` in each iteration of the loop at `level`. The outermost loop has level 0.
    pub fn step(mut self, level: usize, units: isize) -> Self {
        self.steps[level] = units;
        self
    }

    /// Sets the stride between rows, in elements.
    pub fn rows(self, row: usize) -> Self {
        Operand { row, ..self }
    }

    /// Makes each row a single element, which is broadcast to all lanes.
    pub fn element(self) -> Self {
        Operand { across: Across::Element, ..self }
    }
}

impl Op {
    /// Builds an instruction that applies this op to `rows` rows of `lanes` lanes.
    pub fn over(self, [rows, lanes]: [usize; 2], to: Operand, from: &[Operand]) -> Node {
        Node::Do(Instruction { op: self, rows, lanes, to, from: from.to_vec() })
    }
}

/// Builds a loop that runs `body` for `times` iterations.
pub fn repeat(times: usize, body: Vec<Node>) -> Node {
    Node::Loop { times, body }
}
