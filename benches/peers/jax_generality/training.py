"""Training loops: gradients inside scans over minibatches."""

import jax
import jax.numpy as jnp
from jax import lax

from . import workload


@workload("bias", "losses", "weights")
def sgd_logistic(sizes, features, labels, weights):
    def loss_of(model, features, labels):
        weights, bias = model
        logits = features @ weights + bias
        return jnp.mean(jax.nn.softplus(logits) - labels * logits)

    def step(model, batch):
        features, labels = batch
        loss, slopes = jax.value_and_grad(loss_of)(model, features, labels.astype(jnp.float32))
        return jax.tree.map(lambda weight, slope: weight - 0.1 * slope, model, slopes), loss

    (weights, bias), losses = lax.scan(step, (weights, jnp.zeros(())), (features, labels))
    return {"bias": bias, "losses": losses, "weights": weights}


@workload("losses", "w1", "w3")
def adam_mlp(sizes, features, targets, w1, b1, w2, b2, w3):
    def loss_of(weights, features, targets):
        hidden = jnp.tanh(features @ weights["w1"] + weights["b1"])
        hidden = jnp.tanh(hidden @ weights["w2"] + weights["b2"])
        return jnp.mean((hidden @ weights["w3"] - targets) ** 2)

    def step(state, batch):
        weights, means, squares = state
        features, targets, number = batch
        loss, slopes = jax.value_and_grad(loss_of)(weights, features, targets)
        means = jax.tree.map(lambda mean, slope: 0.9 * mean + 0.1 * slope, means, slopes)
        squares = jax.tree.map(lambda square, slope: 0.999 * square + 0.001 * slope**2, squares, slopes)
        of_means, of_squares = 1 - 0.9**number, 1 - 0.999**number

        def update(weight, mean, square):
            return weight - 1e-3 * (mean / of_means) / (jnp.sqrt(square / of_squares) + 1e-8)

        return (jax.tree.map(update, weights, means, squares), means, squares), loss

    weights = {"w1": w1, "b1": b1, "w2": w2, "b2": b2, "w3": w3}
    zeros = jax.tree.map(jnp.zeros_like, weights)
    numbers = jnp.arange(1, sizes["T"] + 1, dtype=jnp.float32)
    (weights, _, _), losses = lax.scan(step, (weights, zeros, zeros), (features, targets, numbers))
    return {"losses": losses, "w1": weights["w1"], "w3": weights["w3"]}
