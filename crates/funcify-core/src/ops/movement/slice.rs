//! `slice`: the elements at `start`, `start+step`, ... below `limit`, along one axis.

use crate::ops::gather_along;
use crate::ops::movement::pad::{Pad, pad_with_zeros};
use crate::ops::rules::*;

/// A slice of one axis. If the step is not 1, the length `limit - start` must be a constant.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The axis to slice.
    pub axis: usize,
    /// The first index.
    pub start: Dim,
    /// The exclusive end of the slice.
    pub limit: Dim,
    /// The distance between consecutive indices, at least 1.
    pub step: usize,
}

op_text!("slice" => Slice { axis, start, limit, step });

impl OpRules for Slice {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = arity(at, inputs)?;
        check_axis(at, "attribute `axis`", self.axis, x.rank())?;
        let size = &x.shape[self.axis];
        let (start, limit) = (&self.start, &self.limit);
        let bounds = [(start, &Dim::from(0)), (limit, start), (size, limit)];
        if bounds.iter().any(|(large, small)| large.is_at_least(small) == Some(false)) {
            let expected = format!("bounds with 0 <= start <= limit <= {size}");
            let fix = "slice within the axis";
            return Err(at.mismatch("the slice", expected, format!("{start}..{limit} of {x}"), fix));
        }
        let length = limit.clone() - start;
        let size = match (self.step, length.constant()) {
            (0, _) => return Err(at.mismatch("attribute `step`", "1 or more", "0", "use `reverse` to go backward")),
            (1, _) => length,
            (step, Some(length)) => Dim::from((length.max(0) as usize).div_ceil(step)),
            (_, None) => {
                let found = format!("{start}..{limit}");
                let fix = "use fixed sizes, or a step of 1";
                return Err(at.mismatch("the slice", "bounds without symbols, for a step above 1", found, fix));
            }
        };
        Ok(vec![x.with_shape(x.shape.with_dim(self.axis, size))])
    }

    fn eval(&self, context: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let x = &inputs[0];
        let (start, limit) = (context.dim(&self.start)?, context.dim(&self.limit)?);
        let mut shape = x.shape().to_vec();
        if start < 0 || limit < start || limit as usize > shape[self.axis] {
            let expected = format!("bounds with 0 <= start <= limit <= {}", shape[self.axis]);
            let fix = "call with sizes for which the slice fits";
            return Err(context.at.mismatch("the slice", expected, format!("{start}..{limit}"), fix));
        }
        shape[self.axis] = ((limit - start) as usize).div_ceil(self.step);
        Ok(gather_along(self.axis, x, &shape, |index| start as usize + self.step * index[self.axis]))
    }

    fn batch(&self, _: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        let op = Slice { axis: self.axis + 1, ..self.clone() };
        emit_lanes(op, &[operands[0].value])
    }

    linear_jvp!();

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        let size = context.operands[0].dim(self.axis as i64);
        let rows = cotangent.dim(self.axis as i64);
        let high = size - &self.start - dilated_size(&rows, self.step).unwrap_or(rows);
        let pad = Pad { axis: self.axis, low: self.start.clone(), high, interior: self.step - 1 };
        Ok(vec![Some(pad_with_zeros(pad, cotangent))])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn every_second_element() {
        let x = HostTensor::from([0i32, 1, 2, 3, 4]);
        check_op("slice {axis=0, start=1, limit=5, step=2}", std::slice::from_ref(&x), [1i32, 3]);
        check_op(
            "slice {axis=0, start=2, limit=2, step=1}",
            &[x],
            HostTensor::from_vec(Vec::<i32>::new(), [0]).unwrap(),
        );
    }

    #[test]
    fn the_bounds_lie_within_the_axis() {
        rejects("slice {axis=0, start=1, limit=4, step=1}", &["f32[3]"], "limit <= 3");
        rejects("slice {axis=0, start=2, limit=1, step=1}", &["f32[3]"], "start <= limit");
        rejects("slice {axis=0, start=0, limit=T+1, step=1}", &["f32[T]"], "limit <= T");
        rejects("slice {axis=1, start=0, limit=1, step=1}", &["f32[3]"], "an axis below 1");
        rejects("slice {axis=0, start=0, limit=T, step=2}", &["f32[T]"], "without symbols");
    }
}
