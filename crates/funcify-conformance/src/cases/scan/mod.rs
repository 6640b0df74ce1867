//! Category `scan`: scans with carries, sequences and ys.

mod batched;
mod carries;
mod counts;
mod outputs;
mod running;
mod sequences;

use super::Programs;

pub(super) const PROGRAMS: [Programs; 6] =
    [running::PROGRAMS, carries::PROGRAMS, counts::PROGRAMS, outputs::PROGRAMS, sequences::PROGRAMS, batched::PROGRAMS];
