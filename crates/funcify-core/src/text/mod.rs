//! Parses the text form (`.fir`) of graphs, and exports graphs to Graphviz. The printer is in `graph/print.rs`.
//!
//! The text has one equation per line, with a type for each name that the equation defines, and with attributes in
//! braces. `//` begins a comment. The text round-trips: parsing a printed graph and printing it again yields the same
//! text.
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
//! All ops with bodies share one grammar. Each op supplies its keywords ([`Spelling`](crate::ops::form::Spelling)):
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
//! The first form is for ops with named bodies, the second for ops with a single unnamed body, such as a scan. In the
//! second form, each line before the equations declares parameters and names the rows or values that they hold, and
//! each line after the equations writes a row of a result or the next value of a carry. Results of the body that no
//! line writes are listed after a keyword of the op (`WORD`), such as `until`. Empty parts are omitted. Inside a body,
//! the values after `with` keep their outer names, or get the name that follows `as`. The step index is always called
//! `t`.
//!
//! A scan has the attribute `steps`, and may have `until`, `order=down` and `unroll=3`. Checkpointing is set by
//! `policy=save_all`, `segments=[32]` or `budget=65536` (see [`CheckpointPolicy`](crate::CheckpointPolicy)), and
//! truncated backpropagation by `truncate=3` (see [`ScanOptions::truncate`](crate::ScanOptions::truncate)).
//!
//! In `scan %n {steps=$1}`, the number of steps is the value of `%n`, and later lines can refer to this number as the
//! symbol `$1`. With `{steps=20, until=$1}`, the body ends with the line `until %stop`. The loop ends after the first
//! step in which `%stop` is `true`, and `$1` is the number of steps that ran.
//!
//! In the body of a scan, the sequences come first, then the buffers, then the carries. The keywords seq, nit-sot,
//! sit-sot, mit-sot and mit-mot are implied by the rest of the line, and the parser checks that they match. If the loop
//! runs upward, the taps of a sit-sot or mit-sot buffer count from the first row after the initial rows, so each step
//! writes the row with the tap `[t]`. All other taps count from row 0.
//!
//! `bind_size %n {size=$1}` has no results. It binds the symbol `$1` to the value of `%n`, so that later lines can use
//! the symbol, as in `%0: f32[$1] = slice %xs {axis=0, start=0, limit=$1, step=1}`.
//!
//! A switch contains one block per branch, and each block ends with the results of its branch. If the index is a
//! boolean, `false` selects case 0:
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
//! A while loop lists its initial carries, and contains the condition and the step:
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
//! An associative scan lists its leaves, and contains the function that combines two elements. It may have the
//! attribute `order=down`:
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
//! A call to a function with a custom derivative rule lists its arguments, and contains the function and the graphs of
//! the rule: `forward` and `backward` for a `custom_vjp`, or `tangent` for a `custom_jvp`.
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
//! In the graphs of a rule, `%r: f32[] = itself %a` calls the function whose derivatives the rule defines.
//!
//! Names do not round-trip in two cases. First, the parser names the results of a body after the targets of the body's
//! writes. Second, if two values share a name, the printer appends a number to the name of the second value.

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
    /// Parses a graph from its text form.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::Graph;
    ///
    /// let graph = Graph::build("double", |g| g.input("x", "f32[T]") * 2.0)?;
    /// let parsed = Graph::parse(&graph.to_string())?;
    /// assert!(parsed.difference(&graph).is_none());
    /// # Ok::<(), funcify::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Graph> {
        parse::parse(text)
    }

    /// Reads a graph from a file in the text form. Errors name the file.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::Graph;
    ///
    /// let graph = Graph::build("double", |g| g.input("x", "f32[T]") * 2.0)?;
    /// let path = std::env::temp_dir().join("funcify_read_example.fir");
    /// std::fs::write(&path, graph.to_string()).unwrap();
    /// assert!(Graph::read(&path)?.difference(&graph).is_none());
    /// # Ok::<(), funcify::Error>(())
    /// ```
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
