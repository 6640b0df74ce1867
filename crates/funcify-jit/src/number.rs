//! The element types of routines, the callbacks that routines may call, and the ranges of elements that streams may
//! access.

use cranelift_codegen::ir::{self, InstBuilder, Type, types};
use cranelift_frontend::FunctionBuilder;

/// An element type of routines: f32 or f64.
pub trait Number: Copy + From<u8> + 'static {
    /// An array that fills a 16-byte vector.
    type Vector: AsRef<[Self]> + AsMut<[Self]>;
    /// The number of lanes in a vector.
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

/// The callbacks that a routine may call. Their first argument selects the function to compute. The vector callbacks
/// overwrite their first vector with the result.
#[derive(Clone, Copy, Debug)]
pub struct Functions<T: Number> {
    /// Computes a function with one operand, for routines with one lane.
    pub unary: extern "C" fn(u32, T) -> T,
    /// Computes a function with two operands, for routines with one lane.
    pub binary: extern "C" fn(u32, T, T) -> T,
    /// Computes a function with one operand, for routines on vectors.
    pub unary_vector: extern "C" fn(u32, &mut T::Vector),
    /// Computes a function with two operands, for routines on vectors.
    pub binary_vector: extern "C" fn(u32, &mut T::Vector, &T::Vector),
}

impl<T: Number> Functions<T> {
    /// Placeholders for routines that call no functions. Each placeholder returns its first operand unchanged.
    pub const NONE: Self = {
        extern "C" fn unary<T>(_: u32, x: T) -> T {
            x
        }
        extern "C" fn binary<T>(_: u32, x: T, _: T) -> T {
            x
        }
        extern "C" fn unary_vector<V>(_: u32, _: &mut V) {}
        extern "C" fn binary_vector<V>(_: u32, _: &mut V, _: &V) {}
        Functions { unary, binary, unary_vector, binary_vector }
    };

    pub(crate) fn unary_address(&self, lanes: usize) -> usize {
        if lanes == 1 { self.unary as usize } else { self.unary_vector as usize }
    }

    pub(crate) fn binary_address(&self, lanes: usize) -> usize {
        if lanes == 1 { self.binary as usize } else { self.binary_vector as usize }
    }
}

/// The range of elements that a stream may access in an iteration.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Reach {
    /// The number of elements that may be accessed, starting at the stream's current address.
    pub(crate) elements: usize,
    pub(crate) is_written: bool,
}
