//! Kernels that compute a whole op on contiguous tensors in row-major order.
//!
//! The kernels cover ops that have no instruction. They return the same results as the reference evaluator, except that
//! a large convolution accumulates its sums in the plan's float type. The planner chooses a kernel when it builds the
//! plan, because it knows all sizes at that point. The kernels store integers as integers, and floats and booleans in
//! the plan's float type, `f32` or `f64`.

mod convolution;
mod elements;
mod folds;
mod integers;
mod order;
mod random;
#[cfg(test)]
mod tests;

use std::cell::Cell;

use funcify_core::ops::{Along, Creation, Elementwise, Movement, Op, OpClass, Product};
use funcify_core::types::{Sizes, nearest_bf16, nearest_f16};
use funcify_core::{DType, TensorType};
use pulp::NullaryFnOnce;
use pulp::bytemuck::{self, Pod};

use super::math::MathTable;
use super::*;
use convolution::Convolution;
use elements::{Bitcast, Iota, NarrowingCast, Neighbor, Polygamma};
use folds::{Reduction, Running};
use integers::IntegerProduct;
use order::{ArgMax, Sort};
use random::RandomBits;

/// A kernel that computes a whole op.
#[derive(Clone, Debug)]
pub(crate) enum WholeKernel {
    Sort(Sort),
    ArgMax(ArgMax),
    Running(Running),
    Reduction(Reduction),
    Convolution(Box<Convolution>),
    RandomBits(RandomBits),
    Bitcast(Bitcast),
    Iota(Iota),
    IntegerProduct(IntegerProduct),
    Neighbor(Neighbor),
    Polygamma(Polygamma),
    NarrowingCast(NarrowingCast),
}

impl WholeKernel {
    /// Returns the kernel that computes an op, or `None` if no kernel supports the op or a size in the types is
    /// unknown. `float` is the plan's float type.
    pub(crate) fn of(
        op: &Op,
        inputs: &[TensorType],
        outputs: &[TensorType],
        sizes: &Sizes,
        float: DType,
    ) -> Option<Self> {
        let shape = |ty: &TensorType| ty.shape.constant();
        let element = |ty: &TensorType| ElementType::of(ty.dtype, float);
        let (to, shape_of_result) = (element(&outputs[0]), shape(&outputs[0])?);
        let rounding = Rounding::to(outputs[0].dtype);
        Some(match op.class() {
            OpClass::Along(Along::Sort(op)) => {
                let lines = Lines::along(op.axis, &shape(&inputs[0])?);
                if lines.size > Sort::MAX_SIZE {
                    return None;
                }
                WholeKernel::Sort(Sort { lines, descending: op.descending, ty: to })
            }
            OpClass::Along(Along::ArgMax(op)) => {
                let lines = Lines::along(op.axis, &shape(&inputs[0])?);
                if lines.size == 0 {
                    return None;
                }
                WholeKernel::ArgMax(ArgMax { lines, ty: element(&inputs[0]) })
            }
            OpClass::Along(Along::Cumulative(op)) => {
                let lines = Lines::along(op.axis, &shape_of_result);
                WholeKernel::Running(Running { lines, kind: op.kind, reverse: op.reverse, ty: to, rounding })
            }
            OpClass::Along(Along::Reduce(op)) => {
                WholeKernel::Reduction(Reduction::new(op, &shape(&inputs[0])?, to, rounding))
            }
            OpClass::Product(Product::Conv(op)) => {
                let operands = [shape(&inputs[0])?, shape(&inputs[1])?];
                WholeKernel::Convolution(Box::new(Convolution::new(op, operands, &shape_of_result, sizes)?))
            }
            OpClass::Product(Product::MatMul(_)) if outputs[0].dtype.is_int() => {
                WholeKernel::IntegerProduct(IntegerProduct::new(&shape(&inputs[0])?, &shape_of_result, to))
            }
            OpClass::RandomBits(op) => WholeKernel::RandomBits(RandomBits {
                blocks: op.shape.value(sizes).ok()?.iter().product(),
                words: op.words,
            }),
            OpClass::Movement(Movement::Bitcast(_)) => WholeKernel::Bitcast(Bitcast { from: element(&inputs[0]), to }),
            OpClass::Creation(Creation::Iota(_)) => WholeKernel::Iota(Iota { ty: to, rounding }),
            OpClass::Elementwise(Elementwise::NextAfter(_)) => {
                WholeKernel::Neighbor(Neighbor { ty: to, dtype: outputs[0].dtype })
            }
            OpClass::Elementwise(Elementwise::Polygamma(op)) => {
                WholeKernel::Polygamma(Polygamma { order: op.order, ty: to, rounding })
            }
            OpClass::Elementwise(Elementwise::Cast(op)) if inputs[0].dtype.is_int() => {
                let rounding = if op.dtype == DType::F32 { Rounding::F32 } else { rounding };
                if rounding == Rounding::None {
                    return None;
                }
                WholeKernel::NarrowingCast(NarrowingCast { from: element(&inputs[0]), to, rounding })
            }
            OpClass::Elementwise(_) | OpClass::Movement(_) | OpClass::Creation(_) | OpClass::Product(_) => return None,
            OpClass::Indexing(_) | OpClass::Binding(_) | OpClass::Control(_) | OpClass::Custom(_) => return None,
        })
    }

    /// Computes the result with index `result`. `from` holds the operands followed by all results, with an empty slice
    /// for the result being computed. Callers compute the results in reverse order, because a kernel may read later
    /// results.
    pub(crate) fn run<T: MathTable, S: Simd>(&self, simd: S, result: usize, to: &mut [u8], from: &[&[u8]]) {
        match self {
            WholeKernel::Sort(kernel) => kernel.run(result, to, from),
            WholeKernel::ArgMax(kernel) => kernel.run(simd, elements_mut(to), from[0]),
            WholeKernel::Running(kernel) => kernel.run(simd, to, from[0]),
            WholeKernel::Reduction(kernel) => kernel.run(simd, to, from[0]),
            WholeKernel::Convolution(kernel) => {
                kernel.run::<T, S>(simd, elements_mut(to), elements(from[0]), elements(from[1]));
            }
            WholeKernel::RandomBits(kernel) => {
                kernel.run(simd, elements_mut(to), elements(from[0]), elements(from[1]));
            }
            WholeKernel::Bitcast(kernel) => kernel.run(to, from[0]),
            WholeKernel::Iota(kernel) => kernel.run(to),
            WholeKernel::IntegerProduct(kernel) => kernel.run(simd, to, from[0], from[1]),
            WholeKernel::Neighbor(kernel) => kernel.run(to, from[0], from[1]),
            WholeKernel::Polygamma(kernel) => kernel.run(to, from[0]),
            WholeKernel::NarrowingCast(kernel) => kernel.run(to, from[0]),
        }
    }

    /// Returns the estimated run time in nanoseconds. `elements` is the total number of elements in all operands and
    /// results.
    pub(crate) fn nanoseconds(&self, elements: usize) -> f64 {
        const NS_PER_TERM: f64 = 0.05;
        let elements = elements as f64;
        match self {
            WholeKernel::Sort(kernel) => elements * (2.0 + kernel.lines.size.max(1).ilog2() as f64),
            WholeKernel::Convolution(kernel) => elements + kernel.terms() * NS_PER_TERM,
            WholeKernel::IntegerProduct(kernel) => elements + kernel.terms() * NS_PER_TERM,
            WholeKernel::Polygamma(_) => elements * 100.0,
            WholeKernel::Neighbor(_) | WholeKernel::NarrowingCast(_) => elements * 4.0,
            WholeKernel::ArgMax(_) | WholeKernel::Running(_) | WholeKernel::Reduction(_) => elements,
            WholeKernel::RandomBits(_) | WholeKernel::Bitcast(_) | WholeKernel::Iota(_) => elements,
        }
    }
}

/// The inner loop of a kernel, with arguments of type `A`. The loop is a method rather than a closure, because a large
/// closure is not inlined into the function that is compiled for the instruction set.
trait InnerLoop<A> {
    /// Runs the loop. Implementations are marked `#[inline(always)]`.
    fn run_loop(&self, arguments: A);
}

/// A call to an inner loop, to be run by `Simd::vectorize`.
struct LoopCall<'k, K, A>(&'k K, A);

impl<K: InnerLoop<A>, A> NullaryFnOnce for LoopCall<'_, K, A> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.0.run_loop(self.1);
    }
}

/// The type of a tensor's elements in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ElementType {
    F32,
    F64,
    I64,
    I32,
    U32,
    U8,
}

impl ElementType {
    /// Returns the type in which a plan holds elements of type `dtype`. `float` is the plan's float type.
    fn of(dtype: DType, float: DType) -> Self {
        match dtype {
            DType::I64 => ElementType::I64,
            DType::I32 => ElementType::I32,
            DType::U32 => ElementType::U32,
            DType::U8 => ElementType::U8,
            DType::Bool | DType::F16 | DType::BF16 | DType::F32 | DType::F64 if float == DType::F64 => ElementType::F64,
            DType::Bool | DType::F16 | DType::BF16 | DType::F32 | DType::F64 => ElementType::F32,
        }
    }
}

/// Evaluates `$run` with `$E` bound to the Rust type that corresponds to `$ty`.
macro_rules! with_element {
    ($ty:expr, $E:ident => $run:expr) => {
        match $ty {
            ElementType::I64 => with_element!(@ i64, $E => $run),
            ElementType::I32 => with_element!(@ i32, $E => $run),
            ElementType::U32 => with_element!(@ u32, $E => $run),
            ElementType::U8 => with_element!(@ u8, $E => $run),
            ElementType::F32 | ElementType::F64 => with_element!(float $ty, $E => $run),
        }
    };
    (float $ty:expr, $E:ident => $run:expr) => {
        match $ty {
            ElementType::F64 => with_element!(@ f64, $E => $run),
            _ => with_element!(@ f32, $E => $run),
        }
    };
    (integer $ty:expr, $E:ident => $run:expr) => {
        match $ty {
            ElementType::I64 => with_element!(@ i64, $E => $run),
            ElementType::I32 => with_element!(@ i32, $E => $run),
            ElementType::U32 => with_element!(@ u32, $E => $run),
            ElementType::U8 => with_element!(@ u8, $E => $run),
            ty => unreachable!("{ty:?} is not the type of an integer"),
        }
    };
    (@ $element:ident, $E:ident => $run:expr) => {{
        type $E = $element;
        $run
    }};
}
use with_element;

/// Reinterprets bytes as a slice of elements. The bytes must be aligned for `E`, unless the slice is empty.
pub(crate) fn elements<E: Pod>(bytes: &[u8]) -> &[E] {
    if bytes.is_empty() { &[] } else { bytemuck::cast_slice(bytes) }
}

/// Reinterprets bytes as a mutable slice of elements. The bytes must be aligned for `E`, unless the slice is empty.
pub(crate) fn elements_mut<E: Pod>(bytes: &mut [u8]) -> &mut [E] {
    if bytes.is_empty() { &mut [] } else { bytemuck::cast_slice_mut(bytes) }
}

/// The narrower float type to which a kernel rounds its results, if any. The rounded results are then held in the
/// plan's float type. Rounding them again later has no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rounding {
    None,
    F16,
    BF16,
    F32,
}

impl Rounding {
    /// Returns the rounding for results of type `dtype`. Kernels other than casts leave the rounding to f32 to the
    /// plan.
    fn to(dtype: DType) -> Self {
        match dtype {
            DType::F16 => Rounding::F16,
            DType::BF16 => Rounding::BF16,
            DType::Bool | DType::U8 | DType::U32 | DType::I32 | DType::I64 | DType::F32 | DType::F64 => Rounding::None,
        }
    }

    #[inline(always)]
    fn round(self, number: f64) -> f64 {
        match self {
            Rounding::None => number,
            Rounding::F16 => nearest_f16(number).to_f64(),
            Rounding::BF16 => nearest_bf16(number).to_f64(),
            Rounding::F32 => f64::from(number as f32),
        }
    }
}

/// The lines of a tensor along an axis. Consecutive elements of a line are `stride` elements apart in memory.
#[derive(Clone, Copy, Debug)]
struct Lines {
    /// The number of blocks, each of `size * stride` contiguous elements.
    blocks: usize,
    /// The number of elements in a line.
    size: usize,
    /// The number of lines in a block, which is also the stride between the elements of a line.
    stride: usize,
}

impl Lines {
    fn along(axis: usize, shape: &[usize]) -> Self {
        let (blocks, stride) = (shape[..axis].iter().product(), shape[axis + 1..].iter().product());
        Lines { blocks, size: shape[axis], stride }
    }

    /// Returns the index of the first element of each line.
    fn starts(self) -> impl Iterator<Item = usize> {
        let block = self.size * self.stride;
        (0..self.blocks).flat_map(move |index| (0..self.stride).map(move |line| index * block + line))
    }

    /// Returns the index of the first element of each block.
    fn blocks(self) -> impl Iterator<Item = usize> {
        (0..self.blocks).map(move |index| index * self.size * self.stride)
    }
}

thread_local! {
    /// The scratch memory that all kernels on a thread share. It is aligned for every element type.
    static SCRATCH: Cell<Vec<u128>> = const { Cell::new(Vec::new()) };
}

/// Calls `run` with scratch memory for `len` elements, whose initial values are arbitrary.
fn with_scratch<E: Pod, R>(len: usize, run: impl FnOnce(&mut [E]) -> R) -> R {
    let mut memory = SCRATCH.take();
    let needed = (len * size_of::<E>()).div_ceil(size_of::<u128>());
    if memory.len() < needed {
        memory.resize(needed, 0);
    }
    let result = run(&mut bytemuck::cast_slice_mut(&mut memory)[..len]);
    SCRATCH.set(memory);
    result
}
