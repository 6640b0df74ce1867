"""Recurrent networks over images, whose cells use convolutions."""

import jax
import jax.numpy as jnp
from jax import lax

from . import workload


@workload("states", differentiated=("gates", "candidate"))
def conv_gru(sizes, xs, gates, candidate):
    def conv(x, state, kernel):
        return lax.conv(jnp.concatenate([x, state], axis=1), kernel, (1, 1), "SAME")

    def step(state, x):
        reset, update = jnp.split(jax.nn.sigmoid(conv(x, state, gates)), 2, axis=1)
        following = jnp.tanh(conv(x, reset * state, candidate))
        state = (1 - update) * state + update * following
        return state, state

    start = jnp.zeros((sizes["B"], sizes["H"], sizes["N"], sizes["N"]))
    return {"states": lax.scan(step, start, xs)[1]}
