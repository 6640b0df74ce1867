//! What routines are made over: their elements, the functions that they may call, and what their streams reach.

use cranelift_codegen::ir::{self, InstBuilder, Type, types};
use cranelift_frontend::FunctionBuilder;

/// The elements of routines: f32 and f64.
pub trait Number: Copy + From<u8> + 'static {
    /// 16 bytes of them.
    type Vector: AsRef<[Self]> + AsMut<[Self]>;
    /// How many these are.
    const LANES: usize;
    #[doc(hidden)]
    const TYPE: Type;
    #[doc(hidden)]
    fn constant(self, function: &mut FunctionBuilder<'_>) -> ir::Value;
}

impl Number for f32 {
    type Vector = [f32; 4];
    const LANES: usize = 4;
    const TYPE: Type = types::F32;

    fn constant(self, function: &mut FunctionBuilder<'_>) -> ir::Value {
        function.ins().f32const(self)
    }
}

impl Number for f64 {
    type Vector = [f64; 2];
    const LANES: usize = 2;
    const TYPE: Type = types::F64;

    fn constant(self, function: &mut FunctionBuilder<'_>) -> ir::Value {
        function.ins().f64const(self)
    }
}

/// Functions of numbers that a routine may call. The first argument says which. Those on vectors leave the result in the first
/// one.
#[derive(Clone, Copy, Debug)]
pub struct Functions<T: Number> {
    /// Of one operand, for routines of one lane.
    pub one: extern "C" fn(u32, T) -> T,
    /// Of two.
    pub two: extern "C" fn(u32, T, T) -> T,
    /// Of one operand, for routines of vectors.
    pub vector: extern "C" fn(u32, &mut T::Vector),
    /// Of two.
    pub vectors: extern "C" fn(u32, &mut T::Vector, &T::Vector),
}

impl<T: Number> Functions<T> {
    /// For routines that call none: each leaves its first operand as it is.
    pub const NONE: Self = {
        extern "C" fn one<T>(_: u32, x: T) -> T {
            x
        }
        extern "C" fn two<T>(_: u32, x: T, _: T) -> T {
            x
        }
        extern "C" fn vector<V>(_: u32, _: &mut V) {}
        extern "C" fn vectors<V>(_: u32, _: &mut V, _: &V) {}
        Functions { one, two, vector, vectors }
    };

    pub(crate) fn one_address(&self, lanes: usize) -> usize {
        if lanes == 1 { self.one as usize } else { self.vector as usize }
    }

    pub(crate) fn two_address(&self, lanes: usize) -> usize {
        if lanes == 1 { self.two as usize } else { self.vectors as usize }
    }
}

/// What a stream touches in each iteration.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Reach {
    /// Up to how many elements behind its place.
    pub(crate) elements: usize,
    pub(crate) is_written: bool,
}
