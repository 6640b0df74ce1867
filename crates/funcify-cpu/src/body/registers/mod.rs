//! Lowers loops over few elements to register code.
//!
//! An instruction over rows and lanes has a fixed overhead of about 20 ns. For loops whose instructions have only a few
//! elements each, register code is cheaper: a register op takes 1 to 3 ns, or more for exponentials and similar
//! functions.
//!
//! Data whose address is the same in every iteration stays in a register during the whole loop. Data whose address
//! changes is loaded and stored in each iteration. Small carries therefore never reach memory while the loop runs.
//!
//! A register holds a [`Piece`]: adjacent elements of up to 1, 2, 4 or 8 vectors, or a single element broadcast to all
//! lanes. The number of vectors is the same for all registers of a loop, and is chosen by cost. Lanes beyond the length
//! of a piece hold arbitrary values, which take part in computations but are never stored.
//!
//! A loop with a condition ends in the middle of an iteration, as soon as the condition is false.
//!
//! If the expected running time justifies it, register code is translated to machine code (`routine.rs`). Only machine
//! code supports products of one row with matrices.
//!
//! **Invariant:** the code computes exactly the same elements as the instructions, except for folds over more than one
//! vector of lanes. In these folds, the code first combines the lanes of each vector in order, and then the results of
//! the vectors in order.

mod chain;
mod lower;
mod run;

pub(super) use chain::chain;
pub(super) use lower::{Slicer, lower, lower_with_cost, sizes};
pub(super) use run::run;
#[cfg(feature = "jit")]
pub(super) use run::{Register, Vectors};

use crate::kernels::{Binary, Unary};
use crate::plan::DEPTH;

/// The number of registers that hold one vector. The index of a register is a `u8`. Registers that hold more vectors
/// are fewer, so all registers together have the same size.
pub(crate) const REGISTERS: usize = 256;

/// The body of a loop as register code.
#[derive(Clone, Default, Debug)]
pub(crate) struct RegisterCode<T> {
    /// The number of vectors in a register.
    pub(crate) vectors: usize,
    /// The ops that run in each iteration.
    pub(crate) ops: Vec<RegisterOp>,
    /// The pieces loaded before the first iteration, with their registers.
    pub(crate) loads: Vec<(u8, Piece)>,
    /// The constants, with their registers.
    pub(crate) numbers: Vec<(u8, T)>,
    /// The pieces stored after the last iteration, with their registers.
    pub(crate) stores: Vec<(u8, Piece)>,
    /// The pieces whose address changes between iterations, and the packed matrices.
    pub(crate) streams: Vec<Piece>,
    /// The products, which only machine code supports.
    pub(crate) products: Vec<Product>,
}

/// A sum of products, each of a row and a packed matrix.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub(crate) factors: Vec<Factor>,
    /// The registers that hold the initial values of the sums, or `None` if the sums start from 0.
    pub(crate) init: Option<Vec<u8>>,
    /// The registers of the result.
    pub(crate) to: Vec<u8>,
}

/// One term of a [`Product`]: a row times a packed matrix.
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
    /// Returns the pieces loaded before the loop, then the pieces stored after the loop, and then the streams.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        let outside = self.loads.iter().chain(&self.stores).map(|(_, piece)| piece);
        outside.chain(&self.streams)
    }

    /// Returns the estimated time of an iteration in nanoseconds. A register op takes `ns_per_op`, and `ns_per_vector`
    /// or `ns_per_function` for each vector of a register.
    pub(super) fn cost(&self, ns_per_op: f64, ns_per_vector: f64, ns_per_function: f64) -> f64 {
        let is_function = |op: &RegisterOp| matches!(op.verb, Verb::Unary(_) | Verb::Binary(_));
        let of_vector = |op: &RegisterOp| if is_function(op) { ns_per_function } else { ns_per_vector };
        let ops: f64 = self.ops.iter().map(|op| ns_per_op + of_vector(op) * self.vectors as f64).sum();
        let terms =
            |product: &Product| product.factors.iter().map(|factor| factor.inner).sum::<usize>() * product.to.len();
        ops + self.products.iter().map(terms).sum::<usize>() as f64 * (ns_per_op + ns_per_vector) / 2.0
    }

    /// Returns `true` if every piece has exactly one element.
    pub(super) fn is_single(&self) -> bool {
        self.pieces().all(|piece| piece.len == 1)
    }
}

/// An operation on registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegisterOp {
    pub(crate) verb: Verb,
    pub(crate) to: u8,
    pub(crate) from: [u8; 3],
}

/// The kind of a register op.
///
/// - `Load` reads stream `from[0]`, and `Store` writes register `from[0]` to stream `to`.
/// - `FoldLanes` folds the first `from[1]` lanes of `from[0]`, and broadcasts the result to all lanes.
/// - `EndUnless` ends the loop if the first lane of `from[0]` is 0.
/// - `Product` computes the product with index `from[0]`.
///
/// Verbs with `Last` in their name occur only in code for single elements. They use the previous op's result directly,
/// because reading it back from a register takes longer than an addition. In their descriptions, `last` is that result,
/// `a` is `from[0]` and `b` is `from[1]`.
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
    /// `last + a`.
    AddLast,
    /// `last - a`.
    SubFromLast,
    /// `a - last`.
    SubLast,
    /// `last * a`.
    MulLast,
    /// `last / a`.
    DivOfLast,
    /// `a / last`.
    DivByLast,
    /// `a * b + last`.
    MulAddLast,
    /// `last * a + b`.
    MulLastAdd,
    /// `last * a - b`.
    MulLastSub,
    /// `a * b - last`.
    MulSubLast,
    /// `last - a * b`.
    NegMulAddLast,
    /// `b - last * a`.
    NegMulLastAdd,
    SquareLast,
    NegLast,
    StoreLast,
    UnaryLast(Unary),
}

/// Adjacent elements of a region. Their address may change between iterations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Piece {
    pub(crate) region: usize,
    /// The offset of the piece from the start of the region, in elements, in the first iteration of this loop and of
    /// all enclosing loops.
    pub(crate) at: usize,
    /// The number of units that the piece advances per iteration of each loop, outermost first.
    pub(crate) steps: [isize; DEPTH],
    /// The number of elements. A single element is broadcast to all lanes of its register.
    pub(crate) len: usize,
}
