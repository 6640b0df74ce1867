"""Recurrent cells, and networks of spiking neurons."""

import jax
import jax.numpy as jnp
from jax import lax

from . import workload


@workload("hs", differentiated=("w", "u", "b"))
def gru(sizes, xs, h0, w, u, b):
    def step(state, x):
        reset, update, candidate = jnp.split(x @ w + b, 3, axis=1)
        of_reset, of_update, of_candidate = jnp.split(state @ u, 3, axis=1)
        update = jax.nn.sigmoid(update + of_update)
        candidate = jnp.tanh(candidate + jax.nn.sigmoid(reset + of_reset) * of_candidate)
        state = (1 - update) * candidate + update * state
        return state, state

    return {"hs": lax.scan(step, h0, xs)[1]}


@jax.custom_vjp
def spike(voltage):
    """Returns 1 where the voltage is above the threshold, and 0 elsewhere. The derivative is that of a smooth function."""
    return (voltage > 0).astype(jnp.float32)


def spike_forward(voltage):
    return spike(voltage), voltage


def spike_backward(voltage, ct):
    return (ct / (1 + 10 * jnp.abs(voltage)) ** 2,)


spike.defvjp(spike_forward, spike_backward)


@workload("readout", differentiated=("w", "u", "out"))
def lif(sizes, xs, w, u, out):
    def step(state, x):
        voltage, spikes, readout = state
        voltage = 0.9 * voltage * (1 - spikes) + x @ w + spikes @ u
        spikes = spike(voltage - 1)
        readout = 0.9 * readout + spikes @ out
        return (voltage, spikes, readout), readout

    start = tuple(jnp.zeros((sizes["B"], sizes[width])) for width in ("H", "H", "O"))
    return {"readout": lax.scan(step, start, xs)[1]}
