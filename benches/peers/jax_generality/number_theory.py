"""Number theory: the lengths of Collatz sequences, and modular exponentiation."""

import jax.numpy as jnp
from jax import lax

from . import workload


@workload("counts", "largest")
def collatz(sizes, starts):
    def step(state):
        numbers, largest, counts = state
        next = jnp.where(numbers & 1 == 0, numbers >> 1, numbers * 3 + 1)
        goes_on = numbers != 1
        numbers = jnp.where(goes_on, next, numbers)
        return numbers, jnp.maximum(largest, numbers), counts + goes_on.astype(jnp.int32)

    start = (starts, starts, jnp.zeros_like(starts))
    _, largest, counts = lax.while_loop(lambda state: jnp.any(state[0] != 1), step, start)
    return {"counts": counts, "largest": largest}


@workload("powers")
def modular_power(sizes, bases, exponents, moduli):
    def step(state):
        powers, squares, exponents = state
        powers = jnp.where(exponents & 1 == 1, powers * squares % moduli, powers)
        return powers, squares * squares % moduli, exponents >> 1

    start = (jnp.ones_like(bases), bases % moduli, exponents)
    powers, _, _ = lax.while_loop(lambda state: jnp.any(state[2] > 0), step, start)
    return {"powers": powers.astype(jnp.int32)}
