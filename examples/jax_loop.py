"""JAX: a hand-written training step; a discounted UCB chooses the source, since what helps changes as one learns.

Linear regression from three sensors: one is biased, one is sound, one is dead. The reward is the fall of the
logarithm of the target's error.
"""

import jax
import jax.numpy as jnp
import numpy as np

import metasched as ms

random = np.random.default_rng(0)
truth = random.normal(size=5).astype(np.float32)


def rows(number, noise, bias=0.0, gain=1.0):
    inputs = random.normal(size=(number, 5)).astype(np.float32)
    return inputs, (gain * (inputs @ truth) + bias + noise * random.normal(size=number)).astype(np.float32)


sources = [rows(400, 0.1, bias=3.0), rows(400, 0.1), rows(400, 1.0, gain=0.0)]
target_inputs, target_values = rows(50, 0.1)


def error(weights, inputs, values):
    return jnp.mean((inputs @ weights - values) ** 2)


@jax.jit
def train(weights, inputs, values):
    return weights - 0.05 * jax.grad(error)(weights, inputs, values)


weights = jnp.zeros(5)
chooser = ms.Chooser("discounted_ucb", [400, 400, 400], 16, batching="per_source", discount=0.97)
before = float(error(weights, target_inputs, target_values))
for _ in range(120):
    draw = chooser.ask()
    inputs, values = sources[draw.task]
    weights = train(weights, inputs[draw.rows], values[draw.rows])
    after = float(error(weights, target_inputs, target_values))
    chooser.tell(draw, np.log(before) - np.log(after))
    before = after

drawn = np.bincount(chooser.history()["task"], minlength=3).tolist()
print(f"target error {before:.3f}; batches of each source {drawn}")
