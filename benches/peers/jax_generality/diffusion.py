"""Partial differential equations: waves in an inhomogeneous medium, and a reaction-diffusion system."""

import jax.numpy as jnp
from jax import lax

from . import workload


@workload("record", differentiated=("speed",))
def wave(sizes, speed, place, source):
    factor = speed**2

    def step(state, source):
        before, now = state
        padded = jnp.pad(now, 1)
        around = padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2]
        following = 2 * now - before + factor * (around - 4 * now) + source * place
        return (now, following), following[1]

    _, record = lax.scan(step, (jnp.zeros_like(speed), jnp.zeros_like(speed)), source)
    return {"record": record}


def periodic_laplacian(x):
    return jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1) - 4 * x


@workload("u", "v")
def gray_scott(sizes, u, v):
    def step(_, state):
        u, v = state
        reaction = u * v * v
        next_u = u + 0.16 * periodic_laplacian(u) - reaction + 0.035 * (1 - u)
        next_v = v + 0.08 * periodic_laplacian(v) + reaction - 0.1 * v
        return next_u, next_v

    u, v = lax.fori_loop(0, sizes["T"], step, (u, v))
    return {"u": u, "v": v}
