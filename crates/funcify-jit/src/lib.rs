//! Compiles loops over a few vectors to machine code at run time.
//!
//! If the body of a loop consists of a few dozen operations on numbers, an interpreter takes one to three nanoseconds
//! per operation, and spends most of this time waiting for values in memory. Machine code keeps the values in registers
//! between iterations. [Cranelift](https://cranelift.dev) generates the code in a few microseconds per operation.
//!
//! A [`Builder`] records the operations of one iteration. The resulting [`Routine`] runs on slices:
//!
//! ```
//! use funcify_jit::{Buffer, Functions, Routine, Span};
//!
//! // y[t] = y[t - 1] / 2 + x[t], for vectors of four.
//! let routine = Routine::new(4, Functions::NONE, |builder| {
//!     let [state, xs, ys] = [builder.stream(), builder.stream(), builder.stream()];
//!     let half = builder.number(0.5);
//!     let y = builder.load(state, 0, 4);
//!     let y = builder.register(y);
//!     builder.begin();
//!     let (last, x) = (builder.get(y), builder.load(xs, 0, 4));
//!     let next = builder.mul_add(half, last, x);
//!     builder.store(next, ys, 0, 4);
//!     builder.set(y, next);
//!     builder.store_after_loop(y, state, 0, 4);
//! })?;
//!
//! let (mut state, xs, mut ys) = ([8.0f32; 4], [1.0f32; 12], [0.0f32; 12]);
//! let mut buffers = [Buffer::Write(&mut state), Buffer::Read(&xs), Buffer::Write(&mut ys)];
//! let stays = Span { buffer: 0, unit: 0, at: 0, step: 0 };
//! let spans = [stays, Span { buffer: 1, step: 4, ..stays }, Span { buffer: 2, step: 4, ..stays }];
//! assert_eq!(routine.run(&mut buffers, &spans, 3)?, 3);
//! assert_eq!(ys, [5.0, 5.0, 5.0, 5.0, 3.5, 3.5, 3.5, 3.5, 2.75, 2.75, 2.75, 2.75]);
//! assert_eq!(state, [2.75; 4]);
//! # Ok::<(), funcify_jit::Error>(())
//! ```
//!
//! Read the modules in this order: `number` (element types, and functions that routines call), `builder` (building a
//! loop), `operations` (arithmetic on vectors), `product` (a row times a matrix), `routine` (running the code, and the
//! only unsafe code). **Invariant:** a routine accesses only elements within its buffers. [`Routine::run`] checks the
//! bounds before it runs the code.

mod builder;
mod error;
mod number;
mod operations;
mod product;
mod routine;

pub use builder::{Builder, Register, Stream, Value};
pub use error::Error;
pub use number::{Functions, Number};
pub use operations::{Bits, Comparison, Mask};
pub use product::{Matrix, RegisterRow};
pub use routine::{Buffer, Routine, Span};
