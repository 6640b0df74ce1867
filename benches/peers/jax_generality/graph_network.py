"""Graph networks: nodes send messages along edges and update their states by a gated recurrent unit."""

import jax
import jax.numpy as jnp
from jax import lax

from . import workload


@workload("nodes", differentiated=("message", "w", "u", "b"))
def gated_graph_network(sizes, nodes, source, target, message, w, u, b):
    def step(h, _):
        messages = (h @ message)[source]
        received = jax.ops.segment_sum(messages, target, num_segments=sizes["N"])
        update_in, reset_in, new_in = jnp.split(received @ w + b, 3, axis=1)
        update_h, reset_h, new_h = jnp.split(h @ u, 3, axis=1)
        update = jax.nn.sigmoid(update_in + update_h)
        reset = jax.nn.sigmoid(reset_in + reset_h)
        new = jnp.tanh(new_in + reset * new_h)
        return (1 - update) * new + update * h, None

    last, _ = lax.scan(step, nodes, length=sizes["T"])
    return {"nodes": last}
