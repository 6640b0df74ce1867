//! Determines whether a backend supports an op, by running the op. `STATUS.md` lists the results.

use funcify::dispatch::{CompileOptions, Executor, Need, needs};
use funcify::graph::Node;
use funcify::ops::{Op, OpRules};
use funcify::{DType, Error, Graph, HostTensor, ScanOptions, Value, apply, scan_with};

use crate::case::Case;
use crate::lanes::stack_lanes;

/// A backend's support for an op on a dtype.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Support {
    /// The backend has its own kernel for the op, or compiles the op.
    Native,
    /// The backend falls back to the reference evaluator.
    Fallback,
    /// The backend declares that it lacks the op or does not support the dtype.
    Declared(Need),
}

/// A loop that applies an op to operands of a dtype.
#[derive(Clone, Debug)]
pub struct OpProgram {
    /// The op's name.
    pub op: &'static str,
    /// The dtype of the op's first operand, or of its result if the op has no operands.
    pub dtype: DType,
    graph: Graph,
    inputs: Vec<HostTensor>,
}

/// Builds a program for each pair of an op and a dtype that has a case in the suite. The program applies the op in a
/// loop, because a backend may run an op differently inside a loop.
///
/// # Errors
/// Returns a message that names the case for which no program can be built.
pub fn op_programs(cases: &[Case]) -> Result<Vec<OpProgram>, String> {
    let mut programs: Vec<OpProgram> = Vec::new();
    for case in cases.iter().filter(|case| case.category == "op") {
        let Some((node, operands)) = first_use(case) else { continue };
        let (op, ty) = (&node.op, case.graph.ty(*node.inputs.first().unwrap_or(&node.outputs[0])));
        if programs.iter().any(|known| known.op == op.name() && known.dtype == ty.dtype) {
            continue;
        }
        let inputs: Vec<HostTensor> = operands.iter().map(|x| stack_lanes(&[x, x, x])).collect();
        let graph = loop_program(op, &inputs).map_err(|error| format!("{}: {error}", case.name))?;
        programs.push(OpProgram { op: op.name(), dtype: ty.dtype, graph, inputs });
    }
    Ok(programs)
}

/// Returns the first node that applies the case's op directly to inputs named `uploaded_*`, and the values of these
/// inputs. Returns `None` if the case has no such node.
fn first_use(case: &Case) -> Option<(&Node, Vec<HostTensor>)> {
    let argument = |value| {
        let index = case.graph.inputs().iter().position(|input| input.value == value)?;
        case.graph.input_name(index).starts_with("uploaded_").then(|| case.inputs[index].clone())
    };
    let has_name = |node: &Node| case.name.starts_with(&format!("op/{}_", node.op.name()));
    let used = |node: &Node| node.inputs.iter().map(|input| argument(*input)).collect::<Option<Vec<_>>>();
    case.graph.nodes().iter().filter(|node| has_name(node)).find_map(|node| Some((node, used(node)?)))
}

/// Builds a loop whose steps apply an op to the rows of these inputs.
fn loop_program(op: &Op, inputs: &[HostTensor]) -> Result<Graph, Error> {
    Graph::build("op", |g| {
        let rows = inputs.iter().enumerate().map(|(index, x)| g.input(&format!("x{index}"), x.ty()));
        let rows: Vec<Value> = rows.collect();
        scan_with(ScanOptions::new().length(3), (), rows, |(), row: Vec<Value>| ((), apply(op.clone(), &row))).1
    })
}

/// Determines whether a backend supports the op of a program.
///
/// # Errors
/// Returns any error of the backend that is not a declared gap.
pub fn determine_support(backend: &dyn Executor, program: &OpProgram) -> Result<Support, Error> {
    if let Some(need) = needs(backend, &program.graph)?.into_iter().next() {
        return Ok(Support::Declared(need));
    }
    // Rewriting is off because it might remove the op.
    let options = CompileOptions { rewrites: None, ..CompileOptions::default() };
    let function = backend.compile(&program.graph, options)?;
    function.call(&program.inputs)?;
    let is_fallback = function.report().fallback.contains(program.op);
    Ok(if is_fallback { Support::Fallback } else { Support::Native })
}
