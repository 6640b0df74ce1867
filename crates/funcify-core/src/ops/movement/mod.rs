//! Ops that only move elements, to positions determined by attributes and sizes.

pub(in crate::ops) mod bitcast;
pub(in crate::ops) mod broadcast;
pub(in crate::ops) mod concat;
pub(in crate::ops) mod pad;
pub(in crate::ops) mod reshape;
pub(in crate::ops) mod reverse;
pub(in crate::ops) mod slice;
pub(in crate::ops) mod transpose;

pub use bitcast::Bitcast;
pub use broadcast::Broadcast;
pub use concat::Concat;
pub use pad::Pad;
pub use reshape::Reshape;
pub use reverse::Reverse;
pub use slice::Slice;
pub use transpose::Transpose;
