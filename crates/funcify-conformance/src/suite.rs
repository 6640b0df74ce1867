//! Cases as values: a graph, its inputs, and what it must give.

use std::collections::{BTreeMap, HashSet};

use funcify::dispatch::LoopStrategy;
use funcify::graph::ValueId;
use funcify::ops::Op;
use funcify::{DType, Dim, Graph, HostTensor, Symbol, TensorType};
use rayon::prelude::*;

use crate::cases;
use crate::derivatives;
use crate::golden::{GoldenCase, Manifest};

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

/// Every case of the suite, made side by side. The error is a case that cannot be made.
pub fn all_cases() -> Result<Vec<Case>, String> {
    type Group = fn() -> Result<Vec<Case>, String>;
    let groups: [Group; 6] = [
        all_golden_cases,
        cases::edge::cases,
        cases::numerics::cases,
        cases::random::cases,
        cases::layers::cases,
        cases_of_ops,
    ];
    let groups: Vec<Vec<Case>> = groups.par_iter().map(|cases| cases()).collect::<Result<_, _>>()?;
    Ok(groups.into_iter().flatten().collect())
}

/// The cases of single ops, after those of ops on lanes.
fn cases_of_ops() -> Result<Vec<Case>, String> {
    let ops = cases::ops::cases()?;
    let mut all = crate::lanes::cases(&ops)?;
    all.extend(ops);
    Ok(all)
}

/// Every case whose results the manifest of golden values has. The error is a case that cannot be made.
pub fn all_golden_cases() -> Result<Vec<Case>, String> {
    let manifest = Manifest::load()?;
    let by_name: BTreeMap<&str, &GoldenCase> = manifest.cases.iter().map(|case| (case.name.as_str(), case)).collect();
    let made = |(name, program): (&str, cases::Program)| {
        let golden = by_name.get(name).ok_or_else(|| format!("case `{name}` is not in the manifest"))?;
        golden_cases(golden, program).map_err(|reason| format!("case `{name}`: {reason}"))
    };
    let groups: Vec<Vec<Case>> = cases::programs().into_par_iter().map(made).collect::<Result<_, _>>()?;
    Ok(groups.into_iter().flatten().collect())
}

/// The case of a golden program, and those of its derivatives, for which the manifest has values too.
fn golden_cases(golden: &GoldenCase, program: cases::Program) -> Result<Vec<Case>, String> {
    let graph = cases::build(golden, program).map_err(|error| error.to_string())?;
    let tensors = golden.tensors()?;
    let mut all = vec![golden_case(golden, &tensors, &golden.category, graph.clone())?];
    for (category, derivative) in derivatives::ALL {
        if !golden.group(category).is_empty() {
            let of = derivative(&graph).map_err(|error| format!("{category}: {error}"))?;
            all.push(golden_case(golden, &tensors, category, of)?);
        }
    }
    Ok(all)
}

/// A case of one graph of a golden case.
fn golden_case(
    golden: &GoldenCase,
    tensors: &BTreeMap<String, HostTensor>,
    category: &str,
    graph: Graph,
) -> Result<Case, String> {
    let tensor = |key: &str| tensors.get(key).cloned().ok_or_else(|| format!("no tensor `{key}`"));
    let first_present = |keys: Vec<String>| {
        let key = keys.iter().find(|key| tensors.contains_key(*key)).cloned();
        key.ok_or_else(|| format!("no tensor {}", keys.join(" or ")))
    };
    let inputs = (0..graph.inputs().len())
        .map(|index| tensor(&first_present(derivatives::input_keys(graph.input_name(index)))?))
        .collect::<Result<Vec<_>, _>>()?;
    let tolerance = golden.tolerance.get(&golden.dtype).or(golden.tolerance.get("f64")).ok_or("no tolerance")?;
    let mut outputs = Vec::new();
    for output in graph.outputs() {
        let key = first_present(derivatives::output_keys(&output.name))?;
        let ty = golden.ty(&key).ok_or_else(|| format!("no type of `{key}`"))?;
        let atol = tolerance.atol.get(&key).copied().unwrap_or(0.0);
        outputs.push(ExpectedOutput {
            name: output.name.clone(),
            ty,
            values: tensor(&key)?,
            rtol: tolerance.rtol,
            atol,
        });
    }
    // The flag is also that of loops that end early and have a largest number of steps.
    let needs_dynamic_steps = golden.has_flag("needs_dynamic_trip_count") && !is_bounded(&graph);
    Ok(Case {
        name: format!("{category}/{}", golden.name),
        category: category.to_string(),
        graph,
        inputs,
        expected: Expected::Outputs(outputs),
        needs_dynamic_steps,
    })
}

/// Whether every loop has a largest number of steps that the sizes of a call give.
fn is_bounded(graph: &Graph) -> bool {
    has_bounds(graph, &mut HashSet::new())
}

/// [`is_bounded`], where `bounded` are the symbols that loops bind to numbers of steps with a largest one.
fn has_bounds(graph: &Graph, bounded: &mut HashSet<Symbol>) -> bool {
    graph.nodes().iter().all(|node| {
        // A loop that ends early binds its number of steps to a symbol of its own, and its backward loop has that number.
        let is_known = |dim: &Dim, bounded: &HashSet<Symbol>| {
            dim.symbols().iter().all(|symbol| !symbol.name().starts_with('$') || bounded.contains(*symbol))
        };
        let has_bound = match &node.op {
            Op::Scan(scan) if scan.steps_operand => follows(graph, node.inputs[0], &|dim| is_known(dim, bounded)),
            Op::Scan(scan) => is_known(&scan.steps, bounded),
            Op::While(op) => op.bound.is_some(),
            _ => true,
        };
        if let (true, Op::Scan(scan)) = (has_bound, &node.op) {
            bounded.extend(scan.until.clone());
            bounded.extend(scan.steps.as_symbol().filter(|_| scan.steps_operand).cloned());
        }
        has_bound && node.op.bodies().into_iter().all(|body| has_bounds(body, &mut bounded.clone()))
    })
}

/// Whether a number follows from constants and from such sizes alone.
fn follows(graph: &Graph, value: ValueId, is_known: &dyn Fn(&Dim) -> bool) -> bool {
    let node = graph.nodes().iter().find(|node| node.outputs.contains(&value));
    node.is_some_and(|node| match &node.op {
        Op::Constant(_) => true,
        Op::Size(size) => is_known(&size.dim),
        Op::Unary(_) | Op::Binary(_) | Op::Cast(_) => node.inputs.iter().all(|input| follows(graph, *input, is_known)),
        _ => false,
    })
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
