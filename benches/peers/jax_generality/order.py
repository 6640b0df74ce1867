"""Order statistics: a moving median, and sorting by an odd-even transposition network."""

import jax.numpy as jnp
from jax import lax

from . import workload


@workload("medians")
def moving_median(sizes, xs):
    width = sizes["W"]

    def step(window, x):
        window = jnp.concatenate([window[:, 1:], x[:, None]], axis=1)
        return window, jnp.sort(window, axis=1)[:, width // 2]

    _, medians = lax.scan(step, jnp.zeros((xs.shape[1], width), xs.dtype), xs)
    return {"medians": medians}


@workload("sorted")
def odd_even_sort(sizes, rows):
    b, n = sizes["B"], sizes["N"]

    def exchange(x):
        """Sorts the elements of each pair of neighbours."""
        pairs = x.reshape(b, -1, 2)
        return jnp.stack([jnp.min(pairs, axis=2), jnp.max(pairs, axis=2)], axis=2).reshape(b, -1)

    def step(rows, _):
        rows = exchange(rows)
        return jnp.concatenate([rows[:, :1], exchange(rows[:, 1:-1]), rows[:, -1:]], axis=1), None

    rows, _ = lax.scan(step, rows, length=n // 2)
    return {"sorted": rows}
