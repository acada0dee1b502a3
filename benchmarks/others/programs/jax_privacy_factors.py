"""jax-privacy: a dense strategy for a matrix, until its error is down to a target, it stops improving, or time is up.

    python jax_privacy_factors.py MATRIX.npy max|smooth|mean TARGET SECONDS OUT.npy

The error is that of the factorization W = BC: the largest column norm of C times the largest (`max`, `smooth`) or the
root mean square (`mean`) row norm of B. `max` hands jnp.max to the optimizer, `smooth` a power mean in its place.
Writes C and prints {"seconds", "steps", "error"}; looking at the error is not counted, compiling is, because every call
compiles afresh. What is short and gets there is done three times for a median.
"""

import json
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax_privacy.matrix_factorization import dense

POWER = 256
# A look takes longer than a step, and its threads are in the way of the optimizer's.
EVERY = 5
TIMES, SHORT_SECONDS = 3, 10.0
STEPS = 20_000
# Without an improvement by a millionth in so many steps it has stopped.
PATIENCE, LEAST = 300, 1e-6


def power_mean(errors: jax.Array) -> jax.Array:
    """Nearly the largest, but smooth."""
    scale = jax.lax.stop_gradient(errors.max())
    return scale * jnp.mean((errors / scale) ** POWER) ** (1 / POWER)


REDUCTIONS = {"max": jnp.max, "smooth": power_mean, "mean": jnp.mean}


class Watch:
    """Called after every step; ends the optimization."""

    def __init__(self, matrix: np.ndarray, objective: str, target: float, limit: float) -> None:
        self.matrix, self.objective, self.target, self.limit = matrix, objective, target, limit
        self.began, self.looking, self.steps = time.perf_counter(), 0.0, 0
        self.best, self.improved = np.inf, 0

    def __call__(self, step) -> bool:
        if step.step % EVERY:
            return False
        now = time.perf_counter()
        self.seconds, self.steps = now - self.began - self.looking, step.step + 1
        error = self.error(np.asarray(step.params))
        if error < self.best * (1 - LEAST):
            self.best, self.improved = error, step.step
        self.looking += time.perf_counter() - now
        return error <= self.target or now - self.began > self.limit or step.step - self.improved > PATIENCE

    def error(self, gram: np.ndarray) -> float:
        rows = np.sum(self.matrix * np.linalg.solve(gram, self.matrix.T).T, axis=1)
        return float(np.sqrt((rows.mean() if self.objective == "mean" else rows.max()) * gram.diagonal().max()))


def main() -> None:
    matrix, objective, seconds = np.load(sys.argv[1]), sys.argv[2], []
    while len(seconds) < TIMES and sum(seconds) < SHORT_SECONDS:
        watch = Watch(matrix, objective, float(sys.argv[3]), float(sys.argv[4]))
        with jax.enable_x64():
            found = dense.optimize(
                len(matrix),
                A=jnp.array(matrix),
                reduction_fn=REDUCTIONS[objective],
                callback=watch,
                max_optimizer_steps=STEPS,
            )
            np.save(sys.argv[5], np.asarray(found))
        seconds.append(watch.seconds)
        if watch.best > watch.target:
            break
    print(json.dumps({"seconds": statistics.median(seconds), "steps": watch.steps, "error": watch.best}))


if __name__ == "__main__":
    main()
