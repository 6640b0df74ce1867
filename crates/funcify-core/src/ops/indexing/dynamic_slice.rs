//! `dynamic_slice`: reads a slice along one axis, starting at an index that is known only at run time.
//!
//! As in StableHLO, the start is clamped so that the slice lies within the axis.

use crate::ops::rules::*;
use crate::ops::{check_index_dtype, gather_along};
use crate::value::{self, iota};

/// The op `dynamic_slice(x, start)`, which returns `size` elements of `x` along `axis`, starting at the index `start`.
#[derive(Clone, Debug)]
pub struct DynamicSlice {
    /// The axis to slice.
    pub axis: usize,
    /// The number of elements in the slice.
    pub size: Dim,
}

op_text!("dynamic_slice" => DynamicSlice { axis, size });

impl OpRules for DynamicSlice {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x, start] = arity(at, inputs)?;
        check_axis(at, "attribute `axis`", self.axis, x.rank())?;
        check_start(at, &start)?;
        check_fits(at, "attribute `size`", &self.size, &x.shape[self.axis])?;
        Ok(vec![x.with_shape(x.shape.with_dim(self.axis, self.size.clone()))])
    }

    fn eval(&self, context: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let x = &inputs[0];
        let mut shape = x.shape().to_vec();
        let size = context.size(&self.size)?;
        let start = clamped_start(&context.at, inputs[1].get(0).as_i64(), size, shape[self.axis])?;
        shape[self.axis] = size;
        Ok(gather_along(self.axis, x, &shape, |index| index[self.axis] + start))
    }

    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        let [x, start] = [operands[0], operands[1]];
        if !start.mapped {
            let op = DynamicSlice { axis: self.axis + 1, size: self.size.clone() };
            return emit_lanes(op, &[x.value, start.value]);
        }
        let x = x.materialized(size);
        if self.size.constant() == Some(0) {
            // An empty slice does not depend on its start, so use a static slice, which also works on an empty axis.
            return Ok(vec![Batched::mapped(x.slice(self.axis as i64 + 1, 0..0))]);
        }
        let shape = x.checked()?.shape().with_dim(self.axis + 1, self.size.clone());
        let offsets = along(iota(self.size.clone(), DType::I64), self.axis + 1, &shape);
        let positions = lane_starts(start.value, &x.shape()[self.axis + 1], &self.size, &shape) + offsets;
        Ok(vec![Batched::mapped(x.gather(self.axis as i64 + 1, positions))])
    }

    linear_jvp!();

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        let (x, start) = (context.operands[0], context.operands[1]);
        Ok(context.cotangents([&|| Some(x.zeros_like().dynamic_update(self.axis as i64, cotangent, start)), &|| None]))
    }
}

/// Checks that the start is an integer scalar.
pub(in crate::ops) fn check_start(at: &Place, start: &TensorType) -> Result<()> {
    check_index_dtype(at, "the start", start)?;
    if start.rank() != 0 {
        let fix = "reshape it to a scalar, or use `take` for several indices";
        return Err(at.mismatch("the start", "a scalar", start, fix));
    }
    Ok(())
}

/// Checks that a slice of `part` elements fits in an axis. If the sizes can be compared only at run time, the check
/// succeeds.
pub(in crate::ops) fn check_fits(at: &Place, component: &str, part: &Dim, axis: &Dim) -> Result<()> {
    if axis.is_at_least(part) == Some(false) || part.is_at_least(&Dim::from(0)) == Some(false) {
        return Err(at.mismatch(component, format!("0 to {axis} elements"), part, "take a part that fits in the axis"));
    }
    Ok(())
}

/// Clamps `start` so that a slice of `part` elements fits in an axis of `axis` elements. Returns an error if the slice
/// is larger than the axis.
pub(in crate::ops) fn clamped_start(at: &Place, start: i64, part: usize, axis: usize) -> Result<usize> {
    let last = axis.checked_sub(part).ok_or_else(|| {
        at.mismatch("the part", format!("0 to {axis} elements"), part, "call with sizes for which the part fits")
    })?;
    Ok(start.clamp(0, last as i64) as usize)
}

/// Clamps each lane's start index so that a slice of `length` elements fits in an axis of `size` elements. The start
/// indices are broadcast to `shape`, whose first axis holds the lanes.
pub(in crate::ops) fn lane_starts(starts: Value, size: &Dim, length: &Dim, shape: &Shape) -> Value {
    let last = value::size(size.clone() - length, DType::I64);
    along(starts.cast(DType::I64).maximum(0).minimum(last), 0, shape)
}

/// Broadcasts a vector to `shape`, with its elements along `axis`.
pub(in crate::ops) fn along(vector: Value, axis: usize, shape: &Shape) -> Value {
    let mut dims = vec![Dim::from(1); shape.rank()];
    dims[axis] = vector.dim(0);
    vector.reshape(dims).broadcast_to(shape)
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn the_start_is_clamped() {
        let x = HostTensor::from([0i32, 1, 2, 3]);
        for (start, expected) in [(1i64, [1, 2]), (-5, [0, 1]), (9, [2, 3])] {
            let inputs = [x.clone(), HostTensor::scalar(start)];
            check_op("dynamic_slice {axis=0, size=2}", &inputs, HostTensor::from_vec(expected.to_vec(), [2]).unwrap());
        }
    }

    #[test]
    fn the_start_is_an_integer_scalar_and_the_part_fits() {
        rejects("dynamic_slice {axis=0, size=2}", &["f32[4]", "f32[]"], "an integer type");
        rejects("dynamic_slice {axis=0, size=2}", &["f32[4]", "i64[1]"], "a scalar");
        rejects("dynamic_slice {axis=0, size=5}", &["f32[4]", "i64[]"], "0 to 4 elements");
    }
}
