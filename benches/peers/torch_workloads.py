"""The workloads of PROTOCOL.md in PyTorch. Each is written once and runs in two forms: eager, and with `torch.compile`.

A workload gets its loops from the argument `loops`. In the eager form, these are Python loops: each step is dispatched and
recorded on autograd's tape. In the compiled form, they are PyTorch's structured loops (`scan`, `associative_scan`,
`while_loop` of `torch._higher_order_ops`), so the compiler sees one loop instead of a copy of the body for every step.
PyTorch uses its default number of threads: one per core within an operation.
"""

import math
import os
import tempfile

# Compiled code goes to an empty temporary folder, so that every process measures the full build time.
_compiled_code = tempfile.TemporaryDirectory(prefix="torchinductor_")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = _compiled_code.name

import torch
from torch._higher_order_ops import associative_scan, scan, while_loop

from workloads import (
    CONJUGATE_GRADIENTS_TOLERANCE, KALMAN_DIFFUSE, METROPOLIS_WIDTH, WORKLOADS, Declined, by_name, loss, runge_kutta,
)


class Program:
    """A workload with its inputs as tensors, compiled at its first run if requested."""

    def __init__(self, workload, sizes, phase, inputs, compiled):
        self.row = WORKLOADS[workload]
        self.phase = phase
        if phase == "train" and not self.row.differentiated:
            raise Declined("the workload has no gradient")
        if compiled and (workload, phase) in DECLINED_COMPILED:
            raise Declined(DECLINED_COMPILED[workload, phase])
        self.inputs = {name: torch.from_numpy(value) for name, value in inputs.items()}
        loops, forward = (Structured, COMPILED[workload]) if compiled else (Python, EAGER[workload])
        if phase == "train":
            self.differentiated = [self.inputs[name].requires_grad_() for name in self.row.differentiated]
            function = lambda inputs: loss(WORKLOADS[workload], forward(loops, sizes, **inputs))
        else:
            function = lambda inputs: forward(loops, sizes, **inputs)
        self.function = torch.compile(function, fullgraph=True, dynamic=False) if compiled else function

    def run(self):
        """Runs the program once. On the CPU, an operation returns only when it is done."""
        if self.phase == "train":
            value = self.function(self.inputs)
            return value.detach(), *torch.autograd.grad(value, self.differentiated)
        with torch.no_grad():
            outputs = self.function(self.inputs)
        return [outputs[name] for name in self.row.outputs]

    def read(self, results):
        """Returns the results, keyed by name."""
        gradients = (f"grad_{name}" for name in self.row.differentiated)
        names = self.row.outputs if self.phase == "forward" else ("loss", *gradients)
        return {name: value.numpy() for name, value in zip(names, results, strict=True)}

    def allocator_peak(self):
        """Returns the peak of PyTorch's allocated bytes in a run, minus the bytes allocated before it."""
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            results = self.run()
        del results
        held = most = 0
        for event in sorted(memory_events(profile), key=lambda event: event.start_ns()):
            held += event.nbytes()
            most = max(most, held)
        return most


def memory_events(profile):
    """Returns all allocation events in order. A release is an event with a negative size."""
    return [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]


class Python:
    """Loops in the style of eager PyTorch."""

    @staticmethod
    def scan(step, state, rows, length=None):
        """Returns the last state and the stacked outputs of `step(state, row)` over rows, or over `length` steps."""
        unbound = zip(*(tensor.unbind() for tensor in rows)) if rows else ((),) * length
        outputs = []
        for row in unbound:
            state, output = step(state, row)
            outputs.append(output)
        return state, None if outputs[0] is None else torch.stack(outputs)

    @staticmethod
    def loop(goes_on, step, state):
        """Runs steps while `goes_on(*state)` is true."""
        while goes_on(*state):
            state = step(*state)
        return state


class Structured:
    """The same loops in a form that `torch.compile` keeps as loops."""

    @staticmethod
    def scan(step, state, rows, length=None):
        # PyTorch rejects steps whose results alias each other: an output that is also the state and, in training, a
        # state that is saved for the backward pass. Its compiler also rejects steps without an output.
        def without_aliases(state, row):
            state, output = step(state, row)
            if torch.is_grad_enabled():
                state = tuple(part.clone() for part in state)
            return state, torch.zeros(()) if output is None else output.clone()

        return scan(without_aliases, state, rows or None, length=length)

    @staticmethod
    def loop(goes_on, step, state):
        return while_loop(goes_on, step, state)


def rnn(loops, sizes, xs, h0, w, u, b):
    def step(state, row):
        (h,), (x,) = state, row
        h = torch.tanh(x @ w + h @ u + b)
        return (h,), h

    return {"hs": loops.scan(step, (h0,), (xs,))[1]}


def lstm(loops, sizes, xs, h0, c0, w, u, b):
    def step(state, row):
        (h, c), (x,) = state, row
        i, f, g, o = (x @ w + h @ u + b).chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return (h, c), h

    return {"hs": loops.scan(step, (h0, c0), (xs,))[1]}


def running_sum(loops, sizes, xs):
    def step(state, row):
        (total,), (x,) = state, row
        total = total + x
        return (total,), total

    return {"ys": loops.scan(step, (torch.zeros(sizes["W"]),), (xs,))[1]}


def s5(loops, sizes, a_re, a_im, bu_re, bu_im):
    def compose(earlier, later):
        a_re, a_im, b_re, b_im = earlier
        c_re, c_im, d_re, d_im = later
        return (
            c_re * a_re - c_im * a_im,
            c_re * a_im + c_im * a_re,
            c_re * b_re - c_im * b_im + d_re,
            c_re * b_im + c_im * b_re + d_im,
        )

    steps = sizes["T"]
    factors = (a_re.expand(steps, -1).contiguous(), a_im.expand(steps, -1).contiguous())
    _, _, x_re, x_im = associative_scan(compose, (*factors, bu_re, bu_im), dim=0, combine_mode="generic")
    return {"x_re": x_re, "x_im": x_im}


def s5_scan_complex(loops, sizes, a_re, a_im, bu_re, bu_im):
    """Uses complex numbers, which need fewer dispatched operations."""
    a = torch.complex(a_re, a_im)

    def step(state, row):
        (x,), (bu,) = state, row
        x = a * x + bu
        return (x,), x

    _, states = loops.scan(step, (torch.zeros_like(a),), (torch.complex(bu_re, bu_im),))
    return {"x_re": states.real, "x_im": states.imag}


def s5_scan_real(loops, sizes, a_re, a_im, bu_re, bu_im):
    """Uses pairs of real numbers, because the compiler does not generate its own code for complex ones."""

    def step(state, row):
        (x_re, x_im), (bu_re, bu_im) = state, row
        x_re, x_im = a_re * x_re - a_im * x_im + bu_re, a_re * x_im + a_im * x_re + bu_im
        return (x_re, x_im), torch.stack((x_re, x_im))

    start = (torch.zeros(sizes["P"]), torch.zeros(sizes["P"]))
    _, states = loops.scan(step, start, (bu_re, bu_im))
    return {"x_re": states[:, 0], "x_im": states[:, 1]}


def ssm(loops, sizes, a, dt, b, c, x):
    def step(state, row):
        (h,), (dt, b, c, x) = state, row
        h = torch.exp(dt[:, None] * a) * h + (dt * x)[:, None] * b[None, :]
        return (h,), (h * c[None, :]).sum(1)

    start = (torch.zeros(sizes["D"], sizes["N"]),)
    return {"y": loops.scan(step, start, (dt, b, c, x))[1]}


def chunked_loss(loops, sizes, hidden, w, targets):
    chunks, tokens = sizes["C"], sizes["M"] // sizes["C"]

    def step(state, row):
        (total,), (hidden, targets) = state, row
        return (total + torch.nn.functional.cross_entropy(hidden @ w, targets, reduction="sum"),), None

    rows = (hidden.reshape(chunks, tokens, -1), targets.reshape(chunks, tokens))
    (total,), _ = loops.scan(step, (torch.zeros(()),), rows)
    return {"loss": total / sizes["M"]}


def kalman(loops, sizes, ys, log_q, log_r):
    q, r = log_q.exp(), log_r.exp()

    def step(state, row):
        (m, p, nll), (y,) = state, row
        f = p + r
        v = y - m
        k = p / f
        cost = 0.5 * (math.log(2 * math.pi) + f.log() + v * v / f)
        return (m + k * v, p * r / f + q, nll + cost), None

    start = (torch.zeros(()), torch.full((), KALMAN_DIFFUSE), torch.zeros(()))
    (_, _, nll), _ = loops.scan(step, start, (ys,))
    return {"nll": nll}


def kalman_series(loops, sizes, ys, a, c, log_q, log_r):
    q, r = log_q.exp(), log_r.exp()
    unit = torch.eye(sizes["N"])

    def step(state, row):
        (m, p, nll), (y,) = state, row
        pc = p @ c
        f = pc @ c + r
        v = y - m @ c
        k = pc / f[:, None]
        cost = 0.5 * (math.log(2 * math.pi) + f.log() + v * v / f)
        m = (m + k * v[:, None]) @ a.T
        p = a @ (p - k[:, :, None] * pc[:, None, :]) @ a.T + q * unit
        return (m, p, nll + cost.sum()), None

    covariances = unit.expand(sizes["S"], -1, -1).contiguous()
    start = (torch.zeros(sizes["S"], sizes["N"]), covariances, torch.zeros(()))
    (_, _, nll), _ = loops.scan(step, start, (ys,))
    return {"nll": nll / ys.numel()}


def neural_ode(loops, sizes, y0, w1, b1, w2, b2):
    def field(y):
        return torch.tanh(y @ w1 + b1) @ w2 + b2

    def step(state, _):
        (y,) = state
        y = runge_kutta(field, y)
        return (y,), y

    return {"ys": loops.scan(step, (y0,), (), length=sizes["T"])[1]}


def metropolis(loops, sizes, x0, noise, log_u):
    def log_density(x):
        return (torch.exp(-0.5 * (x - 2) ** 2) + torch.exp(-0.5 * (x + 2) ** 2)).log()

    def step(state, row):
        (x,), (noise, log_u) = state, row
        proposal = x + METROPOLIS_WIDTH * noise
        x = torch.where(log_u < log_density(proposal) - log_density(x), proposal, x)
        return (x,), x

    return {"xs": loops.scan(step, (x0,), (noise, log_u))[1]}


def conjugate_gradients(loops, sizes, a, b):
    limit = CONJUGATE_GRADIENTS_TOLERANCE * (b @ b)

    def goes_on(count, x, r, p, square):
        return (square > limit) & (count < sizes["N"])

    def step(count, x, r, p, square):
        ap = a @ p
        alpha = square / (p @ ap)
        r = r - alpha * ap
        after = r @ r
        return count + 1, x + alpha * p, r, r + after / square * p, after

    # PyTorch's loop differentiates only the parts of the state whose initial value requires a gradient, and silently
    # ignores the others. So x must start from a zero that depends on b.
    start = (torch.zeros((), dtype=torch.int64), 0 * b, b.clone(), b.clone(), b @ b)
    return {"x": loops.loop(goes_on, step, start)[1]}


def decode(loops, sizes, embed, u, out, h0, first, end):
    def goes_on(count, token, h, tokens):
        return (token != end) & (count < sizes["T"])

    def step(count, token, h, tokens):
        h = torch.tanh(embed.index_select(0, token.reshape(1))[0] + h @ u)
        token = torch.argmax(h @ out)
        return count + 1, token, h, tokens.scatter(0, count.reshape(1), token.reshape(1))

    tokens = torch.full((sizes["T"],), -1)
    count, _, _, tokens = loops.loop(goes_on, step, (torch.zeros((), dtype=torch.int64), first.clone(), h0.clone(), tokens))
    return {"count": count, "tokens": tokens}


EAGER = by_name(
    rnn, lstm, running_sum, s5, ssm, chunked_loss, kalman, kalman_series, neural_ode, metropolis,
    conjugate_gradients, decode, s5_scan=s5_scan_complex,
)

COMPILED = {**EAGER, "s5_scan": s5_scan_real}

DECLINED_COMPILED = {}
"""The workloads that the structured loops do not support, with the compiler's own message if there is one."""
