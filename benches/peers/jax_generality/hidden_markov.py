"""Hidden Markov models: the forward algorithm in log space, and the most likely path."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp

from . import workload


@workload("likelihood", differentiated=("transition", "emission"), loss_is_output=True)
def hmm_likelihood(sizes, transition, emission, start):
    transition = jax.nn.log_softmax(transition, axis=1)

    def step(alpha, emission):
        return logsumexp(alpha[:, :, None] + transition[None], axis=1) + emission, None

    last, _ = lax.scan(step, jax.nn.log_softmax(start, axis=1), emission)
    return {"likelihood": jnp.mean(logsumexp(last, axis=1))}


@workload("path")
def viterbi(sizes, transition, emission, start):
    def step(best, emission):
        scores = best[:, :, None] + transition[None]
        return jnp.max(scores, axis=1) + emission, jnp.argmax(scores, axis=1).astype(jnp.int32)

    last, back = lax.scan(step, start, emission)

    def follow(state, back):
        state = jnp.take_along_axis(back, state[:, None], axis=1)[:, 0]
        return state, state

    _, path = lax.scan(follow, jnp.argmax(last, axis=1).astype(jnp.int32), back[::-1])
    return {"path": path}
