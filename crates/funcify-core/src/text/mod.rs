//! The text form (`.fir`), read, and Graphviz. Graphs print themselves (`graph/print.rs`).
//!
//! One equation a line, a type on every binder, attributes in braces; `//` begins a comment. Printing, parsing and
//! printing again gives the same text.
//!
//! ```text
//! fn @sums(%xs: f32[T,3], %rows: f32[1,3], %init: f32[3], %w: f32[3]) {
//!   %trace: f32[T+1,3], %last: f32[3] = scan @step {steps=T} with %w {
//!     seq %x: f32[3] = %xs[t]                          // the row of step t
//!     sit-sot %old: f32[3] = %trace[t-1] from %rows    // a buffer that the step reads and writes
//!     carry %c: f32[3] = %last from %init              // a state without a trace
//!     %0: f32[3] = mul %old, %w
//!     %1: f32[3] = add %0, %x
//!     %2: f32[3] = add %c, %1
//!     %trace[t] = %1                                   // what the step writes
//!     %last = %2                                       // the next carry
//!   }
//!   %3: f32[T,3] = slice %trace {axis=0, start=1, limit=T+1, step=1}
//!   return last=%last, rows=%3
//! }
//! ```
//!
//! All ops with bodies have one grammar; an op brings only its words ([`Spelling`](crate::ops::form::Spelling)):
//!
//! ```text
//! NAME %operand, .. {attribute=.., ..} {
//!   BODY @name (%param: type, ..) with %outer, .. {
//!     equations
//!     give %result, ..
//!   }
//! }
//! NAME @name %operand, .. {attribute=.., ..} with %outer, .. {
//!   ROLE %param: type, .. = %rows[t], .. from %initial
//!   equations
//!   %rows[t] = %result
//!   WORD %result, ..
//! }
//! ```
//!
//! The first form is for ops with named bodies, the second for those that are one body, such as the loop. There, lines say
//! which rows of which operand or result each parameter is, and where the results go; what is left follows the op's own
//! word. Each part is left out where it is empty. Inside, the values after `with` have the names that they have outside.
//! The number of the step is always called `t`.
//!
//! The attributes of a loop are `steps`, `until`, `order=down`, `unroll=3`; `policy=save_all`, `segments=[32]` or `budget=65536` (see
//! [`CheckpointPolicy`](crate::CheckpointPolicy)); `truncate=3` (see [`ScanOptions::truncate`](crate::ScanOptions::truncate)). With
//! an operand, `scan %n {steps=$1}`, the number of steps is the value of `%n`, which the symbol `$1` stands for from there on.
//! With `{steps=20, until=$1}` the loop ends after the first step in which the value of its
//! body's last line, `until %stop`, is true, and `$1` is the number of steps that ran. The lines come in
//! the order sequences, buffers, carries.
//! The words seq, nit-sot, sit-sot, mit-sot, mit-mot follow from the rest and are checked. A buffer that starts
//! with given rows, in an upward loop, writes row `t`; elsewhere a tap is a row's number.
//!
//! `bind_size %n {size=$1}` has no results: `$1` stands for the value of `%n` from there on, as in `%0: f32[$1] = slice %xs
//! {axis=0, start=0, limit=$1, step=1}`.
//!
//! A choice shows its branches as blocks, which end with what they give; the branch of a boolean that is false is case 0:
//!
//! ```text
//! %y: f32[] = switch %p {
//!   case 0 {
//!     %0: f32[] = constant 0.0
//!     give %0
//!   }
//!   case 1 with %x {
//!     %1: f32[] = sqrt %x
//!     give %1
//!   }
//! }
//! ```
//!
//! A conditional loop names its initial carries, and shows the condition and the step:
//!
//! ```text
//! %x: f32[] = while %start {bound=20} {
//!   test (%c: f32[]) with %limit {
//!     %0: bool[] = lt %c, %limit
//!     give %0
//!   }
//!   step (%c_1: f32[]) {
//!     %1: f32[] = add %c_1, %c_1
//!     give %1
//!   }
//! }
//! ```
//!
//! An associative scan names its leaves, may say `order=down`, and shows the combination of two elements:
//!
//! ```text
//! %p: f32[T], %h: f32[T] = associative_scan %a, %b {order=down} {
//!   combine (%a_0: f32[], %a_1: f32[], %b_0: f32[], %b_1: f32[]) {
//!     %0: f32[] = mul %b_0, %a_0
//!     %1: f32[] = mul %b_0, %a_1
//!     %2: f32[] = add %1, %b_1
//!     give %0, %2
//!   }
//! }
//! ```
//!
//! The call of a function with a derivative rule of its own names its arguments, and shows the function and the graphs of
//! the rule: `forward` and `backward` of a `custom_vjp`, or `tangent` of a `custom_jvp`.
//!
//! ```text
//! %y: f32[] = custom_vjp %x {
//!   function (%a: f32[]) {
//!     give %a
//!   }
//!   forward (%a_1: f32[]) {
//!     give %a_1
//!   }
//!   backward (%ct: f32[]) with %limit {
//!     %0: f32[] = min %ct, %limit
//!     give %0
//!   }
//! }
//! ```
//!
//! In the graphs of a rule, `%r: f32[] = itself %a` calls the function that it is the rule of.
//!
//! The text does not hold: the names of a body's results, which follow from what they are written to, and names
//! that two values share, of which the second gets a number.

mod attributes;
mod dot;
mod elements;
mod parse;
mod parse_bodies;
mod synonyms;
#[cfg(test)]
mod tests;

pub use dot::to_dot;
#[cfg(test)]
pub(crate) use parse::parse_op_text;

use crate::error::{Error, Place, Result, Site};
use crate::graph::Graph;

impl Graph {
    /// Reads a graph from its text form.
    pub fn parse(text: &str) -> Result<Graph> {
        parse::parse(text)
    }

    /// Reads a graph from a file in the text form, which an error names.
    #[track_caller]
    pub fn read(path: impl AsRef<std::path::Path>) -> Result<Graph> {
        let (path, site) = (path.as_ref(), Site::caller());
        let text = std::fs::read_to_string(path).map_err(|error| Error::File {
            at: Place::new("read", site).boxed(),
            path: path.display().to_string(),
            reason: error.to_string(),
            fix: String::new(),
        })?;
        Graph::parse(&text).map_err(|error| error.in_file(path))
    }
}
