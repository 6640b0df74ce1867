//! Cancels running calls through a handle that loops check between steps. A thread, a signal handler or a deadline can
//! set the handle.
//!
//! A handle applies to everything that runs in its [scope](Cancellation::scope), on the current thread: the reference
//! evaluator, compiled functions of every backend, loops over closures, and backward passes started by a framework's
//! autodiff. Calls need no extra argument. Each call collects the active handles once, as [`ActiveHandles`]. After
//! that, each step costs one relaxed atomic load per handle.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

pub use crate::error::Progress;
use crate::error::{Error, Place, Result};

/// A handle that cancels the calls in its [`scope`](Cancellation::scope). A cancelled call returns
/// [`Error::Cancelled`]. Clones share the same state.
///
/// The handle is checked before each step of a loop, before each kernel of a program, and before each op that is
/// traced, differentiated, batched or rewritten. A running kernel is not interrupted. The results of the cancelled
/// call are lost, but its function can be called again. A cancelled call may return before its memory is freed, because
/// freeing a large amount of memory would delay the return.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use std::time::Duration;
/// use funcify::{Cancellation, Error, Graph, HostTensor, evaluate, while_loop};
///
/// let endless = Graph::build("endless", |g| {
///     while_loop(g.input("x", "f32[]"), |x| x.is_finite(), |x| x * 0.5)
/// })?;
/// let run = || evaluate(&endless, &[HostTensor::scalar(1f32)]);
///
/// let by_a_deadline = Cancellation::after(Duration::from_millis(20)).scope(run);
/// assert!(matches!(by_a_deadline, Err(Error::Cancelled { .. })));
///
/// let stop = Cancellation::new();
/// let by_another_thread = std::thread::scope(|threads| {
///     threads.spawn(|| stop.cancel());
///     stop.scope(run)
/// });
/// assert!(matches!(by_another_thread, Err(Error::Cancelled { .. })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancellation {
    cancelled: Arc<AtomicBool>,
    deadline: Option<(Duration, Instant)>,
}

impl Cancellation {
    /// Creates a handle without a deadline: it is set only by a call to [`cancel`](Cancellation::cancel).
    pub fn new() -> Self {
        Cancellation::default()
    }

    /// Creates a handle that is set after `time`, or earlier by [`cancel`](Cancellation::cancel). Each check of such a
    /// handle also reads the clock.
    pub fn after(time: Duration) -> Self {
        // If the clock cannot represent the deadline, the handle has none.
        let deadline = Instant::now().checked_add(time).map(|at| (time, at));
        Cancellation { cancelled: Arc::default(), deadline }
    }

    /// Creates a handle that is set while `flag` is `true`. A signal handler can set the flag.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use funcify::Cancellation;
    ///
    /// let interrupted = Arc::new(AtomicBool::new(false));
    /// let stop = Cancellation::from_flag(interrupted.clone());
    /// assert!(!stop.is_cancelled());
    /// interrupted.store(true, Ordering::Relaxed);
    /// assert!(stop.is_cancelled());
    /// ```
    pub fn from_flag(flag: Arc<AtomicBool>) -> Self {
        Cancellation { cancelled: flag, deadline: None }
    }

    /// Sets the handle. This cancels all current and future calls in its scopes, on any thread.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the handle is set: [`cancel`](Cancellation::cancel) was called, its flag is `true`, or its
    /// deadline has passed.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        let passed = |(_, at): &(Duration, Instant)| Instant::now() >= *at;
        self.cancelled.load(Ordering::Relaxed) || self.deadline.as_ref().is_some_and(passed)
    }

    /// Runs `f` with this handle active on the current thread. Handles of enclosing scopes stay active.
    pub fn scope<T>(&self, f: impl FnOnce() -> T) -> T {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                ACTIVE.with_borrow_mut(|active| active.handles.pop());
            }
        }
        ACTIVE.with_borrow_mut(|active| active.handles.push(self.clone()));
        let _leave = Leave;
        f()
    }

    /// Returns the reason for the cancellation, as shown in the error message.
    fn reason(&self) -> String {
        match (&self.deadline, self.cancelled.load(Ordering::Relaxed)) {
            (Some((time, _)), false) => format!("the deadline of {time:?} has passed"),
            _ => "it was cancelled".into(),
        }
    }
}

thread_local! {
    static ACTIVE: RefCell<ActiveHandles> = RefCell::default();
}

/// The cancellation handles that are active for a call.
///
/// Code that runs its own loops, such as a plug-in's loop over closures, should [`check`](ActiveHandles::check) the
/// handles before each step.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::cancel::{ActiveHandles, Cancellation, Progress};
/// use funcify::error::{Error, Place, Site};
///
/// let stop = Cancellation::new();
/// let stopped = stop.scope(|| {
///     let (handles, at) = (ActiveHandles::current(), Place::new("my_loop", Site::caller()));
///     for step in 0..10 {
///         handles.check(&at, Progress::Steps(step))?;
///         if step == 3 {
///             stop.cancel();
///         }
///     }
///     Ok(())
/// });
/// assert!(matches!(stopped, Err(Error::Cancelled { progress: Progress::Steps(4), .. })));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ActiveHandles {
    handles: SmallVec<[Cancellation; 1]>,
}

impl ActiveHandles {
    /// Returns the handles whose scopes enclose this call.
    pub fn current() -> Self {
        ACTIVE.with_borrow(ActiveHandles::clone)
    }

    /// Returns `true` if any of the handles is set.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.handles.iter().any(Cancellation::is_cancelled)
    }

    /// Returns an error if any of the handles is set. The error contains the place `at` and the progress.
    #[inline]
    pub fn check(&self, at: &Place, progress: Progress) -> Result<()> {
        self.check_at(|| at.clone(), progress)
    }

    /// Like [`check`](ActiveHandles::check), but creates the place only if there is an error.
    #[inline]
    pub fn check_at(&self, at: impl FnOnce() -> Place, progress: Progress) -> Result<()> {
        match self.handles.iter().find(|handle| handle.is_cancelled()) {
            None => Ok(()),
            Some(handle) => Err(cancelled(handle, at(), progress)),
        }
    }
}

/// Returns an error if any active handle has been cancelled or has passed its deadline. Call this function for a single
/// check, for example before tracing an op. Loops should use [`ActiveHandles`].
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::cancel::{Cancellation, Progress, check_cancelled};
/// use funcify::error::{Place, Site};
///
/// let stop = Cancellation::new();
/// let check = || check_cancelled(|| Place::new("my_pass", Site::Unknown), Progress::Ops(0));
/// assert!(stop.scope(check).is_ok());
/// stop.cancel();
/// assert!(stop.scope(check).is_err());
/// ```
#[inline]
pub fn check_cancelled(at: impl FnOnce() -> Place, progress: Progress) -> Result<()> {
    ACTIVE.with_borrow(|active| active.check_at(at, progress))
}

/// Drops `held`, which holds the memory of a call that failed with `error`. If the call was cancelled, drops it [on
/// another thread](free_on_another_thread).
#[doc(hidden)]
pub fn free_after<T: Send + 'static>(error: &Error, held: T) {
    if matches!(error, Error::Cancelled { .. }) {
        free_on_another_thread(move || drop(held));
    }
}

/// The delay before memory is freed, which lets the cancelled call return first.
const FREE_DELAY: Duration = Duration::from_millis(20);

/// Calls `free` on another thread after a short delay, so that a cancelled call returns before its memory is freed. The
/// operating system takes about 65 ms to reclaim a gigabyte. During that time, the process can neither map nor free
/// other memory.
#[doc(hidden)]
pub fn free_on_another_thread(free: impl FnOnce() + Send + 'static) {
    let later = move || {
        std::thread::sleep(FREE_DELAY);
        free();
    };
    // If no thread can be started, `spawn` drops the closure, which frees the memory on this thread.
    let _ = std::thread::Builder::new().name("funcify frees".into()).spawn(later);
}

#[cold]
fn cancelled(handle: &Cancellation, at: Place, progress: Progress) -> Error {
    Error::Cancelled { at: Box::new(at), progress, within: Vec::new(), reason: handle.reason() }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{ThreadId, current};

    use super::*;
    use crate::error::Site;

    /// A value that sends the id of the thread on which it is dropped.
    struct Held(Sender<ThreadId>);

    impl Drop for Held {
        fn drop(&mut self) {
            self.0.send(current().id()).unwrap();
        }
    }

    #[test]
    fn what_a_cancelled_call_held_is_freed_on_another_thread() {
        let freed_after = |error: Error| {
            let (says, said) = channel();
            free_after(&error, Held(says));
            said.recv().unwrap()
        };
        let at = Place::new("call", Site::Unknown);
        assert_ne!(freed_after(cancelled(&Cancellation::new(), at.clone(), Progress::Uncounted)), current().id());
        assert_eq!(freed_after(at.mismatch("x", "f32", "f64", "cast it")), current().id());
    }
}
