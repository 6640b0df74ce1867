"""Ordinary differential equations with fixed and with adaptive step sizes, and a model of neurons."""

import jax
import jax.numpy as jnp
from jax import lax

from . import workload

TOLERANCE = 1e-5
END = 10.0


@workload("trajectory", differentiated=("rates",))
def lotka_volterra(sizes, start, rates):
    growth, eaten, fed, death = rates

    def field(y):
        prey, predators = y
        met = prey * predators
        return jnp.stack([growth * prey - eaten * met, fed * met - death * predators])

    def step(y, _):
        k1 = field(y)
        k2 = field(y + 0.01 * k1)
        k3 = field(y + 0.01 * k2)
        k4 = field(y + 0.02 * k3)
        y = y + (0.02 / 6) * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, y

    _, trajectory = lax.scan(step, start, length=sizes["T"])
    return {"trajectory": trajectory}


@workload("y")
def adaptive_rk(sizes, start, stiffness):
    def field(y):
        x, v = y
        return jnp.stack([v, stiffness * (1 - x**2) * v - x])

    def goes_on(state):
        return jnp.any(state[0] < END)

    def body(state):
        time, step, y, k1 = state
        step = jnp.minimum(step, END - time)
        k2 = field(y + 0.5 * step * k1)
        k3 = field(y + 0.75 * step * k2)
        following = y + step * ((2 / 9) * k1 + (1 / 3) * k2 + (4 / 9) * k3)
        k4 = field(following)
        error = step * ((5 / 72) * k1 - (1 / 12) * k2 - (1 / 9) * k3 + (1 / 8) * k4)
        scale = TOLERANCE * (1 + jnp.maximum(jnp.abs(y), jnp.abs(following)))
        error = jnp.max(jnp.abs(error) / scale, axis=0)
        accepted = error <= 1
        factor = jnp.clip(0.9 * (error + 1e-10) ** (-1 / 3), 0.2, 5.0)
        time = jnp.where(accepted, time + step, time)
        return time, step * factor, jnp.where(accepted, following, y), jnp.where(accepted, k4, k1)

    init = (jnp.zeros_like(stiffness), jnp.full_like(stiffness, 0.01), start, field(start))
    return {"y": lax.while_loop(goes_on, body, init)[2]}


@workload("voltage")
def hodgkin_huxley(sizes, current):
    def ratio(x):
        is_small = jnp.abs(x) < 1e-4
        return jnp.where(is_small, 1 + 0.5 * x, x / (1 - jnp.exp(-jnp.where(is_small, 1.0, x))))

    def advance(gate, opening, closing):
        rate = opening + closing
        target = opening / rate
        return target + (gate - target) * jnp.exp(-0.025 * rate)

    def step(state, _):
        v, m, h, n = state
        m = advance(m, ratio((v + 40) / 10), 4 * jnp.exp(-(v + 65) / 18))
        h = advance(h, 0.07 * jnp.exp(-(v + 65) / 20), jax.nn.sigmoid((v + 35) / 10))
        n = advance(n, 0.1 * ratio((v + 55) / 10), 0.125 * jnp.exp(-(v + 65) / 80))
        sodium = 120 * m * m * m * h * (v - 50)
        potassium = 36 * n**4 * (v + 77)
        v = v + 0.025 * (current - sodium - potassium - 0.3 * (v + 54.387))
        return (v, m, h, n), v

    start = tuple(jnp.full_like(current, number) for number in (-65.0, 0.0529, 0.5961, 0.3177))
    _, voltage = lax.scan(step, start, length=sizes["T"])
    return {"voltage": voltage}
