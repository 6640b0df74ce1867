"""Optimal control: trajectory optimisation by gradient descent, and rollouts of many policies."""

import jax
import jax.numpy as jnp
from jax import lax

from . import workload


@workload("costs", "torques")
def swing_up(sizes, torques, angles):
    def cost_of(torques):
        def step(state, torque):
            angle, rate = state
            rate = rate + 0.02 * (torque - 5 * jnp.sin(angle) - 0.1 * rate)
            return (angle + 0.02 * rate, rate), None

        (angle, rate), _ = lax.scan(step, (angles, jnp.zeros_like(angles)), torques)
        return (1 + jnp.cos(angle) + 0.1 * rate**2).sum() + 0.0001 * (torques**2).sum()

    def improve(torques, _):
        cost, slope = jax.value_and_grad(cost_of)(torques)
        return torques - 50 * slope, cost

    torques, costs = lax.scan(improve, torques, length=sizes["K"])
    return {"costs": costs, "torques": torques}


@workload("falls", "state")
def cartpole(sizes, start, policy):
    def step(_, carry):
        state, falls = carry
        force = 10 * jnp.tanh((policy * state).sum(0))
        place, speed, angle, rate = state
        sine, cosine = jnp.sin(angle), jnp.cos(angle)
        push = (force + 0.05 * rate**2 * sine) / 1.1
        turn = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        pull = push - 0.05 * turn * cosine / 1.1
        place = place + 0.02 * speed
        angle = angle + 0.02 * rate
        following = jnp.stack([place, speed + 0.02 * pull, angle, rate + 0.02 * turn])
        has_fallen = (jnp.abs(place) > 2.4) | (jnp.abs(angle) > 0.21)
        return jnp.where(has_fallen, start, following), falls + has_fallen.astype(jnp.int32)

    state, falls = lax.fori_loop(0, sizes["T"], step, (start, jnp.zeros(sizes["B"], jnp.int32)))
    return {"falls": falls, "state": state}
