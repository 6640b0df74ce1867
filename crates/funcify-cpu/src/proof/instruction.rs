//! Runs a single instruction on the cells of a plan's memory, following the documentation of [`Op`].
//!
//! An instruction reads all operands before it writes, except for [`Op::Scatter`], which processes rows in order.
//! Packed matrices are stored in row-major order here. Their actual layout depends on the machine, so only a product
//! with a matrix of the same size may read a packed matrix.

use funcify_body::Type;

use super::field::{self, add, mul, signed};
use super::fused::dtype;
use super::graph::wrap;
use super::interpret::Interpreter;
use super::memory::OutOfBounds;
use crate::kernels::{Fold, Recurrence, Unary};
use crate::plan::{Across, Instruction, Op, Operand};

/// The location of an operand in the current iteration.
#[derive(Clone, Copy)]
struct Source {
    region: usize,
    start: usize,
    row: usize,
    across: Across,
}

impl Source {
    fn at(self, row: usize, lane: usize) -> usize {
        self.start + row * self.row + if self.across == Across::Lanes { lane } else { 0 }
    }
}

/// The location and shape of an instruction's destination.
#[derive(Clone, Copy)]
struct Target {
    at: Source,
    rows: usize,
    lanes: usize,
}

type Done = Result<(), OutOfBounds>;

impl Interpreter<'_> {
    fn source(&self, operand: &Operand) -> Source {
        let start = self.bases.start(operand, &self.place.counters);
        Source { region: operand.region, start, row: operand.row, across: operand.across }
    }

    fn read(&self, source: Source, row: usize, lane: usize) -> Result<u64, OutOfBounds> {
        self.memory.read(source.region, source.at(row, lane))
    }

    /// Runs an instruction once, in the current iteration of each enclosing loop.
    pub(super) fn instruction(&mut self, instruction: &Instruction) -> Done {
        let Instruction { op, rows, lanes, to, from } = instruction;
        let (rows, lanes, model) = (*rows, *lanes, self.model);
        let to = Target { at: self.source(to), rows, lanes };
        let sources: Vec<Source> = from.iter().map(|operand| self.source(operand)).collect();
        let (a, b, c) = (sources.first().copied(), sources.get(1).copied(), sources.get(2).copied());
        let nothing = Source { region: usize::MAX, start: 0, row: 0, across: Across::Element };
        let (x, y, z) = (a.unwrap_or(nothing), b.unwrap_or(nothing), c.unwrap_or(nothing));
        match op {
            Op::Fill(number) => {
                let number = field::of_f64((self.rounded)(*number));
                self.each(to, |_, _, _| Ok(number))
            }
            Op::Unary(op) => self.each(to, |it, r, l| Ok(model.unary(*op, it.read(x, r, l)?))),
            Op::Binary(op) => self.each(to, |it, r, l| Ok(model.binary(*op, it.read(x, r, l)?, it.read(y, r, l)?))),
            Op::Ternary(op) => self
                .each(to, |it, r, l| Ok(model.ternary(*op, it.read(x, r, l)?, it.read(y, r, l)?, it.read(z, r, l)?))),
            Op::FoldRows { fold, accumulate } => {
                let terms = |it: &Self, r: usize, l: usize| it.term(x, b, r, l);
                self.each(Target { rows: 1, ..to }, |it, _, l| {
                    let start = if *accumulate { it.read(to.at, 0, l)? } else { model.identity(*fold) };
                    let all = (0..rows).try_fold(start, |sum, r| Ok(model.fold(*fold, sum, terms(it, r, l)?)))?;
                    Ok(it.wrapped(to.at.region, all))
                })
            }
            Op::FoldLanes { fold, accumulate } => self.each(Target { lanes: 1, ..to }, |it, r, _| {
                let start = if *accumulate { it.read(to.at, r, 0)? } else { model.identity(*fold) };
                let all = (0..lanes).try_fold(start, |sum, l| Ok(model.fold(*fold, sum, it.term(x, b, r, l)?)))?;
                Ok(it.wrapped(to.at.region, all))
            }),
            Op::Product { inner, init, then } => {
                let (init, factors) = sources.split_at(usize::from(*init));
                self.each(to, |it, r, l| {
                    let mut sum = init.first().map_or(Ok(0), |init| it.read(*init, r, l))?;
                    for ([left, right], inner) in factors.as_chunks::<2>().0.iter().zip(inner) {
                        for i in 0..*inner {
                            let right = it.memory.read(right.region, right.start + i * lanes + l)?;
                            sum = add(sum, mul(it.memory.read(left.region, left.start + r * left.row + i)?, right));
                        }
                    }
                    Ok(then.map_or(sum, |then| model.unary(then, sum)))
                })
            }
            Op::Sink { blocks, block_rows, block_steps } => self.sink(to, [x, y], (*blocks, *block_rows, *block_steps)),
            Op::Pack { column } => {
                let to = Target { at: Source { row: lanes, across: Across::Lanes, ..to.at }, ..to };
                self.each(to, |it, r, l| it.memory.read(x.region, x.start + r * x.row + l * column))
            }
            Op::Transpose => self.each(to, |it, r, l| it.read(x, l, r)),
            Op::Take { count, step } => self.each(to, |it, r, l| {
                let position = clamped(it.read(y, r, l)?, *count);
                it.memory.read(x.region, x.at(r, l) + position * step)
            }),
            Op::Put { count, step } => {
                let start = to.at.start + clamped(self.read(y, 0, 0)?, *count) * step;
                let to = Target { at: Source { start, ..to.at }, ..to };
                self.each(to, |it, r, l| it.read(x, r, l))
            }
            Op::Scatter { count, step, fold, then } => self.scatter(to, [x, y], (*count, *step), (*fold, *then)),
            Op::Recur { recurrence, down } => self.recur(to, [x, y], c, *recurrence, *down),
        }
    }

    /// Computes all elements of the destination with `value`, and then writes them.
    fn each(&mut self, to: Target, value: impl Fn(&Self, usize, usize) -> Result<u64, OutOfBounds>) -> Done {
        let mut values = std::mem::take(&mut self.values);
        values.clear();
        for row in 0..to.rows {
            for lane in 0..to.lanes {
                values.push(value(self, row, lane)?);
            }
        }
        for (index, value) in values.iter().enumerate() {
            self.memory.write(to.at.region, to.at.at(index / to.lanes, index % to.lanes), *value)?;
        }
        self.values = values;
        Ok(())
    }

    /// Returns a term of a fold: an element of `x`, or its product with an element of `y` if `y` is given.
    fn term(&self, x: Source, y: Option<Source>, row: usize, lane: usize) -> Result<u64, OutOfBounds> {
        let x = self.read(x, row, lane)?;
        y.map_or(Ok(x), |y| Ok(mul(x, self.read(y, row, lane)?)))
    }

    fn sink(
        &mut self,
        to: Target,
        [left, right]: [Source; 2],
        (blocks, block_rows, steps): (usize, usize, [isize; 2]),
    ) -> Done {
        let block = |it: &Self, side: Source, step: isize, block: usize| {
            let units = step * block as isize * it.bases.pitch(side.region) as isize;
            Source { start: side.start.wrapping_add_signed(units), ..side }
        };
        self.each(to, |it, i, l| {
            let mut sum = it.read(to.at, i, l)?;
            for number in 0..blocks {
                let (left, right) = (block(it, left, steps[0], number), block(it, right, steps[1], number));
                for r in 0..block_rows {
                    sum = add(sum, mul(it.read(left, r, i)?, it.read(right, r, l)?));
                }
            }
            Ok(sum)
        })
    }

    fn scatter(
        &mut self,
        to: Target,
        [x, index]: [Source; 2],
        (count, step): (usize, usize),
        (fold, then): (Option<Fold>, Option<Unary>),
    ) -> Done {
        let Target { at: to, rows, lanes } = to;
        for row in 0..rows {
            for lane in 0..lanes {
                let place = signed(self.read(index, row, lane)?);
                let Some(place) = usize::try_from(place).ok().filter(|place| *place < count) else { continue };
                let at = to.at(row, lane) + place * step;
                let x = self.read(x, row, lane)?;
                let combine = |fold, element| {
                    let sum = self.model.fold(fold, element, x);
                    then.map_or(sum, |then| self.model.unary(then, sum))
                };
                let value = match fold {
                    Some(fold) => combine(fold, self.memory.read(to.region, at)?),
                    None => x,
                };
                self.memory.write(to.region, at, self.wrapped(to.region, value))?;
            }
        }
        Ok(())
    }

    /// Wraps an integer to the type of a region's elements. Returns floats and masks unchanged.
    fn wrapped(&self, region: usize, cell: u64) -> u64 {
        match self.plan.regions[region].ty {
            Type::Float | Type::Mask => cell,
            ty => wrap(signed(cell), dtype(ty)),
        }
    }

    fn recur(
        &mut self,
        to: Target,
        [initial, x]: [Source; 2],
        a: Option<Source>,
        recurrence: Recurrence,
        down: bool,
    ) -> Done {
        let Target { rows, lanes, .. } = to;
        let mut states = (0..lanes).map(|l| self.read(initial, 0, l)).collect::<Result<Vec<u64>, _>>()?;
        let mut values = vec![0; rows * lanes];
        for step in 0..rows {
            let row = if down { rows - 1 - step } else { step };
            for (lane, state) in states.iter_mut().enumerate() {
                let x = self.read(x, row, lane)?;
                *state = match (recurrence, a) {
                    (Recurrence::Running(fold), _) => self.model.fold(fold, *state, x),
                    (Recurrence::Linear, Some(a)) => add(mul(self.read(a, row, lane)?, *state), x),
                    (Recurrence::Linear, None) => add(*state, x),
                };
                values[row * lanes + lane] = *state;
            }
        }
        self.each(to, |_, r, l| Ok(values[r * lanes + l]))
    }
}

/// Clamps an integer to `0..count`.
fn clamped(index: u64, count: usize) -> usize {
    signed(index).clamp(0, count as i64 - 1) as usize
}
