//! Measures the memory use and the processor time of this process.

use std::time::Duration;

use cpu_time::ProcessTime;
use peak_alloc::PeakAlloc;

/// The global allocator, which counts the bytes that Rust code allocates.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Returns the processor time that all threads of this process have used so far.
pub(crate) fn processor_time() -> Duration {
    ProcessTime::now().as_duration()
}

/// The memory in use at one point in time, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct MemoryBaseline {
    allocated: usize,
    resident: Option<usize>,
}

impl MemoryBaseline {
    pub(crate) fn now() -> MemoryBaseline {
        MemoryBaseline { allocated: ALLOCATOR.current_usage(), resident: read_status("VmRSS:") }
    }

    /// Resets the peaks that the allocator and the system track. Returns `true` if the system tracks a peak (on Linux,
    /// see proc_pid_clear_refs(5)).
    pub(crate) fn start_tracking() -> bool {
        ALLOCATOR.reset_peak_usage();
        std::fs::write("/proc/self/clear_refs", "5").is_ok()
    }

    /// Returns the peak number of bytes allocated since the last `start_tracking`, minus this baseline.
    pub(crate) fn allocated_since(&self) -> usize {
        ALLOCATOR.peak_usage().saturating_sub(self.allocated)
    }

    /// Returns the peak resident memory since the last `start_tracking`, minus this baseline, in bytes, or `None` if
    /// the system does not report it.
    pub(crate) fn resident_since(&self) -> Option<usize> {
        Some(read_status("VmHWM:")?.saturating_sub(self.resident?))
    }
}

/// Reads a value, in bytes, from `/proc/self/status`. Returns `None` on systems other than Linux, because only Linux
/// has this file.
fn read_status(name: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok()? * 1024)
}
