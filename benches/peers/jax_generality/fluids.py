"""Fluid dynamics: a lattice Boltzmann method, and the shallow water equations."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from . import workload

X = (0, 1, 0, -1, 0, 1, -1, -1, 1)
Y = (0, 0, 1, 0, -1, 1, 1, -1, -1)
WEIGHTS = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)
RELAXATION = 1.25
STEP = 0.2


@workload("f")
def lattice_boltzmann(sizes, density):
    x, y, weights = (np.array(numbers, np.float32).reshape(9, 1, 1) for numbers in (X, Y, WEIGHTS))

    def step(_, f):
        density = f.sum(0)
        u, v = (x * f).sum(0) / density, (y * f).sum(0) / density
        along = x * u + y * v
        speed = u**2 + v**2
        equilibrium = weights * density * (1 + 3 * along + 4.5 * along**2 - 1.5 * speed)
        collided = f + RELAXATION * (equilibrium - f)
        return jnp.stack([jnp.roll(collided[i], (X[i], Y[i]), (0, 1)) for i in range(9)])

    return {"f": lax.fori_loop(0, sizes["T"], step, weights * density)}


@workload("height", "u", "v")
def shallow_water(sizes, height, u, v):
    def step(_, state):
        height, u, v = state
        below, right = jnp.roll(height, -1, 0), jnp.roll(height, -1, 1)
        u = u + STEP * (0.1 * v - (below - height) - 0.01 * u)
        v = v + STEP * (-0.1 * u - (right - height) - 0.01 * v)
        flux_x, flux_y = 0.5 * u * (height + below), 0.5 * v * (height + right)
        height = height - STEP * (flux_x - jnp.roll(flux_x, 1, 0) + flux_y - jnp.roll(flux_y, 1, 1))
        return height, u, v

    height, u, v = lax.fori_loop(0, sizes["T"], step, (height, u, v))
    return {"height": height, "u": u, "v": v}
