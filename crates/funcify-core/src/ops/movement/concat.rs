//! `concat`: joins tensors along an axis.

use crate::ops::rules::*;

/// The concatenation of one or more operands along `axis`. The sizes of the other axes must be equal.
#[derive(Clone, Copy, Debug)]
pub struct Concat {
    /// The axis along which the operands are joined.
    pub axis: usize,
}

op_text!("concat" => Concat { axis });

impl OpRules for Concat {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let Some(first) = inputs.first() else {
            return Err(at.mismatch("the operand list", "one operand or more", "none", "pass the tensors to join"));
        };
        check_axis(at, "attribute `axis`", self.axis, first.rank())?;
        let mut size = Dim::from(0);
        for (index, ty) in inputs.iter().enumerate() {
            check_except(at, &format!("operand {index}"), self.axis, first, ty)?;
            size = size + &ty.shape[self.axis];
        }
        Ok(vec![first.with_shape(first.shape.with_dim(self.axis, size))])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let mut shape = inputs[0].shape().to_vec();
        shape[self.axis] = inputs.iter().map(|x| x.shape()[self.axis]).sum();
        let result = HostTensor::from_fn(inputs[0].dtype(), &shape, |index| {
            let mut source = index.to_vec();
            let mut part = 0;
            while source[self.axis] >= inputs[part].shape()[self.axis] {
                source[self.axis] -= inputs[part].shape()[self.axis];
                part += 1;
            }
            inputs[part].at(&source)
        });
        Ok(vec![result])
    }

    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        batch_elementwise(Concat { axis: self.axis + 1 }, size, operands)
    }

    linear_jvp!();

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        let mut start = Dim::from(0);
        let part = |operand: &Value| {
            let limit = start.clone() + operand.dim(self.axis as i64);
            let range = start.clone()..limit.clone();
            start = limit;
            Some(cotangent.slice(self.axis as i64, range))
        };
        Ok(context.operands.iter().map(part).collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn joins_and_skips_empty_parts() {
        let part = |v: Vec<i32>| {
            let n = v.len() / 2;
            HostTensor::from_vec(v, [2, n]).unwrap()
        };
        let joined = HostTensor::from([[1i32, 5, 6], [2, 7, 8]]);
        check_op("concat {axis=1}", &[part(vec![1, 2]), part(vec![]), part(vec![5, 6, 7, 8])], joined.clone());
    }

    #[test]
    fn other_axes_are_equal() {
        rejects("concat {axis=0}", &["f32[2,3]", "f32[2,4]"], "f32[2,3] except in axis 0");
        rejects("concat {axis=0}", &[], "one operand or more");
    }
}
