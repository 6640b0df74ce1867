"""Particle dynamics: gravitating bodies, and a liquid in a periodic box."""

import jax.numpy as jnp
from jax import lax

from . import workload

SPACING = 1.2


@workload("positions", differentiated=("velocities",))
def n_body(sizes, positions, velocities, masses):
    def acceleration(positions):
        difference = positions[None] - positions[:, None]
        inverse = lax.rsqrt((difference**2).sum(2) + 0.05)
        return ((masses * inverse * inverse * inverse)[:, :, None] * difference).sum(1)

    def step(_, state):
        positions, velocities = state
        positions = positions + 0.005 * velocities
        velocities = velocities + 0.01 * acceleration(positions)
        return positions + 0.005 * velocities, velocities

    positions, _ = lax.fori_loop(0, sizes["T"], step, (positions, velocities))
    return {"positions": positions}


@workload("energy", "positions")
def lennard_jones(sizes, positions, velocities):
    length = SPACING * sizes["S"]

    def forces(positions):
        difference = positions[:, None] - positions[None]
        nearest = difference - length * jnp.round(difference / length)
        square = (nearest**2).sum(2)
        is_near = (square < 6.25) & (square > 0)
        inverse = jnp.where(is_near, 1 / jnp.where(is_near, square, 1.0), 0.0)
        power = inverse * inverse * inverse
        force = ((24 * (2 * power**2 - power) * inverse)[:, :, None] * nearest).sum(1)
        return force, 2 * (power**2 - power).sum()

    def step(state, _):
        positions, velocities, force = state
        half = velocities + 0.0025 * force
        positions = positions + 0.005 * half
        force, energy = forces(positions)
        return (positions, half + 0.0025 * force, force), energy

    start = (positions, velocities, forces(positions)[0])
    (positions, _, _), energy = lax.scan(step, start, length=sizes["T"])
    return {"energy": energy, "positions": positions}
