//! Collects every case of the suite.

use std::collections::{BTreeMap, HashSet};

use funcify::dispatch::{LoopStrategy, Report};
use funcify::graph::ValueId;
use funcify::ops::Op;
use funcify::{Dim, Graph, HostTensor, Symbol};
use rayon::prelude::*;

use crate::case::{Case, Expected, ExpectedOutput};
use crate::cases;
use crate::derivatives;
use crate::golden::{GoldenCase, Manifest};
use crate::lanes;

/// Builds every case of the suite, in parallel. The error names a case that cannot be built.
///
/// ```no_run
/// let cases = funcify_conformance::all_cases()?;
/// println!("{} cases", cases.len());
/// # Ok::<(), String>(())
/// ```
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

/// The loops of the suite on a backend that compiles loops.
#[derive(Default, Debug)]
pub struct LoopCounts {
    /// The number of compiled loops.
    pub compiled: usize,
    /// The names of the cases with other loops, by the op and the reason.
    pub declined: BTreeMap<String, Vec<String>>,
}

impl LoopCounts {
    /// Counts the loops of a case, as reported by a function that requests compiled loops.
    pub fn add(&mut self, case: &Case, report: Report) {
        for each in report.loops {
            let reason = match each.declined {
                None if each.strategy == LoopStrategy::Compiled => {
                    self.compiled += 1;
                    continue;
                }
                None => format!("{}, not requested", each.op),
                Some(why) => format!("{}: {why}", each.op),
            };
            self.declined.entry(reason).or_default().push(case.name.clone());
        }
    }
}

/// Builds the cases of single ops: first the cases batched with `vmap`, then the original cases.
fn cases_of_ops() -> Result<Vec<Case>, String> {
    let ops = cases::ops::cases()?;
    let mut all = lanes::cases(&ops)?;
    all.extend(ops);
    Ok(all)
}

/// Builds every case that has golden values in the manifest, in the manifest's order. The error names a case that
/// cannot be built.
///
/// ```no_run
/// let cases = funcify_conformance::all_golden_cases()?;
/// println!("{} cases", cases.len());
/// # Ok::<(), String>(())
/// ```
pub fn all_golden_cases() -> Result<Vec<Case>, String> {
    let manifest = Manifest::load()?;
    let programs = cases::programs();
    let is_golden = |name: &str| manifest.cases.iter().any(|golden| golden.name == name);
    if let Some(name) = programs.keys().find(|name| !is_golden(name)) {
        return Err(format!("case `{name}` is not in the manifest"));
    }
    let made = |golden: &GoldenCase| {
        let name = golden.name.as_str();
        let program = programs.get(name).ok_or_else(|| format!("case `{name}` has no program"))?;
        golden_cases(golden, *program).map_err(|reason| format!("case `{name}`: {reason}"))
    };
    let groups: Vec<Vec<Case>> = manifest.cases.par_iter().map(made).collect::<Result<_, _>>()?;
    Ok(groups.into_iter().flatten().collect())
}

/// Builds the case of a golden program, and a case for each of its derivatives that has values in the manifest.
fn golden_cases(golden: &GoldenCase, program: &dyn cases::ProgramFn) -> Result<Vec<Case>, String> {
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

/// Builds the case of a golden program or of one of its derivatives.
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
    // The manifest sets `needs_dynamic_trip_count` even if the trip count of a loop with an early exit is bounded, so
    // check the graph as well.
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

/// Returns whether the sizes of the arguments determine an upper bound on the trip count of every loop.
fn is_bounded(graph: &Graph) -> bool {
    has_bounds(graph, &mut HashSet::new())
}

/// Returns whether the trip count of every loop in a graph or body is bounded, as in [`is_bounded`]. `bounded` collects
/// the symbols that stand for bounded trip counts.
fn has_bounds(graph: &Graph, bounded: &mut HashSet<Symbol>) -> bool {
    graph.nodes().iter().all(|node| {
        // A loop with an early exit binds a symbol to its trip count, and the trip count of its backward loop is that
        // symbol.
        let is_known = |dim: &Dim, bounded: &HashSet<Symbol>| {
            dim.symbols().iter().all(|symbol| !symbol.name().starts_with('$') || bounded.contains(*symbol))
        };
        let has_bound = match &node.op {
            Op::Scan(scan) if scan.steps_operand => {
                depends_on_known_sizes(graph, node.inputs[0], &|dim| is_known(dim, bounded))
            }
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

/// Returns whether a value is computed only from constants, and from sizes for which `is_known` returns `true`.
fn depends_on_known_sizes(graph: &Graph, value: ValueId, is_known: &dyn Fn(&Dim) -> bool) -> bool {
    let node = graph.nodes().iter().find(|node| node.outputs.contains(&value));
    node.is_some_and(|node| match &node.op {
        Op::Constant(_) => true,
        Op::Size(size) => is_known(&size.dim),
        Op::Unary(_) | Op::Binary(_) | Op::Cast(_) => {
            node.inputs.iter().all(|input| depends_on_known_sizes(graph, *input, is_known))
        }
        _ => false,
    })
}
