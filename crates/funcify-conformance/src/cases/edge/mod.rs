//! Category `edge`: step counts, taps, captures and errors at which tensor systems have been seen to differ or to be
//! wrong. A case's doc comment begins with the number of its line in the list of edge cases, if it has one.
//!
//! Expected values are written out. They follow from the definition of a case and never from the code under test.

mod aliasing;
mod associative;
mod associative_gradients;
mod backward;
mod bound_sizes;
mod buffers;
mod control;
mod counts;
mod dynamic;
mod exact_integers;
mod failures;
mod gradients;
mod lanes;
mod nested;
mod occupied;
mod paths;
mod permutations;
mod policy;
mod rounded_once;
mod rules;
mod rules_in_loops;
mod sizes;
mod solvers;
mod symbolic;
mod taps;
mod trees;
mod trimmed;
mod truncated;
mod until;
mod zeros;

use funcify::{Builder, Element, Graph, HostTensor, Tree};

use crate::suite::{Case, Expected, ExpectedOutput};

/// A group of cases, or why one cannot be made.
type Cases = Result<Vec<Case>, String>;

/// Every case of the category.
pub(crate) fn cases() -> Cases {
    let groups = [
        counts::cases()?,
        taps::cases()?,
        buffers::cases()?,
        aliasing::cases()?,
        occupied::cases()?,
        permutations::cases()?,
        nested::cases()?,
        symbolic::cases()?,
        dynamic::cases()?,
        exact_integers::cases()?,
        rounded_once::cases()?,
        trees::cases()?,
        trimmed::cases()?,
        truncated::cases()?,
        policy::cases()?,
        until::cases()?,
        bound_sizes::cases()?,
        control::cases()?,
        lanes::cases()?,
        associative::cases()?,
        associative_gradients::cases()?,
        failures::cases()?,
        gradients::cases()?,
        paths::cases()?,
        rules::cases()?,
        rules_in_loops::cases()?,
        sizes::cases()?,
        backward::cases()?,
        solvers::cases()?,
        zeros::cases()?,
    ];
    Ok(groups.into_iter().flatten().collect())
}

/// A case that gives these outputs, by name. Floats may differ by a few units in the last place.
fn gives<T: Tree, const N: usize, const M: usize>(
    name: &str,
    program: impl FnOnce(&Builder) -> T,
    inputs: [HostTensor; N],
    outputs: [(&str, HostTensor); M],
) -> Result<Case, String> {
    case(name, Graph::build("edge", program), inputs.to_vec(), outputs_of(outputs))
}

/// A case whose loop has a number of steps that only the running program knows.
fn gives_dynamic<T: Tree, const N: usize, const M: usize>(
    name: &str,
    program: impl FnOnce(&Builder) -> T,
    inputs: [HostTensor; N],
    outputs: [(&str, HostTensor); M],
) -> Result<Case, String> {
    Ok(Case { needs_dynamic_steps: true, ..gives(name, program, inputs, outputs)? })
}

/// A case that must be refused with an error of this kind when it is called.
fn fails<T: Tree, const N: usize>(
    name: &str,
    program: impl FnOnce(&Builder) -> T,
    inputs: [HostTensor; N],
    kind: &'static str,
) -> Result<Case, String> {
    case(name, Graph::build("edge", program), inputs.to_vec(), Expected::Error(kind))
}

fn outputs_of<const N: usize>(outputs: [(&str, HostTensor); N]) -> Expected {
    let output = |(name, values): (&str, HostTensor)| {
        let rtol = if values.dtype().is_float() { 1e-6 } else { 0.0 };
        ExpectedOutput { name: name.to_string(), ty: values.ty(), values, rtol, atol: 0.0 }
    };
    Expected::Outputs(outputs.map(output).into())
}

fn case(
    name: &str,
    graph: Result<Graph, funcify::Error>,
    inputs: Vec<HostTensor>,
    expected: Expected,
) -> Result<Case, String> {
    let graph = graph.map_err(|error| format!("case `edge/{name}`: {error}"))?;
    let (name, category) = (format!("edge/{name}"), "edge".to_string());
    Ok(Case { name, category, graph, inputs, expected, needs_dynamic_steps: false })
}

/// A case whose results may differ by this much where they are zero.
fn absolute(case: Case, atol: f64) -> Result<Case, String> {
    let Expected::Outputs(outputs) = case.expected else {
        return Err(format!("case `{}` has no outputs", case.name));
    };
    let outputs = outputs.into_iter().map(|output| ExpectedOutput { atol, ..output }).collect();
    Ok(Case { expected: Expected::Outputs(outputs), ..case })
}

/// A vector.
fn row<E: Element, const N: usize>(elements: [E; N]) -> HostTensor {
    tensor([N], elements)
}

/// A tensor without elements.
fn empty<E: Element, const R: usize>(shape: [usize; R]) -> HostTensor {
    tensor::<E, R, 0>(shape, [])
}

/// A tensor of that shape. A number of elements that the shape does not have is a mistake in a case.
#[track_caller]
fn tensor<E: Element, const R: usize, const N: usize>(shape: [usize; R], elements: [E; N]) -> HostTensor {
    HostTensor::from_vec(elements.to_vec(), shape).expect("as many elements as the shape has")
}

/// A scalar.
fn scalar<E: Element>(element: E) -> HostTensor {
    HostTensor::scalar(element)
}
