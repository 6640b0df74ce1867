//! `cumulative`: a running sum, product, maximum or minimum along an axis.
//!
//! The op corresponds to JAX's `cumsum`, `cumprod`, `cummax` and `cummin`. Element `i` of the result combines elements
//! 0 to `i` of the operand or, in the reverse direction, the elements from `i` to the end. Integers wrap. A running
//! maximum or minimum is NaN at the first NaN and at all later elements.

use std::sync::Arc;

use crate::graph::{emit, trace_body};
use crate::host::element_count;
use crate::ops::rules::*;
use crate::ops::{AssociativeScan, ReduceKind};

/// A running reduction along `axis`. The result has the operand's type. Each monoid accepts the same element types as
/// it does in [`Reduce`](crate::ops::Reduce).
#[derive(Clone, Copy, Debug)]
pub struct Cumulative {
    /// The monoid that combines the elements.
    pub kind: ReduceKind,
    /// The axis along which elements are combined.
    pub axis: usize,
    /// `true` if the reduction runs from the last element to the first.
    pub reverse: bool,
}

op_text!("cumulative" => Cumulative { kind, axis }, direction: reverse as forward or reverse);

impl OpRules for Cumulative {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = arity(at, inputs)?;
        self.kind.check(at, &x)?;
        check_axis(at, "attribute `axis`", self.axis, x.rank())?;
        Ok(vec![x])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let x = &inputs[0];
        let size = x.shape()[self.axis];
        let stride =
            element_count(&x.shape()[self.axis + 1..]).expect("the number of elements of a tensor fits in usize");
        let mut running = vec![self.kind.identity(x.dtype()); x.len()];
        for step in 0..x.len() {
            let index = if self.reverse { x.len() - 1 - step } else { step };
            let position = index / stride % size;
            let before = match self.reverse {
                false if position > 0 => running[index - stride],
                true if position + 1 < size => running[index + stride],
                _ => running[index],
            };
            running[index] = self.kind.combine(before, x.get(index));
        }
        tensor(x.dtype(), x.shape(), running)
    }

    fn batch(&self, _: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        emit_lanes(Cumulative { axis: self.axis + 1, ..*self }, &[operands[0].value])
    }

    fn jvp(&self, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
        if self.kind == ReduceKind::Sum {
            return jvp_linear(*self, operands);
        }
        let Dual { primal, tangent } = operands[0];
        let results = emit(*self, &[primal])?;
        let front = |value: Value| value.move_axis(self.axis as i64, 0).checked();
        let dual = Dual { primal: front(primal)?, tangent: tangent.map(front).transpose()? };
        let of_scan = self.as_scan(primal)?.jvp(&[dual])?.into_iter();
        let dual = |(primal, of_scan): (Value, Dual)| {
            let tangent = of_scan.tangent.map(|tangent| tangent.move_axis(0, self.axis as i64));
            Dual { primal, tangent }
        };
        Ok(results.into_iter().zip(of_scan).map(dual).collect())
    }

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        if self.kind == ReduceKind::Sum {
            return Ok(vec![Some(cotangent.cumulative(self.kind, self.axis as i64, !self.reverse))]);
        }
        let front = |value: Value| value.move_axis(self.axis as i64, 0).checked();
        let (x, y) = (front(context.operands[0])?, front(context.results[0])?);
        let of_scan = VjpContext { operands: &[x], results: &[y], ..*context };
        let pulled = self.as_scan(context.operands[0])?.vjp(&of_scan, &[Some(front(cotangent)?)])?;
        Ok(pulled.into_iter().map(|pulled| Some(pulled?.move_axis(0, self.axis as i64))).collect())
    }
}

impl Cumulative {
    /// Adds the op to the open graph as a loop that combines one element per step. The axis must not be empty. Like the
    /// op itself, the loop accumulates f16 and bf16 values in f32, and rounds each result once.
    #[doc(hidden)]
    pub fn emit_loop(&self, x: Value) -> Result<Vec<Value>, Failed> {
        let is_half = matches!(x.dtype(), DType::F16 | DType::BF16);
        let wide = if is_half { x.cast(DType::F32).checked()? } else { x };
        let running = self.as_scan(wide)?.emit_loop(&[wide.move_axis(self.axis as i64, 0).checked()?])?;
        let results =
            running.into_iter().map(|running| running.move_axis(0, self.axis as i64).cast(x.dtype()).checked());
        results.collect()
    }

    /// Returns the equivalent associative scan, whose operand must be `x` with the axis of the op moved to the front.
    fn as_scan(&self, x: Value) -> Result<AssociativeScan, Failed> {
        let row = x.ty().with_shape(x.shape().without(self.axis));
        let params = ["a", "b"].map(|name| (name.to_string(), row.clone()));
        let combine = self.kind.binary();
        let closed =
            trace_body("cumulative", "", &params, |pair| Ok(vec![("out".to_string(), emit(combine, pair)?[0])]))?;
        Ok(AssociativeScan { combine: Arc::new(closed.graph), leaves: 1, reverse: self.reverse })
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn forward_and_reverse() {
        let x = HostTensor::from([[1i64, 2, 3], [10, 20, 30]]);
        let along = |text: &str, expected: [[i64; 3]; 2]| check_op(text, std::slice::from_ref(&x), expected);
        along("cumulative {kind=sum, axis=1, direction=forward}", [[1, 3, 6], [10, 30, 60]]);
        along("cumulative {kind=sum, axis=1, direction=reverse}", [[6, 5, 3], [60, 50, 30]]);
        along("cumulative {kind=prod, axis=0, direction=forward}", [[1, 2, 3], [10, 40, 90]]);
        along("cumulative {kind=min, axis=0, direction=reverse}", [[1, 2, 3], [10, 20, 30]]);
    }

    #[test]
    fn integers_wrap_and_nothing_stays_nothing() {
        let bytes = [HostTensor::from([200u8, 100, 2])];
        check_op("cumulative {kind=sum, axis=0, direction=forward}", &bytes, [200u8, 44, 46]);
        let empty = HostTensor::from([0f32; 0]);
        check_op("cumulative {kind=max, axis=0, direction=forward}", std::slice::from_ref(&empty), empty.clone());
    }

    #[test]
    fn nan_wins_from_where_it_stands_on() {
        let x = [HostTensor::from([1f64, f64::NAN, 2.0])];
        for (kind, direction, first) in [("max", "forward", 0), ("min", "reverse", 2)] {
            let text = format!("cumulative {{kind={kind}, axis=0, direction={direction}}}");
            let nan: Vec<bool> = eval_op(&text, &x).to_f64_vec().iter().map(|v| v.is_nan()).collect();
            assert_eq!(nan, [0, 1, 2].map(|position| position != first), "{text}");
        }
    }

    #[test]
    fn each_lane_on_its_own() {
        let x = HostTensor::from([[[1f32, 2.0], [3.0, 4.0]], [[-1.0, 0.5], [2.0, 8.0]]]);
        check_batch("cumulative {kind=prod, axis=0, direction=reverse}", &[(x, true)]);
    }

    #[test]
    fn the_monoid_fits_the_elements() {
        rejects("cumulative {kind=sum, axis=0, direction=forward}", &["bool[2]"], "a number type");
        rejects("cumulative {kind=any, axis=0, direction=forward}", &["f32[2]"], "a bool tensor");
        rejects("cumulative {kind=sum, axis=1, direction=forward}", &["f32[2]"], "an axis below 1");
    }
}
