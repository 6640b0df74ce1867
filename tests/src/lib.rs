//! What the tests across the crates share: an op and a backend as another crate would add them, backends that are wrong on
//! purpose, and a loop that is trained in both frameworks.

pub mod softplus;
pub mod toy;
pub mod training;
pub mod wrong;
