//! Category `model`.

use super::Program;

pub(super) const PROGRAMS: &[(&str, Program)] = &[];
