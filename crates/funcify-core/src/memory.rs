//! Limits the memory of a program: estimates the size of its tensors before they are allocated, and returns an error if
//! they would exceed the budget.
//!
//! A tensor's size may depend on data. An erroneous value could therefore make a program request more memory than the
//! machine has, and the allocator would then abort the process. `CompileOptions::memory_budget` sets the budget of a
//! single compiled function. All other functions, and [`evaluate`](crate::evaluate), use the budget of the process.
//!
//! The estimate includes live tensors and the histories that loops save. It treats a size of 0 as 1, because libraries
//! compute strides even for tensors without elements. It excludes temporary memory that a library allocates inside a
//! kernel.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Place, Result};
use crate::types::{DType, Dim, Sizes, TensorType};

/// The environment variable that sets the budget of the process. Its value is a number of bytes with an optional unit,
/// such as `512MiB`, `4GiB` or `1TiB`.
pub const MEMORY_BUDGET_VARIABLE: &str = "FUNCIFY_MEMORY_BUDGET";

/// The default budget, in bytes, if the memory size of the machine is unknown.
const DEFAULT_BUDGET: u64 = 16 << 30;

/// The budget of the process, or 0 before it is first read or set.
static BUDGET: AtomicU64 = AtomicU64::new(0);

/// Returns the budget of the process: the maximum number of bytes that the tensors of a program may occupy at once. The
/// options of a program can set a different budget.
///
/// The budget is the first of the following that is available: the value passed to [`set_memory_budget`], the
/// environment variable `FUNCIFY_MEMORY_BUDGET`, three quarters of the machine's memory (or of the limit of the
/// process's control group, if that is smaller), or 16 GiB.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::memory::memory_budget;
///
/// assert!(memory_budget() > 0);
/// ```
pub fn memory_budget() -> u64 {
    match BUDGET.load(Ordering::Relaxed) {
        0 => {
            let given = std::env::var(MEMORY_BUDGET_VARIABLE).ok().and_then(|text| parse_bytes(&text));
            let budget = given.unwrap_or_else(|| machine_bytes().map_or(DEFAULT_BUDGET, |bytes| bytes / 4 * 3)).max(1);
            // If another thread has set the budget in the meantime, use that thread's value.
            let earlier = BUDGET.compare_exchange(0, budget, Ordering::Relaxed, Ordering::Relaxed);
            earlier.map_or_else(|set| set, |_| budget)
        }
        budget => budget,
    }
}

/// Sets the budget of the process, in bytes. A budget of 0 is treated as 1.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::memory::{memory_budget, set_memory_budget};
///
/// set_memory_budget(4 << 30);
/// assert_eq!(memory_budget(), 4 << 30);
/// ```
pub fn set_memory_budget(bytes: u64) {
    BUDGET.store(bytes.max(1), Ordering::Relaxed);
}

/// Parses a number of bytes with an optional unit: `1024`, `64KiB`, `512MiB`, `4GiB`, `1TiB`. Returns `None` for any
/// other text.
fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let shift = match text[digits..].trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Returns the memory size of the machine, or the limit of the process's control group if that is smaller. Returns
/// `None` if both are unknown.
fn machine_bytes() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    });
    let groups = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let group = groups.iter().find_map(|path| std::fs::read_to_string(path).ok()?.trim().parse().ok());
    [machine, group].into_iter().flatten().min()
}

/// Returns the number of bytes of a tensor of type `ty` with `element` bytes per element, or `u64::MAX` on overflow.
/// Treats a size of 0 as 1. Returns `None` if a size is unbound or negative.
#[doc(hidden)]
pub fn bytes_of(ty: &TensorType, sizes: &Sizes, element: usize) -> Option<u64> {
    let size = |dim: &Dim| u64::try_from(dim.value(sizes).ok()?).ok();
    let dims = ty.shape.dims().iter();
    dims.map(size).try_fold(element as u64, |product, size| Some(product.saturating_mul(size?.max(1))))
}

/// Creates the error for tensors that exceed the budget. `held` is the number of bytes already in use.
#[doc(hidden)]
pub fn over_budget(at: &Place, what: String, needed: u64, held: u64, budget: u64) -> Error {
    Error::OverBudget { at: at.boxed(), what, needed, held, budget }
}

thread_local! {
    /// The number of bytes held by the reference evaluations that are running on this thread.
    static HELD: Cell<u64> = const { Cell::new(0) };
}

/// The memory that the evaluation of one graph or loop has reserved. Dropping it releases the memory.
pub(crate) struct MemoryReservation {
    bytes: u64,
}

impl MemoryReservation {
    pub(crate) fn empty() -> Self {
        MemoryReservation { bytes: 0 }
    }

    /// Reserves memory for `count` tensors of type `ty`, or returns an error if they would exceed the budget. Call this
    /// before creating the tensors.
    pub(crate) fn add(&mut self, at: &Place, count: u64, ty: &TensorType, sizes: &Sizes) -> Result<()> {
        // While a tensor is created, each element also exists as a 16-byte scalar. Each tensor also needs the
        // `HostTensor` struct itself.
        let of_tensor = size_of::<crate::host::HostTensor>() as u64;
        let Some(lasting) = bytes_of(ty, sizes, ty.dtype.size()) else { return Ok(()) };
        let peak = bytes_of(ty, sizes, bytes_during_creation(ty.dtype)).unwrap_or(u64::MAX);
        let [lasting, peak] = [lasting, peak].map(|bytes| count.saturating_mul(bytes.saturating_add(of_tensor)));
        let (held, budget) = (HELD.get(), memory_budget());
        if held.saturating_add(peak) > budget {
            let what = if count == 1 { ty.to_string() } else { format!("{count} rows of {ty}") };
            return Err(over_budget(at, what, peak, held, budget));
        }
        HELD.set(held.saturating_add(lasting));
        self.bytes = self.bytes.saturating_add(lasting);
        Ok(())
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        HELD.set(HELD.get().saturating_sub(self.bytes));
    }
}

/// Returns the peak number of bytes per element that the reference evaluator needs while it creates a tensor of type
/// `dtype`.
#[doc(hidden)]
pub fn bytes_during_creation(dtype: DType) -> usize {
    dtype.size() + size_of::<crate::host::Scalar>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read_with_their_unit() {
        assert_eq!(parse_bytes("1024"), Some(1024));
        assert_eq!(parse_bytes(" 3 GiB "), Some(3 << 30));
        assert_eq!(parse_bytes("64KiB"), Some(64 << 10));
        for text in ["", "GiB", "1.5GiB", "-1", "4 gigabytes", "99999999999TiB"] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }

    #[test]
    fn bytes_saturate_and_count_a_size_of_zero_as_one() {
        let mut sizes = Sizes::new();
        sizes.set(&crate::Symbol::new("T"), 3);
        let bytes = |text: &str| bytes_of(&TensorType::parse(text).unwrap(), &sizes, 4);
        assert_eq!(bytes("f32[]"), Some(4));
        assert_eq!(bytes("f32[T,0,2]"), Some(24));
        assert_eq!(bytes("f32[9223372036854775807,T]"), Some(u64::MAX));
        assert_eq!((bytes("f32[B]"), bytes("f32[T-4]")), (None, None));
    }
}
