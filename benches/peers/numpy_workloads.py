"""The workloads of PROTOCOL.md in plain NumPy, in the precision of the inputs: the oracle for the peers' forward results.

Each workload is a slow and obvious Python loop over the step in the table. These loops are never timed.
"""

import numpy as np

from workloads import CONJUGATE_GRADIENTS_TOLERANCE, KALMAN_DIFFUSE, METROPOLIS_WIDTH, by_name, runge_kutta


def forward(workload, sizes, inputs):
    """Returns the outputs, keyed by name."""
    return FORWARD[workload](sizes, **inputs)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rnn(sizes, xs, h0, w, u, b):
    h, hs = h0, []
    for x in xs:
        h = np.tanh(x @ w + h @ u + b)
        hs.append(h)
    return {"hs": np.stack(hs)}


def lstm(sizes, xs, h0, c0, w, u, b):
    h, c, hs = h0, c0, []
    for x in xs:
        i, f, g, o = np.split(x @ w + h @ u + b, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        hs.append(h)
    return {"hs": np.stack(hs)}


def running_sum(sizes, xs):
    return {"ys": np.cumsum(xs, axis=0)}


def s5(sizes, a_re, a_im, bu_re, bu_im):
    a, bu = a_re + 1j * a_im, bu_re + 1j * bu_im
    x, states = np.zeros_like(a), []
    for t in range(sizes["T"]):
        x = a * x + bu[t]
        states.append(x)
    states = np.stack(states)
    return {"x_re": states.real, "x_im": states.imag}


def ssm(sizes, a, dt, b, c, x):
    h, ys = np.zeros_like(a), []
    for t in range(sizes["T"]):
        h = np.exp(dt[t][:, None] * a) * h + (dt[t] * x[t])[:, None] * b[t][None, :]
        ys.append((h * c[t][None, :]).sum(1))
    return {"y": np.stack(ys)}


def chunked_loss(sizes, hidden, w, targets):
    logits = hidden @ w
    largest = logits.max(1)
    log_sum = largest + np.log(np.exp(logits - largest[:, None]).sum(1))
    return {"loss": np.mean(log_sum - logits[np.arange(sizes["M"]), targets])}


def kalman(sizes, ys, log_q, log_r):
    q, r = np.exp(log_q), np.exp(log_r)
    m, p, nll = (ys.dtype.type(value) for value in (0, KALMAN_DIFFUSE, 0))
    for y in ys:
        f = p + r
        v = y - m
        k = p / f
        nll += 0.5 * (np.log(2 * np.pi) + np.log(f) + v * v / f)
        m, p = m + k * v, p * r / f + q
    return {"nll": np.asarray(nll)}


def kalman_series(sizes, ys, a, c, log_q, log_r):
    q, r = np.exp(log_q), np.exp(log_r)
    nll = 0.0
    for series in ys.T:
        m, p = np.zeros(sizes["N"]), np.eye(sizes["N"])
        for y in series:
            pc = p @ c
            f = c @ pc + r
            v = y - c @ m
            k = pc / f
            nll += 0.5 * (np.log(2 * np.pi) + np.log(f) + v * v / f)
            m = a @ (m + k * v)
            p = a @ (p - np.outer(k, pc)) @ a.T + q * np.eye(sizes["N"])
    return {"nll": np.asarray(nll / (sizes["T"] * sizes["S"]))}


def neural_ode(sizes, y0, w1, b1, w2, b2):
    def field(y):
        return np.tanh(y @ w1 + b1) @ w2 + b2

    y, ys = y0, []
    for _ in range(sizes["T"]):
        y = runge_kutta(field, y)
        ys.append(y)
    return {"ys": np.stack(ys)}


def metropolis(sizes, x0, noise, log_u):
    def log_density(x):
        return np.log(np.exp(-0.5 * (x - 2) ** 2) + np.exp(-0.5 * (x + 2) ** 2))

    x, xs = x0, []
    for t in range(sizes["T"]):
        proposal = x + METROPOLIS_WIDTH * noise[t]
        x = np.where(log_u[t] < log_density(proposal) - log_density(x), proposal, x)
        xs.append(x)
    return {"xs": np.stack(xs)}


def conjugate_gradients(sizes, a, b):
    x, r, p = np.zeros_like(b), b, b
    square, limit = b @ b, CONJUGATE_GRADIENTS_TOLERANCE * (b @ b)
    for _ in range(sizes["N"]):
        if square <= limit:
            break
        ap = a @ p
        alpha = square / (p @ ap)
        x, r = x + alpha * p, r - alpha * ap
        before, square = square, r @ r
        p = r + square / before * p
    return {"x": x}


def decode(sizes, embed, u, out, h0, first, end):
    token, h, tokens = int(first), h0, []
    while token != end and len(tokens) < sizes["T"]:
        h = np.tanh(embed[token] + h @ u)
        token = int(np.argmax(h @ out))
        tokens.append(token)
    padded = np.full(sizes["T"], -1, np.int64)
    padded[: len(tokens)] = tokens
    return {"count": np.asarray(len(tokens), np.int64), "tokens": padded}


FORWARD = by_name(
    rnn, lstm, running_sum, s5, ssm, chunked_loss, kalman, kalman_series, neural_ode, metropolis,
    conjugate_gradients, decode, s5_scan=s5,
)
