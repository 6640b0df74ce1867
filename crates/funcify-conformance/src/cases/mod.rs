//! The cases: programs of the golden cases, one file a category, in the order of the manifest; `edge`, whose expected
//! values stand beside the programs; and `ops`, single ops whose results are the reference evaluation's.
//!
//! A program follows the definition in the manifest. It takes its inputs by name, with the types that the
//! manifest gives them, so one program serves the f32 and the f64 variant.

mod cond;
mod dtype;
pub(crate) mod edge;
mod map;
mod mit_mot;
mod model;
mod nested;
pub(crate) mod ops;
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
}

/// The outputs of a program by name.
pub type Outputs = BTreeMap<&'static str, Value>;

/// Builds the graph of a golden case.
pub type Program = fn(&Inputs<'_>) -> Outputs;

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
pub fn programs() -> Vec<(&'static str, Program)> {
    [
        scan::PROGRAMS,
        taps::PROGRAMS,
        mit_mot::PROGRAMS,
        while_loops::PROGRAMS,
        cond::PROGRAMS,
        map::PROGRAMS,
        nested::PROGRAMS,
        dtype::PROGRAMS,
        model::PROGRAMS,
    ]
    .concat()
}

/// The graph of a golden case by its program.
pub fn build(case: &GoldenCase, program: Program) -> Result<Graph, Error> {
    Graph::build(&case.name, |builder| program(&Inputs { builder, case }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Manifest;

    /// Every program, evaluated by the reference, gives the golden outputs.
    #[test]
    fn programs_give_the_golden_outputs() {
        let manifest = Manifest::load().unwrap();
        let mut wrong = Vec::new();
        for (name, program) in programs() {
            let case = manifest.cases.iter().find(|case| case.name == name);
            let case = case.unwrap_or_else(|| panic!("`{name}` is not in the manifest"));
            if let Err(reason) = check(case, program) {
                wrong.push(format!("{name}: {reason}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    fn check(case: &GoldenCase, program: Program) -> Result<(), String> {
        let graph = build(case, program).map_err(|error| error.to_string())?;
        let tensors = case.tensors()?;
        let inputs: Vec<_> = (0..graph.inputs().len())
            .map(|index| tensors[&format!("in.{}", graph.input_name(index))].clone())
            .collect();
        let outputs = funcify::evaluate(&graph, &inputs).map_err(|error| error.to_string())?;
        let expected = case.group("out");
        if expected.len() != outputs.len() {
            return Err(format!("{} outputs, not {}", outputs.len(), expected.len()));
        }
        for (name, ty) in expected {
            let index = graph.outputs().iter().position(|output| output.name == name);
            let got = &outputs[index.ok_or_else(|| format!("no output `{name}`"))?];
            if got.ty() != ty {
                return Err(format!("output `{name}` is {}, not {ty}", got.ty()));
            }
            let key = format!("out.{name}");
            let tolerance = case.tolerance.get(&case.dtype).or(case.tolerance.get("f64")).ok_or("no tolerance")?;
            let atol = tolerance.atol.get(&key).copied().unwrap_or(0.0);
            for (got, expected) in got.to_f64_vec().into_iter().zip(tensors[&key].to_f64_vec()) {
                let same = got == expected || got.is_nan() && expected.is_nan();
                let close = (got - expected).abs() <= atol + tolerance.rtol * expected.abs();
                if !same && !close {
                    return Err(format!("output `{name}` has {got}, not {expected}"));
                }
            }
        }
        Ok(())
    }
}
