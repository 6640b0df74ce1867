//! Answers what every engine asks about a program with loops before it runs it.
//!
//! An engine that compiles whole loops asks the same questions of a checked [`Graph`], whatever it makes of it: tiles on a
//! processor, machine code, kernels of a GPU. This crate answers them, and knows graphs, values, axes and integers alone:
//!
//! - [`ParallelAxis`] finds an axis that stays parallel through all loops, so that its parts may run on different threads;
//! - [`Ranges`] bounds the integers of a program, so that an engine knows which of them a float holds exactly;
//! - [`TensorLayout`] says where the elements of a tensor lie: transposes, slices, broadcasts and reshapes move no element;
//! - [`ReadOrder`] tells which memory may be written while values are still to be read, and [`Contents`] which copies are still
//!   good.
//!
//! ```
//! use funcify_analysis::{Label, ParallelAxis};
//! use funcify_core::types::Sizes;
//! use funcify_core::{DType, Graph, scan};
//!
//! // A running sum over 20 steps, for 8 rows that know nothing of each other.
//! let graph = Graph::build("running", |g| {
//!     let (xs, init) = (g.input("xs", "f32[20,8]"), g.input("init", "f32[8]"));
//!     scan(init, xs, |total, x| (total + x, total + x))
//! })?;
//!
//! let sizes = Sizes::new();
//! let axis = ParallelAxis::find(&graph, &sizes, Some(DType::F32)).expect("rows do not meet");
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
