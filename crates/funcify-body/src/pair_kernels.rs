//! The kernels of pairs of ops ([`pairs`](crate::pairs)).

use std::marker::PhantomData;

use pulp::bytemuck::{cast_slice, cast_slice_mut};
use pulp::{NullaryFnOnce, Simd};

use crate::float::Float;
use crate::integer::{Element, Integer};
use crate::ir::{Compare, IntBinary, Op, Type};
use crate::kernels::map::{Function3, Map3, Target};
use crate::kernels::math::MathTable;
use crate::pairs::{ADD, AND, MUL, OR, SHIFT_LEFT, SHIFT_RIGHT, SUB, SUB_FROM, Second, XOR, float_pair, integer_pair};
use crate::typed::{chosen, float_source};

/// Evaluates `$run` with `$First` and `$Second` bound to the ops of a pair, as constants.
macro_rules! each_pair {
    ($pair:expr, $($first:ident)+, $seconds:tt; |$First:ident, $Second:ident| $run:expr) => {
        match $pair[0] {
            $($first => {
                const $First: usize = $first;
                each_pair!(@ $pair, $seconds; |$Second| $run)
            })+
            op => unreachable!("op {op} is not the first of a pair"),
        }
    };
    (@ $pair:expr, ($($second:ident)+); |$Second:ident| $run:expr) => {
        match $pair[1] {
            $($second => {
                const $Second: usize = $second;
                $run
            })+
            op => unreachable!("op {op} is not the second of a pair"),
        }
    };
}

/// A pair of float ops.
struct FloatPair<const FIRST: usize, const SECOND: usize>;

impl<T: Float, const FIRST: usize, const SECOND: usize> Function3<T> for FloatPair<FIRST, SECOND> {
    #[inline(always)]
    fn apply<S: Simd>(simd: S, x: T::Vector<S>, y: T::Vector<S>, z: T::Vector<S>) -> T::Vector<S> {
        let first = match FIRST {
            ADD => T::add(simd, x, y),
            SUB => T::sub(simd, x, y),
            _ => T::mul(simd, x, y),
        };
        match SECOND {
            ADD => T::add(simd, first, z),
            SUB => T::sub(simd, first, z),
            SUB_FROM => T::sub(simd, z, first),
            _ => T::mul(simd, first, z),
        }
    }
}

/// A loop over a pair of integer ops.
struct IntegerPair<'a, I, const FIRST: usize, const SECOND: usize>(&'a mut [I], [&'a [I]; 3]);
/// A loop over a pair of integer ops, of which the first shifts all elements by the same number of bits.
struct ShiftPair<'a, I, const FIRST: usize, const SECOND: usize>(&'a mut [I], [&'a [I]; 3]);

#[inline(always)]
fn integer<I: Integer, const OP: usize>(x: I, y: I) -> I {
    match OP {
        ADD => I::binary(IntBinary::Add, x, y),
        SUB => I::binary(IntBinary::Sub, x, y),
        MUL => I::binary(IntBinary::Mul, x, y),
        AND => I::binary(IntBinary::And, x, y),
        OR => I::binary(IntBinary::Or, x, y),
        XOR => I::binary(IntBinary::Xor, x, y),
        SHIFT_LEFT => I::binary(IntBinary::ShiftLeft, x, y),
        SHIFT_RIGHT => I::binary(IntBinary::ShiftRightLogical, x, y),
        _ => I::binary(IntBinary::Sub, y, x),
    }
}

impl<I: Integer, const FIRST: usize, const SECOND: usize> NullaryFnOnce for IntegerPair<'_, I, FIRST, SECOND> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let IntegerPair(to, [x, y, z]) = self;
        for (((to, x), y), z) in to.iter_mut().zip(x).zip(y).zip(z) {
            *to = integer::<I, SECOND>(integer::<I, FIRST>(*x, *y), *z);
        }
    }
}

impl<I: Integer, const FIRST: usize, const SECOND: usize> NullaryFnOnce for ShiftPair<'_, I, FIRST, SECOND> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let ShiftPair(to, [x, bits, z]) = self;
        let bits = bits[0];
        for ((to, x), z) in to.iter_mut().zip(x).zip(z) {
            *to = integer::<I, SECOND>(integer::<I, FIRST>(*x, bits), *z);
        }
    }
}

/// A loop that compares the elements of two slices, and selects between the elements of two others. If the second slice
/// has a single element, compares each element with it.
struct CompareAndChoose<'a, E, I, F>(&'a mut [I], [&'a [E]; 2], [&'a [I]; 2], F);

impl<E: Element, I: Integer, F: Fn(E, E) -> bool> NullaryFnOnce for CompareAndChoose<'_, E, I, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let CompareAndChoose(to, [x, y], [yes, no], holds) = self;
        if y.len() < x.len() {
            let y = y[0];
            for (((to, x), yes), no) in to.iter_mut().zip(x).zip(yes).zip(no) {
                *to = chosen(holds(*x, y), *yes, *no);
            }
        } else {
            for ((((to, x), y), yes), no) in to.iter_mut().zip(x).zip(y).zip(yes).zip(no) {
                *to = chosen(holds(*x, *y), *yes, *no);
            }
        }
    }
}

/// Runs a step of two ops. The types are those of the result, and of the last operand of `first`. `from` holds the
/// operands: all lanes of each, or a single element.
pub(crate) fn run_pair<T: MathTable + Element, S: Simd>(
    simd: S,
    first: Op,
    Second { op: second, at }: Second,
    [ty, of]: [Type; 2],
    to: &mut [u8],
    from: &[&[u8]; 4],
) {
    match (first, second) {
        (Op::Binary(first), Op::Binary(second)) => {
            let pair = float_pair(first, second, at).expect(MERGED);
            each_pair!(pair, ADD SUB MUL, (ADD SUB SUB_FROM MUL); |FIRST, SECOND| {
                let data: &mut [T] = cast_slice_mut(to);
                let lanes = data.len();
                let sources = [0, 1, 2].map(|operand| float_source(from[operand], lanes));
                let target = &mut Target { data, rows: 1, lanes, stride: lanes };
                simd.vectorize(Map3 { target, sources: &sources, function: PhantomData::<FloatPair<FIRST, SECOND>> });
            });
        }
        (Op::Int(first), Op::Int(second)) => {
            let pair = integer_pair(first, second, at).expect(MERGED);
            match ty {
                Type::I64 => integers::<i64, S>(simd, pair, to, from),
                Type::I32 | Type::U32 => integers::<u32, S>(simd, pair, to, from),
                Type::U8 | Type::Mask | Type::Float => integers::<u8, S>(simd, pair, to, from),
            }
        }
        (Op::Compare(op), _) => match of {
            Type::Float if size_of::<T>() == 8 => choose::<T, i64, S>(simd, op, to, from),
            Type::Float => choose::<T, i32, S>(simd, op, to, from),
            Type::I64 => choose::<i64, i64, S>(simd, op, to, from),
            Type::I32 => choose::<i32, i32, S>(simd, op, to, from),
            Type::U32 => choose::<u32, i32, S>(simd, op, to, from),
            Type::U8 | Type::Mask => choose::<u8, u8, S>(simd, op, to, from),
        },
        (first, second) => unreachable!("{first:?} and {second:?} are not merged"),
    }
}

/// The `expect` message for the ops of a merged step.
const MERGED: &str = "`can_merge` accepted the pair";

/// Runs a pair of ops on integers. Except for shifts to the right, whose type is unsigned, the ops compute the same bits
/// for signed and unsigned integers.
fn integers<I: Integer, S: Simd>(simd: S, pair: [usize; 2], to: &mut [u8], from: &[&[u8]; 4]) {
    let (to, from): (&mut [I], [&[I]; 3]) = (cast_slice_mut(to), [0, 1, 2].map(|operand| cast_slice(from[operand])));
    match pair[0] {
        ADD | SUB => each_pair!(pair, ADD SUB, (ADD SUB SUB_FROM); |FIRST, SECOND| {
            simd.vectorize(IntegerPair::<I, FIRST, SECOND>(to, from));
        }),
        MUL => simd.vectorize(IntegerPair::<I, MUL, ADD>(to, from)),
        AND | OR | XOR => each_pair!(pair, AND OR XOR, (AND OR XOR); |FIRST, SECOND| {
            simd.vectorize(IntegerPair::<I, FIRST, SECOND>(to, from));
        }),
        _ => each_pair!(pair, SHIFT_LEFT SHIFT_RIGHT, (OR XOR); |FIRST, SECOND| {
            simd.vectorize(ShiftPair::<I, FIRST, SECOND>(to, from));
        }),
    }
}

fn choose<E: Element, I: Integer, S: Simd>(simd: S, op: Compare, to: &mut [u8], from: &[&[u8]; 4]) {
    let to: &mut [I] = cast_slice_mut(to);
    let compared: [&[E]; 2] = [0, 1].map(|operand| cast_slice(from[operand]));
    let choices: [&[I]; 2] = [2, 3].map(|operand| cast_slice(from[operand]));
    match op {
        Compare::Equal => simd.vectorize(CompareAndChoose(to, compared, choices, |x, y| x == y)),
        Compare::NotEqual => simd.vectorize(CompareAndChoose(to, compared, choices, |x, y| x != y)),
        Compare::Less => simd.vectorize(CompareAndChoose(to, compared, choices, |x, y| x < y)),
        Compare::LessEqual => simd.vectorize(CompareAndChoose(to, compared, choices, |x, y| x <= y)),
    }
}
