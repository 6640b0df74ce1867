"""Search and decoding: beam search with a recurrent language model."""

import jax
import jax.numpy as jnp
from jax import lax

from . import workload


@workload("scores", "path")
def beam_search(sizes, embed, u, out, h0):
    b, k, v = sizes["B"], sizes["K"], sizes["V"]

    def step(state, _):
        tokens, scores, hidden = state
        hidden = jnp.tanh(embed[tokens] + hidden @ u)
        extended = scores[:, :, None] + jax.nn.log_softmax(hidden @ out, axis=2)
        scores, places = lax.top_k(extended.reshape(b, k * v), k)
        parents, tokens = places // v, places % v
        hidden = jnp.take_along_axis(hidden, parents[:, :, None], axis=1)
        return (tokens, scores, hidden), (tokens, parents)

    # All beams start with token 0. They are identical, so at first only the first beam counts.
    scores = jnp.where(jnp.arange(k) == 0, jnp.float32(0), jnp.float32(-1e9))
    hidden = jnp.broadcast_to(h0[:, None], (b, k, h0.shape[1]))
    start = (jnp.zeros((b, k), jnp.int32), jnp.broadcast_to(scores, (b, k)), hidden)
    (_, scores, _), (tokens, parents) = lax.scan(step, start, length=sizes["T"])

    def follow(beam, row):
        token, parent = (jnp.take_along_axis(of, beam[:, None], axis=1)[:, 0] for of in row)
        return parent, token

    _, path = lax.scan(follow, jnp.zeros(b, jnp.int32), (tokens, parents), reverse=True)
    return {"scores": scores, "path": path}
