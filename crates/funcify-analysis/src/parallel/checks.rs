//! Checks the conditions on labels that involve more than one op, once propagation has finished.

use std::collections::{HashMap, HashSet};

use funcify_core::graph::{Node, ValueId};
use funcify_core::ops::{self, Along, Control, Creation, Elementwise, Linearity, Movement, Op, OpClass, Product};

use funcify_core::types::Sizes;
use funcify_core::{DType, Graph};

use super::{Label, Mixed, ParallelAxis};

impl ParallelAxis {
    /// Checks that each partial sum originates from a sum over the axis, or only from other partial sums. Otherwise a
    /// value that is the same in all parts would be added once per part.
    pub(super) fn check_share_origins(&self, graph: &Graph) -> Result<(), Mixed> {
        for node in graph.nodes() {
            let of = |index: usize| self.get(graph, node.inputs[index]);
            let is_share = |value: &ValueId| self.get(graph, *value) == Label::Share;
            let linear = || match node.op.linearity() {
                Linearity::None | Linearity::DependsOnBodies => false,
                Linearity::InAll => node.inputs.iter().all(is_share),
                Linearity::Together(of) => of.iter().all(|operand| is_share(&node.inputs[*operand])),
                Linearity::Each(_) => node.inputs.iter().any(is_share),
            };
            let is_made = match node.op.class() {
                OpClass::Control(Control::Scan(_)) => true,
                OpClass::Along(Along::Reduce(op)) => {
                    is_share(&node.inputs[0]) || matches!(of(0), Label::Axis(axis) if op.axes.contains(&axis))
                }
                OpClass::Product(Product::MatMul(_)) => {
                    let columns = graph.ty(node.inputs[0]).rank() - 1;
                    node.inputs.iter().any(is_share) || of(0) == Label::Axis(columns)
                }
                // `ParallelAxis::node` has checked that the cast neither rounds nor truncates a partial sum.
                OpClass::Elementwise(Elementwise::Cast(_)) => is_share(&node.inputs[0]),
                OpClass::Elementwise(_) | OpClass::Movement(_) | OpClass::Creation(_) | OpClass::Indexing(_) => {
                    linear()
                }
                OpClass::Along(_) | OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => linear(),
                OpClass::Control(_) | OpClass::Custom(_) => linear(),
            };
            if !is_made && node.outputs.iter().any(is_share) {
                return Err(Mixed);
            }
        }
        graph.nodes().iter().flat_map(|node| node.op.bodies()).try_for_each(|body| self.check_share_origins(body))
    }

    /// Checks the factors and divisors of partial sums: each divisor, and each factor inside a loop, must be
    /// [moderate](Magnitudes). A partial sum that a loop carries must not be scaled at all. `known` holds the moderate
    /// inputs of a body, and is `None` outside of loops.
    pub(super) fn check_share_factors(
        &self,
        graph: &Graph,
        sizes: &Sizes,
        known: Option<HashMap<ValueId, Magnitudes>>,
    ) -> Result<(), Mixed> {
        let is_body = known.is_some();
        let mut known = known.unwrap_or_default();
        let is_share = |value: &ValueId| self.get(graph, *value) == Label::Share;
        let inputs = graph.inputs().iter().map(|input| input.value);
        let mut carried: HashSet<ValueId> = inputs.filter(is_share).collect();
        for node in graph.nodes() {
            if let Some(magnitudes) = Magnitudes::of(graph, node, sizes, &known) {
                known.insert(node.outputs[0], magnitudes);
            }
            let are_carried = node.inputs.iter().filter(|input| carried.contains(input)).count();
            let is_scaled = matches!(node.op.linearity(), Linearity::Each(_)) && node.inputs.iter().any(is_share);
            let by_known = node.inputs.iter().all(|input| is_share(input) || known.contains_key(input));
            let is_repeated = are_carried > 1 || are_carried == 1 && (is_scaled || matches!(node.op, Op::Scan(_)));
            let is_divided = matches!(node.op, Op::Binary(ops::Binary::Div));
            if is_scaled && !by_known && (is_body || is_divided) || is_repeated {
                return Err(Mixed);
            }
            if are_carried == 1 {
                carried.extend(&node.outputs);
            }
            if let Op::Scan(scan) = &node.op {
                let invariants = scan.operands().invariants.zip(scan.params().invariants);
                let invariants = invariants.filter_map(|(operand, param)| {
                    Some((scan.body.inputs()[param].value, *known.get(&node.inputs[operand])?))
                });
                let known = invariants.collect();
                self.check_share_factors(&scan.body, sizes, Some(known))?;
            }
        }
        Ok(())
    }

    pub(super) fn check_axis_sizes(&self, graph: &Graph, sizes: &Sizes) -> Result<(), Mixed> {
        for value in graph.values() {
            if let Label::Axis(axis) = self.get(graph, value) {
                let shape = graph.ty(value).shape.value(sizes).map_err(|_| Mixed)?;
                if shape.get(axis) != Some(&self.size) {
                    return Err(Mixed);
                }
            }
        }
        graph.nodes().iter().flat_map(|node| node.op.bodies()).try_for_each(|body| self.check_axis_sizes(body, sizes))
    }
}

/// The least and the greatest absolute value of the elements of a moderate value. A moderate value depends only on
/// constants and sizes. Its elements are bounded so that multiplying the partial sum of a part by an element cannot
/// overflow or underflow unless multiplying the total would.
#[derive(Clone, Copy, Debug)]
pub(super) struct Magnitudes([f64; 2]);

impl Magnitudes {
    /// The greatest magnitude allowed for an element of a constant. Its reciprocal is the least magnitude allowed.
    const MAX_OF_CONSTANT: f64 = (1u64 << 24) as f64;
    /// The greatest magnitude allowed for an element of a product or a quotient. Its reciprocal is the least magnitude
    /// allowed.
    const MAX_OF_PRODUCT: f64 = (1u64 << 48) as f64;

    /// Returns the magnitudes of a node's result, or `None` if the result is not known to be moderate. `known` holds
    /// the magnitudes of earlier values.
    fn of(graph: &Graph, node: &Node, sizes: &Sizes, known: &HashMap<ValueId, Magnitudes>) -> Option<Self> {
        let operand = |index: usize| Some(known.get(node.inputs.get(index)?)?.0);
        // An f16 may overflow, and an i32 may wrap.
        let is_wide = |dtype: DType| matches!(dtype, DType::BF16 | DType::F32 | DType::F64);
        match node.op.class() {
            OpClass::Creation(Creation::Constant(constant)) => {
                let elements = || (0..constant.value.len()).map(|index| constant.value.get(index).as_f64().abs());
                let are_moderate = elements().all(|x| is_moderate([x, x], Self::MAX_OF_CONSTANT));
                are_moderate.then(|| elements().fold([f64::INFINITY, 0.0], |[low, high], x| [low.min(x), high.max(x)]))
            }
            OpClass::Creation(Creation::Size(size)) => {
                let size = size.dim.value(sizes).ok().filter(|size| *size > 0)?;
                Some([size as f64; 2])
            }
            // A cast of a moderate float to an integer may yield 0.
            OpClass::Elementwise(Elementwise::Cast(cast)) => operand(0).filter(|_| is_wide(cast.dtype)),
            OpClass::Movement(Movement::Broadcast(_) | Movement::Reshape(_)) => operand(0),
            OpClass::Elementwise(Elementwise::Unary(ops::Unary::Neg | ops::Unary::StopGradient)) => operand(0),
            OpClass::Elementwise(Elementwise::Unary(ops::Unary::Recip)) => {
                operand(0).map(|[low, high]| [1.0 / high, 1.0 / low])
            }
            OpClass::Elementwise(Elementwise::Binary(op @ (ops::Binary::Mul | ops::Binary::Div))) => {
                let ([low, high], [other_low, other_high]) = (operand(0)?, operand(1)?);
                let ends = match op {
                    ops::Binary::Mul => [low * other_low, high * other_high],
                    _ => [low / other_high, high / other_low],
                };
                let is_known = is_wide(graph.ty(node.outputs[0]).dtype) && is_moderate(ends, Self::MAX_OF_PRODUCT);
                is_known.then_some(ends)
            }
            OpClass::Elementwise(_) | OpClass::Movement(_) | OpClass::Creation(Creation::Iota(_)) => None,
            OpClass::Indexing(_) | OpClass::Along(_) | OpClass::Product(_) | OpClass::RandomBits(_) => None,
            OpClass::Binding(_) | OpClass::Control(_) | OpClass::Custom(_) => None,
        }
        .map(Magnitudes)
    }
}

fn is_moderate([low, high]: [f64; 2], max: f64) -> bool {
    low >= 1.0 / max && high <= max
}
