//! Ops that read or write elements at positions given by an operand.

pub(in crate::ops) mod dynamic_slice;
pub(in crate::ops) mod dynamic_update;
pub(in crate::ops) mod gather;
pub(in crate::ops) mod scatter;
pub(in crate::ops) mod take;

pub use dynamic_slice::DynamicSlice;
pub use dynamic_update::DynamicUpdate;
pub use gather::Gather;
pub use scatter::{Scatter, ScatterMode};
pub use take::Take;
