//! Category `taps`.

use super::Program;

pub(super) const PROGRAMS: &[(&str, Program)] = &[];
