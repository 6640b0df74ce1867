"""Text automata: a deterministic finite automaton that reads a batch of strings."""

import jax.numpy as jnp
from jax import lax

from . import workload


@workload("states", "counts")
def dfa_match(sizes, texts, transitions, accepting):
    def step(state, letter):
        states, counts = state
        states = transitions[states, letter]
        return (states, counts + accepting[states]), None

    none = jnp.zeros(texts.shape[0], jnp.int32)
    (states, counts), _ = lax.scan(step, (none, none), texts.T)
    return {"states": states, "counts": counts}
