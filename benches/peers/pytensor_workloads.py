"""The workloads of PROTOCOL.md in PyTensor: `pytensor.scan` compiled in Numba mode, with gradients from `pytensor.grad`."""

import os
import tempfile

# Compiled code goes to an empty temporary folder, so that every process measures the full build time.
_compiled_code = tempfile.TemporaryDirectory(prefix="pytensor_")
os.environ["PYTENSOR_FLAGS"] = f"floatX=float32,base_compiledir={_compiled_code.name}"

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.scan.utils import until

from workloads import (
    CONJUGATE_GRADIENTS_TOLERANCE, KALMAN_DIFFUSE, METROPOLIS_WIDTH, ODE_STEP, WORKLOADS, Declined, by_name, loss,
)

DECLINED = {"s5": "PyTensor has no associative scan"}


class Program:
    """A compiled workload with its inputs."""

    def __init__(self, workload, sizes, phase, inputs):
        row = WORKLOADS[workload]
        if workload in DECLINED:
            raise Declined(DECLINED[workload])
        if phase == "train" and not row.differentiated:
            raise Declined("the workload has no gradient")
        variables = {name: pt.tensor(name, dtype=value.dtype, shape=value.shape) for name, value in inputs.items()}
        outputs = FORWARD[workload](sizes, **variables)
        if phase == "train":
            value = loss(WORKLOADS[workload], outputs)
            gradients = pytensor.grad(value, [variables[name] for name in row.differentiated])
            self.names = ("loss", *(f"grad_{name}" for name in row.differentiated))
            results = [value, *gradients]
        else:
            self.names, results = row.outputs, [outputs[name] for name in row.outputs]
        self.arguments = list(inputs.values())
        self.function = pytensor.function(list(variables.values()), results, mode="NUMBA", on_unused_input="ignore")
        # The inputs always have the types for which the program was built, so that the checks in each call can be
        # skipped.
        self.function.trust_input = True

    def run(self):
        """Runs the program once."""
        return self.function(*self.arguments)

    def read(self, results):
        """Returns the results, keyed by name."""
        return dict(zip(self.names, map(np.asarray, results), strict=True))

    def allocator_peak(self):
        """Returns `None`, because Numba's allocations are not counted."""
        return None


def scan(step, state, rows=(), others=(), length=None):
    """Returns the outputs of `step` over the rows. Outputs whose initial state is `None` are not carried."""
    return pytensor.scan(
        step,
        sequences=list(rows),
        outputs_info=list(state),
        non_sequences=list(others),
        n_steps=length,
        strict=True,
        return_list=True,
        return_updates=False,
    )


def rnn(sizes, xs, h0, w, u, b):
    (hs,) = scan(lambda x, h, w, u, b: pt.tanh(x @ w + h @ u + b), [h0], [xs], [w, u, b])
    return {"hs": hs}


def lstm(sizes, xs, h0, c0, w, u, b):
    width = sizes["H"]

    def step(x, h, c, w, u, b):
        gates = x @ w + h @ u + b
        i, f, g, o = (gates[:, gate * width : (gate + 1) * width] for gate in range(4))
        c = pt.sigmoid(f) * c + pt.sigmoid(i) * pt.tanh(g)
        return pt.sigmoid(o) * pt.tanh(c), c

    hs, _ = scan(step, [h0, c0], [xs], [w, u, b])
    return {"hs": hs}


def running_sum(sizes, xs):
    (ys,) = scan(lambda x, total: total + x, [pt.zeros(sizes["W"], "float32")], [xs])
    return {"ys": ys}


def s5_scan(sizes, a_re, a_im, bu_re, bu_im):
    """Uses pairs of real numbers, because PyTensor has no gradients of complex ones."""

    def step(bu_re, bu_im, x_re, x_im, a_re, a_im):
        return a_re * x_re - a_im * x_im + bu_re, a_re * x_im + a_im * x_re + bu_im

    zero = pt.zeros(sizes["P"], "float32")
    x_re, x_im = scan(step, [zero, zero], [bu_re, bu_im], [a_re, a_im])
    return {"x_re": x_re, "x_im": x_im}


def ssm(sizes, a, dt, b, c, x):
    def step(dt, b, c, x, h, a):
        h = pt.exp(dt[:, None] * a) * h + (dt * x)[:, None] * b[None, :]
        return h, (h * c[None, :]).sum(1)

    _, y = scan(step, [pt.zeros((sizes["D"], sizes["N"]), "float32"), None], [dt, b, c, x], [a])
    return {"y": y}


def chunked_loss(sizes, hidden, w, targets):
    chunks, tokens = sizes["C"], sizes["M"] // sizes["C"]

    def step(hidden, targets, total, w):
        logits = hidden @ w
        right = logits[pt.arange(tokens), targets]
        return total + (pt.logsumexp(logits, axis=1) - right).sum()

    rows = [hidden.reshape((chunks, tokens, sizes["D"])), targets.reshape((chunks, tokens))]
    (totals,) = scan(step, [scalar(0)], rows, [w])
    return {"loss": totals[-1] / scalar(sizes["M"])}


def kalman(sizes, ys, log_q, log_r):
    def step(y, m, p, nll, q, r):
        f = p + r
        v = y - m
        k = p / f
        cost = scalar(0.5) * (scalar(np.log(2 * np.pi)) + pt.log(f) + v * v / f)
        return m + k * v, p * r / f + q, nll + cost

    start = [scalar(0), scalar(KALMAN_DIFFUSE), scalar(0)]
    *_, nll = scan(step, start, [ys], [pt.exp(log_q), pt.exp(log_r)])
    return {"nll": nll[-1]}


def kalman_series(sizes, ys, a, c, log_q, log_r):
    unit = pt.eye(sizes["N"], dtype="float32")

    def step(y, m, p, nll, a, c, noise, r):
        pc = p @ c
        f = pc @ c + r
        v = y - m @ c
        k = pc / f[:, None]
        cost = scalar(0.5) * (scalar(np.log(2 * np.pi)) + pt.log(f) + v * v / f)
        m = (m + k * v[:, None]) @ a.T
        p = a @ (p - k[:, :, None] * pc[:, None, :]) @ a.T + noise
        return m, p, nll + cost.sum()

    means = pt.zeros((sizes["S"], sizes["N"]), "float32")
    covariances = pt.zeros((sizes["S"], 1, 1), "float32") + unit
    others = [a, c, pt.exp(log_q) * unit, pt.exp(log_r)]
    *_, nll = scan(step, [means, covariances, scalar(0)], [ys], others)
    return {"nll": nll[-1] / scalar(sizes["T"] * sizes["S"])}


def neural_ode(sizes, y0, w1, b1, w2, b2):
    half, whole, sixth = (scalar(ODE_STEP * part) for part in (1 / 2, 1, 1 / 6))

    def step(y, w1, b1, w2, b2):
        field = lambda y: pt.tanh(y @ w1 + b1) @ w2 + b2
        k1 = field(y)
        k2 = field(y + half * k1)
        k3 = field(y + half * k2)
        k4 = field(y + whole * k3)
        return y + sixth * (k1 + 2 * k2 + 2 * k3 + k4)

    (ys,) = scan(step, [y0], others=[w1, b1, w2, b2], length=sizes["T"])
    return {"ys": ys}


def metropolis(sizes, x0, noise, log_u):
    def log_density(x):
        return pt.log(pt.exp(scalar(-0.5) * (x - 2) ** 2) + pt.exp(scalar(-0.5) * (x + 2) ** 2))

    def step(noise, log_u, x):
        proposal = x + scalar(METROPOLIS_WIDTH) * noise
        return pt.switch(log_u < log_density(proposal) - log_density(x), proposal, x)

    (xs,) = scan(step, [x0], [noise, log_u])
    return {"xs": xs}


def conjugate_gradients(sizes, a, b):
    """Runs a step before the first test, as all of PyTensor's loops do. If `b` is not 0, this step is needed anyway."""

    def step(x, r, p, square, a, limit):
        ap = a @ p
        alpha = square / (p @ ap)
        r = r - alpha * ap
        after = r @ r
        return (x + alpha * p, r, r + after / square * p, after), until(after <= limit)

    limit = scalar(CONJUGATE_GRADIENTS_TOLERANCE) * (b @ b)
    xs, *_ = scan(step, [pt.zeros_like(b), b, b, b @ b], others=[a, limit], length=sizes["N"])
    return {"x": xs[-1]}


def decode(sizes, embed, u, out, h0, first, end):
    """Handles a leading end token separately, because PyTensor's loops run a step before the first test."""

    def step(token, h, embed, u, out, end):
        h = pt.tanh(embed[token] + h @ u)
        token = pt.argmax(h @ out)
        return (token, h), until(pt.eq(token, end))

    found, _ = scan(step, [first, h0], others=[embed, u, out, end], length=sizes["T"])
    count = pt.switch(pt.eq(first, end), 0, found.shape[0])
    tokens = pt.full(sizes["T"], np.int64(-1))[:count].set(found[:count])
    return {"count": count, "tokens": tokens}


def scalar(value):
    """Returns an f32 constant, because a Python float would widen the result to f64."""
    return pt.constant(np.float32(value))


FORWARD = by_name(
    rnn, lstm, running_sum, s5_scan, ssm, chunked_loss, kalman, kalman_series, neural_ode, metropolis,
    conjugate_gradients, decode,
)
