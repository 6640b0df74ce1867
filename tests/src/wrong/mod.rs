//! Backends that are wrong on purpose, each in one way. The conformance suite must catch every one.

mod interpreter;

use funcify::Result;
use funcify::dispatch::bind_sizes;
use funcify::error::{Place, Site};
use funcify::{Graph, HostTensor, TensorType};

use interpreter::Interpreter;

/// The fault of a backend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// No fault.
    None,
    /// The reads of a step see the writes that the step has already made (scan-c1).
    ReadsAfterWrites,
    /// Reads of a sequence return the row after the right one; the last row repeats.
    SequenceTapOffByOne,
    /// Reads of a buffer return the row before the right one in the order of the loop; the first row repeats.
    BufferTapOffByOne,
    /// All reads of a sequence or buffer return the row of its first tap.
    OnlyFirstTap,
    /// Only the first of the rows that a step writes to a buffer is written.
    OnlyFirstWrite,
    /// Reads see the rows from before the first step.
    WritesNotSeen,
    /// The loop runs in the opposite direction (scan-c2).
    ReversedDirection,
    /// The outputs of a downward loop are in step order (scan-c2).
    TraceInStepOrder,
    /// The last step's writes to buffers are lost.
    LostLastRow,
    /// The last step does not run.
    LastStepNotRun,
    /// A loop of no steps runs one.
    ZeroStepsRunOne,
    /// Carries keep their initial values.
    CarryNotReplaced,
    /// Carries are replaced one after the other, and each sees those already replaced.
    CarriesReplacedOneByOne,
    /// A loop that runs again, inside another loop, reads the invariants of its first run.
    InvariantsOfFirstRun,
    /// A loop that should end early runs to its maximum number of steps (scan-c6).
    UntilNotRead,
    /// The writes of the step that ends the loop are lost (scan-c6).
    StoppingStepDropped,
    /// The traces keep rows for the steps that did not run (scan-c6).
    RowsNotCut,
    /// Rows of steps that did not run are cut off at the end, even in a downward loop (scan-c6).
    CutAtTheEnd,
    /// f64 results are rounded to f32.
    DoublesRoundedToSingle,
    /// Integer results are rounded to f32.
    IntegersRoundedToSingle,
}

impl Fault {
    /// Every fault except [`Fault::None`].
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

/// Runs a graph on a backend with this fault. The backend interprets graphs naively: it runs each op with the reference
/// evaluator, and loops with its own loop.
pub fn call(fault: Fault, graph: &Graph, arguments: &[HostTensor]) -> Result<Vec<HostTensor>> {
    let at = Place::new(graph.name(), Site::Unknown);
    let types: Vec<TensorType> = arguments.iter().map(HostTensor::ty).collect();
    let sizes = bind_sizes(&at, graph, &types)?;
    Interpreter::new(fault, sizes).graph(graph, arguments.to_vec())
}
