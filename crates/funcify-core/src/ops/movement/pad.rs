//! `pad`: inserts a value before, after and between the elements along one axis.

use crate::error::Site;
use crate::graph::emit_value;
use crate::ops::Slice;
use crate::ops::rules::*;

/// Padding along `axis`: `low` values before the elements, `high` values after them, and `interior` values between
/// neighbours. The second operand is the padding value, a scalar of the same dtype.
#[derive(Clone, Debug)]
pub struct Pad {
    /// The axis to pad.
    pub axis: usize,
    /// The number of values before the elements.
    pub low: Dim,
    /// The number of values after the elements.
    pub high: Dim,
    /// The number of values between neighbouring elements.
    pub interior: usize,
}

op_text!("pad" => Pad { axis, low, high, interior });

impl OpRules for Pad {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x, value] = arity(at, inputs)?;
        check_axis(at, "attribute `axis`", self.axis, x.rank())?;
        if value != TensorType::scalar(x.dtype) {
            let fix = "pass a scalar of the operand's dtype";
            return Err(at.mismatch("the padding value", TensorType::scalar(x.dtype), value, fix));
        }
        for (name, amount) in [("low", &self.low), ("high", &self.high)] {
            if amount.is_at_least(&Dim::from(0)) == Some(false) {
                let fix = "slice to make an axis shorter";
                return Err(at.mismatch(format!("attribute `{name}`"), "0 or more", amount, fix));
            }
        }
        let size = &x.shape[self.axis];
        let between = match (self.interior, size.constant()) {
            (0, _) => Dim::from(0),
            (interior, Some(size)) => Dim::from(interior) * (size - 1).max(0),
            (_, None) => {
                let fix = "use a fixed size";
                return Err(at.mismatch("the operand", "an axis without symbols, for interior padding", x, fix));
            }
        };
        let padded = size.clone() + between + &self.low + &self.high;
        Ok(vec![x.with_shape(x.shape.with_dim(self.axis, padded))])
    }

    fn eval(
        &self,
        context: &mut EvalContext<'_>,
        inputs: &[HostTensor],
        outputs: &[TensorType],
    ) -> Result<Vec<HostTensor>> {
        let [x, value] = [&inputs[0], &inputs[1]];
        let (low, _) = (context.size(&self.low)?, context.size(&self.high)?);
        let shape = context.shape(&outputs[0].shape)?;
        let step = self.interior.saturating_add(1);
        let result = HostTensor::from_fn(x.dtype(), &shape, |index| {
            let mut source = index.to_vec();
            let position = index[self.axis].wrapping_sub(low);
            source[self.axis] = position / step;
            let inside = index[self.axis] >= low && position % step == 0 && source[self.axis] < x.shape()[self.axis];
            if inside { x.at(&source) } else { value.get(0) }
        });
        Ok(vec![result])
    }

    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        let op = Pad { axis: self.axis + 1, ..self.clone() };
        let (x, value) = (operands[0].materialized(size).checked()?, operands[1]);
        if !value.mapped {
            return emit_lanes(op, &[x, value.value]);
        }
        // Each lane has its own padding value, so the rule pads with zeros, and then selects the lane's padding value
        // outside `x`.
        let inside = op.of(x.full_like(1.0).cast(DType::Bool), constant(false));
        let padded = pad_with_zeros(op, x);
        let ones = vec![Dim::from(1); x.rank() - 1];
        let values = value.value.reshape([std::slice::from_ref(size), ones.as_slice()].concat());
        Ok(vec![Batched::mapped(select(inside, padded, values))])
    }

    linear_jvp!();

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        let x = context.operands[0];
        let rows = x.dim(self.axis as i64);
        let step = self.interior.saturating_add(1);
        let covered = dilated_size(&rows, step).unwrap_or(rows);
        let slice = Slice { axis: self.axis, start: self.low.clone(), limit: self.low.clone() + covered, step };
        let inside = || Some(cotangent.emit(slice.clone()));
        let outside = || {
            let is_inside = self.of(x.full_like(1.0).cast(DType::Bool), constant(false));
            Some(select(is_inside, 0.0, cotangent).sum(..))
        };
        Ok(context.cotangents([&inside, &outside]))
    }
}

impl Pad {
    /// Adds the op to the open graph, with `around` as the padding value.
    fn of(&self, value: Value, around: Value) -> Value {
        emit_value(self.clone(), &[value, around], Site::Unknown)
    }
}

/// Pads a value with zeros.
pub(in crate::ops) fn pad_with_zeros(pad: Pad, value: Value) -> Value {
    pad.of(value, constant(HostTensor::scalar(0.0).cast(value.dtype())))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn before_between_and_after() {
        let x = HostTensor::from([1i32, 2]);
        let y = HostTensor::from([9i32, 1, 9, 2, 9, 9]);
        check_op("pad {axis=0, low=1, high=2, interior=1}", &[x, HostTensor::scalar(9i32)], y.clone());
    }

    #[test]
    fn the_value_is_a_scalar_and_the_amounts_are_not_negative() {
        rejects("pad {axis=0, low=1, high=0, interior=0}", &["f32[2]", "f32[1]"], "f32[]");
        rejects("pad {axis=0, low=-1, high=0, interior=0}", &["f32[2]", "f32[]"], "0 or more");
    }
}
