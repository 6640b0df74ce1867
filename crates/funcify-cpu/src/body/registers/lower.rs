//! Lowers instructions to register code.

use std::collections::HashMap;

use super::super::planned::{PlannedLoop, Step};
use super::{Factor, Piece, Product, REGISTERS, RegisterCode, RegisterOp, Verb};
use crate::kernels::{Binary, Fold, Ternary, Unary};
use crate::plan::{Across, Instruction, Op, Operand, Region};
use funcify_body::float::Float;

/// The maximum number of vectors that an iteration may write.
const MAX_WRITTEN_VECTORS: usize = 512;
/// The maximum number of vectors that an iteration may compute, including the terms of products.
const MAX_COMPUTED_VECTORS: usize = 1024;
/// The estimated time of a register op without the work on its vectors, in nanoseconds.
const NS_PER_REGISTER_OP: f64 = 1.5;
/// The estimated time for each vector of an op's registers, in nanoseconds.
const NS_PER_VECTOR: f64 = 0.5;
/// The same for an op that calls a math function.
const NS_PER_FUNCTION: f64 = 5.5;
/// The maximum number of vectors in a register.
const MAX_VECTORS: usize = 8;
/// The minimum trip count for which loading registers pays off.
const MIN_ITERATIONS: usize = 4;

/// Lowers a loop to register code with the fastest size of registers. `slicer` has registers of one vector. Returns the
/// estimated time of an iteration, in nanoseconds, and the code. Returns `None` if [`lower`] returns `None` for all
/// sizes.
pub(in super::super) fn lower_with_cost<T: Float>(
    slicer: Slicer<'_>,
    planned: &PlannedLoop<'_>,
) -> Option<(f64, RegisterCode<T>)> {
    let codes = sizes(planned, slicer.width).filter_map(|vectors| {
        let code = lower::<T>(Slicer { vectors, width: vectors * slicer.width, ..slicer }, planned)?;
        Some((code.cost(NS_PER_REGISTER_OP, NS_PER_VECTOR, NS_PER_FUNCTION), code))
    });
    codes.min_by(|(one, _), (other, _)| one.total_cmp(other))
}

/// Returns the numbers of vectors that a register of a loop may hold, for vectors of `width` elements. Registers are
/// not larger than the longest row needs.
pub(in super::super) fn sizes(planned: &PlannedLoop<'_>, width: usize) -> impl Iterator<Item = usize> {
    let lanes = |step: &Step<'_>| if let Step::Do(instruction) = step { instruction.lanes } else { 1 };
    let most = planned.steps.iter().map(lanes).max().unwrap_or(1).div_ceil(width);
    let sizes = std::iter::successors(Some(1), |vectors| Some(2 * vectors));
    sizes.take_while(move |vectors| *vectors < 2 * most && *vectors <= MAX_VECTORS)
}

/// Lowers a loop to register code for registers of the slicer's size. Returns `None` if the loop has few iterations, is
/// too large, contains an instruction that register code does not support, or accesses memory in a way that registers
/// do not support.
pub(in super::super) fn lower<T: Float>(slicer: Slicer<'_>, planned: &PlannedLoop<'_>) -> Option<RegisterCode<T>> {
    let PlannedLoop { steps, times } = planned;
    let (own, level) = (*times.last()?, times.len() - 1);
    let vectors = |step: &Step<'_>| step.vectors(slicer.width);
    let terms = steps.iter().map(|step| vectors(step) * step.terms()).sum::<usize>();
    if own < MIN_ITERATIONS
        || steps.iter().map(vectors).sum::<usize>() > MAX_WRITTEN_VECTORS
        || terms > MAX_COMPUTED_VECTORS
    {
        return None;
    }
    let mut lowering = Lowering::new(slicer, level, slicer.accessed_pieces(steps, times)?)?;
    for step in steps {
        match step {
            Step::Do(instruction) => lowering.instruction(instruction)?,
            Step::EndUnless(holds) => lowering.end_unless(holds)?,
        }
    }
    Some(lowering.code)
}

/// The regions and the size of registers that determine how operands are divided into pieces.
#[derive(Clone, Copy)]
pub(in super::super) struct Slicer<'r> {
    pub(in super::super) regions: &'r [Region],
    /// The number of vectors in a register.
    pub(in super::super) vectors: usize,
    /// The number of elements in a register.
    pub(in super::super) width: usize,
    /// The number of columns in a panel of a packed matrix. If it is `None`, loops with products are not lowered.
    pub(in super::super) panel: Option<usize>,
}

impl Slicer<'_> {
    /// Divides an operand into pieces of at most one register, row by row.
    fn pieces(self, operand: &Operand, rows: usize, lanes: usize) -> Vec<Piece> {
        let start = operand.unit * self.regions[operand.region].pitch + operand.offset;
        let piece = |at, len| Piece { region: operand.region, at, steps: operand.steps, len };
        let mut pieces = Vec::new();
        for row in 0..rows {
            let at = start + row * operand.row;
            for first in (0..lanes).step_by(self.width) {
                pieces.push(match operand.across {
                    Across::Lanes => piece(at + first, self.width.min(lanes - first)),
                    Across::Element => piece(at, 1),
                });
            }
        }
        pieces
    }

    /// Returns all pieces that an instruction reads.
    fn read(self, instruction: &Instruction) -> Vec<Piece> {
        let Instruction { op, rows, lanes, from, .. } = instruction;
        let whole = |operand: &Operand| self.pieces(operand, *rows, *lanes);
        let Op::Product { inner, init, .. } = op else { return from.iter().flat_map(whole).collect() };
        let (init, factors) = from.split_at(usize::from(*init));
        let factors = factors.as_chunks::<2>().0.iter().zip(inner);
        let factors = factors.flat_map(|([row, packed], inner)| {
            self.pieces(row, *rows, *inner).into_iter().chain([self.packed(packed, *inner, *lanes)])
        });
        init.iter().flat_map(whole).chain(factors).collect()
    }

    /// Returns a packed matrix as one piece, which may be larger than a vector.
    fn packed(self, operand: &Operand, inner: usize, lanes: usize) -> Piece {
        let len = inner * lanes.next_multiple_of(self.panel.unwrap_or(1));
        let at = operand.unit * self.regions[operand.region].pitch + operand.offset;
        Piece { region: operand.region, at, steps: operand.steps, len }
    }

    /// Returns the pieces that the loop accesses, each with a flag that is `true` if the piece is written. Returns
    /// `None` if pieces may overlap in a way that registers do not support, or if there are too many pieces.
    fn accessed_pieces(self, steps: &[Step<'_>], times: &[usize]) -> Option<HashMap<Piece, bool>> {
        let mut all: HashMap<Piece, bool> = HashMap::new();
        for step in steps {
            let instruction = match step {
                Step::Do(instruction) => *instruction,
                Step::EndUnless(holds) => {
                    for piece in self.pieces(holds, 1, 1) {
                        all.entry(piece).or_insert(false);
                    }
                    continue;
                }
            };
            let Instruction { op, rows, lanes, to, .. } = instruction;
            let written = match op {
                Op::FoldRows { .. } => self.pieces(to, 1, *lanes),
                Op::FoldLanes { .. } => self.pieces(to, *rows, 1),
                _ => self.pieces(to, *rows, *lanes),
            };
            for piece in written {
                all.insert(piece, true);
            }
            for piece in self.read(instruction) {
                all.entry(piece).or_insert(false);
            }
            if all.len() > 2 * MAX_WRITTEN_VECTORS {
                return None;
            }
        }
        // Returns the first and the last element that a piece covers over all iterations.
        let reach = |piece: &Piece| {
            let pitch = self.regions[piece.region].pitch as isize;
            let mut ends = [piece.at as isize, (piece.at + piece.len - 1) as isize];
            for (step, times) in piece.steps.iter().zip(times) {
                let furthest = step * pitch * (*times as isize - 1);
                ends[usize::from(furthest > 0)] += furthest;
            }
            ends
        };
        let moves = |piece: &Piece| piece.steps[times.len() - 1] != 0;
        let mut sorted: Vec<(&Piece, bool, [isize; 2])> =
            all.iter().map(|(piece, is_written)| (piece, *is_written, reach(piece))).collect();
        sorted.sort_unstable_by_key(|(piece, _, reach)| (piece.region, reach[0]));
        // A written piece must not overlap another piece if either of them stays in a register. Two moving pieces may
        // overlap, because they are loaded and stored in program order.
        for (index, (one, is_written, [_, end])) in sorted.iter().enumerate() {
            let later = &sorted[index + 1..];
            let met = later.iter().take_while(|(other, _, reach)| other.region == one.region && reach[0] <= *end);
            for (other, is_other_written, _) in met {
                if (*is_written || *is_other_written) && !(moves(one) && moves(other)) {
                    return None;
                }
            }
        }
        Some(all)
    }
}

/// A builder of register code. Its methods return `None` if register code does not support an instruction, or if there
/// are not enough registers.
struct Lowering<'r, T> {
    slicer: Slicer<'r>,
    level: usize,
    code: RegisterCode<T>,
    /// The registers of pieces whose address is the same in every iteration.
    resident: HashMap<Piece, u8>,
    /// The registers that currently hold moving pieces.
    loaded: HashMap<Piece, u8>,
    streams: HashMap<Piece, u8>,
    numbers: HashMap<u64, u8>,
    /// The number of registers in use.
    used: usize,
}

impl<'r, T: Float> Lowering<'r, T> {
    fn new(slicer: Slicer<'r>, level: usize, places: HashMap<Piece, bool>) -> Option<Self> {
        let mut lowering = Lowering {
            slicer,
            level,
            code: RegisterCode { vectors: slicer.vectors, ..RegisterCode::default() },
            resident: HashMap::new(),
            loaded: HashMap::new(),
            streams: HashMap::new(),
            numbers: HashMap::new(),
            used: 0,
        };
        let is_resident = |piece: &Piece| piece.steps[level] == 0 && piece.len <= slicer.width;
        let mut fixed: Vec<(Piece, bool)> = places.into_iter().filter(|(piece, _)| is_resident(piece)).collect();
        fixed.sort_unstable_by_key(|(piece, _)| (piece.region, piece.at, piece.len));
        for (piece, is_written) in fixed {
            let register = lowering.register()?;
            lowering.resident.insert(piece, register);
            lowering.code.loads.push((register, piece));
            if is_written {
                lowering.code.stores.push((register, piece));
            }
        }
        Some(lowering)
    }

    /// Allocates a register. Returns `None` if all registers are in use.
    fn register(&mut self) -> Option<u8> {
        self.used += 1;
        u8::try_from(self.used - 1).ok().filter(|_| self.used <= REGISTERS / self.slicer.vectors)
    }

    /// Returns the register that holds a piece, and emits a load if necessary.
    fn read(&mut self, piece: Piece) -> Option<u8> {
        if let Some(register) = self.resident.get(&piece).or_else(|| self.loaded.get(&piece)) {
            return Some(*register);
        }
        let (stream, register) = (self.stream(piece)?, self.register()?);
        self.push_op(Verb::Load, register, [stream, 0, 0]);
        self.loaded.insert(piece, register);
        Some(register)
    }

    fn stream(&mut self, piece: Piece) -> Option<u8> {
        if let Some(stream) = self.streams.get(&piece) {
            return Some(*stream);
        }
        let stream = u8::try_from(self.code.streams.len()).ok()?;
        self.code.streams.push(piece);
        self.streams.insert(piece, stream);
        Some(stream)
    }

    /// Returns the register that holds a constant, and allocates one if necessary.
    fn number(&mut self, number: f64) -> Option<u8> {
        if let Some(register) = self.numbers.get(&number.to_bits()) {
            return Some(*register);
        }
        let register = self.register()?;
        self.code.numbers.push((register, T::from_f64(number)));
        self.numbers.insert(number.to_bits(), register);
        Some(register)
    }

    fn push_op(&mut self, verb: Verb, to: u8, from: [u8; 3]) {
        self.code.ops.push(RegisterOp { verb, to, from });
    }

    /// Emits an op that applies a verb and writes the result to a piece. If the piece moves, the result is also stored
    /// to memory, and all other loaded pieces of the region become stale. If the piece's register held another loaded
    /// piece, that piece becomes stale too (order-c4 of the planner). Stale pieces are loaded again when they are read.
    fn write(&mut self, verb: Verb, to: Piece, from: [u8; 3]) -> Option<()> {
        let moves = to.steps[self.level] != 0;
        let register = match self.resident.get(&to) {
            Some(register) => *register,
            // A copy to a moving piece is stored directly from the source's register.
            None if verb == Verb::Copy => from[0],
            None => self.register()?,
        };
        if !(moves && verb == Verb::Copy) {
            self.push_op(verb, register, from);
            self.loaded.retain(|_, holder| *holder != register);
        }
        if moves {
            let stream = self.stream(to)?;
            self.push_op(Verb::Store, stream, [register, 0, 0]);
            self.loaded.retain(|other, _| other.region != to.region);
            self.loaded.insert(to, register);
        }
        Some(())
    }

    fn instruction(&mut self, instruction: &Instruction) -> Option<()> {
        let Instruction { op, rows, lanes, to, from } = instruction;
        let slicer = self.slicer;
        let verb = match op {
            Op::Fill(number) => {
                let number = self.number(*number)?;
                let mut pieces = slicer.pieces(to, *rows, *lanes).into_iter();
                return pieces.try_for_each(|to| self.write(Verb::Copy, to, [number, 0, 0]));
            }
            Op::FoldRows { fold, accumulate } => return self.fold_rows(instruction, *fold, *accumulate),
            Op::FoldLanes { fold, accumulate } => return self.fold_lanes(instruction, *fold, *accumulate),
            Op::Product { inner, init, then } => return self.product(instruction, inner, *init, *then),
            Op::Unary(op) => verb_of_unary(*op),
            Op::Binary(Binary::Add) => Verb::Add,
            Op::Binary(Binary::Sub) => Verb::Sub,
            Op::Binary(Binary::Mul) => Verb::Mul,
            Op::Binary(Binary::Div) => Verb::Div,
            Op::Binary(Binary::Less) => Verb::Less,
            Op::Binary(Binary::LessEqual) => Verb::LessEqual,
            Op::Binary(op) => Verb::Binary(*op),
            Op::Ternary(Ternary::MulAdd) => Verb::MulAdd,
            Op::Ternary(Ternary::MulSub) => Verb::MulSub,
            Op::Ternary(Ternary::NegMulAdd) => Verb::NegMulAdd,
            Op::Ternary(Ternary::Select) => Verb::Select,
            Op::Sink { .. } | Op::Pack { .. } | Op::Transpose | Op::Take { .. } | Op::Put { .. } => return None,
            Op::Scatter { .. } | Op::Recur { .. } => return None,
        };
        let from: Vec<Vec<Piece>> = from.iter().map(|operand| slicer.pieces(operand, *rows, *lanes)).collect();
        for (index, to) in slicer.pieces(to, *rows, *lanes).into_iter().enumerate() {
            let mut registers = [0; 3];
            for (register, from) in registers.iter_mut().zip(&from) {
                *register = self.read(from[index])?;
            }
            self.write(verb, to, registers)?;
        }
        Some(())
    }

    /// Emits an op that ends the loop if the element `holds` is 0.
    fn end_unless(&mut self, holds: &Operand) -> Option<()> {
        let holds = *self.slicer.pieces(holds, 1, 1).first()?;
        let register = self.read(holds)?;
        self.push_op(Verb::EndUnless, 0, [register, 0, 0]);
        Some(())
    }

    /// Emits ops that fold all rows into a single row, one vector of lanes at a time.
    fn fold_rows(&mut self, instruction: &Instruction, fold: Fold, accumulate: bool) -> Option<()> {
        let Instruction { rows, lanes, to, from, .. } = instruction;
        let from: Vec<Vec<Piece>> = from.iter().map(|operand| self.slicer.pieces(operand, *rows, *lanes)).collect();
        let to = self.slicer.pieces(to, 1, *lanes);
        let vectors = to.len();
        for (index, to) in to.into_iter().enumerate() {
            let mut sum = if accumulate { Some(self.read(to)?) } else { None };
            for row in 0..*rows {
                let at = row * vectors + index;
                let x = self.read(from[0][at])?;
                let y = if from.len() == 2 { Some(self.read(from[1][at])?) } else { None };
                sum = Some(match (sum, y) {
                    (None, None) => x,
                    (None, Some(y)) => self.compute(Verb::Mul, [x, y, 0])?,
                    (Some(sum), None) => self.compute(verb_of(fold), [sum, x, 0])?,
                    (Some(sum), Some(y)) => self.compute(Verb::MulAdd, [x, y, sum])?,
                });
            }
            self.write(Verb::Copy, to, [sum?, 0, 0])?;
        }
        Some(())
    }

    /// Emits ops that fold the lanes of each row into one element: first within each vector, and then across vectors.
    fn fold_lanes(&mut self, instruction: &Instruction, fold: Fold, accumulate: bool) -> Option<()> {
        let Instruction { rows, lanes, to, from, .. } = instruction;
        let from: Vec<Vec<Piece>> = from.iter().map(|operand| self.slicer.pieces(operand, *rows, *lanes)).collect();
        let vectors = lanes.div_ceil(self.slicer.width);
        for (row, to) in self.slicer.pieces(to, *rows, 1).into_iter().enumerate() {
            let mut sum = if accumulate { Some(self.read(to)?) } else { None };
            for index in 0..vectors {
                let at = row * vectors + index;
                let mut x = self.read(from[0][at])?;
                if from.len() == 2 {
                    let y = self.read(from[1][at])?;
                    x = self.compute(Verb::Mul, [x, y, 0])?;
                }
                let len = self.slicer.width.min(lanes - index * self.slicer.width);
                let folded = match len {
                    1 => x,
                    len => self.compute(Verb::FoldLanes(fold), [x, u8::try_from(len).ok()?, 0])?,
                };
                sum = Some(match sum {
                    None => folded,
                    Some(sum) => self.compute(verb_of(fold), [sum, folded, 0])?,
                });
            }
            self.write(Verb::Copy, to, [sum?, 0, 0])?;
        }
        Some(())
    }

    /// Emits ops that compute a sum of products, each of a row and a packed matrix, and apply `then` to the sum.
    fn product(&mut self, instruction: &Instruction, inner: &[usize], init: bool, then: Option<Unary>) -> Option<()> {
        let Instruction { rows, lanes, to, from, .. } = instruction;
        self.slicer.panel.filter(|_| *rows == 1)?;
        let (init, factors) = from.split_at(usize::from(init));
        let registers = |lowering: &mut Self, pieces: Vec<Piece>| -> Option<Vec<u8>> {
            pieces.into_iter().map(|piece| lowering.read(piece)).collect()
        };
        let init = match init {
            [init] => Some(registers(self, self.slicer.pieces(init, 1, *lanes))?),
            _ => None,
        };
        let mut lowered_factors = Vec::new();
        for ([row, packed], inner) in factors.as_chunks::<2>().0.iter().zip(inner) {
            let matrix = self.slicer.packed(packed, *inner, *lanes);
            if row.across != Across::Lanes || matrix.steps[self.level] != 0 {
                return None;
            }
            let row = registers(self, self.slicer.pieces(row, 1, *inner))?;
            lowered_factors.push(Factor { row, inner: *inner, packed: self.stream(matrix)? });
        }
        let to = self.slicer.pieces(to, 1, *lanes);
        let sums = to.iter().map(|_| self.register()).collect::<Option<Vec<u8>>>()?;
        let number = u8::try_from(self.code.products.len()).ok()?;
        self.code.products.push(Product { factors: lowered_factors, init, to: sums.clone() });
        self.push_op(Verb::Product, 0, [number, 0, 0]);
        let verb = then.map_or(Verb::Copy, verb_of_unary);
        to.into_iter().zip(sums).try_for_each(|(to, sum)| {
            // Lanes past the last column hold padding, but the element of a one-element piece must be broadcast to all
            // lanes.
            let sum = if to.len == 1 { self.compute(Verb::FoldLanes(Fold::Sum), [sum, 1, 0])? } else { sum };
            self.write(verb, to, [sum, 0, 0])
        })
    }

    fn compute(&mut self, verb: Verb, from: [u8; 3]) -> Option<u8> {
        let register = self.register()?;
        self.push_op(verb, register, from);
        Some(register)
    }
}

fn verb_of_unary(op: Unary) -> Verb {
    match op {
        Unary::Copy => Verb::Copy,
        Unary::Neg => Verb::Neg,
        Unary::Square => Verb::Square,
        op => Verb::Unary(op),
    }
}

/// Returns the verb that combines two values of a fold.
fn verb_of(fold: Fold) -> Verb {
    match fold {
        Fold::Sum => Verb::Add,
        Fold::Product => Verb::Mul,
        Fold::Max => Verb::Binary(Binary::Max),
        Fold::Min => Verb::Binary(Binary::Min),
    }
}
