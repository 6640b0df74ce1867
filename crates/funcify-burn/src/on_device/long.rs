//! Long axes, in blocks.
//!
//! Burn's running reductions read for each element all before it, and its reductions go through an axis in one loop of a kernel.
//! Mesa's software driver ends such a loop after 2^16 turns, without a word, and leaves out the rest. In blocks no loop is that
//! long, and a running reduction reads a block an element.

use super::*;
use crate::kinds::reshape;

/// How many elements of an axis a reduction goes through at most.
const LONGEST: usize = 1 << 15;

/// How many elements of an axis a running reduction goes through at most.
const BLOCK: usize = 512;

/// The same for running products: the products of blocks may be more than a number holds where the running product is 0, so one
/// block follows the other.
const BLOCK_IN_TURN: usize = 4096;

/// A reduction along an axis, which keeps the size 1. `reduce` does that of axes that are not long.
pub(crate) fn reduced(burn: &Burn, x: Tensor, axis: usize, reduce: &dyn Fn(Tensor, usize) -> Outcome) -> Outcome {
    let mut shape = sizes(&x);
    let len = shape[axis];
    if burn.in_host_memory() || len <= LONGEST {
        return reduce(x, axis);
    }
    let [outer, inner] = around(&shape, axis);
    let count = len / LONGEST;
    let whole = slice(x.clone(), &along(&shape, axis, 0, count * LONGEST, 1));
    let of_blocks = reduce(reshape(whole, &[outer, count, LONGEST, inner])?, 2)?;
    let rest = slice(x, &along(&shape, axis, count * LONGEST, len, 1));
    shape[axis] = count;
    let mut parts = vec![reshape(of_blocks, &shape)?];
    if count * LONGEST < len {
        parts.push(reduce(rest, axis)?);
    }
    reduced(burn, join(parts, axis), axis, reduce)
}

/// A running reduction along an axis. `running` does that of axes that are not long.
pub(crate) fn running(
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
    let [outer, inner] = around(&shape, axis);
    let x = reshape(x, &[outer, shape[axis], inner])?;
    let result = if monoid == ReduceKind::Prod { in_turn(x, running) } else { in_blocks(x, running)? };
    reshape(result, &shape)
}

/// How many elements there are before an axis, and how many after it.
fn around(shape: &[usize], axis: usize) -> [usize; 2] {
    [shape[..axis].iter().product(), shape[axis + 1..].iter().product()]
}

/// Some rows of axis `axis`.
fn rows(x: &Tensor, axis: usize, start: usize, end: usize) -> Tensor {
    slice(x.clone(), &along(&sizes(x), axis, start, end, 1))
}

/// Along axis 1 of `[outer, len, inner]`: each block alone, and then each with what came before it in front.
fn in_blocks(x: Tensor, running: &dyn Fn(Tensor, usize) -> Tensor) -> Outcome {
    let shape = sizes(&x);
    let (outer, len, inner) = (shape[0], shape[1], shape[2]);
    if len <= BLOCK {
        return Ok(running(x, 1));
    }
    let count = len.div_ceil(BLOCK);
    // What the last block lacks may be anything: only what comes after it depends on it.
    let missing = count * BLOCK - len;
    let filled = if missing == 0 { x } else { join(vec![x.clone(), rows(&x, 1, 0, missing)], 1) };
    let blocks = reshape(filled, &[outer, count, BLOCK, inner])?;
    let alone = running(blocks.clone(), 2);
    let last = reshape(rows(&alone, 2, BLOCK - 1, BLOCK), &[outer, count, inner])?;
    let before = in_blocks(rows(&last, 1, 0, count - 1), running)?;
    let before = reshape(before, &[outer, count - 1, 1, inner])?;
    let others = running(join(vec![before, rows(&blocks, 1, 1, count)], 2), 2);
    let all = join(vec![rows(&alone, 1, 0, 1), rows(&others, 2, 1, BLOCK + 1)], 1);
    Ok(rows(&reshape(all, &[outer, count * BLOCK, inner])?, 1, 0, len))
}

/// Along axis 1 of `[outer, len, inner]`: each block with the last of the one before it in front.
fn in_turn(x: Tensor, running: &dyn Fn(Tensor, usize) -> Tensor) -> Tensor {
    let len = sizes(&x)[1];
    let mut done = running(rows(&x, 1, 0, BLOCK_IN_TURN.min(len)), 1);
    let mut parts = vec![done.clone()];
    for start in (BLOCK_IN_TURN..len).step_by(BLOCK_IN_TURN) {
        let end = len.min(start + BLOCK_IN_TURN);
        let count = sizes(&done)[1];
        let block = join(vec![rows(&done, 1, count - 1, count), rows(&x, 1, start, end)], 1);
        done = rows(&running(block, 1), 1, 1, end - start + 1);
        parts.push(done.clone());
    }
    join(parts, 1)
}
