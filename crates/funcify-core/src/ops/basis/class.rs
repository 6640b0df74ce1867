//! What passes need to know about an op: the class that it is of, and how its results follow from its operands.
//!
//! An op has one answer to each question, and no answer is a default: a match names every op, except where the class itself is
//! the answer (each lane of an elementwise op is independent; data movement computes nothing). Answers that follow from
//! attributes are in the op's file. So a new op does not compile until each question, and each pass that matches its class, has
//! an answer for it.

use smallvec::{SmallVec, smallvec};

use crate::graph::Known;
use crate::ops::*;
use crate::types::TensorType;

macro_rules! classes {
    ($($(#[$doc:meta])* $class:ident: $($op:ident),*;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            #[allow(missing_docs, reason = "each variant is documented at the type that it holds")]
            pub enum $class<'a> { $($op(&'a $op)),* }
        )*

        impl Op {
            /// Returns the class of the op: see [`OpClass`].
            pub fn class(&self) -> OpClass<'_> {
                match self {
                    $($(Op::$op(op) => OpClass::$class($class::$op(op)),)*)*
                    Op::Threefry(op) => OpClass::RandomBits(op),
                    Op::BindSize(op) => OpClass::Binding(op),
                    Op::Custom(op) => OpClass::Custom(op),
                }
            }
        }
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

impl Op {
    /// Returns which axes of the operands have the lanes of an axis of the results; `None` if the results are not made lane by lane
    /// along it, or are not known to be. What control flow does is that of its bodies, which it does not look at.
    pub fn lanes_along(&self, axis: usize, operands: &[&TensorType], results: &[&TensorType]) -> Option<Lanes> {
        let all = || Some(smallvec![Some(axis); operands.len()]);
        let beside = |own: usize, lanes: &[Option<usize>]| (axis != own).then(|| lanes.into());
        match self.class() {
            OpClass::Elementwise(_) | OpClass::Movement(Movement::Bitcast(_)) => all(),
            OpClass::Movement(Movement::Reshape(op)) => op.lanes_along(axis, operands, results),
            OpClass::Movement(Movement::Broadcast(op)) => op.lanes_along(axis, operands, results),
            OpClass::Movement(Movement::Transpose(op)) => Some(smallvec![Some(op.axes[axis])]),
            OpClass::Movement(Movement::Concat(op)) => all().filter(|_| axis != op.axis),
            OpClass::Movement(Movement::Slice(op)) => beside(op.axis, &[Some(axis)]),
            OpClass::Movement(Movement::Reverse(op)) => beside(op.axis, &[Some(axis)]),
            OpClass::Movement(Movement::Pad(op)) => beside(op.axis, &[Some(axis), None]),
            OpClass::Indexing(Indexing::DynamicSlice(op)) => beside(op.axis, &[Some(axis), None]),
            OpClass::Indexing(Indexing::DynamicUpdate(op)) => beside(op.axis, &[Some(axis), Some(axis), None]),
            OpClass::Indexing(Indexing::Scatter(op)) => beside(op.axis, &[Some(axis); 3]),
            OpClass::Indexing(Indexing::Take(op)) => op.lanes_along(axis, operands),
            OpClass::Indexing(Indexing::Gather(op)) => Some(smallvec![(axis != op.axis).then_some(axis), Some(axis)]),
            OpClass::Along(Along::Reduce(op)) => op.lanes_along(axis, operands),
            OpClass::Along(Along::ArgMax(op)) => Some(smallvec![Some(axis + usize::from(axis >= op.axis))]),
            OpClass::Along(Along::Cumulative(op)) => beside(op.axis, &[Some(axis)]),
            OpClass::Along(Along::Sort(op)) => all().filter(|_| axis != op.axis),
            OpClass::Product(Product::MatMul(op)) => op.lanes_along(axis, results),
            OpClass::Product(Product::Conv(op)) => op.lanes_along(axis),
            OpClass::RandomBits(_) => all().filter(|_| axis + 1 < operands[0].rank()),
            OpClass::Creation(_) | OpClass::Binding(_) | OpClass::Control(_) => None,
            OpClass::Custom(custom) => custom.op.lanes_along(axis, operands, results),
        }
    }

    /// Returns in which operands the op is linear, as an op on real numbers.
    pub fn linearity(&self) -> Linearity {
        match self.class() {
            OpClass::Elementwise(Elementwise::Unary(op)) => op.linearity(),
            OpClass::Elementwise(Elementwise::Binary(op)) => op.linearity(),
            OpClass::Elementwise(Elementwise::Select(_)) => Linearity::Together(&[1, 2]),
            OpClass::Elementwise(Elementwise::Bits(_) | Elementwise::Compare(_) | Elementwise::Predicate(_)) => {
                Linearity::None
            }
            OpClass::Elementwise(Elementwise::Cast(_) | Elementwise::NextAfter(_) | Elementwise::Polygamma(_)) => {
                Linearity::None
            }
            OpClass::Movement(Movement::Bitcast(_)) => Linearity::None,
            OpClass::Movement(_) => Linearity::InAll,
            OpClass::Indexing(Indexing::DynamicSlice(_) | Indexing::Take(_) | Indexing::Gather(_)) => {
                Linearity::Together(&[0])
            }
            OpClass::Indexing(Indexing::DynamicUpdate(_)) => Linearity::Together(&[0, 1]),
            OpClass::Indexing(Indexing::Scatter(op)) => match op.mode {
                ScatterMode::Set | ScatterMode::Add => Linearity::Together(&[0, 2]),
                ScatterMode::Mul | ScatterMode::Max | ScatterMode::Min => Linearity::None,
            },
            OpClass::Along(Along::Reduce(op)) => op.kind.linearity(),
            OpClass::Along(Along::Cumulative(op)) => op.kind.linearity(),
            OpClass::Along(Along::ArgMax(_) | Along::Sort(_)) => Linearity::None,
            OpClass::Product(_) => Linearity::Each(&[0, 1]),
            OpClass::Creation(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => Linearity::None,
            OpClass::Control(_) | OpClass::Custom(_) => Linearity::OfBodies,
        }
    }

    /// Returns what an element of a result costs.
    pub fn work(&self) -> Work {
        match self.class() {
            OpClass::Movement(_) | OpClass::Creation(Creation::Constant(_)) => Work::Nothing,
            OpClass::Indexing(Indexing::Scatter(_)) => Work::Element,
            OpClass::Indexing(Indexing::DynamicSlice(_) | Indexing::DynamicUpdate(_)) => Work::Nothing,
            OpClass::Indexing(Indexing::Take(_) | Indexing::Gather(_)) => Work::Nothing,
            OpClass::Elementwise(_) | OpClass::Along(_) | OpClass::RandomBits(_) => Work::Element,
            OpClass::Creation(Creation::Iota(_) | Creation::Size(_)) => Work::Element,
            OpClass::Binding(_) | OpClass::Custom(_) => Work::Element,
            OpClass::Product(_) => Work::Terms,
            OpClass::Control(_) => Work::Bodies,
        }
    }

    /// Tells whether the op surely ends, and what it reads of operands of these types surely is there. Its bodies may be refused
    /// all the same.
    pub fn surely_runs(&self, operands: &[&TensorType], known: &Known<'_>) -> bool {
        match self.class() {
            OpClass::Movement(Movement::Slice(Slice { axis, start, limit, .. })) => {
                known.is_at_least(&operands[0].shape[*axis], limit) && known.is_at_least(limit, start)
            }
            OpClass::Indexing(Indexing::DynamicSlice(op)) => known.is_at_least(&operands[0].shape[op.axis], &op.size),
            OpClass::Indexing(Indexing::DynamicUpdate(op)) => {
                known.is_at_least(&operands[0].shape[op.axis], &operands[1].shape[op.axis])
            }
            OpClass::Indexing(Indexing::Take(Take { axis }) | Indexing::Gather(Gather { axis })) => {
                known.has_elements(operands[0], *axis)
            }
            OpClass::Along(Along::ArgMax(op)) => known.has_elements(operands[0], op.axis),
            OpClass::Binding(_) => operands[0].dtype.is_unsigned(),
            OpClass::Control(Control::Scan(op)) => op.rows_are_there(operands, known),
            OpClass::Control(Control::While(op)) => op.bound.is_some(),
            OpClass::Control(Control::Switch(_) | Control::AssociativeScan(_) | Control::Call(_)) => true,
            OpClass::Elementwise(
                Elementwise::Unary(_) | Elementwise::Binary(_) | Elementwise::Bits(_) | Elementwise::Compare(_),
            ) => true,
            OpClass::Elementwise(
                Elementwise::Predicate(_) | Elementwise::Select(_) | Elementwise::Cast(_) | Elementwise::NextAfter(_),
            ) => true,
            OpClass::Elementwise(Elementwise::Polygamma(_)) => true,
            OpClass::Movement(Movement::Reshape(_) | Movement::Transpose(_) | Movement::Broadcast(_)) => true,
            OpClass::Movement(Movement::Reverse(_) | Movement::Pad(_) | Movement::Concat(_) | Movement::Bitcast(_)) => {
                true
            }
            OpClass::Creation(Creation::Constant(_) | Creation::Iota(_) | Creation::Size(_)) => true,
            OpClass::Product(Product::MatMul(_) | Product::Conv(_)) => true,
            OpClass::Indexing(Indexing::Scatter(_)) | OpClass::RandomBits(_) => true,
            OpClass::Along(Along::Reduce(_) | Along::Cumulative(_) | Along::Sort(_)) => true,
            OpClass::Custom(custom) => !custom.op.may_be_refused(),
        }
    }

    /// Tells whether results in half precision differ by more than a rounding from those in f32 if the op is computed in half
    /// precision.
    pub fn loses_digits(&self) -> bool {
        match self.class() {
            OpClass::Elementwise(Elementwise::Unary(_) | Elementwise::Binary(_) | Elementwise::Polygamma(_)) => true,
            OpClass::Elementwise(Elementwise::Bits(_) | Elementwise::Compare(_) | Elementwise::Predicate(_)) => false,
            OpClass::Elementwise(Elementwise::Select(_) | Elementwise::Cast(_) | Elementwise::NextAfter(_)) => false,
            OpClass::Along(Along::Cumulative(_)) | OpClass::Product(Product::Conv(_)) => true,
            OpClass::Along(Along::Reduce(_) | Along::ArgMax(_) | Along::Sort(_)) => false,
            OpClass::Product(Product::MatMul(_)) => false,
            OpClass::Movement(_) | OpClass::Creation(_) | OpClass::Indexing(Indexing::DynamicSlice(_)) => false,
            OpClass::Indexing(Indexing::DynamicUpdate(_) | Indexing::Take(_) | Indexing::Gather(_)) => false,
            OpClass::Indexing(Indexing::Scatter(_)) | OpClass::RandomBits(_) => false,
            OpClass::Binding(_) | OpClass::Control(_) => false,
            OpClass::Custom(custom) => custom.op.loses_digits(),
        }
    }
}
