"""The workloads of `src/generality` in JAX: idiomatic programs, each jitted as a whole.

Each module defines functions from sizes and named inputs to named outputs, and registers them with `@workload`.
"""

import importlib
import pathlib
from dataclasses import dataclass
from typing import Callable


@dataclass(frozen=True)
class Generality:
    """A workload of this package."""

    function: Callable
    outputs: tuple[str, ...]
    differentiated: tuple[str, ...]
    loss_is_output: bool


ALL = {}
"""Every workload, keyed by name."""


def workload(*outputs, differentiated=(), loss_is_output=False):
    """Registers a function `f(sizes, **inputs)` that returns a dict with these outputs."""

    def register(function):
        ALL[function.__name__] = Generality(function, outputs, tuple(differentiated), loss_is_output)
        return function

    return register


for module in sorted(pathlib.Path(__file__).parent.glob("[a-z]*.py")):
    importlib.import_module(f"{__name__}.{module.stem}")
