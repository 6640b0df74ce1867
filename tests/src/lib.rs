//! What the tests across the crates share: an op and a backend as another crate would add them, and backends that are
//! wrong on purpose.

pub mod softplus;
pub mod toy;
pub mod wrong;
