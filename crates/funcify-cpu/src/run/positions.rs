//! Reads and writes elements at positions that an index operand selects.

use funcify_body::Type;
use funcify_body::integer::{Element, RUN};
use pulp::bytemuck::cast_slice;

use crate::kernels::Fold;
use crate::plan::{Across, Instruction, Op, Operand};

/// The operands of an instruction that moves elements of type `E` to or from indexed positions.
pub(super) struct Movement<'m, E> {
    pub(super) instruction: &'m Instruction,
    pub(super) to: &'m mut [E],
    pub(super) x: &'m [E],
    pub(super) index: Index<'m>,
}

/// The index operand of an instruction, if any, as elements of its own type.
pub(super) enum Index<'m> {
    None,
    F32(&'m [f32]),
    F64(&'m [f64]),
    I64(&'m [i64]),
    I32(&'m [i32]),
    U32(&'m [u32]),
    U8(&'m [u8]),
}

impl<'m> Index<'m> {
    /// Returns the index operand whose elements have type `ty`. `float` is the size of a float in bytes.
    pub(super) fn of(ty: Type, bytes: &'m [u8], float: usize) -> Self {
        match ty {
            Type::Float if float == 8 => Index::F64(cast_slice(bytes)),
            Type::Float => Index::F32(cast_slice(bytes)),
            Type::I64 => Index::I64(cast_slice(bytes)),
            Type::I32 => Index::I32(cast_slice(bytes)),
            Type::U32 => Index::U32(cast_slice(bytes)),
            Type::U8 | Type::Mask => Index::U8(bytes),
        }
    }

    #[inline(always)]
    fn at(&self, at: usize) -> i64 {
        match self {
            Index::None => 0,
            Index::F32(index) => index[at].to_i64(),
            Index::F64(index) => index[at].to_i64(),
            Index::I64(index) => index[at],
            Index::I32(index) => i64::from(index[at]),
            Index::U32(index) => i64::from(index[at]),
            Index::U8(index) => i64::from(index[at]),
        }
    }
}

/// Evaluates `$run` with `$elements` bound to the elements of an index operand.
macro_rules! with_index {
    ($index:expr, $elements:ident => $run:expr) => {
        match $index {
            Index::None => unreachable!("the plan was checked: the instruction has an index"),
            Index::F32($elements) => $run,
            Index::F64($elements) => $run,
            Index::I64($elements) => $run,
            Index::I32($elements) => $run,
            Index::U32($elements) => $run,
            Index::U8($elements) => $run,
        }
    };
}

impl<E: Copy> Movement<'_, E> {
    /// Runs the instruction. `combine` computes one step of a fold.
    #[inline(always)]
    pub(super) fn run(self, combine: impl Fn(Fold, E, E) -> E) {
        let Movement { instruction, to, x, index } = self;
        match instruction.op {
            Op::Take { count, step } => with_index!(index, index => take(instruction, to, x, index, (count, step))),
            Op::Put { count, step } => put(instruction, &mut to[clamped(index.at(0), count) * step..], x),
            Op::Scatter { count, step, fold, .. } => with_index!(index, index => {
                let size = (count, step);
                match fold {
                    None => scatter(instruction, to, x, index, size, |_, x| x),
                    Some(Fold::Sum) => scatter(instruction, to, x, index, size, |to, x| combine(Fold::Sum, to, x)),
                    Some(fold) => scatter(instruction, to, x, index, size, |to, x| combine(fold, to, x)),
                }
            }),
            ref op => unreachable!("the planner emits {op:?} only for floats"),
        }
    }
}

/// Returns the stride between the lanes of an operand, which is 0 if one element is broadcast to all lanes.
fn lane_stride(operand: &Operand) -> usize {
    usize::from(operand.across == Across::Lanes)
}

fn take<E: Copy, I: Element>(
    Instruction { rows, lanes, to: target, from, .. }: &Instruction,
    to: &mut [E],
    x: &[E],
    index: &[I],
    (count, step): (usize, usize),
) {
    let (of_x, of_index) = (lane_stride(&from[0]), lane_stride(&from[1]));
    if *lanes == 1 {
        for row in 0..*rows {
            to[row * target.row] = x[row * from[0].row + clamped(index[row * from[1].row].to_i64(), count) * step];
        }
        return;
    }
    for row in 0..*rows {
        let to = &mut to[row * target.row..][..*lanes];
        let (x, index) = (&x[row * from[0].row..], &index[row * from[1].row..]);
        if (of_x, of_index) == (1, 0) {
            to.copy_from_slice(&x[clamped(index[0].to_i64(), count) * step..][..*lanes]);
            continue;
        }
        if (of_x, of_index, step) == (0, 1, 1) {
            take_row(to, &x[..count], index);
            continue;
        }
        for (lane, to) in to.iter_mut().enumerate() {
            *to = x[lane * of_x + clamped(index[lane * of_index].to_i64(), count) * step];
        }
    }
}

/// Reads an element of `x` for each index. Copies the elements of a block if the indices in it are consecutive, as they
/// are for a shift by an amount that is known only at run time.
fn take_row<E: Copy, I: Element>(to: &mut [E], x: &[E], index: &[I]) {
    let gather = |to: &mut [E], index: &[I]| {
        for (to, index) in to.iter_mut().zip(index) {
            *to = x[clamped(index.to_i64(), x.len())];
        }
    };
    let (blocks, rest) = index[..to.len()].as_chunks();
    let (to_blocks, to_rest) = to.as_chunks_mut::<RUN>();
    for (to, block) in to_blocks.iter_mut().zip(blocks) {
        match I::run_start(block).and_then(|start| x.get(start..start + RUN)) {
            Some(run) => to.copy_from_slice(run),
            None => gather(to, block),
        }
    }
    gather(to_rest, rest);
}

fn put<E: Copy>(Instruction { rows, lanes, to: target, from, .. }: &Instruction, to: &mut [E], x: &[E]) {
    for row in 0..*rows {
        let (to, x) = (&mut to[row * target.row..][..*lanes], &x[row * from[0].row..]);
        match from[0].across {
            Across::Lanes => to.copy_from_slice(&x[..*lanes]),
            Across::Element => to.fill(x[0]),
        }
    }
}

#[inline(always)]
fn scatter<E: Copy, I: Element>(
    Instruction { rows, lanes, to: target, from, .. }: &Instruction,
    to: &mut [E],
    x: &[E],
    index: &[I],
    (count, step): (usize, usize),
    combine: impl Fn(E, E) -> E,
) {
    let place = |index: &I| usize::try_from(index.to_i64()).ok().filter(|index| *index < count).map(|at| at * step);
    let (of_x, of_index) = (lane_stride(&from[0]), lane_stride(&from[1]));
    if *lanes == 1 {
        for row in 0..*rows {
            if let Some(place) = place(&index[row * from[1].row]) {
                let to = &mut to[row * target.row + place];
                *to = combine(*to, x[row * from[0].row]);
            }
        }
        return;
    }
    for row in 0..*rows {
        let to = &mut to[row * target.row..];
        let (x, index) = (&x[row * from[0].row..], &index[row * from[1].row..]);
        if (of_x, of_index) == (1, 0) {
            let Some(place) = place(&index[0]) else { continue };
            to[place..][..*lanes].iter_mut().zip(x).for_each(|(to, x)| *to = combine(*to, *x));
            continue;
        }
        for lane in 0..*lanes {
            if let Some(place) = place(&index[lane * of_index]) {
                to[lane + place] = combine(to[lane + place], x[lane * of_x]);
            }
        }
    }
}

fn clamped(index: i64, count: usize) -> usize {
    index.clamp(0, count as i64 - 1) as usize
}

#[cfg(test)]
mod tests {
    use funcify_body::integer::{Element, RUN};

    use super::{clamped, take_row};

    /// Compares `take_row` with element-wise reads, for runs of consecutive indices that start inside and outside of
    /// the table, and for indices that break a run.
    fn check<I: Element>(of: impl Fn(i64) -> I) {
        let x: Vec<i32> = (0..50).map(|number| number * number).collect();
        for start in
            (-40..60).chain([i64::from(i32::MAX) - 8, i64::from(u32::MAX) - 8, i64::from(u8::MAX) - 8, 1 << 24])
        {
            for broken in [usize::MAX, 0, 7, RUN - 1, RUN + 3] {
                let index = |number: usize| of(start + number as i64 + i64::from(number == broken));
                let index: Vec<I> = (0..2 * RUN + 5).map(index).collect();
                let mut to = vec![-1; index.len()];
                take_row(&mut to, &x, &index);
                let expected: Vec<i32> = index.iter().map(|index| x[clamped(index.to_i64(), x.len())]).collect();
                assert_eq!(to, expected, "{start}, {broken}");
            }
        }
    }

    #[test]
    fn runs_of_consecutive_indices_are_copied_correctly() {
        check(|number| number);
        check(|number| number as i32);
        check(|number| number as u32);
        check(|number| number as u8);
        check(|number| number as f32);
        check(|number| number as f64);
    }

    /// A float that is not an integer selects the element at its integer part.
    #[test]
    fn fractions_are_no_runs() {
        check(|number| number as f32 + 0.75);
        check(|number| number as f64 - 0.25);
    }
}
