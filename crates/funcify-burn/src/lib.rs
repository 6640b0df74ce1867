//! Connects funcify and Burn: a backend with native loops on Burn's devices, and funcify's loops in Burn models.
//!
//! # In a Burn model
//! * [`scan`]: runs a loop whose body is a closure on Burn tensors and modules, as one op of Burn's autodiff.
//! * [`RnnExt`]: runs any of Burn's own recurrent modules as one op.
//! * [`nn`]: recurrent layers, state space models and linear attention as Burn modules.
//! * [`Differentiable`]: runs any funcify graph as one op of Burn's autodiff.
//! * [`trace()`]: turns a closure on Burn tensors and modules into a funcify graph, which runs on every backend.
//!
//! # As a backend
//! [`Burn`] is a handle to a device: `Burn::flex()`, `Burn::ndarray()` or `Burn::wgpu()`. It runs programs on the
//! primitive tensors of Burn's `Dispatch` backend. The ranks of these tensors are known only at run time. Burn's
//! autodiff is not involved, because funcify differentiates the graph itself. On the CPU devices, the engine of
//! `funcify-cpu` compiles and runs whole f32 and f64 loops. All other loops run natively: each buffer of rows is
//! allocated once, and its rows are written in place.
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
//! * `flex` (default): `Burn::flex()`, Burn's CPU device in pure Rust. It supports every dtype.
//! * `ndarray`: `Burn::ndarray()`, Burn's CPU device based on the `ndarray` crate. It supports ranks up to 6. It stores
//!   f16 and bf16 as f32, and rounds after each op.
//! * `wgpu`: `Burn::wgpu()`, on Vulkan: a GPU, or Mesa's software driver. It supports ranks up to 8, but neither f64
//!   nor bf16. It stores u8 as u32, and truncates u8 results to 8 bits after each op. To use Burn's features `fusion`
//!   and `autotune`, enable them in your own `Cargo.toml`.
//!
//! # Integers
//! On the CPU devices, Burn's integer arithmetic panics in cases where funcify's ops have a defined result: overflow
//! (in builds with overflow checks), division by zero, and casts of numbers that the target type cannot represent. So
//! on these devices, this crate computes integer arithmetic itself, on the host. On wgpu, these cases do not panic, so
//! this crate uses Burn's integer ops. Where the result of a single Burn op would differ from that of funcify's op, the
//! crate combines several Burn ops.
//!
//! # Operations that wait for a wgpu device
//! Kernels, and the steps of native loops, are enqueued without waiting. These operations wait for the device:
//!
//! * downloads, and boolean arguments of a call;
//! * the conditions of `while` loops and of loops with early exit, and the predicates of `cond` and `switch`;
//! * `sort`, `lgamma`, `digamma`, `polygamma`, `cbrt`, `erfc`, integer `pow` and float `rem`, which are computed on the
//!   host.
//!
//! Random bits are generated on the device. Each op that generates them launches about 120 small kernels.

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

/// The declared gaps of each device in the conformance suite, with reasons.
#[doc(hidden)]
pub mod conformance {
    /// The declared gaps of `Burn::flex()`, as TOML.
    pub const FLEX: &str = include_str!("../conformance/flex.toml");
    /// The declared gaps of `Burn::ndarray()`, as TOML.
    pub const NDARRAY: &str = include_str!("../conformance/ndarray.toml");
    /// The declared gaps of `Burn::wgpu()`, as TOML.
    pub const WGPU: &str = include_str!("../conformance/wgpu.toml");
}
