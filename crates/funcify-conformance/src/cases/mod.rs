//! The cases: programs of the golden cases, one file a category; `edge`, whose expected
//! values stand beside the programs, as do those of `random`; `numerics`, one answer to each question on which libraries
//! differ; `layers`, the layers of `funcify::nn`; and `ops`, single ops whose results are the reference evaluation's.
//!
//! A program follows the definition in the manifest. It takes its inputs by name, with the types that the
//! manifest gives them, so one program serves the f32 and the f64 variant.

mod associative;
mod cond;
mod dtype;
pub(crate) mod edge;
mod gradient;
mod higher_order;
pub(crate) mod layers;
mod map;
mod mit_mot;
mod model;
mod nested;
pub(crate) mod numerics;
pub(crate) mod ops;
pub(crate) mod random;
mod recurrences;
mod scan;
mod taps;
mod while_loops;

use std::collections::BTreeMap;

use funcify::{Builder, Error, Graph, Value};

use crate::golden::GoldenCase;

/// The inputs of a golden case, declared as the program asks for them.
pub struct Inputs<'a> {
    builder: &'a Builder,
    case: &'a GoldenCase,
}

impl Inputs<'_> {
    /// The inputs of these names.
    #[track_caller]
    pub fn get<const N: usize>(&self, names: [&str; N]) -> [Value; N] {
        let types = self.case.group("in");
        names.map(|name| {
            let ty = types.iter().find(|(other, _)| other == name).map(|(_, ty)| ty.clone());
            let ty = ty.unwrap_or_else(|| panic!("case `{}` has no input `{name}`", self.case.name));
            self.builder.input(name, ty)
        })
    }

    /// Returns the input of this name.
    #[track_caller]
    fn input(&self, name: &str) -> Value {
        let [input] = self.get([name]);
        input
    }
}

/// The outputs of a program by name.
pub type Outputs = BTreeMap<&'static str, Value>;

/// Builds the graph of a golden case.
pub type Program = fn(&Inputs<'_>) -> Outputs;

/// Programs, each with the names of its cases.
type Programs = &'static [(&'static [&'static str], Program)];

/// `outputs! { carry, ys: trace }`: the outputs of a program by name.
macro_rules! outputs {
    ($($name:ident $(: $value:expr)?),* $(,)?) => {
        std::collections::BTreeMap::from([$((stringify!($name), $crate::cases::outputs!(@value $name $($value)?))),*])
    };
    (@value $name:ident) => { $name };
    (@value $name:ident $value:expr) => { $value };
}
use outputs;

/// Every program by the name of its case.
pub fn programs() -> BTreeMap<&'static str, Program> {
    let files = [
        taps::PROGRAMS,
        mit_mot::PROGRAMS,
        while_loops::PROGRAMS,
        cond::PROGRAMS,
        map::PROGRAMS,
        associative::PROGRAMS,
        nested::PROGRAMS,
        dtype::PROGRAMS,
        gradient::PROGRAMS,
        higher_order::PROGRAMS,
    ];
    let rows = scan::PROGRAMS.into_iter().chain(files).chain(model::PROGRAMS).flatten();
    rows.flat_map(|(names, program)| names.iter().map(|name| (*name, *program))).collect()
}

/// The graph of a golden case by its program.
pub fn build(case: &GoldenCase, program: Program) -> Result<Graph, Error> {
    Graph::build(&case.name, |builder| program(&Inputs { builder, case }))
}
