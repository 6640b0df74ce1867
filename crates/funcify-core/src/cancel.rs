//! Stopping what runs: a handle that another thread, a signal or a deadline sets, and that loops look at between steps.
//!
//! A handle reaches all that a closure runs on its thread ([`Cancellation::scope`]): the reference evaluation, functions of
//! every backend, loops over closures, and backward passes that a framework's autodiff starts. So no call needs an
//! argument for it. Each call reads once which handles are in force, as a [`Watch`]; a step then costs one relaxed load for
//! each of them.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

pub use crate::error::Ran;
use crate::error::{Error, Place, Result};

/// Stops what runs in its [`scope`](Cancellation::scope), with [`Error::Cancelled`]. Clones are the same handle.
///
/// Loops look at it before each step, programs before each kernel, and what is traced, differentiated, batched or rewritten before
/// each op; a kernel that runs is not interrupted. What was computed is lost, and functions may be called again. The memory of a call
/// may be freed some time after it has returned, as the system may take longer for it than the call for its end.
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
    /// A handle that nothing but [`cancel`](Cancellation::cancel) sets.
    pub fn new() -> Self {
        Cancellation::default()
    }

    /// A handle that is set when this time has passed, if it is not set before. With it, a look costs a reading of the
    /// clock, too.
    pub fn after(time: Duration) -> Self {
        // A deadline that no clock can show is none.
        let deadline = Instant::now().checked_add(time).map(|at| (time, at));
        Cancellation { cancelled: Arc::default(), deadline }
    }

    /// A handle that is set while this flag is: for what sets flags, as handlers of signals do.
    pub fn from_flag(flag: Arc<AtomicBool>) -> Self {
        Cancellation { cancelled: flag, deadline: None }
    }

    /// Stops what runs in its scopes, on any thread, and what will.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether it is set.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        let passed = |(_, at): &(Duration, Instant)| Instant::now() >= *at;
        self.cancelled.load(Ordering::Relaxed) || self.deadline.as_ref().is_some_and(passed)
    }

    /// Runs `f`, with this handle in force on this thread, beside those of the scopes around it.
    pub fn scope<T>(&self, f: impl FnOnce() -> T) -> T {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                IN_FORCE.with_borrow_mut(|watch| watch.handles.pop());
            }
        }
        IN_FORCE.with_borrow_mut(|watch| watch.handles.push(self.clone()));
        let _leave = Leave;
        f()
    }

    /// Why it is set.
    fn reason(&self) -> String {
        match (&self.deadline, self.cancelled.load(Ordering::Relaxed)) {
            (Some((time, _)), false) => format!("the deadline of {time:?} has passed"),
            _ => "it was cancelled".into(),
        }
    }
}

thread_local! {
    static IN_FORCE: RefCell<Watch> = RefCell::default();
}

/// The handles that are in force for a call. What runs loops outside of funcify's own programs, a plug-in's loop over
/// closures, asks it before each step.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    handles: SmallVec<[Cancellation; 1]>,
}

impl Watch {
    /// The handles whose scopes the caller is in.
    pub fn current() -> Self {
        IN_FORCE.with_borrow(Watch::clone)
    }

    /// Whether one of them is set.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.handles.iter().any(Cancellation::is_cancelled)
    }

    /// An error if one of them is set. `ran` is what `at` has done so far.
    #[inline]
    pub fn check(&self, at: &Place, ran: Ran) -> Result<()> {
        self.check_at(|| at.clone(), ran)
    }

    /// As [`check`](Watch::check), with a place that is made only for an error.
    #[inline]
    pub fn check_at(&self, at: impl FnOnce() -> Place, ran: Ran) -> Result<()> {
        match self.handles.iter().find(|handle| handle.is_cancelled()) {
            None => Ok(()),
            Some(handle) => Err(cancelled(handle, at(), ran)),
        }
    }
}

/// Returns an error if a handle is set whose scope the caller is in: for what asks once, as each op that is traced.
#[inline]
pub fn check_in_force(at: impl FnOnce() -> Place, ran: Ran) -> Result<()> {
    IN_FORCE.with_borrow(|watch| watch.check_at(at, ran))
}

/// Frees what a call held that ends with this error, [elsewhere](free_elsewhere) if it was cancelled.
pub fn free_after<T: Send + 'static>(error: &Error, held: T) {
    if matches!(error, Error::Cancelled { .. }) {
        free_elsewhere(move || drop(held));
    }
}

/// Gives a cancelled call time to return before its memory is freed.
const RETURNS_WITHIN: Duration = Duration::from_millis(20);

/// Frees what a cancelled call held, on another thread and after the call has returned. The system takes some 65 ms to take back a
/// gigabyte, and in that time lets the process neither map nor free other memory.
pub fn free_elsewhere(free: impl FnOnce() + Send + 'static) {
    let later = move || {
        std::thread::sleep(RETURNS_WITHIN);
        free();
    };
    // Without another thread it is freed here: the closure is dropped.
    let _ = std::thread::Builder::new().name("funcify frees".into()).spawn(later);
}

#[cold]
fn cancelled(handle: &Cancellation, at: Place, ran: Ran) -> Error {
    Error::Cancelled { at: Box::new(at), ran, within: Vec::new(), reason: handle.reason() }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{ThreadId, current};

    use super::*;
    use crate::error::Site;

    /// Says by which thread it is freed.
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
        assert_ne!(freed_after(cancelled(&Cancellation::new(), at.clone(), Ran::Part)), current().id());
        assert_eq!(freed_after(at.mismatch("x", "f32", "f64", "cast it")), current().id());
    }
}
