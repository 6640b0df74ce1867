//! Lists the features that a graph needs and a backend lacks: lowering rules, dtypes, and ranks.

use std::collections::BTreeSet;
use std::fmt;

use funcify_core::error::Result;
use funcify_core::graph::Graph;
use funcify_core::ops::{Control, Creation, OpClass, OpKey, OpRules, Scan};
use funcify_core::types::{DType, TensorType};

use super::executor::Executor;
use crate::prepare::compositions::with_compositions;

/// A feature that a graph needs and a backend lacks.
///
/// ```
/// use funcify::DType;
/// use funcify::dispatch::Need;
///
/// assert_eq!(Need::Op("sort").to_string(), "sort");
/// assert_eq!(Need::DType(DType::F16).to_string(), "tensors of f16");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Need {
    /// A lowering rule for this op.
    Op(&'static str),
    /// Tensors of this element type.
    DType(DType),
    /// Tensors of this rank.
    Rank(usize),
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Need::Op(op) => f.write_str(op),
            Need::DType(dtype) => write!(f, "tensors of {dtype}"),
            Need::Rank(rank) => write!(f, "tensors of rank {rank}"),
        }
    }
}

/// Returns the set of features that a graph needs (before any rewrite) and a backend lacks. If the set is not empty,
/// compiling the graph without rewrites returns an error about one of these features. If a custom op has a composition
/// but no kernel on the backend, the graph needs the ops of the composition instead.
///
/// ```
/// use funcify::Graph;
/// use funcify::dispatch::{Reference, needs};
///
/// let graph = Graph::build("wave", |g| g.input("x", "f32[N]").sin())?;
/// assert!(needs(&Reference, &graph)?.is_empty());
/// # Ok::<(), funcify::Error>(())
/// ```
pub fn needs(executor: &dyn Executor, graph: &Graph) -> Result<BTreeSet<Need>> {
    let lowered = executor.lowered_ops();
    // A fallback kernel runs all ops except `scan`, which needs a loop strategy.
    let has_kernel = |op: &str| lowered.contains(&op) || (executor.has_fallback() && op != Scan::NAME);
    let plain = graph.without_rules()?;
    let plain = with_compositions(plain.as_ref().unwrap_or(graph), &|custom| !has_kernel(custom.name()))?;
    let mut needs = BTreeSet::new();
    collect(executor, &has_kernel, &plain, &mut needs)?;
    Ok(needs)
}

fn collect(
    executor: &dyn Executor,
    has_kernel: &dyn Fn(&str) -> bool,
    graph: &Graph,
    needs: &mut BTreeSet<Need>,
) -> Result<()> {
    let mut add_type = |ty: &TensorType| {
        if executor.unsupported(ty.dtype, ty.rank()).is_some() {
            let is_held = executor.unsupported(ty.dtype, 1).is_none();
            needs.insert(if is_held { Need::Rank(ty.rank()) } else { Need::DType(ty.dtype) });
        }
    };
    graph.inputs().iter().for_each(|input| add_type(graph.ty(input.value)));
    graph.live().flat_map(|node| &node.outputs).for_each(|output| add_type(graph.ty(*output)));
    for node in graph.live() {
        let mut add_op = || {
            if !has_kernel(node.op.name()) {
                needs.insert(Need::Op(node.op.name()));
            }
        };
        match node.op.class() {
            OpClass::Control(Control::Switch(_) | Control::While(_)) => {}
            // These ops need no lowering rule: programs upload constants themselves and read sizes on the host.
            OpClass::Creation(Creation::Constant(_)) | OpClass::Binding(_) => {}
            OpClass::Control(Control::AssociativeScan(op)) => {
                let sweeps = op.sweeps(&node.place(), &graph.types(&node.inputs), &vec![true; op.leaves])?;
                for program in [&sweeps.up, &sweeps.down] {
                    collect(executor, has_kernel, program, needs)?;
                }
                continue;
            }
            OpClass::Elementwise(_) | OpClass::Movement(_) | OpClass::Creation(_) | OpClass::Indexing(_) => add_op(),
            OpClass::Along(_) | OpClass::Product(_) | OpClass::RandomBits(_) => add_op(),
            OpClass::Control(Control::Scan(_) | Control::Call(_)) | OpClass::Custom(_) => add_op(),
        }
        for body in node.op.bodies() {
            collect(executor, has_kernel, body, needs)?;
        }
    }
    Ok(())
}
