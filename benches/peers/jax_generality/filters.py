"""Digital filters, fixed and adaptive."""

import jax.numpy as jnp
from jax import lax

from . import workload


@workload("filtered", differentiated=("sections",))
def biquad_cascade(sizes, sections, signal):
    def step(states, x):
        following = []
        for (first, second), (b0, b1, b2, a1, a2) in zip(states, coefficients):
            y = b0 * x + first
            following.append((b1 * x - a1 * y + second, b2 * x - a2 * y))
            x = y
        return tuple(following), x

    coefficients = [tuple(section) for section in sections]
    nothing = jnp.zeros_like(signal[0])
    _, filtered = lax.scan(step, ((nothing, nothing),) * 4, signal)
    return {"filtered": filtered}


@workload("errors", "weights")
def lms(sizes, signal, desired):
    def step(state, now):
        weights, latest = state
        x, desired = now
        latest = jnp.concatenate([x[:, None], latest[:, :-1]], axis=1)
        error = desired - (weights * latest).sum(1)
        rate = 0.1 * error / ((latest**2).sum(1) + 1e-3)
        return (weights + rate[:, None] * latest, latest), error

    nothing = jnp.zeros((sizes["B"], sizes["K"]))
    (weights, _), errors = lax.scan(step, (nothing, nothing), (signal, desired))
    return {"errors": errors, "weights": weights}


@workload("errors", "weights")
def rls(sizes, regressors, desired):
    def step(state, now):
        weights, inverse = state
        x, desired = now
        product = jnp.einsum("bij,bj->bi", inverse, x)
        gain = product / (0.999 + (x * product).sum(1))[:, None]
        error = desired - (weights * x).sum(1)
        inverse = (inverse - gain[:, :, None] * product[:, None, :]) / 0.999
        return (weights + error[:, None] * gain, inverse), error

    b, k = sizes["B"], sizes["K"]
    start = (jnp.zeros((b, k)), jnp.broadcast_to(10 * jnp.eye(k), (b, k, k)))
    (weights, _), errors = lax.scan(step, start, (regressors, desired))
    return {"errors": errors, "weights": weights}
