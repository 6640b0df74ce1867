//! Processes long axes in blocks, on devices with their own memory.
//!
//! Burn's reductions process a whole axis in one loop of a kernel, and Burn's running reductions read all previous
//! elements for each result. Mesa's software driver silently ends any loop in a kernel after 2^16 iterations. With
//! blocks, no loop is that long, and a running reduction reads only one block for each result.

use super::*;
use crate::kinds::reshape;

/// The maximum length of an axis passed to one of Burn's reductions.
const MAX_REDUCTION: usize = 1 << 15;

/// The block size for running reductions other than products.
const BLOCK: usize = 512;

/// The block size for running products. These blocks are processed in sequence, because the product of a single block
/// may overflow even if the running product is 0.
const SEQUENTIAL_BLOCK: usize = 4096;

/// Reduces an axis to size 1 (keepdim). On a device with its own memory, `reduce` receives axes of at most
/// [`MAX_REDUCTION`] elements.
pub(crate) fn reduce_long_axis(
    burn: &Burn,
    x: Tensor,
    axis: usize,
    reduce: &dyn Fn(Tensor, usize) -> Outcome,
) -> Outcome {
    let mut shape = sizes(&x);
    let len = shape[axis];
    if burn.in_host_memory() || len <= MAX_REDUCTION {
        return reduce(x, axis);
    }
    let [outer, inner] = sizes_around(&shape, axis);
    let count = len / MAX_REDUCTION;
    let whole = slice(x.clone(), &slices_along(&shape, axis, 0, count * MAX_REDUCTION, 1));
    let of_blocks = reduce(reshape(whole, &[outer, count, MAX_REDUCTION, inner])?, 2)?;
    let rest = slice(x, &slices_along(&shape, axis, count * MAX_REDUCTION, len, 1));
    shape[axis] = count;
    let mut parts = vec![reshape(of_blocks, &shape)?];
    if count * MAX_REDUCTION < len {
        parts.push(reduce(rest, axis)?);
    }
    reduce_long_axis(burn, join(parts, axis), axis, reduce)
}

/// Computes a running reduction along an axis. On a device with its own memory, splits a long axis into blocks before
/// it calls `running`.
pub(crate) fn running_long_axis(
    burn: &Burn,
    monoid: ReduceKind,
    x: Tensor,
    axis: usize,
    running: &dyn Fn(Tensor, usize) -> Tensor,
) -> Outcome {
    let shape = sizes(&x);
    if burn.in_host_memory() || shape[axis] <= BLOCK {
        return Ok(running(x, axis));
    }
    let [outer, inner] = sizes_around(&shape, axis);
    let x = reshape(x, &[outer, shape[axis], inner])?;
    let result = if monoid == ReduceKind::Prod { running_sequential(x, running) } else { running_blocked(x, running)? };
    reshape(result, &shape)
}

/// Returns the product of the sizes before an axis, and the product of those after it.
fn sizes_around(shape: &[usize], axis: usize) -> [usize; 2] {
    [shape[..axis].iter().product(), shape[axis + 1..].iter().product()]
}

/// Returns the elements of a tensor at the positions `start..end` of an axis.
fn rows(x: &Tensor, axis: usize, start: usize, end: usize) -> Tensor {
    slice(x.clone(), &slices_along(&sizes(x), axis, start, end, 1))
}

/// Computes the running reduction along axis 1 of a tensor with the shape `[outer, len, inner]`. First computes the
/// total of each block, and then the running reduction of each block, starting from the total of all previous blocks.
fn running_blocked(x: Tensor, running: &dyn Fn(Tensor, usize) -> Tensor) -> Outcome {
    let shape = sizes(&x);
    let (outer, len, inner) = (shape[0], shape[1], shape[2]);
    if len <= BLOCK {
        return Ok(running(x, 1));
    }
    let count = len.div_ceil(BLOCK);
    // The padding of the last block may be arbitrary, because no result before the padding depends on it.
    let missing = count * BLOCK - len;
    let filled = if missing == 0 { x } else { join(vec![x.clone(), rows(&x, 1, 0, missing)], 1) };
    let blocks = reshape(filled, &[outer, count, BLOCK, inner])?;
    let alone = running(blocks.clone(), 2);
    let last = reshape(rows(&alone, 2, BLOCK - 1, BLOCK), &[outer, count, inner])?;
    let before = running_blocked(rows(&last, 1, 0, count - 1), running)?;
    let before = reshape(before, &[outer, count - 1, 1, inner])?;
    let others = running(join(vec![before, rows(&blocks, 1, 1, count)], 2), 2);
    let all = join(vec![rows(&alone, 1, 0, 1), rows(&others, 2, 1, BLOCK + 1)], 1);
    Ok(rows(&reshape(all, &[outer, count * BLOCK, inner])?, 1, 0, len))
}

/// Computes the running reduction along axis 1 of a tensor with the shape `[outer, len, inner]`, block by block. Each
/// block starts from the last result of the previous block.
fn running_sequential(x: Tensor, running: &dyn Fn(Tensor, usize) -> Tensor) -> Tensor {
    let len = sizes(&x)[1];
    let mut done = running(rows(&x, 1, 0, SEQUENTIAL_BLOCK.min(len)), 1);
    let mut parts = vec![done.clone()];
    for start in (SEQUENTIAL_BLOCK..len).step_by(SEQUENTIAL_BLOCK) {
        let end = len.min(start + SEQUENTIAL_BLOCK);
        let count = sizes(&done)[1];
        let block = join(vec![rows(&done, 1, count - 1, count), rows(&x, 1, start, end)], 1);
        done = rows(&running(block, 1), 1, 1, end - start + 1);
        parts.push(done.clone());
    }
    join(parts, 1)
}
