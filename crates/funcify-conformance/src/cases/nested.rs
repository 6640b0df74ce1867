//! Category `nested`.

use super::Program;

pub(super) const PROGRAMS: &[(&str, Program)] = &[];
