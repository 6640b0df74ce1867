//! Plans elementwise arithmetic: fuses deferred values, and rounds results to narrower types.

use funcify_analysis::all_ones;
use funcify_core::ops::{Along, Elementwise, Indexing};

use super::*;

impl Scope<'_, '_> {
    pub(super) fn unary(&mut self, op: ops::Unary, node: &Node, value: ValueId) -> Result<Value> {
        let input = node.inputs[0];
        let dtype = self.graph.ty(value).dtype;
        // The kernel `Not` works only on masks. For an integer, `not` equals all ones minus the integer.
        if let (ops::Unary::Not, true, Some(ones)) = (op, dtype.is_int(), all_ones(dtype)) {
            let x = self.tensor(input)?;
            let ones = self.planner.emitter.number(ones as f64)?.broadcast(&x.shape);
            return Ok(Value::Tensor(self.emit_elementwise(Op::Binary(Binary::Sub), &[ones, x], value)?));
        }
        let op = unary_kernel(op);
        if op == Unary::Copy {
            return Ok(Value::Tensor(self.tensor(input)?));
        }
        if let (Some(Value::Products(products)), true) = (&self.values[input.index()], self.is_used_once(input)) {
            let products = products.clone();
            self.planner.emitter.fired.note(Transformation::ThenOfProduct);
            return Ok(Value::Tensor(self.finish(products, Some(op), value)?));
        }
        if let (Unary::Exp, Some(Value::ElementProduct(x, y)), true) =
            (op, &self.values[input.index()], self.is_used_once(input))
        {
            let operands = [x.clone(), y.clone()];
            self.planner.emitter.fired.note(Transformation::ExpOfProduct);
            return Ok(Value::Tensor(self.emit_elementwise(Op::Binary(Binary::ExpOfProduct), &operands, value)?));
        }
        let x = self.tensor(input)?;
        Ok(Value::Tensor(self.emit_elementwise(Op::Unary(op), &[x], value)?))
    }

    pub(super) fn binary(&mut self, op: ops::Binary, node: &Node, value: ValueId) -> Result<Value> {
        let [left, right] = [node.inputs[0], node.inputs[1]];
        let is_bool = self.graph.ty(value).dtype == DType::Bool;
        let kernel = match op {
            ops::Binary::Add => {
                if let Some(value) = self.sum(left, right, value)? {
                    return Ok(value);
                }
                Binary::Add
            }
            ops::Binary::Sub => {
                if let Some(view) = self.difference(left, right, value)? {
                    return Ok(Value::Tensor(view));
                }
                Binary::Sub
            }
            ops::Binary::Mul => {
                let [x, y] = self.two_operands(node)?;
                if self.is_used_once(value) && !self.is_output(value) {
                    return Ok(Value::ElementProduct(x, y));
                }
                Binary::Mul
            }
            // Both operands are exact, so rounding cannot raise the quotient to the next integer.
            ops::Binary::Div if self.graph.ty(value).dtype.is_int() => Binary::TruncDiv,
            ops::Binary::And if is_bool => Binary::Mul,
            ops::Binary::Or if is_bool => Binary::Max,
            ops::Binary::Xor if is_bool => Binary::NotEqual,
            op => match binary_kernel(op) {
                Some(kernel) => kernel,
                None => return Err(Declined::new(op.name(), "no instruction implements it yet")),
            },
        };
        let operands = self.two_operands(node)?;
        Ok(Value::Tensor(self.emit_elementwise(Op::Binary(kernel), &operands, value)?))
    }

    /// Rounds the result of an op to the type of `value`, if that type is narrower than the plan's element type.
    pub(super) fn round_result(&mut self, node: &Node, value: ValueId, result: Value) -> Result<Value> {
        // Partial sums are rounded only after they have been added up, when the output is written.
        let is_rounded = may_round(&node.op) && self.planner.label(self.graph, value) != Label::Share;
        let rounding = self.planner.rounding(self.graph.ty(value).dtype);
        let Some(rounding) = rounding.filter(|_| is_rounded) else { return Ok(result) };
        self.planner.emitter.fired.note(Transformation::Rounded);
        self.set(value, Some(result));
        let view = self.tensor(value)?;
        // The result of a cast is not rounded in place, because the cast may have returned the view of its operand.
        if let GraphOp::Cast(_) = node.op {
            return Ok(Value::Tensor(self.emit_elementwise(Op::Unary(rounding), &[view], value)?));
        }
        self.planner.emitter.map(Op::Unary(rounding), &view, &[&view])?;
        Ok(Value::Tensor(view))
    }
}

/// Returns `true` if an op on numbers of a narrower float type may have a result that this type cannot represent. Such
/// a result must be rounded.
pub(super) fn may_round(op: &GraphOp) -> bool {
    use ops::Binary;
    use ops::Unary::{Abs, Ceil, Floor, Neg, Round, Sign, StopGradient, Trunc};
    match op.class() {
        OpClass::Elementwise(op) => match op {
            Elementwise::Unary(op) => !matches!(op, Neg | Abs | Sign | Floor | Ceil | Round | Trunc | StopGradient),
            Elementwise::Binary(op) => !matches!(op, Binary::Max | Binary::Min | Binary::Rem | Binary::Copysign),
            Elementwise::Cast(_) | Elementwise::Polygamma(_) => true,
            Elementwise::Bits(_) | Elementwise::Compare(_) | Elementwise::Predicate(_) => false,
            Elementwise::Select(_) | Elementwise::NextAfter(_) => false,
        },
        OpClass::Along(op) => match op {
            Along::Reduce(reduce) => matches!(reduce.kind, ReduceKind::Sum | ReduceKind::Prod),
            Along::Cumulative(running) => matches!(running.kind, ReduceKind::Sum | ReduceKind::Prod),
            Along::ArgMax(_) | Along::Sort(_) => false,
        },
        OpClass::Product(_) => true,
        OpClass::Indexing(op) => match op {
            // A scatter rounds each of its terms.
            Indexing::Scatter(_) => false,
            Indexing::DynamicSlice(_) | Indexing::DynamicUpdate(_) => false,
            Indexing::Take(_) | Indexing::Gather(_) => false,
        },
        OpClass::Movement(_) | OpClass::Creation(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => false,
        // Control ops need no rounding, because each op in their bodies is rounded separately. Custom ops round their
        // own results.
        OpClass::Control(_) | OpClass::Custom(_) => false,
    }
}

/// Returns the kernel that casts floats of a plan, applied to them and 0, or `None` if the cast changes none of them.
pub(super) fn cast_kernel(from: DType, to: DType) -> Option<Binary> {
    if to == DType::Bool && from != DType::Bool {
        return Some(Binary::NotEqual);
    }
    // A zero that represents an integer may be -0 in the plan. Adding 0 makes it +0.
    (from.is_int() && to.is_float()).then_some(Binary::Add)
}

/// Returns the kernel of a binary op on floats, or `None` if the op is bitwise.
pub(super) fn binary_kernel(op: ops::Binary) -> Option<Binary> {
    Some(match op {
        ops::Binary::Add => Binary::Add,
        ops::Binary::Sub => Binary::Sub,
        ops::Binary::Mul => Binary::Mul,
        ops::Binary::Div => Binary::Div,
        ops::Binary::Rem => Binary::Rem,
        ops::Binary::Max => Binary::Max,
        ops::Binary::Min => Binary::Min,
        ops::Binary::Pow => Binary::Pow,
        ops::Binary::Atan2 => Binary::Atan2,
        ops::Binary::Copysign => Binary::Copysign,
        ops::Binary::And | ops::Binary::Or | ops::Binary::Xor => return None,
    })
}

/// Returns the kernel of a unary op. For `StopGradient`, which computes the identity, this is a copy.
pub(super) fn unary_kernel(op: ops::Unary) -> Unary {
    macro_rules! kernels_by_name {
        ($($name:ident)*) => {
            match op {
                $(ops::Unary::$name => Unary::$name,)*
                ops::Unary::StopGradient => Unary::Copy,
            }
        };
    }
    kernels_by_name! {
        Neg Abs Sign Square Exp Expm1 Log Log1p Tanh Sigmoid Sin Cos Sqrt Rsqrt Recip Tan Asin Acos Atan Sinh Cosh
        Cbrt Asinh Acosh Atanh Erf Erfc ErfInv Lgamma Digamma Floor Ceil Round Trunc Not
    }
}
