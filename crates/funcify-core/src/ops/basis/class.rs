//! The properties of an op that the passes query: its class, and how its results depend on its operands.
//!
//! Each property is stated explicitly for every op, never by a default. The `match` expressions list all ops, unless
//! the class alone determines the property: for example, the lanes of an elementwise op are independent, and data
//! movement computes nothing. Properties that depend on an op's attributes are defined in the op's own file. The crate
//! does not compile until all these expressions, and the passes that match on classes, handle a new op.

use smallvec::{SmallVec, smallvec};

use crate::graph::KnownSizes;
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
            /// Returns the class of the op, with a reference to the op.
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

/// The class of an op, with a reference to the op.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::Graph;
/// use funcify::ops::{Movement, OpClass};
///
/// let graph = Graph::build("reversed", |g| g.input("x", "f32[T]").reverse(0))?;
/// assert!(matches!(graph.nodes()[0].op.class(), OpClass::Movement(Movement::Reverse(_))));
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum OpClass<'a> {
    /// Each element of the result depends only on the operands' elements at the same position.
    Elementwise(Elementwise<'a>),
    /// The op moves elements and computes nothing.
    Movement(Movement<'a>),
    /// The result depends on attributes and sizes only.
    Creation(Creation<'a>),
    /// The op reads or writes elements at positions given by an operand.
    Indexing(Indexing<'a>),
    /// The op combines or sorts elements along axes.
    Along(Along<'a>),
    /// The op sums products of elements of its two operands.
    Product(Product<'a>),
    /// The op computes random bits from keys and counters.
    RandomBits(&'a Threefry),
    /// The op binds a size symbol to a number that the program computes.
    Binding(&'a BindSize),
    /// The op runs bodies.
    Control(Control<'a>),
    /// The op is defined in another crate.
    Custom(&'a Custom),
}

classes! {
    /// Ops in which each element of the result depends only on the operands' elements at the same position.
    Elementwise: Unary, Binary, Bits, Compare, Predicate, Select, Cast, NextAfter, Polygamma;
    /// Ops that move elements and compute nothing.
    Movement: Reshape, Transpose, Broadcast, Slice, Reverse, Pad, Concat, Bitcast;
    /// Ops whose results depend on attributes and sizes only.
    Creation: Constant, Iota, Size;
    /// Ops that read or write elements at positions given by an operand.
    Indexing: DynamicSlice, DynamicUpdate, Take, Gather, Scatter;
    /// Ops that combine or sort elements along axes.
    Along: Reduce, ArgMax, Cumulative, Sort;
    /// Ops that sum products of elements of their two operands.
    Product: MatMul, Conv;
    /// Ops that run bodies.
    Control: Scan, While, Switch, AssociativeScan, Call;
}

/// The operand axes that correspond to an axis of the results, one entry per operand. Index `i` along the results' axis
/// depends only on index `i` along the operand's axis. An entry is `None` if every index along the results' axis may
/// depend on the whole operand.
pub type Lanes = SmallVec<[Option<usize>; 4]>;

/// The operands in which an op is linear (additive and homogeneous).
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linearity {
    /// The op is not linear in any operand.
    None,
    /// The op is jointly linear in these operands, like an addition.
    Together(&'static [usize]),
    /// The op is jointly linear in all operands.
    InAll,
    /// The op is linear in each of these operands separately, like a multiplication.
    Each(&'static [usize]),
    /// The linearity is determined by the op's bodies, or by the rules of a custom op.
    DependsOnBodies,
}

/// The cost of computing one element of a result.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// No work: the element already exists, possibly at a different position.
    Nothing,
    /// About one arithmetic operation.
    Element,
    /// One multiplication and one addition for each term of a sum of products.
    Terms,
    /// The cost of running the bodies.
    Bodies,
}

impl Op {
    /// Returns, for each operand, the axis that corresponds to `axis` of the results: see [`Lanes`]. Returns `None` if
    /// the indices along `axis` are not computed independently. Always returns `None` for control flow, because the
    /// method does not inspect bodies.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::ops::{Op, Reverse};
    /// use funcify::{DType, TensorType};
    ///
    /// let (op, ty) = (Op::from(Reverse { axis: 0 }), TensorType::new(DType::F32, ["T", "B"]));
    /// assert_eq!(op.lanes_along(1, &[&ty], &[&ty]).as_deref(), Some([Some(1)].as_slice()));
    /// assert!(op.lanes_along(0, &[&ty], &[&ty]).is_none());
    /// ```
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

    /// Returns the operands in which the op is linear over the real numbers, ignoring rounding.
    #[doc(hidden)]
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
            OpClass::Control(_) | OpClass::Custom(_) => Linearity::DependsOnBodies,
        }
    }

    /// Returns the cost of computing one element of a result.
    #[doc(hidden)]
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

    /// Returns `true` if the op is guaranteed to succeed for operands of these types and the sizes in `known`: it
    /// terminates, reads only within bounds, and binds no negative size. Does not inspect bodies, which may still fail.
    #[doc(hidden)]
    pub fn is_certain_to_succeed(&self, operands: &[&TensorType], known: &KnownSizes<'_>) -> bool {
        match self.class() {
            OpClass::Movement(Movement::Slice(Slice { axis, start, limit, .. })) => {
                known.is_at_least(&operands[0].shape[*axis], limit) && known.is_at_least(limit, start)
            }
            OpClass::Indexing(Indexing::DynamicSlice(op)) => known.is_at_least(&operands[0].shape[op.axis], &op.size),
            OpClass::Indexing(Indexing::DynamicUpdate(op)) => {
                known.is_at_least(&operands[0].shape[op.axis], &operands[1].shape[op.axis])
            }
            OpClass::Indexing(Indexing::Take(Take { axis }) | Indexing::Gather(Gather { axis })) => {
                known.has_elements(operands[0], *axis) || known.is_empty(operands[1])
            }
            OpClass::Along(Along::ArgMax(op)) => known.has_elements(operands[0], op.axis),
            OpClass::Binding(_) => operands[0].dtype.is_unsigned(),
            OpClass::Control(Control::Scan(op)) => op.has_all_rows_given(operands, known),
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
            OpClass::Custom(custom) => !custom.op.may_fail_at_run_time(),
        }
    }

    /// Returns the dimensions that the op uses, except those in the types of its operands, results and bodies: the bounds of
    /// a slice, the widths of a padding, the dimension of a `size`, and the number of steps or the bound of a loop.
    #[doc(hidden)]
    pub fn own_dims(&self) -> Vec<Dim> {
        match self.class() {
            OpClass::Movement(Movement::Slice(op)) => vec![op.start.clone(), op.limit.clone()],
            OpClass::Movement(Movement::Pad(op)) => vec![op.low.clone(), op.high.clone()],
            OpClass::Creation(Creation::Size(op)) => vec![op.dim.clone()],
            OpClass::Control(_) => self.sizes().dim.map(|(_, dim)| dim.clone()).into_iter().collect(),
            // The attributes of a custom op may also contain words, which look like symbols.
            OpClass::Custom(_) => {
                let attributes = self.attributes();
                let dims = attributes.iter().flat_map(|(_, attribute)| attribute.dims().iter().cloned());
                dims.filter(|dim| dim.symbols().iter().any(|symbol| symbol.name().starts_with('$'))).collect()
            }
            OpClass::Elementwise(_) | OpClass::Movement(_) | OpClass::Creation(_) | OpClass::Indexing(_) => Vec::new(),
            OpClass::Along(_) | OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => Vec::new(),
        }
    }

    /// Returns `true` if the op is less accurate when computed in half precision than when computed in f32 and rounded
    /// once.
    #[doc(hidden)]
    pub fn loses_precision_in_half(&self) -> bool {
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
            OpClass::Custom(custom) => custom.op.loses_precision_in_half(),
        }
    }
}
