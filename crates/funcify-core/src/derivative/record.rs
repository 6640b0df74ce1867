//! What forward passes keep for reverse rules.

use super::*;
use crate::ops::scan::LoopRecord;

/// An op that a forward pass has added.
pub(crate) struct Forward {
    /// Its results.
    pub(crate) results: Vec<Value>,
    /// What its reverse rule is given besides operands and results.
    pub(crate) record: Record,
}

impl Forward {
    /// An op that keeps nothing.
    pub(crate) fn of(results: Vec<Value>) -> Self {
        Forward { results, record: Record::Nothing }
    }
}

/// What an op keeps, each kind its own.
#[derive(Debug)]
pub(crate) enum Record {
    /// Nothing: operands and results are enough.
    Nothing,
    /// Of a loop.
    Loop(LoopRecord),
    /// Of a choice: for each branch the values that were kept of it.
    Choice(Vec<Vec<(ValueId, Value)>>),
    /// Of a conditional loop: the number of its steps.
    Steps(Value),
    /// Of a function with a reverse rule of its own: what its `forward` gave after the results.
    Residuals(Vec<Value>),
}

/// The error of a reverse rule whose forward pass has kept something else for it.
pub(crate) fn no_record(op: &str) -> Failed {
    let fix = "differentiate a program that `Graph::check` accepts";
    no_derivative(op, &[], "the op", "its forward pass has not kept what its reverse rule takes", fix)
}
