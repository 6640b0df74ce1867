"""Gradient-based samplers for batches of chains: Hamiltonian Monte Carlo and Langevin dynamics."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp, softplus

from . import workload

LEAP = 0.05
"""The step size of the leapfrog integrator."""
STEP = 0.01
"""The step size of Langevin dynamics."""


@workload("samples", "accepted")
def hmc(sizes, features, labels, start, key):
    signs = (labels * 2 - 1).astype(features.dtype)

    def potential(weights):
        """The negative log-density of the posterior for each chain, under a standard normal prior."""
        margins = (weights @ features.T) * signs
        return jnp.sum(softplus(-margins), axis=1) + 0.5 * jnp.sum(weights**2, axis=1)

    slope = jax.grad(lambda weights: jnp.sum(potential(weights)))

    def energy(position, momentum):
        return potential(position) + 0.5 * jnp.sum(momentum**2, axis=1)

    def leap(_, state):
        position, momentum = state
        position = position + LEAP * momentum
        return position, momentum - LEAP * slope(position)

    def step(state, _):
        old, key = state
        key, for_momentum, for_acceptance = jax.random.split(key, 3)
        momentum = jax.random.normal(for_momentum, old.shape)
        half = momentum - LEAP / 2 * slope(old)
        new, end = lax.fori_loop(0, sizes["L"], leap, (old, half))
        # Undo half of the last momentum step: the leapfrog method ends with a half step.
        end = end + LEAP / 2 * slope(new)
        uniform = jax.random.uniform(for_acceptance, old.shape[:1])
        accepted = jnp.log(uniform) < energy(old, momentum) - energy(new, end)
        next = jnp.where(accepted[:, None], new, old)
        return (next, key), (next, jnp.mean(accepted.astype(jnp.float32)))

    _, (samples, accepted) = lax.scan(step, (start, key), length=sizes["T"])
    return {"samples": samples, "accepted": accepted}


@workload("last", "energies")
def langevin(sizes, start, centres, key):
    def energy(x):
        """The negative log-density of a mixture of normal distributions, for each chain."""
        return -logsumexp(-0.5 * jnp.sum((x[:, None] - centres) ** 2, axis=2), axis=1)

    slope = jax.grad(lambda x: jnp.sum(energy(x)))

    def step(state, _):
        x, key = state
        key, own = jax.random.split(key)
        noise = jax.random.normal(own, x.shape)
        x = x - STEP * slope(x) + (2 * STEP) ** 0.5 * noise
        return (x, key), jnp.mean(energy(x))

    (last, _), energies = lax.scan(step, (start, key), length=sizes["T"])
    return {"last": last, "energies": energies}
