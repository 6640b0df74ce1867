//! Defines cases as values: a graph, its inputs, and the expected result.

use funcify::dispatch::LoopStrategy;
use funcify::{DType, Graph, HostTensor, TensorType};

/// A case of the suite: a graph, its inputs, and the expected result.
///
/// ```
/// use funcify::Graph;
/// use funcify_conformance::Case;
///
/// let square = Graph::build("square", |g| g.input("x", "f32[2]").square()).unwrap();
/// let case = Case::from_reference("square", "mine", square, vec![[2f32, 3.0].into()])?;
/// assert_eq!(case.name, "mine/square");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct Case {
    /// The case's name, prefixed with its category, such as `scan/cumsum`.
    pub name: String,
    /// The case's category. The report's table has a row for each category.
    pub category: String,
    /// The program.
    pub graph: Graph,
    /// The arguments, in the order of the graph's inputs.
    pub inputs: Vec<HostTensor>,
    /// The result that a backend must return.
    pub expected: Expected,
    /// `true` if the maximum trip count of a loop is known only at run time. Unrolling the program must then fail with
    /// `StepCountNotStatic`.
    pub needs_dynamic_steps: bool,
}

/// The result that a backend must return for a case.
///
/// ```
/// use funcify::Graph;
/// use funcify_conformance::{Case, Expected};
///
/// let square = Graph::build("square", |g| g.input("x", "f32[2]").square()).unwrap();
/// let case = Case::from_reference("square", "mine", square, vec![[2f32, 3.0].into()])?;
/// assert!(matches!(case.expected, Expected::Outputs(outputs) if outputs[0].name == "out"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub enum Expected {
    /// The expected outputs. They are matched by name with the outputs of the backend.
    Outputs(Vec<ExpectedOutput>),
    /// An error of this kind ([`funcify::Error::kind`]).
    Error(&'static str),
}

/// A case, or the reason why it cannot be built.
pub(crate) type OneCase = Result<Case, String>;

/// A group of cases, or the reason why one of them cannot be built.
pub(crate) type Cases = Result<Vec<Case>, String>;

/// An expected output. Floats must satisfy `|got - expected| <= atol + rtol * |expected|`. Integers and booleans must
/// be equal.
///
/// ```
/// use funcify::{Graph, HostTensor};
/// use funcify_conformance::{Case, Expected};
///
/// let square = Graph::build("square", |g| g.input("x", "f32[2]").square()).unwrap();
/// let case = Case::from_reference("square", "mine", square, vec![[2f32, 3.0].into()])?;
/// let Expected::Outputs(outputs) = case.expected else { panic!("an error") };
/// assert_eq!(outputs[0].values, HostTensor::from([4f32, 9.0]));
/// assert_eq!(outputs[0].rtol, 1e-5);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct ExpectedOutput {
    /// The output's name.
    pub name: String,
    /// The output's type.
    pub ty: TensorType,
    /// The expected values. Floats of any type may be stored as f64.
    pub values: HostTensor,
    /// The relative tolerance.
    pub rtol: f64,
    /// The absolute tolerance.
    pub atol: f64,
}

impl Case {
    /// Builds a case that expects the outputs of the reference evaluator.
    ///
    /// ```
    /// use funcify::Graph;
    /// use funcify_conformance::Case;
    ///
    /// let square = Graph::build("square", |g| g.input("x", "f32[2]").square()).unwrap();
    /// let case = Case::from_reference("square", "mine", square, vec![[2f32, 3.0].into()])?;
    /// assert_eq!(case.category, "mine");
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// Returns the reason if the reference evaluator cannot run the graph.
    pub fn from_reference(name: &str, category: &str, graph: Graph, inputs: Vec<HostTensor>) -> Result<Case, String> {
        Case::from_reference_scaled(name, category, graph, inputs, 1.0)
    }

    /// Builds a case that expects the outputs of the reference evaluator. The absolute tolerance is proportional to
    /// `scale`. If the outputs are sums whose terms may cancel, pass the magnitude of these terms. Pass 0 if no terms
    /// cancel.
    ///
    /// ```
    /// use funcify::Graph;
    /// use funcify_conformance::{Case, Expected};
    ///
    /// // Terms of about 1000 that cancel.
    /// let sum = Graph::build("sum", |g| g.input("x", "f32[4]").sum(0)).unwrap();
    /// let inputs = vec![[1000f32, -1000.0, 999.0, -999.0].into()];
    /// let case = Case::from_reference_scaled("sum", "mine", sum, inputs, 1000.0)?;
    /// assert!(matches!(case.expected, Expected::Outputs(outputs) if outputs[0].atol > 9e-3));
    /// # Ok::<(), String>(())
    /// ```
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

    /// Returns the result that a backend must return in this mode.
    ///
    /// ```
    /// use funcify::Graph;
    /// use funcify::dispatch::LoopStrategy;
    /// use funcify_conformance::{Case, Expected};
    ///
    /// let square = Graph::build("square", |g| g.input("x", "f32[2]").square()).unwrap();
    /// let case = Case::from_reference("square", "mine", square, vec![[2f32, 3.0].into()])?;
    /// assert!(matches!(case.expected_in(LoopStrategy::Native), Expected::Outputs(_)));
    /// # Ok::<(), String>(())
    /// ```
    pub fn expected_in(&self, mode: LoopStrategy) -> Expected {
        match mode {
            LoopStrategy::Unroll if self.needs_dynamic_steps => Expected::Error("StepCountNotStatic"),
            _ => self.expected.clone(),
        }
    }
}

/// Returns the relative and absolute tolerances for comparing a backend with the reference evaluator, which computes in
/// f64 and rounds once per op.
///
/// The relative tolerance covers the errors of elementwise functions and of reassociated sums. The absolute tolerance
/// is the same fraction of `scale`, the magnitude of terms that cancel, plus the smallest normal number. Adding this
/// number allows for backends that flush subnormals to zero.
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
