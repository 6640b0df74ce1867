"""Entropy-regularised optimal transport."""

import math

import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp

from . import workload

EPSILON = 0.2


@workload("cost", differentiated=("x",), loss_is_output=True)
def sinkhorn(sizes, x, y):
    log_n, log_m = math.log(sizes["N"]), math.log(sizes["M"])
    cost = ((x[:, None] - y) ** 2).sum(2)

    def step(_, state):
        _, g = state
        f = -EPSILON * (logsumexp((g - cost) / EPSILON, axis=1) - log_m)
        g = -EPSILON * (logsumexp((f[:, None] - cost) / EPSILON, axis=0) - log_n)
        return f, g

    f, g = lax.fori_loop(0, sizes["T"], step, (jnp.zeros(sizes["N"]), jnp.zeros(sizes["M"])))
    plan = jnp.exp((f[:, None] + g - cost) / EPSILON - (log_n + log_m))
    return {"cost": (plan * cost).sum()}
