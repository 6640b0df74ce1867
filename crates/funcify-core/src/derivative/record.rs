//! The data that forward passes keep for reverse rules.

use super::*;
use crate::ops::scan::LoopRecord;

/// An op added by a forward pass.
pub(crate) struct Forward {
    /// Its results.
    pub(crate) results: Vec<Value>,
    /// The data for its reverse rule, in addition to operands and results.
    pub(crate) record: Record,
}

impl Forward {
    /// Creates an op that keeps no record.
    pub(crate) fn of(results: Vec<Value>) -> Self {
        Forward { results, record: Record::Nothing }
    }
}

/// The data that an op keeps for its reverse rule.
#[derive(Debug)]
pub(crate) enum Record {
    /// No data: operands and results suffice.
    Nothing,
    /// The record of a scan.
    Loop(LoopRecord),
    /// The record of a switch: the residuals of each branch.
    Choice(Vec<Vec<(ValueId, Value)>>),
    /// The record of a while loop: its number of steps.
    Steps(Value),
    /// The record of a function with a custom reverse rule: the residuals that its `forward` returned.
    Residuals(Vec<Value>),
}

/// Records the error that a reverse rule did not receive the record it needs.
pub(crate) fn no_record(op: &str) -> Failed {
    let fix = "differentiate a program that `Graph::check` accepts";
    no_derivative(op, &[], "the op", "its forward pass has not saved the data that its reverse rule needs", fix)
}
