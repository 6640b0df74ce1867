"""Clustering: k-means, and mixtures of normal distributions."""

import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp

from . import workload


@workload("centers", "labels")
def kmeans(sizes, points):
    n, d, k = sizes["N"], sizes["D"], sizes["K"]

    def step(_, state):
        centers, _ = state
        distances = (centers**2).sum(1) - 2 * (points @ centers.T)
        labels = jnp.argmin(distances, axis=1).astype(jnp.int32)
        counts = jnp.zeros(k).at[labels].add(1.0)
        sums = jnp.zeros((k, d)).at[labels].add(points)
        return sums / jnp.maximum(counts, 1)[:, None], labels

    centers, labels = lax.fori_loop(0, sizes["T"], step, (points[:k], jnp.zeros(n, jnp.int32)))
    return {"centers": centers, "labels": labels}


@workload("likelihood", "means", "variances")
def gaussian_mixture(sizes, points):
    n, d, k = sizes["N"], sizes["D"], sizes["K"]

    def step(state, _):
        weights, means, variances = state
        deviations = (points[:, None] - means) ** 2 / variances
        logs = jnp.log(weights) - 0.5 * (deviations.sum(2) + jnp.log(variances).sum(1))
        total = logsumexp(logs, axis=1)
        shares = jnp.exp(logs - total[:, None])
        counts = shares.sum(0)
        means = shares.T @ points / counts[:, None]
        squares = shares.T @ points**2 / counts[:, None]
        return (counts / n, means, squares - means**2 + 1e-3), total.mean()

    start = (jnp.full(k, 1 / k), points[:k], jnp.ones((k, d)))
    (_, means, variances), likelihood = lax.scan(step, start, length=sizes["T"])
    return {"likelihood": likelihood, "means": means, "variances": variances}
