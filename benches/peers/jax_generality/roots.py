"""Root finding: Newton's method and bisection for batches of equations."""

import jax.numpy as jnp
from jax import lax

from . import workload


@workload("anomaly")
def kepler(sizes, mean_anomaly, eccentricity):
    def goes_on(state):
        count, _, change = state
        return (change > 1e-4) & (count < 50)

    def step(state):
        count, anomaly, _ = state
        residual = anomaly - eccentricity * jnp.sin(anomaly) - mean_anomaly
        change = residual / (1 - eccentricity * jnp.cos(anomaly))
        return count + 1, anomaly - change, jnp.abs(change).max()

    start = mean_anomaly + 0.85 * eccentricity * jnp.sign(mean_anomaly)
    _, anomaly, _ = lax.while_loop(goes_on, step, (jnp.int32(0), start, jnp.float32(1)))
    return {"anomaly": anomaly}


@workload("yields", differentiated=("cash", "fraction"))
def bisection(sizes, cash, fraction):
    price = fraction * cash.sum(1)
    times = 0.5 * jnp.arange(1, sizes["K"] + 1, dtype=jnp.float32)

    def discounted(cash, yields):
        return cash * jnp.exp(-yields[:, None] * times)

    def step(_, state):
        low, high = state
        middle = 0.5 * (low + high)
        is_low = discounted(fixed_cash, middle).sum(1) > fixed_price
        return jnp.where(is_low, middle, low), jnp.where(is_low, high, middle)

    fixed_cash, fixed_price = lax.stop_gradient(cash), lax.stop_gradient(price)
    start = (jnp.full_like(fixed_price, -0.5), jnp.full_like(fixed_price, 2.0))
    low, high = lax.fori_loop(0, sizes["T"], step, start)
    yields = 0.5 * (low + high)
    flows = discounted(cash, yields)
    slope = lax.stop_gradient(-(times * flows).sum(1))
    return {"yields": yields - (flows.sum(1) - price) / slope}
