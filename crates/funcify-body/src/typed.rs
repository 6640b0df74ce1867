//! Runs ops on tiles of any element type.

use pulp::bytemuck::{Pod, cast_slice, cast_slice_mut};
use pulp::{NullaryFnOnce, Simd};

use crate::integer::{self, Element, Integer};
use crate::ir::{Compare, IntBinary, IntUnary, Op, Type};
use crate::kernels::map::Target;
use crate::kernels::math::MathTable;
use crate::kernels::source::Source;
use crate::kernels::table::Elementwise;

/// A loop that applies a function to each element of one slice.
struct Each1<'a, A, B, F>(&'a mut [B], &'a [A], F);
/// A loop that applies a function to each pair of elements of two slices. If a slice has a single element, pairs it with
/// each element of the other.
struct Each2<'a, A, B, F>(&'a mut [B], [&'a [A]; 2], F);
/// A loop that selects between the elements of two slices by a mask. If a slice has a single element, selects this
/// element in all lanes.
struct Choose<'a, A>(&'a mut [A], &'a [u8], [&'a [A]; 2]);
/// A loop that converts the elements of a slice of floats to integers.
struct Truncate<'a, E, I>(&'a mut [I], &'a [E]);
/// A loop that computes quotients of the elements of two slices, or remainders if the flag is set.
struct Divide<'a, I>(&'a mut [I], [&'a [I]; 2], bool);
/// A loop that raises the elements of one slice to the powers in another.
struct Powers<'a, I>(&'a mut [I], [&'a [I]; 2]);

impl<A: Copy, B, F: Fn(A) -> B> NullaryFnOnce for Each1<'_, A, B, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Each1(to, x, function) = self;
        for (to, x) in to.iter_mut().zip(x) {
            *to = function(*x);
        }
    }
}

impl<A: Copy, B, F: Fn(A, A) -> B> NullaryFnOnce for Each2<'_, A, B, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Each2(to, [x, y], function) = self;
        match (x, y) {
            ([x], y) => {
                for (to, y) in to.iter_mut().zip(y) {
                    *to = function(*x, *y);
                }
            }
            (x, [y]) => {
                for (to, x) in to.iter_mut().zip(x) {
                    *to = function(*x, *y);
                }
            }
            (x, y) => {
                for ((to, x), y) in to.iter_mut().zip(x).zip(y) {
                    *to = function(*x, *y);
                }
            }
        }
    }
}

impl<I: Integer> NullaryFnOnce for Choose<'_, I> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Choose(to, holds, [yes, no]) = self;
        let lanes = to.iter_mut().zip(holds);
        match (yes, no) {
            ([yes], [no]) => {
                for (to, holds) in lanes {
                    *to = chosen(*holds != 0, *yes, *no);
                }
            }
            ([yes], no) => {
                for ((to, holds), no) in lanes.zip(no) {
                    *to = chosen(*holds != 0, *yes, *no);
                }
            }
            (yes, [no]) => {
                for ((to, holds), yes) in lanes.zip(yes) {
                    *to = chosen(*holds != 0, *yes, *no);
                }
            }
            (yes, no) => {
                for (((to, holds), yes), no) in lanes.zip(yes).zip(no) {
                    *to = chosen(*holds != 0, *yes, *no);
                }
            }
        }
    }
}

/// Returns `yes` if `holds` is true, and `no` otherwise. An `if` would load only one of the two elements, so a loop over
/// it would not compile to vector code.
#[inline(always)]
pub(crate) fn chosen<I: Integer>(holds: bool, yes: I, no: I) -> I {
    let mask = I::of(-i64::from(holds));
    let no_mask = I::unary(IntUnary::Not, mask);
    I::binary(IntBinary::Or, I::binary(IntBinary::And, yes, mask), I::binary(IntBinary::And, no, no_mask))
}

impl<E: Element, I: Integer> NullaryFnOnce for Truncate<'_, E, I> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        /// The number of elements per chunk. A single large float makes its whole chunk use the slower conversion.
        const CHUNK: usize = 256;
        let Truncate(to, x) = self;
        for (to, x) in to.chunks_mut(CHUNK).zip(x.chunks(CHUNK)) {
            match E::are_small(x) {
                true => Each1(to, x, |x: E| I::saturate(x.truncate_small())).call(),
                false => Each1(to, x, |x: E| I::truncate(x.to_float())).call(),
            }
        }
    }
}

impl<I: Integer> NullaryFnOnce for Divide<'_, I> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        /// The number of elements per chunk. A single large operand makes its whole chunk use the slower division.
        const CHUNK: usize = 128;
        let Divide(to, [x, y], is_remainder) = self;
        let divide = |x: I, y: I| match is_remainder {
            true => I::binary(IntBinary::Rem, x, y),
            false => I::binary(IntBinary::Div, x, y),
        };
        for ((to, x), y) in to.chunks_mut(CHUNK).zip(x.chunks(CHUNK)).zip(y.chunks(CHUNK)) {
            match (I::are_divisible(x, y), is_remainder) {
                (true, false) => Each2(to, [x, y], I::quotient).call(),
                (true, true) => Each2(to, [x, y], I::remainder).call(),
                (false, _) => Each2(to, [x, y], divide).call(),
            }
        }
    }
}

impl<I: Integer> NullaryFnOnce for Powers<'_, I> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Powers(to, [base, exponent]) = self;
        integer::powers(to, base, exponent);
    }
}

/// Runs an op on tiles. `ty` is the type of the result, and `of` is the type of the last operand. `from` holds all lanes
/// of each operand, or a single element. At least one operand has all lanes.
pub(crate) fn run<T: MathTable + Element, S: Simd>(
    simd: S,
    op: Op,
    [ty, of]: [Type; 2],
    to: &mut [u8],
    from: &[&[u8]; 4],
) {
    match op {
        Op::Unary(op) => float_op::<1, T, S>(simd, op, to, from),
        Op::Binary(op) => float_op::<2, T, S>(simd, op, to, from),
        Op::Ternary(op) => float_op::<3, T, S>(simd, op, to, from),
        Op::OneInt(op) => match ty {
            Type::Float => unreachable!("an integer op has no float result"),
            Type::I64 => one_integer::<i64, S>(simd, op, to, from[0]),
            Type::I32 => one_integer::<i32, S>(simd, op, to, from[0]),
            Type::U32 => one_integer::<u32, S>(simd, op, to, from[0]),
            Type::U8 => one_integer::<u8, S>(simd, op, to, from[0]),
            Type::Mask => simd.vectorize(Each1(to, from[0], |x: u8| x ^ 1)),
        },
        Op::Int(op) => match ty {
            Type::Float => unreachable!("an integer op has no float result"),
            Type::I64 => two_integers::<i64, S>(simd, op, to, from),
            Type::I32 => two_integers::<i32, S>(simd, op, to, from),
            Type::U32 => two_integers::<u32, S>(simd, op, to, from),
            Type::U8 | Type::Mask => two_integers::<u8, S>(simd, op, to, from),
        },
        Op::Compare(op) => match of {
            Type::Float => compare::<T, S>(simd, op, to, from),
            Type::I64 => compare::<i64, S>(simd, op, to, from),
            Type::I32 => compare::<i32, S>(simd, op, to, from),
            Type::U32 => compare::<u32, S>(simd, op, to, from),
            Type::U8 | Type::Mask => compare::<u8, S>(simd, op, to, from),
        },
        Op::Select => match ty.size(size_of::<T>()) {
            8 => simd.vectorize(Choose::<i64>(cast_slice_mut(to), from[0], [from[1], from[2]].map(cast_slice))),
            4 => simd.vectorize(Choose::<i32>(cast_slice_mut(to), from[0], [from[1], from[2]].map(cast_slice))),
            _ => simd.vectorize(Choose::<u8>(to, from[0], [from[1], from[2]])),
        },
        Op::Cast | Op::Hold => match of {
            Type::Float => cast::<T, T, S>(simd, ty, to, from[0]),
            Type::I64 => cast::<i64, T, S>(simd, ty, to, from[0]),
            Type::I32 => cast::<i32, T, S>(simd, ty, to, from[0]),
            Type::U32 => cast::<u32, T, S>(simd, ty, to, from[0]),
            Type::U8 | Type::Mask => cast::<u8, T, S>(simd, ty, to, from[0]),
        },
        Op::Number(_) | Op::Integer(_) | Op::Load(_) => unreachable!("constants and loads are not steps"),
    }
}

/// Fills a tile with a constant.
pub(crate) fn fill<T: MathTable>(op: Op, ty: Type, to: &mut [u8]) {
    match (op, ty) {
        (Op::Number(number), _) => cast_slice_mut::<u8, T>(to).fill(T::from_f64(number)),
        (Op::Integer(number), Type::I64) => cast_slice_mut::<u8, i64>(to).fill(number),
        (Op::Integer(number), Type::I32) => cast_slice_mut::<u8, i32>(to).fill(number as i32),
        (Op::Integer(number), Type::U32) => cast_slice_mut::<u8, u32>(to).fill(number as u32),
        (Op::Integer(number), _) => to.fill(number as u8),
        (op, _) => unreachable!("{op:?} is not a constant"),
    }
}

fn float_op<const N: usize, T: MathTable, S: Simd>(simd: S, op: impl Elementwise<N>, to: &mut [u8], from: &[&[u8]; 4]) {
    let data: &mut [T] = cast_slice_mut(to);
    let lanes = data.len();
    let mut target = Target { data, rows: 1, lanes, stride: lanes };
    let source = |index: usize| float_source(if index < N { from[index] } else { from[0] }, lanes);
    op.run(simd, &mut target, &[source(0), source(1), source(2)]);
}

/// Returns an operand of a kernel on floats: all lanes, or a single element.
pub(crate) fn float_source<T: Pod>(bytes: &[u8], lanes: usize) -> Source<'_, T> {
    let data: &[T] = cast_slice(bytes);
    match data.len() {
        1 if lanes > 1 => Source::Element { data, stride: 0 },
        _ => Source::Lanes { data, stride: lanes },
    }
}

/// Copies the first element of a tile to all lanes.
pub(crate) fn spread(to: &mut [u8], size: usize) {
    fn fill<E: Pod>(to: &mut [u8]) {
        let to: &mut [E] = cast_slice_mut(to);
        to.fill(to[0]);
    }
    match size {
        8 => fill::<u64>(to),
        4 => fill::<u32>(to),
        _ => fill::<u8>(to),
    }
}

macro_rules! each_op {
    ($op:expr, $Ops:ident: $($name:ident)*; |$chosen:ident| $run:expr) => {
        match $op {
            $($Ops::$name => {
                const $chosen: $Ops = $Ops::$name;
                $run
            })*
        }
    };
}

fn one_integer<I: Integer, S: Simd>(simd: S, op: IntUnary, to: &mut [u8], x: &[u8]) {
    let (to, x): (&mut [I], &[I]) = (cast_slice_mut(to), cast_slice(x));
    each_op!(op, IntUnary: Neg Abs Sign Square Not Popcount LeadingZeros; |OP| {
        simd.vectorize(Each1(to, x, |x| I::unary(OP, x)))
    });
}

fn two_integers<I: Integer, S: Simd>(simd: S, op: IntBinary, to: &mut [u8], [x, y, ..]: &[&[u8]; 4]) {
    let (to, from): (&mut [I], [&[I]; 2]) = (cast_slice_mut(to), [x, y].map(|x| cast_slice(x)));
    match op {
        // `Divide` uses `trunc`, for which the scalar instruction set has no instruction.
        IntBinary::Div | IntBinary::Rem if !S::IS_SCALAR => {
            return simd.vectorize(Divide(to, from, op == IntBinary::Rem));
        }
        // Only AVX-512 has an instruction that multiplies vectors of 64-bit integers.
        IntBinary::Pow if !S::IS_SCALAR && (size_of::<I>() < 8 || size_of::<S::u64s>() == 64) => {
            return simd.vectorize(Powers(to, from));
        }
        _ => {}
    }
    each_op!(
        op,
        IntBinary: Add Sub Mul Div Rem Max Min Pow And Or Xor ShiftLeft ShiftRightArithmetic ShiftRightLogical;
        |OP| simd.vectorize(Each2(to, from, |x, y| I::binary(OP, x, y)))
    );
}

fn compare<E: Element, S: Simd>(simd: S, op: Compare, to: &mut [u8], [x, y, ..]: &[&[u8]; 4]) {
    let from: [&[E]; 2] = [x, y].map(|x| cast_slice(x));
    match op {
        Compare::Equal => simd.vectorize(Each2(to, from, |x, y| u8::from(x == y))),
        Compare::NotEqual => simd.vectorize(Each2(to, from, |x, y| u8::from(x != y))),
        Compare::Less => simd.vectorize(Each2(to, from, |x, y| u8::from(x < y))),
        Compare::LessEqual => simd.vectorize(Each2(to, from, |x, y| u8::from(x <= y))),
    }
}

fn cast<E: Element, T: MathTable, S: Simd>(simd: S, ty: Type, to: &mut [u8], x: &[u8]) {
    let x: &[E] = cast_slice(x);
    // On processors other than x86-64, `as` compiles to instructions that saturate, so `Truncate` is not needed.
    // `Truncate` itself uses `trunc`, for which the scalar instruction set has no instruction.
    if E::IS_FLOAT && !S::IS_SCALAR && cfg!(target_arch = "x86_64") {
        match ty {
            Type::I64 => return simd.vectorize(Truncate::<E, i64>(cast_slice_mut(to), x)),
            Type::I32 => return simd.vectorize(Truncate::<E, i32>(cast_slice_mut(to), x)),
            Type::U32 => return simd.vectorize(Truncate::<E, u32>(cast_slice_mut(to), x)),
            Type::U8 => return simd.vectorize(Truncate::<E, u8>(to, x)),
            Type::Float | Type::Mask => {}
        }
    }
    match ty {
        Type::Float => simd.vectorize(Each1(cast_slice_mut(to), x, |x: E| x.to_float::<T>())),
        Type::I64 => simd.vectorize(Each1(cast_slice_mut(to), x, E::to_i64)),
        Type::I32 => simd.vectorize(Each1(cast_slice_mut(to), x, E::to_i32)),
        Type::U32 => simd.vectorize(Each1(cast_slice_mut(to), x, E::to_u32)),
        Type::U8 => simd.vectorize(Each1(to, x, E::to_u8)),
        Type::Mask => simd.vectorize(Each1(to, x, |x: E| u8::from(x.is_nonzero()))),
    }
}
