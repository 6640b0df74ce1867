//! Contains the lowering rules. Each file is named after the file of `funcify-core` that defines the op or the table of
//! elementwise ops.

mod argmax;
mod binary;
mod bitcast;
mod bits;
mod broadcast;
mod cast;
mod compare;
mod concat;
mod constant;
mod conv;
mod cumulative;
mod dynamic_slice;
mod dynamic_update;
mod gather;
mod iota;
mod matmul;
mod next_after;
mod pad;
mod polygamma;
mod predicate;
mod reduce;
mod reshape;
mod reverse;
mod scan;
mod scatter;
mod select;
mod size;
mod slice;
mod sort;
mod take;
mod threefry;
mod transpose;
mod unary;

/// Re-exports the items that almost all lowering rules use.
mod prelude {
    pub(super) use candle_core::Tensor;
    pub(super) use funcify_core::DType;
    pub(super) use funcify_core::ops::special::Extrema;
    pub(super) use funcify_core::ops::{self, ReduceKind, ScatterMode, special};
    pub(super) use funcify_runtime::{Backend, Tensors, funcify};

    pub(super) use crate::device::{Call, Candle, Outcome, output_shape};
}
