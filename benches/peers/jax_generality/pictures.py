"""Fractals, and scenes rendered by ray marching."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp

from . import workload

FAR = 20.0


@workload("picture")
def mandelbrot(sizes, re, im):
    n = sizes["N"]
    im = im[:, None]

    def step(_, state):
        x, y, counts = state
        is_inside = x**2 + y**2 <= 4
        next_x = jnp.where(is_inside, x**2 - y**2 + re, x)
        next_y = jnp.where(is_inside, 2 * x * y + im, y)
        return next_x, next_y, counts + is_inside.astype(jnp.int32)

    zeros = jnp.zeros((n, n))
    _, _, counts = lax.fori_loop(0, sizes["T"], step, (zeros, zeros, jnp.zeros((n, n), jnp.int32)))
    return {"picture": counts.astype(jnp.float32).reshape(n // 8, 8, n // 8, 8).mean((1, 3))}


def scene(points):
    """Returns the distance from each point to a scene of a ball, a ring and the ground, which blend into each other."""
    x, y, z = points[:, 0], points[:, 1], points[:, 2]
    ball = jnp.sqrt((x + 0.9) ** 2 + (y - 0.9) ** 2 + z**2) - 0.8
    ring = jnp.sqrt((x - 0.9) ** 2 + (z - 0.3) ** 2) - 0.7
    ring = jnp.sqrt(ring**2 + (y - 0.5) ** 2) - 0.25
    return logsumexp(-16 * jnp.stack([ball, ring, y]), axis=0) / -16


@workload("depth", "shade")
def ray_march(sizes, directions):
    camera, light = jnp.array([0, 1.2, -4.0]), jnp.array([0.48, 0.8, -0.36])

    def goes_on(state):
        count, _, is_alive = state
        return jnp.any(is_alive) & (count < 128)

    def step(state):
        count, depth, is_alive = state
        distance = scene(camera + depth[:, None] * directions)
        is_alive = is_alive & (distance > 1e-4) & (depth < FAR)
        return count + 1, jnp.where(is_alive, depth + distance, depth), is_alive

    count = directions.shape[0]
    start = (jnp.int32(0), jnp.zeros(count), jnp.ones(count, bool))
    _, depth, _ = lax.while_loop(goes_on, step, start)
    normals = jax.grad(lambda points: scene(points).sum())(camera + depth[:, None] * directions)
    normals = normals / jnp.sqrt((normals**2).sum(1) + 1e-6)[:, None]
    shade = jnp.where(depth < FAR, jnp.maximum((normals * light).sum(1), 0), 0)
    return {"depth": jnp.minimum(depth, FAR), "shade": shade}
