//! `reduce`: one value for all elements along some axes.
//!
//! Over nothing: sum 0, product 1, any `false`, all `true`, max the lowest and min the highest value of the
//! dtype (infinite for floats). NaN wins in max and min. Integer sums and products wrap.

use super::{Attributes, EvalContext, OpRules, arity, check_axis, emit_lanes};
use crate::error::{Place, Result};
use crate::host::HostTensor;
use crate::types::{Dim, TensorType};

use crate::host::Scalar;
use crate::types::{DType, Shape};
use crate::vmap::Batched;

/// The monoid of a reduction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReduceKind {
    /// The sum of numbers.
    Sum,
    /// The product of numbers.
    Prod,
    /// The largest number.
    Max,
    /// The smallest number.
    Min,
    /// Whether any boolean is true.
    Any,
    /// Whether all booleans are true.
    All,
}

impl ReduceKind {
    const TABLE: [(&'static str, ReduceKind); 6] = [
        ("sum", ReduceKind::Sum),
        ("prod", ReduceKind::Prod),
        ("max", ReduceKind::Max),
        ("min", ReduceKind::Min),
        ("any", ReduceKind::Any),
        ("all", ReduceKind::All),
    ];

    /// The word of the text form.
    pub fn name(self) -> &'static str {
        Self::TABLE.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// The monoid of that name; the error is what was expected.
    pub(super) fn parse(attributes: &mut Attributes) -> Result<Self, String> {
        let word = attributes.take_word("kind")?;
        let kind = Self::TABLE.iter().find(|(name, _)| *name == word);
        Ok(kind.ok_or_else(|| format!("`kind` as one of sum, prod, max, min, any, all, not `{word}`"))?.1)
    }

    /// Checks that the monoid is one on elements of that type.
    pub(super) fn check(self, at: &Place, x: &TensorType) -> Result<()> {
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

    /// The value of a reduction over nothing.
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

    /// Two values combined.
    pub(crate) fn combine(self, left: Scalar, right: Scalar) -> Scalar {
        let nan_wins = |a: f64, b: f64, pick: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { pick };
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
                    ReduceKind::Max => nan_wins(a, b, a.max(b)),
                    _ => nan_wins(a, b, a.min(b)),
                })
            }
        }
    }
}

/// A reduction over `axes`, which disappear from the shape.
#[derive(Clone, Debug)]
pub struct Reduce {
    /// What is computed.
    pub kind: ReduceKind,
    /// The axes, ascending.
    pub axes: Vec<usize>,
}

impl Reduce {
    pub(super) fn parse(attributes: &mut Attributes) -> Result<Self, String> {
        let kind = ReduceKind::parse(attributes)?;
        Ok(Reduce { kind, axes: attributes.take_axes("axes")? })
    }
}

impl OpRules for Reduce {
    fn name(&self) -> &'static str {
        "reduce"
    }

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

    fn attributes(&self) -> Attributes {
        Attributes::new().with("kind", self.kind.name()).with_list("axes", self.axes.iter().copied())
    }

    fn batch(&self, _: &Dim, operands: &[Batched]) -> Vec<Batched> {
        let op = Reduce { kind: self.kind, axes: self.axes.iter().map(|axis| axis + 1).collect() };
        emit_lanes(op, &[operands[0].value])
    }
}

#[cfg(test)]
mod tests {
    use crate::HostTensor;
    use crate::ops::testing::{check_op, eval_op, rejects};

    #[test]
    fn along_any_axes() {
        let x = HostTensor::from_vec(vec![1i64, 2, 3, 4, 5, 6], [2, 3]).unwrap();
        check_op(
            "reduce {kind=sum, axes=[0]}",
            std::slice::from_ref(&x),
            &HostTensor::from_vec(vec![5i64, 7, 9], [3]).unwrap(),
        );
        check_op("reduce {kind=max, axes=[0,1]}", std::slice::from_ref(&x), &HostTensor::scalar(6i64));
        check_op("reduce {kind=prod, axes=[]}", std::slice::from_ref(&x), &x);
    }

    #[test]
    fn over_nothing_it_is_the_identity() {
        let empty = HostTensor::from_vec(Vec::<f32>::new(), [0, 2]).unwrap();
        let infinite = HostTensor::from_vec(vec![f32::NEG_INFINITY; 2], [2]).unwrap();
        check_op("reduce {kind=max, axes=[0]}", &[empty], &infinite);
        let none = HostTensor::from_vec(Vec::<bool>::new(), [0]).unwrap();
        check_op("reduce {kind=all, axes=[0]}", &[none], &HostTensor::scalar(true));
    }

    #[test]
    fn nan_wins() {
        let x = HostTensor::from_vec(vec![1f32, f32::NAN, 2.], [3]).unwrap();
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
