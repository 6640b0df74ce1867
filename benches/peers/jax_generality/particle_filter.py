"""Particle filters: a bootstrap filter that tracks a position and a velocity, with systematic resampling."""

import jax.numpy as jnp
from jax import lax

from . import workload

UNIT = 1 / 256
"""All inputs are multiples of this number. The states, the weights and their running sums are therefore exact in f32, so
every subject resamples the same particles."""
LEAST = 1 / 256
"""The smallest weight of a particle."""
WIDTH = 4.0
"""The half-width of the triangular distribution of an observation around the position."""


@workload("positions", "estimates")
def bootstrap_filter(sizes, observations, positions, noise, offsets):
    p = sizes["P"]
    numbers = jnp.arange(p, dtype=jnp.float32)

    def step(state, now):
        position, velocity = state
        observation, noise, offset = now
        position, velocity = position + velocity, velocity + noise
        weights = jnp.maximum(1.0 - jnp.abs(observation - position) / WIDTH, LEAST)
        total = jnp.sum(weights)
        estimate = jnp.sum(weights * position) / total
        # The ancestor of particle i is the first particle whose cumulative weight exceeds (i + offset) / P of the total.
        cumulative = jnp.cumsum(weights) * p
        points = (numbers + offset) * total
        ancestors = jnp.searchsorted(cumulative, points, side="right", method="compare_all")
        return (position[ancestors], velocity[ancestors]), estimate

    rows = (observations, noise, offsets.astype(jnp.float32) * UNIT)
    (positions, _), estimates = lax.scan(step, (positions, jnp.zeros_like(positions)), rows)
    return {"positions": positions, "estimates": estimates}
