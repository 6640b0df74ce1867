//! Loops of few elements as code for single elements.
//!
//! An instruction over rows and lanes costs some 20 ns before its first element. A loop whose instructions have a few
//! elements each is cheaper as code for registers of one element: 1 to 2 ns a word, exponentials and the like more.
//!
//! What lies at the same place in every iteration is in a register from the first iteration to the last; what moves with
//! the iterations is loaded and stored through a [`Stream`]. So carries of scalars never reach memory while the loop runs.
//!
//! **Invariant:** the code computes what the instructions do, element for element; sums are made in the order of the lanes.

mod lower;
mod run;

pub(crate) use lower::code;
pub(crate) use run::{Address, run};

use crate::kernels::{Binary, Unary};

/// How many registers there are: as many as a byte names.
const REGISTERS: usize = 256;

/// A loop's body as code.
#[derive(Clone, Debug)]
pub(crate) struct Code<T> {
    /// What runs in each iteration.
    words: Vec<Word>,
    /// What is loaded before the first iteration.
    loads: Vec<(u8, Element)>,
    /// Numbers that are in registers from the start.
    numbers: Vec<(u8, T)>,
    /// What is stored after the last iteration.
    stores: Vec<(u8, Element)>,
    /// What moves with the iterations.
    streams: Vec<Element>,
}

impl<T> Code<T> {
    /// What is read or written: what stays in registers first, and then the streams.
    pub(crate) fn elements(&self) -> impl Iterator<Item = &Element> {
        self.loads
            .iter()
            .map(|(_, element)| element)
            .chain(self.stores.iter().map(|(_, element)| element))
            .chain(&self.streams)
    }
}

/// One operation on registers.
#[derive(Clone, Copy, Debug)]
struct Word {
    verb: Verb,
    to: u8,
    from: [u8; 3],
}

/// What a word does. `Load` reads the stream `from[0]`, `Store` writes register `from[0]` to the stream `to`.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Verb {
    Load,
    Store,
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
    Unary(Unary),
    Binary(Binary),
}

/// An element of a region, for each iteration of the loops around.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Element {
    pub(crate) region: usize,
    /// Elements from the start of the region, in the first iteration of all loops.
    pub(crate) at: usize,
    /// Units that it moves with each iteration, the outermost loop first.
    pub(crate) steps: [isize; crate::plan::DEPTH],
}
