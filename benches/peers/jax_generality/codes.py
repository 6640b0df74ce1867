"""Error-correcting codes: Viterbi decoding of a convolutional code, and min-sum decoding of a low-density parity-check
code."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from . import workload

GENERATORS = (0o23, 0o35)
"""The generators of the convolutional code, which has constraint length 5. Each generator produces one bit per bit of
the message."""
DEGREE = 6
"""The number of bits in each parity check. Each bit takes part in half as many checks."""
SCALE = 0.75
"""The factor that compensates for the approximation of min-sum decoding."""


def sent(generator):
    """Returns the register bits that a generator taps, indexed by the oldest bit and the new state."""
    return np.array([[(state | high) & generator for state in range(16)] for high in (0, 16)])


@workload("bits")
def viterbi_decoder(sizes, received):
    """Decodes by the Viterbi algorithm. A state consists of the last four bits; the predecessors of state `s` are
    `s >> 1` and `s >> 1 | 8`."""
    origins = jnp.array([[state >> 1 | high for state in range(16)] for high in (0, 8)], jnp.int32)
    parity = np.vectorize(lambda bits: bin(bits).count("1") & 1)
    first, second = (jnp.asarray(parity(sent(generator)), jnp.int32) for generator in GENERATORS)

    def step(metrics, received):
        differs = lambda sent, generator: (received[:, generator, None, None] != sent).astype(jnp.int32)
        candidates = metrics[:, origins] + differs(first, 0) + differs(second, 1)
        return jnp.min(candidates, axis=1), jnp.argmin(candidates, axis=1).astype(jnp.int32)

    # The encoder starts in state 0.
    start = jnp.where(jnp.arange(16) == 0, jnp.int32(0), jnp.int32(1000))
    last, choices = lax.scan(step, jnp.broadcast_to(start, (received.shape[1], 16)), received)

    def follow(state, choices):
        choice = jnp.take_along_axis(choices, state[:, None], axis=1)[:, 0]
        return (state >> 1) | (choice << 3), state & 1

    _, bits = lax.scan(follow, jnp.argmin(last, axis=1).astype(jnp.int32), choices, reverse=True)
    return {"bits": bits}


@workload("beliefs")
def min_sum(sizes, llr, checks):
    """Decodes by the min-sum algorithm. `checks` is the index of each edge's bit, check by check."""
    b, m = sizes["B"], sizes["M"]
    places = jnp.arange(DEGREE)

    def step(state, _):
        beliefs, sent = state
        inputs = (beliefs[:, checks] - sent).reshape(b, m, DEGREE)
        signs = jnp.where(inputs < 0, -1.0, 1.0)
        magnitudes = jnp.abs(inputs)
        # For each edge, the smallest magnitude among the other edges of its check. For the edge with the smallest
        # magnitude, this is the second smallest.
        is_smallest = jnp.argmin(magnitudes, axis=2)[:, :, None] == places
        second = jnp.min(jnp.where(is_smallest, jnp.inf, magnitudes), axis=2)
        others = jnp.where(is_smallest, second[:, :, None], jnp.min(magnitudes, axis=2)[:, :, None])
        sent = signs * jnp.prod(signs, axis=2)[:, :, None] * others * SCALE
        sent = sent.reshape(b, m * DEGREE)
        return (llr.at[:, checks].add(sent), sent), None

    (beliefs, _), _ = lax.scan(step, (llr, jnp.zeros((b, m * DEGREE), llr.dtype)), length=sizes["T"])
    return {"beliefs": beliefs}
