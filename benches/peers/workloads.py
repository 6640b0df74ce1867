"""The names, outputs and differentiated inputs of the workloads: the table of PROTOCOL.md, shared by all Python peers."""

from dataclasses import dataclass

ODE_STEP = 1 / 16
METROPOLIS_WIDTH = 0.8
KALMAN_DIFFUSE = 1e7
CONJUGATE_GRADIENTS_TOLERANCE = 1e-10


class Declined(Exception):
    """Raised if the subject does not support the workload or the phase. The text is the reason."""


@dataclass(frozen=True)
class Workload:
    """One row of the table."""

    outputs: tuple[str, ...]
    """The names of the outputs of the forward phase."""
    differentiated: tuple[str, ...]
    """The inputs with respect to which training differentiates. Empty if the workload has no gradient."""
    loss_is_output: bool = False
    """True if the only output is the loss. Otherwise, the loss is the sum of the outputs' mean squares."""


WORKLOADS = {
    "rnn": Workload(("hs",), ("w", "u", "b")),
    "lstm": Workload(("hs",), ("w", "u", "b")),
    "running_sum": Workload(("ys",), ("xs",)),
    "s5": Workload(("x_re", "x_im"), ("a_re", "a_im", "bu_re", "bu_im")),
    "s5_scan": Workload(("x_re", "x_im"), ("a_re", "a_im", "bu_re", "bu_im")),
    "ssm": Workload(("y",), ("a", "dt", "b", "c", "x")),
    "chunked_loss": Workload(("loss",), ("hidden", "w"), loss_is_output=True),
    "kalman": Workload(("nll",), ("log_q", "log_r"), loss_is_output=True),
    "kalman_series": Workload(("nll",), ("a", "c", "log_q", "log_r"), loss_is_output=True),
    "neural_ode": Workload(("ys",), ("w1", "b1", "w2", "b2")),
    "metropolis": Workload(("xs",), ()),
    "conjugate_gradients": Workload(("x",), ("b",)),
    "decode": Workload(("count", "tokens"), ()),
}


def by_name(*programs, **others):
    """Returns all programs, keyed by name: `programs` under their function names, and `others` under the given names."""
    return {program.__name__: program for program in programs} | others


def runge_kutta(field, y):
    """Computes a step of `neural_ode` on arrays of any library."""
    k1 = field(y)
    k2 = field(y + ODE_STEP / 2 * k1)
    k3 = field(y + ODE_STEP / 2 * k2)
    k4 = field(y + ODE_STEP * k3)
    return y + ODE_STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def loss(row, outputs):
    """Computes the loss of a workload from its named outputs, which are arrays of any library."""
    named = [outputs[name] for name in row.outputs]
    if row.loss_is_output:
        return named[0]
    return sum((output * output).mean() for output in named)
