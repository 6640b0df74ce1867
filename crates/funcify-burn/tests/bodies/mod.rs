//! Defines loop bodies in which Burn stops gradients, or appears to stop them.

use burn::tensor::{Tensor, activation, s};

/// The number of elements in the weight, in the carry and in each row.
pub(crate) const WIDTH: usize = 3;

pub(crate) type Vector = Tensor<1>;

/// The body of a loop, which maps the weight, the carry and a row to the next carry and the y of the step.
pub(crate) type Body = fn(Vector, Vector, Vector) -> (Vector, Vector);

/// Builds a [`Body`] from a closure on the weight, the carry and a row.
macro_rules! body {
    (|$w:ident, $c:ident, $x:ident| $result:expr) => {
        (|$w: Vector, $c: Vector, $x: Vector| $result) as Body
    };
}

pub(crate) fn twice(x: Vector) -> (Vector, Vector) {
    (x.clone(), x)
}

/// Computes a Heaviside step function with the gradient of a sigmoid (a surrogate gradient).
fn spike(v: Vector) -> Vector {
    let (hard, soft) = (v.clone().greater_elem(0.3).float(), activation::sigmoid(v));
    (hard - soft.clone()).detach() + soft
}

/// The loop bodies to test, each with a name. Most of them stop a gradient.
pub(crate) const BODIES: &[(&str, Body)] = &[
    ("nothing", body!(|w, c, x| twice((c * w + x).tanh()))),
    ("a weight", body!(|w, c, x| twice(c + w.clone().detach() * w * x))),
    ("a weight, the other one", body!(|w, c, x| twice(c + w.clone() * w.detach() * x))),
    ("a weight, in all its uses", body!(|w, c, x| twice(c * 0.5 + w.detach() * x))),
    ("the carry", body!(|w, c, x| twice(c.detach() * w.clone() + w * x))),
    ("the carry, in one use", body!(|w, c, x| twice(c.clone().detach() * w + c * x))),
    ("the row", body!(|w, c, x| twice(c * w + x.detach()))),
    (
        "the next carry",
        body!(|w, c, x| {
            let next = (c * w + x).tanh();
            (next.clone().detach(), next)
        }),
    ),
    (
        "the result",
        body!(|w, c, x| {
            let next = (c * w + x).tanh();
            (next.clone(), next.detach())
        }),
    ),
    ("an argument that is a result", body!(|w, c, x| { (c.clone() * w + x.clone(), x.detach()) })),
    ("set_require_grad(false)", body!(|w, c, x| twice(c + w.clone().set_require_grad(false) * w * x))),
    ("set_require_grad(false) of a result", body!(|w, c, x| twice(c + (w.clone() * x).set_require_grad(false) * w))),
    ("require_grad of a weight", body!(|w, c, x| twice(c + w.require_grad() * x))),
    ("a leaf of its own", body!(|w, c, x| twice(c + w.clone().detach().require_grad() * w * x))),
    (
        "a leaf that is used twice",
        body!(|w, c, x| {
            let leaf = (w.clone() * x.clone()).detach().require_grad();
            twice(c + leaf.clone() * w + leaf.exp() * x)
        }),
    ),
    (
        "a spike",
        body!(|w, c, x| {
            let v = spike(c * w + x);
            (v.clone(), v)
        }),
    ),
    (
        "a spiking layer with a reset",
        body!(|w, c, x| {
            let v = c * 0.9 + w * x;
            let fired = spike(v.clone());
            (v - fired.clone().detach() * 0.3, fired)
        }),
    ),
    (
        "both operands alike",
        body!(|w, c, x| {
            let v = c * w + x;
            twice(v.clone().detach() * v)
        }),
    ),
    (
        "the divisor",
        body!(|w, c, x| {
            let v = c * w + x + 2.0;
            twice(v.clone() / v.detach() + 0.1)
        }),
    ),
    (
        "the dividend",
        body!(|w, c, x| {
            let v = c * w + x + 2.0;
            twice(v.clone().detach() / v)
        }),
    ),
    (
        "the subtrahend",
        body!(|w, c, x| {
            let v = c * w + x;
            twice(v.clone() - v.detach() * 0.5)
        }),
    ),
    (
        "the subtrahend, of a difference with itself",
        body!(|w, c, x| {
            let v = c * w + x.clone();
            twice((v.clone() - v.detach() + 0.5) * x)
        }),
    ),
    (
        "the minuend, of a difference with itself",
        body!(|w, c, x| {
            let v = c * w + x.clone();
            twice((v.clone().detach() - v + 0.5) * x)
        }),
    ),
    (
        "one of two that are alike",
        body!(|w, c, x| {
            let (p, q) = (w.clone() * x.clone(), w + x);
            twice(c * 0.5 + p.detach() * 0.3 + q)
        }),
    ),
    (
        "the other of two that are alike",
        body!(|w, c, x| {
            let (p, q) = (w.clone() * x.clone(), w + x);
            twice(c * 0.5 + p + q.detach())
        }),
    ),
    (
        "a sum of two that are alike",
        body!(|w, c, x| {
            let (p, q) = (w.clone() * x.clone(), w.clone() + x);
            let _unused = p.clone() * w;
            twice((p.detach() + q) * c)
        }),
    ),
    (
        "sums, which no row is taken for",
        body!(|w, c, x| {
            let scaled = |y: Vector, factor: f32| {
                let v = w.clone() * x.clone() * factor;
                y * 0.5 + v.clone().tanh() * v.exp().sum().detach()
            };
            twice([0.1, 0.2, 0.3, 0.4, 0.5, 0.6].into_iter().fold(c, scaled))
        }),
    ),
    (
        "a long chain",
        body!(|w, c, x| {
            let start = (c.clone() * w.clone() + x).tanh().exp().log1p().sqrt();
            twice((start.clone().detach() - start * 0.25).abs() + c * w)
        }),
    ),
    (
        "several",
        body!(|w, c, x| {
            let (gate, value) = (activation::sigmoid(w.clone() * x.clone()), (c.clone().detach() + x.clone()).tanh());
            let mixed = gate.clone().detach() * c + (-gate + 1.0) * value.clone();
            (mixed.clone() + w.detach() * 0.1, mixed * value.detach())
        }),
    ),
    (
        "in joined tensors",
        body!(|w, c, x| {
            let joined = Tensor::cat(vec![w.clone().detach(), c.clone(), (x * w).detach(), c], 0);
            twice(joined.reshape([4, WIDTH]).sum_dim(0).reshape([WIDTH]) * 0.5)
        }),
    ),
    (
        "in a product of matrices",
        body!(|w, c, x| {
            let (row, column) = ((c * w.clone()).reshape([1, WIDTH]), (w + x).reshape([WIDTH, 1]));
            twice(
                column.clone().detach().matmul(row.clone()).matmul(column).reshape([WIDTH])
                    + row.detach().reshape([WIDTH]),
            )
        }),
    ),
    (
        "in a choice",
        body!(|w, c, x| {
            let mask = x.clone().greater_elem(0.0);
            twice((c * w.clone()).mask_where(mask, (w * x).detach()))
        }),
    ),
    (
        "in parts",
        body!(|w, c, x| {
            let v = c * w.clone() + x;
            let part = v.clone().slice(s![0..1]).detach();
            twice(v.slice_assign(s![1..2], part * 2.0) + w.slice(s![0..1]).expand([WIDTH]))
        }),
    ),
    (
        "a normalised row",
        body!(|w, c, x| {
            let v = c * w + x;
            let deviation = ((v.clone() - v.clone().mean()).square().mean() + 0.1).sqrt();
            twice(v / deviation.detach())
        }),
    ),
    (
        "a shifted softmax",
        body!(|w, c, x| {
            let v = c * w + x;
            let shifted = (v.clone() - v.max().detach()).exp();
            twice(shifted.clone() / shifted.sum())
        }),
    ),
    ("softmax", body!(|w, c, x| twice(activation::softmax(c * w.clone() + x, 0) + activation::log_softmax(w, 0)))),
    (
        "rounding, straight through",
        body!(|w, c, x| {
            let v = c * w + x;
            twice(v.clone() + ((v.clone() * 4.0).round() / 4.0 - v).detach())
        }),
    ),
    ("a comparison", body!(|w, c, x| twice(c * 0.5 + w * x.greater_elem(0.1).float()))),
    (
        "an op that is dropped",
        body!(|w, c, x| {
            let _head = w * c.clone();
            twice(c * 0.5 + x)
        }),
    ),
    ("steps", body!(|w, c, x| twice(c + w.floor() * x.clone().sign() + x))),
    // The tensors `p` and `q` of the following bodies have equal elements, so numerical trials cannot distinguish them.
    // Capture distinguishes them by their other edges on Burn's tape, and by the order of their nodes.
    (
        "one of two equal ones, of which the other is used alone",
        body!(|w, c, x| {
            let (p, q) = (w.clone() * x.clone(), w * x);
            twice(c * 0.5 + q.clone().sum() + p.detach() * q)
        }),
    ),
    (
        "the one before another tensor",
        body!(|w, c, x| {
            let p = w.clone() * x.clone();
            let between = c * w.clone();
            let q = w * x;
            twice(between + p.detach() * q)
        }),
    ),
    (
        "the one behind another tensor",
        body!(|w, c, x| {
            let p = w.clone() * x.clone();
            let between = c * w.clone();
            let q = w * x;
            twice(between + p * q.detach())
        }),
    ),
];
