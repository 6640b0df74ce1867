//! The Burn backend of funcify: native loops on Burn's devices, and funcify in Burn models.
//!
//! # In a Burn model
//! * [`scan`]: runs a loop whose body is a closure over Burn tensors and modules, as one op of Burn's autodiff.
//! * [`RnnExt`]: runs each of Burn's own recurrent modules as one op.
//! * [`nn`]: provides recurrent layers, state space models and linear attention as Burn modules.
//! * [`Differentiable`]: runs any funcify graph as one op of Burn's autodiff.
//! * [`trace()`]: turns a closure over Burn tensors and modules into a funcify graph, which runs on every backend.
//!
//! # As a backend
//! [`Burn`] is a device: `Burn::flex()`, `Burn::ndarray()` or `Burn::wgpu()`. It runs programs on Burn's dispatched
//! primitives, whose rank is a value, without Burn's autodiff: funcify differentiates the graph itself. In host
//! memory, the engine of `funcify-cpu` runs loops of f32 and f64 as a whole. All other loops run natively: each trace
//! is allocated once, and its rows are written in place.
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
//! * `flex` (default): `Burn::flex()`, Burn's CPU device in plain Rust. It supports every dtype.
//! * `ndarray`: `Burn::ndarray()`, Burn's CPU device on the `ndarray` crate. It supports ranks up to 6, and stores f16
//!   and bf16 as f32, rounded after each op.
//! * `wgpu`: `Burn::wgpu()`, on Vulkan: a GPU, or Mesa's software driver. It supports ranks up to 8, but neither f64
//!   nor bf16. It stores u8 as u32, wrapped after each op. Enable Burn's features `fusion` and `autotune` in your own
//!   `Cargo.toml`.
//!
//! # Integers
//! On the CPU devices, Burn's integer arithmetic panics in cases that this crate's ops define: overflow in a build
//! with overflow checks, division by zero, casts of numbers that the target cannot represent. So on these devices
//! this crate computes integer arithmetic itself, in host memory. On wgpu nothing panics, so integer arithmetic runs
//! on the device, and the remaining cases are composed of the device's ops.
//!
//! # Operations that wait for a wgpu device
//! Kernels are enqueued, and so are the steps of a native loop. These operations wait for the device:
//!
//! * downloads, and boolean arguments of a call;
//! * the conditions of `while` loops and of loops that end early, and the choices of `cond` and `switch`;
//! * `sort`, `lgamma`, `digamma`, `polygamma`, `cbrt`, `erfc`, integer `pow` and float `rem`, which are computed in
//!   host memory.
//!
//! Random bits are drawn on the device, in about 120 small kernels per draw.

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

/// The gaps that each device declares to the conformance suite, with reasons.
#[doc(hidden)]
pub mod conformance {
    /// The gaps of `Burn::flex()`.
    pub const FLEX: &str = include_str!("../conformance/flex.toml");
    /// The gaps of `Burn::ndarray()`.
    pub const NDARRAY: &str = include_str!("../conformance/ndarray.toml");
    /// The gaps of `Burn::wgpu()`.
    pub const WGPU: &str = include_str!("../conformance/wgpu.toml");
}
