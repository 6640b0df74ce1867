"""Graph algorithms on edge lists: PageRank, shortest paths, and connected components."""

import jax.numpy as jnp
from jax import lax

from . import workload

DAMPING = 0.85
"""The probability of following an edge, as opposed to jumping to a random node."""


@workload("rank", "changes")
def pagerank(sizes, source, target):
    n = sizes["N"]
    degree = jnp.zeros(n, jnp.float32).at[source].add(1.0)
    is_dangling = degree == 0
    share = jnp.where(is_dangling, 0.0, 1.0 / jnp.maximum(degree, 1.0))

    def step(rank, _):
        sent = (rank * share)[source]
        received = jnp.zeros_like(rank).at[target].add(sent)
        dangling = jnp.sum(jnp.where(is_dangling, rank, 0.0)) / n
        next = (received + dangling) * DAMPING + (1.0 - DAMPING) / n
        return next, jnp.sum(jnp.abs(next - rank))

    rank, changes = lax.scan(step, jnp.full(n, 1.0 / n, jnp.float32), length=sizes["T"])
    return {"rank": rank, "changes": changes}


@workload("distance")
def bellman_ford(sizes, source, target, weight):
    """Computes the shortest distances from node 0. The distance of an unreachable node is -1."""

    def goes_on(state):
        _, changed, count = state
        return changed & (count < sizes["N"])

    def relax(state):
        distance, _, count = state
        next = distance.at[target].min(distance[source] + weight)
        return next, jnp.any(next != distance), count + 1

    start = jnp.full(sizes["N"], jnp.inf, jnp.float32).at[0].set(0.0)
    distance, _, _ = lax.while_loop(goes_on, relax, (start, jnp.bool_(True), jnp.int32(0)))
    return {"distance": jnp.where(jnp.isfinite(distance), distance, -1.0)}


@workload("labels", "count")
def connected_components(sizes, source, target):
    nodes = jnp.arange(sizes["N"], dtype=jnp.int32)

    def step(state):
        labels, _ = state
        next = labels.at[target].min(labels[source])
        next = next.at[source].min(next[target])
        # Each node takes the label of the node to which its own label points.
        next = next[next]
        return next, jnp.any(next != labels)

    labels, _ = lax.while_loop(lambda state: state[1], step, (nodes, jnp.bool_(True)))
    return {"labels": labels, "count": jnp.sum((labels == nodes).astype(jnp.int32))}
