"""Sequence layers that scan over chunks of a sequence, and attention over blocks of keys."""

import math

import jax
import jax.numpy as jnp
from jax import lax

from . import workload


@workload("y", differentiated=("x", "decay", "b", "c"))
def mamba2_chunked(sizes, x, decay, b, c):
    mask = jnp.tril(jnp.ones((sizes["Q"], sizes["Q"]), bool))

    def step(state, now):
        x, log_decay, b, c = now
        sums = jnp.cumsum(log_decay, axis=1)
        total = sums[:, -1:]
        between = jnp.exp(jnp.where(mask, sums[:, :, None] - sums[:, None, :], -jnp.inf))
        within = ((c @ b.T) * between) @ x
        earlier = jnp.exp(sums)[:, :, None] * (c @ state)
        weighted = jnp.exp(total - sums)[:, :, None] * x
        return jnp.exp(total)[:, :, None] * state + b.T @ weighted, within + earlier

    start = jnp.zeros((sizes["H"], sizes["N"], sizes["P"]))
    return {"y": lax.scan(step, start, (x, -jax.nn.softplus(decay), b, c))[1]}


@workload("y", differentiated=("q", "k", "v", "beta"))
def delta_rule(sizes, q, k, v, beta):
    unit = jnp.eye(sizes["Q"])

    def step(state, now):
        q, k, v, beta = now
        beta = beta[:, :, None]
        power = jnp.tril(beta * (k @ k.mT), -1)
        inverse = unit - power
        reached = 2
        while reached < sizes["Q"]:
            power = power @ power
            inverse = inverse @ (unit + power)
            reached *= 2
        update = inverse @ (beta * (v - k @ state))
        y = q @ state + jnp.tril(q @ k.mT) @ update
        return state + k.mT @ update, y

    k = k / jnp.sqrt((k**2).sum(3) + 1e-6)[..., None]
    start = jnp.zeros((sizes["H"], sizes["D"], sizes["D"]))
    return {"y": lax.scan(step, start, (q, k, v, jax.nn.sigmoid(beta)))[1]}


@workload("y", differentiated=("q", "k", "v"))
def flash_attention(sizes, q, k, v):
    scale = 1 / math.sqrt(sizes["D"])

    def step(state, block):
        largest, total, values = state
        k, v = block
        scores = scale * (q @ k.mT)
        following = jnp.maximum(largest, lax.stop_gradient(scores.max(2)))
        weights = jnp.exp(scores - following[:, :, None])
        kept = jnp.exp(largest - following)
        total = kept * total + weights.sum(2)
        return (following, total, kept[:, :, None] * values + weights @ v), None

    zeros = jnp.zeros(q.shape[:2])
    (_, total, values), _ = lax.scan(step, (zeros - jnp.inf, zeros, jnp.zeros_like(q)), (k, v))
    return {"y": values / total[:, :, None]}
