"""Kalman filters for tracking."""

import jax.numpy as jnp
from jax import lax

from . import workload


@workload("loss", differentiated=("log_q", "log_r"), loss_is_output=True)
def kalman_tracks(sizes, measured, log_q, log_r):
    q, r = jnp.exp(log_q), jnp.exp(log_r)

    def step(state, z):
        x, v, xx, xv, vv = state
        x = x + v
        xx = xx + 2 * xv + vv + 0.25 * q
        xv = xv + vv + 0.5 * q
        vv = vv + q
        variance, innovation = xx + r, z - x
        gain_x, gain_v = xx / variance, xv / variance
        cost = 0.5 * (jnp.log(variance) + innovation**2 / variance)
        following = (
            x + gain_x * innovation,
            v + gain_v * innovation,
            (1 - gain_x) * xx,
            (1 - gain_x) * xv,
            vv - gain_v * xv,
        )
        return following, cost

    zeros, ones = jnp.zeros_like(q), jnp.ones_like(q)
    _, costs = lax.scan(step, (measured[0], zeros, ones, zeros, ones), measured)
    return {"loss": costs.mean()}
