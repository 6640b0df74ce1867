"""Checksums and random number generators: table-driven CRC-32, and xorshift generators with a histogram of their numbers."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from . import workload


def checksums():
    """Returns the lookup table of CRC-32: the checksum of each byte under the reversed polynomial."""
    sums = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        sums = np.where(sums & 1 == 1, (sums >> 1) ^ np.uint32(0xEDB88320), sums >> 1)
    return sums


@workload("checksums")
def crc32(sizes, messages):
    table = jnp.asarray(checksums())

    def step(sums, bytes):
        return table[(sums ^ bytes.astype(jnp.uint32)) & 0xFF] ^ (sums >> 8), None

    start = jnp.full(messages.shape[0], np.uint32(0xFFFFFFFF))
    sums, _ = lax.scan(step, start, messages.T)
    return {"checksums": (~sums).astype(jnp.int32)}


@workload("last", "counts")
def xorshift(sizes, seeds):
    def step(state, _):
        state = state ^ (state << 13)
        state = state ^ (state >> 17)
        state = state ^ (state << 5)
        return state, state

    last, drawn = lax.scan(step, seeds, length=sizes["T"])
    # Counts how often each value of the highest eight bits occurs.
    bins = (drawn >> 24).astype(jnp.int32).reshape(-1)
    return {"last": last.astype(jnp.int32), "counts": jnp.zeros(256, jnp.int32).at[bins].add(1)}
