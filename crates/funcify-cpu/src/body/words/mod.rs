//! Loops of few elements as code for registers of the processor.
//!
//! An instruction over rows and lanes costs some 20 ns before its first element. A loop whose instructions have a few
//! elements each is cheaper as code for registers: 1 to 3 ns a word, exponentials and the like more.
//!
//! What lies at the same place in every iteration is in a register from the first iteration to the last; what moves with
//! the iterations is loaded and stored. So small carries never reach memory while the loop runs.
//!
//! A register holds a [`Piece`]: up to a vector of elements side by side, or one element in all lanes. Lanes that a piece does
//! not have hold anything; they are computed along and never stored.
//!
//! A loop that a condition ends is left in the middle of an iteration.
//!
//! Code that runs long enough becomes machine code (`routine.rs`), which may have products, of one row with matrices.
//!
//! **Invariant:** the code computes what the instructions do, element for element; sums are made in the order of the lanes.

mod chain;
mod lower;
mod run;

pub(super) use chain::chain;
pub(super) use lower::{Slicer, code, lowered};
pub(super) use run::run;
#[cfg(feature = "jit")]
pub(super) use run::{Register, Vector};

use crate::kernels::{Binary, Unary};
use crate::plan::DEPTH;

/// How many registers there are: as many as a byte names.
pub(crate) const REGISTERS: usize = 256;

/// A loop's body as code.
#[derive(Clone, Default, Debug)]
pub(crate) struct Code<T> {
    /// What runs in each iteration.
    pub(crate) words: Vec<RegisterOp>,
    /// What is loaded before the first iteration.
    pub(crate) loads: Vec<(u8, Piece)>,
    /// Numbers that are in registers from the start.
    pub(crate) numbers: Vec<(u8, T)>,
    /// What is stored after the last iteration.
    pub(crate) stores: Vec<(u8, Piece)>,
    /// What moves with the iterations, and matrices.
    pub(crate) streams: Vec<Piece>,
    /// Products, for machine code.
    pub(crate) products: Vec<Product>,
}

/// A row times packed matrices, added up.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub(crate) factors: Vec<Factor>,
    /// The registers that the sums start from; without them, 0.
    pub(crate) init: Option<Vec<u8>>,
    /// The registers of the result.
    pub(crate) to: Vec<u8>,
}

/// A row and the matrix that it is multiplied with.
#[derive(Clone, Debug)]
pub(crate) struct Factor {
    /// The registers of the row.
    pub(crate) row: Vec<u8>,
    /// How many elements it has.
    pub(crate) inner: usize,
    /// The stream of the matrix, as it was packed.
    pub(crate) packed: u8,
}

impl<T> Code<T> {
    /// What is loaded before the loop, what is stored behind it, and what moves.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        let outside = self.loads.iter().chain(&self.stores).map(|(_, piece)| piece);
        outside.chain(&self.streams)
    }

    /// Nanoseconds of an iteration, if a word takes so many, and one with a function in it.
    pub(super) fn cost(&self, of_a_word: f64, of_a_function: f64) -> f64 {
        let is_function = |word: &RegisterOp| matches!(word.verb, Verb::Unary(_) | Verb::Binary(_));
        let words: f64 = self.words.iter().map(|word| if is_function(word) { of_a_function } else { of_a_word }).sum();
        let terms =
            |product: &Product| product.factors.iter().map(|factor| factor.inner).sum::<usize>() * product.to.len();
        words + self.products.iter().map(terms).sum::<usize>() as f64 * of_a_word / 2.0
    }

    /// Whether no piece has more than one element.
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

/// What a word does. `Load` reads the stream `from[0]`, `Store` writes register `from[0]` to the stream `to`. The folds give
/// that of the first lanes of `from[0]`, as many as `from[1]` says, in all lanes. `EndUnless` ends the loop where the first lane
/// of `from[0]` is 0. `Product` is the product whose number is `from[0]`.
///
/// Those with `Last` in their name are of code for single elements. They take one operand from the word before, as it was given:
/// what is read from a register waits until it is there, which takes longer than an addition. The other operands are `from[0]`
/// and `from[1]`.
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

/// Elements of a region, for each iteration of the loops around.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Piece {
    pub(crate) region: usize,
    /// Elements from the start of the region to the first one, in the first iteration of all loops.
    pub(crate) at: usize,
    /// Units that it moves with each iteration, the outermost loop first.
    pub(crate) steps: [isize; DEPTH],
    /// How many elements; of one it has the only one in all lanes.
    pub(crate) len: usize,
}
