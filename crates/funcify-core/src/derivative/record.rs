//! The data that forward passes save for reverse rules.

use super::*;
use crate::ops::scan::LoopRecord;

/// The results of an op in a forward pass, and the data that the op saved for its reverse rule.
pub(crate) struct Forward {
    /// The results of the op.
    pub(crate) results: Vec<Value>,
    /// The data that the reverse rule needs in addition to the operands and results.
    pub(crate) record: Record,
}

impl Forward {
    /// Wraps the results of an op that saves nothing for its reverse rule.
    pub(crate) fn of(results: Vec<Value>) -> Self {
        Forward { results, record: Record::Nothing }
    }
}

/// The data that an op saves for its reverse rule.
#[derive(Debug)]
pub(crate) enum Record {
    /// No data: the reverse rule needs only the operands and results.
    Nothing,
    /// The data saved by a scan.
    Loop(LoopRecord),
    /// The residuals of each branch of a switch.
    Choice(Vec<Vec<(ValueId, Value)>>),
    /// The number of steps of a while loop.
    Steps(Value),
    /// The residuals that the `forward` closure of a `custom_vjp` returned.
    Residuals(Vec<Value>),
}

/// Records the error for a reverse rule whose data the forward pass did not save.
pub(crate) fn no_record(op: &str) -> Failed {
    let fix = "differentiate a program that `Graph::check` accepts";
    no_derivative(op, &[], "the op", "its forward pass has not saved the data that its reverse rule needs", fix)
}
