"""Alignment losses: connectionist temporal classification, and soft dynamic time warping."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp

from . import workload

IMPOSSIBLE = -1e30
"""The logarithm of the probability of an impossible alignment."""
GAMMA = 0.5
"""The temperature of the soft minimum."""
FAR = 1e8
"""A cost above that of any path."""


@workload("loss", differentiated=("logits",), loss_is_output=True)
def ctc_loss(sizes, logits, labels):
    # Label 0 is the blank. A blank precedes and follows each label.
    blanks = jnp.zeros_like(labels)
    pairs = jnp.stack([blanks, labels], axis=2).reshape(labels.shape[0], -1)
    states = jnp.concatenate([pairs, blanks[:, :1]], axis=1)
    # A path may skip the blank between two different labels.
    can_skip = jnp.pad(states[:, 2:] != states[:, :-2], ((0, 0), (2, 0)))
    start = jnp.where(jnp.arange(states.shape[1]) == 0, 0.0, IMPOSSIBLE)
    start = jnp.broadcast_to(start, states.shape).astype(logits.dtype)

    def shifted(alpha, by):
        return jnp.pad(alpha[:, :-by], ((0, 0), (by, 0)), constant_values=IMPOSSIBLE)

    def step(alpha, log_probabilities):
        skip = jnp.where(can_skip, shifted(alpha, 2), IMPOSSIBLE)
        alpha = jnp.logaddexp(jnp.logaddexp(alpha, shifted(alpha, 1)), skip)
        return alpha + jnp.take_along_axis(log_probabilities, states, axis=1), None

    last, _ = lax.scan(step, start, jax.nn.log_softmax(logits, axis=2))
    return {"loss": -jnp.mean(jnp.logaddexp(last[:, -1], last[:, -2]))}


@workload("distance", differentiated=("x",), loss_is_output=True)
def soft_dtw(sizes, x, y):
    """Computes soft dynamic time warping by a scan over the anti-diagonals. Element `i + 1` of a diagonal belongs to
    position `i` of `x`; element 0 is the border."""
    b, n, m = sizes["B"], sizes["N"], sizes["M"]
    costs = jnp.sum((x[:, :, None] - y[:, None]) ** 2, axis=3)
    # Row i of the skewed costs is row i of the costs, shifted by i.
    steps = n + m - 1
    padded = jnp.pad(costs, ((0, 0), (0, 0), (0, n)), constant_values=FAR).reshape(b, n * (n + m))
    skewed = padded[:, : n * steps].reshape(b, n, steps)

    def step(state, costs):
        before, last = state
        paths = jnp.stack([last[:, 1:], last[:, :-1], before[:, :-1]])
        next = costs - GAMMA * logsumexp(paths / -GAMMA, axis=0)
        return (last, jnp.pad(next, ((0, 0), (1, 0)), constant_values=FAR)), None

    far = jnp.full((b, n + 1), FAR, x.dtype)
    (_, last), _ = lax.scan(step, (far.at[:, 0].set(0), far), skewed.transpose(2, 0, 1))
    return {"distance": jnp.mean(last[:, -1])}
