"""Econometrics: volatility models, exponential smoothing, and technical indicators of many assets."""

import jax.numpy as jnp
from jax import lax

from . import workload


@workload("loss", differentiated=("omega", "alpha", "beta"), loss_is_output=True)
def garch(sizes, returns, omega, alpha, beta):
    squares = returns**2

    def step(variance, square):
        return omega + alpha * square + beta * variance, variance

    _, variances = lax.scan(step, squares.mean(0), squares)
    return {"loss": 0.5 * (jnp.log(variances) + squares / variances).mean()}


@workload("loss", differentiated=("alpha", "beta", "gamma"), loss_is_output=True)
def holt_winters(sizes, series, alpha, beta, gamma):
    first = series[: sizes["M"]]

    def step(state, y):
        level, trend, seasons = state
        seasonal = seasons[0]
        error = y - (level + trend + seasonal)
        following = alpha * (y - seasonal) + (1 - alpha) * (level + trend)
        trend = beta * (following - level) + (1 - beta) * trend
        seasonal = gamma * (y - following) + (1 - gamma) * seasonal
        return (following, trend, jnp.concatenate([seasons[1:], seasonal[None]])), error

    level = first.mean(0)
    _, errors = lax.scan(step, (level, jnp.zeros_like(level), first - level), series[sizes["M"] :])
    return {"loss": (errors**2).mean()}


@workload("histogram", "strength")
def rsi(sizes, prices):
    def step(state, price):
        last, gain, loss, fast, slow, signal = state
        change = price - last
        gain = gain + (jnp.maximum(change, 0) - gain) / 14
        loss = loss + (jnp.maximum(-change, 0) - loss) / 14
        fast = fast + (2 / 13) * (price - fast)
        slow = slow + (2 / 27) * (price - slow)
        difference = fast - slow
        signal = signal + 0.2 * (difference - signal)
        strength = 100 * gain / (gain + loss + 1e-12)
        return (price, gain, loss, fast, slow, signal), (strength, difference - signal)

    first, nothing = prices[0], jnp.zeros_like(prices[0])
    start = (first, nothing, nothing, first, first, nothing)
    _, (strength, histogram) = lax.scan(step, start, prices[1:])
    return {"histogram": histogram, "strength": strength}
