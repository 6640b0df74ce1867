//! The checker.
use super::Graph;
use crate::error::Error;

pub(super) fn check(_graph: &Graph) -> Vec<Error> {
    Vec::new()
}
