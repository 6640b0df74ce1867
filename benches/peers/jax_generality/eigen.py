"""Eigenvalues by power iteration."""

import jax.numpy as jnp
from jax import lax

from . import workload


@workload("values", "vectors")
def power_iteration(sizes, factor, starts):
    def unit(x):
        return x / jnp.linalg.norm(x)

    def step(matrix, start):
        vector = lax.fori_loop(0, sizes["T"], lambda _, vector: unit(matrix @ vector), unit(start))
        value = vector @ (matrix @ vector)
        return matrix - value * vector[:, None] * vector, (value, vector)

    _, (values, vectors) = lax.scan(step, factor @ factor.T, starts)
    return {"values": values, "vectors": vectors}
