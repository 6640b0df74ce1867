//! Backends that are wrong on purpose, each in one way. The conformance suite must catch every one.

mod interpreter;

use funcify::Result;
use funcify::dispatch::bind_sizes;
use funcify::error::{Place, Site};
use funcify::{Graph, HostTensor, TensorType};

use interpreter::Interpreter;

/// What is wrong with a backend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nothing.
    None,
    /// Each write lands before the reads for what the step computes next (scan-c1).
    ReadsAfterWrites,
    /// A sequence's row is the one after the right one; the last row repeats.
    SequenceTapOffByOne,
    /// A buffer's row is the one before the right one in the order of the loop; the first row repeats.
    BufferTapOffByOne,
    /// All reads of a sequence or buffer give the row of its first tap.
    OnlyFirstTap,
    /// Only the first of the rows that a step writes to a buffer is written.
    OnlyFirstWrite,
    /// Reads see the rows from before the first step.
    WritesNotSeen,
    /// The loop runs the other way (scan-c2).
    ReversedDirection,
    /// The outputs of a downward loop are in the order of the steps (scan-c2).
    TraceInStepOrder,
    /// What the last step writes to buffers is lost.
    LostLastRow,
    /// The last step does not run.
    LastStepNotRun,
    /// A loop of no steps runs one.
    ZeroStepsRunOne,
    /// Carries stay what they were initially.
    CarryNotReplaced,
    /// Carries are replaced one after the other, and each sees those already replaced.
    CarriesReplacedOneByOne,
    /// A loop that runs again, inside another, sees the invariants of its first run.
    InvariantsOfFirstRun,
    /// A loop that should end early runs to its largest number of steps (scan-c6).
    UntilNotRead,
    /// What the step writes that ends the loop is lost (scan-c6).
    StoppingStepDropped,
    /// The rows of the steps that did not run are left in the traces (scan-c6).
    RowsNotCut,
    /// They are cut off at the end, also in a downward loop (scan-c6).
    CutAtTheEnd,
    /// f64 results are rounded to f32.
    DoublesRoundedToSingle,
    /// Integer results are rounded to f32.
    IntegersRoundedToSingle,
}

impl Fault {
    /// Every fault, without [`Fault::None`].
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

/// What a backend with that fault gives, which interprets graphs naively: each op by its reference evaluation, loops by a loop of its
/// own.
pub fn call(fault: Fault, graph: &Graph, arguments: &[HostTensor]) -> Result<Vec<HostTensor>> {
    let at = Place::new(graph.name(), Site::Unknown);
    let types: Vec<TensorType> = arguments.iter().map(HostTensor::ty).collect();
    let sizes = bind_sizes(&at, graph, &types)?;
    Interpreter::new(fault, sizes).graph(graph, arguments.to_vec())
}
