//! The cases of the suite.
//!
//! The golden programs are in one file per category. `edge` and `random` specify the expected values next to the
//! programs. `numerics` specifies one result for each edge case in which tensor libraries differ. `layers` covers the
//! layers of `funcify::nn`. `ops` covers single ops, with expected results from the reference evaluator.
//!
//! A golden program implements the definition of its cases in the manifest. Its inputs have the names and types given
//! in the manifest, so the same program serves the f32 and the f64 variant of a case.

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

use funcify::{
    AssociativeScanOptions, Builder, DType, Error, Graph, HostTensor, Recurrence, Scalar, ScanOptions, Shape, Tree,
    Value, VmapOptions, associative_scan_with, concat, cond, constant, hessian, iota, map, scan, scan_until_with,
    scan_with, select, size, vmap, vmap_with, while_loop,
};

use crate::case::{Case, Cases, Expected, ExpectedOutput, OneCase};
use crate::golden::GoldenCase;

/// The inputs of a golden case. A program declares them by name.
pub struct Inputs<'a> {
    builder: &'a Builder,
    case: &'a GoldenCase,
}

impl Inputs<'_> {
    /// Declares the inputs with these names and returns their values. Their types come from the manifest. Panics if the
    /// case lacks one of the inputs.
    fn get<const N: usize>(&self, names: [&str; N]) -> [Value; N] {
        let types = self.case.group("in");
        names.map(|name| {
            let ty = types.iter().find(|(other, _)| other == name).map(|(_, ty)| ty.clone());
            let ty = ty.unwrap_or_else(|| panic!("case `{}` has no input `{name}`", self.case.name));
            self.builder.input(name, ty)
        })
    }
}

/// The outputs of a program, keyed by name.
pub type Outputs = BTreeMap<&'static str, Value>;

/// A program, with the names of the golden cases that use it.
pub trait ProgramFn: Sync {
    /// Returns the names of the golden cases that use the program.
    fn cases(&self) -> &'static [&'static str];

    /// Declares the program's inputs, and returns its outputs.
    fn outputs(&self, inputs: &Inputs<'_>) -> Outputs;
}

/// A program that consists of the names of its inputs and a function from these inputs to the outputs.
struct NamedInputsProgram<const N: usize> {
    cases: &'static [&'static str],
    inputs: [&'static str; N],
    outputs: fn([Value; N]) -> Outputs,
}

impl<const N: usize> ProgramFn for NamedInputsProgram<N> {
    fn cases(&self) -> &'static [&'static str] {
        self.cases
    }

    fn outputs(&self, inputs: &Inputs<'_>) -> Outputs {
        (self.outputs)(inputs.get(self.inputs))
    }
}

/// Creates the program for the golden cases named in `cases`. `outputs` computes the program's outputs from the inputs
/// named in `inputs`.
const fn program<const N: usize>(
    cases: &'static [&'static str],
    inputs: [&'static str; N],
    outputs: fn([Value; N]) -> Outputs,
) -> NamedInputsProgram<N> {
    NamedInputsProgram { cases, inputs, outputs }
}

type Programs = &'static [&'static dyn ProgramFn];

/// Builds a map of named outputs: `outputs! { carry, ys: trace }`.
macro_rules! outputs {
    ($($name:ident $(: $value:expr)?),* $(,)?) => {
        std::collections::BTreeMap::from([$((stringify!($name), $crate::cases::outputs!(@value $name $($value)?))),*])
    };
    (@value $name:ident) => { $name };
    (@value $name:ident $value:expr) => { $value };
}
use outputs;

/// Returns the results of a body that uses `carry` as both the next carry and the y.
fn carry_as_output<T: Copy>(carry: T) -> (T, T) {
    (carry, carry)
}

/// Returns the results of a scan as the outputs `carry` and `ys` of a program.
fn scan_outputs((carry, ys): (Value, Value)) -> Outputs {
    outputs! { carry, ys }
}

/// Returns the program of each golden case, keyed by the case's name.
pub fn programs() -> BTreeMap<&'static str, &'static dyn ProgramFn> {
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
    rows.flat_map(|program| program.cases().iter().map(|name| (*name, *program))).collect()
}

/// Builds the graph of a golden case from its program.
pub fn build(case: &GoldenCase, program: &dyn ProgramFn) -> Result<Graph, Error> {
    Graph::build(&case.name, |builder| program.outputs(&Inputs { builder, case }))
}
