//! Cases as values: a graph, its inputs, and what it must give.

use funcify::dispatch::LoopStrategy;
use funcify::{DType, Graph, HostTensor, TensorType};

/// One case of the suite.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name: category and name, `scan/cumsum`.
    pub name: String,
    /// Its category, a row of the table.
    pub category: String,
    /// The program.
    pub graph: Graph,
    /// The arguments, in the order of the graph's inputs.
    pub inputs: Vec<HostTensor>,
    /// What a backend must give.
    pub expected: Expected,
    /// Whether a loop's largest number of steps is a value that only a running program knows. An unrolled program must
    /// then be refused with `StepCountNotStatic`.
    pub needs_dynamic_steps: bool,
}

/// What a backend must give.
#[derive(Clone, Debug)]
pub enum Expected {
    /// These outputs, by name.
    Outputs(Vec<ExpectedOutput>),
    /// An error of this kind ([`funcify::Error::kind`]).
    Error(&'static str),
}

/// A case, or why it cannot be made.
pub(crate) type OneCase = Result<Case, String>;

/// A group of cases, or why one cannot be made.
pub(crate) type Cases = Result<Vec<Case>, String>;

/// One expected output: `|got - expected| <= atol + rtol * |expected|`; integers and booleans are equal.
#[derive(Clone, Debug)]
pub struct ExpectedOutput {
    /// The output's name.
    pub name: String,
    /// The type that it has.
    pub ty: TensorType,
    /// Its values; floats may be held in f64, whatever the type.
    pub values: HostTensor,
    /// The relative tolerance.
    pub rtol: f64,
    /// The absolute tolerance.
    pub atol: f64,
}

impl Case {
    /// A case whose expected outputs are the reference evaluation's. The error is why that cannot be had.
    pub fn from_reference(name: &str, category: &str, graph: Graph, inputs: Vec<HostTensor>) -> Result<Case, String> {
        Case::from_reference_scaled(name, category, graph, inputs, 1.0)
    }

    /// A case whose expected outputs are the reference evaluation's, where results of this magnitude are added and
    /// may cancel: their error is relative to `scale`, not to what is left of them. 0 if nothing cancels.
    pub fn from_reference_scaled(
        name: &str,
        category: &str,
        graph: Graph,
        inputs: Vec<HostTensor>,
        scale: f64,
    ) -> Result<Case, String> {
        let results = funcify::evaluate(&graph, &inputs).map_err(|error| format!("case `{name}`: {error}"))?;
        let outputs = graph.outputs().iter().zip(results).map(|(output, values)| {
            let (rtol, atol) = reference_tolerance(values.dtype(), scale);
            ExpectedOutput { name: output.name.clone(), ty: values.ty(), values, rtol, atol }
        });
        let expected = Expected::Outputs(outputs.collect());
        let name = format!("{category}/{name}");
        Ok(Case { name, category: category.to_string(), graph, inputs, expected, needs_dynamic_steps: false })
    }

    /// What a backend must give in a mode.
    pub fn expected_in(&self, mode: LoopStrategy) -> Expected {
        match mode {
            LoopStrategy::Unroll if self.needs_dynamic_steps => Expected::Error("StepCountNotStatic"),
            _ => self.expected.clone(),
        }
    }
}

/// How far a backend may be from the reference evaluation, which computes in f64 and rounds once an op: a few units
/// in the last place of the dtype, for functions and for sums in another order. The absolute part is the same for
/// results of the magnitude `scale` that cancel, and at least the smallest normal number: what is below it may be
/// flushed to zero.
pub(crate) fn reference_tolerance(dtype: DType, scale: f64) -> (f64, f64) {
    let (rtol, smallest) = match dtype {
        DType::F16 => (2e-3, 2f64.powi(-14)),
        DType::BF16 => (2e-2, 2f64.powi(-126)),
        DType::F32 => (1e-5, f64::from(f32::MIN_POSITIVE)),
        DType::F64 => (1e-12, f64::MIN_POSITIVE),
        _ => return (0.0, 0.0),
    };
    (rtol, rtol * scale + smallest)
}
