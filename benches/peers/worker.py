"""A worker of the benchmarks for one Python peer: `python worker.py SUBJECT` answers the requests of PROTOCOL.md."""

import contextlib
import importlib
import json
import os
import sys
import time
import traceback

from safetensors.numpy import load_file, save_file

import memory
from workloads import Declined

SUBJECTS = {
    "jax": ("jax_workloads", {}),
    "torch-eager": ("torch_workloads", {"compiled": False}),
    "torch-compile": ("torch_workloads", {"compiled": True}),
    "pytensor": ("pytensor_workloads", {}),
}
"""The module and the program options of each subject, keyed by name."""


class Worker:
    """Answers requests one at a time."""

    def __init__(self, subject):
        module, self.options = SUBJECTS[subject]
        self.make = importlib.import_module(module).Program
        self.program = None

    def prepare(self, workload, sizes, phase, inputs, outputs):
        self.program = None
        arrays = load_file(inputs)
        wall, cpu = time.perf_counter(), time.process_time()
        program = self.make(workload, sizes, phase, arrays, **self.options)
        results = program.run()
        made = {"make_s": time.perf_counter() - wall, "make_cpu_s": time.process_time() - cpu}
        save_file({name: array.copy(order="C") for name, array in program.read(results).items()}, outputs)
        self.program = program
        return made

    def run(self, count):
        wall_s, cpu_s = [], []
        for _ in range(count):
            wall, cpu = time.perf_counter(), time.process_time()
            results = self.prepared().run()
            wall_s.append(time.perf_counter() - wall)
            cpu_s.append(time.process_time() - cpu)
            del results
        return {"wall_s": wall_s, "cpu_s": cpu_s}

    def peak(self):
        program = self.prepared()
        return {"allocator_bytes": program.allocator_peak(), "system_bytes": memory.system_peak(program.run)}

    def prepared(self):
        if self.program is None:
            raise RuntimeError("nothing is prepared")
        return self.program

    def answer(self, request):
        """Returns the answer to one request, as a JSON value."""
        do = request.pop("do")
        if do not in ("prepare", "run", "peak"):
            return {"failed": f"there is no request `{do}`"}
        try:
            return getattr(self, do)(**request)
        except Declined as why:
            return {"declined": str(why)}
        except Exception as error:
            traceback.print_exc()
            return {"failed": f"{type(error).__name__}: {first_lines(error)}"}


def first_lines(error):
    """Returns the first two lines of an error, because the first may only name the compiler."""
    return " ".join(str(error).strip().splitlines()[:2])


def keep_standard_output_for_answers():
    """Returns standard output as a file, and redirects the output of libraries and their compilers to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in SUBJECTS:
        sys.exit(f"usage: python worker.py {'|'.join(SUBJECTS)}")
    answers = keep_standard_output_for_answers()
    with contextlib.redirect_stdout(sys.stderr):
        worker = Worker(sys.argv[1])
        for line in sys.stdin:
            request = json.loads(line)
            if request["do"] == "quit":
                break
            print(json.dumps(worker.answer(request)), file=answers, flush=True)


if __name__ == "__main__":
    main()
