//! Imports the ops that Burn has for every kind of tensor: data movement, indexing and creation.

use burn::tensor::{IndexingUpdateOp, Slice};
use burn_ir::{BaseOperationIr, CreationOpIr};
use funcify_core::ops::ScatterMode;
use funcify_core::{DType, Value, concat, constant, full, select};

use super::numeric::with_number;
use super::{Env, Imported, dtype_of, is_bool, number, one, shape, sizes};

pub(super) fn row(env: &Env, op: &BaseOperationIr) -> Imported {
    use BaseOperationIr as Op;
    one(match op {
        Op::Reshape(op) => env.get(&op.input)?.reshape(shape(&op.out)),
        Op::Expand(op) => env.get(&op.input)?.broadcast_to(shape(&op.out)),
        Op::SwapDims(op) => {
            let x = env.get(&op.input)?;
            let mut axes: Vec<usize> = (0..x.rank()).collect();
            axes.swap(op.dim1, op.dim2);
            x.transpose(axes)
        }
        Op::Permute(op) => env.get(&op.input)?.transpose(op.axes.clone()),
        Op::Flip(op) => op.axes.iter().fold(env.get(&op.input)?, |x, axis| x.reverse(*axis as i64)),
        Op::Slice(op) => slice_ranges(env.get(&op.tensor)?, &op.ranges, sizes(&op.tensor)),
        Op::SliceAssign(op) => {
            if op.ranges.iter().any(|range| range.step != 1) {
                return None;
            }
            let (x, part) = (env.get(&op.tensor)?, env.get(&op.value)?);
            assign_ranges(x, &op.ranges, sizes(&op.tensor), 0, part)
        }
        Op::Select(op) => env.get(&op.tensor)?.take(op.dim as i64, env.get(&op.indices)?),
        Op::SelectAssign(op) => {
            let (x, value) = (env.get(&op.tensor)?, env.get(&op.value)?);
            let mut along = vec![1; sizes(&op.tensor).len()];
            along[op.dim] = sizes(&op.indices)[0];
            let indices = env.get(&op.indices)?.reshape(along.as_slice()).broadcast_to(shape(&op.value));
            scatter(x, op.dim, indices, value, op.update)?
        }
        Op::Gather(op) => env.get(&op.tensor)?.gather(op.dim as i64, env.get(&op.indices)?),
        Op::Scatter(op) => {
            let (x, indices, value) = (env.get(&op.tensor)?, env.get(&op.indices)?, env.get(&op.value)?);
            scatter(x, op.dim, indices, value, op.update)?
        }
        Op::MaskWhere(op) => select(env.get(&op.mask)?, env.get(&op.value)?, env.get(&op.tensor)?),
        Op::MaskFill(op) => {
            let x = env.get(&op.tensor)?;
            select(env.get(&op.mask)?, number(&op.value, x), x)
        }
        Op::Equal(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| equal(x, y))?,
        Op::NotEqual(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| not_equal(x, y))?,
        Op::EqualElem(op) => with_number(env, op, equal)?,
        Op::NotEqualElem(op) => with_number(env, op, not_equal)?,
        Op::RepeatDim(op) if op.times > 0 => concat(&vec![env.get(&op.tensor)?; op.times], op.dim as i64),
        Op::Cat(op) => {
            let parts = op.tensors.iter().map(|tensor| env.get(tensor)).collect::<Option<Vec<Value>>>()?;
            concat(&parts, op.dim as i64)
        }
        Op::Cast(op) => env.get(&op.input)?.cast(dtype_of(&op.out)?),
        Op::Unfold(op) => {
            let size = sizes(&op.input)[op.dim];
            let starts = (0..size.checked_sub(op.size)? + 1).step_by(op.step.max(1));
            let positions = starts.clone().flat_map(|start| (start..start + op.size).map(|it| it as i64)).collect();
            let positions = funcify_core::HostTensor::from_vec(positions, [starts.len(), op.size])?;
            env.get(&op.input)?.take(op.dim as i64, constant(positions)).move_axis(op.dim as i64 + 1, -1)
        }
        Op::Empty(op) | Op::Zeros(op) => filled_with(op, 0.0)?,
        Op::Ones(op) => filled_with(op, 1.0)?,
        Op::All(op) => env.get(&op.input)?.all(..).reshape(shape(&op.out)),
        Op::Any(op) => env.get(&op.input)?.any(..).reshape(shape(&op.out)),
        Op::AllDim(op) => env.get(&op.input)?.all(op.axis as i64).reshape(shape(&op.out)),
        Op::AnyDim(op) => env.get(&op.input)?.any(op.axis as i64).reshape(shape(&op.out)),
        Op::RepeatDim(_) | Op::ScatterNd(_) | Op::GatherNd(_) => return None,
    })
}

fn equal(x: Value, y: Value) -> Value {
    if is_bool(x) { !(x ^ y) } else { x.eq(y) }
}

fn not_equal(x: Value, y: Value) -> Value {
    if is_bool(x) { x ^ y } else { x.ne(y) }
}

fn filled_with(op: &CreationOpIr, element: f64) -> Option<Value> {
    Some(match dtype_of(&op.out)? {
        DType::Bool => constant(funcify_core::HostTensor::scalar(element != 0.0)).broadcast_to(shape(&op.out)),
        dtype => full(shape(&op.out), dtype, element),
    })
}

/// Slices a value with Burn's ranges. A negative step reads a range backward, starting from its end.
fn slice_ranges(x: Value, ranges: &[Slice], sizes: &[usize]) -> Value {
    ranges.iter().zip(sizes).enumerate().fold(x, |x, (axis, (range, size))| {
        let (positions, step) = range.to_range_and_step(*size);
        if positions == (0..*size) && step == 1 {
            return x;
        }
        let (axis, positions) = (axis as i64, positions.start as i64..positions.end as i64);
        match step {
            step if step < 0 => x.slice(axis, positions).reverse(axis).slice_step(axis, .., step.unsigned_abs()),
            step => x.slice_step(axis, positions, step as usize),
        }
    })
}

/// Writes `part` over the elements of `x` that `ranges` select along `axis` and all later axes. Every range must have
/// step 1.
fn assign_ranges(x: Value, ranges: &[Slice], sizes: &[usize], axis: usize, part: Value) -> Value {
    let Some(range) = ranges.get(axis) else {
        return part;
    };
    let positions = range.to_range(sizes[axis]);
    let (start, end) = (positions.start as i64, positions.end as i64);
    let along = axis as i64;
    let inner = assign_ranges(x.slice(along, start..end), ranges, sizes, axis + 1, part);
    let mut parts = vec![inner];
    if start > 0 {
        parts.insert(0, x.slice(along, 0..start));
    }
    if (end as usize) < sizes[axis] {
        parts.push(x.slice(along, end..));
    }
    if parts.len() == 1 { parts[0] } else { concat(&parts, along) }
}

fn scatter(x: Value, axis: usize, indices: Value, value: Value, update: IndexingUpdateOp) -> Option<Value> {
    let mode = match update {
        IndexingUpdateOp::Assign => ScatterMode::Set,
        IndexingUpdateOp::Add => ScatterMode::Add,
        IndexingUpdateOp::Mul => ScatterMode::Mul,
        IndexingUpdateOp::Min => ScatterMode::Min,
        IndexingUpdateOp::Max => ScatterMode::Max,
    };
    Some(x.scatter(axis as i64, indices, value, mode))
}
