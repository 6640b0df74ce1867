"""Streaming statistics: a count-min sketch, and running means and covariances."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from . import workload

MULTIPLIERS = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F], np.uint32)
"""The odd multipliers of the hash functions, one for each row of the sketch."""


@workload("sketch", "counts")
def count_min(sizes, items, queries):
    """Runs a count-min sketch whose width is a power of two."""
    width = sizes["W"]
    shift = 32 - (width.bit_length() - 1)
    multipliers = jnp.asarray(MULTIPLIERS)[:, None]
    rows = jnp.arange(len(MULTIPLIERS))[:, None]

    def hash(items):
        return ((items * multipliers) >> shift).astype(jnp.int32)

    def step(sketch, items):
        return sketch.at[rows, hash(items)].add(1), None

    sketch, _ = lax.scan(step, jnp.zeros((len(MULTIPLIERS), width), jnp.int32), items)
    return {"sketch": sketch, "counts": jnp.min(sketch[rows, hash(queries)], axis=0)}


@workload("mean", "covariance")
def welford(sizes, xs, mix):
    def step(state, x):
        count, mean, products = state
        x = x @ mix
        count = count + 1.0
        before = x - mean
        mean = mean + before / count
        after = x - mean
        return (count, mean, products + before[:, :, None] * after[:, None, :]), None

    batch, width = xs.shape[1:]
    start = (jnp.float32(0), jnp.zeros((batch, width), xs.dtype), jnp.zeros((batch, width, width), xs.dtype))
    (count, mean, products), _ = lax.scan(step, start, xs)
    return {"mean": mean, "covariance": products / (count - 1.0)}
