"""Multi-armed bandits: the upper confidence bound algorithm on a batch of Bernoulli bandits."""

import jax.numpy as jnp
from jax import lax

from . import workload


@workload("pulls", "wins", "reward")
def ucb(sizes, chances, first, noise):
    # Each arm is pulled once before the loop.
    wins = (first < chances).astype(jnp.int32)
    times = jnp.arange(sizes["T"], dtype=jnp.float32) + sizes["K"]
    bandits = jnp.arange(sizes["B"])

    def step(state, now):
        pulls, wins = state
        noise, time = now
        arm = jnp.argmax(wins / pulls + jnp.sqrt(2 * jnp.log(time) / pulls), axis=1)
        reward = (noise < chances[bandits, arm]).astype(jnp.int32)
        return (pulls.at[bandits, arm].add(1), wins.at[bandits, arm].add(reward)), jnp.sum(reward)

    (pulls, wins), rewards = lax.scan(step, (jnp.ones_like(wins), wins), (noise, times))
    # Rounding may make subjects break near ties differently. Sums over all bandits barely change.
    return {"pulls": jnp.sum(pulls, axis=0), "wins": jnp.sum(wins, axis=0), "reward": jnp.sum(rewards)}
