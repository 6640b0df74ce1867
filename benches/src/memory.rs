//! Memory and processor time of this process.

use std::time::Duration;

use cpu_time::ProcessTime;
use peak_alloc::PeakAlloc;

/// Counts the bytes that Rust code holds.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Returns the processor time of all threads of this process so far.
pub(crate) fn processor_time() -> Duration {
    ProcessTime::now().as_duration()
}

/// The memory at one moment, as the baseline for a later peak.
pub(crate) struct MemoryBaseline {
    allocated: usize,
    resident: Option<usize>,
}

impl MemoryBaseline {
    /// Starts tracking the peak.
    pub(crate) fn now() -> MemoryBaseline {
        ALLOCATOR.reset_peak_usage();
        // Sets the largest resident size to the present one (Linux, proc_pid_clear_refs(5)).
        let was_reset = std::fs::write("/proc/self/clear_refs", "5").is_ok();
        let resident = was_reset.then(|| read_status("VmRSS:")).flatten();
        MemoryBaseline { allocated: ALLOCATOR.current_usage(), resident }
    }

    /// Returns the peak of allocated bytes since the baseline, beyond those held at that moment.
    pub(crate) fn allocated(&self) -> usize {
        ALLOCATOR.peak_usage().saturating_sub(self.allocated)
    }

    /// Returns the same peak as counted by the system, in pages, or `None` if the system does not report it.
    pub(crate) fn resident(&self) -> Option<usize> {
        Some(read_status("VmHWM:")?.saturating_sub(self.resident?))
    }
}

/// Reads a line of the process's status, in bytes.
fn read_status(name: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok()? * 1024)
}
