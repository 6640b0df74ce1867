//! Decides whether a program whose stage has a single part runs on the thread pool, and runs it there. Its large bodies
//! (`run/pieces.rs`) and instructions (`body/divided.rs`) then run in pieces, on several threads.
//!
//! Waking a sleeping thread takes longer than running most bodies. Therefore, the other threads of the pool spin until
//! the program ends ([`with_helpers`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The minimum estimated time of a piece, in nanoseconds. The thread that runs a shorter piece would spend most of the
/// time on fetching the operands from another thread's cache.
pub(crate) const MIN_NS_PER_PIECE: f64 = 8_000.0;
/// The minimum estimated time, in nanoseconds, that a program must spend in divided bodies in order to run on the
/// thread pool. Handing a program over to the pool takes about 20 microseconds, and spinning threads slow down other
/// threads.
const MIN_NS_FOR_POOL: f64 = 400_000.0;
/// The minimum share of its estimated time that a program must spend in divided bodies in order to run on the thread
/// pool. With a smaller share, most of what one thread writes is read by another one, out of its cache.
const MIN_SHARE_FOR_POOL: f64 = 0.5;
/// The maximum number of pieces.
pub(crate) const MAX_PIECES: usize = 16;
/// The number of unsuccessful attempts to find work after which an idle thread yields to other threads.
const MAX_SPINS: u32 = 2_000;
/// The number of unsuccessful attempts to find work after which an idle thread sleeps between attempts.
const MAX_YIELDS: u32 = 4_000;
/// The time for which an idle thread sleeps between attempts to find work.
const NAP: Duration = Duration::from_micros(50);

/// The estimated run time of a program, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Estimate {
    pub(crate) all: f64,
    /// The run time of the nodes that may run on several threads.
    pub(crate) on_threads: f64,
}

impl Estimate {
    /// Adds the time of `times` runs of another program.
    pub(crate) fn plus(self, other: Estimate, times: usize) -> Self {
        let times = times as f64;
        Estimate { all: self.all + times * other.all, on_threads: self.on_threads + times * other.on_threads }
    }

    /// Returns `true` if it pays off to run the program on the thread pool.
    pub(crate) fn pays_off(self) -> bool {
        self.on_threads > MIN_NS_FOR_POOL && self.on_threads > MIN_SHARE_FOR_POOL * self.all
    }
}

/// Returns `true` if the pool has several threads, and the current thread does not belong to it. A caller on a thread
/// of the pool already uses the pool.
pub(crate) fn is_pool_free() -> bool {
    rayon::current_num_threads() > 1 && rayon::current_thread_index().is_none()
}

/// Returns `true` if the current thread belongs to a thread pool with other threads. Any other thread would have to
/// hand the pieces of each body to the pool, and wait for them.
pub(crate) fn are_threads_at_hand() -> bool {
    rayon::current_thread_index().is_some() && rayon::current_num_threads() > 1
}

/// Runs a program on the thread pool. Until the program ends, the other threads look for pieces to run.
pub(crate) fn with_helpers(run: impl FnOnce() + Send) {
    let is_done = AtomicBool::new(false);
    let program = || {
        // Stop the helpers even if the program panics.
        let _end = EndOnDrop(&is_done);
        run();
    };
    rayon::join(program, || help_with(rayon::current_num_threads().min(MAX_PIECES) - 1, &is_done));
}

/// Makes `count` threads look for pieces to run until `is_done` is set. Uses `rayon::join`, because the tasks of a
/// scope would be allocated on the heap.
fn help_with(count: usize, is_done: &AtomicBool) {
    match count {
        0 => {}
        1 => help_until(is_done),
        _ => {
            rayon::join(|| help_until(is_done), || help_with(count - 1, is_done));
        }
    }
}

struct EndOnDrop<'d>(&'d AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn help_until(is_done: &AtomicBool) {
    let mut idle = 0;
    while !is_done.load(Ordering::Relaxed) {
        if rayon::yield_now() == Some(rayon::Yield::Executed) {
            idle = 0;
            continue;
        }
        idle += 1;
        match idle {
            0..MAX_SPINS => std::hint::spin_loop(),
            MAX_SPINS..MAX_YIELDS => std::thread::yield_now(),
            _ => std::thread::sleep(NAP),
        }
    }
}
