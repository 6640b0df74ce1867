//! `take`: reads whole slices along one axis, by index (NumPy's `take`, PyTorch's `index_select`).
//!
//! As in StableHLO, an index that is out of range is clamped, so a negative index becomes 0. The axis may be empty if
//! there are no indices. Otherwise, an empty axis is rejected only at run time, because the op may be in a loop that
//! runs no steps.

use crate::ops::indexing::gather::clamped;
use crate::ops::rules::*;
use crate::ops::{ScatterMode, check_index_dtype, check_not_empty, clamp_index};

/// The op `take(x, indices)`, where `indices` may have any rank. In the result, the axes of `indices` replace `axis`.
#[derive(Clone, Copy, Debug)]
pub struct Take {
    /// The axis to index.
    pub axis: usize,
}

op_text!("take" => Take { axis });

impl Take {
    pub(in crate::ops) fn lanes_along(&self, axis: usize, operands: &[&TensorType]) -> Option<Lanes> {
        let indices = operands[1].rank();
        Some(match axis.checked_sub(self.axis) {
            None => smallvec![Some(axis), None],
            Some(of_indices) if of_indices < indices => smallvec![None, Some(of_indices)],
            Some(_) => smallvec![Some(axis + 1 - indices), None],
        })
    }
}

impl OpRules for Take {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x, indices] = arity(at, inputs)?;
        check_axis(at, "attribute `axis`", self.axis, x.rank())?;
        check_index_dtype(at, "the indices", &indices)?;
        let dims = x.shape.dims();
        let shape = dims[..self.axis].iter().chain(indices.shape.dims()).chain(&dims[self.axis + 1..]);
        Ok(vec![x.with_shape(Shape::new(shape))])
    }

    fn eval(&self, context: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let [x, indices] = [&inputs[0], &inputs[1]];
        let (size, rank) = (x.shape()[self.axis], indices.shape().len());
        if !indices.is_empty() {
            check_not_empty(&context.at, x, self.axis)?;
        }
        let shape = [&x.shape()[..self.axis], indices.shape(), &x.shape()[self.axis + 1..]].concat();
        let result = HostTensor::from_fn(x.dtype(), &shape, |index| {
            let at = indices.at(&index[self.axis..self.axis + rank]).as_i64();
            let source = [&index[..self.axis], &[clamp_index(at, size)], &index[self.axis + rank..]].concat();
            x.at(&source)
        });
        Ok(vec![result])
    }

    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        let [x, indices] = [operands[0], operands[1]];
        let axis = self.axis as i64;
        match (x.mapped, indices.mapped) {
            (_, false) => emit_lanes(Take { axis: self.axis + 1 }, &[x.value, indices.value]),
            (false, true) => Ok(vec![Batched::mapped(x.value.take(axis, indices.value).move_axis(axis, 0))]),
            (true, true) => {
                // Gather from a tensor of shape [size, n, rest] with indices of shape [size, count, 1], and then move
                // the axes of the indices to the position of `axis`. Here, `size` is the number of lanes, and `n` is
                // the size of `axis`.
                let (x, indices) = (x.value.move_axis(axis + 1, 1).checked()?, indices.value);
                let (of_x, of_indices) = (x.shape(), indices.shape());
                let (rest, count) = (Shape::new(&of_x.dims()[2..]), Shape::new(&of_indices.dims()[1..]));
                let flat = x.reshape([size.clone(), of_x[1].clone(), rest.elements()]);
                let indices = indices.reshape([size.clone(), count.elements(), Dim::from(1)]);
                let taken = flat.gather(1, indices.broadcast_to([size.clone(), count.elements(), rest.elements()]));
                let dims = [std::slice::from_ref(size), count.dims(), rest.dims()].concat();
                let rank = count.rank();
                let front = (0..self.axis).map(|axis| 1 + rank + axis);
                let back = (self.axis..rest.rank()).map(|axis| 1 + rank + axis);
                let axes: Vec<usize> = std::iter::once(0).chain(front).chain(1..1 + rank).chain(back).collect();
                Ok(vec![Batched::mapped(taken.reshape(dims).transpose(axes))])
            }
        }
    }

    linear_jvp!();

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        let [x, indices] = [context.operands[0], context.operands[1]];
        let (shape, count) = (x.shape(), indices.shape().elements());
        // `scatter` expects one index per update, so align the indices with `axis` and broadcast them.
        let flat = shape.with_dim(self.axis, count.clone());
        let mut aligned = vec![Dim::from(1); shape.rank()];
        aligned[self.axis] = count;
        let of_x = || {
            let indices = clamped(indices, &shape[self.axis]).reshape(aligned.clone()).broadcast_to(&flat);
            Some(x.zeros_like().scatter(self.axis as i64, indices, cotangent.reshape(&flat), ScatterMode::Add))
        };
        Ok(context.cotangents([&of_x, &|| None]))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn whole_slices_and_clamped_indices() {
        let x = HostTensor::from([[0i32, 1], [10, 11], [20, 21]]);
        let rows = HostTensor::from([2i64, -4, 99]);
        check_op("take {axis=0}", &[x.clone(), rows], [[20i32, 21], [0, 1], [20, 21]]);
        let column = HostTensor::scalar(1i32);
        check_op("take {axis=1}", &[x, column], [1i32, 11, 21]);
    }

    #[test]
    fn no_indices_take_nothing() {
        let (x, indices) = (HostTensor::zeros(crate::DType::F32, &[2, 0]), HostTensor::from([0i64; 0]));
        check_op("take {axis=1}", &[x.clone(), indices], x.clone());
        fails("take {axis=1}", &[x, HostTensor::from([0i64])], "a non-empty axis");
    }

    #[test]
    fn indices_are_integers() {
        rejects("take {axis=0}", &["f32[3]", "f32[2]"], "an integer type");
    }
}
