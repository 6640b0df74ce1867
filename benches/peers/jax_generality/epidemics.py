"""Epidemiology: fitting a compartment model to reported cases, and simulating infections of individuals."""

import jax
import jax.numpy as jnp
from jax import lax

from . import workload


@workload("loss", differentiated=("infection", "onset", "recovery"), loss_is_output=True)
def seir_fit(sizes, cases, mixing, infected, infection, onset, recovery):
    mixing = jax.nn.softmax(mixing, axis=1)

    def step(state, cases):
        susceptible, exposed, infected = state
        exposures = infection * susceptible * (mixing @ infected)
        onsets = onset * exposed
        following = (
            susceptible - exposures,
            exposed + exposures - onsets,
            infected + onsets - recovery * infected,
        )
        return following, 100 * onsets - cases

    _, errors = lax.scan(step, (1 - infected, jnp.zeros_like(infected), infected), cases)
    return {"loss": (errors**2).mean()}


@workload("infected", "susceptible")
def chain_binomial(sizes, illness, key):
    p = sizes["P"]
    per_infected = jnp.uint32(int(0.3 * 2**32 / p))
    of_recovery = jnp.uint32(int(0.1 * 2**32))

    def step(state, _):
        key, states = state
        key, first, second = jax.random.split(key, 3)
        is_susceptible, is_infected = states == 0, states == 1
        infected = is_infected.sum(dtype=jnp.int32)
        threshold = infected.astype(jnp.uint32) * per_infected
        falls_ill = is_susceptible & (jax.random.bits(first, (p,)) < threshold)
        recovers = is_infected & (jax.random.bits(second, (p,)) < of_recovery)
        following = states + (falls_ill | recovers).astype(jnp.int32)
        return (key, following), (is_susceptible.sum(dtype=jnp.int32), infected)

    start = (key, (illness == 0).astype(jnp.int32))
    _, (susceptible, infected) = lax.scan(step, start, length=sizes["T"])
    return {"infected": infected, "susceptible": susceptible}
