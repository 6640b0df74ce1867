//! Category `mit_mot`.

use super::Program;

pub(super) const PROGRAMS: &[(&str, Program)] = &[];
