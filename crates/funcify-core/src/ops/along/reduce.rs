//! `reduce`: combines all elements along some axes into one value.
//!
//! A reduction over no elements returns the identity: 0 for `sum`, 1 for `prod`, `false` for `any`, `true` for `all`,
//! the lowest value of the dtype for `max`, and the highest for `min` (infinities for floats). `max` and `min`
//! propagate NaN, and treat -0 as less than +0. Integer sums and products wrap.

use crate::ops::associative::{AssociativeScanOptions, associative_scan, associative_scan_with};
use crate::ops::rules::*;
use crate::ops::{Binary, special};
use crate::value::{concat, full};

/// The monoid with which a reduction combines elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReduceKind {
    /// The sum.
    Sum,
    /// The product.
    Prod,
    /// The maximum.
    Max,
    /// The minimum.
    Min,
    /// The logical or.
    Any,
    /// The logical and.
    All,
}

impl ReduceKind {
    pub(in crate::ops) const TABLE: [(&'static str, ReduceKind); 6] = [
        ("sum", ReduceKind::Sum),
        ("prod", ReduceKind::Prod),
        ("max", ReduceKind::Max),
        ("min", ReduceKind::Min),
        ("any", ReduceKind::Any),
        ("all", ReduceKind::All),
    ];

    /// Returns the monoid's name in the text form.
    pub fn name(self) -> &'static str {
        Self::TABLE.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Returns an error if the monoid is not defined on elements of this type.
    pub(in crate::ops) fn check(self, at: &Place, x: &TensorType) -> Result<()> {
        let logical = matches!(self, ReduceKind::Any | ReduceKind::All);
        if logical == (x.dtype == DType::Bool) {
            return Ok(());
        }
        let (expected, fix) = match logical {
            true => ("a bool tensor", "compare, or cast to bool"),
            false => ("a number type", "cast the booleans to a number type"),
        };
        Err(at.mismatch("the operand", expected, x, fix))
    }

    /// Returns the monoid's identity, which is the result of a reduction over no elements.
    pub fn identity(self, dtype: DType) -> Scalar {
        let lowest = match dtype {
            DType::U8 | DType::U32 => Scalar::Int(0),
            DType::I32 => Scalar::Int(i64::from(i32::MIN)),
            DType::I64 => Scalar::Int(i64::MIN),
            _ => Scalar::Float(f64::NEG_INFINITY),
        };
        let highest = match dtype {
            DType::U8 => Scalar::Int(i64::from(u8::MAX)),
            DType::U32 => Scalar::Int(i64::from(u32::MAX)),
            DType::I32 => Scalar::Int(i64::from(i32::MAX)),
            DType::I64 => Scalar::Int(i64::MAX),
            _ => Scalar::Float(f64::INFINITY),
        };
        let number = |value: i64| if dtype.is_float() { Scalar::Float(value as f64) } else { Scalar::Int(value) };
        match self {
            ReduceKind::Sum => number(0),
            ReduceKind::Prod => number(1),
            ReduceKind::Max => lowest,
            ReduceKind::Min => highest,
            ReduceKind::Any => Scalar::Bool(false),
            ReduceKind::All => Scalar::Bool(true),
        }
    }

    pub(in crate::ops) fn linearity(self) -> Linearity {
        match self {
            ReduceKind::Sum => Linearity::InAll,
            ReduceKind::Prod | ReduceKind::Max | ReduceKind::Min | ReduceKind::Any | ReduceKind::All => Linearity::None,
        }
    }

    /// Returns the binary op that combines two values.
    pub fn binary(self) -> Binary {
        match self {
            ReduceKind::Sum => Binary::Add,
            ReduceKind::Prod => Binary::Mul,
            ReduceKind::Max => Binary::Max,
            ReduceKind::Min => Binary::Min,
            ReduceKind::Any => Binary::Or,
            ReduceKind::All => Binary::And,
        }
    }

    /// Returns the monoid whose binary op is `op` on values of this dtype, or `None` if there is none.
    pub fn of(op: Binary, dtype: DType) -> Option<ReduceKind> {
        let kinds = Self::TABLE.map(|(_, kind)| kind);
        let of_type = |kind: &ReduceKind| matches!(kind, ReduceKind::Any | ReduceKind::All) == (dtype == DType::Bool);
        kinds.into_iter().find(|kind| kind.binary() == op && of_type(kind))
    }

    /// Combines two values with the monoid's binary op.
    pub(crate) fn combine(self, left: Scalar, right: Scalar) -> Scalar {
        match (self, left, right) {
            (ReduceKind::Any, a, b) => Scalar::Bool(a.as_bool() | b.as_bool()),
            (ReduceKind::All, a, b) => Scalar::Bool(a.as_bool() & b.as_bool()),
            (ReduceKind::Sum, Scalar::Int(a), Scalar::Int(b)) => Scalar::Int(a.wrapping_add(b)),
            (ReduceKind::Prod, Scalar::Int(a), Scalar::Int(b)) => Scalar::Int(a.wrapping_mul(b)),
            (ReduceKind::Max, Scalar::Int(a), Scalar::Int(b)) => Scalar::Int(a.max(b)),
            (ReduceKind::Min, Scalar::Int(a), Scalar::Int(b)) => Scalar::Int(a.min(b)),
            (kind, a, b) => {
                let (a, b) = (a.as_f64(), b.as_f64());
                Scalar::Float(match kind {
                    ReduceKind::Sum => a + b,
                    ReduceKind::Prod => a * b,
                    ReduceKind::Max => special::maximum(a, b),
                    _ => special::minimum(a, b),
                })
            }
        }
    }
}

/// A reduction over `axes`, which are removed from the shape.
#[derive(Clone, Debug)]
pub struct Reduce {
    /// The monoid that combines the elements.
    pub kind: ReduceKind,
    /// The axes to reduce, in ascending order.
    pub axes: Vec<usize>,
}

op_text!("reduce" => Reduce { kind, axes });

impl Reduce {
    pub(in crate::ops) fn lanes_along(&self, axis: usize, operands: &[&TensorType]) -> Option<Lanes> {
        let rank = operands[0].rank();
        Some(smallvec![Some((0..rank).filter(|axis| !self.axes.contains(axis)).nth(axis)?)])
    }
}

impl OpRules for Reduce {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = arity(at, inputs)?;
        self.kind.check(at, &x)?;
        for axis in &self.axes {
            check_axis(at, "attribute `axes`", *axis, x.rank())?;
        }
        if !self.axes.windows(2).all(|pair| pair[0] < pair[1]) {
            let found = format!("{:?}", self.axes);
            return Err(at.mismatch("attribute `axes`", "ascending axes, each once", found, "sort the axes"));
        }
        let kept = x.shape.dims().iter().enumerate().filter(|(axis, _)| !self.axes.contains(axis));
        Ok(vec![x.with_shape(Shape::new(kept.map(|(_, dim)| dim)))])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let x = &inputs[0];
        let kept: Vec<usize> = (0..x.shape().len()).filter(|axis| !self.axes.contains(axis)).collect();
        let shape: Vec<usize> = kept.iter().map(|axis| x.shape()[*axis]).collect();
        let reduced: Vec<usize> = self.axes.iter().map(|axis| x.shape()[*axis]).collect();
        let result = HostTensor::from_fn(x.dtype(), &shape, |outer| {
            let mut value = self.kind.identity(x.dtype());
            crate::host::for_each_index(&reduced, |inner| {
                let mut index = vec![0; x.shape().len()];
                kept.iter().zip(outer).for_each(|(axis, i)| index[*axis] = *i);
                self.axes.iter().zip(inner).for_each(|(axis, i)| index[*axis] = *i);
                value = self.kind.combine(value, x.at(&index));
            });
            value
        });
        Ok(vec![result])
    }

    fn batch(&self, _: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        let op = Reduce { kind: self.kind, axes: self.axes.iter().map(|axis| axis + 1).collect() };
        emit_lanes(op, &[operands[0].value])
    }

    fn jvp(&self, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
        jvp_with(self.clone(), operands, |values, results| {
            let tangent = operands[0].tangent.and_then(|tangent| self.tangent(values[0], results[0], tangent));
            vec![tangent]
        })
    }

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        Ok(vec![self.cotangent(context.operands[0], context.results[0], cotangent)])
    }
}

impl Reduce {
    fn tangent(&self, x: Value, y: Value, tangent: Value) -> Option<Value> {
        match self.kind {
            ReduceKind::Sum => Some(self.sum(tangent)),
            ReduceKind::Prod => Some(self.sum(tangent * self.products_of_others(x))),
            ReduceKind::Max | ReduceKind::Min => {
                let passes = self.passes(x, y);
                Some(self.share(x, y, passes, self.sum(select(passes, tangent, 0.0))))
            }
            ReduceKind::Any | ReduceKind::All => None,
        }
    }

    fn cotangent(&self, x: Value, y: Value, cotangent: Value) -> Option<Value> {
        match self.kind {
            ReduceKind::Sum => Some(self.broadcast_back(cotangent, x)),
            ReduceKind::Prod => Some(self.broadcast_back(cotangent, x) * self.products_of_others(x)),
            ReduceKind::Max | ReduceKind::Min => {
                let passes = self.passes(x, y);
                Some(select(passes, self.broadcast_back(self.share(x, y, passes, cotangent), x), 0.0))
            }
            ReduceKind::Any | ReduceKind::All => None,
        }
    }

    /// Returns a mask of the elements of `x` that equal their extremum in `y`. If an extremum is NaN, the mask includes
    /// all elements that were reduced to it.
    fn passes(&self, x: Value, y: Value) -> Value {
        let y = self.broadcast_back(y, x);
        !(if self.kind == ReduceKind::Max { x.lt(y) } else { x.gt(y) })
    }

    /// Divides `whole`, a tangent or cotangent, by the number of elements that equal the extremum. The quotient is NaN
    /// if the extremum is NaN.
    fn share(&self, x: Value, y: Value, passes: Value, whole: Value) -> Value {
        // The count of an empty reduction is 0. `maximum` avoids a division by zero.
        let count = self.sum(passes.cast(x.dtype())).maximum(1.0);
        select(y.is_nan(), f64::NAN, whole / count)
    }

    fn sum(&self, x: Value) -> Value {
        x.emit(Reduce { kind: ReduceKind::Sum, axes: self.axes.clone() })
    }

    /// Broadcasts a result back to the shape of the operand.
    fn broadcast_back(&self, y: Value, x: Value) -> Value {
        let shape = x.shape();
        let ones = self.axes.iter().fold(shape.clone(), |shape, axis| shape.with_dim(*axis, 1));
        y.reshape(ones).broadcast_to(shape)
    }

    /// Computes, for each element, the product of all other elements that are reduced to the same result. Multiplies
    /// the cumulative products before and after the element instead of dividing the total product by the element, so
    /// derivatives of every order are correct at zeros.
    fn products_of_others(&self, x: Value) -> Value {
        let shape = x.shape();
        let kept = (0..shape.rank()).filter(|axis| !self.axes.contains(axis));
        let order: Vec<usize> = self.axes.iter().copied().chain(kept.clone()).collect();
        let rest = Shape::new(kept.map(|axis| shape[axis].clone()));
        let count = self.axes.iter().fold(Dim::from(1), |count, axis| count * &shape[*axis]);
        let front = x.transpose(order.clone());
        let rows = front.reshape(rest.with_leading(count.clone()));
        let one = full(rest.with_leading(1), x.dtype(), 1.0);
        let before = associative_scan(concat(&[one, rows], 0), |a, b| a * b).slice(0, Dim::from(0)..count.clone());
        let downward = AssociativeScanOptions::new().reverse();
        let after =
            associative_scan_with(downward, concat(&[rows, one], 0), |a, b| a * b).slice(0, Dim::from(1)..count + 1);
        let mut back = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, axis)| back[*axis] = at);
        (before * after).reshape(front.shape()).transpose(back)
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn along_any_axes() {
        let x = HostTensor::from([[1i64, 2, 3], [4, 5, 6]]);
        check_op("reduce {kind=sum, axes=[0]}", std::slice::from_ref(&x), [5i64, 7, 9]);
        check_op("reduce {kind=max, axes=[0,1]}", std::slice::from_ref(&x), 6i64);
        check_op("reduce {kind=prod, axes=[]}", std::slice::from_ref(&x), x.clone());
    }

    #[test]
    fn over_nothing_it_is_the_identity() {
        let empty = HostTensor::from_vec(Vec::<f32>::new(), [0, 2]).unwrap();
        let infinite = HostTensor::from([f32::NEG_INFINITY; 2]);
        check_op("reduce {kind=max, axes=[0]}", &[empty], infinite.clone());
        let none = HostTensor::from_vec(Vec::<bool>::new(), [0]).unwrap();
        check_op("reduce {kind=all, axes=[0]}", &[none], true);
    }

    #[test]
    fn nan_wins() {
        let x = HostTensor::from([1f32, f32::NAN, 2.]);
        assert!(eval_op("reduce {kind=min, axes=[0]}", &[x]).to_f64_vec()[0].is_nan());
    }

    #[test]
    fn axes_exist_and_ascend() {
        rejects("reduce {kind=sum, axes=[2]}", &["f32[2,3]"], "an axis below 2");
        rejects("reduce {kind=sum, axes=[1,0]}", &["f32[2,3]"], "ascending axes");
        rejects("reduce {kind=any, axes=[0]}", &["f32[2]"], "a bool tensor");
        rejects("reduce {kind=sum, axes=[0]}", &["bool[2]"], "a number type");
    }
}
