//! Provides the analyses that every engine needs to compile whole loops.
//!
//! Engines that compile whole loops need the same analyses of a checked [`Graph`], whether they emit CPU tiles, machine
//! code or GPU kernels. This crate works on graphs, values, axes and integers, and does not depend on a particular
//! engine. It provides these analyses:
//!
//! - [`ParallelAxis`] finds an axis that stays parallel through all loops, so that different threads can process
//!   different parts of it;
//! - [`Ranges`] bounds the integers of a program, so that an engine knows which of them it can represent exactly as
//!   floats;
//! - [`TensorLayout`] locates the elements of a tensor, so that most transposes, slices, broadcasts and reshapes need
//!   no copy;
//! - [`ReadOrder`] determines which memory may be overwritten while some values have yet to be read, and [`Contents`]
//!   determines which copies are still valid.
//!
//! ```
//! use funcify_analysis::{Label, ParallelAxis};
//! use funcify_core::types::Sizes;
//! use funcify_core::{DType, Graph, scan};
//!
//! // A running sum over 20 steps, for 8 independent lanes.
//! let graph = Graph::build("running", |g| {
//!     let (xs, init) = (g.input("xs", "f32[20,8]"), g.input("init", "f32[8]"));
//!     scan(init, xs, |total, x| (total + x, total + x))
//! })?;
//!
//! let sizes = Sizes::new();
//! let axis = ParallelAxis::find(&graph, &sizes, Some(DType::F32)).expect("the lanes are independent");
//! assert_eq!(axis.size(), 8);
//! assert_eq!(axis.of(&graph, graph.inputs()[0].value), Label::Axis(1));
//! # Ok::<(), funcify_core::Error>(())
//! ```

#![forbid(unsafe_code)]

mod contents;
mod element;
mod innermost;
mod layout;
mod occupants;
mod order;
mod parallel;
mod ranges;

#[cfg(doc)]
use funcify_core::Graph;

pub use contents::{Contents, Version};
pub use element::{element_type, greatest_integer};
pub use layout::{TensorLayout, in_order};
pub use occupants::{Memory, Occupants};
pub use order::ReadOrder;
pub use parallel::{Label, ParallelAxis};
pub use ranges::{Possible, Ranges, all_ones};
