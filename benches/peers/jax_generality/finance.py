"""Option pricing: American options on a binomial tree, and European options on simulated paths."""

import math

import jax
import jax.numpy as jnp
from jax import lax

from . import workload

START = 100.0
RATE = 0.05


@workload("prices")
def binomial_american(sizes, strikes):
    n = sizes["N"]
    length = 1 / n
    move_up = 0.2 * math.sqrt(length)
    up, down, discount = math.exp(move_up), math.exp(-move_up), math.exp(-RATE * length)
    chance = (math.exp(RATE * length) - down) / (up - down)
    strikes = strikes[:, None]

    def step(state, _):
        prices, values = state
        prices = up * prices
        kept = discount * (chance * values[:, 1:] + (1 - chance) * values[:, :-1])
        return (prices, jnp.maximum(jnp.pad(kept, ((0, 0), (0, 1))), strikes - prices)), None

    prices = START * jnp.exp(move_up * (2 * jnp.arange(n + 1, dtype=jnp.float32) - n))
    (_, values), _ = lax.scan(step, (prices, jnp.maximum(strikes - prices, 0)), length=n)
    return {"prices": values[:, 0]}


@workload("prices")
def heston_paths(sizes, strikes, key):
    length, correlation = 1 / sizes["T"], -0.7

    def step(state, _):
        key, logs, variance = state
        key, draw = jax.random.split(key)
        first, second = jax.random.normal(draw, (2, sizes["N"]))
        second = correlation * first + math.sqrt(1 - correlation**2) * second
        now = jnp.maximum(variance, 0)
        deviation = jnp.sqrt(length * now)
        logs = logs + length * (RATE - 0.5 * now) + deviation * first
        return (key, logs, variance + 1.5 * length * (0.04 - now) + 0.3 * deviation * second), None

    start = (key, jnp.full(sizes["N"], math.log(START)), jnp.full(sizes["N"], 0.04))
    (_, logs, _), _ = lax.scan(step, start, length=sizes["T"])
    payoffs = jnp.maximum(jnp.exp(logs) - strikes[:, None], 0)
    return {"prices": math.exp(-RATE) * payoffs.mean(1)}
