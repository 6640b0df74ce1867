//! `dynamic_update`: replaces a slice along one axis, starting at an index that is known only at run time.
//!
//! As in StableHLO, the start is clamped so that the slice lies within the axis.

use crate::ops::indexing::dynamic_slice::{along, check_fits, check_start, clamped_start, lane_starts};
use crate::ops::rules::*;
use crate::value::{self, iota};

/// The op `dynamic_update(x, part, start)`, which writes `part` into a copy of `x`, starting at the index `start` along
/// `axis`. `part` has the type of `x`, except for the size of `axis`.
#[derive(Clone, Copy, Debug)]
pub struct DynamicUpdate {
    /// The axis along which the slice is replaced.
    pub axis: usize,
}

op_text!("dynamic_update" => DynamicUpdate { axis });

impl OpRules for DynamicUpdate {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x, part, start] = arity(at, inputs)?;
        check_axis(at, "attribute `axis`", self.axis, x.rank())?;
        check_start(at, &start)?;
        check_except(at, "the part", self.axis, &x, &part)?;
        check_fits(at, "the part", &part.shape[self.axis], &x.shape[self.axis])?;
        Ok(vec![x])
    }

    fn eval(&self, context: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let [x, part, start] = [&inputs[0], &inputs[1], &inputs[2]];
        let size = part.shape()[self.axis];
        let start = clamped_start(&context.at, start.get(0).as_i64(), size, x.shape()[self.axis])?;
        let result = HostTensor::from_fn(x.dtype(), x.shape(), |index| {
            let mut source = index.to_vec();
            source[self.axis] = index[self.axis].wrapping_sub(start);
            if source[self.axis] < size { part.at(&source) } else { x.at(index) }
        });
        Ok(vec![result])
    }

    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        let [x, part, start] = [operands[0], operands[1], operands[2]];
        let axis = self.axis + 1;
        let (x, part) = (x.materialized(size).checked()?, part.materialized(size).checked()?);
        let length = part.shape()[axis].clone();
        if !start.mapped {
            return emit_lanes(DynamicUpdate { axis }, &[x, part, start.value]);
        }
        if length.constant() == Some(0) {
            return Ok(vec![Batched::mapped(x)]);
        }
        // For each element of the result, compute its position within `part`, which may be out of range.
        let shape = x.shape();
        let positions = along(iota(shape[axis].clone(), DType::I64), axis, &shape);
        let positions = positions - lane_starts(start.value, &shape[axis], &length, &shape);
        let inside = positions.ge(0) & positions.lt(value::size(length, DType::I64));
        Ok(vec![Batched::mapped(select(inside, part.gather(axis as i64, positions), x))])
    }

    linear_jvp!();

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        let (part, start) = (context.operands[1], context.operands[2]);
        let axis = self.axis as i64;
        let whole = || Some(cotangent.dynamic_update(axis, part.zeros_like(), start));
        let replaced = || Some(cotangent.dynamic_slice(axis, start, part.dim(axis)));
        Ok(context.cotangents([&whole, &replaced, &|| None]))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn the_start_is_clamped() {
        let x = HostTensor::from([0i32, 1, 2]);
        let part = HostTensor::from([8i32, 9]);
        for (start, expected) in [(0i64, [8, 9, 2]), (7, [0, 8, 9]), (-1, [8, 9, 2])] {
            let inputs = [x.clone(), part.clone(), HostTensor::scalar(start)];
            check_op("dynamic_update {axis=0}", &inputs, HostTensor::from_vec(expected.to_vec(), [3]).unwrap());
        }
    }

    #[test]
    fn the_part_has_the_type_of_the_whole() {
        rejects("dynamic_update {axis=0}", &["f32[4,2]", "f32[1,3]", "i64[]"], "f32[4,2] except in axis 0");
        rejects("dynamic_update {axis=0}", &["f32[4]", "f32[5]", "i64[]"], "0 to 4 elements");
    }
}
