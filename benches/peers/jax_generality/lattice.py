"""Lattice models: the Ising model, with Metropolis updates that alternate between the two colours of a checkerboard."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import workload

ACCEPTANCE = np.array([1, 1, 1, 0.20189652, 0.040762204], np.float32)
"""The probability of accepting a flip, at inverse temperature 0.4. It is indexed by the number of aligned minus the
number of opposite neighbours: -4, -2, 0, 2 or 4."""


@workload("spins", "magnetisation")
def ising(sizes, bits, key):
    acceptance = jnp.asarray(ACCEPTANCE)
    colours = (jnp.arange(sizes["H"])[:, None] + jnp.arange(sizes["W"])) & 1

    def step(state, _):
        spins, key = state
        key, own = jax.random.split(key)
        # A step updates each site once, so a single random number per site serves both colours.
        uniform = jax.random.uniform(own, spins.shape)
        for colour in range(2):
            neighbours = jnp.roll(spins, 1, 0) + jnp.roll(spins, -1, 0) + jnp.roll(spins, 1, 1) + jnp.roll(spins, -1, 1)
            chance = acceptance[(spins * neighbours + 4) >> 1]
            spins = jnp.where((colours == colour) & (uniform < chance), -spins, spins)
        return (spins, key), jnp.sum(spins)

    (spins, _), magnetisation = lax.scan(step, (bits * 2 - 1, key), length=sizes["T"])
    return {"spins": spins, "magnetisation": magnetisation}
