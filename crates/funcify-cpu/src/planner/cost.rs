//! What a program costs, roughly, and so into how many parts it is divided.
//!
//! The figures are those that `cargo bench -p funcify-cpu` prints on one core of a server. A wrong one makes a plan slower,
//! and no result different. `Instruction::nanoseconds` doubles them: it decides how long compiled loops run between two checks for
//! cancellation, where a larger figure is the safe one.

use funcify_core::ops::{Creation, Op, Product};

use super::*;
use crate::plan::NS_PER_INSTRUCTION;

/// Nanoseconds of an element.
const NS_PER_ELEMENT: f64 = 0.1;
/// Nanoseconds of a multiplication and addition of a product.
const NS_PER_TERM: f64 = 0.015;
/// From how many nanoseconds on a program is worth threads.
const WORTH_THREADS: f64 = 200_000.0;
/// How many rows of a product a part has at least.
const ROWS: usize = 12;
/// How many elements of a value a part has at most, so that what a step needs stays in the nearest cache.
const ELEMENTS: usize = 2048;
/// How many parts there are at most.
const PARTS: usize = 32;

/// What a program costs.
#[derive(Clone, Copy, Default)]
struct Cost {
    nanoseconds: f64,
    /// How many ops compute something.
    ops: usize,
    has_products: bool,
    /// The largest number of elements that a value of a loop has for each index of the axis.
    width: usize,
}

/// Into how many parts a program is divided along its axis.
pub(super) fn parts(graph: &Graph, sizes: &Sizes, labels: &ParallelAxis) -> usize {
    let mut cost = Cost::default();
    add(&mut cost, graph, sizes, labels, 1.0, false);
    // A loop of one op waits for memory alone, which is read faster in whole rows than by two threads in halves of them.
    if cost.nanoseconds < WORTH_THREADS || cost.ops <= 1 {
        return 1;
    }
    let divisors = (2..=PARTS.min(labels.size())).filter(|parts| labels.size().is_multiple_of(*parts));
    match cost.has_products {
        true => divisors.filter(|parts| labels.size() / parts >= ROWS).max().unwrap_or(1),
        // The fewest that fit, so that rows are long.
        false => {
            let fits = |parts: &usize| labels.size() / parts * cost.width.max(1) <= ELEMENTS;
            divisors.clone().find(fits).or_else(|| divisors.max()).unwrap_or(1)
        }
    }
}

fn add(cost: &mut Cost, graph: &Graph, sizes: &Sizes, labels: &ParallelAxis, times: f64, is_loop: bool) {
    let live = graph.live_nodes();
    for (node, _) in graph.nodes().iter().zip(live).filter(|(_, live)| *live) {
        // A size that follows from values counts once: the planner declines what needs it.
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
                cost.has_products |= is_loop;
                NS_PER_TERM * elements(result) * shape(node.inputs[0]).last().copied().unwrap_or(1) as f64
            }
            // Other addresses, or there already.
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
