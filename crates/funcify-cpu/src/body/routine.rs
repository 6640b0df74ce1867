//! Translates register code to machine code.

use std::cell::RefCell;
use std::sync::Arc;

use funcify_jit::{
    Bits, Buffer, Builder, Comparison, Functions, Mask, Matrix, Number, Register, RegisterRow, Span, Stream, Value,
};
use pulp::{Simd, WithSimd};
use smallvec::SmallVec;

use super::planned::PlannedLoop;
use super::registers::{
    Factor, Piece, Product, REGISTERS, Register as _, RegisterCode, RegisterOp, Slicer, Vectors, Verb, lower,
};
use super::{Address, Translatable};
use crate::kernels::arithmetic::Arithmetic;
use crate::kernels::math::{self, MathTable};
use crate::kernels::table::Elementwise;
use crate::kernels::{Binary, Fold, Unary};
use crate::plan::Region;
use crate::views::{Range, View};
use funcify_body::float::Constants;
use funcify_body::machine::{Machine, Translation, Work};

/// The estimated time of a register op that does not call a math function, in nanoseconds.
const NS_PER_REGISTER_OP: f64 = 0.4;
/// The estimated time of a register op that calls a math function, in nanoseconds.
const NS_PER_FUNCTION: f64 = 3.0;
/// The estimated overhead of a call to machine code, in nanoseconds.
const NS_PER_CALL: f64 = 300.0;
/// The minimum time that machine code must save per run of the plan, in nanoseconds. Loops that would save less are not
/// translated, because translation takes about a millisecond.
const MIN_GAIN_NS: f64 = 20_000.0;
/// The expected number of iterations of a loop without a bound.
const EXPECTED_ITERATIONS: usize = 1000;

/// A loop's body as machine code.
#[derive(Debug)]
pub(super) struct Routine<T> {
    code: funcify_jit::Routine<T>,
    /// The first piece of each stream.
    streams: Vec<Piece>,
}

/// Translates a loop to machine code. Returns `None` if machine code does not support the loop or would not save enough
/// time. `otherwise` is the estimated time of an iteration without machine code, in nanoseconds.
pub(super) fn translate_if_worthwhile<T: Translatable>(
    regions: &[Region],
    planned: &PlannedLoop<'_>,
    otherwise: f64,
    machine: Machine,
) -> Option<Arc<Routine<T>>> {
    let is_asked = match machine.translation() {
        Translation::Never => return None,
        Translation::Worthwhile => false,
        Translation::Always => true,
    };
    let times_of =
        |times: &usize| if *times == crate::plan::UNBOUNDED_ITERATIONS { EXPECTED_ITERATIONS } else { *times } as f64;
    let (own, outer) = planned.times.split_last()?;
    let (own, calls): (f64, f64) = (times_of(own), outer.iter().map(times_of).product());
    if !is_asked && own * calls * otherwise < MIN_GAIN_NS {
        return None;
    }
    let slicer = Slicer { regions, vectors: 1, width: 16 / size_of::<T>(), panel: Some(2 * machine.lanes::<T>()) };
    let code = lower::<T>(slicer, planned)?;
    let gain = calls * (own * (otherwise - code.cost(0.0, NS_PER_REGISTER_OP, NS_PER_FUNCTION)) - NS_PER_CALL);
    if !is_asked && gain < MIN_GAIN_NS {
        return None;
    }
    Routine::of(&code, slicer).map(Arc::new)
}

impl<T: Translatable> Routine<T> {
    /// Translates register code for vectors of 16 bytes, or for single elements. Returns `None` if code generation
    /// fails.
    fn of(code: &RegisterCode<T>, slicer: Slicer<'_>) -> Option<Self> {
        let lanes = if code.is_single() { 1 } else { T::LANES };
        let functions = Functions {
            unary: call_unary::<T>,
            binary: call_binary::<T>,
            unary_vector: call_unary_vector::<T>,
            binary_vector: call_binary_vector::<T>,
        };
        let streams = Streams::of(code, slicer.regions);
        let routine = funcify_jit::Routine::new(lanes, functions, |builder| {
            CodeEmitter::new(builder, code, &streams)
                .emit_code(code, slicer.panel.expect("the slicer for machine code has a panel width"));
        });
        Some(Routine { code: routine.ok()?, streams: streams.bases })
    }
}

impl<T> Routine<T> {
    /// Returns the first piece of each stream.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.streams.iter()
    }

    /// Runs the code until a condition ends the loop or `more` returns 0. `more` returns the number of iterations to
    /// run next. `addresses` holds the address of each of the [`pieces`](Routine::pieces), in order.
    pub(super) fn run(&self, views: &mut [View<'_, T>], addresses: &mut [Address], mut more: impl FnMut() -> usize) {
        let mut buffers: SmallVec<[Buffer<'_, T>; 32]> = views.iter_mut().map(buffer).collect();
        let span = |address: &Address| {
            let Address { region: buffer, range: Range { at, offset, .. }, step } = *address;
            match buffers[buffer] {
                Buffer::Columns(_) => Span { buffer, unit: at, at: offset, step },
                Buffer::Read(_) | Buffer::Write(_) => Span { buffer, unit: 0, at, step },
            }
        };
        let mut spans: SmallVec<[Span; 32]> = addresses.iter().map(span).collect();
        loop {
            let times = more();
            if times == 0 {
                return;
            }
            // No access is out of bounds, because the plan was checked.
            match self.code.run(&mut buffers, &spans, times) {
                Ok(ran) if ran == times => {}
                Ok(_) => return,
                Err(error) => unreachable!("the plan was checked: {error}"),
            }
            for span in &mut spans {
                let moved = span.step.wrapping_mul(times as isize);
                match buffers[span.buffer] {
                    Buffer::Columns(_) => span.unit = span.unit.wrapping_add_signed(moved),
                    Buffer::Read(_) | Buffer::Write(_) => span.at = span.at.wrapping_add_signed(moved),
                }
            }
        }
    }
}

/// Converts the view of a region to a buffer for machine code.
fn buffer<'b, T>(view: &'b mut View<'_, T>) -> Buffer<'b, T> {
    match view {
        View::None => Buffer::Read(&[]),
        View::Read(data) => Buffer::Read(data),
        View::Own(data) => Buffer::Write(data),
        View::Columns(array) => Buffer::Columns(array.view_mut()),
    }
}

/// The streams of register code. Pieces of the same unit share a stream if they advance with the same strides.
struct Streams<'r> {
    regions: &'r [Region],
    /// The first piece of each stream.
    bases: Vec<Piece>,
}

impl<'r> Streams<'r> {
    fn of<T>(code: &RegisterCode<T>, regions: &'r [Region]) -> Self {
        let mut streams = Streams { regions, bases: Vec::new() };
        let mut pieces: Vec<&Piece> = code.pieces().collect();
        pieces.sort_by_key(|piece| piece.at);
        for piece in pieces {
            if streams.index(piece).is_none() {
                streams.bases.push(*piece);
            }
        }
        streams
    }

    /// Returns the index of the stream that a piece belongs to, or `None` if there is no such stream yet.
    fn index(&self, piece: &Piece) -> Option<usize> {
        let unit = |piece: &Piece| piece.at / self.regions[piece.region].pitch.max(1);
        self.bases
            .iter()
            .position(|base| base.region == piece.region && base.steps == piece.steps && unit(base) == unit(piece))
    }
}

/// The contents of a register.
#[derive(Clone, Copy)]
enum Slot {
    /// A loop-invariant value, or one computed in this iteration.
    Now(Value),
    /// A loop-carried value.
    Kept(Register),
}

/// A translator of register code to machine code.
struct CodeEmitter<'b, 'f, T: Number> {
    builder: &'b mut Builder<'f, T>,
    /// The stream of each moving piece, its offset from the start of the stream, and its length.
    moving: Vec<(Stream, usize, usize)>,
    slots: Vec<Option<Slot>>,
}

impl<'b, 'f, T: Translatable> CodeEmitter<'b, 'f, T> {
    /// Creates a translator, and emits the loads and constants that precede the loop.
    fn new(builder: &'b mut Builder<'f, T>, code: &RegisterCode<T>, streams: &Streams<'_>) -> Self {
        let handles: Vec<Stream> = streams.bases.iter().map(|_| builder.stream()).collect();
        let place = |piece: &Piece| {
            let index = streams.index(piece).expect("every piece was assigned to a stream");
            (handles[index], piece.at - streams.bases[index].at, piece.len)
        };
        let mut slots = vec![None; REGISTERS];
        for (register, piece) in &code.loads {
            let (stream, at, len) = place(piece);
            let value = builder.load(stream, at, len);
            slots[usize::from(*register)] = Some(Slot::Now(value));
        }
        for (register, number) in &code.numbers {
            slots[usize::from(*register)] = Some(Slot::Now(builder.number(*number)));
        }
        for (register, piece) in &code.stores {
            let slot = &mut slots[usize::from(*register)];
            if let Some(Slot::Now(first)) = *slot {
                let kept = builder.register(first);
                let (stream, at, len) = place(piece);
                builder.store_after_loop(kept, stream, at, len);
                *slot = Some(Slot::Kept(kept));
            }
        }
        let moving = code.streams.iter().map(place).collect();
        CodeEmitter { builder, moving, slots }
    }

    /// Emits the code of an iteration.
    fn emit_code(mut self, code: &RegisterCode<T>, panel: usize) {
        use Verb::{
            AddLast, DivByLast, DivOfLast, MulAddLast, MulLast, MulLastAdd, MulLastSub, MulSubLast, NegLast,
            NegMulAddLast, NegMulLastAdd, SquareLast, StoreLast, SubFromLast, SubLast, UnaryLast,
        };
        self.builder.begin();
        // First emit the loads from regions without stores, because a load waits for pending stores whose addresses
        // have the same low bits.
        let stored: Vec<usize> =
            ops_with_verb(code, Verb::Store).map(|op| code.streams[usize::from(op.to)].region).collect();
        let is_early =
            |op: &RegisterOp| op.verb == Verb::Load && !stored.contains(&code.streams[usize::from(op.from[0])].region);
        for op in code.ops.iter().filter(|op| is_early(op)) {
            let (stream, at, len) = self.moving[usize::from(op.from[0])];
            self.slots[usize::from(op.to)] = Some(Slot::Now(self.builder.load(stream, at, len)));
        }
        for op in code.ops.iter().filter(|op| !is_early(op)) {
            let [first, second, third] = op.from;
            let (a, b, c) = (self.get(first), self.get(second), self.get(third));
            let builder = &mut *self.builder;
            let value = match op.verb {
                Verb::Load => {
                    let (stream, at, len) = self.moving[usize::from(first)];
                    builder.load(stream, at, len)
                }
                Verb::Store => {
                    let (stream, at, len) = self.moving[usize::from(op.to)];
                    builder.store(a, stream, at, len);
                    continue;
                }
                Verb::EndUnless => {
                    builder.end_unless(a);
                    continue;
                }
                Verb::Product => {
                    self.product(&code.products[usize::from(first)], panel);
                    continue;
                }
                Verb::Copy => a,
                Verb::Neg => builder.neg(a),
                Verb::Square => builder.mul(a, a),
                Verb::Add => builder.add(a, b),
                Verb::Sub => builder.sub(a, b),
                Verb::Mul => builder.mul(a, b),
                Verb::Div => builder.div(a, b),
                Verb::Less => builder.compare(Comparison::Less, a, b),
                Verb::LessEqual => builder.compare(Comparison::LessEqual, a, b),
                Verb::MulAdd => builder.mul_add(a, b, c),
                Verb::MulSub => {
                    let c = builder.neg(c);
                    builder.mul_add(a, b, c)
                }
                Verb::NegMulAdd => {
                    let a = builder.neg(a);
                    builder.mul_add(a, b, c)
                }
                Verb::Select => builder.select(a, b, c),
                Verb::FoldLanes(fold) => fold_lanes(builder, fold, a, usize::from(second)),
                Verb::Unary(op) => emit_unary(builder, op, a),
                Verb::Binary(op) => emit_binary(builder, op, a, b),
                AddLast | SubFromLast | SubLast | MulLast | DivOfLast | DivByLast | MulAddLast | MulLastAdd
                | MulLastSub | MulSubLast | NegMulAddLast | NegMulLastAdd | SquareLast | NegLast | StoreLast
                | UnaryLast(_) => unreachable!("only interpreted code is chained"),
            };
            match &mut self.slots[usize::from(op.to)] {
                Some(Slot::Kept(register)) => self.builder.set(*register, value),
                slot => *slot = Some(Slot::Now(value)),
            }
        }
    }

    /// Emits a sum of products, each of a row and a packed matrix. Adds the terms in the same order as the kernel for
    /// products of one row: each column has four partial sums, which are added at the end. Each partial sum covers
    /// every fourth term. Columns are processed in groups small enough to keep the partial sums in processor registers.
    fn product(&mut self, product: &Product, panel: usize) {
        const VECTORS: usize = 2;
        let lanes = self.builder.lanes();
        let vectors: Vec<usize> = (0..product.to.len()).collect();
        let row = |factor: &Factor| RegisterRow::new(factor.row.iter().map(|register| self.get(*register)).collect());
        let mut rows: Vec<RegisterRow> = product.factors.iter().map(row).collect();
        for vectors in vectors.chunks(VECTORS) {
            let zero = self.builder.number(Constants::ZERO);
            let mut sums = vec![[zero; 4]; vectors.len()];
            if let Some(init) = &product.init {
                for (sums, vector) in sums.iter_mut().zip(vectors) {
                    sums[0] = self.get(init[*vector]);
                }
            }
            for (factor, row) in product.factors.iter().zip(&mut rows) {
                let (stream, at, _) = self.moving[usize::from(factor.packed)];
                let first = |column: usize| at + column / panel * factor.inner * panel + column % panel;
                let columns: Vec<usize> = vectors.iter().map(|vector| first(vector * lanes)).collect();
                let matrix = Matrix { stream, rows: factor.inner, pitch: panel, columns: &columns };
                self.builder.add_products(&mut sums, row, matrix);
            }
            let sums: Vec<Value> = sums
                .into_iter()
                .map(|[first, second, third, fourth]| {
                    let (left, right) = (self.builder.add(first, second), self.builder.add(third, fourth));
                    self.builder.add(left, right)
                })
                .collect();
            self.builder.compute(&sums);
            for (sum, vector) in sums.into_iter().zip(vectors) {
                self.slots[usize::from(product.to[*vector])] = Some(Slot::Now(sum));
            }
        }
    }

    /// Returns the current value of a register, or 0 if it was never written.
    fn get(&mut self, register: u8) -> Value {
        match self.slots[usize::from(register)] {
            Some(Slot::Now(value)) => value,
            Some(Slot::Kept(register)) => self.builder.get(register),
            None => self.builder.number(Constants::ZERO),
        }
    }
}

/// Returns the register ops with this verb.
fn ops_with_verb<T>(code: &RegisterCode<T>, verb: Verb) -> impl Iterator<Item = &RegisterOp> {
    code.ops.iter().filter(move |op| op.verb == verb)
}

/// Emits a fold of the first `lanes` lanes of a vector, in order.
fn fold_lanes<T: Number>(builder: &mut Builder<'_, T>, fold: Fold, value: Value, lanes: usize) -> Value {
    let mut all = builder.lane(value, 0);
    for index in 1..lanes {
        let lane = builder.lane(value, index);
        all = match fold {
            Fold::Sum => builder.add(all, lane),
            Fold::Product => builder.mul(all, lane),
            Fold::Max => builder.max(all, lane),
            Fold::Min => builder.min(all, lane),
        };
    }
    all
}

/// Emits a unary op as a few instructions, or as a call to its kernel.
fn emit_unary<T: Translatable>(builder: &mut Builder<'_, T>, op: Unary, x: Value) -> Value {
    let one = builder.number(Constants::ONE);
    match op {
        Unary::Abs => builder.abs(x),
        Unary::Recip => builder.div(one, x),
        Unary::Sqrt => builder.sqrt(x),
        Unary::Rsqrt => {
            let root = builder.sqrt(x);
            builder.div(one, root)
        }
        Unary::Not => {
            let zero = builder.number(Constants::ZERO);
            builder.compare(Comparison::Equal, x, zero)
        }
        Unary::Exp => emit_function(builder, |m| math::exp(m, x)),
        Unary::Expm1 => emit_function(builder, |m| math::expm1(m, x)),
        Unary::Log => emit_function(builder, |m| math::log(m, x)),
        Unary::Log1p => emit_function(builder, |m| math::log1p(m, x)),
        Unary::Tanh => emit_function(builder, |m| math::tanh(m, x)),
        Unary::Sigmoid => emit_function(builder, |m| math::sigmoid(m, x)),
        op => builder.call_unary(index_of(Unary::ALL, op), x),
    }
}

/// Emits a binary op as a few instructions, or as a call to its kernel.
fn emit_binary<T: Translatable>(builder: &mut Builder<'_, T>, op: Binary, x: Value, y: Value) -> Value {
    let one = builder.number(Constants::ONE);
    match op {
        Binary::Max => builder.max(x, y),
        Binary::Min => builder.min(x, y),
        Binary::Equal => builder.compare(Comparison::Equal, x, y),
        Binary::NotEqual => builder.compare(Comparison::NotEqual, x, y),
        Binary::TanhAdjoint => {
            let negative = builder.neg(y);
            let slope = builder.mul_add(negative, y, one);
            builder.mul(x, slope)
        }
        Binary::SigmoidAdjoint => {
            let (product, rest) = (builder.mul(x, y), builder.sub(one, y));
            builder.mul(product, rest)
        }
        Binary::ExpOfProduct => {
            let product = builder.mul(x, y);
            emit_function(builder, |m| math::exp(m, product))
        }
        op => builder.call_binary(index_of(Binary::ALL, op), x, y),
    }
}

/// Emits inline code for a kernel function that is generic over [`Arithmetic`].
fn emit_function<'b, 'f, T: Translatable>(
    builder: &'b mut Builder<'f, T>,
    function: impl FnOnce(MachineArithmetic<'_, 'b, 'f, T>) -> Value,
) -> Value {
    function(MachineArithmetic(&RefCell::new(builder)))
}

/// An implementation of [`Arithmetic`] that emits machine code.
struct MachineArithmetic<'c, 'b, 'f, T: Number>(&'c RefCell<&'b mut Builder<'f, T>>);

impl<T: Number> Clone for MachineArithmetic<'_, '_, '_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Number> Copy for MachineArithmetic<'_, '_, '_, T> {}

macro_rules! machine_arithmetic {
    ($($name:ident($($operand:ident: $ty:ty),*) -> $result:ty = |$builder:ident| $value:expr;)*) => {
        impl<T: Translatable> Arithmetic<T> for MachineArithmetic<'_, '_, '_, T> {
            type Vector = Value;
            type Mask = Mask;
            type Bits = Bits;

            $(
                fn $name(self, $($operand: $ty),*) -> $result {
                    let $builder = &mut **self.0.borrow_mut();
                    $value
                }
            )*
        }
    };
}

machine_arithmetic! {
    splat(value: T) -> Value = |builder| builder.number(value);
    add(a: Value, b: Value) -> Value = |builder| builder.add(a, b);
    sub(a: Value, b: Value) -> Value = |builder| builder.sub(a, b);
    mul(a: Value, b: Value) -> Value = |builder| builder.mul(a, b);
    div(a: Value, b: Value) -> Value = |builder| builder.div(a, b);
    mul_add(a: Value, b: Value, c: Value) -> Value = |builder| builder.mul_add(a, b, c);
    sqrt(a: Value) -> Value = |builder| builder.sqrt(a);
    neg(a: Value) -> Value = |builder| builder.neg(a);
    abs(a: Value) -> Value = |builder| builder.abs(a);
    with_sign(magnitude: Value, sign: Value) -> Value = |builder| {
        let (bits, mask) = (builder.bits(sign), builder.word(T::SIGN));
        let (sign, magnitude) = (builder.and(bits, mask), builder.bits(magnitude));
        let bits = builder.or(magnitude, sign);
        builder.of_bits(bits)
    };
    less(a: Value, b: Value) -> Mask = |builder| builder.mask(Comparison::Less, a, b);
    equal(a: Value, b: Value) -> Mask = |builder| builder.mask(Comparison::Equal, a, b);
    select(mask: Mask, a: Value, b: Value) -> Value = |builder| builder.choose(mask, a, b);
    at_least(low: Value, x: Value) -> Value = |builder| {
        let mask = builder.mask(Comparison::Less, x, low);
        builder.choose(mask, low, x)
    };
    at_most(high: Value, x: Value) -> Value = |builder| {
        let mask = builder.mask(Comparison::Less, high, x);
        builder.choose(mask, high, x)
    };
    bits(a: Value) -> Bits = |builder| builder.bits(a);
    of_bits(a: Bits) -> Value = |builder| builder.of_bits(a);
    splat_word(value: u64) -> Bits = |builder| builder.word(value);
    and(a: Bits, b: Bits) -> Bits = |builder| builder.and(a, b);
    add_words(a: Bits, b: Bits) -> Bits = |builder| builder.add_words(a, b);
    to_exponent(n: Value) -> Bits = |builder| exponent(builder, n);
    powers_of_two(n: Value) -> (Value, Value) = |builder| {
        let (rounder, half) = (builder.number(T::ROUNDER), builder.number(T::from_f64(0.5)));
        let bias = builder.number(T::from_f64(T::EXPONENT_BIAS as f64));
        let rounded = builder.mul_add(n, half, rounder);
        let first = builder.sub(rounded, rounder);
        let second = builder.sub(n, first);
        let mut power = |n| {
            let stored = builder.add(n, bias);
            let exponent = exponent(builder, stored);
            builder.of_bits(exponent)
        };
        (power(first), power(second))
    };
    exponent_field(bits: Bits) -> Value = |builder| {
        // The exponent field is a small integer. To convert it to a float, OR it into the fraction bits of `whole`, and
        // then subtract `whole`. The lowest fraction bit of `whole` has the value 1.
        let field = builder.shift_down(bits, T::FRACTION_BITS as u32);
        let whole = builder.number(T::WHOLE);
        let bits = builder.bits(whole);
        let number = builder.or(field, bits);
        let number = builder.of_bits(number);
        builder.sub(number, whole)
    };
}

/// Emits code that shifts the integer `n` into the exponent field. Adding `T::ROUNDER` leaves `n` in the low bits,
/// which are then shifted left.
fn exponent<T: Translatable>(builder: &mut Builder<'_, T>, n: Value) -> Bits {
    let rounder = builder.number(T::ROUNDER);
    let sum = builder.add(n, rounder);
    let bits = builder.bits(sum);
    builder.shift_up(bits, T::FRACTION_BITS as u32)
}

/// Returns the index of an op in the list of all ops. Machine code identifies ops by this index.
fn index_of<O: Copy + PartialEq>(all: &[O], op: O) -> u32 {
    all.iter().position(|other| *other == op).expect("the list contains every op") as u32
}

extern "C" fn call_unary<T: MathTable>(op: u32, x: T) -> T {
    Machine::detect().run(ElementCall(op, x, None))
}

extern "C" fn call_binary<T: MathTable>(op: u32, x: T, y: T) -> T {
    Machine::detect().run(ElementCall(op, x, Some(y)))
}

extern "C" fn call_unary_vector<T: Number + MathTable>(op: u32, x: &mut <T as Number>::Vector) {
    Machine::detect().run(VectorCall(op, x.as_mut(), None));
}

extern "C" fn call_binary_vector<T: Number + MathTable>(
    op: u32,
    x: &mut <T as Number>::Vector,
    y: &<T as Number>::Vector,
) {
    Machine::detect().run(VectorCall(op, x.as_mut(), Some(y.as_ref())));
}

/// A call to a kernel with one or two elements.
struct ElementCall<T>(u32, T, Option<T>);

impl<T: MathTable> Work for ElementCall<T> {
    type Output = T;

    fn run<S: Simd>(self, simd: S) -> T {
        let ElementCall(op, x, y) = self;
        match y {
            None => Unary::ALL[op as usize].of_elements(simd, [x]),
            Some(y) => Binary::ALL[op as usize].of_elements(simd, [x, y]),
        }
    }
}

/// A call to a kernel with the elements of one or two vectors. The result replaces the first vector.
struct VectorCall<'v, T>(u32, &'v mut [T], Option<&'v [T]>);

impl<T: MathTable> Work for VectorCall<'_, T> {
    type Output = ();

    fn run<S: Simd>(self, simd: S) {
        simd.vectorize(InInstructionSet(simd, self));
    }
}

/// Work to run in a function that is compiled for the instruction set `S`.
struct InInstructionSet<S, W>(S, W);

impl<T: MathTable, S: Simd> WithSimd for InInstructionSet<S, VectorCall<'_, T>> {
    type Output = ();

    #[inline(always)]
    fn with_simd<A: Simd>(self, _: A) {
        let InInstructionSet(simd, VectorCall(op, x, y)) = self;
        let a = Vectors::<T, S, 1>::load(simd, x);
        let value = match y {
            None => a.unary(simd, Unary::ALL[op as usize]),
            Some(y) => a.binary(simd, Binary::ALL[op as usize], Vectors::load(simd, y)),
        };
        value.store(simd, x);
    }
}
