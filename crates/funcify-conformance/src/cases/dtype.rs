//! Category `dtype`.

use super::Program;

pub(super) const PROGRAMS: &[(&str, Program)] = &[];
