//! What a backend compiles as a whole, a program or a loop: what it is given, what it makes of it, and why it declines.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use funcify_core::error::{BackendError, Error, Place, Result};
use funcify_core::graph::Graph;
use funcify_core::types::Sizes;

/// What a backend compiles as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compiles {
    /// Nothing.
    Nothing,
    /// Loops, and programs with loops that have no products of matrices outside them; the rest of others runs op for op.
    Loops,
    /// Programs, with all their loops; or else their loops.
    Programs,
}

/// What [`Backend::compile_whole`](super::Backend::compile_whole) is given.
#[derive(Clone, Copy, Debug)]
pub struct WholeRequest<'a> {
    /// A program; or a loop, as a graph of one node, whose inputs are its operands and whose outputs are the results that
    /// are used.
    pub graph: &'a Graph,
    /// The sizes that it is compiled for.
    pub sizes: &'a Sizes,
    /// Whether it is the whole program.
    pub is_program: bool,
    /// How many bytes may be held beside arguments and results.
    pub memory_budget: u64,
    /// Whether it may [refuse](Outcome::Refused) operands when it runs, because something else can run in its place.
    pub may_refuse: bool,
}

/// A program or a loop that runs as a whole. The backend that compiled it can tell what it is
/// ([`Function::whole`](crate::Function::whole)).
pub trait Compiled<T>: Any + Send + Sync {
    /// Runs it: the graph's inputs in, its outputs out. It asks `stop` between steps, every so often.
    fn run(&self, operands: &[T], stop: &(dyn Fn() -> bool + Sync)) -> Result<Outcome<T>, BackendError>;
}

/// What a backend made of a program or a loop as a whole, or why it did not.
pub(crate) type CompileResult<T> = std::result::Result<Arc<dyn Compiled<T>>, Declined>;

/// What came of running something that was compiled.
#[derive(Debug)]
pub enum Outcome<T> {
    /// The results: on the heap, as they are moved through a few hands.
    Done(Vec<T>),
    /// It ended early, because `stop` said true.
    Stopped,
    /// It does not hold for these operands, and has computed nothing.
    Refused,
}

impl<T> Outcome<T> {
    /// The same with other results.
    pub fn try_map<U>(
        self,
        f: impl FnOnce(Vec<T>) -> Result<Vec<U>, BackendError>,
    ) -> Result<Outcome<U>, BackendError> {
        Ok(match self {
            Outcome::Done(results) => Outcome::Done(f(results)?),
            Outcome::Stopped => Outcome::Stopped,
            Outcome::Refused => Outcome::Refused,
        })
    }
}

/// Why something was not compiled as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declined {
    /// The op that stands in the way.
    pub op: String,
    /// What it is about it.
    pub reason: String,
    /// Whether it is no op's doing but a fault: what was compiled is wrong, which is an error, and nothing runs in its place.
    is_fault: bool,
}

impl Declined {
    /// An op and what it is about it.
    pub fn new(op: impl Into<String>, reason: impl Into<String>) -> Self {
        Declined { op: op.into(), reason: reason.into(), is_fault: false }
    }

    /// Says that what was compiled does not compute what the program means. It becomes [`Error::Internal`], and nothing runs in its
    /// place.
    pub fn fault(reason: impl Into<String>) -> Self {
        Declined { op: "plan".into(), reason: reason.into(), is_fault: true }
    }

    /// Returns itself, or the error that a fault is.
    pub(crate) fn unless_fault(self, at: &Place, backend: &str) -> Result<Self> {
        if !self.is_fault {
            return Ok(self);
        }
        let fix =
            "please report it, with the program; `LoopStrategy::Native` runs without what was compiled".to_string();
        Err(Error::Internal { at: at.boxed(), backend: backend.to_string(), fault: self.reason, fix })
    }
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.op, self.reason)
    }
}

impl std::error::Error for Declined {}
