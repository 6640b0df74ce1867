//! Lowers loops over few elements to register code.
//!
//! An instruction over rows and lanes costs about 20 ns before its first element. A loop whose instructions have a
//! few elements each is cheaper as register code: 1 to 3 ns per register op, and more for exponentials and similar
//! functions.
//!
//! Data at the same place in every iteration stays in a register from the first iteration to the last; data that
//! moves with the iterations is loaded and stored. Small carries therefore never reach memory while the loop runs.
//!
//! A register holds a [`Piece`]: up to a vector of adjacent elements, or one element in all lanes. Lanes beyond the
//! length of a piece hold arbitrary values, which take part in computations but are never stored.
//!
//! A loop that a condition ends stops in the middle of an iteration.
//!
//! Code that runs long enough is translated to machine code (`routine.rs`), which also supports products of one row
//! with matrices.
//!
//! **Invariant:** the code computes the same values as the instructions, element for element; sums add the lanes in
//! order.

mod chain;
mod lower;
mod run;

pub(super) use chain::chain;
pub(super) use lower::{Slicer, lower, lower_with_cost};
pub(super) use run::run;
#[cfg(feature = "jit")]
pub(super) use run::{Register, Vector};

use crate::kernels::{Binary, Unary};
use crate::plan::DEPTH;

/// The number of registers: every value of a byte names one.
pub(crate) const REGISTERS: usize = 256;

/// The body of a loop as register code.
#[derive(Clone, Default, Debug)]
pub(crate) struct RegisterCode<T> {
    /// The ops that run in each iteration.
    pub(crate) ops: Vec<RegisterOp>,
    /// The pieces loaded before the first iteration, with their registers.
    pub(crate) loads: Vec<(u8, Piece)>,
    /// The constants, with their registers.
    pub(crate) numbers: Vec<(u8, T)>,
    /// The pieces stored after the last iteration, with their registers.
    pub(crate) stores: Vec<(u8, Piece)>,
    /// The pieces that move with the iterations, and packed matrices.
    pub(crate) streams: Vec<Piece>,
    /// The products, which only machine code supports.
    pub(crate) products: Vec<Product>,
}

/// A sum of rows times packed matrices.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub(crate) factors: Vec<Factor>,
    /// The registers with the initial values of the sums; `None` starts from 0.
    pub(crate) init: Option<Vec<u8>>,
    /// The registers of the result.
    pub(crate) to: Vec<u8>,
}

/// A row and the packed matrix that multiplies it.
#[derive(Clone, Debug)]
pub(crate) struct Factor {
    /// The registers of the row.
    pub(crate) row: Vec<u8>,
    /// The number of elements in the row.
    pub(crate) inner: usize,
    /// The stream of the packed matrix.
    pub(crate) packed: u8,
}

impl<T> RegisterCode<T> {
    /// Returns the pieces loaded before the loop, stored after it, and moving with it, in this order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        let outside = self.loads.iter().chain(&self.stores).map(|(_, piece)| piece);
        outside.chain(&self.streams)
    }

    /// Returns the estimated nanoseconds of an iteration. Each register op costs `ns_per_op`, and each op that
    /// evaluates a function costs `ns_per_function`.
    pub(super) fn cost(&self, ns_per_op: f64, ns_per_function: f64) -> f64 {
        let is_function = |op: &RegisterOp| matches!(op.verb, Verb::Unary(_) | Verb::Binary(_));
        let ops: f64 = self.ops.iter().map(|op| if is_function(op) { ns_per_function } else { ns_per_op }).sum();
        let terms =
            |product: &Product| product.factors.iter().map(|factor| factor.inner).sum::<usize>() * product.to.len();
        ops + self.products.iter().map(terms).sum::<usize>() as f64 * ns_per_op / 2.0
    }

    /// Returns whether every piece has one element.
    pub(super) fn is_single(&self) -> bool {
        self.pieces().all(|piece| piece.len == 1)
    }
}

/// One operation on registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegisterOp {
    pub(crate) verb: Verb,
    pub(crate) to: u8,
    pub(crate) from: [u8; 3],
}

/// The operation of a register op. `Load` reads the stream `from[0]`; `Store` writes register `from[0]` to the stream
/// `to`. `FoldLanes` folds the first `from[1]` lanes of `from[0]`, and puts the result in all lanes. `EndUnless` ends
/// the loop if the first lane of `from[0]` is 0. `Product` computes the product with the index `from[0]`.
///
/// Verbs with `Last` in their name belong to code for single elements. They take one operand directly from the
/// previous op, because reading it back from a register takes longer than an addition. The other operands are
/// `from[0]` and `from[1]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Verb {
    Load,
    Store,
    EndUnless,
    Copy,
    Neg,
    Square,
    Add,
    Sub,
    Mul,
    Div,
    Less,
    LessEqual,
    MulAdd,
    MulSub,
    NegMulAdd,
    Select,
    FoldLanes(crate::kernels::Fold),
    Product,
    Unary(Unary),
    Binary(Binary),
    /// last + a.
    AddLast,
    /// last - a.
    SubFromLast,
    /// a - last.
    SubLast,
    /// last * a.
    MulLast,
    /// last / a.
    DivOfLast,
    /// a / last.
    DivByLast,
    /// a * b + last.
    MulAddLast,
    /// last * a + b.
    MulLastAdd,
    /// last * a - b.
    MulLastSub,
    /// a * b - last.
    MulSubLast,
    /// last - a * b.
    NegMulAddLast,
    /// b - last * a.
    NegMulLastAdd,
    SquareLast,
    NegLast,
    StoreLast,
    UnaryLast(Unary),
}

/// Adjacent elements of a region. Their place depends on the iterations of the enclosing loops.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Piece {
    pub(crate) region: usize,
    /// The number of elements from the start of the region to the first one, in the first iteration of all loops.
    pub(crate) at: usize,
    /// The number of units that the piece moves per iteration of each loop, the outermost first.
    pub(crate) steps: [isize; DEPTH],
    /// The number of elements. A single element is held in all lanes of its register.
    pub(crate) len: usize,
}
