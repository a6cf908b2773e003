"""Jitted steps of JAX, one after another: `jitted.py [STEPS]`."""

import sys
import time

import jax
import jax.numpy as jnp
from say import say

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 6_000


@jax.jit
def step(weights: jax.Array, inputs: jax.Array) -> jax.Array:
    def loss(weights: jax.Array) -> jax.Array:
        return ((jnp.tanh(inputs @ weights) - 1) ** 2).mean()

    return weights - 0.1 * jax.grad(loss)(weights)


weights, inputs = jnp.ones((128, 128)), jnp.ones((64, 128))
weights = step(weights, inputs).block_until_ready()
begun = time.monotonic_ns()
for _ in range(STEPS):
    weights = step(weights, inputs)
weights.block_until_ready()
say(STEPS, time.monotonic_ns() - begun)
