//! The Burn backend of funcify: native loops on Burn's devices, and funcify in Burn models.
//!
//! # In a Burn model
//! * [`scan`]: a loop whose body is a closure over Burn tensors and modules, as one op of Burn's autodiff.
//! * [`RnnExt`]: Burn's own recurrent modules, as one op each.
//! * [`nn`]: recurrent layers, state space models and linear attention as Burn modules.
//! * [`Differentiable`]: any graph of funcify as one op of Burn's autodiff.
//! * [`trace()`]: a closure over Burn tensors and modules as a graph of funcify, which runs on every backend.
//!
//! # As a backend
//! [`Burn`] is a device: `Burn::flex()`, `Burn::ndarray()` or `Burn::wgpu()`. It runs programs on Burn's dispatched primitives, whose
//! rank is a value, without Burn's autodiff: funcify differentiates the graph itself. In host memory, loops of f32 and
//! f64 run as a whole in the engine of `funcify-cpu`. All others run natively; a trace is allocated once and its rows are written in place.
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
//! * `wgpu`: `Burn::wgpu()`, on Vulkan: a GPU, or Mesa's software driver; without f64 and bf16, up to rank 8; u8 is u32
//!   that wraps after each op. Burn's features `fusion` and `autotune` are left to a program's own `Cargo.toml`.
//!
//! # Integers
//! Burn's integer arithmetic panics on the CPU devices where this crate's ops are defined: overflow in a build with
//! overflow checks, division by zero, casts of numbers that the target cannot hold. There integer arithmetic is done in
//! host memory, which is where the elements are. On wgpu it is done on the device, where nothing panics, with the rest
//! composed.
//!
//! # What waits for a wgpu device
//! Kernels are enqueued, and a native loop enqueues its steps. Waiting for the device are: downloads; boolean arguments of a call; the conditions of
//! `while` loops and of loops that end early, and the choices of `cond` and `switch`; and `sort`, `lgamma`, `digamma`,
//! `polygamma`, `cbrt`, `erfc`, integer `pow` and float `rem`, which are computed in host memory. Random bits are drawn on
//! the device, in some 120 small kernels for each draw.

#[macro_use]
mod kinds;
mod data;
mod device;
mod dtypes;
pub mod nn;
mod on_device;
#[macro_use]
mod on_host;
mod backend;
mod capture;
mod compiled;
mod ops;
mod plugin;
mod rnn;

pub use capture::{Scan, Sequences, Stacked, Trace, Weights, scan, trace};
pub use device::Burn;
pub use plugin::{AnyTensor, Differentiable, DifferentiableOptions, Leaves, TensorKind, Tensors};
pub use rnn::RnnExt;

/// The gaps that each device declares to the conformance suite.
#[doc(hidden)]
pub mod conformance {
    /// The gaps of `Burn::flex()`.
    pub const FLEX: &str = include_str!("../conformance/flex.toml");
    /// The gaps of `Burn::ndarray()`.
    pub const NDARRAY: &str = include_str!("../conformance/ndarray.toml");
    /// The gaps of `Burn::wgpu()`.
    pub const WGPU: &str = include_str!("../conformance/wgpu.toml");
}
