//! Defines handwritten cells: functions from weights, a carry and a row to the next carry and the output.

use candle_core::{Result, Tensor};
use candle_nn::ops::sigmoid;

/// The result of a cell: the next carry and the output.
type Next = Result<(Vec<Tensor>, Tensor)>;

/// A cell, called as `cell(weights, carry, x)`.
pub(crate) type Cell = fn(&[Tensor], Vec<Tensor>, Tensor) -> Next;

pub(crate) fn rnn(w: &[Tensor], carry: Vec<Tensor>, x: Tensor) -> Next {
    let h = (x.matmul(&w[0])? + carry[0].matmul(&w[1])?)?.broadcast_add(&w[2])?.tanh()?;
    Ok((vec![h.clone()], h))
}

pub(crate) fn gru(w: &[Tensor], carry: Vec<Tensor>, x: Tensor) -> Next {
    let h = &carry[0];
    let (xw, hu) = (x.matmul(&w[0])?.chunk(3, 1)?, h.matmul(&w[1])?.broadcast_add(&w[2])?.chunk(3, 1)?);
    let r = sigmoid(&(&xw[0] + &hu[0])?)?;
    let z = sigmoid(&(&xw[1] + &hu[1])?)?;
    let n = (&xw[2] + (r * &hu[2])?)?.tanh()?;
    let next = ((&z * h)? + ((1.0 - &z)? * n)?)?;
    Ok((vec![next.clone()], next))
}

pub(crate) fn lstm(w: &[Tensor], carry: Vec<Tensor>, x: Tensor) -> Next {
    let gates = (x.matmul(&w[0])? + carry[0].matmul(&w[1])?)?.broadcast_add(&w[2])?.chunk(4, 1)?;
    let [i, f, o] = [0, 1, 3].map(|gate| sigmoid(&gates[gate]));
    let c = ((f? * &carry[1])? + (i? * gates[2].tanh()?)?)?;
    let h = (o? * c.tanh()?)?;
    Ok((vec![h.clone(), c], h))
}

/// Computes a step of a diagonal state space model whose complex states are stored as real and imaginary parts.
pub(crate) fn s5(w: &[Tensor], carry: Vec<Tensor>, u: Tensor) -> Next {
    let decay = w[0].sqr()?.neg()?.exp()?;
    let (re, im) = ((&decay * w[1].cos()?)?, (&decay * w[1].sin()?)?);
    let (x, y) = (&carry[0], &carry[1]);
    let next_x = ((x.broadcast_mul(&re)? - y.broadcast_mul(&im)?)? + u.matmul(&w[2])?)?;
    let next_y = ((x.broadcast_mul(&im)? + y.broadcast_mul(&re)?)? + u.matmul(&w[3])?)?;
    let out = (next_x.matmul(&w[4])? - next_y.matmul(&w[5])?)?;
    Ok((vec![next_x, next_y], out))
}

/// Computes a step of the core of a selective state space model: the decay and the input projection depend on the
/// input.
pub(crate) fn selective_scan(w: &[Tensor], carry: Vec<Tensor>, u: Tensor) -> Next {
    let delta = (u.matmul(&w[0])?.exp()? + 1.0)?.log()?;
    let (b, c) = (u.matmul(&w[1])?.unsqueeze(1)?, u.matmul(&w[2])?.unsqueeze(2)?);
    let decay = delta.unsqueeze(2)?.broadcast_mul(&w[3].exp()?.neg()?)?.exp()?;
    let enters = (delta * &u)?.unsqueeze(2)?.broadcast_mul(&b)?;
    let state = ((decay * &carry[0])? + enters)?;
    let y = (state.matmul(&c)?.squeeze(2)? + u.broadcast_mul(&w[4])?)?;
    Ok((vec![state], y))
}
