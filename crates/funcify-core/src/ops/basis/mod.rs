//! Infrastructure shared by all ops: attributes, evaluation, the interface of ops with bodies, and ops from other
//! crates.

pub(in crate::ops) mod attributes;
pub(in crate::ops) mod bodied;
pub(in crate::ops) mod class;
pub(in crate::ops) mod custom;
pub(in crate::ops) mod evaluate;
pub(crate) mod form;
pub(crate) mod leaves;
pub(crate) mod reach;
pub(in crate::ops) mod rules;
#[cfg(test)]
pub(crate) mod testing;

pub use attributes::{Attribute, Attributes, OpText};
pub(in crate::ops) use attributes::{AttributeField, op_key, op_text};
pub use bodied::StepCount;
pub(crate) use bodied::{Printable, Prunable};
pub use class::{Along, Control, Creation, Elementwise, Indexing, Lanes, Linearity, Movement, OpClass, Product, Work};
pub use custom::{Custom, CustomOp, CustomOpEntry, custom_names, duplicate_op_name};
pub use evaluate::EvalContext;
pub(crate) use evaluate::evaluate_in;
