//! `gather`: reads one element per index, along one axis (NumPy's `take_along_axis`, PyTorch's `gather`).
//!
//! As in StableHLO, an index that is out of range is clamped, so a negative index becomes 0. The axis may be empty if
//! there are no indices. Otherwise, an empty axis is rejected only at run time, because the op may be in a loop that
//! runs no steps.

use crate::ops::rules::*;
use crate::ops::{ScatterMode, check_index_dtype, check_not_empty, clamp_index, equal_except, gather_along};
use crate::value;

/// The op `gather(x, indices)`. For a tensor of rank 3 and `axis` 1, it computes `y[i,j,k] = x[i,indices[i,j,k],k]`.
/// `indices` has the shape of `x`, except along `axis`.
#[derive(Clone, Copy, Debug)]
pub struct Gather {
    /// The axis to index.
    pub axis: usize,
}

op_text!("gather" => Gather { axis });

impl OpRules for Gather {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x, indices] = arity(at, inputs)?;
        check_along(at, self.axis, &x, &indices)?;
        Ok(vec![x.with_shape(&indices.shape)])
    }

    fn eval(&self, context: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let [x, indices] = [&inputs[0], &inputs[1]];
        let size = x.shape()[self.axis];
        if !indices.is_empty() {
            check_not_empty(&context.at, x, self.axis)?;
        }
        let position = |index: &[usize]| clamp_index(indices.at(index).as_i64(), size);
        Ok(gather_along(self.axis, x, indices.shape(), position))
    }

    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        batch_elementwise(Gather { axis: self.axis + 1 }, size, operands)
    }

    linear_jvp!();

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        let [x, indices] = [context.operands[0], context.operands[1]];
        let axis = self.axis as i64;
        let indices = clamped(indices, &x.dim(axis));
        let of_x = || Some(x.zeros_like().scatter(axis, indices, cotangent, ScatterMode::Add));
        Ok(context.cotangents([&of_x, &|| None]))
    }
}

/// Checks that indices are integers and have the shape of `x` except along `axis`.
pub(in crate::ops) fn check_along(at: &Place, axis: usize, x: &TensorType, indices: &TensorType) -> Result<()> {
    check_axis(at, "attribute `axis`", axis, x.rank())?;
    check_index_dtype(at, "the indices", indices)?;
    if !equal_except(axis, &indices.shape, &x.shape) {
        let expected = format!("the shape {} except in axis {axis}", x.shape);
        let fix = "broadcast the indices, or use `take` for whole slices";
        return Err(at.mismatch("the indices", expected, indices, fix));
    }
    Ok(())
}

/// Converts indices to i64 and clamps them to the range of an axis of `size` elements.
pub(in crate::ops) fn clamped(indices: Value, size: &Dim) -> Value {
    let last = value::size(size.clone() - 1, DType::I64);
    indices.cast(DType::I64).minimum(last).maximum(0)
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn one_element_an_index() {
        let x = HostTensor::from([[0i32, 1, 2], [10, 11, 12]]);
        let indices = HostTensor::from([[2u32, 0], [1, 7]]);
        check_op("gather {axis=1}", &[x, indices], [[2i32, 0], [11, 12]]);
    }

    #[test]
    fn no_indices_take_nothing() {
        let (x, indices) = (HostTensor::from([0f32; 0]), HostTensor::from([0i64; 0]));
        check_op("gather {axis=0}", &[x.clone(), indices], x.clone());
        fails("gather {axis=0}", &[x, HostTensor::from([0i64, 1])], "a non-empty axis");
    }

    #[test]
    fn indices_have_the_operands_shape_except_in_the_axis() {
        rejects("gather {axis=1}", &["f32[2,3]", "i64[3,3]"], "the shape [2,3] except in axis 1");
    }
}
