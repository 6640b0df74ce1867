"""The workloads of PROTOCOL.md in JAX, each with `lax.scan`, `lax.associative_scan` or `lax.while_loop`, jitted as one program.

Training is `jax.value_and_grad` without `jax.checkpoint`. XLA uses its default number of threads, one per core.
"""

import os

# Keeps JAX from probing for accelerators, whose warnings and threads would disturb the CPU measurements.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jax_generality
from workloads import KALMAN_DIFFUSE, METROPOLIS_WIDTH, WORKLOADS, Declined, by_name, loss, runge_kutta


class Program:
    """A compiled workload with its inputs on the device."""

    def __init__(self, workload, sizes, phase, inputs):
        self.names, function = program(workload, sizes, phase)
        self.arguments = jax.block_until_ready({name: jnp.asarray(value) for name, value in inputs.items()})
        self.compiled = jax.jit(function).lower(self.arguments).compile()

    def run(self):
        """Runs the program once and waits for the results, which stay on the device."""
        return jax.block_until_ready(self.compiled(self.arguments))

    def read(self, results):
        """Returns the results, keyed by name. JAX computes integers as i32; they are converted to i64."""
        widened = lambda value: value.astype(np.int64) if value.dtype == np.int32 else value
        return {name: widened(np.asarray(value)) for name, value in zip(self.names, results)}

    def allocator_peak(self):
        """Returns the size of the temporaries and the results in XLA's buffer assignment, in bytes."""
        memory = self.compiled.memory_analysis()
        return memory.temp_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes


def program(workload, sizes, phase):
    """Returns the names of the results, and a function that computes them in this order from named inputs."""
    row = WORKLOADS.get(workload) or jax_generality.ALL[workload]
    function = FORWARD.get(workload) or row.function
    forward = lambda inputs: function(sizes, **inputs)
    if phase == "forward":
        return row.outputs, lambda inputs: [forward(inputs)[name] for name in row.outputs]
    if not row.differentiated:
        raise Declined("the workload has no gradient")

    def train(inputs):
        others = {name: value for name, value in inputs.items() if name not in row.differentiated}
        of = lambda differentiated: loss(row, forward({**others, **differentiated}))
        value, gradients = jax.value_and_grad(of)({name: inputs[name] for name in row.differentiated})
        return [value, *(gradients[name] for name in row.differentiated)]

    return ("loss", *(f"grad_{name}" for name in row.differentiated)), train


def rnn(sizes, xs, h0, w, u, b):
    def step(h, x):
        h = jnp.tanh(x @ w + h @ u + b)
        return h, h

    return {"hs": lax.scan(step, h0, xs)[1]}


def lstm(sizes, xs, h0, c0, w, u, b):
    def step(state, x):
        h, c = state
        i, f, g, o = jnp.split(x @ w + h @ u + b, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return {"hs": lax.scan(step, (h0, c0), xs)[1]}


def running_sum(sizes, xs):
    def step(total, x):
        total = total + x
        return total, total

    return {"ys": lax.scan(step, jnp.zeros(sizes["W"], xs.dtype), xs)[1]}


def s5(sizes, a_re, a_im, bu_re, bu_im):
    def compose(earlier, later):
        (a, b), (c, d) = earlier, later
        return c * a, c * b + d

    factors = jnp.broadcast_to(lax.complex(a_re, a_im), bu_re.shape)
    _, states = lax.associative_scan(compose, (factors, lax.complex(bu_re, bu_im)))
    return {"x_re": states.real, "x_im": states.imag}


def s5_scan(sizes, a_re, a_im, bu_re, bu_im):
    a = lax.complex(a_re, a_im)

    def step(state, bu):
        state = a * state + bu
        return state, state

    _, states = lax.scan(step, jnp.zeros_like(a), lax.complex(bu_re, bu_im))
    return {"x_re": states.real, "x_im": states.imag}


def ssm(sizes, a, dt, b, c, x):
    def step(h, now):
        dt, b, c, x = now
        h = jnp.exp(dt[:, None] * a) * h + (dt * x)[:, None] * b[None, :]
        return h, (h * c[None, :]).sum(1)

    return {"y": lax.scan(step, jnp.zeros_like(a), (dt, b, c, x))[1]}


def chunked_loss(sizes, hidden, w, targets):
    chunks, tokens = sizes["C"], sizes["M"] // sizes["C"]

    def step(total, chunk):
        hidden, targets = chunk
        logits = hidden @ w
        right = jnp.take_along_axis(logits, targets[:, None], axis=1)[:, 0]
        return total + (jax.nn.logsumexp(logits, axis=1) - right).sum(), None

    chunked = (hidden.reshape(chunks, tokens, -1), targets.reshape(chunks, tokens))
    total, _ = lax.scan(step, jnp.zeros((), hidden.dtype), chunked)
    return {"loss": total / sizes["M"]}


def kalman(sizes, ys, log_q, log_r):
    q, r = jnp.exp(log_q), jnp.exp(log_r)

    def step(state, y):
        m, p, nll = state
        f = p + r
        v = y - m
        k = p / f
        cost = 0.5 * (jnp.log(2 * jnp.pi) + jnp.log(f) + v * v / f)
        return (m + k * v, p * r / f + q, nll + cost), None

    start = tuple(jnp.asarray(value, ys.dtype) for value in (0, KALMAN_DIFFUSE, 0))
    return {"nll": lax.scan(step, start, ys)[0][2]}


def kalman_series(sizes, ys, a, c, log_q, log_r):
    q, r = jnp.exp(log_q), jnp.exp(log_r)

    def step(state, y):
        m, p, nll = state
        pc = p @ c
        f = pc @ c + r
        v = y - m @ c
        k = pc / f[:, None]
        cost = 0.5 * (jnp.log(2 * jnp.pi) + jnp.log(f) + v * v / f)
        m = (m + k * v[:, None]) @ a.T
        p = a @ (p - k[:, :, None] * pc[:, None, :]) @ a.T + q * unit
        return (m, p, nll + cost.sum()), None

    unit = jnp.eye(sizes["N"], dtype=ys.dtype)
    covariances = jnp.broadcast_to(unit, (sizes["S"], *unit.shape))
    start = (jnp.zeros((sizes["S"], sizes["N"]), ys.dtype), covariances, jnp.zeros((), ys.dtype))
    return {"nll": lax.scan(step, start, ys)[0][2] / ys.size}


def neural_ode(sizes, y0, w1, b1, w2, b2):
    def field(y):
        return jnp.tanh(y @ w1 + b1) @ w2 + b2

    def step(y, _):
        y = runge_kutta(field, y)
        return y, y

    return {"ys": lax.scan(step, y0, length=sizes["T"])[1]}


def metropolis(sizes, x0, noise, log_u):
    def log_density(x):
        return jnp.log(jnp.exp(-0.5 * (x - 2) ** 2) + jnp.exp(-0.5 * (x + 2) ** 2))

    def step(x, now):
        noise, log_u = now
        proposal = x + METROPOLIS_WIDTH * noise
        x = jnp.where(log_u < log_density(proposal) - log_density(x), proposal, x)
        return x, x

    return {"xs": lax.scan(step, x0, (noise, log_u))[1]}


def conjugate_gradients(sizes, a, b):
    """Uses JAX's own solver, which stops at ‖r‖ ≤ tol ‖b‖ and computes its gradient by a second solve."""
    x, _ = jax.scipy.sparse.linalg.cg(lambda x: a @ x, b, tol=1e-5, maxiter=sizes["N"])
    return {"x": x}


def decode(sizes, embed, u, out, h0, first, end):
    def goes_on(state):
        count, token, _, _ = state
        return (token != end) & (count < sizes["T"])

    def step(state):
        count, token, h, tokens = state
        h = jnp.tanh(embed[token] + h @ u)
        token = jnp.argmax(h @ out).astype(first.dtype)
        return count + 1, token, h, tokens.at[count].set(token)

    start = (jnp.zeros_like(first), first, h0, jnp.full(sizes["T"], -1, first.dtype))
    count, _, _, tokens = lax.while_loop(goes_on, step, start)
    return {"count": count, "tokens": tokens}


FORWARD = by_name(
    rnn, lstm, running_sum, s5, s5_scan, ssm, chunked_loss, kalman, kalman_series, neural_ode, metropolis,
    conjugate_gradients, decode,
)
