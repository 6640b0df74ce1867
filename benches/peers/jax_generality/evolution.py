"""Evolutionary optimisation of Rastrigin's function."""

import jax
import jax.numpy as jnp
from jax import lax

from . import workload


def rastrigin(x):
    """Computes Rastrigin's function of each row."""
    return 10 * x.shape[1] + (x**2 - 10 * jnp.cos(2 * jnp.pi * x)).sum(1)


@workload("best", "mean")
def evolution_strategy(sizes, mean, key):
    p, d = sizes["P"], sizes["D"]

    def step(state, _):
        key, mean = state
        key, draw = jax.random.split(key)
        noise = jax.random.normal(draw, (p, d))
        costs = rastrigin(mean + 0.3 * noise)
        ranks = jnp.argsort(jnp.argsort(costs)).astype(jnp.float32)
        weights = ranks / (p - 1) - 0.5
        return (key, mean - (0.5 / p) * (weights @ noise)), costs.min()

    (_, mean), best = lax.scan(step, (key, mean), length=sizes["T"])
    return {"best": best, "mean": mean}


@workload("best", "population")
def differential_evolution(sizes, population, parents, chances):
    def step(state, now):
        population, costs = state
        parents, chances = now
        a, b, c = population[parents]
        trial = jnp.where(chances < 0.9, a + 0.7 * (b - c), population)
        trial_costs = rastrigin(trial)
        is_better = trial_costs <= costs
        costs = jnp.where(is_better, trial_costs, costs)
        return (jnp.where(is_better[:, None], trial, population), costs), costs.min()

    (population, _), best = lax.scan(step, (population, rastrigin(population)), (parents, chances))
    return {"best": best, "population": population}
