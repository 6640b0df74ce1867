//! Checks the properties that ops report to passes (`Op::lanes_along`, `Op::linearity`, `cannot_fail`) by running the
//! ops.
//!
//! The reference evaluator runs each node of every case in isolation, with random operands. The checks do not share
//! code with the implementation: a lane is independent if it does not change when other lanes change, and an op is
//! linear if it preserves linear combinations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use funcify::graph::Node;
use funcify::ops::{Creation, Linearity, Op, OpClass, OpRules};
use funcify::{DType, Graph, HostTensor, Scalar, Sizes, TensorType, evaluate};
use funcify_conformance::all_cases;
use funcify_conformance::arbitrary::splitmix64;
use funcify_core::element_count;
use funcify_core::graph::cannot_fail;

/// A graph with a single op, and the types of its operands and results.
struct Applied {
    graph: Graph,
    operands: Vec<TensorType>,
    results: Vec<TensorType>,
}

impl Applied {
    fn node(&self) -> &Node {
        &self.graph.nodes()[0]
    }

    fn op(&self) -> &Op {
        &self.node().op
    }
}

/// The maximum number of elements of an operand or result. Ops on larger tensors are skipped, because they take too
/// long.
const MAX_ELEMENTS: usize = 5000;

/// The distinct ops of all cases, except ops with bodies and ops whose sizes are not static.
static APPLIED: LazyLock<Vec<Applied>> = LazyLock::new(|| {
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    all_cases().unwrap().iter().for_each(|case| add_nodes(&case.graph, &mut seen, &mut found));
    assert!(found.len() > 2000, "{} applications", found.len());
    found
});

fn add_nodes(graph: &Graph, seen: &mut BTreeSet<String>, found: &mut Vec<Applied>) {
    for node in graph.nodes() {
        let bodies = node.op.bodies();
        bodies.iter().for_each(|body| add_nodes(body, seen, found));
        let (operands, results) = (graph.types(&node.inputs), graph.types(&node.outputs));
        let are_small =
            operands.iter().chain(&results).all(|ty| elements(ty).is_some_and(|count| count <= MAX_ELEMENTS));
        let is_binding = matches!(node.op.class(), OpClass::Binding(_) | OpClass::Control(_));
        if is_binding || !are_small || !seen.insert(format!("{:?} {operands:?}", node.op)) {
            continue;
        }
        let mut alone = Graph::new("alone");
        let inputs: Vec<_> = operands.iter().map(|ty| alone.push_input("x", ty.clone(), false)).collect();
        let outputs = alone.push_typed(node.op.clone(), &inputs, results.clone(), node.site).expect("it is in a case");
        outputs.iter().for_each(|output| alone.push_output("y", *output));
        let mut has_symbols = false;
        alone.visit_symbols(&mut |_| has_symbols = true);
        if let OpClass::Creation(Creation::Size(op)) = node.op.class() {
            has_symbols |= op.dim.constant().is_none();
        }
        if !has_symbols {
            found.push(Applied { graph: alone, operands, results });
        }
    }
}

/// Returns the number of elements of a tensor of this type, or `None` if a size is unknown or the number overflows.
fn elements(ty: &TensorType) -> Option<usize> {
    element_count(&shape(ty)?)
}

/// Returns the shape of a type, or `None` if a size is unknown.
fn shape(ty: &TensorType) -> Option<Vec<usize>> {
    ty.shape.value(&Sizes::new()).ok()
}

/// A generator of random elements: booleans, small integers, and multiples of 1/4. Sums and products of these elements
/// are mostly exact.
struct Draw(u64);

impl Draw {
    fn below(&mut self, count: u64) -> i64 {
        self.0 += 1;
        (splitmix64(self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)) % count) as i64
    }

    fn scalar(&mut self, dtype: DType) -> Scalar {
        match dtype {
            DType::Bool => Scalar::Bool(self.below(2) == 0),
            _ if dtype.is_float() => Scalar::Float(self.below(33) as f64 / 4.0 - 4.0),
            _ if dtype.is_unsigned() => Scalar::Int(self.below(5)),
            _ => Scalar::Int(self.below(7) - 2),
        }
    }

    fn tensor(&mut self, ty: &TensorType) -> HostTensor {
        HostTensor::from_fn(ty.dtype, &shape(ty).expect("sizes are known"), |_| self.scalar(ty.dtype))
    }

    fn tensors(&mut self, types: &[TensorType]) -> Vec<HostTensor> {
        types.iter().map(|ty| self.tensor(ty)).collect()
    }
}

/// Returns the elements of one lane as text, so that NaN equals NaN.
fn lane(tensor: &HostTensor, axis: usize, index: usize) -> Vec<String> {
    let shape = tensor.shape();
    let inner: usize = shape[axis + 1..].iter().product();
    let is_in = |place: &usize| (place / inner) % shape[axis] == index;
    (0..tensor.len()).filter(is_in).map(|place| format!("{:?}", tensor.get(place))).collect()
}

#[test]
fn a_lane_that_an_op_calls_independent_depends_on_no_other() {
    let (mut draw, mut checked, mut wrong) = (Draw(1), BTreeMap::new(), Vec::new());
    for applied in APPLIED.iter() {
        let (operands, results): (Vec<_>, Vec<_>) =
            (applied.operands.iter().collect(), applied.results.iter().collect());
        let first = shape(results[0]).expect("sizes are known");
        for (axis, size) in first.iter().enumerate().filter(|(_, size)| **size > 1) {
            let Some(lanes) = applied.op().lanes_along(axis, &operands, &results) else { continue };
            assert_eq!(lanes.len(), operands.len(), "{:?} answers for each operand", applied.op());
            for index in [0, size / 2, size - 1] {
                let before = draw.tensors(&applied.operands);
                let mut after = before.clone();
                for (operand, own) in lanes.iter().enumerate().filter_map(|(at, own)| Some((at, (*own)?))) {
                    let kept = &before[operand];
                    after[operand] = HostTensor::from_fn(kept.dtype(), kept.shape(), |at| {
                        if at[own] == index { kept.at(at) } else { draw.scalar(kept.dtype()) }
                    });
                }
                let (Ok(ours), Ok(others)) = (evaluate(&applied.graph, &before), evaluate(&applied.graph, &after))
                else {
                    continue;
                };
                *checked.entry(applied.op().name()).or_insert(0) += 1;
                if ours.iter().zip(&others).any(|(a, b)| lane(a, axis, index) != lane(b, axis, index)) {
                    wrong.push(format!("{:?} on {operands:?}: lane {index} along axis {axis}", applied.op()));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} lanes depend on others, the first:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(8)].join("\n")
    );
    for name in LANES {
        assert!(checked.contains_key(name), "no case has an independent lane of `{name}`: {checked:?}");
    }
}

/// The ops for which at least one case must have an independent lane.
const LANES: [&str; 19] = [
    "reshape",
    "broadcast",
    "transpose",
    "concat",
    "slice",
    "reverse",
    "pad",
    "dynamic_slice",
    "dynamic_update",
    "scatter",
    "take",
    "gather",
    "reduce",
    "argmax",
    "cumulative",
    "sort",
    "matmul",
    "conv",
    "threefry",
];

#[test]
fn sums_pass_through_an_op_in_the_operands_in_which_it_is_linear() {
    let (mut draw, mut checked, mut wrong) = (Draw(2), BTreeMap::new(), Vec::new());
    let in_double = |ty: &&TensorType| !ty.dtype.is_float() || ty.dtype == DType::F64 || ty.dtype == DType::F32;
    for applied in
        APPLIED.iter().filter(|applied| applied.operands.iter().chain(&applied.results).all(|ty| in_double(&ty)))
    {
        let all: Vec<usize> = (0..applied.operands.len()).collect();
        let groups: Vec<&[usize]> = match applied.op().linearity() {
            Linearity::None | Linearity::DependsOnBodies => continue,
            Linearity::InAll => vec![&all],
            Linearity::Together(group) => vec![group],
            Linearity::Each(each) => each.chunks(1).collect(),
        };
        for group in groups.into_iter().filter(|group| group.iter().all(|at| applied.operands[*at].dtype.is_float())) {
            let (first, other) = (draw.tensors(&applied.operands), draw.tensors(&applied.operands));
            let with = |combine: &dyn Fn(f64, f64) -> f64| {
                let mut operands = first.clone();
                for at in group {
                    let (a, b) = (&first[*at], &other[*at]);
                    operands[*at] = HostTensor::from_fn(a.dtype(), a.shape(), |index| {
                        Scalar::Float(combine(a.at(index).as_f64(), b.at(index).as_f64()))
                    });
                }
                evaluate(&applied.graph, &operands)
            };
            let (Ok(one), Ok(two), Ok(sum)) = (with(&|a, _| a), with(&|_, b| b), with(&|a, b| a - 2.0 * b)) else {
                continue;
            };
            *checked.entry(applied.op().name()).or_insert(0) += 1;
            let is_sum = |at: usize| {
                let (one, two, sum) = (one[at].to_f64_vec(), two[at].to_f64_vec(), sum[at].to_f64_vec());
                // The tolerance allows for a few roundings in f32.
                let is_close = |a: f64, b: f64, sum: f64| (a - 2.0 * b - sum).abs() <= 1e-5 * (a.abs() + b.abs() + 1.0);
                one.iter().zip(&two).zip(&sum).all(|((a, b), sum)| is_close(*a, *b, *sum) || !sum.is_finite())
            };
            if !(0..sum.len()).all(is_sum) {
                wrong.push(format!("{:?} on {:?}, operands {group:?}", applied.op(), applied.operands));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} ops are not linear, the first:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(8)].join("\n")
    );
    assert!(checked.len() > 20, "{checked:?}");
}

#[test]
fn an_op_that_is_certain_runs_on_any_operands() {
    let (mut draw, mut checked) = (Draw(3), 0);
    for applied in APPLIED.iter().filter(|applied| cannot_fail(&applied.graph, applied.node(), &Sizes::new())) {
        let result = evaluate(&applied.graph, &draw.tensors(&applied.operands));
        assert!(result.is_ok(), "{:?} on {:?}: {}", applied.op(), applied.operands, result.unwrap_err());
        checked += 1;
    }
    assert!(checked > 2000, "{checked} ops");
}
