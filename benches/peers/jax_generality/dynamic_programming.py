"""Dynamic programming over integers: edit distance, the knapsack problem, and local alignment with affine gaps."""

import jax.numpy as jnp
from jax import lax

from . import workload

OPEN = 8
"""The cost of the first letter of a gap."""
EXTEND = 2
"""The cost of each further letter of a gap."""
LOWEST = -10_000
"""A score below all others."""


@workload("distances")
def edit_distance(sizes, a, b):
    columns = jnp.arange(b.shape[0] + 1, dtype=jnp.int32)

    def step(row, letter):
        replaced = row[:-1] + (b != letter).astype(jnp.int32)
        deleted = row + 1
        best = jnp.concatenate([deleted[:1], jnp.minimum(deleted[1:], replaced)])
        # Insertions reduce the cost to the minimum of `best[k] + (j - k)` over all k up to j.
        return lax.cummin(best - columns) + columns, None

    return {"distances": lax.scan(step, columns, a)[0]}


@workload("best", "chosen")
def knapsack(sizes, weights, values):
    capacities = jnp.arange(sizes["C"] + 1, dtype=jnp.int32)

    def step(best, item):
        weight, value = item
        rest = capacities - weight
        with_item = jnp.where(rest >= 0, jnp.take(best, rest, mode="clip") + value, 0)
        return jnp.maximum(best, with_item), with_item > best

    best, taken = lax.scan(step, jnp.zeros_like(capacities), (weights, values))

    def choose(left, item):
        taken, weight = item
        chosen = taken[left].astype(jnp.int32)
        return left - chosen * weight, chosen

    _, chosen = lax.scan(choose, jnp.int32(sizes["C"]), (taken, weights), reverse=True)
    return {"best": best, "chosen": chosen}


@workload("best")
def smith_waterman(sizes, a, b, scores):
    columns = jnp.arange(b.shape[1], dtype=jnp.int32)

    def step(state, letter):
        row, vertical, best = state
        matched = jnp.pad(row[:, :-1], ((0, 0), (1, 0))) + scores[letter[:, None], b]
        vertical = jnp.maximum(row - OPEN, vertical - EXTEND)
        row = jnp.maximum(jnp.maximum(matched, vertical), 0)
        # The score with a horizontal gap: the maximum of `row[k] - OPEN - EXTEND * (j - k - 1)` over all k before j.
        reach = lax.cummax(row + columns * EXTEND, axis=1)[:, :-1]
        reach = jnp.pad(reach, ((0, 0), (1, 0)), constant_values=LOWEST)
        row = jnp.maximum(row, reach - columns * EXTEND + (EXTEND - OPEN))
        return (row, vertical, jnp.maximum(best, jnp.max(row, axis=1))), None

    start = (jnp.zeros_like(b), jnp.full_like(b, LOWEST), jnp.zeros(b.shape[0], jnp.int32))
    (_, _, best), _ = lax.scan(step, start, a)
    return {"best": best}
