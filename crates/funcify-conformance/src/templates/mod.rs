//! Generates random programs that exercise the rules of the CPU engine's planner. For each transformation of a compiled
//! loop, some programs barely meet the transformation's condition, and others narrowly miss it.
//!
//! These conditions depend on sizes and on the order of reads and writes. The programs therefore read values before,
//! during and after the step that changes them: in the body, in a trace, after the loop and in other loops, directly
//! and through aliases. Sizes are just below or above each threshold, loops run in both directions, and some programs
//! combine two transformations. Each family documents the rules that it covers.
//!
//! A [`TemplateProgram`] is fully determined by its choices and can therefore be reproduced and shrunk.
//! [`check`](check()) runs a program, its gradient, and sometimes a second derivative and a batched version on each
//! subject, and compares the results with those of the reference evaluator. A [campaign](run_campaign) checks many
//! programs.

mod axes;
mod campaign;
mod check;
mod computed;
mod control;
mod draft;
mod extrema;
mod fill;
mod neighbours;
mod numbers;
mod parts;
mod places;
mod products;
mod rounding;
mod states;
mod step;
mod strips;
mod taps;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use funcify::{
    Builder, DType, Error, Graph, HostTensor, Scalar, ScanOptions, TensorType, Value, apply, checkpoint, concat,
    constant, evaluate, iota, scan_with, select, while_loop_bounded,
};

pub use campaign::{Campaign, Summary, Wrong, run_campaign};
pub use check::{Outcome, Stage, Subject, check};
use draft::Draft;
use fill::Fill;
use funcify::ops::{ReduceKind, ScatterMode};

use crate::arbitrary::{Choices, splitmix64};

type Make = fn(&Draft<'_, '_>) -> Vec<Value>;

/// The families of programs. Each has a name, and a function that builds its programs.
const FAMILIES: [(&str, Make); 28] = [
    ("elementwise in place", states::elementwise),
    ("positions in place", states::positions),
    ("sums of outer products", states::outer_products),
    ("moves", states::moves),
    ("registers", states::registers),
    ("states", states::any),
    ("strips", strips::strips),
    ("copies in registers", strips::copies),
    ("products", products::products),
    ("products of elements", products::terms),
    ("traces", places::traces),
    ("buffers", taps::buffers),
    ("recurrences", taps::recurrences),
    ("last rows", taps::last_rows),
    ("shares of parts", parts::shares),
    ("innermost axis", parts::innermost),
    ("products beside loops", parts::products_beside_loops),
    ("choices", control::choices),
    ("running reductions", control::running_reductions),
    ("early ends", control::early_ends),
    ("computed sizes", computed::sizes),
    ("integers", numbers::integers),
    ("fixed integers", numbers::fixed_integers),
    ("narrow floats", numbers::narrow_floats),
    ("words", numbers::words),
    ("axes", axes::axes),
    ("extrema", extrema::extrema),
    ("neighbours", neighbours::neighbours),
];

/// Returns the names of the families.
pub fn families() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|(name, _)| *name)
}

/// A random program, with the kind of elements of each input.
#[derive(Clone, Debug)]
pub struct TemplateProgram {
    /// The name of the program's family.
    pub family: &'static str,
    /// The program.
    pub graph: Graph,
    fills: Vec<Fill>,
}

impl TemplateProgram {
    /// Builds a program of the family with this index, as determined by the choices.
    ///
    /// # Errors
    /// Returns the error of [`Graph::build`] if the choices do not form a valid program.
    pub fn new(family: usize, choices: &mut Choices) -> Result<TemplateProgram, Error> {
        let (name, make) = FAMILIES[family % FAMILIES.len()];
        let dtype = choices.pick_weighted(&[(6, DType::F64), (4, DType::F32), (1, DType::F16), (1, DType::BF16)]);
        let shape = choices.below(10);
        let other = choices.below(FAMILIES.len());
        let mut fills = Vec::new();
        let graph = Graph::build("template", |builder| match shape {
            8 => {
                let draft = Draft::new(choices, builder, dtype);
                let first = make(&draft);
                draft.offer_as_inputs(&first);
                let second = FAMILIES[other].1(&draft);
                fills = draft.fills();
                [first, second].concat()
            }
            9 => nested(choices, builder, dtype, make, &mut fills),
            _ => {
                let draft = Draft::new(choices, builder, dtype);
                let outputs = make(&draft);
                fills = draft.fills();
                outputs
            }
        })?;
        Ok(TemplateProgram { family: name, graph, fills })
    }

    /// Creates the argument for an input with this name and type.
    fn tensor(&self, name: &str, dtype: DType, shape: &[usize], seed: u64) -> HostTensor {
        let place = name.strip_prefix('x').and_then(|number| number.parse::<usize>().ok());
        let fill = place.and_then(|place| self.fills.get(place)).copied().unwrap_or(Fill::Floats);
        fill.tensor(dtype, shape, seed.wrapping_mul(1009).wrapping_add(crate::arbitrary::splitmix64(hash(name))))
    }
}

fn hash(name: &str) -> u64 {
    name.bytes().fold(7, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)))
}

/// Builds a family's program in the body of an outer loop, which has its own carry. Rows of the outer loop's sequences
/// replace some of the family's inputs.
fn nested(choices: &mut Choices, builder: &Builder, dtype: DType, make: Make, fills: &mut Vec<Fill>) -> Vec<Value> {
    let (outer, rows_of) = (1 + choices.below(3), choices.below(1 << 12));
    // Build the program once and discard it, to record the inputs that the family requests.
    let requested_inputs = RefCell::new(Vec::new());
    let mut dry = choices.clone();
    _ = Graph::build("dry", |builder| {
        let draft = Draft::new(&mut dry, builder, dtype);
        let outputs = make(&draft);
        requested_inputs.replace(draft.requested_inputs());
        outputs
    });
    let requested_inputs = requested_inputs.into_inner();
    let is_row = |index: usize| !requested_inputs[index].1.contains(&0) && (rows_of >> (index % 12)) & 1 == 1;
    let (mut rows, mut fixed) = (Vec::new(), Vec::new());
    for (index, (dtype, shape, fill)) in requested_inputs.iter().enumerate() {
        fills.push(*fill);
        let sizes = if is_row(index) { [&[outer], shape.as_slice()].concat() } else { shape.clone() };
        let value = builder.input(&format!("x{index}"), TensorType::new(*dtype, draft::shape_from(&sizes)));
        if is_row(index) { rows.push(value) } else { fixed.push(value) }
    }
    let start = constant(HostTensor::scalar(0.125f64).cast(dtype));
    let (last, ys) = scan_with(ScanOptions::new().length(outer), start, rows, |carry, rows| {
        let (mut rows, mut fixed) = (rows.into_iter(), fixed.iter().copied());
        let next = |index: usize| if is_row(index) { rows.next() } else { fixed.next() };
        let mut given: Vec<Value> = (0..requested_inputs.len()).filter_map(next).collect();
        // Make the first value depend on the outer carry if both have the same dtype.
        if let Some(first) = given.first_mut().filter(|first| first.dtype() == dtype) {
            *first = *first + carry * 0.25;
        }
        let outputs = make(&Draft::inside(choices, builder, dtype, given));
        // Values whose size is known only inside a step cannot be ys of the outer loop.
        let outputs: Vec<Value> = outputs.into_iter().filter(|value| draft::shape_of(*value).is_some()).collect();
        let float = outputs.iter().find(|value| value.dtype() == dtype);
        let total = float.map(|value| if value.rank() == 0 { value.tanh() } else { value.sum(..).tanh() });
        (total.unwrap_or(carry), outputs)
    });
    [vec![last], ys].concat()
}
