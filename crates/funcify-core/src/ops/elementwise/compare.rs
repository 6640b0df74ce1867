//! Elementwise comparisons of two operands of the same type, with a boolean result.
//!
//! NaN is unordered: every comparison with NaN is false, except `ne`. `false` is less than `true`.

use std::cmp::Ordering;

use crate::ops::rules::*;

macro_rules! compare_table {
    ($($name:ident => $op:ident, |$order:ident| $holds:expr, $doc:literal;)*) => {
        op_table! {
            /// An elementwise comparison.
            Compare, COMPARE_NAMES, compare_of: $(stringify!($name) => $op, $doc;)*
        }

        impl Compare {
            fn holds(self, order: Option<Ordering>) -> bool {
                match self { $(Compare::$op => { let $order = order; $holds })* }
            }
        }

        $(value_method!(2 $name: Compare::$op, $doc);)*
    };
}

compare_table! {
    eq => Eq, |order| order == Some(Ordering::Equal), "x == y.";
    ne => Ne, |order| order != Some(Ordering::Equal), "x != y; true for NaN.";
    lt => Lt, |order| order == Some(Ordering::Less), "x < y.";
    le => Le, |order| matches!(order, Some(Ordering::Less | Ordering::Equal)), "x <= y.";
    gt => Gt, |order| order == Some(Ordering::Greater), "x > y.";
    ge => Ge, |order| matches!(order, Some(Ordering::Greater | Ordering::Equal)), "x >= y.";
}

impl OpRules for Compare {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [left, right] = arity(at, inputs)?;
        check_same(at, &left, &right)?;
        Ok(vec![left.with_dtype(DType::Bool)])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let pairs = inputs[0].scalars().zip(inputs[1].scalars());
        let scalars = pairs.map(|(a, b)| Scalar::Bool(self.holds(order(a, b))));
        tensor(DType::Bool, inputs[0].shape(), scalars)
    }

    elementwise_batch!();

    no_derivative_rules!();
}

fn order(left: Scalar, right: Scalar) -> Option<Ordering> {
    match (left, right) {
        (Scalar::Int(a), Scalar::Int(b)) => Some(a.cmp(&b)),
        (a, b) => a.as_f64().partial_cmp(&b.as_f64()),
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn nan_is_unordered() {
        let x = HostTensor::from([f32::NAN, 1.0, 2.0]);
        let y = HostTensor::from([f32::NAN, 2.0, 2.0]);
        let bools = |b: [bool; 3]| HostTensor::from_vec(b.to_vec(), [3]).unwrap();
        check_op("eq", &[x.clone(), y.clone()], bools([false, false, true]));
        check_op("ne", &[x.clone(), y.clone()], bools([true, true, false]));
        check_op("le", &[x.clone(), y.clone()], bools([false, true, true]));
        check_op("ge", &[x, y], bools([false, false, true]));
    }

    #[test]
    fn large_integers_are_compared_exactly() {
        let (x, y) = (HostTensor::scalar(i64::MAX), HostTensor::scalar(i64::MAX - 1));
        check_op("gt", &[x, y], true);
    }

    #[test]
    fn operands_must_have_one_type() {
        rejects("lt", &["i64[2]", "i32[2]"], "i64[2], like the left operand");
    }
}
