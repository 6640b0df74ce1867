//! Represents the body of a loop as typed straight-line code over lanes, and runs it with a tile interpreter.
//!
//! A [`Body`] is a list of typed values. Each is a constant, is loaded from a stream (an array in memory), or is
//! computed from earlier values of the same lane. Some values are stored to streams. A [`Fused`] is a body with an
//! iteration space: the sizes of the axes over which it runs, and the strides of each stream along these axes.
//! [`Tiles`] runs a `Fused` block by block, so that intermediate values stay in the L1 cache.
//!
//! This crate uses neither graphs nor tensor libraries. A program's float type, `f32` or `f64`, is a type parameter of
//! the interpreter, so the same body runs with either type.
//!
//! ```
//! use funcify_body::{Body, Fused, IntBinary, Machine, Op, Streams, Tiles, Type};
//!
//! // y = 3 * x + 1 on 32-bit integers.
//! let mut body = Body::default();
//! let x = body.load(0, Type::I32);
//! let [three, one] = [3, 1].map(|number| body.integer(number, Type::I32));
//! let product = body.push(Op::Int(IntBinary::Mul), Type::I32, &[x, three]);
//! let sum = body.push(Op::Int(IntBinary::Add), Type::I32, &[product, one]);
//! body.store(sum, 1);
//! let fused = Fused::new(body, &[4], vec![vec![1], vec![1]]);
//!
//! struct Memory([Vec<i32>; 2]);
//! impl Streams for Memory {
//!     fn read(&self, stream: usize) -> &[u8] {
//!         bytemuck::cast_slice(&self.0[stream])
//!     }
//!     fn write(&mut self, stream: usize) -> &mut [u8] {
//!         bytemuck::cast_slice_mut(&mut self.0[stream])
//!     }
//!     fn write_beside(&mut self, to: usize, read: [Option<usize>; 4], run: impl FnOnce(&mut [u8], &[&[u8]; 4])) {
//!         let mut written = std::mem::take(&mut self.0[to]);
//!         run(bytemuck::cast_slice_mut(&mut written), &read.map(|read| read.map_or(&[][..], |read| self.read(read))));
//!         self.0[to] = written;
//!     }
//! }
//! # use pulp::bytemuck;
//! let mut memory = Memory([vec![0, 1, 2, i32::MAX], vec![0; 4]]);
//! Tiles::default().run_on::<f32>(Machine::detect(), &fused, &mut memory);
//! assert_eq!(memory.0[1], [1, 4, 7, i32::MAX - 1]);
//! ```

#![forbid(unsafe_code)]

mod block;
mod code;
mod convert;
pub mod float;
mod fused;
#[doc(hidden)]
pub mod integer;
mod ir;
#[doc(hidden)]
pub mod kernels;
pub mod machine;
mod pair_kernels;
mod pairs;
mod placement;
mod single;
mod tiles;
mod typed;

pub use code::Code;
pub use float::Float;
pub use fused::{Fused, Streams};
pub use ir::{Body, Compare, IntBinary, IntUnary, Node, Op, Type, Value};
pub use machine::{Machine, Translation};
pub use tiles::{Item, Tiles, with_tiles};
