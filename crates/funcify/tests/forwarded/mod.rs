//! Code shared by the test backends that use the reference backend's tensors. Supplements `tensors_of!`.

use std::sync::Arc;

use funcify::HostTensor;
use funcify::dispatch::{Compiled, Outcome};
use funcify::error::BackendError;

/// A tensor of the reference backend.
type OnHost = Arc<HostTensor>;

/// A compiled program that rejects all operands.
pub(crate) struct RejectingProgram;

impl Compiled<OnHost> for RejectingProgram {
    fn run(&self, _: &[OnHost], _: &(dyn Fn() -> bool + Sync)) -> Result<Outcome<OnHost>, BackendError> {
        Ok(Outcome::Refused)
    }
}
