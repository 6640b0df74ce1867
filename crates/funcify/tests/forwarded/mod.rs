//! Code shared by the test backends that use the reference backend's tensors through `tensors_of!`.

use std::sync::Arc;

use funcify::HostTensor;
use funcify::dispatch::{Compiled, Outcome};
use funcify::error::BackendError;

/// The tensor type of the reference backend.
type OnHost = Arc<HostTensor>;

/// A compiled program that rejects all operands.
pub(crate) struct RejectingProgram;

impl Compiled<OnHost> for RejectingProgram {
    fn run(&self, _: &[OnHost], _: &(dyn Fn() -> bool + Sync)) -> Result<Outcome<OnHost>, BackendError> {
        Ok(Outcome::Refused)
    }
}
