//! Deliberately wrong backends, each with a single fault. The conformance suite must catch all of them.

mod interpreter;

use funcify::Result;
use funcify::dispatch::bind_sizes;
use funcify::error::{Place, Site};
use funcify::{Graph, HostTensor, TensorType};

use interpreter::Interpreter;

/// A fault that can be injected into the interpreter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// No fault.
    None,
    /// A step's reads see the writes of the same step (scan-c1).
    ReadsAfterWrites,
    /// Reads of a sequence are off by one: they return the next row, or the last row if there is no next one.
    SequenceTapOffByOne,
    /// Reads of a buffer are off by one: they return the previous row in execution order, or the first row if there is
    /// no previous one.
    BufferTapOffByOne,
    /// All reads of a sequence or a buffer return the row of its first tap.
    OnlyFirstTap,
    /// Only the first of a step's writes to a buffer takes effect.
    OnlyFirstWrite,
    /// Reads of a buffer return the rows that it had before the first step.
    WritesNotSeen,
    /// The loop runs in the opposite direction (scan-c2).
    ReversedDirection,
    /// A reversed loop returns its rows in execution order (scan-c2).
    TraceInStepOrder,
    /// The last step does not write to buffers.
    LostLastRow,
    /// The last step does not run.
    LastStepNotRun,
    /// A loop with zero steps runs one step.
    ZeroStepsRunOne,
    /// Carries keep their initial values.
    CarryNotReplaced,
    /// Carries are replaced one by one, so computing a carry's new value uses the new values of the carries before it.
    CarriesReplacedOneByOne,
    /// A nested loop that runs again reads the loop invariants of its first run.
    InvariantsOfFirstRun,
    /// A loop ignores its early exit and runs the maximum number of steps (scan-c6).
    UntilNotRead,
    /// The step that ends the loop early neither writes to buffers nor replaces carries (scan-c6).
    StoppingStepDropped,
    /// Buffers keep the rows of steps that did not run (scan-c6).
    RowsNotCut,
    /// The rows of steps that did not run are cut off at the end of a buffer, even in a reversed loop, where these rows
    /// are at the start (scan-c6).
    CutAtTheEnd,
    /// f64 results are rounded to f32.
    DoublesRoundedToSingle,
    /// Integer results are rounded to f32.
    IntegersRoundedToSingle,
}

impl Fault {
    /// All faults except [`Fault::None`].
    pub const ALL: [Fault; 20] = [
        Fault::ReadsAfterWrites,
        Fault::SequenceTapOffByOne,
        Fault::BufferTapOffByOne,
        Fault::OnlyFirstTap,
        Fault::OnlyFirstWrite,
        Fault::WritesNotSeen,
        Fault::ReversedDirection,
        Fault::TraceInStepOrder,
        Fault::LostLastRow,
        Fault::LastStepNotRun,
        Fault::ZeroStepsRunOne,
        Fault::CarryNotReplaced,
        Fault::CarriesReplacedOneByOne,
        Fault::InvariantsOfFirstRun,
        Fault::UntilNotRead,
        Fault::StoppingStepDropped,
        Fault::RowsNotCut,
        Fault::CutAtTheEnd,
        Fault::DoublesRoundedToSingle,
        Fault::IntegersRoundedToSingle,
    ];
}

/// Runs a graph on the interpreter with a fault. The interpreter runs loops, and the reference evaluator runs all other
/// ops.
pub fn call(fault: Fault, graph: &Graph, arguments: &[HostTensor]) -> Result<Vec<HostTensor>> {
    let at = Place::new(graph.name(), Site::Unknown);
    let types: Vec<TensorType> = arguments.iter().map(HostTensor::ty).collect();
    let sizes = bind_sizes(&at, graph, &types)?;
    Interpreter::new(fault, sizes).graph(graph, arguments.to_vec())
}
