//! Measures the memory use and the processor time of this process.

use std::time::Duration;

use cpu_time::ProcessTime;
use peak_alloc::PeakAlloc;

/// Counts the bytes allocated by Rust code.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Returns the processor time that all threads of this process have used so far.
pub(crate) fn processor_time() -> Duration {
    ProcessTime::now().as_duration()
}

/// The memory in use at one point in time, in bytes. Later peaks are measured relative to it.
pub(crate) struct MemoryBaseline {
    allocated: usize,
    resident: Option<usize>,
}

impl MemoryBaseline {
    /// Resets the peaks that the allocator and the system track, and returns the memory in use.
    pub(crate) fn now() -> MemoryBaseline {
        ALLOCATOR.reset_peak_usage();
        // Reset the peak resident set size to the current size (on Linux, see proc_pid_clear_refs(5)).
        let was_reset = std::fs::write("/proc/self/clear_refs", "5").is_ok();
        let resident = was_reset.then(|| read_status("self", "VmRSS:")).flatten();
        MemoryBaseline { allocated: ALLOCATOR.current_usage(), resident }
    }

    /// Returns the peak number of allocated bytes since this baseline, minus the number of bytes allocated at the
    /// baseline.
    pub(crate) fn allocated(&self) -> usize {
        ALLOCATOR.peak_usage().saturating_sub(self.allocated)
    }

    /// Returns the peak resident memory since this baseline, minus the memory resident at the baseline, in bytes.
    /// Returns `None` if the system does not report it.
    pub(crate) fn resident(&self) -> Option<usize> {
        Some(read_status("self", "VmHWM:")?.saturating_sub(self.resident?))
    }
}

/// Reads a value, in bytes, from `/proc/PROCESS/status`. Returns `None` on systems other than Linux, because only Linux
/// has this file.
pub(crate) fn read_status(process: &str, name: &str) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok()? * 1024)
}
