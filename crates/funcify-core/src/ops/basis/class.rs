//! What passes need to know about an op: the class that it is of, and how its results follow from its operands.
//!
//! Each op answers in its own file, in [`OpRules`](super::super::OpRules), where nothing has a default. A pass asks the op, or
//! matches all classes, and all ops of a class; an op that is added is then an op that each of them has to say something
//! about before it compiles.

use smallvec::{SmallVec, smallvec};

use crate::ops::*;

macro_rules! classes {
    ($($(#[$doc:meta])* $class:ident: $($op:ident),*;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            #[allow(missing_docs, reason = "each variant is documented at the type that it holds")]
            pub enum $class<'a> { $($op(&'a $op)),* }

            $(impl<'a> From<&'a $op> for OpClass<'a> {
                fn from(op: &'a $op) -> Self {
                    OpClass::$class($class::$op(op))
                }
            })*
        )*
    };
}

/// The class of an op, with the op.
#[derive(Clone, Copy, Debug)]
pub enum OpClass<'a> {
    /// Each element of the result follows from those of the operands at its place.
    Elementwise(Elementwise<'a>),
    /// Elements are put elsewhere, and nothing is computed.
    Movement(Movement<'a>),
    /// The result follows from attributes and sizes.
    Creation(Creation<'a>),
    /// Elements are read or written in places that an operand says.
    Indexing(Indexing<'a>),
    /// Elements along axes are combined or put in order.
    Along(Along<'a>),
    /// Sums of products of elements of two operands.
    Product(Product<'a>),
    /// Random bits from keys and counters.
    RandomBits(&'a Threefry),
    /// A number becomes a size.
    Binding(&'a BindSize),
    /// Bodies are run.
    Control(Control<'a>),
    /// An op of another crate.
    Custom(&'a Custom),
}

classes! {
    /// Ops whose elements follow from those of the operands at the same place.
    Elementwise: Unary, Binary, Bits, Compare, Predicate, Select, Cast, NextAfter, Polygamma;
    /// Ops that put elements elsewhere.
    Movement: Reshape, Transpose, Broadcast, Slice, Reverse, Pad, Concat, Bitcast;
    /// Ops whose results follow from attributes and sizes.
    Creation: Constant, Iota, Size;
    /// Ops that read or write in places that an operand says.
    Indexing: DynamicSlice, DynamicUpdate, Take, Gather, Scatter;
    /// Ops that combine or order elements along axes.
    Along: Reduce, ArgMax, Cumulative, Sort;
    /// Sums of products.
    Product: MatMul, Conv;
    /// Ops that run bodies.
    Control: Scan, While, Switch, AssociativeScan, Call;
}

/// For each operand, the axis along which it has the lanes of an axis of the results: index `i` of the results needs index
/// `i` of it there, and no other. `None` of an operand of which each lane may need everything.
pub type Lanes = SmallVec<[Option<usize>; 4]>;

/// Returns the lanes of an op whose operands all have them along the same axis.
pub(in crate::ops) fn lanes_of_all(operands: usize, axis: usize) -> Option<Lanes> {
    Some(smallvec![Some(axis); operands])
}

/// Returns the lanes of an op that has them along every axis but one.
pub(in crate::ops) fn lanes_beside(own: usize, lanes: &[Option<usize>], axis: usize) -> Option<Lanes> {
    (axis != own).then(|| lanes.into())
}

/// In which of its operands an op is linear: the sum of its results on two tensors is its result on their sum, and a factor
/// passes through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linearity {
    /// In none.
    None,
    /// In these together, as a sum is.
    Together(&'static [usize]),
    /// In all together.
    InAll,
    /// In each of these while the others stay, as a product is.
    Each(&'static [usize]),
    /// In what its bodies, or its own rules, are linear in.
    OfBodies,
}

/// What an element of a result costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Nothing: it is an element that is there already, in its place or another one.
    Nothing,
    /// About one operation.
    Element,
    /// As many multiplications and additions as a product has terms.
    Terms,
    /// What the bodies cost.
    Bodies,
}
