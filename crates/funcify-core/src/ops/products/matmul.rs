//! `matmul`: matrix products, batched over equal leading axes.

use std::num::Wrapping;
use std::ops::{Add, Mul};

use crate::derivative::add;
use crate::ops::rules::*;

/// Matrix products `[..,m,k] x [..,k,n] -> [..,m,n]` of numbers of the same dtype. The sizes of the batch axes must be
/// equal. The reference evaluator sums floats in f64; the order of summation depends on the backend. Integers wrap.
#[derive(Clone, Copy, Debug)]
pub struct MatMul;

op_text!("matmul" => MatMul {});

impl MatMul {
    pub(in crate::ops) fn lanes_along(&self, axis: usize, results: &[&TensorType]) -> Option<Lanes> {
        let columns = results[0].rank() - 1;
        Some(smallvec![Some(axis).filter(|axis| *axis < columns), Some(axis).filter(|axis| *axis + 1 != columns)])
    }
}

impl OpRules for MatMul {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [left, right] = arity(at, inputs)?;
        for (component, ty) in [("the left operand", &left), ("the right operand", &right)] {
            Domain::Number.check(at, component, ty)?;
            if ty.rank() < 2 {
                let fix = "reshape a vector to a matrix of one row or column";
                return Err(at.mismatch(component, "rank 2 or more", ty, fix));
            }
        }
        if left.dtype != right.dtype {
            let fix = "cast one of them: nothing is promoted silently";
            return Err(at.mismatch("the right operand", format!("dtype {}, as in {left}", left.dtype), right, fix));
        }
        let rank = left.rank();
        let batch = &left.shape.dims()[..rank - 2];
        if right.rank() != rank || right.shape.dims()[..rank - 2] != *batch {
            let fix = "broadcast the batch axes of one operand";
            return Err(at.mismatch("the right operand", format!("the batch axes of {left}"), right, fix));
        }
        let (rows, inner, columns) = (&left.shape[rank - 2], &left.shape[rank - 1], &right.shape[rank - 1]);
        if right.shape[rank - 2] != *inner {
            let expected = format!("{inner} rows, to match {left}");
            return Err(at.mismatch("the right operand", expected, right, "transpose or reshape an operand"));
        }
        let dims: Vec<_> = batch.iter().chain([rows, columns]).cloned().collect();
        Ok(vec![left.with_shape(dims)])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let [left, right] = [&inputs[0], &inputs[1]];
        let rank = left.shape().len();
        let inner = left.shape()[rank - 1];
        let mut shape = left.shape().to_vec();
        shape[rank - 1] = right.shape()[rank - 1];
        let product = HostTensor::from_fn(left.dtype(), &shape, |index| {
            let (mut a, mut b) = (index.to_vec(), index.to_vec());
            let terms = (0..inner).map(|k| {
                (a[rank - 1], b[rank - 2]) = (k, k);
                (left.at(&a), right.at(&b))
            });
            match left.dtype().is_float() {
                true => Scalar::Float(terms.map(|(a, b)| a.as_f64() * b.as_f64()).sum()),
                false => {
                    Scalar::Int(terms.fold(0, |sum: i64, (a, b)| sum.wrapping_add(a.as_i64().wrapping_mul(b.as_i64()))))
                }
            }
        });
        Ok(vec![product])
    }

    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        let [left, right] = [operands[0], operands[1]];
        if right.mapped || left.lane_rank() > 2 {
            return batch_elementwise(*self, size, operands);
        }
        // Merge the lanes into the rows of the left operand, so that one product covers all lanes.
        let (rows, inner) = (left.value.dim(1), left.value.dim(2));
        let tall = left.value.reshape([size.clone() * &rows, inner]);
        let product = tall.matmul(right.value);
        Ok(vec![Batched::mapped(product.reshape([size.clone(), rows, right.value.dim(1)]))])
    }

    fn jvp(&self, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
        jvp_with(*self, operands, |values, _| {
            let left = operands[0].tangent.map(|tangent| tangent.matmul(values[1]));
            let right = operands[1].tangent.map(|tangent| values[0].matmul(tangent));
            vec![add(left, right)]
        })
    }

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        let [left, right] = [context.operands[0], context.operands[1]];
        Ok(context.cotangents([&|| Some(cotangent.matmul(right.t())), &|| Some(left.t().matmul(cotangent))]))
    }
}

/// Computes the products of two stacks of integer matrices, `rows x inner` and `inner x columns`. The three sizes must
/// not be 0. Integers wrap. Backends call this function too.
#[doc(hidden)]
pub fn integer_products<E>(left: &[E], right: &[E], [rows, inner, columns]: [usize; 3]) -> Vec<E>
where
    E: Copy + Default,
    Wrapping<E>: Add<Output = Wrapping<E>> + Mul<Output = Wrapping<E>>,
{
    let mut products = Vec::with_capacity(left.len() / inner.max(1) * columns);
    let pairs = left.chunks_exact((rows * inner).max(1)).zip(right.chunks_exact((inner * columns).max(1)));
    for (left, right) in pairs {
        for row in left.chunks_exact(inner) {
            let start = products.len();
            products.resize(start + columns, E::default());
            for (factor, line) in row.iter().zip(right.chunks_exact(columns)) {
                let sums = products[start..].iter_mut().zip(line);
                sums.for_each(|(sum, element)| *sum = (Wrapping(*sum) + Wrapping(*factor) * Wrapping(*element)).0);
            }
        }
    }
    products
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn batched_products() {
        let a = HostTensor::from([[[1f32, 2.]], [[3., 4.]]]);
        let b = HostTensor::from([[[1f32], [10.]], [[1.], [10.]]]);
        check_op("matmul", &[a, b], [[[21f32]], [[43.]]]);
    }

    #[test]
    fn integers_wrap() {
        let largest = [HostTensor::from([[i64::MAX, 2]]), HostTensor::from([[2i64], [i64::MAX]])];
        check_op("matmul", &largest, [[-4i64]]);
        let bytes = [HostTensor::from([[200u8, 100], [1, 255]]), HostTensor::from([[2u8, 3], [4, 255]])];
        check_op("matmul", &bytes, [[32u8, 244], [254, 4]]);
        let words = [HostTensor::from([[u32::MAX]]), HostTensor::from([[u32::MAX]])];
        check_op("matmul", &words, [[1u32]]);
        check_op("matmul", &[HostTensor::from([[i32::MIN]]), HostTensor::from([[-1i32]])], [[i32::MIN]]);
    }

    #[test]
    fn the_shared_kernel_gives_the_same() {
        let numbers = |shape: &[usize], first: usize| {
            let mut next = first as i64;
            HostTensor::from_fn(crate::DType::I32, shape, |_| {
                next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                crate::Scalar::Int(next >> 20)
            })
        };
        let (left, right) = (numbers(&[2, 3, 5], 1), numbers(&[2, 5, 4], 2));
        let elements = |tensor: &HostTensor| <i32 as crate::Element>::from_storage(tensor.storage()).unwrap().to_vec();
        let products = super::integer_products(&elements(&left), &elements(&right), [3, 5, 4]);
        check_op("matmul", &[left, right], HostTensor::from_vec(products, [2, 3, 4]).unwrap());
    }

    #[test]
    fn the_contracted_axes_must_be_equal() {
        rejects("matmul", &["f32[B,64]", "f32[65,128]"], "64 rows");
        rejects("matmul", &["f32[2,3,4]", "f32[3,4,5]"], "the batch axes of f32[2,3,4]");
        rejects("matmul", &["f32[4]", "f32[4,5]"], "rank 2 or more");
        rejects("matmul", &["bool[2,2]", "bool[2,2]"], "a number type");
        rejects("matmul", &["i64[2,2]", "i32[2,2]"], "dtype i64");
        rejects("matmul", &["f32[2,2]", "f64[2,2]"], "dtype f32");
    }
}
