"""Checks the peers: runs every subject on every workload through the protocol, on small random inputs, and compares the results.

`python check.py [NAME=COMMAND ...] [--only NAME ...] [--workload NAME ...]`, with the Python of the peers' environment. A
command adds a subject that is not a Python peer: `rlx=/path/to/rlx-worker`. Forward results are compared with NumPy's in
float64, and training results with JAX's in float64. Differences of up to 1e-4 of the largest value are accepted. Prints a table,
and exits with 1 if a result is wrong.
"""

import argparse
import contextlib
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file

import numpy_workloads
from workloads import WORKLOADS

TOLERANCE = 1e-4
PYTHON_SUBJECTS = ("jax", "torch-eager", "torch-compile", "pytensor")

SIZES = {
    "rnn": {"T": 50, "B": 4, "H": 16},
    "lstm": {"T": 30, "B": 4, "H": 16},
    "running_sum": {"T": 500, "W": 16},
    "s5": {"T": 64, "P": 8},
    "s5_scan": {"T": 64, "P": 8},
    "ssm": {"T": 32, "D": 16, "N": 4},
    "chunked_loss": {"M": 64, "D": 16, "V": 128, "C": 4},
    "kalman": {"T": 50},
    "kalman_series": {"T": 20, "S": 4, "N": 3},
    "neural_ode": {"T": 10, "B": 4, "H": 8},
    "metropolis": {"T": 50, "C": 8},
    "conjugate_gradients": {"N": 32},
    "decode": {"T": 32, "V": 64, "H": 16},
}


def main():
    arguments = parse()
    subjects = {name: [sys.executable, str(here() / "worker.py"), name] for name in PYTHON_SUBJECTS}
    subjects |= {name: shlex.split(command) for name, command in arguments.command}
    if arguments.only:
        subjects = {name: subjects[name] for name in arguments.only}
    cases = [(workload, phase) for workload in arguments.workload or WORKLOADS for phase in ("forward", "train")]
    table, wrong = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        expected = expect(cases, pathlib.Path(folder))
        for name, command in subjects.items():
            subject = Subject(name, command)
            for case in cases:
                verdict, note = check(subject, *case, pathlib.Path(folder), expected.get(case))
                table[case, name] = verdict
                wrong += verdict == "WRONG"
                print(f"{name:14} {case[0]:20} {case[1]:8} {verdict:10} {note}", flush=True)
            if code := subject.end():
                wrong += 1
                print(f"{name:14} its exit code is {code}")
    show(table, cases, subjects)
    print(f"\n{wrong} wrong")
    sys.exit(wrong > 0)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="these subjects")
    parser.add_argument("--workload", nargs="+", choices=list(WORKLOADS), help="these workloads")
    named = lambda text: tuple(text.split("=", 1))
    parser.add_argument("command", nargs="*", type=named, help="a further subject, NAME=COMMAND")
    return parser.parse_args()


def here():
    return pathlib.Path(__file__).parent


def expect(cases, folder):
    """Returns the expected results, for every case that has them. Also writes the inputs of the workloads."""
    expected = {}
    for workload in dict.fromkeys(workload for workload, _ in cases):
        arrays = inputs(workload, SIZES[workload], np.random.default_rng(7))
        save_file(arrays, folder / f"{workload}.safetensors")
        expected[workload, "forward"] = numpy_workloads.forward(workload, SIZES[workload], widened(arrays))
    training = [workload for workload, phase in cases if phase == "train" and WORKLOADS[workload].differentiated]
    if training:
        subprocess.run([sys.executable, "-c", "import check, sys; check.write_gradients(*sys.argv[1:])", str(folder), *training],
                       cwd=here(), check=True)
    return expected | {(workload, "train"): load_file(folder / f"{workload}.train") for workload in training}


def widened(arrays):
    """Returns the inputs in the precision of the expected results."""
    return {name: array.astype(np.float64) if array.dtype == np.float32 else array for name, array in arrays.items()}


def write_gradients(folder, *workloads):
    """Writes JAX's losses and gradients in float64. Needs its own process, because JAX sets the precision globally."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax_workloads

    for workload in workloads:
        arrays = load_file(f"{folder}/{workload}.safetensors")
        program = jax_workloads.Program(workload, SIZES[workload], "train", widened(arrays))
        save_file(program.read(program.run()), f"{folder}/{workload}.train")


class Subject:
    """A worker that runs all cases in turn. If it exits, it is restarted for the next case."""

    def __init__(self, name, command):
        self.name, self.command, self.worker = name, command, None

    def ask(self, request):
        """Returns the answer, or `None` if the worker exited."""
        if self.worker is None:
            self.worker = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            print(json.dumps(request), file=self.worker.stdin, flush=True)
            line = self.worker.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.end()
            return None
        return json.loads(line)

    def end(self):
        """Tells the worker to quit. Returns its exit code."""
        if self.worker is None:
            return 0
        worker, self.worker = self.worker, None
        with contextlib.suppress(BrokenPipeError):
            worker.communicate('{"do": "quit"}\n')
        return worker.wait()


def check(subject, workload, phase, folder, expected):
    """Runs one case through the protocol. Returns the verdict for the table, and a note."""
    outputs = folder / f"{subject.name}.{workload}.{phase}"
    prepare = {
        "do": "prepare",
        "workload": workload,
        "sizes": SIZES[workload],
        "phase": phase,
        "inputs": str(folder / f"{workload}.safetensors"),
        "outputs": str(outputs),
    }
    prepared = subject.ask(prepare)
    if prepared and "declined" in prepared:
        return "declined", prepared["declined"]
    if prepared and "failed" in prepared:
        return "WRONG", prepared["failed"]
    answers = [prepared, subject.ask({"do": "run", "count": 2}), subject.ask({"do": "peak"})]
    if None in answers:
        return "WRONG", "the worker ended"
    failed = next((answer["failed"] for answer in answers if "failed" in answer), None)
    if failed:
        return "WRONG", failed
    if expected is None:
        return "WRONG", "it has a gradient where there is none"
    off = wrong_answer(*answers) or difference(load_file(outputs), expected)
    return ("WRONG", off) if isinstance(off, str) else (f"{off:.0e}", "")


def wrong_answer(prepared, ran, peak):
    """Returns a description of the first malformed answer, or `None` if all answers are well-formed."""
    if set(prepared) != {"make_s", "make_cpu_s"} or prepared["make_s"] <= 0:
        return f"the answer to prepare is {prepared}"
    if set(ran) != {"wall_s", "cpu_s"} or any(len(times) != 2 or min(times) <= 0 for times in ran.values()):
        return f"the answer to run is {ran}"
    if set(peak) != {"allocator_bytes", "system_bytes"}:
        return f"the answer to peak is {peak}"
    return None


def difference(found, expected):
    """Returns the largest difference, relative to the largest value, or a description of the error."""
    if set(found) != set(expected):
        return f"it returns {sorted(found)} rather than {sorted(expected)}"
    worst = 0.0
    for name, right in expected.items():
        given = found[name]
        integers = np.issubdtype(right.dtype, np.integer)
        if given.shape != right.shape or given.dtype != (np.int64 if integers else np.float32):
            return f"`{name}` is {given.dtype}{list(given.shape)}"
        off = np.max(np.abs(given.astype(np.float64) - right)) / max(np.max(np.abs(right)), 1e-30)
        if not off <= (0 if integers else TOLERANCE):
            return f"`{name}` is off by {off:.1e} of its largest value"
        worst = max(worst, off)
    return worst


def show(table, cases, subjects):
    """Prints a table of the verdicts, one row per case."""
    print(f"\n{'':30}" + "".join(f"{name:>15}" for name in subjects))
    for workload, phase in cases:
        row = "".join(f"{table[(workload, phase), name]:>15}" for name in subjects)
        print(f"{workload + ' ' + phase:30}{row}")


def inputs(workload, sizes, random):
    """Returns small random inputs for which the workload is numerically stable."""
    size = lambda letters: tuple(sizes[letter] for letter in letters)
    normal = lambda shape, deviation=1.0: (deviation * random.standard_normal(shape)).astype(np.float32)
    uniform = lambda shape, low, high: random.uniform(low, high, shape).astype(np.float32)
    number = lambda value: np.asarray(value, np.float32)
    match workload:
        case "rnn":
            t, b, h = size("TBH")
            weights = {"w": normal((h, h), 0.5 / h**0.5), "u": normal((h, h), 0.8 / h**0.5), "b": normal((h,), 0.1)}
            return {"xs": normal((t, b, h)), "h0": normal((b, h), 0.1), **weights}
        case "lstm":
            t, b, h = size("TBH")
            weights = {"w": normal((h, 4 * h), 0.5 / h**0.5), "u": normal((h, 4 * h), 0.5 / h**0.5)}
            start = {"h0": normal((b, h), 0.1), "c0": normal((b, h), 0.1)}
            return {"xs": normal((t, b, h)), **start, **weights, "b": normal((4 * h,), 0.1)}
        case "running_sum":
            return {"xs": normal(size("TW"), 0.1)}
        case "s5" | "s5_scan":
            t, p = size("TP")
            factors = {"a_re": uniform((p,), 0.5, 0.9), "a_im": uniform((p,), -0.4, 0.4)}
            return {**factors, "bu_re": normal((t, p)), "bu_im": normal((t, p))}
        case "ssm":
            t, d, n = size("TDN")
            return {
                "a": uniform((d, n), -8, -0.5),
                "dt": uniform((t, d), 0.01, 0.1),
                "b": normal((t, n)),
                "c": normal((t, n)),
                "x": normal((t, d)),
            }
        case "chunked_loss":
            m, d, v = size("MDV")
            targets = random.integers(0, v, m, dtype=np.int64)
            return {"hidden": normal((m, d)), "w": normal((d, v), d**-0.5), "targets": targets}
        case "kalman":
            return {"ys": normal(size("T")), "log_q": number(-1.5), "log_r": number(-0.2)}
        case "kalman_series":
            n = sizes["N"]
            variances = {"log_q": number(-1.5), "log_r": number(-0.2)}
            return {"ys": normal(size("TS")), "a": normal((n, n), 0.4 / n**0.5), "c": normal((n,)), **variances}
        case "neural_ode":
            b, h = size("BH")
            first = {"w1": normal((2, h), 0.7), "b1": normal((h,), 0.1)}
            return {"y0": normal((b, 2)), **first, "w2": normal((h, 2), h**-0.5), "b2": normal((2,), 0.1)}
        case "metropolis":
            t, c = size("TC")
            return {"x0": normal((c,)), "noise": normal((t, c)), "log_u": np.log(uniform((t, c), 1e-7, 1))}
        case "conjugate_gradients":
            n = sizes["N"]
            factor = normal((n, 2 * n), 2 / (2 * n) ** 0.5)
            return {"a": factor @ factor.T + np.eye(n, dtype=np.float32), "b": normal((n,))}
        case "decode":
            v, h = size("VH")
            network = {"embed": normal((v, h)), "u": normal((h, h), 1.2 * h**-0.5), "out": normal((h, v), h**-0.5)}
            tokens = {"first": np.asarray(1, np.int64), "end": np.asarray(v - 1, np.int64)}
            return {**network, "h0": normal((h,), 0.1), **tokens}


if __name__ == "__main__":
    main()
