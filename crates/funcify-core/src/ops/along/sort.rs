//! `sort`: sorts elements along an axis, and also returns their original positions.
//!
//! The sort is stable in both directions: equal elements keep their order (PyTorch's `stable=True`). NaN compares
//! greater than any number: it is last in ascending order, as in NumPy and JAX, and first in descending order, as in
//! PyTorch. All NaNs compare equal, and so do -0 and +0. `false` is less than `true`.

use std::cmp::Ordering;

use crate::host::for_each_index;
use crate::ops::ScatterMode;
use crate::ops::rules::*;

/// A stable sort along `axis`. The results are the sorted elements and their original positions (i64), both with the
/// operand's shape.
#[derive(Clone, Copy, Debug)]
pub struct Sort {
    /// The axis along which elements are sorted.
    pub axis: usize,
    /// `true` if the greatest element comes first.
    pub descending: bool,
}

op_text!("sort" => Sort { axis }, order: descending as ascending or descending);

/// Compares two elements. NaN compares equal to NaN and greater than any number.
fn compare(left: Scalar, right: Scalar) -> Ordering {
    match (left, right) {
        (Scalar::Int(a), Scalar::Int(b)) => a.cmp(&b),
        (a, b) => {
            let (a, b) = (a.as_f64(), b.as_f64());
            a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
    }
}

impl OpRules for Sort {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = arity(at, inputs)?;
        check_axis(at, "attribute `axis`", self.axis, x.rank())?;
        Ok(vec![x.clone(), TensorType::new(DType::I64, x.shape)])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let x = &inputs[0];
        let size = x.shape()[self.axis];
        let stride: usize = x.shape()[self.axis + 1..].iter().product();
        let mut positions = vec![0i64; x.len()];
        let mut rows = x.shape().to_vec();
        rows[self.axis] = rows[self.axis].min(1);
        for_each_index(&rows, |row| {
            let start = row.iter().zip(x.shape()).fold(0, |flat, (i, size)| flat * size + i);
            let element = |position: usize| x.get(start + position * stride);
            let mut order: Vec<usize> = (0..size).collect();
            order.sort_by(|a, b| match self.descending {
                false => compare(element(*a), element(*b)),
                true => compare(element(*b), element(*a)),
            });
            for (target, source) in order.into_iter().enumerate() {
                positions[start + target * stride] = source as i64;
            }
        });
        let positions = HostTensor::new(x.shape(), Storage::I64(positions));
        let sorted = positions.as_ref().map(|positions| {
            HostTensor::from_fn(x.dtype(), x.shape(), |index| {
                let mut source = index.to_vec();
                source[self.axis] = positions.at(index).as_i64() as usize;
                x.at(&source)
            })
        });
        Ok(sorted.into_iter().chain(positions).collect())
    }

    fn batch(&self, _: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        emit_lanes(Sort { axis: self.axis + 1, ..*self }, &[operands[0].value])
    }

    fn jvp(&self, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
        jvp_with(*self, operands, |_, results| {
            let sorted = |tangent: Value| tangent.gather(self.axis as i64, results[1]);
            vec![operands[0].tangent.map(sorted), None]
        })
    }

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let zeros = context.operands[0].zeros_like();
        let back = |cotangent| zeros.scatter(self.axis as i64, context.results[1], cotangent, ScatterMode::Add);
        Ok(vec![cotangents[0].map(back)])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{check_batch, eval_all, rejects};
    use crate::{DType, HostTensor};

    /// Sorts `x` along axis 0, and returns the original positions of the sorted elements.
    fn positions(order: &str, x: impl Into<HostTensor>) -> Vec<i64> {
        let results = eval_all(&format!("sort {{axis=0, order={order}}}"), &[x.into()]);
        results[1].as_slice().unwrap().to_vec()
    }

    #[test]
    fn stable_both_ways() {
        assert_eq!(positions("ascending", [2i64, 1, 2, 1]), [1, 3, 0, 2]);
        assert_eq!(positions("descending", [2i64, 1, 2, 1]), [0, 2, 1, 3]);
        assert_eq!(positions("ascending", [0f32, -0.0, 0.0]), [0, 1, 2]);
        assert_eq!(positions("ascending", [true, false]), [1, 0]);
        assert_eq!(positions("ascending", [i64::MAX, i64::MAX - 1, i64::MIN]), [2, 1, 0]);
    }

    #[test]
    fn nan_is_the_greatest() {
        let x = [f32::NAN, f32::INFINITY, 1.0, f32::NAN, f32::NEG_INFINITY];
        assert_eq!(positions("ascending", x), [4, 2, 1, 0, 3]);
        assert_eq!(positions("descending", x), [0, 3, 1, 2, 4]);
    }

    #[test]
    fn along_any_axis() {
        let x = HostTensor::from([[3i32, 1], [2, 5], [1, 4]]);
        let results = eval_all("sort {axis=0, order=ascending}", std::slice::from_ref(&x));
        assert_eq!(results, [[[1i32, 1], [2, 4], [3, 5]].into(), HostTensor::from([[2i64, 0], [1, 2], [0, 1]])]);
        let empty = HostTensor::zeros(DType::F32, &[2, 0]);
        let results = eval_all("sort {axis=1, order=ascending}", std::slice::from_ref(&empty));
        assert_eq!(results, [empty, HostTensor::zeros(DType::I64, &[2, 0])]);
    }

    #[test]
    fn each_lane_on_its_own() {
        let x = HostTensor::from([[[3i32, 1], [2, 5]], [[1, 4], [0, 4]]]);
        check_batch("sort {axis=0, order=descending}", &[(x, true)]);
    }

    #[test]
    fn the_axis_exists() {
        rejects("sort {axis=1, order=ascending}", &["f32[3]"], "an axis below 1");
        rejects("sort {axis=0, order=ascending}", &["f32[]"], "an axis below 0");
    }
}
