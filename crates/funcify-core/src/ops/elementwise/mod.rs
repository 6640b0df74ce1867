//! Elementwise ops: each element of the result depends only on the operands' elements at the same position.

pub(in crate::ops) mod binary;
pub(in crate::ops) mod bits;
pub(in crate::ops) mod cast;
pub(in crate::ops) mod compare;
pub(in crate::ops) mod next_after;
pub(in crate::ops) mod partials;
pub(in crate::ops) mod polygamma;
pub(in crate::ops) mod predicate;
pub(in crate::ops) mod select;
#[doc(hidden)]
pub mod special;
pub(in crate::ops) mod table;
pub(in crate::ops) mod unary;

pub use binary::*;
pub use bits::*;
pub use cast::Cast;
pub use compare::*;
pub use next_after::{NextAfter, next_after};
pub use polygamma::Polygamma;
pub use predicate::*;
pub use select::Select;
pub use unary::*;
