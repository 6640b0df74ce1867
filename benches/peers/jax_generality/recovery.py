"""Signal recovery: sparse coding, and deconvolution of images."""

import jax.numpy as jnp
from jax import lax

from . import workload


@workload("codes")
def ista(sizes, dictionary, signals):
    def step(_, codes):
        residual = codes @ dictionary - signals
        moved = codes - 0.08 * (residual @ dictionary.T)
        return jnp.sign(moved) * jnp.maximum(jnp.abs(moved) - 0.008, 0)

    return {"codes": lax.fori_loop(0, sizes["T"], step, jnp.zeros((sizes["B"], sizes["N"])))}


@workload("image")
def richardson_lucy(sizes, observed, spread):
    def blur(image, kernel):
        return lax.conv(image, kernel, (1, 1), "SAME")

    def step(_, image):
        return image * blur(observed / (blur(image, kernel) + 1e-6), mirrored)

    kernel = (spread / spread.sum())[None, None]
    mirrored = kernel[:, :, ::-1, ::-1]
    return {"image": lax.fori_loop(0, sizes["T"], step, jnp.full_like(observed, 0.5))}
