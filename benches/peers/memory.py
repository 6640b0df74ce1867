"""Measures the peak memory of one run, as counted by the system."""

import ctypes
import gc
import resource
import sys


def system_peak(run):
    """Runs `run` once. Returns the peak resident size of this process during the run, minus the size before it, in bytes.

    Linux can reset the peak resident size to the current size (proc_pid_clear_refs(5)). Other systems cannot, so there the
    result is the growth of the all-time peak, which is 0 if an earlier run used as much memory.
    """
    gc.collect()
    return_freed_pages()
    if reset_largest():
        before = status("VmRSS:")
        result = run()
        peak = status("VmHWM:") - before
    else:
        before = largest_ever()
        result = run()
        peak = largest_ever() - before
    del result
    return max(peak, 0)


def return_freed_pages():
    """Releases pages that the C allocator keeps from earlier runs, which would hide the memory of this run."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        pass


def reset_largest():
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        return True
    except OSError:
        return False


def status(name):
    """Reads a line of `/proc/self/status`, in bytes."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(name))
    return int(line.split()[1]) * 1024


def largest_ever():
    """Returns the all-time peak in bytes. Linux reports it in KiB, macOS in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
