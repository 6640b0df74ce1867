//! `scatter`: copies a tensor and applies each update to the element at an index along one axis.
//!
//! As in StableHLO, an update whose index is out of range is skipped. Updates with the same index are applied in
//! row-major order, so in the mode `set`, the last update determines the element.

mod gradient;

use crate::host::for_each_index;
use crate::ops::along::reduce::ReduceKind;
use crate::ops::indexing::dynamic_slice::along;
use crate::ops::indexing::gather::check_along;
use crate::ops::rules::*;
use crate::value::{full, iota};
use gradient::Combining;

/// The effect of an update on its element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScatterMode {
    /// The update replaces the element.
    Set,
    /// The update is added to the element. Integers wrap.
    Add,
    /// The element is multiplied by the update. Integers wrap.
    Mul,
    /// The update replaces the element if the update is larger. NaN propagates.
    Max,
    /// The update replaces the element if the update is smaller. NaN propagates.
    Min,
}

impl ScatterMode {
    const TABLE: [(&'static str, ScatterMode, Option<ReduceKind>); 5] = [
        ("set", ScatterMode::Set, None),
        ("add", ScatterMode::Add, Some(ReduceKind::Sum)),
        ("mul", ScatterMode::Mul, Some(ReduceKind::Prod)),
        ("max", ScatterMode::Max, Some(ReduceKind::Max)),
        ("min", ScatterMode::Min, Some(ReduceKind::Min)),
    ];

    /// All modes.
    pub const ALL: [ScatterMode; 5] =
        [ScatterMode::Set, ScatterMode::Add, ScatterMode::Mul, ScatterMode::Max, ScatterMode::Min];

    /// Returns the mode's name in the text form.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Returns the monoid that combines an element and an update, or `None` if the update replaces the element.
    fn monoid(self) -> Option<ReduceKind> {
        self.row().2
    }

    fn row(self) -> &'static (&'static str, ScatterMode, Option<ReduceKind>) {
        Self::TABLE.iter().find(|(_, mode, _)| *mode == self).unwrap_or(&Self::TABLE[0])
    }
}

/// The op `scatter(x, indices, updates)`. For a tensor of rank 3 and `axis` 1, it computes `x[i,indices[i,j,k],k] :=
/// updates[i,j,k]`, or combines the two values, depending on `mode`. `indices` and `updates` have the shape of `x`,
/// except along `axis`.
#[derive(Clone, Copy, Debug)]
pub struct Scatter {
    /// The axis to index.
    pub axis: usize,
    /// The effect of an update on its element.
    pub mode: ScatterMode,
}

op_text!("scatter" => Scatter { axis, mode });

impl OpRules for Scatter {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x, indices, updates] = arity(at, inputs)?;
        check_along(at, self.axis, &x, &indices)?;
        let expected = x.with_shape(&indices.shape);
        if updates != expected {
            let fix = "pass one update per index, of the operand's dtype";
            return Err(at.mismatch("the updates", expected, updates, fix));
        }
        if self.mode != ScatterMode::Set && x.dtype == DType::Bool {
            let expected = format!("a number type, for mode `{}`", self.mode.name());
            return Err(at.mismatch("the operand", expected, x, "use mode `set`, or cast"));
        }
        Ok(vec![x])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let [x, indices, updates] = [&inputs[0], &inputs[1], &inputs[2]];
        let mut elements: Vec<_> = x.scalars().collect();
        for_each_index(indices.shape(), |index| {
            let position = indices.at(index).as_i64();
            if position < 0 || position >= x.shape()[self.axis] as i64 {
                return;
            }
            let mut target = index.to_vec();
            target[self.axis] = position as usize;
            let flat = target.iter().zip(x.shape()).fold(0, |flat, (i, size)| flat * size + i);
            let update = updates.at(index);
            let changed = match self.mode.monoid() {
                None => update,
                Some(monoid) => monoid.combine(elements[flat], update),
            };
            elements[flat] = Storage::from_scalars(x.dtype(), [changed]).get(0);
        });
        tensor(x.dtype(), x.shape(), elements)
    }

    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        batch_elementwise(Scatter { axis: self.axis + 1, ..*self }, size, operands)
    }

    fn jvp(&self, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
        match self.mode {
            ScatterMode::Set | ScatterMode::Add => jvp_linear(*self, operands),
            mode => jvp_with(*self, operands, |values, results| {
                let scatter = Combining::new(*self, values);
                let tangents = [operands[0].tangent, operands[2].tangent];
                vec![match mode {
                    ScatterMode::Mul => scatter.product_tangent(tangents),
                    _ => scatter.extremum_tangent(results[0], tangents),
                }]
            }),
        }
    }

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        let scatter = Combining::new(*self, context.operands);
        let Combining { x, indices, updates, .. } = scatter;
        let axis = self.axis as i64;
        let of_set = || {
            // If several updates set the same element, only the last update has a derivative. `last` is the position of
            // that update.
            let positions = along(iota(indices.dim(axis), DType::I64), self.axis, &indices.shape());
            let none = full(x.shape(), DType::I64, -1.0);
            let last = scatter.of_updates(none.scatter(axis, indices, positions, ScatterMode::Set));
            Some(select(scatter.passes() & last.eq(positions), scatter.of_updates(cotangent), 0.0))
        };
        match self.mode {
            ScatterMode::Add => Ok(context.cotangents([&|| Some(cotangent), &|| None, &|| {
                Some(select(scatter.passes(), scatter.of_updates(cotangent), 0.0))
            }])),
            ScatterMode::Set => {
                let of_x = || Some(cotangent.scatter(axis, indices, updates.zeros_like(), ScatterMode::Set));
                Ok(context.cotangents([&of_x, &|| None, &of_set]))
            }
            ScatterMode::Mul => Ok(scatter.product_cotangents(context, cotangent)),
            ScatterMode::Max | ScatterMode::Min => Ok(scatter.extremum_cotangents(context, cotangent)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn out_of_range_is_skipped_and_the_last_set_wins() {
        let x = HostTensor::from([0f32; 3]);
        let indices = HostTensor::from([1i64, 1, 5, -1]);
        let updates = HostTensor::from([2f32, 3., 4., 5.]);
        let inputs = [x, indices, updates];
        check_op("scatter {axis=0, mode=set}", &inputs, [0f32, 3., 0.]);
        check_op("scatter {axis=0, mode=add}", &inputs, [0f32, 5., 0.]);
    }

    #[test]
    fn updates_are_combined() {
        let x = HostTensor::from([2i32, 2, 2]);
        let inputs = [x, HostTensor::from([0i64, 0, 2, 9]), HostTensor::from([3i32, -5, 1, 7])];
        check_op("scatter {axis=0, mode=mul}", &inputs, [-30i32, 2, 2]);
        check_op("scatter {axis=0, mode=max}", &inputs, [3i32, 2, 2]);
        check_op("scatter {axis=0, mode=min}", &inputs, [-5i32, 2, 1]);
        let nan = [HostTensor::from([1f32]), HostTensor::from([0i64, 0]), HostTensor::from([f32::NAN, 2.0])];
        for mode in ["max", "min"] {
            let result = eval_op(&format!("scatter {{axis=0, mode={mode}}}"), &nan);
            assert!(result.get(0).as_f64().is_nan(), "{mode}");
        }
    }

    #[test]
    fn updates_match_the_indices() {
        rejects("scatter {axis=0, mode=set}", &["f32[3]", "i64[2]", "f32[3]"], "f32[2]");
        rejects("scatter {axis=0, mode=add}", &["bool[3]", "i64[2]", "bool[2]"], "a number type");
        rejects("scatter {axis=0, mode=max}", &["bool[3]", "i64[2]", "bool[2]"], "a number type, for mode `max`");
    }
}
