//! Category `edge`: trip counts, taps, captures and errors that some tensor libraries are known to handle differently
//! or incorrectly.
//!
//! The expected values are literals, or are computed by a plain Rust loop or by the reference evaluator. They never
//! come from the backend under test.

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

use funcify::{
    CheckpointPolicy, Disconnected, Element, checkpoint, custom_jvp, custom_vjp, fori_loop, grad_with, scan_until,
    while_loop_bounded,
};

use super::*;
use crate::cases::recurrences::{repeated, running, stencil, sweep};

/// Builds every case of the category.
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

/// Starts a case with a program that declares its own inputs. Set the arguments with `CaseDraft::on`.
fn case<T: Tree>(name: impl Into<String>, program: impl FnOnce(&Builder) -> T) -> CaseDraft {
    case_of(name, Graph::build("edge", program))
}

/// Starts a case with its inputs. Each input is a declaration with an argument: `("xs: f32[T]", row([1f32, 2.]))`.
fn case_on<const N: usize>(name: impl Into<String>, inputs: [(&'static str, HostTensor); N]) -> CaseInputs<N> {
    CaseInputs { name: name.into(), inputs }
}

/// A case with inputs but no program yet: `case_on(name, inputs).runs(program).gives(outputs)`.
struct CaseInputs<const N: usize> {
    name: String,
    inputs: [(&'static str, HostTensor); N],
}

impl<const N: usize> CaseInputs<N> {
    /// Sets the program, a function of the inputs.
    fn runs<T: Tree>(self, program: impl FnOnce([Value; N]) -> T) -> CaseDraft {
        let declared = self.inputs.each_ref().map(|(input, _)| input.split_once(": ").expect("`name: type`"));
        let inputs = self.inputs.map(|(_, value)| value);
        case(self.name, |g| program(declared.map(|(name, ty)| g.input(name, ty)))).on(inputs)
    }
}

/// Starts a case with a graph. Set the arguments with `CaseDraft::on`.
fn case_of(name: impl Into<String>, graph: Result<Graph, Error>) -> CaseDraft {
    CaseDraft { name: name.into(), graph, inputs: Vec::new(), atol: 0.0, needs_dynamic_steps: false }
}

/// Begins a case whose program is given in text form. Set the arguments with `CaseDraft::on`.
fn text(name: impl Into<String>, program: &str) -> CaseDraft {
    case_of(name, Graph::parse(program))
}

/// A case under construction: `case(name, program).on(inputs).gives(outputs)`.
struct CaseDraft {
    name: String,
    graph: Result<Graph, Error>,
    inputs: Vec<HostTensor>,
    atol: f64,
    needs_dynamic_steps: bool,
}

impl CaseDraft {
    /// Sets the arguments of the call.
    fn on(self, inputs: impl Into<Vec<HostTensor>>) -> CaseDraft {
        CaseDraft { inputs: inputs.into(), ..self }
    }

    /// Sets the absolute tolerance, for outputs close to zero.
    fn with_atol(self, atol: f64) -> CaseDraft {
        CaseDraft { atol, ..self }
    }

    /// Sets whether the maximum trip count of a loop is known only at run time.
    fn dynamic(self, needs_dynamic_steps: bool) -> CaseDraft {
        CaseDraft { needs_dynamic_steps, ..self }
    }

    /// Completes the case with the expected outputs and their names. Floats have a relative tolerance of 1e-6.
    fn gives<S: Into<String>>(self, outputs: impl IntoIterator<Item = (S, HostTensor)>) -> OneCase {
        let atol = self.atol;
        let output = |(name, values): (S, HostTensor)| {
            let rtol = if values.dtype().is_float() { 1e-6 } else { 0.0 };
            ExpectedOutput { name: name.into(), ty: values.ty(), values, rtol, atol }
        };
        let outputs = outputs.into_iter().map(output).collect();
        self.expects(Expected::Outputs(outputs))
    }

    /// Completes the case like `gives`, for a program with a loop whose maximum trip count is known only at run time.
    fn gives_dynamic<S: Into<String>>(self, outputs: impl IntoIterator<Item = (S, HostTensor)>) -> OneCase {
        self.dynamic(true).gives(outputs)
    }

    /// Completes the case with the kind of error that the call must return.
    fn fails(self, kind: &'static str) -> OneCase {
        self.expects(Expected::Error(kind))
    }

    /// Completes the case with the expected outputs or the expected error.
    fn expects(self, expected: Expected) -> OneCase {
        let CaseDraft { name, graph, inputs, needs_dynamic_steps, .. } = self;
        let graph = graph.map_err(|error| format!("case `edge/{name}`: {error}"))?;
        let (name, category) = (format!("edge/{name}"), "edge".to_string());
        Ok(Case { name, category, graph, inputs, expected, needs_dynamic_steps })
    }
}

/// Collects the cases, or returns the reason why one of them cannot be built.
fn all<const N: usize>(cases: [OneCase; N]) -> Cases {
    cases.into_iter().collect()
}

/// Creates a vector.
fn row<E: Element, const N: usize>(elements: [E; N]) -> HostTensor {
    tensor([N], elements)
}

/// Creates a tensor without elements.
fn empty<E: Element, const R: usize>(shape: [usize; R]) -> HostTensor {
    tensor::<E, R, 0>(shape, [])
}

/// Creates a tensor of this shape. Panics if the number of elements does not match the shape, which would be a bug in
/// the case.
#[track_caller]
fn tensor<E: Element, const R: usize, const N: usize>(shape: [usize; R], elements: [E; N]) -> HostTensor {
    HostTensor::from_vec(elements.to_vec(), shape).expect("the number of elements matches the shape")
}

/// Creates a scalar tensor.
fn scalar<E: Element>(element: E) -> HostTensor {
    HostTensor::scalar(element)
}
