//! Replaces sizes that a program computes with numbers, if they follow from the sizes of the call.
//!
//! An example is the number of segments into which checkpointing divides a sequence. Without this step, the program
//! could not be compiled as a whole, because a backend must know all sizes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use funcify_core::error::Place;
use funcify_core::graph::{Graph, GraphCopy, Node, ValueId};
use funcify_core::ops::scan::Scan;
use funcify_core::ops::{Creation, Elementwise, EvalContext, Op, OpClass, OpRules};
use funcify_core::types::{Dim, Replacements, Sizes, Symbol, TensorType};
use funcify_core::{DType, HostTensor};

/// Replaces each size that a node binds to a known number: a number that is computed only from constants and from the
/// sizes in `sizes`. Removes the nodes that bind such sizes, and the operands that give loops their number of steps.
pub(crate) fn with_known_sizes<'g>(graph: &'g Graph, sizes: &Sizes) -> Cow<'g, Graph> {
    if !graph.binds_any() {
        return Cow::Borrowed(graph);
    }
    let mut bindings = HashMap::new();
    count_bindings(graph, &mut bindings);
    let mut resolver = Resolver { sizes: sizes.clone(), bindings, resolved: Replacements::new() };
    match resolver.graph(graph, HashMap::new()) {
        Some(copy) if !resolver.resolved.is_empty() => Cow::Owned(copy.resized(&resolver.resolved)),
        _ => Cow::Borrowed(graph),
    }
}

/// Counts how often a graph and its bodies bind each symbol.
fn count_bindings(graph: &Graph, bindings: &mut HashMap<Symbol, usize>) {
    for node in graph.nodes() {
        node.op.binds().for_each(|symbol| *bindings.entry(symbol.clone()).or_default() += 1);
        node.op.bodies().into_iter().for_each(|body| count_bindings(body, bindings));
    }
}

struct Resolver {
    /// The sizes of the call, and the sizes that were resolved so far.
    sizes: Sizes,
    /// The number of nodes that bind each symbol. Symbols that several nodes bind are not resolved.
    bindings: HashMap<Symbol, usize>,
    resolved: Replacements,
}

impl Resolver {
    /// Copies a graph without the nodes that bind known sizes. `numbers` contains the inputs that are known numbers.
    /// Returns `None` if a node cannot be copied.
    fn graph(&mut self, graph: &Graph, mut numbers: HashMap<ValueId, HostTensor>) -> Option<Graph> {
        let mut copy = GraphCopy::with_inputs_of(graph);
        for node in graph.nodes() {
            if !self.resolves_binding(node, node.inputs.first().and_then(|input| numbers.get(input))) {
                self.copy(&mut copy, node, &numbers)?;
            } else if let Op::Scan(scan) = &node.op {
                let op = Op::Scan(Scan { steps_operand: false, ..scan.clone() });
                let inputs = node.inputs[1..].to_vec();
                self.copy(&mut copy, &Node { op, inputs, ..node.clone() }, &numbers)?;
            }
            if let Some(number) = self.evaluate(graph, node, &numbers) {
                numbers.insert(node.outputs[0], number);
            }
        }
        copy.finish()
    }

    /// Copies a node, and resolves sizes in its bodies.
    fn copy(&mut self, copy: &mut GraphCopy<'_>, node: &Node, numbers: &HashMap<ValueId, HostTensor>) -> Option<()> {
        if !node.op.bodies().into_iter().any(|body| body.binds_any()) {
            return copy.node(node, node.op.clone());
        }
        let known_inputs = |body: &Graph| {
            let Op::Scan(scan) = &node.op else { return HashMap::new() };
            let invariants = scan.params().invariants.zip(scan.operands().invariants);
            let of = |(param, operand): (usize, usize)| {
                Some((body.inputs()[param].value, numbers.get(&node.inputs[operand])?.clone()))
            };
            invariants.filter_map(of).collect()
        };
        let bodies = node.op.bodies().into_iter().map(|body| self.graph(body, known_inputs(body)).map(Arc::new));
        let op = node.op.with_bodies(bodies.collect::<Option<Vec<_>>>()?);
        copy.node(node, op)
    }

    /// Evaluates a node whose result is an integer or boolean scalar, if its operands are known.
    fn evaluate(&self, graph: &Graph, node: &Node, numbers: &HashMap<ValueId, HostTensor>) -> Option<HostTensor> {
        let [output] = node.outputs[..] else { return None };
        if !is_number(graph.ty(output)) {
            return None;
        }
        if let Op::Constant(constant) = &node.op {
            return Some((*constant.value).clone());
        }
        let inputs = node.inputs.iter().map(|input| numbers.get(input).cloned()).collect::<Option<Vec<_>>>()?;
        evaluate_number(&node.op, node.place(), &inputs, &graph.types(&node.outputs), &self.sizes)
    }

    /// Records the size that a node binds to its first operand, which is `number` if it is known. Returns `false` if the
    /// node binds no size this way, or if the number is unknown or not a valid size.
    fn resolves_binding(&mut self, node: &Node, number: Option<&HostTensor>) -> bool {
        let size = number.and_then(|number| usize::try_from(number.cast(DType::I64).get(0).as_i64()).ok());
        let (Some(symbol), Some(size)) = (node.op.bound_to_number(), size) else { return false };
        let is_only = self.bindings.get(symbol) == Some(&1);
        if is_only {
            self.sizes.set(symbol, size);
            self.resolved.insert(symbol.clone(), Dim::from(size));
        }
        is_only
    }
}

/// Returns `true` if a tensor of this type is an integer or boolean scalar.
pub(crate) fn is_number(ty: &TensorType) -> bool {
    ty.rank() == 0 && (ty.dtype.is_int() || ty.dtype == DType::Bool)
}

/// Evaluates an op on integers and booleans if it is constant-folded. Returns `None` for all other ops, and if the
/// evaluation fails.
pub(crate) fn evaluate_number(
    op: &Op,
    at: Place,
    inputs: &[HostTensor],
    outputs: &[TensorType],
    sizes: &Sizes,
) -> Option<HostTensor> {
    if !is_foldable(op) {
        return None;
    }
    let mut sizes = sizes.clone();
    op.eval(&mut EvalContext { at, sizes: &mut sizes }, inputs, outputs).ok()?.into_iter().next()
}

/// Returns `true` if an op on integers and booleans is constant-folded when its operands are static.
pub(crate) fn is_foldable(op: &Op) -> bool {
    match op.class() {
        OpClass::Elementwise(op) => match op {
            Elementwise::Unary(_) | Elementwise::Binary(_) | Elementwise::Compare(_) => true,
            Elementwise::Select(_) | Elementwise::Cast(_) => true,
            Elementwise::Bits(_) | Elementwise::Predicate(_) => false,
            Elementwise::NextAfter(_) | Elementwise::Polygamma(_) => false,
        },
        OpClass::Creation(Creation::Size(_)) => true,
        OpClass::Creation(_) | OpClass::Movement(_) | OpClass::Indexing(_) | OpClass::Along(_) => false,
        OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => false,
        OpClass::Control(_) | OpClass::Custom(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use funcify_core::types::{Sizes, Symbol};
    use funcify_core::{
        DType, Graph, HostTensor, ScanOptions, Value, bind_size, evaluate, iota, scan, scan_with, size,
    };

    use super::with_known_sizes;

    fn sizes(t: usize) -> Sizes {
        let mut sizes = Sizes::new();
        sizes.set(&Symbol::new("T"), t);
        sizes
    }

    /// Sums the first half of the rows with a loop, and counts the rows of the other half.
    fn halves(divisor: impl Fn(Value) -> Value) -> Graph {
        Graph::build("halves", |g| {
            let xs = g.input("xs", "f64[T]");
            let n = g.input("n", "i64[]");
            let half = bind_size(size(xs.dim(0), DType::I64) / divisor(n));
            let first = xs.slice(0, ..half.clone());
            let (sum, ()) = scan(n.cast(DType::F64) * 0.0, first, |sum, x| (sum + x, ()));
            sum + iota(xs.dim(0) - half, DType::F64).sum(0)
        })
        .unwrap()
    }

    #[test]
    fn sizes_that_follow_from_those_of_the_call_are_resolved() {
        let graph = halves(|n| n.zeros_like() + 2);
        let resolved = with_known_sizes(&graph, &sizes(5));
        assert!(graph.binds_any() && !resolved.binds_any(), "{resolved}");
        let inputs = [HostTensor::from([1f64, 2.0, 4.0, 8.0, 16.0]), HostTensor::scalar(3i64)];
        assert_eq!(evaluate(&resolved, &inputs).unwrap(), evaluate(&graph, &inputs).unwrap());
        assert_eq!(evaluate(&graph, &inputs).unwrap(), [HostTensor::scalar(6f64)]);
    }

    #[test]
    fn sizes_that_follow_from_data_are_kept() {
        let graph = halves(|n| n);
        assert!(with_known_sizes(&graph, &sizes(5)).binds_any());
    }

    /// The number of steps is a size that a loop body computes from a number outside of the loop.
    #[test]
    fn sizes_in_bodies_are_resolved() {
        let graph = Graph::build("nested", |g| {
            let xs = g.input("xs", "f64[T]");
            let half = size(xs.dim(0), DType::I64) / 2;
            scan(xs.sum(0), xs, |sum, x| {
                let steps = ScanOptions::new().length(bind_size(half));
                (scan_with(steps, sum, (), |sum, ()| (sum * x, ())).0, ())
            })
            .0
        })
        .unwrap();
        let resolved = with_known_sizes(&graph, &sizes(4));
        assert!(graph.binds_any() && !resolved.binds_any(), "{resolved}");
        let inputs = [HostTensor::from([1f64, 2.0, 0.5, 3.0])];
        assert_eq!(evaluate(&resolved, &inputs).unwrap(), evaluate(&graph, &inputs).unwrap());
    }
}
