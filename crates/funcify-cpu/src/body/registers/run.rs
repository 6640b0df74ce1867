//! Interprets register code.

use std::marker::PhantomData;

use pulp::{Simd, WithSimd};

use super::super::Address;
use super::{REGISTERS, RegisterCode, Verb};
use crate::kernels::math::MathTable;
use crate::kernels::table::Elementwise;
use crate::kernels::{Binary, Fold, Unary, binary};
use crate::views::View;
use funcify_body::float::Float;

/// Runs register code until a condition ends the loop or `more` returns 0. `more` returns the number of iterations to
/// run next. `addresses` holds the address of each of the [`RegisterCode::pieces`], in order.
pub(in super::super) fn run<T: MathTable, S: Simd>(
    simd: S,
    code: &RegisterCode<T>,
    views: &mut [View<'_, T>],
    addresses: &mut [Address],
    more: impl FnMut() -> usize,
) {
    macro_rules! run_with {
        ($Register:ty, $count:expr) => {
            simd.vectorize(Loop::<_, _, _, $Register, { REGISTERS / $count }> {
                simd,
                code,
                views,
                addresses,
                more,
                register: PhantomData,
            })
        };
    }
    match code.vectors {
        _ if code.is_single() => run_with!(Single<T>, 1),
        2 => run_with!(Vectors<T, S, 2>, 2),
        4 => run_with!(Vectors<T, S, 4>, 4),
        8 => run_with!(Vectors<T, S, 8>, 8),
        1 => run_with!(Vectors<T, S, 1>, 1),
        count => unreachable!("`sizes` offers no registers of {count} vectors"),
    }
}

/// The contents of a register, and the operations on them.
pub(in super::super) trait Register<T: MathTable, S: Simd>: Copy {
    /// `true` if a register holds a single element. Only such registers support chained ops.
    const IS_SINGLE: bool;
    /// Broadcasts `number` to all lanes of a register.
    fn splat(simd: S, number: T) -> Self;
    /// Loads a piece into a register.
    fn load(simd: S, data: &[T]) -> Self;
    /// Stores a register to a piece.
    fn store(self, simd: S, data: &mut [T]);
    fn neg(self, simd: S) -> Self;
    fn add(self, simd: S, other: Self) -> Self;
    fn sub(self, simd: S, other: Self) -> Self;
    fn mul(self, simd: S, other: Self) -> Self;
    fn div(self, simd: S, other: Self) -> Self;
    /// Returns 1 where `self` is less than `other`, and 0 elsewhere.
    fn less(self, simd: S, other: Self) -> Self;
    /// Returns 1 where `self` is less than or equal to `other`, and 0 elsewhere.
    fn less_equal(self, simd: S, other: Self) -> Self;
    /// Computes `self * other + sum`, with a single rounding where the processor supports it.
    fn mul_add(self, simd: S, other: Self, sum: Self) -> Self;
    /// Returns `true` if the first lane is not 0.
    fn holds(self, simd: S) -> bool;
    /// Selects `yes` where `self` is not 0, and `no` elsewhere.
    fn select(self, simd: S, yes: Self, no: Self) -> Self;
    /// Folds the first `lanes` lanes, and broadcasts the result to all lanes.
    fn fold(self, simd: S, fold: Fold, lanes: usize) -> Self;
    fn unary(self, simd: S, op: Unary) -> Self;
    fn binary(self, simd: S, op: Binary, other: Self) -> Self;
}

/// A register that holds `COUNT` vectors, whose lanes are adjacent. One op on such a register takes less time than
/// `COUNT` ops on registers of one vector.
#[derive(Clone, Copy)]
pub(in super::super) struct Vectors<T: Float, S: Simd, const COUNT: usize>([T::Vector<S>; COUNT]);

/// Implements methods of [`Vectors`] by calling the methods of [`Float`] with the same names for each vector.
macro_rules! of_vectors {
    ($($name:ident($($operand:ident),*);)*) => {$(
        #[inline(always)]
        fn $name(self, simd: S, $($operand: Self),*) -> Self {
            let mut to = self.0;
            for index in 0..COUNT {
                to[index] = T::$name(simd, to[index], $($operand.0[index]),*);
            }
            Vectors(to)
        }
    )*};
}

/// Implements binary methods of [`Single`] by forwarding to functions on elements.
macro_rules! of_elements {
    ($($name:ident = $of_elements:ident;)*) => {$(
        #[inline(always)]
        fn $name(self, _: S, other: Self) -> Self {
            Single(self.0.$of_elements(other.0))
        }
    )*};
}

impl<T: MathTable, S: Simd, const COUNT: usize> Register<T, S> for Vectors<T, S, COUNT> {
    const IS_SINGLE: bool = false;

    #[inline(always)]
    fn splat(simd: S, number: T) -> Self {
        Vectors([T::splat(simd, number); COUNT])
    }
    #[inline(always)]
    fn load(simd: S, data: &[T]) -> Self {
        if let [one] = data {
            return Self::splat(simd, *one);
        }
        let (vectors, part) = T::as_vectors::<S>(data);
        if let (Ok(vectors), []) = (<&[T::Vector<S>; COUNT]>::try_from(vectors), part) {
            return Vectors(*vectors);
        }
        let mut to = [T::splat(simd, T::ZERO); COUNT];
        to[..vectors.len()].copy_from_slice(vectors);
        if !part.is_empty() {
            to[vectors.len()] = T::load_part(simd, part);
        }
        Vectors(to)
    }
    #[inline(always)]
    fn store(self, simd: S, data: &mut [T]) {
        let (vectors, part) = T::as_vectors_mut::<S>(data);
        vectors.copy_from_slice(&self.0[..vectors.len()]);
        if !part.is_empty() {
            T::store_part(simd, part, self.0[vectors.len()]);
        }
    }
    of_vectors! { neg(); add(other); sub(other); mul(other); div(other); mul_add(other, sum); }

    #[inline(always)]
    fn less(self, simd: S, other: Self) -> Self {
        let mut to = self.0;
        for (to, other) in to.iter_mut().zip(&other.0) {
            *to = binary::mask::<T, S>(simd, T::less(simd, *to, *other));
        }
        Vectors(to)
    }
    #[inline(always)]
    fn less_equal(self, simd: S, other: Self) -> Self {
        let mut to = self.0;
        for (to, other) in to.iter_mut().zip(&other.0) {
            *to = binary::mask::<T, S>(simd, T::less_equal(simd, *to, *other));
        }
        Vectors(to)
    }
    #[inline(always)]
    fn holds(self, _: S) -> bool {
        T::elements::<S>(&mut [self.0[0]])[0] != T::ZERO
    }
    #[inline(always)]
    fn select(self, simd: S, yes: Self, no: Self) -> Self {
        let mut to = self.0;
        for ((to, yes), no) in to.iter_mut().zip(&yes.0).zip(&no.0) {
            *to = T::select(simd, T::equal(simd, *to, T::splat(simd, T::ZERO)), *no, *yes);
        }
        Vectors(to)
    }
    /// Folds the lanes of each vector in order, and then the results in order.
    #[inline(always)]
    fn fold(self, simd: S, fold: Fold, lanes: usize) -> Self {
        let (mut left, mut folded) = (lanes, None);
        for vector in self.0 {
            let mut elements = [vector];
            let elements = T::elements::<S>(&mut elements);
            let elements = &elements[..left.min(elements.len())];
            let Some((first, others)) = elements.split_first() else { break };
            let own = others.iter().fold(*first, |sum, x| fold.combine_elements(sum, *x));
            folded = Some(folded.map_or(own, |sum| fold.combine_elements(sum, own)));
            left -= elements.len();
        }
        Self::splat(simd, folded.unwrap_or(T::ZERO))
    }
    #[inline(always)]
    fn unary(self, simd: S, op: Unary) -> Self {
        let mut to = self.0;
        for to in &mut to {
            *to = op.of_vectors::<T, S>(simd, [*to]);
        }
        Vectors(to)
    }
    #[inline(always)]
    fn binary(self, simd: S, op: Binary, other: Self) -> Self {
        let mut to = self.0;
        for (to, other) in to.iter_mut().zip(&other.0) {
            *to = op.of_vectors::<T, S>(simd, [*to, *other]);
        }
        Vectors(to)
    }
}

/// A register that holds a single element. Used for code in which every piece has exactly one element.
#[derive(Clone, Copy)]
struct Single<T>(T);

impl<T: MathTable, S: Simd> Register<T, S> for Single<T> {
    const IS_SINGLE: bool = true;

    #[inline(always)]
    fn splat(_: S, number: T) -> Self {
        Single(number)
    }
    #[inline(always)]
    fn load(_: S, data: &[T]) -> Self {
        Single(data[0])
    }
    #[inline(always)]
    fn store(self, _: S, data: &mut [T]) {
        data.iter_mut().for_each(|to| *to = self.0);
    }
    #[inline(always)]
    fn neg(self, _: S) -> Self {
        Single(self.0.negated())
    }
    of_elements! { add = plus; sub = minus; mul = times; div = over; }

    #[inline(always)]
    fn less(self, _: S, other: Self) -> Self {
        Single(if self.0 < other.0 { T::ONE } else { T::ZERO })
    }
    #[inline(always)]
    fn less_equal(self, _: S, other: Self) -> Self {
        Single(if self.0 <= other.0 { T::ONE } else { T::ZERO })
    }
    #[inline(always)]
    fn mul_add(self, _: S, other: Self, sum: Self) -> Self {
        Single(T::mul_add_element::<S>(self.0, other.0, sum.0))
    }
    #[inline(always)]
    fn holds(self, _: S) -> bool {
        self.0 != T::ZERO
    }
    #[inline(always)]
    fn select(self, _: S, yes: Self, no: Self) -> Self {
        if self.0 == T::ZERO { no } else { yes }
    }
    #[inline(always)]
    fn fold(self, _: S, _: Fold, _: usize) -> Self {
        self
    }
    #[inline(always)]
    fn unary(self, simd: S, op: Unary) -> Self {
        Single(op.of_elements(simd, [self.0]))
    }
    #[inline(always)]
    fn binary(self, simd: S, op: Binary, other: Self) -> Self {
        Single(op.of_elements(simd, [self.0, other.0]))
    }
}

/// The register file, aligned to a cache line.
#[repr(align(64))]
struct File<R, const COUNT: usize>([R; COUNT]);

/// Register code to interpret with `COUNT` registers, in a function that is compiled for the instruction set `S`.
struct Loop<'c, 'a, T, S, M, R, const COUNT: usize> {
    simd: S,
    code: &'c RegisterCode<T>,
    views: &'c mut [View<'a, T>],
    addresses: &'c mut [Address],
    more: M,
    register: PhantomData<R>,
}

impl<T: MathTable, S: Simd, M: FnMut() -> usize, R: Register<T, S>, const COUNT: usize> WithSimd
    for Loop<'_, '_, T, S, M, R, COUNT>
{
    type Output = ();

    #[inline(always)]
    fn with_simd<A: Simd>(self, _: A) {
        let Loop { simd, code, views, addresses, mut more, .. } = self;
        let mut registers = File([R::splat(simd, T::ZERO); COUNT]);
        let (outside, streams) = addresses.split_at_mut(code.loads.len() + code.stores.len());
        let (loads, stores) = outside.split_at(code.loads.len());
        for ((register, _), address) in code.loads.iter().zip(loads) {
            registers.0[usize::from(*register)] = R::load(simd, views[address.region].read(address.range));
        }
        for (register, number) in &code.numbers {
            registers.0[usize::from(*register)] = R::splat(simd, *number);
        }
        'iterations: loop {
            let times = more();
            if times == 0 {
                break;
            }
            for _ in 0..times {
                if !iteration(simd, code, views, streams, &mut registers.0) {
                    break 'iterations;
                }
                for stream in &mut *streams {
                    stream.range.at = stream.range.at.wrapping_add_signed(stream.step);
                }
            }
        }
        for ((register, _), address) in code.stores.iter().zip(stores) {
            registers.0[usize::from(*register)].store(simd, views[address.region].write(address.range));
        }
    }
}

/// Runs an iteration, and returns `true` if the loop continues.
#[inline(always)]
fn iteration<T: MathTable, S: Simd, R: Register<T, S>, const COUNT: usize>(
    simd: S,
    code: &RegisterCode<T>,
    views: &mut [View<'_, T>],
    streams: &[Address],
    registers: &mut [R; COUNT],
) -> bool {
    let mut last = R::splat(simd, T::ZERO);
    for op in &code.ops {
        // Closures defer the loads, so that an op loads only the operands that its verb uses.
        // The remainder changes no index, and shows the compiler that it is in bounds.
        let operand = |index: usize| registers[usize::from(op.from[index]) % COUNT];
        let (a, b, c) = (|| operand(0), || operand(1), || operand(2));
        let value = match op.verb {
            Verb::Load => {
                let address = &streams[usize::from(op.from[0])];
                R::load(simd, views[address.region].read(address.range))
            }
            Verb::Store => {
                let address = &streams[usize::from(op.to)];
                a().store(simd, views[address.region].write(address.range));
                continue;
            }
            Verb::StoreLast => {
                let address = &streams[usize::from(op.to)];
                last.store(simd, views[address.region].write(address.range));
                continue;
            }
            Verb::EndUnless if a().holds(simd) => continue,
            Verb::EndUnless => return false,
            Verb::Copy => a(),
            Verb::Product => unreachable!("only machine code has products"),
            Verb::Neg => a().neg(simd),
            Verb::Square => a().mul(simd, a()),
            Verb::Add => a().add(simd, b()),
            Verb::Sub => a().sub(simd, b()),
            Verb::Mul => a().mul(simd, b()),
            Verb::Div => a().div(simd, b()),
            Verb::Less => a().less(simd, b()),
            Verb::LessEqual => a().less_equal(simd, b()),
            Verb::MulAdd => a().mul_add(simd, b(), c()),
            Verb::MulSub => a().mul_add(simd, b(), c().neg(simd)),
            Verb::NegMulAdd => a().neg(simd).mul_add(simd, b(), c()),
            Verb::Select => a().select(simd, b(), c()),
            Verb::FoldLanes(fold) => a().fold(simd, fold, usize::from(op.from[1])),
            Verb::Unary(op) => a().unary(simd, op),
            Verb::Binary(op) => a().binary(simd, op, b()),
            Verb::AddLast => last.add(simd, a()),
            Verb::SubFromLast => last.sub(simd, a()),
            Verb::SubLast => a().sub(simd, last),
            Verb::MulLast => last.mul(simd, a()),
            Verb::DivOfLast => last.div(simd, a()),
            Verb::DivByLast => a().div(simd, last),
            Verb::MulAddLast => a().mul_add(simd, b(), last),
            Verb::MulLastAdd => last.mul_add(simd, a(), b()),
            Verb::MulLastSub => last.mul_add(simd, a(), b().neg(simd)),
            Verb::MulSubLast => a().mul_add(simd, b(), last.neg(simd)),
            Verb::NegMulAddLast => a().neg(simd).mul_add(simd, b(), last),
            Verb::NegMulLastAdd => last.neg(simd).mul_add(simd, a(), b()),
            Verb::SquareLast => last.mul(simd, last),
            Verb::NegLast => last.neg(simd),
            Verb::UnaryLast(op) => last.unary(simd, op),
        };
        if R::IS_SINGLE {
            last = value;
        }
        registers[usize::from(op.to) % COUNT] = value;
    }
    true
}
