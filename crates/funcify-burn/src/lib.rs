//! The Burn backend of funcify: native loops on Burn's devices.
//!
//! [`Burn`] is a device: `Burn::flex()` or `Burn::ndarray()`. It runs programs on Burn's dispatched primitives, whose
//! rank is known at run time, without Burn's autodiff: funcify differentiates the graph itself. Loops run natively;
//! a trace is allocated once and its rows are written in place.
//!
//! ```
//! use funcify::HostTensor;
//! use funcify::dispatch::run_op;
//! use funcify::ops::{Binary, Op};
//! use funcify_burn::Burn;
//!
//! # #[cfg(feature = "flex")] {
//! let x = HostTensor::from_vec(vec![1f32, 2.0], [2]).unwrap();
//! let sum = run_op(&Burn::flex(), &Op::from(Binary::Add), &[x.clone(), x]).unwrap();
//! assert_eq!(sum[0], HostTensor::from_vec(vec![2f32, 4.0], [2]).unwrap());
//! # }
//! ```
//!
//! # Features
//! * `flex` (default): `Burn::flex()`, Burn's CPU device in plain Rust, with every dtype.
//! * `ndarray`: `Burn::ndarray()`, on the `ndarray` crate, up to rank 6; f16 and bf16 are f32 that is rounded
//!   after each op.
//! * `wgpu`: builds Burn with wgpu; no device of it is offered here.
//!
//! # Integers
//! Burn's integer arithmetic panics where this crate's ops are defined: overflow in a build with overflow checks,
//! division by zero, casts of numbers that the target cannot hold. Integer arithmetic is therefore done in host
//! memory, which on the CPU devices is where the elements are.

mod dtypes;
#[macro_use]
mod kinds;
mod data;
mod device;
#[macro_use]
mod on_host;
mod ops;

pub use device::Burn;
