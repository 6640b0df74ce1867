"""Reinforcement learning and planning: tabular Q-learning, generalised advantage estimation, and value iteration."""

import jax
import jax.numpy as jnp
from jax import lax

from . import workload

DISCOUNT = 0.95
"""The factor by which each step discounts later rewards."""
RATE = 0.1
"""The learning rate of Q-learning."""
SLIP = 0.2
"""The probability that an action leaves the state unchanged."""
LAMBDA = 0.9
"""The decay parameter of generalised advantage estimation."""
TOLERANCE = 1e-4
"""Value iteration ends when no value changes by more than this."""


@workload("q", "errors")
def q_learning(sizes, q, rewards, successors, states, actions, chances):
    def step(q, now):
        state, action, chance = now
        next = jnp.where(chance < SLIP, state, successors[state, action])
        error = rewards[state, action] + DISCOUNT * jnp.max(q[next]) - q[state, action]
        return q.at[state, action].add(RATE * error), error

    q, errors = lax.scan(step, q, (states, actions, chances))
    return {"q": q, "errors": errors}


@workload("advantages", "returns")
def gae(sizes, rewards, values, last_value, remaining):
    goes_on = (remaining != 0).astype(rewards.dtype)

    def step(state, row):
        later, next = state
        reward, value, goes_on = row
        error = reward + DISCOUNT * goes_on * next - value
        advantage = error + DISCOUNT * LAMBDA * goes_on * later
        return (advantage, value), advantage

    start = (jnp.zeros_like(last_value), last_value)
    _, advantages = lax.scan(step, start, (rewards, values, goes_on), reverse=True)
    return {"advantages": advantages, "returns": advantages + values}


@workload("values")
def value_iteration(sizes, logits, rewards):
    transitions = jax.nn.softmax(logits, axis=2)

    def step(state):
        values, _ = state
        next = jnp.max(rewards + DISCOUNT * (transitions @ values), axis=0)
        return next, jnp.max(jnp.abs(next - values))

    start = (jnp.zeros_like(rewards[0]), jnp.float32(jnp.inf))
    values, _ = lax.while_loop(lambda state: state[1] > TOLERANCE, step, start)
    return {"values": values}
