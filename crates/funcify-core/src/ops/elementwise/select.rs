//! `select`: picks each element from the second or the third operand, depending on the first.

use crate::ops::rules::*;

/// The op `select(p, a, b)`, which returns the elements of `a` where `p` is true, and the elements of `b` where `p` is
/// false. All operands have the same shape, and `a` and `b` have the same dtype.
#[derive(Clone, Copy, Debug)]
pub struct Select;

op_text!("select" => Select {});

impl OpRules for Select {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [predicate, left, right] = arity(at, inputs)?;
        if predicate.dtype != DType::Bool {
            return Err(at.mismatch("the predicate", "a bool tensor", predicate, "compare, or cast to bool"));
        }
        check_same(at, &left, &right)?;
        if predicate.shape != left.shape {
            let fix = "give the predicate the shape of the branches, or one that broadcasts to it";
            return Err(at.mismatch("the predicate", left.with_dtype(DType::Bool), predicate, fix));
        }
        Ok(vec![left])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let [predicate, left, right] = [&inputs[0], &inputs[1], &inputs[2]];
        let scalars = (0..left.len()).map(|i| if predicate.get(i).as_bool() { left.get(i) } else { right.get(i) });
        tensor(left.dtype(), left.shape(), scalars)
    }

    elementwise_batch!();

    linear_jvp!();

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        let predicate = context.operands[0];
        let left = || Some(select(predicate, cotangent, 0.0));
        let right = || Some(select(predicate, 0.0, cotangent));
        Ok(context.cotangents([&|| None, &left, &right]))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn takes_the_side_that_the_predicate_names() {
        let p = HostTensor::from([true, false]);
        let (a, b) = (HostTensor::from([1i32, 2]), HostTensor::from([3i32, 4]));
        check_op("select", &[p, a, b], [1i32, 4]);
    }

    #[test]
    fn the_predicate_is_a_bool_tensor_of_that_shape() {
        rejects("select", &["f32[2]", "f32[2]", "f32[2]"], "a bool tensor");
        rejects("select", &["bool[]", "f32[2]", "f32[2]"], "bool[2]");
    }
}
