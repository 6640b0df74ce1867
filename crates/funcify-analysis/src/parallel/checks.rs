//! Checks the conditions on labels that involve more than one op, once propagation has finished.

use std::collections::HashSet;

use funcify_core::graph::ValueId;
use funcify_core::ops::{self, Along, Control, Creation, Elementwise, Linearity, Movement, Op, OpClass, Product};

use funcify_core::types::Sizes;
use funcify_core::{DType, Graph, HostTensor};

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

    /// Checks the factors and divisors of partial sums: each divisor, and each factor inside a loop, must be moderate.
    /// A partial sum that a loop carries must not be scaled at all. `known` holds the inputs of a body that are known
    /// to be moderate (see [`are_moderate`]), and is `None` outside of loops.
    pub(super) fn check_share_factors(
        &self,
        graph: &Graph,
        sizes: &Sizes,
        known: Option<HashSet<ValueId>>,
    ) -> Result<(), Mixed> {
        let is_body = known.is_some();
        let mut known = known.unwrap_or_default();
        let is_share = |value: &ValueId| self.get(graph, *value) == Label::Share;
        let inputs = graph.inputs().iter().map(|input| input.value);
        let mut carried: HashSet<ValueId> = inputs.filter(is_share).collect();
        for node in graph.nodes() {
            let are_known = node.inputs.iter().all(|input| known.contains(input));
            let is_known = match node.op.class() {
                OpClass::Creation(Creation::Constant(constant)) => are_moderate(&constant.value),
                OpClass::Creation(Creation::Size(size)) => size.dim.value(sizes).is_ok_and(|size| size > 0),
                // A cast of a moderate float to an integer may yield 0, and a cast to f16 may yield infinity.
                OpClass::Elementwise(Elementwise::Cast(cast)) => {
                    are_known && matches!(cast.dtype, DType::BF16 | DType::F32 | DType::F64)
                }
                OpClass::Movement(Movement::Broadcast(_) | Movement::Reshape(_)) => are_known,
                OpClass::Elementwise(Elementwise::Unary(
                    ops::Unary::Neg | ops::Unary::Recip | ops::Unary::StopGradient,
                )) => are_known,
                OpClass::Elementwise(_) | OpClass::Movement(_) | OpClass::Creation(Creation::Iota(_)) => false,
                OpClass::Indexing(_) | OpClass::Along(_) | OpClass::Product(_) | OpClass::RandomBits(_) => false,
                OpClass::Binding(_) | OpClass::Control(_) | OpClass::Custom(_) => false,
            };
            if is_known {
                known.extend(&node.outputs);
            }
            let are_carried = node.inputs.iter().filter(|input| carried.contains(input)).count();
            let is_scaled = matches!(node.op.linearity(), Linearity::Each(_)) && node.inputs.iter().any(is_share);
            let by_known = node.inputs.iter().all(|input| is_share(input) || known.contains(input));
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
                let invariants = invariants.filter(|(operand, _)| known.contains(&node.inputs[*operand]));
                let known = invariants.map(|(_, param)| scan.body.inputs()[param].value).collect();
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

/// Returns `true` if the absolute value of each element is between 2^-24 and 2^24.
fn are_moderate(numbers: &HostTensor) -> bool {
    let largest = f64::from(1 << 24);
    (0..numbers.len()).all(|index| (1.0 / largest..=largest).contains(&numbers.get(index).as_f64().abs()))
}
