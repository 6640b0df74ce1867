//! Category `scan`: a carry, sequences, stacked outputs.

mod batched;
mod carries;
mod counts;
mod outputs;
mod running;
mod sequences;

use funcify::Value;

use super::Programs;

pub(super) const PROGRAMS: [Programs; 6] =
    [running::PROGRAMS, carries::PROGRAMS, counts::PROGRAMS, outputs::PROGRAMS, sequences::PROGRAMS, batched::PROGRAMS];

/// What a body gives whose next carry is also its output.
fn traced(carry: Value) -> (Value, Value) {
    (carry, carry)
}
