//! Estimates the cost of a program, and chooses the number of parts accordingly.
//!
//! The constants were measured with `cargo bench -p funcify-cpu` on one core of a server. A wrong constant makes plans
//! slower but does not affect results. `Instruction::nanoseconds` uses constants that are twice as large. Its estimates
//! determine how long a compiled loop runs between two checks for cancellation, so an overestimate is safe.

use funcify_core::ops::{Creation, Op, Product};

use super::*;
use crate::plan::NS_PER_INSTRUCTION;

/// The estimated time per element, in nanoseconds.
const NS_PER_ELEMENT: f64 = 0.1;
/// The estimated time per multiply-add of a matrix product, in nanoseconds.
const NS_PER_TERM: f64 = 0.015;
/// The minimum estimated time, in nanoseconds, for which running a program on several threads pays off.
const MIN_NS_FOR_THREADS: f64 = 200_000.0;
/// The minimum number of matrix rows per part, if the parallel axis is an axis of the matrices of a product.
const MIN_ROWS_PER_PART: usize = 12;
/// The minimum number of matrices per part, if the parallel axis is a batch axis of a product.
const MIN_MATRICES_PER_PART: usize = 2;
/// The minimum number of lanes per part if the parallel axis is innermost. With fewer lanes, a row would fill too few
/// vectors.
const MIN_LANES_PER_PART: usize = 64;
/// The maximum number of elements of a value within one part. Up to this size, the data of a step stays in the L1
/// cache.
const MAX_ELEMENTS_PER_PART: usize = 2048;
/// The maximum number of parts.
const MAX_PARTS: usize = 32;

/// The estimated cost of a program.
#[derive(Clone, Copy, Default)]
struct Cost {
    nanoseconds: f64,
    /// The number of ops, excluding constants and ops that only change addresses.
    ops: usize,
    /// `true` if a loop contains a product that does not have the parallel axis as a batch axis.
    has_products: bool,
    /// `true` if a loop contains a product that has the parallel axis as a batch axis.
    has_batches: bool,
    /// The number of elements per index of the parallel axis, in the largest value that a loop computes.
    width: usize,
}

/// Returns the number of parts into which to divide a program along its parallel axis.
pub(super) fn parts(graph: &Graph, sizes: &Sizes, labels: &ParallelAxis, is_innermost: bool) -> usize {
    let mut cost = Cost::default();
    add(&mut cost, graph, sizes, labels, 1.0, false);
    // A program with a single op is memory-bound. One thread that reads whole rows is faster than two threads that each
    // read half of every row.
    if cost.nanoseconds < MIN_NS_FOR_THREADS || cost.ops <= 1 {
        return 1;
    }
    let divisors = (2..=MAX_PARTS.min(labels.size())).filter(|parts| labels.size().is_multiple_of(*parts));
    let least = |size: usize| divisors.clone().filter(|parts| labels.size() / parts >= size).max().unwrap_or(1);
    match (cost.has_products, cost.has_batches && !is_innermost) {
        (true, _) => least(MIN_ROWS_PER_PART),
        (false, true) => least(MIN_MATRICES_PER_PART),
        // Use the smallest number of parts for which the data of each part fits in the cache. With fewer parts, rows
        // are longer.
        (false, false) => {
            let lanes = if is_innermost { MIN_LANES_PER_PART.min(labels.size() / 2) } else { 1 };
            let mut divisors = divisors.filter(|parts| labels.size() / parts >= lanes);
            let fits = |parts: &usize| labels.size() / parts * cost.width.max(1) <= MAX_ELEMENTS_PER_PART;
            divisors.clone().find(fits).or_else(|| divisors.next_back()).unwrap_or(1)
        }
    }
}

fn add(cost: &mut Cost, graph: &Graph, sizes: &Sizes, labels: &ParallelAxis, times: f64, is_loop: bool) {
    let live = graph.live_nodes();
    for (node, _) in graph.nodes().iter().zip(live).filter(|(_, live)| *live) {
        // A shape that is known only at run time counts as one element. The planner rejects ops with unknown shapes.
        let shape = |value: ValueId| graph.ty(value).shape.value(sizes).unwrap_or_default();
        let elements = |value: ValueId| shape(value).iter().product::<usize>() as f64;
        if let Op::Scan(scan) = &node.op {
            let steps = scan.steps.value(sizes).unwrap_or(1).max(0) as f64;
            add(cost, &scan.body, sizes, labels, times * steps, true);
            continue;
        }
        let Some(result) = node.outputs.first().copied() else { continue };
        let largest = node.inputs.iter().map(|input| elements(*input)).fold(elements(result), f64::max);
        let touched = NS_PER_ELEMENT * largest;
        let own = match node.op.class() {
            OpClass::Product(Product::MatMul(_)) => {
                let is_batch = matches!(labels.of(graph, result), Label::Axis(axis) if axis + 2 < shape(result).len());
                cost.has_batches |= is_loop && is_batch;
                cost.has_products |= is_loop && !is_batch;
                NS_PER_TERM * elements(result) * shape(node.inputs[0]).last().copied().unwrap_or(1) as f64
            }
            // These ops are free, because they are constants or only change addresses.
            OpClass::Movement(Movement::Broadcast(_) | Movement::Reshape(_) | Movement::Transpose(_)) => continue,
            OpClass::Movement(Movement::Slice(_)) | OpClass::Creation(Creation::Constant(_)) => continue,
            OpClass::Elementwise(_) | OpClass::Movement(_) | OpClass::Creation(_) | OpClass::Indexing(_) => touched,
            OpClass::Along(_) | OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => touched,
            OpClass::Control(_) | OpClass::Custom(_) => touched,
        };
        cost.nanoseconds += times * (NS_PER_INSTRUCTION + own);
        cost.ops += 1;
        if let (true, Label::Axis(axis)) = (is_loop, labels.of(graph, result)) {
            let shape = shape(result);
            cost.width = cost.width.max(shape.iter().product::<usize>() / shape[axis].max(1));
        }
    }
}
