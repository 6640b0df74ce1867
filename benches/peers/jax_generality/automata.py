"""Cellular automata: Conway's Game of Life on a torus, and the Abelian sandpile."""

import jax.numpy as jnp
from jax import lax

from . import workload


@workload("cells", "population")
def life(sizes, cells):
    def beside(row):
        return jnp.roll(row, 1, axis=1) + jnp.roll(row, -1, axis=1)

    def step(cells, _):
        above, below = jnp.roll(cells, 1, axis=0), jnp.roll(cells, -1, axis=0)
        neighbours = above + below + beside(above) + beside(cells) + beside(below)
        alive = (neighbours == 3) | ((neighbours == 2) & (cells == 1))
        cells = alive.astype(jnp.int32)
        return cells, jnp.sum(cells)

    cells, population = lax.scan(step, cells, length=sizes["T"])
    return {"cells": cells, "population": population}


@workload("pile", "steps")
def sandpile(sizes, pile):
    def is_unstable(state):
        pile, steps = state
        return jnp.any(pile >= 4) & (steps < sizes["T"])

    def topple(state):
        # Each toppling moves one grain to each of the four neighbours. At the border, grains fall off.
        pile, steps = state
        topplings = pile >> 2
        padded = jnp.pad(topplings, 1)
        rows, columns = padded[:, 1:-1], padded[1:-1]
        received = rows[:-2] + rows[2:] + columns[:, :-2] + columns[:, 2:]
        return pile - topplings * 4 + received, steps + 1

    pile, steps = lax.while_loop(is_unstable, topple, (pile, jnp.int32(0)))
    return {"pile": pile, "steps": steps}
