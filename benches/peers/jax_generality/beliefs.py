"""Graphical models: stereo depth estimation by belief propagation."""

import jax.numpy as jnp
from jax import lax

from . import workload


@workload("belief", "labels")
def stereo_bp(sizes, costs):
    labels = jnp.arange(sizes["L"], dtype=jnp.float32)
    smoothness = jnp.minimum(0.2 * jnp.abs(labels[:, None] - labels), 0.6)

    def message(belief, from_target):
        message = ((belief - from_target)[:, :, None, :] + smoothness).min(3)
        return message - message.min(2, keepdims=True)

    # Each moves the messages to a neighbouring pixel. At the border, incoming messages are zero.
    def down(messages):
        return jnp.pad(messages[:-1], ((1, 0), (0, 0), (0, 0)))

    def up(messages):
        return jnp.pad(messages[1:], ((0, 1), (0, 0), (0, 0)))

    def right_of(messages):
        return jnp.pad(messages[:, :-1], ((0, 0), (1, 0), (0, 0)))

    def left_of(messages):
        return jnp.pad(messages[:, 1:], ((0, 0), (0, 1), (0, 0)))

    def step(_, messages):
        above, below, left, right = messages
        belief = costs + above + below + left + right
        return (
            down(message(belief, below)),
            up(message(belief, above)),
            right_of(message(belief, right)),
            left_of(message(belief, left)),
        )

    above, below, left, right = lax.fori_loop(0, sizes["T"], step, (jnp.zeros_like(costs),) * 4)
    belief = costs + above + below + left + right
    return {"belief": belief, "labels": jnp.argmin(belief, axis=2).astype(jnp.int32)}
