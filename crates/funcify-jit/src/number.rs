//! The elements of routines, the functions that routines may call, and the elements that their streams reach.

use cranelift_codegen::ir::{self, InstBuilder, Type, types};
use cranelift_frontend::FunctionBuilder;

/// An element type of routines: f32 or f64.
pub trait Number: Copy + From<u8> + 'static {
    /// A vector of 16 bytes.
    type Vector: AsRef<[Self]> + AsMut<[Self]>;
    /// The number of lanes of a vector.
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

/// Functions on numbers that a routine may call. The first argument selects the function. The vector functions write
/// their result to the first vector.
#[derive(Clone, Copy, Debug)]
pub struct Functions<T: Number> {
    /// Functions of one operand, for routines of one lane.
    pub one: extern "C" fn(u32, T) -> T,
    /// Functions of two operands, for routines of one lane.
    pub two: extern "C" fn(u32, T, T) -> T,
    /// Functions of one operand, for routines of vectors.
    pub vector: extern "C" fn(u32, &mut T::Vector),
    /// Functions of two operands, for routines of vectors.
    pub vectors: extern "C" fn(u32, &mut T::Vector, &T::Vector),
}

impl<T: Number> Functions<T> {
    /// Placeholders for routines that call no functions: each returns its first operand unchanged.
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

/// The elements that a stream accesses in each iteration.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Reach {
    /// The number of elements, counted from its place, that may be accessed.
    pub(crate) elements: usize,
    pub(crate) is_written: bool,
}
